"""What is Gemma 3's own in its `config.json`: two rotary embeddings, windows in most layers, scales and defaults.

Fields and their defaults: https://huggingface.co/docs/transformers/model_doc/gemma3, `Gemma3TextConfig`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from octavo.model.config import ModelConfig
from octavo.model.foreign import ForeignFields
from octavo.model.huggingface_rope import read_rope

GEMMA3_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
GEMMA3_ACTIVATIONS: Mapping[str, str] = {"gelu_pytorch_tanh": "gelu_tanh"}
GEMMA3_WINDOW_PATTERN = 6
"""Every so many layers one sees everything; the others have the window."""
GEMMA3_LOCAL_THETA = 10_000.0
"""Base of the wavelengths in layers with the window."""

_GLOBAL_THETA = 1_000_000.0
_LOCAL_ROPE = "local_rope_parameters"
_KINDS = {"full_attention": False, "sliding_attention": True}


def gemma3_in_common_words(config: dict[str, Any]) -> dict[str, Any]:
    """The fields with the activation where Llama's files have it, and the rotary embeddings apart, each as one flat object.

    Transformers 5 writes `rope_parameters` by kind of layer; before, `rope_theta` and `rope_scaling` were those of the layers that see
    everything, and `rope_local_base_freq` that of the others.
    """
    by_kind = config.get("rope_parameters") or {}
    if not isinstance(by_kind, dict):
        return config
    scaling = by_kind.get("full_attention") or config.get("rope_scaling")
    return config | {
        "hidden_act": config.get("hidden_activation"),
        "rope_parameters": _with_theta(scaling, config.get("rope_theta") or _GLOBAL_THETA),
        _LOCAL_ROPE: _with_theta(by_kind.get("sliding_attention"), config.get("rope_local_base_freq") or GEMMA3_LOCAL_THETA),
    }


def as_gemma3(fields: ForeignFields, config: ModelConfig) -> ModelConfig:
    """What the common reader made of the fields, completed by what is Gemma 3's own."""
    if fields.boolean("use_bidirectional_attention", False):
        raise fields.refused("attention in both directions is not supported: it makes an encoder, which generates nothing")
    local = ForeignFields({"rope_parameters": fields.values.get(_LOCAL_ROPE)}, fields.name, "rotary embedding of layers with a window")
    return replace(
        config,
        max_position=fields.positive_int("max_position_embeddings"),
        local_rope=read_rope(local, config.head_size),
        qk_norm=True,
        windowed_layers=_windowed_layers(fields, config.num_layers),
        attention_scale=fields.positive_float("query_pre_attn_scalar") ** -0.5,
        attention_soft_cap=_cap(fields, "attn_logit_softcapping"),
        logit_soft_cap=_cap(fields, "final_logit_softcapping"),
        embedding_scale=config.hidden_size**0.5,
    )


def _with_theta(parameters: Any, theta: Any) -> Any:
    """What is no object stays as it is: the reader of rotary embeddings refuses it by name."""
    return {"rope_theta": theta} | parameters if isinstance(parameters, dict) else parameters or {"rope_theta": theta}


def _windowed_layers(fields: ForeignFields, num_layers: int) -> tuple[bool, ...]:
    if not fields.has("layer_types"):
        field = "sliding_window_pattern" if fields.has("sliding_window_pattern") else "_sliding_window_pattern"
        period = fields.positive_int(field, GEMMA3_WINDOW_PATTERN)
        return tuple((layer + 1) % period != 0 for layer in range(num_layers))
    kinds = fields.values["layer_types"]
    if not isinstance(kinds, list) or len(kinds) != num_layers or not all(str(kind) in _KINDS for kind in kinds):
        raise fields.wrong("layer_types", f"a list of {num_layers} kinds, each {' or '.join(_KINDS)}")
    return tuple(_KINDS[kind] for kind in kinds)


def _cap(fields: ForeignFields, field: str) -> float | None:
    return fields.positive_float(field) if fields.has(field) else None
