"""A quick reader of a GGUF file's header: its key-values and where its tensors lie, without touching the tensors.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

import math
import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from octavo.errors import CheckpointError, shown
from octavo.model.foreign import open_file
from octavo.model.ggml_types import GGML_TYPES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MIN_ALIGNMENT = 8
MAX_DIMENSIONS = 4
MAX_ARRAY_DEPTH = 4

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING = 8
_ARRAY = 9
# The fewest bytes that one entry takes: counts beyond what the file could hold are refused before anything is allocated.
_MIN_KEY_VALUE_BYTES = 8 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 4 + 4 + 8


@dataclass(frozen=True, kw_only=True)
class GGUFTensor:
    """Where one tensor lies.

    Attributes:
        name: GGUF's, such as "blk.0.attn_q.weight".
        shape: outermost dimension first, as torch and numpy write it (the file stores the reverse).
        type_number, type_name: GGML's element type, such as 3 and "Q4_1".
        offset: bytes from the start of the file.
        num_bytes: size in the file.
    """

    name: str
    shape: tuple[int, ...]
    type_number: int
    type_name: str
    offset: int
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class GGUFMetadata:
    """A header in full.

    Attributes:
        path: the file.
        version: of the format.
        alignment: bytes that tensor data is aligned to.
        values: key -> int, float, bool, str or (nested) list of these.
        tensors: name -> place, in the order of the file.
    """

    path: Path
    version: int
    alignment: int
    values: dict[str, Any] = field(repr=False)
    tensors: dict[str, GGUFTensor] = field(repr=False)


def read_gguf_metadata(path: Path, *, with_data: bool = True) -> GGUFMetadata:
    """Read the header of a GGUF file.

    Args:
        path: of the file.
        with_data: the data of the tensors has to be there too.

    Raises:
        CheckpointError: not GGUF, another version, big-endian, damaged, or cut short (naming the missing bytes).
    """
    with open_file(path) as file:
        size = path.stat().st_size
        if size < len(MAGIC) or file.read(len(MAGIC)) != MAGIC:
            raise CheckpointError(f"{path} is not a GGUF file: it does not begin with {MAGIC.decode()!r}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _HeaderReader(path, data, size, with_data=with_data).read()


def read_float32_tensor(metadata: GGUFMetadata, name: str) -> tuple[float, ...]:
    """The values of a small float32 tensor. Raises `CheckpointError` where it has another type."""
    tensor = metadata.tensors[name]
    if tensor.type_name != "F32":
        raise CheckpointError(f"{metadata.path}: tensor {shown(name)} is stored as {tensor.type_name}, but must be F32")
    with open_file(metadata.path) as file:
        file.seek(tensor.offset)
        data = file.read(tensor.num_bytes)
    if len(data) < tensor.num_bytes:
        raise CheckpointError(f"{metadata.path} is truncated: it ends before tensor {shown(name)}; is it an incomplete download?")
    return struct.unpack(f"<{tensor.num_bytes // 4}f", data)


class _HeaderReader:
    """A cursor over the mapped file; every length that the file claims is held against the bytes that are left."""

    def __init__(self, path: Path, data: mmap.mmap, size: int, *, with_data: bool) -> None:
        self._path = path
        self._data = data
        self._size = size
        self._with_data = with_data
        self._position = len(MAGIC)

    def read(self) -> GGUFMetadata:
        version = self._read_version()
        num_tensors, num_values = self._read_scalar("Q"), self._read_scalar("Q")
        self._check_count("key-values", num_values, _MIN_KEY_VALUE_BYTES)
        self._check_count("tensors", num_tensors, _MIN_TENSOR_BYTES)
        values = self._read_values(num_values)
        alignment = self._alignment(values)
        infos = [self._read_tensor_info() for _ in range(num_tensors)]
        data_start = -(-self._position // alignment) * alignment
        tensors = self._place_tensors(infos, data_start, alignment)
        return GGUFMetadata(path=self._path, version=version, alignment=alignment, values=values, tensors=tensors)

    def _read_version(self) -> int:
        version: int = self._read_scalar("I")
        if version in VERSIONS:
            return version
        if version & 0xFFFF == 0:
            raise self._damaged("it is big-endian, and only little-endian files are read")
        raise self._damaged(f"its format version is {version}; versions {' and '.join(map(str, VERSIONS))} are read")

    def _read_values(self, count: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _ in range(count):
            key = self._read_string()
            if key in values:
                raise self._damaged(f"the key {shown(key)} occurs twice")
            values[key] = self._read_value(self._read_scalar("I"), key, 0)
        return values

    def _read_value(self, kind: int, key: str, depth: int) -> Any:
        if kind == _STRING:
            return self._read_string()
        if kind == _ARRAY:
            return self._read_array(key, depth + 1)
        return self._read_scalar(self._scalar_code(kind, key))

    def _read_array(self, key: str, depth: int) -> list[Any]:
        if depth > MAX_ARRAY_DEPTH:
            raise self._damaged(f"the arrays of key {shown(key)} are nested more than {MAX_ARRAY_DEPTH} deep")
        kind, count = self._read_scalar("I"), self._read_scalar("Q")
        if kind == _STRING:
            self._check_count(f"strings of key {shown(key)}", count, 8)
            return self._read_strings(count)
        if kind == _ARRAY:
            self._check_count(f"arrays of key {shown(key)}", count, 12)
            return [self._read_array(key, depth + 1) for _ in range(count)]
        code = self._scalar_code(kind, key)
        self._check_count(f"values of key {shown(key)}", count, struct.calcsize(f"<{code}"))
        layout = struct.Struct(f"<{count}{code}")
        return list(layout.unpack_from(self._data, self._advance(layout.size)))

    def _read_strings(self, count: int) -> list[str]:
        # The one hot loop: vocabularies and merges are 50,000 to 500,000 strings, so its lookups are local names.
        data, size, position = self._data, self._size, self._position
        unpack_length = struct.Struct("<Q").unpack_from
        strings: list[bytes] = []
        append = strings.append
        for _ in range(count):
            start = position + 8
            if start > size:
                raise self._truncated(start)
            position = start + unpack_length(data, position)[0]
            if position > size:
                raise self._truncated(position)
            append(data[start:position])
        self._position = position
        return self._decode(strings)

    def _read_string(self) -> str:
        length: int = self._read_scalar("Q")
        start = self._advance(length)
        return self._decode([self._data[start : start + length]])[0]

    def _decode(self, strings: list[bytes]) -> list[str]:
        try:
            return [text.decode() for text in strings]
        except UnicodeDecodeError as error:
            raise self._damaged(f"it holds a string that is not UTF-8: {bytes(error.object[:60])!r}") from error

    def _read_scalar(self, code: str) -> Any:
        return struct.unpack_from(f"<{code}", self._data, self._advance(struct.calcsize(f"<{code}")))[0]

    def _advance(self, num_bytes: int) -> int:
        """Move past `num_bytes` and return where they start."""
        start = self._position
        if start + num_bytes > self._size:
            raise self._truncated(start + num_bytes)
        self._position = start + num_bytes
        return start

    def _scalar_code(self, kind: int, key: str) -> str:
        if kind not in _SCALARS:
            raise self._damaged(f"the key {shown(key)} has the unknown value type {kind}")
        return _SCALARS[kind]

    def _alignment(self, values: dict[str, Any]) -> int:
        alignment = values.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < MIN_ALIGNMENT or alignment & (alignment - 1):
            raise self._damaged(f"general.alignment is {shown(alignment)}, which is no power of two from {MIN_ALIGNMENT} on")
        return alignment

    def _read_tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._read_string()
        num_dimensions = self._read_scalar("I")
        if num_dimensions > MAX_DIMENSIONS:
            raise self._damaged(f"tensor {shown(name)} has {num_dimensions} dimensions; at most {MAX_DIMENSIONS} are allowed")
        reversed_shape = [self._read_scalar("Q") for _ in range(num_dimensions)]
        return name, tuple(reversed(reversed_shape)), self._read_scalar("I"), self._read_scalar("Q")

    def _place_tensors(self, infos: list[tuple[str, tuple[int, ...], int, int]], data_start: int, alignment: int) -> dict[str, GGUFTensor]:
        tensors: dict[str, GGUFTensor] = {}
        for name, shape, type_number, offset in infos:
            if name in tensors:
                raise self._damaged(f"the tensor {shown(name)} occurs twice")
            if offset % alignment:
                raise self._damaged(f"tensor {shown(name)} lies at offset {offset}, which is no multiple of {alignment}")
            tensors[name] = GGUFTensor(
                name=name,
                shape=shape,
                type_number=type_number,
                type_name=self._type_name(name, type_number),
                offset=data_start + offset,
                num_bytes=self._num_bytes(name, shape, type_number),
            )
        self._check_extent(tensors)
        return tensors

    def _type_name(self, name: str, type_number: int) -> str:
        if type_number not in GGML_TYPES:
            raise self._damaged(f"tensor {shown(name)} has the unknown type {type_number}")
        return GGML_TYPES[type_number].name

    def _num_bytes(self, name: str, shape: tuple[int, ...], type_number: int) -> int:
        kind = GGML_TYPES[type_number]
        row = shape[-1] if shape else 1
        if row % kind.block_elements:
            raise self._damaged(
                f"tensor {shown(name)} has rows of {row} values, which {kind.name} cannot pack in blocks of {kind.block_elements}"
            )
        return math.prod(shape) // kind.block_elements * kind.block_bytes

    def _check_extent(self, tensors: dict[str, GGUFTensor]) -> None:
        end, last = 0, ""
        for tensor in sorted(tensors.values(), key=lambda tensor: tensor.offset):
            if tensor.offset < end:
                raise self._damaged(f"the tensors {shown(last)} and {shown(tensor.name)} overlap")
            end, last = tensor.offset + tensor.num_bytes, tensor.name
        if end > self._size and self._with_data:
            raise self._truncated(end)

    def _check_count(self, what: str, count: int, min_bytes: int) -> None:
        left = self._size - self._position
        if count * min_bytes > left:
            raise self._damaged(f"it claims {count} {what}, but only {left} bytes are left; is it damaged or an incomplete download?")

    def _truncated(self, needed: int) -> CheckpointError:
        return CheckpointError(
            f"{self._path} is truncated: at least {needed} bytes are needed, it has {self._size}, {needed - self._size} are missing; "
            "is it an incomplete download?"
        )

    def _damaged(self, problem: str) -> CheckpointError:
        return CheckpointError(f"{self._path} cannot be read as GGUF: {problem}")
