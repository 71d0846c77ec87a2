"""`config.json` of Transformers -> `ModelConfig`, for decoders of Llama's shape (Llama, Mistral, SmolLM and kin).

Fields and their defaults: https://huggingface.co/docs/transformers/model_doc/llama. Code that a model brings is never run.
"""

from typing import Any

from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.foreign import ForeignFields

STORED_DTYPES = ("float32", "bfloat16", "float16")
_DEFAULT_ROPE_THETA = 10_000.0
_DEFAULT_RMS_NORM_EPS = 1e-6


def from_huggingface(config: dict[str, Any], *, name: str = "config.json") -> ModelConfig:
    """Read a parsed `config.json`.

    Args:
        config: the object in the file.
        name: of the file, for messages.

    Raises:
        CheckpointError: naming the field that is missing, of a wrong type, or asks for something that Octavo does not run.
    """
    fields = ForeignFields(config, name)
    architecture = fields.text("model_type")
    fields = ForeignFields(config, name, f"model type {architecture!r}")
    _refuse_what_is_not_run(fields)
    num_heads = fields.positive_int("num_attention_heads")
    num_kv_heads = fields.positive_int("num_key_value_heads", num_heads)
    if num_heads % num_kv_heads:
        raise fields.refused(f"{num_heads} query heads cannot share {num_kv_heads} KV heads evenly")
    head_size = _head_size(fields, num_heads)
    return ModelConfig(
        architecture=architecture,
        vocab_size=fields.positive_int("vocab_size"),
        hidden_size=fields.positive_int("hidden_size"),
        intermediate_size=fields.positive_int("intermediate_size"),
        num_layers=fields.positive_int("num_hidden_layers"),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
        rms_norm_eps=fields.positive_float("rms_norm_eps", _DEFAULT_RMS_NORM_EPS),
        rope=_rope(fields, head_size),
        max_position=fields.positive_int("max_position_embeddings"),
        tie_embeddings=fields.boolean("tie_word_embeddings", False),
        attention_bias=fields.boolean("attention_bias", False),
        mlp_bias=fields.boolean("mlp_bias", False),
        sliding_window=_sliding_window(fields),
        eos_token_ids=fields.token_ids("eos_token_id"),
        bos_token_id=fields.token_id("bos_token_id"),
        stored_dtype=_stored_dtype(fields),
    )


def _refuse_what_is_not_run(fields: ForeignFields) -> None:
    if (activation := fields.text("hidden_act", "silu")) not in {"silu", "swish"}:
        raise fields.refused(f"hidden_act {activation!r} is not supported; 'silu' is")
    if fields.has("quantization_config"):
        quantization = fields.values["quantization_config"]
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise fields.refused(f"weights quantized with {method!r} are not supported; use the unquantized model or a GGUF file")


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


def _rope(fields: ForeignFields, head_size: int) -> RopeConfig:
    """Both spellings: `rope_theta` and `rope_scaling` up to Transformers 4, `rope_parameters` with both inside since 5."""
    parameters = fields.values.get("rope_parameters") or fields.values.get("rope_scaling") or {}
    if not isinstance(parameters, dict) or any(isinstance(value, dict) for value in parameters.values()):
        raise fields.refused(f"rotary parameters {parameters!r} are not one flat object")
    rope = ForeignFields(parameters, fields.name, "rotary embedding")
    kind = rope.text("rope_type", rope.text("type", "default"))
    theta = rope.positive_float("rope_theta", fields.positive_float("rope_theta", _DEFAULT_ROPE_THETA))
    share = rope.positive_float("partial_rotary_factor", fields.positive_float("partial_rotary_factor", 1.0))
    dim = int(head_size * share)
    if share > 1 or dim % 2:
        raise fields.refused(f"{dim} of {head_size} dimensions of a head cannot be rotated in pairs")
    match kind:
        case "default":
            return RopeConfig(theta=theta, dim=dim)
        case "linear":
            return RopeConfig(theta=theta, dim=dim, kind=kind, factor=rope.positive_float("factor"))
        case "llama3":
            return RopeConfig(
                theta=theta,
                dim=dim,
                kind=kind,
                factor=rope.positive_float("factor"),
                low_freq_factor=rope.positive_float("low_freq_factor"),
                high_freq_factor=rope.positive_float("high_freq_factor"),
                original_max_position=rope.positive_int("original_max_position_embeddings"),
            )
        case _:
            raise fields.refused(f"rotary scaling {kind!r} is not supported; default, linear and llama3 are")
