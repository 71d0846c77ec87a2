"""Models that are put together in other ways than Llama: composed into pieces and borders, they give what their layers say by hand."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from octavo.model.config import ModelConfig, RopeConfig
from octavo_kernels.attention import AttentionBackend, AttentionSpec, AttentionStep
from octavo_models.compile.checking import CheckingGraphs
from octavo_models.compile.compose import compose
from octavo_models.compile.dispatch import GraphKey, GraphMode
from octavo_models.layers import RMSNorm
from octavo_models.model import AttentionInputs, Border, Carry, CarrySpec, DecoderLayer, PiecewiseLayer, PiecewiseModel
from octavo_models.runner.buffers import BorderBuffers, InputBuffers
from octavo_models.runner.forward import Forward
from octavo_models.runner.inputs import StepInputs, empty_inputs

WIDTH, HEADS, NUM_ROWS, MAX_ROWS = 8, 2, 5, 8
CPU = torch.device("cpu")
SPEC = AttentionSpec(num_heads=HEADS, num_kv_heads=HEADS, head_size=WIDTH // HEADS, scale=1.0)
CONFIG = ModelConfig(
    architecture="fake", vocab_size=16, hidden_size=WIDTH, intermediate_size=16, num_layers=2, num_heads=HEADS, num_kv_heads=HEADS,
    head_size=WIDTH // HEADS, rms_norm_eps=1e-5, rope=RopeConfig(theta=1e4, dim=4), max_position=64, tie_embeddings=True,
)  # fmt: skip


def matrix(rows: int = WIDTH) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, WIDTH) / WIDTH**0.5, requires_grad=False)


def norm() -> RMSNorm:
    made = RMSNorm(WIDTH, 1e-5, dtype=torch.float32)
    made.weight.data.uniform_(0.5, 1.5)
    return made


def heads(x: Tensor) -> Tensor:
    return x.view(len(x), HEADS, -1)


class Attention(PiecewiseLayer):
    """What the layers with attention share: keys are turned by the layer's table."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = SPEC
        self.norm, self.query, self.key, self.value, self.output = norm(), matrix(), matrix(), matrix(), matrix()

    def project(self, x: Tensor, positions: Tensor, rotary: Tensor) -> AttentionInputs:
        turned = x @ self.key * rotary[positions]
        return AttentionInputs(heads(x @ self.query), heads(turned), heads(x @ self.value))

    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        return self.project(self.norm(carry[0]), positions, rotary), carry

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        return (carry[0] + attended.flatten(1) @ self.output,)


