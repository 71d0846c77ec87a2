"""What two pieces must have in common to be served by one compile, since nothing is checked when they are called."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from octavo_models.compile.signature import Describer, tensor_signature


class Scaled(nn.Module):
    def __init__(self, eps: float = 1e-5, rows: int = 3) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(rows), requires_grad=False)


class Other(Scaled):
    pass


@dataclass(frozen=True)
class Settings:
    window: int | None = None


class Method:
    """Keeps what it knows in its attributes."""

    def __init__(self, bits: int) -> None:
        self.bits = bits


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


def with_attribute(value: object) -> nn.Module:
    module = Scaled()
    module.extra = value  # type: ignore[assignment]
    return module


def with_hook() -> nn.Module:
    module = Scaled()
    module.register_forward_hook(lambda *arguments: None)
    return module


def shared(first: nn.Module, second: nn.Module) -> nn.Module:
    module = nn.Module()
    module.first, module.second = first, second
    return module


def described(value: object) -> object:
    return Describer().describe(value)


def relu(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


EQUAL: dict[str, Callable[[], object]] = {
    "weights": Scaled,
    "dataclass": lambda: with_attribute(Settings(3)),
    "object": lambda: with_attribute(Method(4)),
    "function": lambda: with_attribute(relu),
    "tensor attribute": lambda: with_attribute(torch.ones(2)),
    "dictionary": lambda: with_attribute({"a": [1, 2], "b": {3, 4}}),
}


@pytest.mark.parametrize("case", EQUAL)
def test_what_differs_in_the_content_of_tensors_alone_is_one(case: str) -> None:
    first, second = EQUAL[case](), EQUAL[case]()
    assert described(first) == described(second)
    assert hash(described(first)) == hash(described(second))


common = Scaled()
DIFFERENT: dict[str, tuple[object, object]] = {
    "number": (Scaled(1e-5), Scaled(1e-6)),
    "class": (Scaled(), Other()),
    "shape": (Scaled(rows=3), Scaled(rows=4)),
    "type": (Scaled(), Scaled().bfloat16()),
    "integer and flag": (with_attribute(1), with_attribute(True)),
    "zeros": (with_attribute(0.0), with_attribute(-0.0)),
    "dataclass": (with_attribute(Settings(3)), with_attribute(Settings())),
    "object": (with_attribute(Method(4)), with_attribute(Method(8))),
    "no description": (with_attribute(Slotted(1)), with_attribute(Slotted(1))),
    "function": (with_attribute(lambda x: x), with_attribute(lambda x: x)),
    "hook": (Scaled(), with_hook()),
    "sharing": (shared(common, common), shared(common, Scaled())),
    "strides": (with_attribute(torch.zeros(2, 3)), with_attribute(torch.zeros(3, 2).T)),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_everything_else_is_told_apart(case: str) -> None:
    first, second = DIFFERENT[case]
    assert described(first) != described(second)


def test_a_description_says_the_same_in_every_process() -> None:
    assert "0x" not in repr(described(with_attribute([relu, Slotted(1), Settings(2), torch.float32])))


def test_what_is_left_out_does_not_count() -> None:
    first, second = shared(common, Scaled()), shared(common, Other())
    assert Describer(leave_out=(first.second,)).describe(first) == Describer(leave_out=(second.second,)).describe(second)


def test_rows_may_be_any_number() -> None:
    few, many = torch.zeros(2, 3), torch.zeros(7, 3)
    assert tensor_signature(few, free_rows=True) == tensor_signature(many, free_rows=True)
    assert tensor_signature(few) != tensor_signature(many)
    assert tensor_signature(few, free_rows=True) != tensor_signature(torch.zeros(2, 4), free_rows=True)
