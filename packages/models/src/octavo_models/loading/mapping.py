"""From names in a checkpoint to slices of parameters; pure, so that it is tested without files and at any number of ranks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from octavo_models.layers.parallel import ParallelGroup, Part, WeightLayout


@dataclass(frozen=True)
class Target:
    """Where a checkpoint's module goes. `{}` in both names is the layer's number, `{expert}` in the checkpoint's that of an expert.

    Attributes:
        module: one of our modules.
        part: which of its fused parts.
        num_parts: how many parts, from that one on, the checkpoint holds as one tensor.
        member: which of its stacked parameters; filled in for experts.
        in_some_layers: only layers that have the module have it in the checkpoint.
    """

    module: str
    part: int = 0
    num_parts: int = 1
    member: int | None = None
    in_some_layers: bool = False


@dataclass(frozen=True, kw_only=True)
class NameTable:
    """A model's weight names.

    Attributes:
        modules: name of a module in the checkpoint -> where it goes.
        ignored: endings of tensor names that hold nothing a model needs.
    """

    modules: Mapping[str, Target]
    ignored: tuple[str, ...] = ()

    def changed(self, modules: Mapping[str, Target], *, without: Collection[str] = ()) -> "NameTable":
        """The table of a model that has some names more, or other ones."""
        kept = {name: target for name, target in self.modules.items() if name not in without}
        return replace(self, modules=kept | dict(modules))

    def expand(self, num_layers: int, num_experts: int = 0) -> dict[str, Target]:
        """The table with every layer's and expert's number filled in."""
        expanded: dict[str, Target] = {}
        for name, target in self.modules.items():
            for layer in range(num_layers) if "{}" in name else (None,):
                filled = replace(target, module=target.module.format(layer))
                if "{expert}" in name:
                    expanded |= {name.format(layer, expert=expert): replace(filled, member=expert) for expert in range(num_experts)}
                else:
                    expanded[name.format(layer)] = filled
        return expanded


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What of a checkpoint's tensor fills what of a parameter on one rank.

    Attributes:
        parameter: full name of the parameter.
        shape: of the whole tensor in the checkpoint.
        source: the slice of each dimension of that tensor which this rank keeps.
        rows: the slice of the parameter's dimension 0, or of a stacked one's dimension 1, which it fills.
        member: index in the dimension of stacked parameters; None where there is none.
    """

    parameter: str
    shape: tuple[int, ...]
    source: tuple[slice, ...]
    rows: slice
    member: int | None = None


def place(parameter: str, layout: WeightLayout, part: int, group: ParallelGroup) -> Placement:
    """Place a tensor that is one part of a parameter."""
    (placement,) = place_parts(parameter, layout, Target(parameter, part), group)
    return placement


def place_parts(parameter: str, layout: WeightLayout, target: Target, group: ParallelGroup) -> tuple[Placement, ...]:
    """Place a tensor that is one part of a parameter, or several side by side: one placement a part."""
    sizes = [piece.local_size(group) if layout.axis == 0 else piece.size for piece in layout.parts]
    wanted = range(target.part, target.part + target.num_parts)
    height = sum(layout.parts[part].size for part in wanted)
    columns = () if layout.columns is None else (Part(layout.columns).shard(group) if layout.axis == 1 else slice(0, layout.columns),)
    placements: list[Placement] = []
    offset = 0
    for part in wanted:
        piece = layout.parts[part]
        local = piece.shard(group) if layout.axis == 0 else slice(0, piece.size)
        start = sum(sizes[:part])
        placements.append(
            Placement(
                parameter=parameter,
                shape=(height,) if layout.columns is None else (height, layout.columns),
                source=(slice(offset + local.start, offset + local.stop), *columns),
                rows=slice(start, start + sizes[part]),
                member=target.member,
            )
        )
        offset += piece.size
    return tuple(placements)