class Sandwich(Attention):
    """Norms on both sides; every second layer has the other rotary table."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.rotary_index = index % 2
        self.output_norm, self.mlp_norm, self.mlp = norm(), norm(), matrix()

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        residual = carry[0] + self.output_norm(attended.flatten(1) @ self.output)
        return (residual + (self.mlp_norm(residual) @ self.mlp).relu(),)


class Parallel(Attention):
    """Attention and MLP read the same norm: what the MLP gave crosses the border in the carry."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.mlp = matrix()

    def before(self, positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        normed = self.norm(carry[0])
        return self.project(normed, positions, rotary), (carry[0], (normed @ self.mlp).relu())

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        residual, mlp = carry
        return residual + attended.flatten(1) @ self.output + mlp, mlp


class Alternating(Attention):
    """Every second layer has experts in place of the dense MLP."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.mlp = matrix(WIDTH) if index % 2 else nn.Parameter(torch.randn(4, WIDTH, WIDTH) / 3, requires_grad=False)
        self.router = matrix(4) if index % 2 == 0 else None

    def after(self, attended: Tensor, carry: Carry) -> Carry:
        residual = carry[0] + attended.flatten(1) @ self.output
        if self.router is None:
            return (residual + (residual @ self.mlp).relu(),)
        weights = (residual @ self.router.T).softmax(-1)
        return (residual + torch.einsum("nx,xde,nd->ne", weights, self.mlp, residual),)


class Borderless(DecoderLayer):
    """An MLP alone."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = matrix()

    @property
    def borders(self) -> tuple[AttentionSpec | Border, ...]:
        return ()

    def piece(
        self, index: int, positions: Tensor, rotary: Tensor, arrived: Tensor | None, carry: Carry
    ) -> tuple[tuple[Tensor, ...], Carry]:
        assert arrived is None
        return (), (carry[0] + (carry[0] @ self.mlp).relu(),)


class Shift(Border):
    """A mixer with state: each row is given the row before it of its request, 0 for the first, and what it reads is kept."""

    inputs = (CarrySpec(name="x", width=WIDTH),)
    output = CarrySpec(name="y", width=WIDTH)

    def run(self, step: AttentionStep, inputs: tuple[Tensor, ...], out: Tensor) -> None:
        (x,) = inputs
        out.zero_()
        starts = step.query_start.tolist()
        for first, last in pairwise(starts):
            out[first + 1 : last] = x[first : last - 1]


class Stateful(DecoderLayer):
    """A mixer with state in place of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.write, self.mixer = matrix(), matrix(), Shift()

    @property
    def borders(self) -> tuple[AttentionSpec | Border, ...]:
        return (self.mixer,)

    def piece(
        self, index: int, positions: Tensor, rotary: Tensor, arrived: Tensor | None, carry: Carry
    ) -> tuple[tuple[Tensor, ...], Carry]:
        if arrived is None:
            return (carry[0] @ self.read,), carry
        return (), (carry[0] + arrived @ self.write,)


class TwoBorders(DecoderLayer):
    """A mixer, then attention, then an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.mixing, self.attending = Stateful(), Attention()

    @property
    def borders(self) -> tuple[AttentionSpec | Border, ...]:
        return (*self.mixing.borders, *self.attending.borders)

    def piece(
        self, index: int, positions: Tensor, rotary: Tensor, arrived: Tensor | None, carry: Carry
    ) -> tuple[tuple[Tensor, ...], Carry]:
        if index == 0:
            return self.mixing.piece(0, positions, rotary, None, carry)
        if index == 2:
            return self.attending.piece(1, positions, rotary, arrived, carry)
        _, carry = self.mixing.piece(1, positions, rotary, arrived, carry)
        return self.attending.piece(0, positions, rotary, None, carry)


class FakeModel(PiecewiseModel):
    """A decoder of such layers with two rotary tables."""

    def __init__(self, layers: Sequence[DecoderLayer], num_carried: int = 1) -> None:
        super().__init__(CONFIG, torch.float32)
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.embedding, self.final_norm = matrix(16), norm()
        self.carry = tuple(CarrySpec(name=f"part {index}", width=WIDTH) for index in range(num_carried))

    def embed(self, token_ids: Tensor) -> Carry:
        return tuple(nn.functional.embedding(token_ids, self.embedding) * (part == 0) for part in range(len(self.carry)))

    def rotary_table(self, max_len: int) -> Tensor:
        return torch.arange(max_len * WIDTH).view(max_len, WIDTH).cos()

    def rotary_tables(self, max_len: int) -> tuple[Tensor, ...]:
        return self.rotary_table(max_len), self.rotary_table(max_len).flip(1)

    def final(self, carry: Carry) -> Tensor:
        return self.final_norm(carry[0])

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self.embedding.T

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        raise AssertionError("this model has its weights")


class Averaging(AttentionBackend):
    """Causal averages of values, weighted by query and key, of one request; rows of nobody get zeros."""

    name = "averaging"

    def __init__(self) -> None:
        super().__init__(block_size=8, dtype=torch.float32, device=CPU)

    @classmethod
    def unsupported(cls, spec: AttentionSpec, *, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
        return None

    def page_shape(self, spec: AttentionSpec) -> tuple[int, ...]:
        return (1,)

    def plan(self, step: AttentionStep) -> object:
        return int(step.query_start[-1])

    def run(self, spec: AttentionSpec, plan: object, query: Tensor, key: Tensor, value: Tensor, cache: Tensor, out: Tensor) -> None:
        assert isinstance(plan, int)
        out.zero_()
        out[:plan] = average(query[:plan], key[:plan], value[:plan])


def average(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = torch.einsum("nhd,mhd->hnm", query, key).tanh().tril()
    return torch.einsum("hnm,mhd->nhd", scores, value)


MODELS: dict[str, Callable[[], FakeModel]] = {
    "sandwich norms and two rotary tables": lambda: FakeModel([Sandwich(index) for index in range(4)]),
    "parallel blocks": lambda: FakeModel([Parallel(index) for index in range(3)], num_carried=2),
    "dense and experts in turn": lambda: FakeModel([Alternating(index) for index in range(4)]),
    "layers without a border": lambda: FakeModel([Borderless(), Attention(), Borderless(), Borderless(), Attention(), Borderless()]),
    "layers with two borders": lambda: FakeModel([TwoBorders(), TwoBorders()]),
    "a state border": lambda: FakeModel([Stateful(), Attention(), Stateful()]),
}
NUM_SIGNATURES = {
    "sandwich norms and two rotary tables": 4,
    "parallel blocks": 3,
    "dense and experts in turn": 4,
    "layers without a border": 3,
    "layers with two borders": 4,
    "a state border": 4,
}
TOKENS = [3, 1, 4, 1, 5]


@pytest.fixture(params=MODELS)
def named_model(request: pytest.FixtureRequest) -> tuple[str, FakeModel]:
    torch.manual_seed(0)
    return request.param, MODELS[request.param]()


def by_hand(model: FakeModel) -> Tensor:
    """Layer by layer, as the layers themselves say it."""
    positions, tables = torch.arange(NUM_ROWS), model.rotary_tables(MAX_ROWS)
    step = attention_step()
    carry = model.embed(torch.tensor(TOKENS))
    for layer in model.layers:
        arrived = None
        for index, border in enumerate((*layer.borders, None)):
            sent, carry = layer.piece(index, positions, tables[layer.rotary_index], arrived, carry)
            if isinstance(border, AttentionSpec):
                arrived = average(*sent)
            elif border is not None:
                arrived = torch.empty(NUM_ROWS, WIDTH)
                border.run(step, sent, arrived)
    return model.logits(model.final(carry))


def attention_step() -> AttentionStep:
    return AttentionStep(
        query_start=torch.tensor([0, NUM_ROWS], dtype=torch.int32),
        seq_lens=torch.tensor([NUM_ROWS], dtype=torch.int32),
        block_table=torch.zeros(1, 1, dtype=torch.int32),
        slot_mapping=torch.arange(NUM_ROWS),
        max_query_len=NUM_ROWS,
        max_seq_len=NUM_ROWS,
    )


def border_buffers(model: FakeModel, rows: int = MAX_ROWS) -> BorderBuffers:
    borders = [border for layer in model.layers for border in layer.borders]
    return BorderBuffers(max_tokens=rows, carry=model.carry, borders=borders, dtype=torch.float32, cache_dtype=torch.float32, device=CPU)


def make_forward(model: FakeModel) -> Forward:
    attending = [border for layer in model.layers for border in layer.borders if isinstance(border, AttentionSpec)]
    caches = [(0, torch.zeros(1, 1)) for _ in attending]
    rotary = model.rotary_tables(MAX_ROWS)
    return Forward(model=model, backend=Averaging(), buffers=border_buffers(model), rotary=rotary, caches=caches)


def step_inputs(graph: GraphKey | None = None, places: StepInputs | None = None) -> StepInputs:
    """The tokens; with a graph at its places and padded."""
    nobody: Any = None
    ids, positions = torch.tensor(TOKENS), torch.arange(NUM_ROWS)
    if places is not None:
        places.token_ids[:NUM_ROWS], places.positions[:NUM_ROWS] = ids, positions
        ids, positions = places.token_ids, places.positions
    return StepInputs(token_ids=ids, positions=positions, attention=(attention_step(),), num_tokens=NUM_ROWS, sampling=nobody, graph=graph)


def logits_of(forward: Forward, inputs: StepInputs) -> Tensor:
    with torch.inference_mode():
        return forward.logits(forward.run(inputs), None)


def test_the_program_gives_what_the_layers_say(named_model: tuple[str, FakeModel]) -> None:
    _, model = named_model
    torch.testing.assert_close(logits_of(make_forward(model), step_inputs()), by_hand(model))


def test_the_program_is_replayed_in_pieces(named_model: tuple[str, FakeModel]) -> None:
    _, model = named_model
    forward, graphs, key = make_forward(model), CheckingGraphs(), GraphKey(GraphMode.PIECEWISE, MAX_ROWS)
    places = empty_inputs(InputBuffers(max_tokens=MAX_ROWS, max_requests=2, max_blocks=[1], device=CPU), key)
    forward.capture(graphs, key, places)
    torch.testing.assert_close(logits_of(forward, step_inputs(key, places)), by_hand(model))
    assert graphs.num_replays == len(compose(model.layers).pieces) - 1


def test_pieces_that_differ_in_tensors_alone_share_a_function(named_model: tuple[str, FakeModel]) -> None:
    name, model = named_model
    assert len(make_forward(model).pieces.names) == NUM_SIGNATURES[name]


def test_a_piece_stands_between_every_two_borders(named_model: tuple[str, FakeModel]) -> None:
    _, model = named_model
    program = compose(model.layers)
    assert len(program.pieces) == len(program.borders) + 1
    assert [piece.is_last for piece in program.pieces] == [False] * len(program.borders) + [True]
    stated = [(layer, index) for layer in model.layers for index in range(len(layer.borders) + 1)]
    assert [(segment.layer, segment.number) for piece in program.pieces for segment in piece.segments] == stated
