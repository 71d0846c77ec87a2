"""Reads GGUF checkpoints: names and row order become those of Hugging Face, quantized blocks become floating point."""

import math
import re
from pathlib import Path

import torch
from torch import Tensor

from octavo.errors import CheckpointError
from octavo.model.config import ModelConfig
from octavo.model.gguf_metadata import GGUFMetadata, GGUFTensor, read_gguf_metadata
from octavo_models.loading.ahead import map_ahead
from octavo_models.loading.dequantize import check_supported, dequantize
from octavo_models.loading.stream import WeightStream

_MODULES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_MODULES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA3_MODULES = _LAYER_MODULES | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_IGNORED = frozenset({"rope_freqs.weight"})
"""Read with the configuration."""

_NAME = re.compile(r"(?:blk\.(?P<layer>\d+)\.)?(?P<module>\w+)\.(?P<leaf>weight|bias)")


def open_gguf(paths: tuple[Path, ...], config: ModelConfig, dtype: torch.dtype) -> WeightStream:
    """Check the header of each file and the type of each tensor, then stream the tensors, decoded to `dtype`.

    Raises:
        CheckpointError: damaged or cut short, or a tensor's type cannot be decoded.
    """
    headers = [read_gguf_metadata(path) for path in paths]
    tensors = [(header, tensor) for header in headers for name, tensor in header.tensors.items() if name not in _IGNORED]
    for _, tensor in tensors:
        check_supported(tensor.name, tensor.type_name)
        if 0 in tensor.shape:
            raise CheckpointError(f"tensor {tensor.name!r} has shape {tensor.shape}, which holds nothing: the file is damaged")
    mapped = {path: _map_file(path) for path in paths}

    def decode(place: tuple[GGUFMetadata, GGUFTensor]) -> tuple[str, Tensor]:
        header, tensor = place
        data = mapped[header.path][tensor.offset : tensor.offset + tensor.num_bytes]
        name = hugging_face_name(tensor.name, config.architecture)
        if config.architecture == "gemma3" and name.endswith("norm.weight"):
            # Such files hold what the norm multiplies with; checkpoints hold the difference to 1, which a narrow type keeps better.
            return name, dequantize(data, tensor.type_name, tensor.shape, torch.float32) - 1
        weight = dequantize(data, tensor.type_name, tensor.shape, dtype)
        heads = _permuted_heads(header, name, config)
        # Rows that make no whole heads stay as they are: where they are to go, their shape is refused by name.
        return name, weight if heads is None or len(weight) % (2 * heads) else restore_row_order(weight, heads)

    num_values = sum(math.prod(tensor.shape) for _, tensor in tensors)
    return WeightStream(len(tensors), num_values, map_ahead(decode, tensors))


def hugging_face_name(name: str, architecture: str = "llama") -> str:
    """A tensor's name in GGUF -> in Hugging Face checkpoints; a name of neither kind stays, and the model refuses it."""
    layer_modules = _GEMMA3_MODULES if architecture == "gemma3" else _LAYER_MODULES
    match = _NAME.fullmatch(name)
    if match and match["layer"] is None and match["module"] in _MODULES:
        return f"{_MODULES[match['module']]}.{match['leaf']}"
    if match and match["layer"] is not None and match["module"] in layer_modules:
        return f"model.layers.{match['layer']}.{layer_modules[match['module']]}.{match['leaf']}"
    return name


def restore_row_order(rows: Tensor, num_heads: int) -> Tensor:
    """Undo the row order of query and key projections in GGUF files of architecture "llama".

    There a head's rows alternate between its first and second half (the pairs that turn together lie side by side).

    Args:
        rows: [num_heads * D, …] of a weight or a bias.
        num_heads: of this projection.
    """
    return rows.view(num_heads, -1, 2, *rows.shape[1:]).transpose(1, 2).flatten(0, 2)


def _map_file(path: Path) -> Tensor:
    """The bytes of a file, uint8, paged in as they are read."""
    return torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)


def _permuted_heads(header: GGUFMetadata, name: str, config: ModelConfig) -> int | None:
    """Heads of a projection whose rows the file holds in another order, or None."""
    if header.values.get("general.architecture") != "llama":
        return None
    if ".q_proj." in name:
        return config.num_heads
    return config.num_kv_heads if ".k_proj." in name else None
