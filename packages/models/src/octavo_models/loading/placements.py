"""The plan of a load: which tensor of a checkpoint fills what of a model's parameters. Finds what is wrong with a table of names."""

import difflib
from collections.abc import Mapping

from torch import nn

from octavo.errors import PluginError
from octavo_models.layers.parallel import SINGLE, HasLayout, ParallelGroup
from octavo_models.loading.mapping import NameTable, Placement, Target, place_parts

Placements = dict[str, tuple[Placement, ...]]
Slot = tuple[int, int, int, int | None]
"""A part of a parameter, however many names that has: identity, first and last row, member of a stack."""

SHOWN = 8
"""Names in a message."""


def plan_placements(
    model: nn.Module,
    table: NameTable,
    *,
    num_layers: int,
    num_experts: int = 0,
    ignored: frozenset[str] = frozenset(),
    group: ParallelGroup = SINGLE,
) -> Placements:
    """Full name of every tensor that a checkpoint of this model may hold -> its places.

    Raises `PluginError` for an entry that leads to no module, to no part of one or to one without weights or layout, for two entries
    that lead to the same place, and for a parameter that no entry, or not enough of them, lead to.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    placements: Placements = {}
    for name, target in table.expand(num_layers, num_experts).items():
        if target.in_some_layers and target.module not in modules:
            continue
        module = _module(name, target, modules)
        for leaf, _ in modules[target.module].named_parameters(recurse=False):
            full_name = f"{name}.{leaf}"
            if full_name not in ignored:
                placements[full_name] = _place(name, leaf, module, target, group)
    _check_that_all_is_filled(model, placements)
    return placements


def slot_of(placement: Placement, parameters: Mapping[str, nn.Parameter]) -> Slot:
    """The part of a parameter that a placement fills."""
    return id(parameters[placement.parameter]), placement.rows.start, placement.rows.stop, placement.member


def shortened(names: list[str]) -> str:
    """Names for a message: the first few, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _module(name: str, target: Target, modules: Mapping[str, nn.Module]) -> HasLayout:
    """The module that an entry leads to."""
    module = modules.get(target.module)
    if module is None:
        raise PluginError(_leads_nowhere(name, target.module, modules))
    kind = f"{target.module!r}, a {type(module).__name__},"
    if not any(True for _ in module.named_parameters(recurse=False)):
        inside = [f"{target.module}.{child}" for child, _ in module.named_children()]
        where = f": they are in {', '.join(inside)}" if inside else ""
        raise PluginError(f"the weight-name table sends {name!r} to {kind} which has no weights of its own{where}")
    if not isinstance(module, HasLayout):
        raise PluginError(
            f"the weight-name table sends {name!r} to {kind} which does not say how its weights are laid out: give it a method "
            "layout(parameter) that returns a WeightLayout"
        )
    return module


def _leads_nowhere(name: str, path: str, modules: Mapping[str, nn.Module]) -> str:
    """What is wrong with the path of a module that does not exist: the first step that leads nowhere, and where others lead."""
    parent = path
    while parent not in modules:
        parent = parent.rpartition(".")[0]
    step = path.removeprefix(parent).lstrip(".").split(".")[0]
    there = [child for child, _ in modules[parent].named_children()]
    close = difflib.get_close_matches(step, there, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return (
        f"the weight-name table sends {name!r} to {path!r}, but {parent or 'the model'}, a {type(modules[parent]).__name__}, "
        f"has no module {step!r}: there are {', '.join(there) or 'none'}{hint}"
    )


def _place(name: str, leaf: str, module: HasLayout, target: Target, group: ParallelGroup) -> tuple[Placement, ...]:
    layout = module.layout(leaf)
    if target.part < 0 or target.part + target.num_parts > len(layout.parts):
        wanted = f"part {target.part}" if target.num_parts == 1 else f"{target.num_parts} parts from {target.part} on"
        raise PluginError(
            f"the weight-name table sends {name!r} to {wanted} of {target.module!r}, whose {leaf} has {len(layout.parts)}, counted from 0"
        )
    actual, expected = tuple(getattr(module, leaf).shape), layout.local_shape(group)
    if actual != expected:
        raise PluginError(f"{target.module}.{leaf} has shape {actual}, but its layout says {expected}")
    return place_parts(f"{target.module}.{leaf}", layout, target, group)


def _check_that_all_is_filled(model: nn.Module, placements: Placements) -> None:
    """Every part of every parameter, once; a parameter of several names, such as a tied head's, under one of them at least."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    takers: dict[tuple[str, Slot], str] = {}
    filled: dict[int, set[Slot]] = {}
    for name, places in placements.items():
        for placement in places:
            slot = slot_of(placement, parameters)
            other = takers.setdefault((placement.parameter, slot), name)
            if other != name:
                raise PluginError(f"the weight-name table sends {other!r} and {name!r} to the same part of {placement.parameter!r}")
            filled.setdefault(slot[0], set()).add(slot)
    forgotten = [name for name, parameter in model.named_parameters() if id(parameter) not in filled]
    if forgotten:
        raise PluginError(f"the weight-name table has no entry for {shortened(forgotten)}")
    for name, parameter in model.named_parameters():
        slots = filled[id(parameter)]
        rows = len(parameter) if all(slot[3] is None for slot in slots) else parameter.shape[0] * parameter.shape[1]
        there = sum(stop - start for _, start, stop, _ in slots)
        if there < rows:
            raise PluginError(f"the weight-name table fills {there} of {rows} rows of {name!r}: it has no entry for one of its parts")
