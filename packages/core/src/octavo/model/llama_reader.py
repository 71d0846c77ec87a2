"""The fields that a `config.json` of Llama's shape has, for Octavo's own reader and for those of plugins."""

from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any, TypeVar, overload

from octavo.errors import shown
from octavo.model.config import ModelConfig
from octavo.model.foreign import MAX_LAYERS, ForeignFields
from octavo.model.huggingface_families import with_windows
from octavo.model.huggingface_rope import longest_position, read_rope

Config = TypeVar("Config", bound=ModelConfig)

LLAMA_ACTIVATIONS = {"silu": "silu", "swish": "silu"}
_DEFAULT_RMS_NORM_EPS = 1e-6
_ATTENTION_KINDS = {"full_attention": False, "sliding_attention": True}


@overload
def read_llama(fields: ForeignFields, *, activations: Mapping[str, str] = ..., **own: Any) -> ModelConfig: ...


@overload
def read_llama(fields: ForeignFields, config_class: type[Config], *, activations: Mapping[str, str] = ..., **own: Any) -> Config: ...


def read_llama(
    fields: ForeignFields,
    config_class: type[ModelConfig] = ModelConfig,
    *,
    activations: Mapping[str, str] = LLAMA_ACTIVATIONS,
    **own: Any,
) -> ModelConfig:
    """The shape of a model whose `config.json` has Llama's fields, for a plugin's reader to build on; its architecture is the `model_type`.

    Args:
        fields: as the reader got them.
        config_class: what to return: `ModelConfig`, or a frozen dataclass that extends it.
        activations: values of `hidden_act` that the model's layers run -> the `activation` of the shape; the usual one first.
        **own: fields that `config_class` has beside those of `ModelConfig`, or that replace what was read.

    Raises:
        CheckpointError: naming the field that is missing, of a wrong type, or asks for something that Octavo does not run.
    """
    shape = _read_shape(fields, activations)
    read = {field.name: getattr(shape, field.name) for field in fields_of(ModelConfig)}
    return config_class(**(read | own))


def _read_shape(fields: ForeignFields, activations: Mapping[str, str]) -> ModelConfig:
    _refuse_what_is_not_run(fields)
    num_heads = fields.positive_int("num_attention_heads")
    num_kv_heads = fields.positive_int("num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise fields.refused(f"{num_heads} query heads cannot share {num_kv_heads} KV heads evenly")
    head_size = _head_size(fields, num_heads)
    rope = read_rope(fields, head_size)
    shape = ModelConfig(
        architecture=fields.text("model_type"),
        vocab_size=fields.positive_int("vocab_size"),
        hidden_size=fields.positive_int("hidden_size"),
        intermediate_size=fields.positive_int("intermediate_size"),
        num_layers=fields.positive_int("num_hidden_layers", maximum=MAX_LAYERS),
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
        activation=_activation(fields, activations),
        sliding_window=_sliding_window(fields),
        eos_token_ids=fields.token_ids("eos_token_id"),
        bos_token_id=fields.token_id("bos_token_id"),
        stored_dtype=fields.stored_dtype(),
    )
    return _with_layer_types(fields, shape)


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
        raise fields.refused(f"weights quantized with {shown(method)} are not supported; use the unquantized model or a GGUF file")


def _activation(fields: ForeignFields, activations: Mapping[str, str]) -> str:
    if (activation := fields.text("hidden_act", "silu")) not in activations:
        raise fields.refused(f"hidden_act {shown(activation)} is not supported; {next(iter(activations))!r} is")
    return activations[activation]


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
