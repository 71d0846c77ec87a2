"""Fills a model's parameters from a stream of named tensors, each exactly once."""

from collections.abc import Iterable

from torch import Tensor, nn

from octavo.errors import CheckpointError
from octavo_models.layers.parallel import SINGLE, HasLayout, ParallelGroup
from octavo_models.loading.mapping import NameTable, Placement, place_parts

_SHOWN = 8


def fill_parameters(
    model: nn.Module,
    weights: Iterable[tuple[str, Tensor]],
    table: NameTable,
    *,
    num_layers: int,
    num_experts: int = 0,
    ignored: frozenset[str] = frozenset(),
    group: ParallelGroup = SINGLE,
) -> None:
    """Copy every tensor to where the table puts it, converted to the parameter's type.

    Args:
        model: its modules with parameters have a `layout`, as those of `octavo_models.layers` do.
        weights: names as in the checkpoint and whole tensors, dropped one by one as they are copied.
        table: the model's names.
        num_layers: how often names with `{}` occur.
        num_experts: how often names with `{expert}` occur, in each layer that has experts.
        ignored: full names that may be there and are not read, such as the head of a model with tied embeddings.
        group: ranks.

    Raises:
        CheckpointError: naming tensors that are missing, unexpected, there twice or of another shape.
    """
    placements = plan_placements(model, table, num_layers=num_layers, num_experts=num_experts, ignored=ignored, group=group)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    loaded: set[str] = set()
    unexpected: list[str] = []
    for name, tensor in weights:
        if name not in placements:
            if name not in ignored and not name.endswith(table.ignored):
                unexpected.append(name)
            continue
        if name in loaded:
            raise CheckpointError(f"the checkpoint holds tensor {name!r} twice")
        loaded.add(name)
        for placement in placements[name]:
            _copy(name, tensor, placement, parameters[placement.parameter])
    _report("lacks tensors that the model needs", [name for name in placements if name not in loaded])
    _report("holds tensors that the model has no place for", unexpected)


def plan_placements(
    model: nn.Module,
    table: NameTable,
    *,
    num_layers: int,
    num_experts: int = 0,
    ignored: frozenset[str] = frozenset(),
    group: ParallelGroup = SINGLE,
) -> dict[str, tuple[Placement, ...]]:
    """Full name of every tensor that a checkpoint of this model must hold -> its places."""
    placements: dict[str, tuple[Placement, ...]] = {}
    existing = {name for name, _ in model.named_modules()}
    for name, target in table.expand(num_layers, num_experts).items():
        if target.in_some_layers and target.module not in existing:
            continue
        module = model.get_submodule(target.module)
        assert isinstance(module, HasLayout), f"{target.module}, a {type(module).__name__}, does not say how its weights are laid out"
        for leaf, _ in module.named_parameters(recurse=False):
            full_name = f"{name}.{leaf}"
            if full_name not in ignored:
                placements[full_name] = place_parts(f"{target.module}.{leaf}", module.layout(leaf), target, group)
    reached = {placement.parameter for places in placements.values() for placement in places}
    forgotten = [name for name, _ in model.named_parameters() if name not in reached]
    assert not forgotten, f"the weight-name table has no entry for {forgotten}"
    return placements


def _copy(name: str, tensor: Tensor, placement: Placement, parameter: nn.Parameter) -> None:
    if tuple(tensor.shape) != placement.shape:
        raise CheckpointError(f"tensor {name!r} has shape {tuple(tensor.shape)}, the configuration asks for {placement.shape}")
    place = parameter.data if placement.member is None else parameter.data[placement.member]
    place[placement.rows].copy_(tensor[placement.source])


def _report(fault: str, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise CheckpointError(f"the checkpoint {fault}: {', '.join(names[:_SHOWN])}{more}")
