"""Requests of every sort, as many at once as there are clients."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from octavo.sampling_params import SamplingParams

if TYPE_CHECKING:
    from octavo.async_llm import AsyncLLM
    from octavo.outputs import RequestOutput

LENGTHS = ((1, 32), (33, 200), (201, 700))
NUM_BEGINNINGS, BEGINNING_LEN = 4, 160
OUTPUT_LENGTHS = ((1, 4), (5, 64), (100, 250))
Use = Callable[["Traffic", list[int], SamplingParams, random.Random], Awaitable[None]]


class Traffic:
    """Clients that ask again as soon as they are answered.

    Args:
        llm: that they ask.
        num_clients: at once.
        seed: of all that they ask for.

    Attributes:
        num_done: requests so far.
    """

    def __init__(self, llm: "AsyncLLM", *, num_clients: int, seed: int) -> None:
        self.llm = llm
        self.num_done = 0
        self._sources = [random.Random(f"{seed}-{number}") for number in range(num_clients)]
        self._uses: Counter[str] = Counter()
        self._surprises: Counter[str] = Counter()
        source = random.Random(seed)
        self._beginnings = [self._token_ids(source, BEGINNING_LEN) for _ in range(NUM_BEGINNINGS)]

    async def flow(self, seconds: float) -> None:
        """Full load for so long; every request has ended when this returns."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as clients:
            for source in self._sources:
                clients.create_task(self._client(source, end))

    def problems(self) -> list[str]:
        """What should not have happened, and what should have and did not."""
        unused = [f"no request was a {use.__name__}" for use, _ in _USES if not self._uses[use.__name__]]
        return [*(f"{count} times {surprise}" for surprise, count in self._surprises.items()), *unused]

    def expect(self, holds: bool, what: str) -> None:
        """Count a surprise where something does not hold."""
        if not holds:
            self._surprises[what] += 1

    async def _client(self, source: random.Random, end: float) -> None:
        while time.monotonic() < end:
            use: Use = source.choices([use for use, _ in _USES], [weight for _, weight in _USES])[0]
            await use(self, self._prompt(source), random_params(source, self.llm.info.vocab_size), source)
            self._uses[use.__name__] += 1
            self.num_done += 1

    def _prompt(self, source: random.Random) -> list[int]:
        own = self._token_ids(source, source.randint(*source.choice(LENGTHS)))
        return source.choice(self._beginnings) + own if source.random() < 0.4 else own

    def _token_ids(self, source: random.Random, count: int) -> list[int]:
        return [source.randrange(3, self.llm.info.vocab_size) for _ in range(count)]


def random_params(source: random.Random, vocab_size: int) -> SamplingParams:
    """Up to three options beside lengths and temperature."""
    given: dict[str, Any] = {
        "n": source.choices((1, 2, 4), (8, 2, 1))[0],
        "max_tokens": source.randint(*source.choices(OUTPUT_LENGTHS, (2, 6, 2))[0]),
        "temperature": source.choice((0.0, 0.0, 0.7, 1.3)),
        "ignore_eos": source.random() < 0.5,
    }
    options: dict[str, Callable[[], Any]] = {
        "top_k": lambda: source.randint(1, 50),
        "top_p": lambda: source.uniform(0.3, 1.0),
        "min_p": lambda: source.uniform(0.0, 0.3),
        "presence_penalty": lambda: source.uniform(-1, 1),
        "frequency_penalty": lambda: source.uniform(-1, 1),
        "repetition_penalty": lambda: source.uniform(0.8, 1.3),
        "logit_bias": lambda: {source.randrange(vocab_size): 5.0, source.randrange(vocab_size): -100.0},
        "allowed_token_ids": lambda: source.sample(range(3, vocab_size), 20),
        "bad_words": lambda: ["a", "the"],
        "logprobs": lambda: source.randint(0, 5),
        "prompt_logprobs": lambda: source.randint(0, 2),
        "seed": lambda: source.randrange(1 << 40),
        "stop": lambda: source.sample(["a", "e", "th", ". ", "0"], 2),
        "stop_token_ids": lambda: [source.randrange(vocab_size)],
        "min_tokens": lambda: source.randint(0, given["max_tokens"]),
        "detokenize": lambda: True,
    }
    chosen = source.sample(sorted(options), source.choice((0, 0, 1, 2, 3)))
    return SamplingParams(**given, **{name: options[name]() for name in chosen})


async def answer(traffic: Traffic, prompt: list[int], params: SamplingParams, _: random.Random) -> None:
    """Awaited as a whole."""
    output = await traffic.llm.generate(prompt, params)
    _check_end(traffic, output, params)


async def stream(traffic: Traffic, prompt: list[int], params: SamplingParams, _: random.Random) -> None:
    """Read to its end."""
    last, length = None, 0
    async for output in traffic.llm.stream(prompt, params):
        traffic.expect(len(output.outputs[0].text) >= length, "a text shrank")
        last, length = output, len(output.outputs[0].text)
    traffic.expect(last is not None, "a stream brought nothing")
    if last is not None:
        _check_end(traffic, last, params)


async def left(traffic: Traffic, prompt: list[int], params: SamplingParams, source: random.Random) -> None:
    """A stream whose reader goes away after a few outputs."""
    most = source.randint(1, 8)
    async with aclosing(traffic.llm.stream(prompt, params)) as outputs:
        async for number, _ in _numbered(outputs):
            if number >= most:
                break


async def aborted(traffic: Traffic, prompt: list[int], params: SamplingParams, source: random.Random) -> None:
    """A stream that is ended by its name in the middle."""
    name, most = f"{source.random()}", source.randint(1, 8)
    async for number, output in _numbered(traffic.llm.stream(prompt, params, request_id=name)):
        if number == most and not output.finished:
            traffic.expect(traffic.llm.abort(name), "a request that runs could not be aborted")


async def cancelled(traffic: Traffic, prompt: list[int], params: SamplingParams, source: random.Random) -> None:
    """A task that is cancelled while it waits."""
    task = asyncio.create_task(traffic.llm.generate(prompt, params))
    await asyncio.wait([task], timeout=source.random() * 0.2)
    task.cancel()
    await asyncio.wait([task])
    traffic.expect(task.cancelled() or task.exception() is None, "a cancelled request failed")


_USES: tuple[tuple[Use, int], ...] = ((answer, 5), (stream, 5), (left, 2), (aborted, 2), (cancelled, 1))


def _check_end(traffic: Traffic, output: "RequestOutput", params: SamplingParams) -> None:
    assert params.max_tokens is not None
    traffic.expect(output.finished and len(output.outputs) == params.n, "an answer is not whole")
    traffic.expect(all(len(choice.token_ids) <= params.max_tokens for choice in output.outputs), "an answer is too long")
    reasons = {str(choice.finish_reason) for choice in output.outputs}
    traffic.expect(reasons <= {"stop", "length"}, f"answers ended with {sorted(reasons)}")


async def _numbered(outputs: "AsyncIterator[RequestOutput]") -> "AsyncIterator[tuple[int, RequestOutput]]":
    number = 0
    async for output in outputs:
        number += 1
        yield number, output
