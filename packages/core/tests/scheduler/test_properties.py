"""Scheduler and pool under random traffic, beside a naive model of the pool that knows nothing but the plans."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from octavo.engine.messages import EngineOutput
from octavo.logprobs import join
from octavo.scheduler.plan import StepPlan
from octavo.scheduler.policy import FirstComeFirstServed, Priority
from octavo.testing.device import FakeDevice
from octavo.testing.engine import EOS_TOKEN_ID, FakeEngine, fake_engine
from octavo.testing.model import continuation, fake_logprobs
from octavo.types import FinishReason

GROUPS = [
    ((4,), (None,)),
    ((4,), (None,)),
    ((4, 4), (None, None)),
    ((2, 4), (None, None)),
    ((4,), (7,)),
    ((4, 4), (None, 5)),
    ((4, 4), (1, 9)),
    ((2, 4), (None, 3)),
    ((4, 2), (None, 6)),
    ((4, 4, 4), (None, 6, 6)),
]
"""Block sizes and windows of the KV groups."""
VOCAB_SIZE = 40
MAX_MODEL_LEN = 48
MAX_STEPS = 1500


@dataclass
class PoolModel:
    """Who holds which blocks and which tokens each block holds the KV of, told from plans alone.

    Attributes:
        tables: block tables of the requests that the device holds.
        content: block -> (group, all tokens up to the last one written into the block).
    """

    block_sizes: tuple[int, ...]
    windows: tuple[int | None, ...]
    tables: dict[str, list[list[int]]] = field(default_factory=dict)
    content: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def blocks(self) -> set[int]:
        return {block for tables in self.tables.values() for table in tables for block in table if block}

    def forget(self, request_id: str) -> None:
        self.tables.pop(request_id, None)

    def follow(self, plan: StepPlan, device: FakeDevice) -> None:
        """Take a plan that is about to run, request by request in batch order."""
        for request_id in plan.removed:
            self.forget(request_id)
        added = {request.request_id: request for request in plan.added}
        continued = {request.request_id: request for request in plan.continued}
        for request_id, count in plan.num_tokens.items():
            if request_id in added:
                request = added[request_id]
                assert request_id not in self.tables
                start, token_ids = request.num_computed_tokens, request.token_ids
                self._check_hits(request.block_ids, start, token_ids)
                self._check_new([table[start // size :] for size, table in zip(self.block_sizes, request.block_ids, strict=True)])
                self.tables[request_id] = request.block_ids
            else:
                start, token_ids = continued[request_id].num_computed_tokens, device.token_ids(request_id)
                self._give_back(request_id, start)
                self._check_new(continued[request_id].new_block_ids)
                for table, new_blocks in zip(self.tables[request_id], continued[request_id].new_block_ids, strict=True):
                    table.extend(new_blocks)
            self._write(request_id, start, token_ids[: start + count])

    def _check_new(self, new_block_ids: list[list[int]]) -> None:
        new = [block for table in new_block_ids for block in table]
        assert 0 not in new
        assert len(set(new)) == len(new)
        assert self.blocks().isdisjoint(new), "a held block is given away"

    def _check_hits(self, tables: list[list[int]], num_cached: int, token_ids: list[int]) -> None:
        assert num_cached < len(token_ids), "the last token is always computed"
        for group, (size, first, table) in enumerate(zip(self.block_sizes, self._first_blocks(num_cached), tables, strict=True)):
            assert num_cached % size == 0
            assert not any(table[:first]), "a block is taken that nobody reads"
            for index in range(first, num_cached // size):
                assert self.content[table[index]] == (group, tuple(token_ids[: (index + 1) * size])), "a hit has other tokens"

    def _first_blocks(self, position: int) -> list[int]:
        """Of each group, the first block that the token at a position reads."""
        firsts = (0 if window is None else max(0, position - window + 1) for window in self.windows)
        return [first // size for first, size in zip(firsts, self.block_sizes, strict=True)]

    def _give_back(self, request_id: str, position: int) -> None:
        for first, table in zip(self._first_blocks(position), self.tables[request_id], strict=True):
            table[:first] = [0] * first

    def _write(self, request_id: str, start: int, token_ids: list[int]) -> None:
        others = [{block for block in table if block} for name, tables in self.tables.items() if name != request_id for table in tables]
        for group, (size, table) in enumerate(zip(self.block_sizes, self.tables[request_id], strict=True)):
            for index in range(start // size, -(-len(token_ids) // size)):
                assert not any(table[index] in other for other in others), "a shared block is written"
                self.content[table[index]] = (group, tuple(token_ids[: (index + 1) * size]))


@dataclass
class Expectation:
    """A request, what it must give, and how many of its tokens are wanted."""

    prompt: list[int]
    output: list[int]
    reason: FinishReason
    leader: str | None
    prompt_logprobs_are_due: bool = False
    done: bool = False


class TrafficMachine(RuleBasedStateMachine):
    """Arrivals, aborts and stops between steps; at the end everything runs out."""

    @initialize(
        groups=st.sampled_from(GROUPS),
        num_blocks=st.integers(9, 16),
        limits=st.tuples(st.integers(1, 6), st.integers(6, 20), st.sampled_from([0, 0, 3, 7])),
        caching=st.booleans(),
        flights=st.integers(1, 3),
        policy=st.sampled_from([FirstComeFirstServed, Priority]),
    )
    def start(
        self,
        groups: tuple[tuple[int, ...], tuple[int | None, ...]],
        num_blocks: int,
        limits: tuple[int, int, int],
        caching: bool,
        flights: int,
        policy: Any,
    ) -> None:
        self.model = PoolModel(*groups)
        self.first_come_first_served = policy is FirstComeFirstServed
        self.synchronous = flights == 1
        self.expected: dict[str, Expectation] = {}
        self.failing: set[str] = set()
        self.engine: FakeEngine = fake_engine(
            num_blocks=num_blocks,
            block_sizes=groups[0],
            windows=groups[1],
            max_num_seqs=limits[0],
            max_num_batched_tokens=limits[1],
            long_prefill_token_threshold=limits[2],
            max_model_len=MAX_MODEL_LEN,
            enable_prefix_caching=caching,
            vocab_size=VOCAB_SIZE,
            max_in_flight=flights,
            policy=policy(),
            faults=self._watch,
        )
        self.longest = min(MAX_MODEL_LEN, self.engine.cache.max_tokens)

    def _watch(self, plan: StepPlan) -> dict[str, str]:
        self.model.follow(plan, self.engine.executor.device)
        if self.first_come_first_served and self.synchronous and plan.num_tokens:
            oldest = next(request_id for request_id, expectation in self.expected.items() if not expectation.done)
            assert oldest in plan.num_tokens or self.expected[oldest].leader, "the oldest request starves"
        return dict.fromkeys(self.failing & set(plan.num_tokens), "told to fail")

    @rule(
        shared=st.sampled_from([0, 1, 5, 9, 24]),
        own=st.lists(st.integers(3, VOCAB_SIZE - 1), min_size=1, max_size=6),
        continuations=st.sampled_from([1, 1, 2, 3]),
        max_tokens=st.sampled_from([0, 1, 8, 20, 30, None]),
        min_tokens=st.sampled_from([0, 0, 3]),
        ignore_eos=st.booleans(),
        stop_token_ids=st.sampled_from([[], [], [7], [EOS_TOKEN_ID, 9]]),
        priority=st.integers(-1, 1),
        salt=st.sampled_from([None, None, "A"]),
        prompt_logprobs=st.sampled_from([None, None, 0]),
    )
    def arrive(
        self,
        shared: int,
        own: list[int],
        continuations: int,
        max_tokens: int | None,
        min_tokens: int,
        ignore_eos: bool,
        stop_token_ids: list[int],
        priority: int,
        salt: str | None,
        prompt_logprobs: int | None,
    ) -> None:
        prompt = ([position % VOCAB_SIZE for position in range(shared)] + own)[: self.longest - 1]
        min_tokens = min_tokens if max_tokens is None else min(min_tokens, max_tokens)
        room = self.longest - len(prompt)
        limit = room if max_tokens is None else min(room, max_tokens)
        leader: str | None = None
        for choice in range(continuations):
            request_id = f"r{len(self.expected)}"
            ending = set(stop_token_ids) if ignore_eos else {*stop_token_ids, EOS_TOKEN_ID}
            output = continuation(prompt, limit, vocab_size=VOCAB_SIZE, seed=choice, min_tokens=min_tokens, ending=ending)
            stopped = bool(output) and output[-1] in ending and len(output) >= min_tokens
            reason = FinishReason.STOP if stopped else FinishReason.LENGTH
            self.engine.add(
                request_id,
                prompt,
                temperature=1.0,
                max_tokens=max_tokens,
                min_tokens=min_tokens,
                ignore_eos=ignore_eos,
                stop_token_ids=stop_token_ids,
                priority=priority,
                cache_salt=salt,
                leader=leader,
                seed=choice,
                prompt_logprobs=prompt_logprobs,
            )
            self.expected[request_id] = Expectation(prompt, output, reason, leader, prompt_logprobs_are_due=prompt_logprobs is not None)
            leader = leader or request_id

    def _pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.expected)))

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        request_id = self._pick(data)
        assert self.engine.loop.abort(request_id) is not self.expected[request_id].done
        assert not self.engine.loop.abort(request_id)
        self._leave(request_id)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def meet_a_stop_string(self, data: st.DataObject) -> None:
        request_id = self._pick(data)
        output = self.engine.loop.finish(request_id, max(0, len(self.engine.tokens[request_id]) - 1))
        assert (output is None) is self.expected[request_id].done
        assert output is None or output.finish_reason is FinishReason.STOP
        self._leave(request_id)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self.failing.add(self._pick(data))

    def _leave(self, request_id: str) -> None:
        self.expected[request_id].done = True
        self.model.forget(request_id)

    @rule(count=st.integers(1, 12))
    def step(self, count: int) -> None:
        for _ in range(count):
            self._step()

    @staticmethod
    def _check_prompt_logprobs(output: EngineOutput, expectation: Expectation) -> None:
        """They come once and whole, with the first output unless that is an error's, however often the prompt was read."""
        if output.prompt_logprobs is not None:
            assert expectation.prompt_logprobs_are_due
            expectation.prompt_logprobs_are_due = False
            assert output.prompt_logprobs == join([fake_logprobs([token], num_top=0) for token in expectation.prompt[1:]])
        assert not expectation.prompt_logprobs_are_due or output.finish_reason is FinishReason.ERROR

    def _step(self) -> None:
        for output in self.engine.step():
            expectation = self.expected[output.request_id]
            assert not expectation.done, "a request has output after its end"
            self._check_prompt_logprobs(output, expectation)
            if output.finish_reason is not None:
                self._leave(output.request_id)
                self._check_end(output.request_id, output.finish_reason)
        assert len(self.model.blocks()) == self.engine.cache.pool.num_in_use
        for request_id, expectation in self.expected.items():
            tokens = self.engine.tokens[request_id]
            assert tokens == expectation.output[: len(tokens)], "tokens were lost or doubled"

    def _check_end(self, request_id: str, reason: FinishReason) -> None:
        if reason is FinishReason.ERROR:
            assert request_id in self.failing
        else:
            assert reason is self.expected[request_id].reason
            assert self.engine.tokens[request_id] == self.expected[request_id].output

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        for _ in range(MAX_STEPS):
            if not self.engine.loop.has_work():
                break
            self._step()
        assert all(expectation.done for expectation in self.expected.values()), "a request never ended"
        assert self.engine.cache.usage == 0
        assert not self.engine.executor.device.request_ids
        stats = self.engine.loop.stats()
        assert (stats.running, stats.waiting) == (0, 0)
        assert sum(stats.counters.finished.values()) == len(self.expected)
        assert stats.counters.generated_tokens == sum(map(len, self.engine.tokens.values()))


TrafficMachine.TestCase.settings = settings(
    max_examples=130, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTraffic = TrafficMachine.TestCase
