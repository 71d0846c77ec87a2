"""The two values that cross between scheduler and runner: what a step does, and what came of it.

Both travel between processes as msgpack, are the same for every rank, and share no object with the scheduler.
"""

import msgspec

from octavo.logprobs import LogprobRows
from octavo.sampling_params import SamplingParams


class AddedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the runner does not hold: new, or resumed after a preemption (then with the tokens it had produced).

    Attributes:
        request_id: unique in the engine.
        epoch: counts preemptions; a result for an older epoch is dropped.
        token_ids: prompt, then output so far.
        num_prompt_tokens: how many of `token_ids` are the prompt.
        num_computed_tokens: tokens whose KV is in the cache already (prefix hits).
        block_ids: one block table per KV group, `[groups][blocks]`.
        ending_token_ids: ids that must not be drawn before `params.min_tokens` (end of sequence and stop ids).
        seed: what draws are made from, whether the user gave one or not.
        bad_sequences: the last token of each must not be drawn where the output ends with the others.
        num_prompt_logprobs: tokens of the prompt, behind its first, whose log-probabilities are known from an earlier epoch; where
            `params.prompt_logprobs` asks for them, the others are due as their steps run.
    """

    request_id: str
    epoch: int
    token_ids: list[int]
    num_prompt_tokens: int
    num_computed_tokens: int
    block_ids: list[list[int]]
    params: SamplingParams
    ending_token_ids: list[int]
    seed: int
    bad_sequences: list[list[int]] = []
    num_prompt_logprobs: int = 0


class ContinuedRequest(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A request that the runner holds: the blocks it gained, `[groups][new blocks]`, and the tokens computed before this step."""

    request_id: str
    epoch: int
    num_computed_tokens: int
    new_block_ids: list[list[int]]


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One step. A plan of zero tokens is legal: it only removes requests.

    Attributes:
        step_id: counts up by one.
        removed: requests (finished, aborted or preempted) to forget before anything is added.
        added: requests new to the runner.
        continued: requests it holds and that run in this step.
        num_tokens: request id to tokens it runs in this step, in batch order; every added and continued request has an entry.
        num_output_tokens: request id to output tokens sampled before this step, for each request that samples in it
            (its last known token, or one still in flight, is the last of its `num_tokens`).
    """

    step_id: int
    removed: list[str]
    added: list[AddedRequest]
    continued: list[ContinuedRequest]
    num_tokens: dict[str, int]
    num_output_tokens: dict[str, int]

    @property
    def total_tokens(self) -> int:
        return sum(self.num_tokens.values())


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step.

    Attributes:
        step_id: the plan's.
        token_ids: request id to the tokens sampled for it: none, one or many. Requests whose prompt is not finished have no entry.
        errors: request id to why it cannot go on (a NaN row, a processor that raised); the others are unharmed.
        sound: those of `errors` whose KV can be trusted all the same, so that others may share it.
        logprobs: request id to those of its `token_ids`, where it asked for them.
        prompt_logprobs: request id to those of the tokens of its prompt that follow tokens which the step ran, where it asked for them.
        forward_s, sample_s: seconds spent, as the runner clocked them.
    """

    step_id: int
    token_ids: dict[str, list[int]]
    errors: dict[str, str] = {}
    sound: list[str] = []
    logprobs: dict[str, LogprobRows] = {}
    prompt_logprobs: dict[str, LogprobRows] = {}
    forward_s: float = 0.0
    sample_s: float = 0.0
