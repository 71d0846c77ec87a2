import logging
from typing import Any

import msgspec
import pytest

from octavo_server.errors import ApiError
from octavo_server.protocol.body import MAX_WARNINGS, BodyReader, UnknownFields
from octavo_server.protocol.unsupported import Unsupported


class Inner(msgspec.Struct, kw_only=True):
    flag: bool


class Shape(msgspec.Struct, kw_only=True):
    number: int | None = None
    ratio: float = 0.5
    words: list[str] = []
    inner: Inner | None = None


READER = BodyReader(Shape, unsupported=[Unsupported(name="tools", harmless=([],))], ignored=["user"])


def read(body: bytes) -> Shape:
    return READER.read(body, UnknownFields())


def refusal(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(body)
    assert caught.value.status == 400
    return caught.value


def test_fields_are_read_as_they_are() -> None:
    found = read(b'{"number": 5, "ratio": 1, "words": ["a"], "inner": {"flag": true, "more": 1}, "user": "x", "tools": []}')
    assert found == Shape(number=5, ratio=1.0, words=["a"], inner=Inner(flag=True))
    assert read(b'{"number": null, "tools": null}') == Shape()


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (b'{"number": "5"}', "number", "number: expected integer or null, got string"),
        (b'{"number": true}', "number", "number: expected integer or null, got boolean"),
        (b'{"ratio": "x"}', "ratio", "ratio: expected number, got string"),
        (b'{"words": ["a", 1]}', "words[1]", "words[1]: expected string, got integer"),
        (b'{"inner": {}}', "inner.flag", "inner.flag is missing: send it"),
        (b'{"inner": {"flag": 1}}', "inner.flag", "inner.flag: expected boolean, got integer"),
        (b'{"tools": [1]}', "tools", "tools is [1], which this server does not support: leave it out, or send []"),
        (b"[]", None, "the body is a list, but must be a JSON object"),
        (b"5", None, "the body is a int, but must be a JSON object"),
    ],
)
def test_what_is_wrong_is_named(body: bytes, param: str | None, message: str) -> None:
    error = refusal(body)
    assert (error.param, error.message) == (param, message)


@pytest.mark.parametrize("body", [b"", b"{", b'{"ratio": NaN}', b'{"ratio": 1e999}', b'{"number": ' + b"[" * 10**6, b"\xff", b'{"a":1}x'])
def test_what_is_no_json_is_no_crash(body: bytes) -> None:
    assert "not JSON" in refusal(body).message


def test_unknown_fields_are_warned_of_once_and_not_without_end(caplog: pytest.LogCaptureFixture) -> None:
    unknown = UnknownFields()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            READER.read(b'{"frob": 1, "number": 1, "user": 2}', unknown)
        assert [record.getMessage() for record in caplog.records] == ["unknown request field 'frob' is ignored"]
        unknown.note(f"name{number}" for number in range(10_000))
    assert len(caplog.records) == MAX_WARNINGS


def test_names_in_warnings_stay_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        UnknownFields().note(["a\nb", "x" * 10_000])
    assert all("\n" not in record.getMessage() and len(record.getMessage()) < 200 for record in caplog.records)


@pytest.mark.parametrize(("value", "passes"), [(None, True), ([], True), ([1], False), (False, False), ("", False), ({}, False)])
def test_harmless_values_pass(value: Any, passes: bool) -> None:
    rule = Unsupported(name="tools", harmless=([],))
    if passes:
        rule.check(value)
    else:
        with pytest.raises(ApiError, match="tools"):
            rule.check(value)
