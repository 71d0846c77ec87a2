"""One pass through the model: its pieces, with attention between them."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from octavo_kernels.attention import AttentionBackend
from octavo_models.model import Carry, PiecewiseModel
from octavo_models.runner.buffers import BorderBuffers
from octavo_models.runner.inputs import StepInputs


class LastBorder(NamedTuple):
    """What the attention of the last layer put out, [N, H, D], and the carry beside it; the next step writes to the same places."""

    attended: Tensor
    carry: Carry


class Forward:
    """Runs steps on static buffers.

    Args:
        model: whose pieces run.
        backend: of attention.
        buffers: for what crosses the borders.
        rotary: the model's tables for the longest sequence.
        caches: of each layer, its KV group and its cache.
    """

    def __init__(
        self,
        *,
        model: PiecewiseModel,
        backend: AttentionBackend,
        buffers: BorderBuffers,
        rotary: Sequence[Tensor],
        caches: Sequence[tuple[int, Tensor]],
    ) -> None:
        self._model = model
        self._backend = backend
        self._buffers = buffers
        self._layers = list(model.layers)
        self._rotary = [rotary[layer.rotary_index] for layer in model.layers]
        self._caches = list(caches)
        assert len(self._caches) == len(self._layers), "every layer has a cache"

    def run(self, inputs: StepInputs) -> LastBorder:
        """Up to the last border. KV of all rows is in the cache afterwards."""
        model, places = self._model, self._buffers.first_rows(len(inputs.token_ids))
        plans = [self._backend.plan(step) for step in inputs.attention]
        carry = places.hold_carry(model.embed(inputs.token_ids))
        last = len(self._layers) - 1
        for index, (layer, (group, cache)) in enumerate(zip(self._layers, self._caches, strict=True)):
            attention_inputs, carry = layer.before(inputs.positions, self._rotary[index], carry)
            carry = places.hold_carry(carry)
            held, attended = places.hold_inputs(layer.attention, attention_inputs)
            self._backend.run(layer.attention, plans[group], held.query, held.key, held.value, cache, attended)
            if index < last:
                carry = layer.after(attended.to(model.dtype), carry)
        return LastBorder(attended, carry)

    def logits(self, border: LastBorder, rows: Tensor | None) -> Tensor:
        """Logits of some rows, int64 [C] -> [C, V], or of all. What follows the last border reads no other row.

        For all rows it may be called once a step, and last: what pieces change in place are the places of the border itself.
        """
        attended, carry = border
        if rows is not None:
            attended = attended.index_select(0, rows)
            carry = tuple(tensor.index_select(0, rows) for tensor in carry)
        model = self._model
        return model.logits(model.final(self._layers[-1].after(attended.to(model.dtype), carry)))
