"""Small checkpoints written by the tests themselves."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, FLOAT64 = 4, 5, 6, 7, 8, 9, 10, 12
SCALARS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?", UINT64: "<Q", FLOAT64: "<d"}


def pack_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(value: Any) -> tuple[int, bytes]:
    match value:
        case bool():
            return BOOL, struct.pack("<?", value)
        case int():
            return (UINT32, struct.pack("<I", value)) if value >= 0 else (INT32, struct.pack("<i", value))
        case float():
            return FLOAT32, struct.pack("<f", value)
        case str():
            return STRING, pack_string(value)
        case list():
            packed = [pack_value(item) for item in value]
            kind = packed[0][0] if packed else UINT32
            return ARRAY, struct.pack("<IQ", kind, len(packed)) + b"".join(data for _, data in packed)
    raise AssertionError(value)


def gguf_bytes(
    values: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], int, bytes]] | None = None, *, version: int = 3, alignment: int = 32
) -> bytes:
    """A GGUF file. tensors: name -> (shape with the outermost dimension first, type number, data)."""
    tensors = tensors or {}
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    for key, value in values.items():
        kind, data = pack_value(value)
        header += pack_string(key) + struct.pack("<I", kind) + data
    body = b""
    for name, (shape, type_number, data) in tensors.items():
        body += b"\0" * (-len(body) % alignment)
        header += pack_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), type_number, len(body))
        body += data
    return header + b"\0" * (-len(header) % alignment) + body


@pytest.fixture(scope="session")
def pack_gguf() -> Callable[..., bytes]:
    """`pack_gguf(values, tensors, version=3, alignment=32)` -> the bytes of a file."""
    return gguf_bytes


@pytest.fixture
def write_gguf(tmp_path: Path) -> Callable[..., Path]:
    """`write_gguf(values, tensors, version=3, alignment=32)` -> path."""

    def write(*args: Any, name: str = "model.gguf", **options: Any) -> Path:
        path = tmp_path / name
        path.write_bytes(gguf_bytes(*args, **options))
        return path

    return write


@pytest.fixture
def llama_values() -> dict[str, Any]:
    """Key-values of a tiny Llama."""
    return {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.context_length": 256,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.bos_token_id": 1,
    }


@pytest.fixture
def llama_tensors() -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    """The tensors that the shape is read from."""
    return {"token_embd.weight": ((10, 64), 1, bytes(10 * 64 * 2)), "blk.0.attn_q.weight": ((64, 64), 1, bytes(64 * 64 * 2))}


@pytest.fixture
def huggingface_config() -> dict[str, Any]:
    """A parsed `config.json` of a tiny Llama."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 320,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 256,
        "hidden_act": "silu",
        "eos_token_id": 2,
        "bos_token_id": 1,
        "torch_dtype": "bfloat16",
    }


@pytest.fixture
def model_folder(tmp_path: Path, huggingface_config: dict[str, Any]) -> Path:
    """A folder with a `config.json` and two shards under an index."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(huggingface_config))
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for shard in shards:
        (folder / shard).write_bytes(b"")
    weight_map = {"model.embed_tokens.weight": shards[0], "model.norm.weight": shards[1]}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder
