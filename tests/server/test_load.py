"""Many streams at once through one API process."""

import asyncio
import json
import random
from dataclasses import dataclass, field

import pytest

from octavo.testing.llm import word_backend
from octavo.testing.model import continuation
from octavo_server.bench.address import Address, find_address
from octavo_server.bench.event_stream import EventSplitter
from tests.server.running import Launcher, RunningServer, until

NUM_SPECIAL, VOCAB_SIZE = 3, 1000
LONGEST_S = 600.0
"""That streams may take together, on a machine that has other things to do."""
GAUGES = ("octavo:num_requests_running", "octavo:num_requests_waiting", "octavo:kv_cache_usage_perc")
WORDS = [word_backend(["user", "assistant", "hello", "there"]).id_to_token(token_id) for token_id in range(VOCAB_SIZE)]


@dataclass
class Stream:
    """A request for the tokens that the fake model gives, and what came of it.

    Attributes:
        tells_ids: the events say token ids, and are not encoded the short way.
        parts: text of each event.
    """

    prompt: list[int]
    count: int
    tells_ids: bool
    parts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    last: str = ""

    @property
    def expected(self) -> list[int]:
        return continuation(self.prompt, self.count, vocab_size=VOCAB_SIZE)

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return bool(self.parts) and not self.ends

    async def run(self, address: Address) -> None:
        body = {"prompt": self.prompt, "max_tokens": self.count, "temperature": 0, "ignore_eos": True, "stream": True}
        request, splitter = json.dumps(body | {"return_token_ids": self.tells_ids}).encode(), EventSplitter()
        head = address.head("POST", "/v1/completions", {"content-type": "application/json"}, length=len(request))

        def take(piece: bytes, _: float) -> None:
            for data in splitter.feed(piece):
                self._take(data.decode())

        response, error = await address.exchange(head + request, take)
        assert (response.status, error) == (200, None), response.error_body

    def _take(self, data: str) -> None:
        assert self.last != "[DONE]"
        self.last = data
        if data == "[DONE]":
            return
        (choice,) = json.loads(data)["choices"]
        self.parts.append(choice["text"])
        self.token_ids += choice.get("token_ids", [])
        if choice["finish_reason"] is not None:
            self.ends.append(choice["finish_reason"])

    def check(self) -> None:
        """Every token came once, in an event of its own, and the stream has one end."""
        expected = self.expected
        assert self.parts == ["" if token_id < NUM_SPECIAL else WORDS[token_id] for token_id in expected]
        assert self.token_ids == (expected if self.tells_ids else [])
        assert (self.ends, self.last) == (["length"], "[DONE]")


def draw(count: int, *, longest: int) -> list[Stream]:
    """Prompts and answers of many lengths, some prompts with a beginning in common."""
    source = random.Random(4)
    common = source.choices(range(NUM_SPECIAL, VOCAB_SIZE), k=40)
    streams = []
    for number in range(count):
        own = source.choices(range(NUM_SPECIAL, VOCAB_SIZE), k=source.randint(1, 60))
        streams.append(Stream((common if number % 3 == 0 else []) + own, source.randint(1, longest), tells_ids=number % 2 == 0))
    return streams


async def run_all(server: RunningServer, streams: list[Stream], *, at_once: int) -> int:
    """Run all streams, so many at once. The most that ran at any time."""
    address, slots, most = await find_address(server.address), asyncio.Semaphore(at_once), 0

    async def run(stream: Stream) -> None:
        async with slots:
            await stream.run(address)

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, sum(stream.is_running for stream in streams))
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    async with asyncio.timeout(LONGEST_S):
        await asyncio.gather(*map(run, streams))
    watching.cancel()
    return most


def assert_idle(server: RunningServer) -> None:
    """Nothing runs, and no block is held."""

    def is_idle() -> bool:
        load = server.get("/load").json()
        lines = [line for line in server.get("/metrics").text.splitlines() if line.startswith(GAUGES)]
        assert len(lines) == len(GAUGES)
        return set(load.values()) == {0} and all(float(line.rpartition(" ")[2]) == 0 for line in lines)

    until(is_idle, within_s=5, what="an idle server")


def counter(server: RunningServer, name: str) -> float:
    """Of the engine."""
    (line,) = [line for line in server.get("/metrics").text.splitlines() if line.startswith(f"octavo:{name}_total{{")]
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize("count", [256, pytest.param(4096, marks=pytest.mark.slow)])
def test_no_token_of_256_streams_at_once_is_lost_or_doubled(launch: Launcher, count: int) -> None:
    server, streams = launch.ready("--max-num-seqs", "256"), draw(count, longest=80)
    most = asyncio.run(run_all(server, streams, at_once=256))
    assert most > 128
    for stream in streams:
        stream.check()
    assert counter(server, "generation_tokens") == sum(stream.count for stream in streams)
    assert_idle(server)
    server.signal()
    assert server.wait() == 0


def test_streams_that_take_memory_from_each_other_lose_nothing(launch: Launcher) -> None:
    server, streams = launch.ready("--num-blocks", "48", "--max-model-len", "300"), draw(32, longest=180)
    asyncio.run(run_all(server, streams, at_once=32))
    for stream in streams:
        stream.check()
    assert counter(server, "num_preemptions") > 0
    assert_idle(server)
