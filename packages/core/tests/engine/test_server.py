"""The engine's end of the connection, with clients that do what they should not."""

import asyncio
import os
import pickle
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from octavo import SamplingParams
from octavo.engine.client_messages import (
    MAX_REQUEST_BYTES,
    Abort,
    Add,
    Dead,
    EngineBeat,
    EngineMessage,
    Goodbye,
    Hello,
    Outputs,
    Ready,
    StartFailed,
    Stranger,
    decode_engine_message,
    encode,
)
from octavo.engine.folder import socket_path
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.engine.remote import RemoteEngine
from octavo.engine.sockets import connect
from octavo.errors import CheckpointError, EngineDeadError
from octavo.scheduler.plan import StepPlan
from octavo.testing.model import continuation
from octavo.types import FinishReason

ENDLESS = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)
SHORT = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)


class Client:
    """A client made by hand."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self.socket = socket
        self.output_ids: set[str] = set()

    def send(self, message: Any) -> None:
        self.socket.send(message if isinstance(message, bytes) else encode(message))

    def receive(self, *kinds: type[EngineMessage]) -> Any:
        """The next message of these kinds; others are passed over."""
        while True:
            assert self.socket.poll(10_000)
            message = decode_engine_message(self.socket.recv())
            if isinstance(message, kinds):
                return message

    def hello(self, client: int = 0, session: str = "s") -> Ready:
        self.send(Hello(client=client, session=session))
        ready: Ready = self.receive(Ready)
        return ready

    def add(self, request_id: str, params: SamplingParams = SHORT, **fields: Any) -> None:
        self.send(Add(requests=[request(request_id, params, **fields)]))

    def end_of(self, request_id: str) -> EngineOutput:
        while True:
            for output in self.receive(Outputs).outputs:
                self.output_ids.add(output.request_id)
                if output.request_id == request_id and output.finish_reason is not None:
                    return output  # type: ignore[no-any-return]

    def beat_until(self, condition: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < ends_at
            self.receive(EngineBeat)


def request(request_id: str, params: SamplingParams = SHORT, **fields: Any) -> EngineRequest:
    return EngineRequest(**{"request_id": request_id, "token_ids": [5], "params": params, "arrival_time": 1.0, "seed": 0, **fields})


@contextmanager
def client_of(served: Any) -> Iterator[Client]:
    socket, monitor = connect(served.context, socket_path(served.folder, 0))
    socket.set(zmq.SNDTIMEO, 10_000)
    try:
        yield Client(socket)
    finally:
        if not socket.closed:
            socket.disable_monitor()
        monitor.close(0)
        socket.close(0)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        return await asyncio.wait_for(main, 50)

    return asyncio.run(in_time())


def load_of(served: Any) -> tuple[int, int]:
    report = served.server._background.reports.report
    return report.running, report.waiting


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_garbage_is_dropped_and_everybody_else_goes_on(serve_here: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    served = serve_here()
    bomb = tmp_path / "exploded"
    garbage = [
        b"",
        b"\xc1",
        os.urandom(1000),
        pickle.dumps(Bomb(bomb)),
        b"\x91" * 100_000,
        msgspec.msgpack.encode({"type": "none such"}),
        msgspec.msgpack.encode({"type": "hello", "client": -1, "session": "x"}),
        msgspec.msgpack.encode({"type": "hello", "client": 10**30 % 2**64, "session": "x"}),
        msgspec.msgpack.encode({"type": "add", "requests": []}),
        encode(Add(requests=[request("x")])).replace(b"temperature", b"temperatur_"),
        encode(
            {"type": "add", "requests": [{"request_id": "x", "token_ids": [2**63], "params": {"n": 10**9}, "arrival_time": 1, "seed": 1}]}
        ),
    ]
    with client_of(served) as good, client_of(served) as bad:
        good.hello()
        good.add("a", ENDLESS)
        for message in garbage:
            bad.socket.send(message)
        bad.socket.send_multipart([encode(Abort(request_ids=["a"])), b"two", b"three"])
        bad.hello(client=1)
        for message in garbage:
            bad.socket.send(message)
        bad.send(Abort(request_ids=["a"]))
        bad.add("b")
        assert bad.end_of("b").finish_reason is FinishReason.LENGTH
        good.add("c")
        assert good.end_of("c").finish_reason is FinishReason.LENGTH
        good.send(Abort(request_ids=["a"]))
        good.beat_until(lambda: load_of(served) == (0, 0))
    assert not bomb.exists()
    assert 1 <= len([record for record in caplog.records if "dropped a message" in record.getMessage()]) <= 2


def test_a_frame_that_is_too_long_ends_its_connection_alone(serve_here: Any) -> None:
    served = serve_here()
    with client_of(served) as good, client_of(served) as bad:
        good.hello()
        bad.hello(client=1)
        bad.add("b", ENDLESS)
        bad.socket.send(bytes(MAX_REQUEST_BYTES + 1))
        good.beat_until(lambda: served.server.sessions.of_client(1) is None)
        good.beat_until(lambda: load_of(served) == (0, 0))
        good.add("c")
        assert good.end_of("c").finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"token_ids": [1000]}, "outside"),
        ({"token_ids": [-1]}, "outside"),
        ({"token_ids": []}, "0 tokens"),
        ({"token_ids": [5] * 30_000}, "30000 tokens"),
        ({"params": SamplingParams(logit_bias={1000: 1.0})}, "1000"),
        ({"params": SamplingParams(logprobs=1000)}, "at most 20"),
        ({"params": SamplingParams(n=2)}, "one choice"),
        ({"seed": -(2**63)}, None),
        ({"bad_sequences": [[5], [1000]]}, "bad words"),
        ({"bad_sequences": [[]]}, "bad words"),
    ],
)
def test_a_request_that_no_honest_client_sends_ends_with_the_reason(serve_here: Any, fields: dict[str, Any], said: str | None) -> None:
    served = serve_here()
    with client_of(served) as client:
        client.hello()
        client.add("a", **fields)
        end = client.end_of("a")
        if said is None:
            assert end.finish_reason is FinishReason.LENGTH
        else:
            assert end.finish_reason is FinishReason.ERROR
            assert said in str(end.error)
        assert served.server.sessions.num_requests == 0


def test_nobody_touches_requests_of_others(serve_here: Any) -> None:
    served = serve_here()
    with client_of(served) as first, client_of(served) as second:
        first.hello()
        second.hello(client=1)
        first.add("a", ENDLESS)
        first.receive(Outputs)
        second.add("a")
        second.send(Add(requests=[request("b"), request("c", leader="a")]))
        second.send(Add(requests=[request("d", leader="a")]))
        second.send(Add(requests=[request("e"), request("e", leader="e")]))
        second.send({"type": "finish", "request_id": "a", "num_output_tokens": 0})
        second.add("last")
        second.end_of("last")
        assert second.output_ids == {"last"}
        assert load_of(served) == (1, 0)
        first.receive(Outputs)


def test_a_prompt_crosses_once_for_all_its_continuations(serve_here: Any) -> None:
    served = serve_here()
    with client_of(served) as client:
        client.hello()
        leader = request("a", token_ids=[5, 6, 7])
        client.send(Add(requests=[leader, request("b", token_ids=[], leader="a")]))
        tokens: dict[str, list[int]] = {"a": [], "b": []}
        while any(len(found) < 3 for found in tokens.values()):
            for output in client.receive(Outputs).outputs:
                tokens[output.request_id] += output.new_token_ids
        assert tokens == dict.fromkeys("ab", continuation([5, 6, 7], 3, vocab_size=1000))


def test_who_says_nothing_for_too_long_is_forgotten_and_its_blocks_come_back(serve_here: Any) -> None:
    served = serve_here(silent_beats=2)
    with client_of(served) as silent, client_of(served) as good:
        silent.hello(client=1)
        silent.add("a", ENDLESS)
        silent.receive(Outputs)
        good.hello()
        ends_at = time.monotonic() + 10
        while load_of(served) != (0, 0):
            assert time.monotonic() < ends_at
            good.send({"type": "beat"})
            good.receive(EngineBeat)
        assert len(served.server.sessions) == 1
        assert served.server._background.reports.received == {}
        while silent.socket.poll(100):
            silent.socket.recv()
        silent.send({"type": "beat"})
        silent.receive(Stranger)
        silent.hello(client=1, session="another")
        silent.add("a")
        silent.end_of("a")


def test_who_does_not_read_is_given_up_before_much_is_kept_for_it(serve_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.sessions.MAX_OUTBOX_BYTES", 2000)
    monkeypatch.setattr("octavo.engine.sockets.MESSAGES_IN_SOCKET", 1)
    served = serve_here(num_blocks=20_000)
    with client_of(served) as frozen, client_of(served) as good:
        frozen.socket.set(zmq.RCVHWM, 1)
        frozen.hello(client=1)
        good.hello()
        for index in range(8):
            frozen.add(f"a{index}", ENDLESS, token_ids=[5 + index])
        good.beat_until(lambda: served.server.sessions.of_client(1) is None)
        good.beat_until(lambda: load_of(served) == (0, 0))


def test_a_later_client_of_the_same_number_replaces_the_first(serve_here: Any) -> None:
    served = serve_here()
    with client_of(served) as first, client_of(served) as second:
        first.hello(session="first")
        first.add("a", ENDLESS)
        first.receive(Outputs)
        second.hello(session="second")
        second.beat_until(lambda: load_of(served) == (0, 0))
        first.send(Abort(request_ids=["a"]))
        first.receive(Stranger)


def test_the_same_hello_again_changes_nothing(serve_here: Any) -> None:
    served = serve_here()
    with client_of(served) as client:
        ready = client.hello()
        client.add("a", ENDLESS)
        client.receive(Outputs)
        again = client.hello()
        assert (again.session, again.instance, again.info) == (ready.session, ready.instance, ready.info)
        assert again.report.received == 1
        client.receive(Outputs)
        client.hello(session="another")
        client.beat_until(lambda: load_of(served) == (0, 0))


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_the_requests_of_a_client_that_leaves_or_vanishes_end(serve_here: Any, says_goodbye: bool) -> None:
    served = serve_here()
    with client_of(served) as leaving, client_of(served) as good:
        leaving.hello(client=1)
        leaving.add("a", ENDLESS)
        leaving.receive(Outputs)
        if says_goodbye:
            leaving.send(Goodbye())
        else:
            leaving.socket.disable_monitor()
            leaving.socket.close(0)
        good.hello()
        good.beat_until(lambda: load_of(served) == (0, 0) and len(served.server.sessions) == 1)


def test_a_client_that_waits_for_an_engine_hears_what_it_failed_with(serve_here: Any) -> None:
    def load() -> Any:
        raise CheckpointError("damaged")

    async def main() -> None:
        served = serve_here(load=load)
        link = RemoteEngine(served.folder)
        with pytest.raises(CheckpointError, match="damaged"):
            await link.ready()
        await link.close()
        with client_of(served) as late:
            late.send(Hello(client=5, session="x"))
            assert late.receive(StartFailed).failure.kind == "CheckpointError"

    run(main())


def test_an_engine_that_stops_says_so(serve_here: Any) -> None:
    served = serve_here()
    with client_of(served) as client:
        client.hello()
        client.add("a", ENDLESS)
        client.receive(Outputs)
        served.server.stop()
        assert "shutting down" in client.receive(Dead).reason


def test_a_long_step_is_not_death(serve_here: Any) -> None:
    def faults(plan: StepPlan) -> dict[str, str]:
        if plan.step_id == 1:
            time.sleep(2)
        return {}

    async def main() -> None:
        served = serve_here(faults=faults)
        heard: list[list[EngineOutput]] = []
        lost: list[EngineDeadError] = []
        link = RemoteEngine(served.folder, silent_beats=3).listen(heard.append, lost.append)
        await link.ready()
        link.add([request("0-a")])
        start = time.monotonic()
        while not (heard and heard[-1][0].finish_reason):
            await asyncio.sleep(0.01)
        assert time.monotonic() - start >= 2
        assert not lost
        await link.close()

    run(main())
