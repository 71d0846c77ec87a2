import asyncio
import math
import socket
import threading
from dataclasses import replace
from typing import Any

import pytest

from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.errors import BenchmarkError
from octavo_server.bench.run import benchmark, run_benchmark
from octavo_server.bench.slo import parse_slo
from octavo_server.bench.workload import WorkloadConfig


def config_for(server: Any, *, num_prompts: int = 6, **values: Any) -> BenchmarkConfig:
    workload = values.pop("workload", WorkloadConfig(num_prompts=num_prompts, input_len=5, output_len=4))
    return BenchmarkConfig(**{"base_url": server.url, "num_warm_ups": 0, "prompt_form": "ids", "workload": workload, **values})


def test_requests_are_sent_answered_and_counted(server: Any) -> None:
    result = run_benchmark(config_for(server, service_level=parse_slo("ttft=30s")))
    assert (result.completed, result.failed, result.unfinished, result.errors) == (6, 0, 0, ())
    assert (result.input_tokens, result.output_tokens, result.cached_tokens, result.num_events) == (42, 24, 18, 24)
    assert result.goodput == result.request_throughput > 0
    assert all(len(record.inter_token_s) == 3 for record in result.records)
    for record in result.records:
        assert 0 <= record.ttft_s <= record.e2e_s <= record.ended - record.sent
        assert record.e2e_s - record.ttft_s == pytest.approx(sum(record.inter_token_s))
    assert result.model == "first"


def test_bodies_ask_for_streams_of_a_fixed_length(server: Any) -> None:
    run_benchmark(config_for(server, api_key="secret", extra_body={"top_p": 0.5, "max_tokens": 3}))
    for body in server.bodies:
        prompt = body.pop("prompt")
        assert len(prompt) == 5
        assert all(256 <= token_id < 10_000 for token_id in prompt)
    assert server.bodies[0] == {
        "model": "first",
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "ignore_eos": True,
        "top_p": 0.5,
    }
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer secret"}
    assert {headers["Host"] for headers in server.headers} == {f"127.0.0.1:{server.port}"}


def test_chats_are_messages_of_text(server: Any) -> None:
    result = run_benchmark(config_for(server, endpoint="chat", prompt_form="auto", ignore_eos=False, temperature=None, model="second"))
    assert result.completed == 6
    assert set(server.paths) == {"/v1/chat/completions"}
    (message,) = server.bodies[0]["messages"]
    assert message["role"] == "user"
    assert len(message["content"].split()) == 5
    assert server.bodies[0]["model"] == "second"
    assert not {"ignore_eos", "temperature", "prompt"} & set(server.bodies[0])


def test_ids_stay_below_the_vocabulary_that_the_server_says(server: Any) -> None:
    run_benchmark(config_for(server, model="second"))
    assert all(token_id < 50 for body in server.bodies for token_id in body["prompt"])


def test_text_is_sent_where_ids_are_refused(server: Any, answers: Any, events: Any) -> None:
    def script(body: dict[str, Any]) -> Any:
        if isinstance(body["prompt"], list):
            return answers((b'{"error": {"message": "give text"}}',), status=400)
        return answers(tuple(events(4)))

    server.script = script
    result = run_benchmark(config_for(server, prompt_form="auto", num_warm_ups=2))
    assert result.completed == 6
    assert result.notes == ("the server does not take these token ids (HTTP 400: give text): prompts are text",)
    assert [type(body["prompt"]) for body in server.bodies] == [list] + [str] * 8
    assert (result.output_tokens, result.num_counted_here) == (24, 6)


def test_the_warm_up_is_apart_from_what_is_measured(server: Any) -> None:
    result = run_benchmark(config_for(server, num_warm_ups=3))
    assert len(server.bodies) == 9
    assert (result.completed, result.output_tokens) == (6, 24)
    prompts = [tuple(body["prompt"]) for body in server.bodies]
    assert len(set(prompts)) == 9


def test_events_in_pieces_of_any_size_are_the_same_answer(server: Any, answers: Any, events: Any) -> None:
    text = b"".join(events(4, usage={"prompt_tokens": 7, "completion_tokens": 4}))
    for size in (1, 7, 64, len(text)):
        pieces = tuple(text[start : start + size] for start in range(0, len(text), size))
        server.script = lambda _, pieces=pieces: answers(pieces)
        result = run_benchmark(config_for(server, num_prompts=1))
        assert (result.completed, result.num_events, result.output_tokens) == (1, 4, 4)


