"""What is Gemma 3's own in the key-values of a GGUF file."""

from dataclasses import replace

from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.foreign import ForeignFields
from octavo.model.huggingface_gemma import GEMMA3_LOCAL_THETA, GEMMA3_WINDOW_PATTERN

_LAYERS_OF_27B = 62


def as_gemma3(fields: ForeignFields, config: ModelConfig) -> ModelConfig:
    """What the common reader made of the header, completed by what such files leave to their reader to know."""
    theta = fields.positive_float("gemma3.rope.freq_base_swa", GEMMA3_LOCAL_THETA)
    return replace(
        config,
        local_rope=RopeConfig(theta=theta, dim=config.rope.dim),
        activation="gelu_tanh",
        windowed_layers=_windowed_layers(fields, config.num_layers),
        attention_scale=_attention_scale(fields, config),
        logit_soft_cap=_cap(fields, "gemma3.final_logit_softcapping"),
        embedding_scale=config.hidden_size**0.5,
    )


def _windowed_layers(fields: ForeignFields, num_layers: int) -> tuple[bool, ...]:
    key = "gemma3.attention.sliding_window_pattern"
    flags = fields.values.get(key)
    if isinstance(flags, list):
        if len(flags) != num_layers:
            raise fields.wrong(key, f"a number or a list of {num_layers} truth values")
        return tuple(map(bool, flags))
    period = fields.positive_int(key, GEMMA3_WINDOW_PATTERN)
    return tuple((layer + 1) % period != 0 for layer in range(num_layers))


def _attention_scale(fields: ForeignFields, config: ModelConfig) -> float:
    """Files do not say it: the 27B model, known by its number of layers, scales by hidden size over heads, all others by head size."""
    width = config.hidden_size / config.num_heads if config.num_layers == _LAYERS_OF_27B else config.head_size
    return fields.positive_float("gemma3.attention.scale", width**-0.5)


def _cap(fields: ForeignFields, key: str) -> float | None:
    return fields.positive_float(key) if fields.has(key) else None
