"""`config.json` of Transformers -> `ModelConfig`, for decoders of Llama's shape and those that differ from it by a little.

Fields and their defaults: https://huggingface.co/docs/transformers/model_doc/llama, and the pages of the other architectures in
`huggingface_families`. Code that a model brings is never run.
"""

from typing import Any

from octavo.model.config import ModelConfig
from octavo.model.foreign import ForeignFields
from octavo.model.huggingface_families import FAMILIES, Family, with_windows
from octavo.model.huggingface_rope import longest_position, read_rope

STORED_DTYPES = ("float32", "bfloat16", "float16")
_DEFAULT_RMS_NORM_EPS = 1e-6
_ATTENTION_KINDS = {"full_attention": False, "sliding_attention": True}


def from_huggingface(config: dict[str, Any], *, name: str = "config.json") -> ModelConfig:
    """Read a parsed `config.json`.

    Args:
        config: the object in the file.
        name: of the file, for messages.

    Raises:
        CheckpointError: naming the field that is missing, of a wrong type, or asks for something that Octavo does not run.
    """
    config = _with_text_config(config)
    architecture = ForeignFields(config, name).text("model_type")
    family = FAMILIES.get(architecture, Family())
    fields = ForeignFields(family.translate({**family.defaults, **config}), name, f"model type {architecture!r}")
    _refuse_what_is_not_run(fields)
    num_heads = fields.positive_int("num_attention_heads")
    num_kv_heads = fields.positive_int("num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise fields.refused(f"{num_heads} query heads cannot share {num_kv_heads} KV heads evenly")
    head_size = _head_size(fields, num_heads)
    rope = read_rope(fields, head_size)
    shape = ModelConfig(
        architecture=architecture,
        vocab_size=fields.positive_int("vocab_size"),
        hidden_size=fields.positive_int("hidden_size"),
        intermediate_size=fields.positive_int("intermediate_size"),
        num_layers=fields.positive_int("num_hidden_layers"),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
        rms_norm_eps=fields.positive_float("rms_norm_eps", _DEFAULT_RMS_NORM_EPS),
        rope=rope,
        max_position=longest_position(fields, rope),
        tie_embeddings=fields.boolean("tie_word_embeddings", False),
        attention_bias=fields.boolean("attention_bias", False),
        output_bias=fields.boolean("attention_bias", False),
        mlp_bias=fields.boolean("mlp_bias", False),
        activation=_activation(fields, family),
        sliding_window=_sliding_window(fields),
        eos_token_ids=fields.token_ids("eos_token_id"),
        bos_token_id=fields.token_id("bos_token_id"),
        stored_dtype=_stored_dtype(fields),
    )
    return family.refine(fields, _with_layer_types(fields, shape))


def _with_text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Models that read more than text keep what describes the decoder one level down; a field at the top goes before it."""
    nested = config.get("text_config")
    return nested | {field: value for field, value in config.items() if value is not None} if isinstance(nested, dict) else config


def _with_layer_types(fields: ForeignFields, shape: ModelConfig) -> ModelConfig:
    """Which layers have the window, where the file names the attention of each layer."""
    if shape.sliding_window is None or not fields.has("layer_types"):
        return shape
    kinds = fields.values["layer_types"]
    if not isinstance(kinds, list) or len(kinds) != shape.num_layers or not all(str(kind) in _ATTENTION_KINDS for kind in kinds):
        raise fields.wrong("layer_types", f"a list of {shape.num_layers} kinds, each {' or '.join(_ATTENTION_KINDS)}")
    return with_windows(shape, tuple(_ATTENTION_KINDS[kind] for kind in kinds))


def _refuse_what_is_not_run(fields: ForeignFields) -> None:
    if fields.has("quantization_config"):
        quantization = fields.values["quantization_config"]
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise fields.refused(f"weights quantized with {method!r} are not supported; use the unquantized model or a GGUF file")


def _activation(fields: ForeignFields, family: Family) -> str:
    if (activation := fields.text("hidden_act", "silu")) not in family.activations:
        raise fields.refused(f"hidden_act {activation!r} is not supported; {next(iter(family.activations))!r} is")
    return family.activations[activation]


def _head_size(fields: ForeignFields, num_heads: int) -> int:
    if fields.has("head_dim"):
        return fields.positive_int("head_dim")
    hidden_size = fields.positive_int("hidden_size")
    if hidden_size % num_heads:
        raise fields.refused(f"hidden_size {hidden_size} is no multiple of {num_heads} heads, and head_dim is not given")
    return hidden_size // num_heads


def _sliding_window(fields: ForeignFields) -> int | None:
    if not fields.has("sliding_window") or not fields.boolean("use_sliding_window", True):
        return None
    return fields.positive_int("sliding_window")


def _stored_dtype(fields: ForeignFields) -> str:
    field = "dtype" if fields.has("dtype") else "torch_dtype"
    dtype = fields.text(field, "float32").removeprefix("torch.")
    if dtype not in STORED_DTYPES:
        raise fields.wrong(field, f"one of {', '.join(STORED_DTYPES)}")
    return dtype