def test_pauses_of_the_server_are_its_latencies(server: Any, answers: Any, events: Any) -> None:
    server.script = lambda _: answers(tuple(events(4)), pause_s=0.03)
    result = run_benchmark(config_for(server, num_prompts=3))
    assert result.ttft is not None
    assert result.itl is not None
    assert result.tpot is not None
    assert result.ttft.median >= 0.029
    assert result.itl.median >= 0.029
    assert result.tpot.mean == pytest.approx(result.itl.mean)


def test_at_most_so_many_run_at_once(server: Any, answers: Any, events: Any) -> None:
    server.script = lambda _: answers(tuple(events(2)), pause_s=0.01)
    assert run_benchmark(config_for(server, num_prompts=9, max_concurrency=2)).peak_concurrency == 2
    assert run_benchmark(config_for(server, num_prompts=9)).peak_concurrency > 2


def test_requests_are_sent_when_they_are_due(server: Any) -> None:
    result = run_benchmark(config_for(server, num_prompts=10, request_rate=100.0, arrival="constant"))
    assert [round(record.due, 3) for record in sorted(result.records, key=lambda record: record.due)] == [
        number / 100 for number in range(10)
    ]
    assert all(record.sent > record.due - 0.005 for record in result.records)
    assert result.duration_s > 0.085


def test_concurrency_grows_where_all_requests_are_there_at_once(server: Any, answers: Any, events: Any) -> None:
    server.script = lambda _: answers(tuple(events(1)), pause_s=0.02)
    result = run_benchmark(config_for(server, num_prompts=8, max_concurrency=8, ramp_up_s=0.4))
    assert result.completed == 8
    assert result.peak_concurrency < 8


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (503, b'{"error": {"message": "the queue is full", "type": "x"}}', "HTTP 503", "the queue is full"),
        (400, b'{"object": "error", "message": "too long"}', "HTTP 400", "too long"),
        (422, b'{"detail": ["x"]}', "HTTP 422", "{'detail': ['x']}"),
        (500, b"<html>\n oops", "HTTP 500", "<html> oops"),
        (404, b"", "HTTP 404", "no message"),
    ],
)
def test_statuses_are_errors_with_the_servers_message(
    server: Any, answers: Any, events: Any, status: int, body: bytes, kind: str, said: str
) -> None:
    def script(_: dict[str, Any]) -> Any:
        return answers((body,), status=status) if len(server.bodies) % 2 else answers(tuple(events(4)))

    server.script = script
    result = run_benchmark(config_for(server))
    assert (result.completed, result.failed) == (3, 3)
    ((error, count),) = result.errors
    assert (error.kind, error.message, count) == (kind, said, 3)


@pytest.mark.parametrize(
    ("ending", "kind", "said"),
    [
        ({"done": False, "end": None}, "cut off", "without a finish_reason"),
        ({"done": False, "end": None, "is_cut": True}, "cut off", "in the middle"),
        ({"error": b'data: {"error": {"message": "lost"}}\n\n'}, "stream error", "lost"),
        ({"error": b"data: {]\n\n"}, "malformed event", "malformed"),
        ({"holds": True}, "timeout", "no end after 0.3 s"),
    ],
)
def test_streams_that_break_are_errors_by_kind(
    server: Any, answers: Any, events: Any, ending: dict[str, Any], kind: str, said: str
) -> None:
    pieces = events(3, done=ending.get("done", True), end=ending.get("end", "length"))
    broken = answers((*pieces, ending.get("error", b": \n\n")), is_cut=ending.get("is_cut", False), holds=ending.get("holds", False))
    server.script = lambda _: answers(tuple(events(3))) if len(server.bodies) % 2 else broken
    result = run_benchmark(config_for(server, num_prompts=4, timeout_s=0.3))
    assert (result.completed, result.failed, result.output_tokens) == (2, 2, 6)
    ((error, count),) = result.errors
    assert (error.kind, count) == (kind, 2)
    assert said in error.message


