"""What holds for every order of service."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from octavo.engine.messages import EngineRequest
from octavo.request import Request
from octavo.sampling_params import SamplingParams
from octavo.scheduler.policy import SchedulerPolicy
from octavo.testing.conformance.faults import bare_faults
from octavo.testing.engine import FakeEngine, fake_engine
from octavo.testing.model import continuation

NUM_REQUESTS = 9


@dataclass(frozen=True, kw_only=True)
class PolicyCase:
    """A crowd of requests on an engine that is too small for all of them.

    Attributes:
        name: what it is about.
        num_blocks: of 16 tokens each.
        max_num_seqs, max_num_batched_tokens: limits of a step.
        max_in_flight: steps that are open at once.
        seed: of prompts, lengths and priorities.
    """

    name: str
    num_blocks: int = 40
    max_num_seqs: int = 4
    max_num_batched_tokens: int = 32
    max_in_flight: int = 1
    seed: int = 0

    def __str__(self) -> str:
        return self.name


POLICY_CASES: tuple[PolicyCase, ...] = (
    PolicyCase(name="room for all", num_blocks=80, max_num_seqs=NUM_REQUESTS),
    PolicyCase(name="one at a time", max_num_seqs=1, max_num_batched_tokens=16),
    PolicyCase(name="out of blocks", num_blocks=8, seed=1),
    PolicyCase(name="out of blocks again and again", num_blocks=7, max_num_seqs=NUM_REQUESTS, max_num_batched_tokens=64, seed=2),
    PolicyCase(name="two steps in flight", num_blocks=8, max_in_flight=2, seed=3),
)


def check_scheduler_policy(make_policy: Callable[[], SchedulerPolicy], case: PolicyCase) -> None:
    """Serve a crowd in the order of a policy. Raises AssertionError where a key is none, changes or equals another, and where a request
    gets other tokens than it gets alone, or never ends.

    Args:
        make_policy: the policy's class.
        case: of `POLICY_CASES`.
    """
    policy = _Watched(make_policy())
    engine = fake_engine(
        num_blocks=case.num_blocks,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        max_in_flight=case.max_in_flight,
        policy=policy,
    )
    draw = random.Random(case.seed)  # noqa: S311 - requests of a test
    prompts = {f"request-{index}": draw.choices(range(3, 1000), k=draw.choice((1, 5, 16, 33, 60))) for index in range(NUM_REQUESTS)}
    lengths = {request_id: draw.randint(1, 40) for request_id in prompts}
    for request_id, prompt in prompts.items():
        engine.add(request_id, prompt, max_tokens=lengths[request_id], priority=draw.choice((0, 0, 1, -3)))
        if draw.random() < 0.5:
            _step(engine)
    while engine.loop.has_work():
        _step(engine)
        assert engine.steps < 2000, f"{case}: requests are still there after {engine.steps} steps"
    for request_id, prompt in prompts.items():
        expected = continuation(prompt, lengths[request_id])
        assert engine.tokens[request_id] == expected, f"{case}: {request_id} got other tokens than it gets alone"
    _check_twins(make_policy())


class _Watched(SchedulerPolicy):
    """A policy whose every key is looked at."""

    def __init__(self, policy: SchedulerPolicy) -> None:
        self._policy = policy
        self._keys: dict[str, tuple[int, ...]] = {}

    def key(self, request: Request) -> tuple[int, ...]:
        key = self._policy.key(request)
        name = request.request_id
        assert isinstance(key, tuple), f"the key of {name} is {key!r}, but must be a tuple"
        assert key, f"the key of {name} is empty"
        assert all(isinstance(part, int) for part in key), f"the key of {name} is {key!r}, but its parts must be integers"
        assert key[-1] == request.arrival, f"the key of {name} is {key!r}, but must end with its arrival, {request.arrival}"
        before = self._keys.setdefault(name, key)
        assert key == before, f"the key of {name} was {before} and is {key} now: it must not change while the request is in the engine"
        assert len(key) == len(next(iter(self._keys.values()))), "keys have different lengths"
        return key


def _step(engine: FakeEngine) -> None:
    if engine.loop.has_work():
        with bare_faults():
            engine.step()


def _check_twins(policy: SchedulerPolicy) -> None:
    """Requests that differ in their arrival alone are served in that order."""
    keys = []
    for arrival in range(3):
        message = EngineRequest(request_id=str(arrival), token_ids=[5, 6], params=SamplingParams(), arrival_time=1.0, seed=0)
        keys.append(policy.key(Request.from_message(message, arrival=arrival, max_total_tokens=18)))
    assert keys == sorted(keys), f"requests that are alike are not served as they came: their keys are {keys}"
