"""Each way in which work cannot be replayed, seeded one at a time, and the checking backend that has to find it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo_models.compile.checking import CheckingGraphs
from octavo_models.compile.graphs import GraphError, Plan

torch.library.define("octavo::test_reads_host", "(Tensor x, Tensor(a!) out) -> ()")
torch.library.impl("octavo::test_reads_host", "default", lambda x, out: out.fill_(x.tolist()[0]))


@pytest.fixture
def graphs() -> CheckingGraphs:
    return CheckingGraphs()


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    return torch.arange(4.0), torch.tensor([1, 0]), torch.zeros(4)


def test_work_is_done_again_on_what_its_inputs_hold(graphs: CheckingGraphs) -> None:
    x, _, out = tensors()
    handle = graphs.capture(lambda: out.copy_((x * 2).relu()), [x, out], "double")
    x += 1
    handle.replay()
    assert out.tolist() == [2, 4, 6, 8]
    assert graphs.num_replays == 1


REFUSED: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "item": lambda x, index, out: out.fill_(x.sum().item()),
    "tolist": lambda x, index, out: out.fill_(x.tolist()[0]),
    "bool": lambda x, index, out: out.fill_(1.0) if x.sum() > 0 else out,
    "int": lambda x, index, out: out[: int(x[1])].fill_(2),
    "numpy": lambda x, index, out: out.fill_(float(x.numpy()[0])),
    "nonzero": lambda x, index, out: out.fill_(1.0).add_(x.nonzero().sum()),
    "mask": lambda x, index, out: out.fill_(1.0).add_(x[x > 1].sum()),
    "unique": lambda x, index, out: out.add_(x.unique().sum()),
    "host list": lambda x, index, out: out.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0])),
    "host scalar": lambda x, index, out: out.copy_(torch.as_tensor(1.0)),
    "inside an op of ours": lambda x, index, out: torch.ops.octavo.test_reads_host(x, out),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_host_would_have_to_do_is_refused(graphs: CheckingGraphs, case: str) -> None:
    x, index, out = tensors()
    with pytest.raises(GraphError, match=r"^bad piece: (the host reads|a tensor is made of|the shape of)"):
        graphs.capture(lambda: REFUSED[case](x, index, out), [x, index, out], "bad piece")


def test_indexing_with_integers_is_no_shape_of_data(graphs: CheckingGraphs) -> None:
    x, index, out = tensors()
    graphs.capture(lambda: out[:2].copy_(x[index]), [x, index, out], "gather").replay()
    assert out.tolist() == [1, 0, 0, 0]


def test_an_input_that_moved_is_found(graphs: CheckingGraphs) -> None:
    x, _, out = tensors()
    handle = graphs.capture(lambda: out.copy_(x), [x, out], "copy")
    x.set_(torch.ones(4))
    with pytest.raises(GraphError, match=r"copy: input 0, float32 \[4\], has moved"):
        handle.replay()


def test_a_tensor_that_takes_the_place_of_an_input_is_found(graphs: CheckingGraphs) -> None:
    held = {"x": torch.ones(4), "out": torch.zeros(4)}
    handle = graphs.capture(lambda: held["out"].copy_(held["x"]), list(held.values()), "copy")
    held["x"] = torch.ones(4)
    with pytest.raises(GraphError, match="no input and was not made"):
        handle.replay()


def test_scratch_from_outside_of_the_pool_is_found(graphs: CheckingGraphs) -> None:
    x, _, out = tensors()
    scratch: list[Tensor] = []

    def work() -> None:
        if not scratch:
            scratch.append(torch.empty(4))
        torch.mul(x, 2, out=scratch[0])
        out.copy_(scratch[0])

    with pytest.raises(GraphError, match="no input and was not made by this work"):
        graphs.capture(work, [x, out], "lazy")


def test_memory_that_a_kernel_outside_of_torch_gets_counts(graphs: CheckingGraphs) -> None:
    x, _, out = tensors()
    with pytest.raises(GraphError, match="data_ptr touches a tensor"):
        graphs.capture(x.data_ptr, [out], "kernel")


@pytest.mark.parametrize("change", ["scalar", "branch", "length"])
def test_python_that_changed_since_the_capture_is_found(graphs: CheckingGraphs, change: str) -> None:
    x, _, out = tensors()
    state = {"scalar": 2.0, "branch": 0, "length": 1}

    def work() -> None:
        y = x * state["scalar"]
        y = y.relu() if state["branch"] else y.exp()
        for _ in range(int(state["length"])):
            y = y + 1
        out.copy_(y)

    handle = graphs.capture(work, [x, out], "work")
    handle.replay()
    state[change] = 3
    with pytest.raises(GraphError, match=r"when it was captured|were captured"):
        handle.replay()


def test_what_one_graph_left_in_the_pool_is_lost_with_the_next(graphs: CheckingGraphs) -> None:
    x, _, _ = tensors()
    results: list[Tensor] = []

    def leaky(size: int) -> Callable[[], None]:
        return lambda: results.append(x[:size].add(1).view(-1))

    large, small = graphs.capture(leaky(4), [x], "4 rows"), graphs.capture(leaky(2), [x], "2 rows")
    large.replay()
    kept = results[-1]
    assert kept.tolist() == [1, 2, 3, 4]
    small.replay()
    assert kept.isnan().all()
    assert results[-1].tolist() == [1, 2]


def test_captures_end_with_the_start_up(graphs: CheckingGraphs) -> None:
    graphs.seal()
    with pytest.raises(AssertionError, match="'late' is captured after start-up"):
        graphs.capture(lambda: None, [], "late")


def test_a_plan_replays_graphs_and_calls_in_order(graphs: CheckingGraphs) -> None:
    x, _, out = tensors()
    seen: list[int] = []
    plan: Plan[int] = Plan(graphs, "plan")
    plan.piece(lambda: out.copy_(x + 1), [x, out])
    plan.eager(seen.append, 0)
    plan.piece(lambda: out.mul_(2), [out])
    x += 1
    plan.replay(7)
    assert (seen, out.tolist()) == ([0, 7], [4, 6, 8, 10])
