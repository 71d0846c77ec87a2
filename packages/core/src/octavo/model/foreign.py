"""Typed access to what foreign files say: JSON objects and GGUF key-values, with errors that name file and field."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from octavo.errors import CheckpointError

MAX_JSON_BYTES = 64 << 20


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

    def positive_int(self, field: str, default: int | None = None) -> int:
        """An integer above 0. Raises where it is absent and there is no default."""
        value = self._present(field, default)
        if not _is_int(value) or value <= 0:
            raise self.wrong(field, "a positive integer")
        return int(value)

    def positive_float(self, field: str, default: float | None = None) -> float:
        """A number above 0. Raises where it is absent and there is no default."""
        value = self._present(field, default)
        if not _is_positive_number(value):
            raise self.wrong(field, "a positive number")
        return float(value)

    def count(self, field: str, default: int | None = None) -> int:
        """An integer of at least 0. Raises where it is absent and there is no default."""
        value = self._present(field, default)
        if not _is_int(value) or value < 0:
            raise self.wrong(field, "an integer of at least 0")
        return int(value)

    def positive_floats(self, field: str, length: int) -> tuple[float, ...]:
        """A list of so many numbers above 0. Raises where it is absent."""
        value = self._present(field, None)
        if not isinstance(value, list) or len(value) != length or not all(_is_positive_number(item) for item in value):
            raise self.wrong(field, f"a list of {length} positive numbers")
        return tuple(float(item) for item in value)

    def boolean(self, field: str, default: bool) -> bool:
        """A truth value."""
        value = self._present(field, default)
        if not isinstance(value, bool):
            raise self.wrong(field, "true or false")
        return value

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
        if not all(_is_int(token_id) for token_id in ids):
            raise self.wrong(field, "a token id, a list of token ids or null")
        return tuple(dict.fromkeys(token_id for token_id in ids if token_id >= 0))

    def token_id(self, field: str) -> int | None:
        """The first id of a field, or None."""
        ids = self.token_ids(field)
        return ids[0] if ids else None

    def has(self, field: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(field) is not None

    def wrong(self, field: str, expected: str) -> CheckpointError:
        """The error for a value that is not what it has to be."""
        return CheckpointError(f"{self._where()}: {field} is {self.values.get(field)!r}, but must be {expected}")

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
    """The file for reading. Raises `CheckpointError` where that cannot be."""
    try:
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises `CheckpointError` where it is no JSON, no object, or absurdly large."""
    with open_file(path) as file:
        content = file.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise CheckpointError(f"{path} has more than {MAX_JSON_BYTES} bytes, the most that a configuration may have")
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
    return (_is_int(value) or isinstance(value, float)) and 0 < value < math.inf
