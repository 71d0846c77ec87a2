"""Rotary embeddings of `config.json` -> `RopeConfig`, in every spelling that Transformers has had.

`rope_theta` and `rope_scaling` with a `type` or `rope_type` up to Transformers 4, `rope_parameters` with everything inside since 5:
https://huggingface.co/docs/transformers/main/en/internal/rope_utils
"""

import math
from collections.abc import Callable
from dataclasses import replace

from octavo.errors import shown
from octavo.model.config import RopeConfig
from octavo.model.foreign import ForeignFields

_DEFAULT_THETA = 10_000.0
_ORIGINAL = "original_max_position_embeddings"


def read_rope(fields: ForeignFields, head_size: int) -> RopeConfig:
    """Rotary embedding of a model whose layers all have the same.

    Raises `CheckpointError` naming a kind that Octavo does not have, or a parameter that is missing or wrong.
    """
    rope = _parameters(fields)
    kind = rope.text("rope_type", rope.text("type", "default"))
    theta = rope.positive_float("rope_theta", fields.positive_float("rope_theta", _DEFAULT_THETA))
    share = rope.positive_float("partial_rotary_factor", fields.positive_float("partial_rotary_factor", 1.0))
    dim = int(head_size * min(share, 1.0))
    if share > 1 or dim % 2 or not dim:
        raise fields.refused(f"{dim} of {head_size} dimensions of a head cannot be rotated in pairs")
    plain = RopeConfig(theta=theta, dim=dim)
    if kind == "default":
        return plain
    # Before it had a name of its own, LongRoPE was "su", and in Phi-3's first files "yarn".
    kind = "longrope" if kind == "su" or (kind == "yarn" and "short_factor" in rope.values) else kind
    if kind not in _KINDS:
        raise fields.refused(f"rotary scaling {shown(kind)} is not supported; default, {', '.join(_KINDS)} are")
    return _KINDS[kind](fields, rope, replace(plain, kind=kind))


def longest_position(fields: ForeignFields, rope: RopeConfig) -> int:
    """Tokens that a model takes once its rotary embedding is stretched.

    `max_position_embeddings` is the length before stretching where that is linear or dynamic, and the length after it with LongRoPE
    and Llama 3; files with YaRN have the one or the other, and say the original length.
    """
    length = fields.positive_int("max_position_embeddings")
    match rope.kind:
        case "linear" | "dynamic":
            return fields.stretched(length, rope.factor)
        case "yarn":
            return fields.stretched(rope.original_max_position, rope.factor)
        case _:
            return length


def _parameters(fields: ForeignFields) -> ForeignFields:
    values = fields.values.get("rope_parameters") or fields.values.get("rope_scaling") or {}
    if not isinstance(values, dict) or any(isinstance(value, dict) for value in values.values()):
        raise fields.refused(f"rotary parameters {shown(values)} are not one flat object")
    return ForeignFields(values, fields.name, "rotary embedding")


def _original_length(fields: ForeignFields, rope: ForeignFields) -> int:
    """The field beside the parameters goes before the one among them, as in Transformers."""
    source = fields if fields.has(_ORIGINAL) else rope
    return source.positive_int(_ORIGINAL, fields.positive_int("max_position_embeddings"))


def _linear(fields: ForeignFields, rope: ForeignFields, plain: RopeConfig) -> RopeConfig:  # noqa: ARG001  (all kinds are read alike)
    return replace(plain, factor=rope.positive_float("factor"))


def _dynamic(fields: ForeignFields, rope: ForeignFields, plain: RopeConfig) -> RopeConfig:
    if plain.dim <= 2:
        raise fields.refused(f"rotary scaling 'dynamic' needs more than {plain.dim} rotated dimensions")
    return replace(plain, factor=rope.positive_float("factor"), original_max_position=fields.positive_int("max_position_embeddings"))


def _llama3(fields: ForeignFields, rope: ForeignFields, plain: RopeConfig) -> RopeConfig:
    return replace(
        plain,
        factor=rope.positive_float("factor"),
        low_freq_factor=rope.positive_float("low_freq_factor"),
        high_freq_factor=rope.positive_float("high_freq_factor"),
        original_max_position=_original_length(fields, rope),
    )


def _yarn(fields: ForeignFields, rope: ForeignFields, plain: RopeConfig) -> RopeConfig:
    original = _original_length(fields, rope)
    factor = rope.positive_float("factor", fields.positive_int("max_position_embeddings") / original)
    return replace(
        plain,
        factor=factor,
        original_max_position=original,
        beta_fast=rope.positive_float("beta_fast", plain.beta_fast),
        beta_slow=rope.positive_float("beta_slow", plain.beta_slow),
        truncate=rope.boolean("truncate", True),
        attention_factor=rope.positive_float("attention_factor", _yarn_attention_factor(rope, factor)),
    )


def _yarn_attention_factor(rope: ForeignFields, factor: float) -> float:
    """0.1 ln(factor) + 1 (Peng et al. 2023, section 3.4); DeepSeek's files weigh it by two numbers and mean the quotient."""

    def at_weight(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    # Zero stands for absent in files of DeepSeek's kind.
    if rope.values.get("mscale") and rope.values.get("mscale_all_dim"):
        return at_weight(rope.positive_float("mscale")) / at_weight(rope.positive_float("mscale_all_dim"))
    return at_weight(1.0)


def _longrope(fields: ForeignFields, rope: ForeignFields, plain: RopeConfig) -> RopeConfig:
    original = _original_length(fields, rope)
    stretch = rope.positive_float("factor", fields.positive_int("max_position_embeddings") / original)
    # Ding et al. 2024; the same below and beyond the original length.
    attention_factor = math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 and original > 1 else 1.0
    return replace(
        plain,
        original_max_position=original,
        short_factors=rope.positive_floats("short_factor", plain.dim // 2),
        long_factors=rope.positive_floats("long_factor", plain.dim // 2),
        attention_factor=rope.positive_float("attention_factor", attention_factor),
    )


_KINDS: dict[str, Callable[[ForeignFields, ForeignFields, RopeConfig], RopeConfig]] = {
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
