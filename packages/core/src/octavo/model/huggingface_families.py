"""What the `config.json` of an architecture says in other words than Llama's, and what it leaves unsaid."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from octavo.model.config import ExpertsConfig, ModelConfig
from octavo.model.foreign import MAX_EXPERTS, ForeignFields
from octavo.model.huggingface_gemma import GEMMA3_ACTIVATIONS, GEMMA3_DEFAULTS, as_gemma3, gemma3_in_common_words

_WINDOW_DEFAULTS = {"use_sliding_window": False, "sliding_window": 4096}
_LAYERED_WINDOW_DEFAULTS = _WINDOW_DEFAULTS | {"max_window_layers": 28}


def _as_read(fields: ForeignFields, config: ModelConfig) -> ModelConfig:  # noqa: ARG001  (a refinement that refines nothing)
    return config


@dataclass(frozen=True, kw_only=True)
class Family:
    """How an architecture differs from Llama's.

    Attributes:
        defaults: values of fields that the file may leave out; a null in the file stays one.
        translate: the object in the file -> the same in the words of the common reader.
        activations: names of activations that its layers run -> our own names.
        refine: what the common reader made of the fields -> the shape.
    """

    defaults: Mapping[str, Any] = field(default_factory=dict)
    translate: Callable[[dict[str, Any]], dict[str, Any]] = dict
    activations: Mapping[str, str] = field(default_factory=lambda: {"silu": "silu", "swish": "silu"})
    refine: Callable[[ForeignFields, ModelConfig], ModelConfig] = _as_read


def _qwen2(fields: ForeignFields, config: ModelConfig) -> ModelConfig:
    """Query, key and value always have a bias, attention's output never."""
    return replace(_window_from_some_layer_on(fields, config), attention_bias=True, output_bias=False)


def _qwen3(fields: ForeignFields, config: ModelConfig) -> ModelConfig:
    return replace(_window_from_some_layer_on(fields, config), qk_norm=True)


def _qwen3_moe(fields: ForeignFields, config: ModelConfig) -> ModelConfig:
    return replace(config, qk_norm=True, experts=_experts(fields, config.num_layers))


def _window_from_some_layer_on(fields: ForeignFields, config: ModelConfig) -> ModelConfig:
    """The first `max_window_layers` layers see everything, unless `layer_types` says what each one sees."""
    if config.sliding_window is None or fields.has("layer_types"):
        return config
    first = fields.count("max_window_layers")
    return with_windows(config, tuple(layer >= first for layer in range(config.num_layers)))


def with_windows(config: ModelConfig, windowed_layers: tuple[bool, ...]) -> ModelConfig:
    """The same shape with a window in some layers; where none or all have it, there is no list of them."""
    if not any(windowed_layers):
        return replace(config, sliding_window=None, windowed_layers=None)
    return replace(config, windowed_layers=None if all(windowed_layers) else windowed_layers)


def _experts(fields: ForeignFields, num_layers: int) -> ExpertsConfig:
    """Every `decoder_sparse_step`-th layer has experts, but those of `mlp_only_layers`."""
    num_experts = fields.positive_int("num_local_experts" if fields.has("num_local_experts") else "num_experts", maximum=MAX_EXPERTS)
    chosen = fields.positive_int("num_experts_per_tok")
    if chosen > num_experts:
        raise fields.refused(f"a token cannot be sent to {chosen} of {num_experts} experts")
    step = fields.positive_int("decoder_sparse_step")
    mlp_only = fields.values.get("mlp_only_layers") or []
    if not isinstance(mlp_only, list) or not all(isinstance(layer, int) for layer in mlp_only):
        raise fields.wrong("mlp_only_layers", "a list of layer numbers")
    return ExpertsConfig(
        num_experts=num_experts,
        num_experts_per_token=chosen,
        intermediate_size=fields.positive_int("moe_intermediate_size"),
        normalize_weights=fields.boolean("norm_topk_prob", False),
        dense_layers=tuple(layer for layer in range(num_layers) if layer in mlp_only or (layer + 1) % step),
    )


_GEMMA3 = Family(defaults=GEMMA3_DEFAULTS, translate=gemma3_in_common_words, activations=GEMMA3_ACTIVATIONS, refine=as_gemma3)

FAMILIES: Mapping[str, Family] = {
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "phi3": Family(defaults={"original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5}),
    "qwen2": Family(defaults=_LAYERED_WINDOW_DEFAULTS, refine=_qwen2),
    "qwen3": Family(defaults=_LAYERED_WINDOW_DEFAULTS | {"head_dim": 128}, refine=_qwen3),
    "qwen3_moe": Family(defaults=_WINDOW_DEFAULTS | {"decoder_sparse_step": 1}, refine=_qwen3_moe),
}
"""By `model_type`; what is not here is read as Llama's shape."""
