"""What is refused, before a byte of an answer goes out and with nothing of anybody else's touched."""

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from octavo.scheduler.plan import StepPlan

IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}


def refused(with_client: Callable[..., None], body: Any, param: str | None, path: str = "/v1/completions") -> None:
    async def scenario(client: Any) -> None:
        beside = client.begin("/v1/completions", {"prompt": "there", "max_tokens": 100, "ignore_eos": True, "stream": True})
        await beside.first_part()
        bodies = [body] if isinstance(body, bytes) else [body, {**body, "stream": True}]
        for one in bodies:
            start = time.process_time()
            answer = await client.post(path, one)
            assert (answer.status, answer.error["param"]) == (400, param), answer
            assert time.process_time() - start < 1
        assert len((await beside.finish()).events) == 100

    with_client(scenario)


@pytest.mark.parametrize("prompt", [[-1], [10**9], [5279552648203111001], [1, "a"], [True], [1.5], [[3], [1000]], [2**70]])
def test_ids_that_the_model_does_not_have(with_client: Callable[..., None], prompt: Any) -> None:
    refused(with_client, {"prompt": prompt}, "prompt")


@pytest.mark.parametrize(
    "prompt", ["", [""], [], [[]], None, 5, {}, [{}], [[{"role": "user", "content": "a"}]], ["a", 1], ["a", {"prompt": "b"}], [[3], "a", 4]]
)
def test_prompts_that_are_none(with_client: Callable[..., None], prompt: Any) -> None:
    refused(with_client, {"prompt": prompt}, "prompt")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b'"text"',
        b"null",
        b'{"prompt": "a", "temperature": NaN}',
        b'{"prompt": "a", "temperature": Infinity}',
        b'{"prompt": "a", "temperature": 1e400}',
        b'{"prompt": "\\ud800"}',
        b"\xff\xfe",
        b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"prompt": "a", "n": ' + b"9" * 5000 + b"}",
    ],
)
def test_bodies_that_are_no_json_objects(with_client: Callable[..., None], body: bytes) -> None:
    refused(with_client, body, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("max_tokens", "5"),
        ("max_tokens", True),
        ("max_tokens", 1.5),
        ("max_tokens", 2**70),
        ("temperature", -1),
        ("temperature", "x"),
        ("temperature", True),
        ("temperature", 999_999),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_p", -1),
        ("top_k", -2),
        ("min_p", 2),
        ("repetition_penalty", 0),
        ("presence_penalty", 3),
        ("frequency_penalty", -3),
        ("n", 0),
        ("n", 129),
        ("n", 10**6),
        ("best_of", 10**6),
        ("best_of", 2),
        ("seed", 2**70),
        ("logprobs", 21),
        ("logprobs", -1),
        ("logprobs", 10**6),
        ("logprobs", True),
        ("prompt_logprobs", -1),
        ("prompt_logprobs", 21),
        ("logit_bias", {"1000": -100}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"abc": 1}),
        ("logit_bias", {" 5": 1}),
        ("logit_bias", {"5": 101}),
        ("logit_bias", {"5": "x"}),
        ("logit_bias", {"9" * 5000: 1}),
        ("logit_bias", {str(token_id): 1 for token_id in range(1025)}),
        ("logit_bias", [1]),
        ("stop_token_ids", [10**6]),
        ("stop_token_ids", [-1]),
        ("allowed_token_ids", []),
        ("allowed_token_ids", [10**6]),
        ("bad_words", [""]),
        ("bad_words", [f"{number:04}" + "x" * 1020 for number in range(1024)]),
        ("stop", "x" * 2_000_000),
        ("stop", ["x" * 2000] * 64),
        ("stop", ["x"] * 100_000),
        ("min_tokens", 17),
        ("min_tokens", -1),
        ("priority", 2**70),
        ("stop_token_ids", [1] * 1_000_000),
        ("allowed_token_ids", [1] * 1_000_000),
        ("logits_processors", {"unknown": 1}),
        ("logits_processors", {"x" * 10_000: 1}),
        ("logits_processors", {"unknown": "x" * 1_000_000}),
        ("stream", "yes"),
        ("echo", 1),
        ("stream_options", 5),
        ("truncation_side", "middle"),
        ("truncation_side", "x" * 1_000_000),
        ("request_id", "x" * 300),
    ],
)
def test_values_that_cannot_be(with_client: Callable[..., None], field: str, value: Any) -> None:
    async def scenario(client: Any) -> None:
        start = time.process_time()
        answer = await client.complete(**{field: value})
        assert (answer.status, answer.error["param"]) == (400, field), answer
        assert time.process_time() - start < 1
        assert len(answer.body) < 2000
        assert (await client.complete(max_tokens=1)).status == 200

    with_client(scenario)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_k", 0),
        ("top_k", -1),
        ("seed", 0),
        ("seed", -1),
        ("logit_bias", {"5": 100}),
        ("stop", None),
        ("logprobs", 0),
        ("temperature", 5e-324),
        ("user", "me"),
        ("suffix", ""),
        ("use_beam_search", False),
        ("best_of", 1),
        ("response_format", {"type": "text"}),
    ],
)
def test_values_at_the_edge(with_client: Callable[..., None], field: str, value: Any) -> None:
    async def scenario(client: Any) -> None:
        assert (await client.complete(max_tokens=1, **{field: value})).status == 200

    with_client(scenario)


