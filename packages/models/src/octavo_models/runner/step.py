"""One step, from plan to result."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from octavo.scheduler.plan import StepPlan, StepResult
from octavo_models.runner.batch import BatchState
from octavo_models.runner.buffers import InputBuffers
from octavo_models.runner.forward import Forward
from octavo_models.runner.inputs import SamplingRows, prepare
from octavo_models.runner.pool import KVPool
from octavo_models.sampling import Sampler

BAD_LOGITS = "the model gave NaN or infinite logits: its weights are damaged, or too large for this dtype (float16 is the narrowest)"

_PLACEHOLDER = 0


@dataclass(frozen=True, kw_only=True)
class Step:
    """Runs plans on collaborators that stay the same: prepare, forward, sample, remember.

    Attributes:
        state: follows the plans.
        buffers: of inputs.
        block_sizes: of each KV group.
        forward: through the model.
        pool: that the forward writes.
        sampler: of tokens.
    """

    state: BatchState
    buffers: InputBuffers
    block_sizes: tuple[int, ...]
    forward: Forward
    pool: KVPool
    sampler: Sampler

    def run(self, plan: StepPlan) -> StepResult:
        """Carry out a plan; changes the state and the KV pool."""
        self.state.apply(plan)
        if not plan.num_tokens:
            return StepResult(step_id=plan.step_id, token_ids={})
        with torch.inference_mode():
            started = time.perf_counter()
            inputs = prepare(plan, self.state, self.buffers, self.block_sizes)
            logits = self.forward.run(inputs)
            forwarded = time.perf_counter()
            tokens = [] if logits is None else self._sample(logits, inputs.sampling)
            sampled = time.perf_counter()
        by_request = dict(zip(inputs.sampling.request_ids, tokens, strict=True))
        return StepResult(
            step_id=plan.step_id,
            token_ids={request_id: [token] for request_id, token in by_request.items() if token >= 0},
            errors={request_id: BAD_LOGITS for request_id, token in by_request.items() if token < 0},
            forward_s=forwarded - started,
            sample_s=sampled - forwarded,
        )

    def _sample(self, logits: Tensor, rows: SamplingRows) -> list[int]:
        """Tokens in the order of the rows, -1 for rows that cannot be sampled; they come to the host at once."""
        batch = self.state.sampling.batch(rows.slots, rows.num_output_tokens)
        if self.sampler.marks_bad_rows:
            sampled = self.sampler.sample(logits, batch)
        else:
            bad = logits.amax(dim=1).isfinite().logical_not()
            sampled = self.sampler.sample(logits.masked_fill(bad.unsqueeze(1), 0.0), batch).masked_fill(bad, -1)
        tokens = sampled.cpu().numpy()
        # A request that failed is removed soon; until then its row keeps the length that plans count on.
        self.state.append(rows.slots, tokens.clip(min=_PLACEHOLDER))
        for slot in rows.slots[tokens < 0].tolist():
            self.pool.make_finite([table.row(slot) for table in self.state.block_tables])
        sampled_ids: list[int] = tokens.tolist()
        return sampled_ids
