"""The shape of a model in explicit fields; the only place that reads a foreign configuration."""

from dataclasses import dataclass, replace

from octavo.model.source import ModelFiles


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """Rotary position embedding (Su et al. 2021) and how it is stretched.

    Attributes:
        theta: base of the wavelengths.
        dim: dimensions of a head that are rotated.
        kind: "default", "linear" or "llama3".
        factor: of linear and llama3.
        low_freq_factor, high_freq_factor, original_max_position: of llama3.
        frequency_factors: dim / 2 numbers that the inverse frequencies are divided by, after what `kind` does; None is all ones.
    """

    theta: float
    dim: int
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 0
    frequency_factors: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A decoder's shape.

    Attributes:
        architecture: name in the registry of models, such as "llama".
        vocab_size, hidden_size, intermediate_size, num_layers, num_heads, num_kv_heads, head_size: as they say.
        rms_norm_eps: of every RMSNorm.
        rope: rotary embedding.
        max_position: longest sequence the model was made for.
        tie_embeddings: the head is the embedding.
        attention_bias, mlp_bias: whether the projections have one.
        sliding_window: tokens a query sees, itself included; None is all.
        eos_token_ids: every id that ends an answer.
        bos_token_id: begins a sequence, where the model has one.
        stored_dtype: of the checkpoint: float32, bfloat16, float16 or, for quantized files, "quantized".
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    rms_norm_eps: float
    rope: RopeConfig
    max_position: int
    tie_embeddings: bool
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    stored_dtype: str = "float32"


def load_model_config(files: ModelFiles) -> ModelConfig:
    """Read the shape of a model on disk, with the end-of-sequence ids of its `generation_config.json` added.

    Raises `CheckpointError` naming the file and the field that is missing, damaged or of a kind that Octavo does not run.
    """
    from octavo.model.foreign import ForeignFields, read_json_object
    from octavo.model.gguf_config import from_gguf
    from octavo.model.gguf_metadata import read_gguf_metadata
    from octavo.model.huggingface_config import from_huggingface

    if files.config is None:
        config = from_gguf(read_gguf_metadata(files.weights[0]))
    else:
        config = from_huggingface(read_json_object(files.config), name=str(files.config))
    if files.generation_config is None:
        return config
    also = ForeignFields(read_json_object(files.generation_config), str(files.generation_config)).token_ids("eos_token_id")
    return replace(config, eos_token_ids=tuple(dict.fromkeys(config.eos_token_ids + also)))
