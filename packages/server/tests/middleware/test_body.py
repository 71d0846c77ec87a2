"""How long and how deep a body may be."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_server.middleware.json_depth import is_deeper_than

DEEP = 100_000


def test_a_body_of_the_longest_length_arrives_whole(make_app: Any, ask: Any) -> None:
    app = make_app(max_request_bytes=1000)
    assert ask(app, "/echo", b"x" * 1000).json["length"] == 1000
    assert ask(app, "/echo", [b"x" * 400, b"x" * 600]).json["length"] == 1000


def test_a_longer_body_is_413_before_it_is_read(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(max_request_bytes=1000), "/echo", b"", content_length="1001")
    assert answer.status == 413
    assert "1,000 bytes" in answer.error["message"]


def test_a_longer_body_without_a_length_is_413_as_soon_as_it_shows(make_app: Any, ask: Any) -> None:
    assert ask(make_app(max_request_bytes=1000), "/echo", [b"x" * 900, b"x" * 101, b"x" * 10**6]).status == 413


@pytest.mark.parametrize(
    "body",
    [
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"a":[' * DEEP,
        b'["' + b"x" * (1 << 20) + b'",' + b"[" * DEEP,
    ],
)
def test_json_that_is_nested_without_end_is_400_at_once(make_app: Any, ask: Any, body: bytes) -> None:
    app = make_app()
    start = time.perf_counter()
    answer = ask(app, "/number", body)
    assert answer.status == 400
    assert "deep" in answer.error["message"]
    assert time.perf_counter() - start < 1


def test_brackets_in_texts_do_not_count(make_app: Any, ask: Any) -> None:
    body = json.dumps({"a" * 10 + '[{"\\' * 1000: 1}).encode()
    assert ask(make_app(), "/number", body).status == 200


json_values = st.recursive(
    st.none() | st.integers() | st.text(), lambda children: st.lists(children) | st.dictionaries(st.text(), children), max_leaves=30
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(json_values, st.integers(0, 6), st.booleans())
def test_the_depth_is_that_of_the_value(value: Any, limit: int, escape: bool) -> None:
    body = json.dumps(value, ensure_ascii=escape).encode("utf-8", "surrogatepass")
    assert is_deeper_than(body, limit) == (depth(value) > limit)


@given(st.binary(), st.integers(0, 3))
def test_whatever_comes_gets_an_answer(body: bytes, limit: int) -> None:
    is_deeper_than(body + b'"[[[[' + body, limit)


@pytest.mark.parametrize("part", [b'"', b'\\"', b'"\\', b'["\\"', b'{"a'])
def test_it_takes_linear_time(part: bytes) -> None:
    body = (b"[" * 100 + part) * 20_000
    start = time.perf_counter()
    is_deeper_than(body, 64)
    assert time.perf_counter() - start < 1
