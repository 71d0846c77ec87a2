"""The forward over a model that is nothing like Llama: two tensors in the carry, pieces that write in place, heads that differ by layer."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from octavo.config.engine import EngineConfig
from octavo.model.config import ModelConfig
from octavo_kernels.attention import AttentionBackend, AttentionSpec, AttentionStep
from octavo_models.model import AttentionInputs, Carry, CarrySpec, PiecewiseLayer, PiecewiseModel
from octavo_models.runner.buffers import BorderBuffers
from octavo_models.runner.forward import Forward
from octavo_models.runner.inputs import SamplingRows, StepInputs

WIDTH = 8
CPU = torch.device("cpu")


class OddLayer(PiecewiseLayer):
    """Counts calls in a float32 tensor of the carry, and adds to the residual in place."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.attention = AttentionSpec(num_heads=num_heads, num_kv_heads=1, head_size=WIDTH // num_heads, scale=1.0)

    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        residual, count = carry
        query = residual.view(len(residual), self.attention.num_heads, -1)
        return AttentionInputs(query, query[:, :1] + 1, query[:, :1] + positions.view(-1, 1, 1)), (residual, count + 1)

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        residual, count = carry
        return residual.add_(attended.flatten(1)), count.add_(0.5)


class OddModel(PiecewiseModel):
    """Hidden states are the sum of both parts of the carry."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, torch.float32)
        self.layers = [OddLayer(2), OddLayer(4)]
        self.carry = (CarrySpec(name="residual", width=WIDTH), CarrySpec(name="count", width=1, dtype=torch.float32))
        self.rows_to_logits: list[int] = []

    def embed(self, token_ids: Tensor) -> Carry:
        return token_ids.float().unsqueeze(1).expand(-1, WIDTH), torch.zeros(len(token_ids), 1)

    def rotary_table(self, max_len: int) -> Tensor:
        return torch.zeros(max_len, 1)

    def final(self, carry: Carry) -> Tensor:
        return carry[0] + carry[1]

    def logits(self, hidden: Tensor) -> Tensor:
        self.rows_to_logits.append(len(hidden))
        return hidden

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        raise AssertionError("this model has no weights")


@dataclass
class Calls:
    addresses: list[tuple[int, ...]] = field(default_factory=list)
    plans: list[object] = field(default_factory=list)


class AddingAttention(AttentionBackend):
    """Puts out query + key + value, and notes where the tensors lie."""

    name = "adding"

    def __init__(self) -> None:
        super().__init__(block_size=8, dtype=torch.float32, device=CPU)
        self.calls = Calls()

    @classmethod
    def unsupported(cls, spec: AttentionSpec, *, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
        return None

    def page_shape(self, spec: AttentionSpec) -> tuple[int, ...]:
        return (1,)

    def plan(self, step: AttentionStep) -> object:
        return step

    def run(self, spec: AttentionSpec, plan: object, query: Tensor, key: Tensor, value: Tensor, cache: Tensor, out: Tensor) -> None:
        self.calls.plans.append(plan)
        self.calls.addresses.append(tuple(tensor.data_ptr() for tensor in (query, key, value, out)))
        torch.add(query, key + value, out=out)


def expected(token: int, position: int) -> list[float]:
    """By hand: each layer turns r into r + (q + k + v) with q = r, k = r + 1, v = r + position; both count 1.5."""
    residual = float(token)
    for _ in range(2):
        residual += residual + (residual + 1) + (residual + position)
    return [residual + 3.0] * WIDTH


def inputs(tokens: list[int], sampling: list[int] | None) -> StepInputs:
    step = AttentionStep(
        query_start=torch.tensor([0, len(tokens)]),
        seq_lens=torch.tensor([len(tokens)]),
        block_table=torch.zeros(1, 1, dtype=torch.int32),
        slot_mapping=torch.arange(len(tokens)),
        max_query_len=len(tokens),
        max_seq_len=len(tokens),
    )
    rows = range(len(tokens)) if sampling is None else sampling
    return StepInputs(
        token_ids=torch.tensor(tokens),
        positions=torch.arange(len(tokens)),
        attention=(step,),
        num_tokens=len(tokens),
        sampling=SamplingRows(
            request_ids=[str(row) for row in rows],
            slots=np.array(rows, dtype=np.int64),
            num_output_tokens=np.zeros(len(rows), dtype=np.int64),
            token_rows=None if sampling is None else torch.tensor(sampling, dtype=torch.int64),
        ),
    )


def make_forward(config: ModelConfig) -> tuple[Forward, OddModel, AddingAttention]:
    model, backend = OddModel(config), AddingAttention()
    attention = [layer.attention for layer in model.layers]
    buffers = BorderBuffers(max_tokens=10, carry=model.carry, borders=attention, dtype=torch.float32, cache_dtype=torch.float32, device=CPU)
    caches = [(0, torch.zeros(1, 1)), (0, torch.zeros(1, 1))]
    return Forward(model=model, backend=backend, buffers=buffers, rotary=model.rotary_tables(10), caches=caches), model, backend


def test_pieces_and_borders_compose(config: EngineConfig) -> None:
    forward, _, _ = make_forward(config.model)
    logits = forward.logits(forward.run(inputs([3, 1, 4], None)), None)
    assert logits.tolist() == [expected(token, position) for position, token in enumerate([3, 1, 4])]


def test_only_chosen_rows_reach_the_logits(config: EngineConfig) -> None:
    forward, model, _ = make_forward(config.model)
    border = forward.run(inputs([3, 1, 4, 1, 5], [1, 4]))
    for rows in ([1, 4], [4], [0, 1]):
        logits = forward.logits(border, torch.tensor(rows))
        assert logits.tolist() == [expected([3, 1, 4, 1, 5][row], row) for row in rows]
    assert model.rows_to_logits == [2, 1, 2]


def test_what_crosses_a_border_lies_at_the_same_place_in_every_step(config: EngineConfig) -> None:
    forward, _, backend = make_forward(config.model)
    for tokens in ([1, 2, 3], [4], [5, 6, 7, 8]):
        forward.run(inputs(tokens, None))
    assert len(set(backend.calls.addresses[::2])) == 1
    assert len(set(backend.calls.addresses[1::2])) == 1


def test_attention_is_planned_once_a_step(config: EngineConfig) -> None:
    forward, _, backend = make_forward(config.model)
    step = inputs([1, 2], None)
    forward.run(step)
    assert backend.calls.plans == [step.attention[0]] * 2
