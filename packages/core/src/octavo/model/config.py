"""The shape of a model in explicit fields; the only place that reads a foreign configuration."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.model.source import ModelFiles

if TYPE_CHECKING:
    from octavo.model.config_reader import ConfigReader
    from octavo.plugins.registry import Registry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """Rotary position embedding (Su et al. 2021) and how it is stretched.

    Attributes:
        theta: base of the wavelengths.
        dim: dimensions of a head that are rotated.
        kind: "default", "linear", "dynamic", "llama3", "yarn" or "longrope".
        factor: of linear, dynamic, llama3 and yarn.
        low_freq_factor, high_freq_factor: of llama3.
        original_max_position: length that the model was trained with before it was stretched; of all but default and linear.
        beta_fast, beta_slow: of yarn: turns within the original length from which a frequency is kept, and up to which it is stretched.
        truncate: of yarn: the dimensions between which it blends are rounded outwards.
        short_factors, long_factors: of longrope: dim / 2 divisors of the inverse frequencies, up to the original length and beyond.
        attention_factor: what cosines and sines are multiplied with.
        frequency_factors: dim / 2 numbers that the inverse frequencies are divided by, after what `kind` does; None is all ones.
    """

    theta: float
    dim: int
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    attention_factor: float = 1.0
    frequency_factors: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig:
    """A mixture of experts in place of the MLP (Shazeer et al. 2017).

    Attributes:
        num_experts, num_experts_per_token: how many there are, and how many a token is sent to.
        intermediate_size: of one expert.
        normalize_weights: the weights of a token's experts are made to add up to 1.
        dense_layers: layers that have an ordinary MLP instead.
    """

    num_experts: int
    num_experts_per_token: int
    intermediate_size: int
    normalize_weights: bool
    dense_layers: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A decoder's shape.

    Attributes:
        architecture: name in the registry of models, such as "llama".
        vocab_size, hidden_size, intermediate_size, num_layers, num_heads, num_kv_heads, head_size: as they say.
        rms_norm_eps: of every RMSNorm.
        rope: rotary embedding.
        local_rope: that of the layers with a window, where they have their own (Gemma 3).
        max_position: longest sequence the model was made for.
        tie_embeddings: the head is the embedding.
        attention_bias: whether query, key and value projections have one.
        output_bias: whether attention's output projection has one.
        mlp_bias: whether the MLP's projections have one.
        qk_norm: queries and keys are normed, a head at a time, before they are rotated.
        activation: of the MLP's gate: "silu" or "gelu_tanh".
        sliding_window: tokens a query sees in layers with a window, itself included; None: no layer has one.
        windowed_layers: which layers have the window, one flag a layer; None: all, if there is a window.
        attention_scale: what scores are multiplied with; None is head_size ** -0.5.
        attention_soft_cap, logit_soft_cap: c of c * tanh(x / c) on scores and logits; None is no cap.
        embedding_scale: what embeddings are multiplied with.
        experts: a mixture of experts; None where every layer has an ordinary MLP.
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
    local_rope: RopeConfig | None = None
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    activation: str = "silu"
    sliding_window: int | None = None
    windowed_layers: tuple[bool, ...] | None = None
    attention_scale: float | None = None
    attention_soft_cap: float | None = None
    logit_soft_cap: float | None = None
    embedding_scale: float = 1.0
    experts: ExpertsConfig | None = None
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    stored_dtype: str = "float32"

    @property
    def default_length(self) -> int:
        """Longest sequence where a user does not ask for one: with LongRoPE what the model was trained with before it was stretched,
        since an engine for longer sequences turns short ones otherwise than the model was trained to.
        """
        return min(self.rope.original_max_position, self.max_position) if self.rope.kind == "longrope" else self.max_position

    def window(self, layer: int) -> int | None:
        """Tokens a query sees in a layer, itself included; None is all."""
        if self.windowed_layers is not None and not self.windowed_layers[layer]:
            return None
        return self.sliding_window


def load_model_config(files: ModelFiles, readers: "Registry[ConfigReader] | None" = None) -> ModelConfig:
    """Read the shape of a model on disk, with the end-of-sequence ids of its `generation_config.json` added.

    A `config.json` whose `model_type` is among `readers`, those of plugins, is read by them.

    Raises `CheckpointError` naming the file and the field that is missing, damaged or of a kind that Octavo does not run, and
    `PluginError` for a reader that does not do what readers do.
    """
    from octavo.model.foreign import ForeignFields, read_json_object
    from octavo.model.gguf_config import from_gguf
    from octavo.model.gguf_metadata import read_gguf_metadata

    if files.config is None:
        config = from_gguf(read_gguf_metadata(files.weights[0], with_data=not files.dummy))
    else:
        config = _from_config_json(files.config, readers)
    also: tuple[int, ...] = ()
    if files.generation_config is not None:
        also = ForeignFields(read_json_object(files.generation_config), str(files.generation_config)).token_ids("eos_token_id")
    return replace(config, eos_token_ids=_in_vocabulary(tuple(dict.fromkeys(config.eos_token_ids + also)), config.vocab_size, files.name))


def _in_vocabulary(eos_token_ids: tuple[int, ...], vocab_size: int, name: str) -> tuple[int, ...]:
    """The ids that the model can draw: another one ends nothing, and must not become an index of logits."""
    beyond = [token_id for token_id in eos_token_ids if token_id >= vocab_size]
    if beyond:
        _log.warning("end-of-sequence ids %s of %s are beyond its vocabulary of %s: they are left out", beyond, name, f"{vocab_size:,}")
    return tuple(token_id for token_id in eos_token_ids if token_id < vocab_size)


def _from_config_json(path: Path, readers: "Registry[ConfigReader] | None") -> ModelConfig:
    from octavo.model.config_reader import read_foreign_config
    from octavo.model.foreign import ForeignFields, read_json_object
    from octavo.model.huggingface_config import from_huggingface

    values = read_json_object(path)
    config = None if readers is None else read_foreign_config(ForeignFields(values, str(path)), readers)
    return from_huggingface(values, name=str(path)) if config is None else config