@pytest.mark.parametrize("ending", [{"done": False}, {"end": None}])
def test_a_finish_reason_or_done_alone_ends_an_answer(server: Any, answers: Any, events: Any, ending: dict[str, Any]) -> None:
    server.script = lambda _: answers(tuple(events(3, **ending)))
    assert run_benchmark(config_for(server)).failed == 0


def test_a_server_where_everything_fails_is_an_error(server: Any, answers: Any) -> None:
    server.script = lambda _: answers((b'{"error": {"message": "no such model"}}',), status=404)
    with pytest.raises(BenchmarkError, match=r"every request failed .6., the first with HTTP 404: no such model"):
        run_benchmark(config_for(server))
    with pytest.raises(BenchmarkError, match=r"every request failed .2."):
        run_benchmark(config_for(server, num_warm_ups=2))


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BenchmarkError, match=f"no server at http://127.0.0.1:{port}: "):
        run_benchmark(BenchmarkConfig(base_url=f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b'{"error": {"message": "wrong key"}}', "HTTP 401: wrong key .give the key with --api-key"),
        (404, b"", "give the model with --model"),
        (200, b'{"data": []}', "lists no model"),
        (200, b"<html>", "lists no model"),
    ],
)
def test_a_model_that_cannot_be_found_is_an_error(server: Any, answers: Any, status: int, body: bytes, said: str) -> None:
    server.models = answers((body,), status=status)
    with pytest.raises(BenchmarkError, match=said):
        run_benchmark(config_for(server))


def test_a_list_of_models_is_not_needed_where_one_is_given(server: Any, answers: Any) -> None:
    server.models = answers((b"",), status=404)
    assert run_benchmark(config_for(server, model="mine")).model == "mine"


def test_a_server_that_is_not_ready_is_waited_for(server: Any, answers: Any) -> None:
    server.models = answers((b'{"error": {"message": "loading"}}',), status=503)
    with pytest.raises(BenchmarkError, match="HTTP 503: loading"):
        run_benchmark(config_for(server))
    timer = threading.Timer(0.1, setattr, (server, "models", None))
    timer.start()
    assert run_benchmark(config_for(server, wait_s=30)).completed == 6
    timer.join()


def test_progress_ends_with_everything_done(server: Any) -> None:
    seen: list[tuple[int, int, int]] = []
    run_benchmark(config_for(server), on_progress=lambda state: seen.append((state.num_done, state.num_running, state.num_events)))
    assert seen[0] == (0, 0, 0)
    assert seen[-1] == (6, 0, 24)


def test_a_load_that_is_stopped_leaves_what_there_is(server: Any, answers: Any, events: Any) -> None:
    server.script = lambda _: answers(tuple(events(2)), holds=len(server.bodies) > 4)

    async def run() -> Any:
        stop = asyncio.Event()

        def watch(state: Any) -> None:
            if state.num_done == 4:
                stop.set()

        return await benchmark(config_for(server, num_prompts=7), on_progress=watch, stop=stop)

    result = asyncio.run(run())
    assert (result.completed, result.failed, result.unfinished) == (4, 0, 3)


def test_a_response_may_end_with_its_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = b'data: {"choices": [{"text": "a", "finish_reason": "stop"}]}\n\n'
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + (b'{"data": [{"id": "old"}]}' if head.startswith(b"GET") else body))
        await writer.drain()
        writer.close()

    async def run() -> Any:
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            return await benchmark(
                BenchmarkConfig(base_url=f"http://127.0.0.1:{port}", num_warm_ups=0, workload=WorkloadConfig(num_prompts=2))
            )

    result = asyncio.run(run())
    assert (result.completed, result.model) == (2, "old")


def test_what_is_no_http_is_an_error() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-nonsense\r\n\r\n")
        await writer.drain()
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
            await benchmark(BenchmarkConfig(base_url=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"))

    with pytest.raises(BenchmarkError, match="the answer is no HTTP"):
        asyncio.run(run())


def test_a_result_says_what_was_asked(server: Any) -> None:
    config = config_for(server, num_prompts=2)
    result = run_benchmark(config)
    assert result.config == replace(config, workload=result.config.workload)
    assert result.as_dict()["request_rate"] == "inf"
    assert math.isinf(result.config.request_rate)
