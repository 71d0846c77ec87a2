"""Typed access to what foreign files say: JSON objects and GGUF key-values, with errors that name file and field."""

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from octavo.errors import CheckpointError, shown

MAX_JSON_BYTES = 64 << 20
MAX_TEXT_BYTES = 4 << 20
MAX_SIZE = 2**31 - 1
"""Of sizes, lengths and counts: no model comes near it, and products of two still fit 64 bits."""
MAX_LAYERS = MAX_EXPERTS = 10_000
SMALLEST, LARGEST = 1e-30, 1e30
"""Of other numbers: within float32, with room to compute."""
STORED_DTYPES = ("float32", "bfloat16", "float16")

# All bits set, which stands for none in some files.
_LARGEST_TOKEN_ID = 2**32 - 1
_POSITIVE_NUMBER = f"a positive number from {SMALLEST:g} to {LARGEST:g}"


@dataclass(frozen=True)
class ForeignFields:
    """Fields of one file. Every getter raises `CheckpointError` for a value of a wrong type; null counts as absent.

    Attributes:
        values: field -> value, as parsed.
        name: of the file, for messages.
        kind: what the file says it is, such as "model type 'llama'"; for messages too.
    """

    values: Mapping[str, Any]
    name: str
    kind: str = ""

    def positive_int(self, field: str, default: int | None = None, *, maximum: int = MAX_SIZE) -> int:
        """An integer above 0, up to a maximum. Raises where it is absent and there is no default."""
        value = self._present(field, default)
        if not _is_int(value) or value <= 0:
            raise self.wrong(field, "a positive integer")
        if value > maximum:
            raise self.wrong(field, f"at most {maximum:,}")
        return int(value)

    def positive_float(self, field: str, default: float | None = None) -> float:
        """A number above 0, from `SMALLEST` to `LARGEST`. Raises where it is absent and there is no default."""
        value = self._present(field, default)
        if not _is_positive_number(value):
            raise self.wrong(field, _POSITIVE_NUMBER)
        return float(value)

    def count(self, field: str, default: int | None = None) -> int:
        """An integer of at least 0, up to `MAX_SIZE`. Raises where it is absent and there is no default."""
        value = self._present(field, default)
        if not _is_int(value) or not 0 <= value <= MAX_SIZE:
            raise self.wrong(field, f"an integer from 0 to {MAX_SIZE:,}")
        return int(value)

    def positive_floats(self, field: str, length: int) -> tuple[float, ...]:
        """A list of so many numbers above 0. Raises where it is absent."""
        value = self._present(field, None)
        if not isinstance(value, list) or len(value) != length or not all(_is_positive_number(item) for item in value):
            raise self.wrong(field, f"a list of {length} positive numbers from {SMALLEST:g} to {LARGEST:g}")
        return tuple(float(item) for item in value)

    def boolean(self, field: str, default: bool) -> bool:
        """A truth value."""
        value = self._present(field, default)
        if not isinstance(value, bool):
            raise self.wrong(field, "true or false")
        return value

    def stretched(self, length: int, factor: float) -> int:
        """A length in tokens, stretched. Raises where nothing is left of it, or it gets absurd."""
        stretched = int(length * factor)
        if not 1 <= stretched <= MAX_SIZE:
            raise self.refused(f"a context of {length:,} tokens stretched by {factor:g} is not between 1 and {MAX_SIZE:,}")
        return stretched

    def text(self, field: str, default: str | None = None) -> str:
        """A string. Raises where it is absent and there is no default."""
        value = self._present(field, default)
        if not isinstance(value, str):
            raise self.wrong(field, "a string")
        return value

    def token_ids(self, field: str) -> tuple[int, ...]:
        """One id, a list of ids, or nothing; a negative id is none, as llama.cpp writes it."""
        value = self.values.get(field)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if not all(_is_int(token_id) and abs(token_id) <= _LARGEST_TOKEN_ID for token_id in ids):
            raise self.wrong(field, "a token id, a list of token ids or null")
        return tuple(dict.fromkeys(token_id for token_id in ids if token_id >= 0))

    def token_id(self, field: str) -> int | None:
        """The first id of a field, or None."""
        ids = self.token_ids(field)
        return ids[0] if ids else None

    def stored_dtype(self) -> str:
        """Type of the checkpoint's weights, which newer files call `dtype` and older ones `torch_dtype`: float32, bfloat16 or float16."""
        field = "dtype" if self.has("dtype") else "torch_dtype"
        dtype = self.text(field, "float32").removeprefix("torch.")
        if dtype not in STORED_DTYPES:
            raise self.wrong(field, f"one of {', '.join(STORED_DTYPES)}")
        return dtype

    def has(self, field: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(field) is not None

    def wrong(self, field: str, expected: str) -> CheckpointError:
        """The error for a value that is not what it has to be."""
        return CheckpointError(f"{self._where()}: {field} is {shown(self.values.get(field))}, but must be {expected}")

    def refused(self, problem: str) -> CheckpointError:
        """The error for a model that Octavo does not run."""
        return CheckpointError(f"{self._where()}: {problem}")

    def _present(self, field: str, default: Any) -> Any:
        value = self.values.get(field)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self._where()} has no {field!r}, which this kind of model needs")
        return value

    def _where(self) -> str:
        return f"{self.name} ({self.kind})" if self.kind else self.name


def open_file(path: Path) -> BinaryIO:
    """The file for reading. Raises `CheckpointError` where that cannot be, and for what is no file: a pipe may have no end, or no begin."""
    try:
        file = path.open("rb") if stat.S_ISREG(path.stat().st_mode) else None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{str(path)!r} is no path: {error}") from error
    if file is None:
        raise CheckpointError(f"{path} cannot be read: it is no regular file")
    return file


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """What is in a file. Raises `CheckpointError` as `open_file`, and where there is more than that."""
    with open_file(path) as file:
        try:
            content = file.read(max_bytes + 1)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > max_bytes:
        raise CheckpointError(f"{path} has more than {max_bytes:,} bytes, the most that such a file may have")
    return content


def read_text_file(path: Path) -> str:
    """UTF-8 text of at most `MAX_TEXT_BYTES`. Raises `CheckpointError` for anything else."""
    try:
        return read_bytes(path, max_bytes=MAX_TEXT_BYTES).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises `CheckpointError` where it is no JSON, no object, or absurdly large."""
    content = read_bytes(path, max_bytes=MAX_JSON_BYTES)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON: {error}; is it an incomplete download?") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}, but must hold an object")
    return value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive_number(value: Any) -> bool:
    return (_is_int(value) or isinstance(value, float)) and SMALLEST <= value <= LARGEST
