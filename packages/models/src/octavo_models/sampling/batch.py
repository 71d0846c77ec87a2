"""What the sampler needs of each request, by slot, and how a step's `SamplingBatch` is made of it.

All of it is a function of a request's parameters, prompt and output, so it can be rebuilt at any time.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.scheduler.plan import AddedRequest
from octavo_models.sampling.biases import LogitBias, allowed_entries, bias_entries, logit_bias
from octavo_models.sampling.logprobs import LogprobWish, logprob_wish
from octavo_models.sampling.penalties import PenaltyTable, wants_penalties
from octavo_models.sampling.processors import FindProcessor, ProcessorTable, no_processors
from octavo_models.sampling.sampler import SamplingBatch
from octavo_models.sampling.uniforms import SEED_MASK, uniforms


class SamplingState:
    """Parameters of the requests that the runner holds, in arrays over slots.

    Args:
        max_num_seqs: number of slots.
        vocab_size: V.
        device: of the logits.
        find_processor: the class of a logits processor.

    Attributes:
        vocab_size: V.
        logprobs: slot to what its request asked for, where it asked for any.
        processors: of the requests that asked for any.
    """

    def __init__(self, max_num_seqs: int, vocab_size: int, device: torch.device, *, find_processor: FindProcessor = no_processors) -> None:
        self.logprobs: dict[int, LogprobWish] = {}
        self.processors = ProcessorTable(find_processor, vocab_size)
        self.vocab_size = vocab_size
        self._device = device
        self._parameters = np.zeros(max_num_seqs, dtype=_PARAMETERS)
        self._biases: dict[int, LogitBias] = {}
        self._penalties = PenaltyTable(vocab_size, device)

    def add(self, slot: int, request: AddedRequest) -> None:
        """Take in a request, with the output that it has so far."""
        params = request.params
        top_k = params.top_k if 0 < params.top_k < self.vocab_size else self.vocab_size
        temperature = 0.0 if params.is_greedy else params.temperature
        ranked = temperature > 0 and (top_k < self.vocab_size or params.top_p < 1)
        self._parameters[slot] = (temperature, top_k, params.top_p, params.min_p, request.seed & SEED_MASK, temperature > 0, ranked)
        if (bias := logit_bias(request, self.vocab_size)) is not None:
            self._biases[slot] = bias
        if wants_penalties(params):
            self._penalties.add(slot, params, request.token_ids, request.num_prompt_tokens)
        if (wish := logprob_wish(request)) is not None:
            self.logprobs[slot] = wish
        if params.logits_processors:
            self.processors.add(slot, params)

    def move(self, source: int, target: int) -> None:
        """The request of one slot lies in another, free one from now on."""
        self._parameters[target] = self._parameters[source]
        if (bias := self._biases.pop(source, None)) is not None:
            self._biases[target] = bias
        if (wish := self.logprobs.pop(source, None)) is not None:
            self.logprobs[target] = wish
        self._penalties.move(source, target)
        self.processors.move(source, target)

    def remove(self, slot: int) -> None:
        """Forget the request of a slot."""
        self._biases.pop(slot, None)
        self.logprobs.pop(slot, None)
        self._penalties.remove(slot)
        self.processors.remove(slot)

    def record(self, slots: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Note one new output token for each of these slots."""
        self._penalties.record(slots, tokens)
        if not self._biases:
            return
        for slot, token in zip(slots.tolist(), tokens.tolist(), strict=True):
            if (bias := self._biases.get(slot)) is not None and bias.bad_sequences is not None:
                bias.bad_sequences.record(token)

    def batch(self, slots: NDArray[np.int64], num_output_tokens: NDArray[np.int64]) -> SamplingBatch:
        """What the sampler is told of one step.

        Args:
            slots: int64 [R], of the rows that sample.
            num_output_tokens: int64 [R], output tokens of each before this step: the index of the one to be drawn.
        """
        fields = self._bias_fields(slots, num_output_tokens) | self._penalty_fields(slots)
        if not self._parameters["draws"][slots].any():
            return SamplingBatch(all_greedy=True, **fields)
        fields |= self._drawing_fields(self._parameters[slots], num_output_tokens)
        return SamplingBatch(all_greedy=False, **fields)

    def _drawing_fields(self, parameters: NDArray[np.void], num_output_tokens: NDArray[np.int64]) -> dict[str, Any]:
        draws, ranked = parameters["draws"], parameters["ranked"]
        plain_rows, ranked_rows = np.flatnonzero(draws & ~ranked), np.flatnonzero(ranked)
        top_k, top_p, min_p = (parameters[name] for name in ("top_k", "top_p", "min_p"))
        numbers = uniforms(parameters["seed"], num_output_tokens)
        return {
            "plain_rows": self._tensor(plain_rows) if len(plain_rows) else None,
            "ranked_rows": self._tensor(ranked_rows) if len(ranked_rows) else None,
            "temperature": self._tensor(parameters["temperature"]),
            "top_k": self._tensor(top_k) if (top_k < self.vocab_size).any() else None,
            "top_p": self._tensor(top_p) if (top_p < 1).any() else None,
            "min_p": self._tensor(min_p) if (min_p > 0).any() else None,
            "uniforms": self._tensor(numbers),
        }

    def _bias_fields(self, slots: NDArray[np.int64], num_output_tokens: NDArray[np.int64]) -> dict[str, Any]:
        fields: dict[str, Tensor] = {}
        if not self._biases:
            return fields
        if (bias := bias_entries(self._biases, slots, num_output_tokens)) is not None:
            fields |= {"bias_rows": self._tensor(bias.rows), "bias_ids": self._tensor(bias.ids), "bias_values": self._tensor(bias.values)}
        if (allowed := allowed_entries(self._biases, slots)) is not None:
            fields["restricted_rows"] = self._tensor(allowed.restricted_rows)
            fields |= {"allowed_rows": self._tensor(allowed.rows), "allowed_ids": self._tensor(allowed.ids)}
        return fields

    def _penalty_fields(self, slots: NDArray[np.int64]) -> dict[str, Any]:
        rows = self._penalties.rows_of(slots) if len(self._penalties) else None
        if rows is None:
            return {}
        return {
            "penalty_rows": self._tensor(rows.positions),
            "output_counts": rows.output_counts,
            "seen": rows.seen,
            "presence_penalty": self._tensor(rows.presence) if rows.presence.any() else None,
            "frequency_penalty": self._tensor(rows.frequency) if rows.frequency.any() else None,
            "repetition_penalty": self._tensor(rows.repetition) if (rows.repetition != 1).any() else None,
        }

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(values.copy())
        return tensor if self._device.type == "cpu" else tensor.pin_memory().to(self._device, non_blocking=True)


_PARAMETERS = np.dtype(
    [
        ("temperature", np.float32),
        ("top_k", np.int64),
        ("top_p", np.float32),
        ("min_p", np.float32),
        ("seed", np.uint64),
        ("draws", np.bool_),
        ("ranked", np.bool_),
    ]
)
"""One record a slot; `draws` where the temperature is above 0, `ranked` where top-k or top-p applies besides."""
