"""How weights are cut over tensor-parallel ranks; pure arithmetic."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from octavo.errors import ConfigurationError


@dataclass(frozen=True)
class ParallelGroup:
    """The ranks that share each layer, and which of them this is."""

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.size, f"rank {self.rank} of {self.size}"


SINGLE = ParallelGroup()
"""One rank that holds everything."""


@dataclass(frozen=True)
class Part:
    """One of the projections that are fused along a parameter's first dimension.

    Attributes:
        size: rows of the whole projection, over all ranks.
        unit: rows that stay on one rank together, such as those of a head.
    """

    size: int
    unit: int = 1

    def shard(self, group: ParallelGroup) -> slice:
        """The rows that a rank holds. Fewer units than ranks are replicated: neighbouring ranks hold the same one."""
        units = self.size // self.unit
        more, fewer = max(units, group.size), min(units, group.size)
        if more % fewer:
            raise ConfigurationError(f"{units} heads or rows cannot be split evenly over {group.size} ranks: choose a divisor of {units}")
        first = group.rank * units // group.size
        return slice(first * self.unit, (first + max(1, units // group.size)) * self.unit)

    def local_size(self, group: ParallelGroup) -> int:
        """Rows that a rank holds."""
        rows = self.shard(group)
        return int(rows.stop) - int(rows.start)


@dataclass(frozen=True, kw_only=True)
class WeightLayout:
    """How a parameter is made of a checkpoint's tensors.

    Attributes:
        parts: the tensors that are fused along dimension 0, in order.
        columns: size of dimension 1 over all ranks; None for a vector.
        axis: the dimension that ranks split; None where every rank holds all.
        stack: how many such parameters lie one behind the other, as those of experts, in a dimension before these; None: there is none.
    """

    parts: tuple[Part, ...]
    columns: int | None = None
    axis: int | None = None
    stack: int | None = None

    def local_shape(self, group: ParallelGroup) -> tuple[int, ...]:
        """Shape of the parameter on a rank."""
        shape = [] if self.stack is None else [self.stack]
        shape.append(sum(part.local_size(group) if self.axis == 0 else part.size for part in self.parts))
        if self.columns is not None:
            shape.append(Part(self.columns).local_size(group) if self.axis == 1 else self.columns)
        return tuple(shape)


@runtime_checkable
class HasLayout(Protocol):
    """A module whose own parameters can be filled from a checkpoint."""

    def layout(self, parameter: str) -> WeightLayout:
        """How the parameter of this name is made of a checkpoint's tensors."""


def empty_parameter(shape: tuple[int, ...], dtype: torch.dtype) -> nn.Parameter:
    """A parameter without content and without gradient, on torch's default device."""
    return nn.Parameter(torch.empty(shape, dtype=dtype), requires_grad=False)
