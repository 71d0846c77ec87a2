"""One step, from plan to result."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from octavo.scheduler.plan import StepPlan, StepResult
from octavo_kernels.cpu.program import FEWEST_TOKENS
from octavo_models.compile.dispatch import Dispatcher, GraphKey, GraphMode
from octavo_models.runner.batch import BatchState
from octavo_models.runner.buffers import InputBuffers
from octavo_models.runner.forward import Forward, LastBorder
from octavo_models.runner.inputs import SamplingRows, StepInputs, empty_inputs, prepare
from octavo_models.runner.prompt_rows import prompt_logprobs
from octavo_models.runner.sample import RowSampler, Sampled, SamplingWish


@dataclass(kw_only=True)
class Step:
    """Runs plans on collaborators that stay the same: prepare, forward, sample, remember.

    Attributes:
        state: follows the plans.
        buffers: of inputs.
        block_sizes: of each KV group.
        forward: through the model.
        sampler: of tokens, with the same state.
        dispatcher: chooses the graph that a step is padded for; None, until there are graphs.
    """

    state: BatchState
    buffers: InputBuffers
    block_sizes: tuple[int, ...]
    forward: Forward
    sampler: RowSampler
    dispatcher: Dispatcher | None = None

    def run(self, plan: StepPlan) -> StepResult:
        """Carry out a plan; changes the state and the KV pool."""
        self.state.apply(plan)
        if not plan.num_tokens:
            return StepResult(step_id=plan.step_id, token_ids={})
        with torch.inference_mode():
            started = time.perf_counter()
            inputs = self.prepare(plan)
            border = self.forward.run(inputs)
            rows, prompts = inputs.sampling, {}
            if inputs.prompt is not None:
                prompts = prompt_logprobs(lambda some: self.forward.logits(border, some), inputs.prompt, self.state.sampling.vocab_size)
            wish = self.sampler.wish(rows) if rows.request_ids else None
            outputs = None if wish is None else self._outputs(border, rows, wish)
            forwarded = time.perf_counter()
            sampled = Sampled() if wish is None or outputs is None else self.sampler.sample(outputs, rows, wish)
            for request_id in (request_id for request_id, logprobs in prompts.items() if logprobs is None):
                self.sampler.fail(request_id, sampled)
            finished = time.perf_counter()
        return StepResult(
            step_id=plan.step_id,
            token_ids=sampled.token_ids,
            errors=sampled.errors,
            sound=sampled.sound,
            logprobs=sampled.logprobs,
            prompt_logprobs={request_id: logprobs for request_id, logprobs in prompts.items() if logprobs is not None},
            forward_s=forwarded - started,
            sample_s=finished - forwarded,
        )

    def note_down(self) -> None:
        """Let steps from now on run as programs where they can; before the first of them, on a CPU."""
        if self.buffers.max_tokens >= FEWEST_TOKENS:
            self.forward.note_down(empty_inputs(self.buffers, GraphKey(GraphMode.PIECEWISE, FEWEST_TOKENS)))

    def prepare(self, plan: StepPlan) -> StepInputs:
        """The tensors of a plan that the state follows already."""
        return prepare(plan, self.state, self.buffers, self.block_sizes, self.dispatcher)

    def _outputs(self, border: LastBorder, rows: SamplingRows, wish: SamplingWish) -> Tensor:
        """Logits of the rows that sample, or where it is enough their likeliest tokens."""
        run = self.forward.likeliest if wish.likeliest_only else self.forward.logits
        return run(border, rows.token_rows)
