"""One pass through the model: its pieces, with attention between them."""

from collections.abc import Sequence

from torch import Tensor

from octavo_kernels.attention import AttentionBackend
from octavo_models.model import Carry, PiecewiseModel
from octavo_models.runner.buffers import BorderBuffers
from octavo_models.runner.inputs import SamplingRows, StepInputs


class Forward:
    """Runs steps on static buffers.

    Args:
        model: whose pieces run.
        backend: of attention.
        buffers: for what crosses the borders.
        rotary: the model's table for the longest sequence.
        caches: for each KV group the caches of its layers; groups hold consecutive layers.
    """

    def __init__(
        self,
        *,
        model: PiecewiseModel,
        backend: AttentionBackend,
        buffers: BorderBuffers,
        rotary: Tensor,
        caches: Sequence[Sequence[Tensor]],
    ) -> None:
        self._model = model
        self._backend = backend
        self._buffers = buffers
        self._rotary = rotary
        self._layers = list(model.layers)
        self._caches = [(group, cache) for group, layers in enumerate(caches) for cache in layers]
        assert len(self._caches) == len(self._layers), "every layer has a cache"

    def run(self, inputs: StepInputs) -> Tensor | None:
        """Logits [C, V] of the rows that sample, None if none does. KV of all rows is in the cache afterwards."""
        model, places = self._model, self._buffers.first_rows(len(inputs.token_ids))
        plans = [self._backend.plan(step) for step in inputs.attention]
        carry = places.hold_carry(model.embed(inputs.token_ids))
        last = len(self._layers) - 1
        for index, (layer, (group, cache)) in enumerate(zip(self._layers, self._caches, strict=True)):
            attention_inputs, carry = layer.before(inputs.positions, self._rotary, carry)
            carry = places.hold_carry(carry)
            held, attended = places.hold_inputs(layer.attention, attention_inputs)
            self._backend.run(layer.attention, plans[group], held.query, held.key, held.value, cache, attended)
            if index < last:
                carry = layer.after(attended.to(model.dtype), carry)
        return self._finish(inputs.sampling, attended, carry)

    def _finish(self, sampling: SamplingRows, attended: Tensor, carry: Carry) -> Tensor | None:
        """What follows the last border reads no other row: only those that sample go on."""
        if not sampling.request_ids:
            return None
        if (rows := sampling.token_rows) is not None:
            attended = attended.index_select(0, rows)
            carry = tuple(tensor.index_select(0, rows) for tensor in carry)
        model = self._model
        return model.logits(model.final(self._layers[-1].after(attended.to(model.dtype), carry)))