def test_more_prompts_than_a_request_may_have(with_client: Callable[..., None]) -> None:
    refused(with_client, {"prompt": ["hello"] * 100_000}, "prompt")
    refused(with_client, {"prompt": ["hello"] * 10, "n": 128}, "prompt")


@pytest.mark.parametrize(
    ("field", "value", "harmless"),
    [
        ("tools", [{"type": "function"}], []),
        ("tool_choice", "required", "none"),
        ("tool_choice", {"type": "function"}, "auto"),
        ("functions", [{}], []),
        ("response_format", {"type": "json_object"}, {"type": "text"}),
        ("response_format", {"type": "foo"}, None),
        ("response_format", {"type": "json_schema"}, None),
        ("structured_outputs", {"json": {}}, None),
        ("guided_json", {}, None),
        ("guided_regex", "(", None),
        ("guided_choice", [], None),
        ("guided_grammar", "root ::=", None),
        ("modalities", ["audio"], ["text"]),
        ("audio", {}, None),
        ("web_search_options", {}, None),
        ("use_beam_search", True, False),
        ("documents", [{}], []),
        ("include_reasoning", False, True),
    ],
)
def test_what_is_known_but_not_built(with_client: Callable[..., None], field: str, value: Any, harmless: Any) -> None:
    async def scenario(client: Any) -> None:
        for stream in (False, True):
            answer = await client.chat(stream=stream, **{field: value})
            assert (answer.status, answer.error["param"]) == (400, field)
            assert field in answer.error["message"]
        assert (await client.chat(max_tokens=1, **{field: harmless})).status == 200

    with_client(scenario)


@pytest.mark.parametrize(("field", "value"), [("prompt_embeds", "AAAA"), ("suffix", "there"), ("response_format", {"type": "json_object"})])
def test_what_completions_do_not_do(with_client: Callable[..., None], field: str, value: Any) -> None:
    refused(with_client, {"prompt": "hello", field: value}, field)


def test_media_are_refused_without_a_look_at_them(with_client: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: Any) -> None:
        raise AssertionError("somebody connects to somewhere")

    monkeypatch.setattr("socket.socket.connect", connect)
    for part in (IMAGE, {"type": "input_audio"}, {"type": "file"}, {"type": "foo"}):
        body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, part]}]}
        refused(with_client, body, "messages[0].content[1].type", "/v1/chat/completions")


def test_unknown_fields_are_ignored_with_one_warning_each(with_client: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(client: Any) -> None:
        with caplog.at_level(logging.WARNING, logger="octavo_server"):
            for _ in range(2):
                assert (await client.complete(max_tokens=1, frobnicate=1, user="me")).status == 200
                assert (await client.chat(max_tokens=1, frobnicate=1, **{"new\nline": 2})).status == 200
            for number in range(1000):
                await client.post("/v1/completions", {"prompt": "", f"field{number}": 1})
        messages = [record.getMessage() for record in caplog.records if "unknown request field" in record.getMessage()]
        assert sum("frobnicate" in message for message in messages) == 1
        assert not any("\n" in message for message in messages)
        assert len(messages) == 256

    with_client(scenario)


def test_what_waits_is_limited(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        for stream in (False, True):
            answer = await client.complete(["hello"] * 5, n=2, stream=stream)
            assert (answer.status, answer.error["code"]) == (503, "queue_full")
            assert answer.headers["retry-after"]
        assert (await client.complete("hello", n=8)).status == 200

    with_client(scenario, flags={"max_queued_requests": 4}, max_num_seqs=4)


@pytest.mark.parametrize("stream", [False, True])
def test_of_many_at_once_only_so_many_wait(with_client: Callable[..., None], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        body = {"prompt": "hello", "max_tokens": 2, "ignore_eos": True, "stream": stream}
        exchanges = [client.begin("/v1/completions", body) for _ in range(10)]
        refused = exchanges[3:]
        assert [(await exchange.finish()).status for exchange in refused] == [503] * 7
        may_step.set()
        assert [(await exchange.finish()).status for exchange in exchanges[:3]] == [200] * 3

    def hold(plan: StepPlan) -> dict[str, str]:
        assert may_step.wait(30)
        return {}

    may_step = threading.Event()
    with_client(scenario, flags={"max_queued_requests": 2}, max_num_seqs=1, faults=hold)


def test_the_documentation_describes_bodies(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        document = client.app.openapi()
        for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"):
            operation = document["paths"][path]["post"]
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert schema.get("properties") or schema["anyOf"]
            assert operation["responses"]["200"]["content"]["application/json"]["schema"]["properties"]
        assert "text/event-stream" in document["paths"]["/v1/completions"]["post"]["responses"]["200"]["content"]
        assert "$ref" not in json.dumps(document["paths"]["/v1/chat/completions"]["post"]["requestBody"])

    with_client(scenario)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": ["a", "b"], "n": 2}, "prompt"),
        ("/v1/completions", {"prompt": "a", "n": 4}, "n"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "n": 4}, "n"),
    ],
)
def test_more_sequences_than_a_request_may_have(with_client: Callable[..., None], path: str, body: dict[str, Any], param: str) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.post(path, body)
        assert (answer.status, answer.error["param"]) == (400, param)
        assert "more than the 3 sequences" in answer.error["message"]
        fewer = {**body, "n": 1, "max_tokens": 1}
        assert (await client.post(path, fewer)).status == 200

    with_client(scenario, flags={"max_prompts_per_request": 3})
