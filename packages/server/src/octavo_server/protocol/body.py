"""From the bytes of a body to its fields: JSON types are checked, nothing is converted, nothing unknown is an error."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from octavo_server.errors import ApiError
from octavo_server.protocol.unsupported import Unsupported

MAX_WARNINGS = 256
MAX_NAME_LENGTH = 64
MAX_PROBLEM_LENGTH = 200

T = TypeVar("T", bound=msgspec.Struct)

_log = logging.getLogger(__name__)
_PLACE = " - at `$"
_MISSING = re.compile(r"^Object missing required field `(.*)`$")
_JSON_NAMES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}


class UnknownFields:
    """Warns of every unknown field once; clients send fields of other servers, and typing errors."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def note(self, names: Iterable[str]) -> None:
        """These fields came and are ignored."""
        for name in names:
            if name not in self._seen and len(self._seen) < MAX_WARNINGS:
                self._seen.add(name)
                _log.warning("unknown request field %s is ignored", ascii(name[:MAX_NAME_LENGTH]))


class BodyReader(Generic[T]):
    """Reads bodies of one shape.

    Args:
        shape: the fields, as a struct.
        unsupported: fields that are known, would change the answer and are not built.
        ignored: fields that are known and change nothing.
    """

    def __init__(self, shape: type[T], *, unsupported: Sequence[Unsupported] = (), ignored: Iterable[str] = ()) -> None:
        self.shape = shape
        self._unsupported = tuple(unsupported)
        fields = {field.encode_name for field in msgspec.structs.fields(shape)}
        self._known = fields | {rule.name for rule in unsupported} | set(ignored)

    def read(self, body: bytes, unknown: UnknownFields) -> T:
        """The fields of a body. Raises `ApiError` 400 naming the field that is wrong."""
        return self.convert(json_object(body), unknown)

    def convert(self, values: Mapping[str, Any], unknown: UnknownFields) -> T:
        """The same of a JSON object."""
        if not values.keys() <= self._known:
            unknown.note(values.keys() - self._known)
        for rule in self._unsupported:
            if rule.name in values:
                rule.check(values[rule.name])
        try:
            return msgspec.convert(values, self.shape)
        except msgspec.ValidationError as error:
            raise _invalid(str(error)) from error


def json_object(body: bytes) -> dict[str, Any]:
    """The object that a body is. Raises `ApiError` 400; NaN, infinities, halves of surrogate pairs and endless nesting are no JSON."""
    try:
        values = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON as it is needed here: {error}") from error
    if not isinstance(values, dict):
        raise ApiError(400, f"the body is {_json_kind(values)}, but must be a JSON object")
    return values


def _json_kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"


def _invalid(text: str) -> ApiError:
    """The decoder's words, with the names that JSON has for types."""
    problem, place, path = text.rpartition(_PLACE)
    if not place:
        problem, path = text, ""
    path = path.removesuffix("`").removeprefix(".")
    if missing := _MISSING.match(problem):
        absent = ".".join(part for part in (path, missing[1]) if part)
        return ApiError(400, f"{absent} is missing: send it", param=absent)
    if len(problem) > MAX_PROBLEM_LENGTH:
        # It quotes what came.
        problem = f"{problem[:MAX_PROBLEM_LENGTH]}…"
    param = path.removesuffix("[...]") if path else None
    readable = re.sub(r"`([^`]*)`", lambda quoted: _in_json_words(quoted[1]), problem)
    return ApiError(400, f"{param or 'the body'}: {readable[:1].lower()}{readable[1:]}", param=param)


def _in_json_words(types: str) -> str:
    return " or ".join(_JSON_NAMES.get(name, name) for name in types.split(" | "))
