"""Checks a safetensors file before anything of it is mapped.

Format: https://huggingface.co/docs/safetensors - length of the header (8 bytes, little-endian), JSON header, data without gaps.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import CheckpointError, shown
from octavo.model.foreign import open_file

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""

_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class StoredTensor:
    """Type code, shape and place (bytes from the start of the data) of one tensor."""

    code: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Names of a file's tensors -> what they are, in the order of the data.

    Raises:
        CheckpointError: missing file, damaged header, tensors that overlap or do not fit their types, data cut short (naming the
            missing bytes), or a type that is no floating-point number.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is missing: incomplete download?")
    size = path.stat().st_size
    with open_file(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise CheckpointError(f"{path} has {size} bytes and cannot hold the header that it announces: truncated or not safetensors")
        text = file.read(length)
    tensors = dict(sorted(_parse(path, text).items(), key=lambda item: (item[1].start, item[1].end)))
    _check_extents(path, tensors, data_bytes=size - 8 - length)
    return tensors


def _parse(path: Path, text: bytes) -> dict[str, StoredTensor]:
    try:
        header = json.loads(text, object_pairs_hook=lambda pairs: _without_duplicates(path, pairs))
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the header of {path} is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"the header of {path} is not a JSON object")
    header.pop("__metadata__", None)
    return {name: _parse_entry(path, name, entry) for name, entry in header.items()}


def _without_duplicates(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise CheckpointError(f"the header of {path} holds {sorted({name for name in names if names.count(name) > 1})} twice")
    return content


def _parse_entry(path: Path, name: str, entry: Any) -> StoredTensor:
    match entry:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [int(start), int(end)]} if all(
            isinstance(item, int) and item >= 0 for item in shape
        ):
            pass
        case _:
            raise CheckpointError(f"the header of {path} does not describe tensor {shown(name)}: {shown(entry)}")
    if code not in _ITEM_BYTES:
        raise CheckpointError(
            f"tensor {shown(name)} of {path} has type {code:.40}; weights of types {', '.join(_ITEM_BYTES)} can be loaded"
        )
    if end - start != math.prod(shape) * _ITEM_BYTES[code]:
        raise CheckpointError(f"tensor {shown(name)} of {path} has {end - start} bytes, which is not a {code} of shape {shown(shape)}")
    return StoredTensor(code, tuple(shape), start, end)


def _check_extents(path: Path, tensors: dict[str, StoredTensor], *, data_bytes: int) -> None:
    end = 0
    for name, tensor in tensors.items():
        if tensor.start != end:
            raise CheckpointError(
                f"tensor {shown(name)} of {path} begins at byte {tensor.start} of the data where {end} is due: damaged header"
            )
        end = tensor.end
    if end > data_bytes:
        raise CheckpointError(f"{path} is truncated: {end - data_bytes} bytes are missing; incomplete download?")
    if end < data_bytes:
        raise CheckpointError(f"{path} has {data_bytes - end} bytes that belong to no tensor: damaged")
