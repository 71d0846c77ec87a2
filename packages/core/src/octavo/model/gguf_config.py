"""Key-values of a GGUF file -> `ModelConfig`.

Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#standardized-key-value-pairs
"""

import math
from collections import Counter
from dataclasses import replace

from octavo.errors import shown
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.foreign import MAX_LAYERS, ForeignFields
from octavo.model.gguf_gemma import as_gemma3
from octavo.model.gguf_metadata import GGUFMetadata, read_float32_tensor

ROPE_FACTORS_TENSOR = "rope_freqs.weight"
_END_KEYS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
_STORED_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_DEFAULT_ROPE_THETA = 10_000.0
_NOT_IN_GGUF = frozenset({"phi3"})
"""Architectures whose tensors GGUF files hold in another way than those of Hugging Face."""


def from_gguf(metadata: GGUFMetadata) -> ModelConfig:
    """Read the shape of a model of Llama's kind from a GGUF header.

    Raises `CheckpointError` naming the key that is missing, of a wrong type, or asks for something that Octavo does not run.
    """
    architecture = ForeignFields(metadata.values, str(metadata.path)).text("general.architecture")
    fields = ForeignFields(metadata.values, str(metadata.path), f"architecture {architecture!r}")
    if fields.values.get(f"{architecture}.expert_count"):
        raise fields.refused("mixtures of experts are not supported in GGUF files; use the model's safetensors files")
    if architecture in _NOT_IN_GGUF:
        raise fields.refused("GGUF files of this architecture are not supported; use the model's safetensors files")
    hidden_size = fields.positive_int(f"{architecture}.embedding_length")
    num_heads = fields.positive_int(f"{architecture}.attention.head_count")
    num_kv_heads = fields.positive_int(f"{architecture}.attention.head_count_kv", num_heads)
    head_size = fields.positive_int(f"{architecture}.attention.key_length", max(1, hidden_size // num_heads))
    if num_heads % num_kv_heads:
        raise fields.refused(f"{num_heads} query heads cannot share {num_kv_heads} KV heads evenly")
    rope = _rope(metadata, fields, architecture, head_size)
    config = ModelConfig(
        architecture=architecture,
        vocab_size=_vocab_size(metadata, fields),
        hidden_size=hidden_size,
        intermediate_size=fields.positive_int(f"{architecture}.feed_forward_length"),
        num_layers=fields.positive_int(f"{architecture}.block_count", maximum=MAX_LAYERS),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
        rms_norm_eps=_rounded(fields.positive_float(f"{architecture}.attention.layer_norm_rms_epsilon")),
        rope=rope,
        max_position=_longest_position(fields, architecture, rope),
        tie_embeddings="output.weight" not in metadata.tensors,
        attention_bias="blk.0.attn_q.bias" in metadata.tensors,
        output_bias="blk.0.attn_output.bias" in metadata.tensors,
        mlp_bias="blk.0.ffn_up.bias" in metadata.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in metadata.tensors,
        sliding_window=_sliding_window(fields, architecture),
        eos_token_ids=tuple(dict.fromkeys(token_id for key in _END_KEYS for token_id in fields.token_ids(key))),
        bos_token_id=fields.token_id("tokenizer.ggml.bos_token_id"),
        stored_dtype=_stored_dtype(metadata),
    )
    return as_gemma3(fields, config) if architecture == "gemma3" else config


def _vocab_size(metadata: GGUFMetadata, fields: ForeignFields) -> int:
    """Rows of the embedding: the vocabulary of the tokenizer may be padded, and its key may be missing."""
    embedding = metadata.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise fields.refused("there is no token_embd.weight with two dimensions")
    return embedding.shape[0]


def _sliding_window(fields: ForeignFields, architecture: str) -> int | None:
    key = f"{architecture}.attention.sliding_window"
    return fields.positive_int(key) if fields.values.get(key) else None


def _rope(metadata: GGUFMetadata, fields: ForeignFields, architecture: str, head_size: int) -> RopeConfig:
    dim = fields.positive_int(f"{architecture}.rope.dimension_count", head_size)
    if dim > head_size or dim % 2:
        raise fields.refused(f"{dim} of {head_size} dimensions of a head cannot be rotated in pairs")
    plain = RopeConfig(
        theta=fields.positive_float(f"{architecture}.rope.freq_base", _DEFAULT_ROPE_THETA),
        dim=dim,
        frequency_factors=_frequency_factors(metadata, fields, dim),
    )
    return _rope_scaling(fields, f"{architecture}.rope", plain)


def _rope_scaling(fields: ForeignFields, prefix: str, plain: RopeConfig) -> RopeConfig:
    """`rope.scale_linear` is what files had before `rope.scaling.*`."""
    before = fields.positive_float(f"{prefix}.scale_linear", 1.0)
    kind = fields.text(f"{prefix}.scaling.type", "none" if before == 1.0 else "linear")
    match kind:
        case "none":
            return plain
        case "linear":
            return replace(plain, kind=kind, factor=fields.positive_float(f"{prefix}.scaling.factor", before))
        case "yarn":
            factor = fields.positive_float(f"{prefix}.scaling.factor")
            attention_factor = fields.positive_float(f"{prefix}.scaling.attn_factor", 1.0)
            return replace(
                plain,
                kind=kind,
                factor=factor,
                original_max_position=fields.positive_int(f"{prefix}.scaling.original_context_length"),
                attention_factor=attention_factor * (1 + 0.1 * math.log(factor) if factor > 1 else 1.0),
            )
        case _:
            raise fields.refused(f"rotary scaling {shown(kind)} is not supported; none, linear and yarn are")


def _longest_position(fields: ForeignFields, architecture: str, rope: RopeConfig) -> int:
    """`context_length` is that of the model before YaRN in some files and after it in others; the original length is always before."""
    length = fields.positive_int(f"{architecture}.context_length")
    return fields.stretched(rope.original_max_position, rope.factor) if rope.kind == "yarn" else length


def _frequency_factors(metadata: GGUFMetadata, fields: ForeignFields, dim: int) -> tuple[float, ...] | None:
    """Llama 3's stretching comes as a tensor of divisors instead of parameters."""
    if ROPE_FACTORS_TENSOR not in metadata.tensors:
        return None
    factors = read_float32_tensor(metadata, ROPE_FACTORS_TENSOR)
    if len(factors) != dim // 2 or not all(0 < factor < float("inf") for factor in factors):
        raise fields.refused(f"{ROPE_FACTORS_TENSOR} must hold {dim // 2} positive numbers, one for each pair of rotated dimensions")
    return factors


def _rounded(value: float) -> float:
    """The number as it was written before it became float32: 1e-05, not 9.999999747378752e-06."""
    return float(f"{value:.7g}")


def _stored_dtype(metadata: GGUFMetadata) -> str:
    """The commonest type of the matrices; vectors are float32 in nearly every file."""
    kinds = Counter(tensor.type_name for tensor in metadata.tensors.values() if len(tensor.shape) > 1)
    if any(kind not in _STORED_DTYPES for kind in kinds):
        return "quantized"
    return _STORED_DTYPES[kinds.most_common(1)[0][0]]
