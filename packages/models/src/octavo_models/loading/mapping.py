"""From names in a checkpoint to slices of parameters; pure, so that it is tested without files and at any number of ranks."""

from collections.abc import Mapping
from dataclasses import dataclass

from octavo_models.layers.parallel import ParallelGroup, Part, WeightLayout


@dataclass(frozen=True)
class Target:
    """Where a checkpoint's module goes: one of our modules, and which of its fused parts. `{}` in both names is the layer's number."""

    module: str
    part: int = 0


@dataclass(frozen=True, kw_only=True)
class NameTable:
    """A model's weight names.

    Attributes:
        modules: name of a module in the checkpoint -> where it goes.
        ignored: endings of tensor names that hold nothing a model needs.
    """

    modules: Mapping[str, Target]
    ignored: tuple[str, ...] = ()

    def expand(self, num_layers: int) -> dict[str, Target]:
        """The table with every layer's number filled in."""
        expanded: dict[str, Target] = {}
        for name, target in self.modules.items():
            if "{}" in name:
                expanded |= {name.format(layer): Target(target.module.format(layer), target.part) for layer in range(num_layers)}
            else:
                expanded[name] = target
        return expanded


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What of a checkpoint's tensor fills what of a parameter on one rank.

    Attributes:
        parameter: full name of the parameter.
        shape: of the whole tensor in the checkpoint.
        source: the slice of each dimension of that tensor which this rank keeps.
        rows: the slice of the parameter's dimension 0 which it fills.
    """

    parameter: str
    shape: tuple[int, ...]
    source: tuple[slice, ...]
    rows: slice


def place(parameter: str, layout: WeightLayout, part: int, group: ParallelGroup) -> Placement:
    """Place one part of a parameter."""
    wanted = layout.parts[part]
    shape = (wanted.size,) if layout.columns is None else (wanted.size, layout.columns)
    sizes = [piece.local_size(group) if layout.axis == 0 else piece.size for piece in layout.parts]
    source = [wanted.shard(group) if layout.axis == 0 else slice(0, wanted.size)]
    if layout.columns is not None:
        source.append(Part(layout.columns).shard(group) if layout.axis == 1 else slice(0, layout.columns))
    start = sum(sizes[:part])
    return Placement(parameter=parameter, shape=shape, source=tuple(source), rows=slice(start, start + sizes[part]))
