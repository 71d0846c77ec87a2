"""Fills a model's parameters from a stream of named tensors, each exactly once."""

import difflib
import logging
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from octavo.errors import CheckpointError
from octavo_models.layers.embedding import VocabularyHead
from octavo_models.layers.parallel import SINGLE, ParallelGroup
from octavo_models.loading.mapping import NameTable, Placement
from octavo_models.loading.placements import SHOWN, Placements, Slot, plan_placements, shortened, slot_of

_CLOSE = 0.75
"""Share of two names that is alike where one is likely to be meant by the other."""

_log = logging.getLogger(__name__)


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

    A parameter that two modules share, such as the weight of a tied head, is asked for under one of its names. Where a checkpoint has
    both, and another head than the embedding, the head is the checkpoint's own, and a warning says so.

    Args:
        model: its modules with parameters have a `layout`, as those of `octavo_models.layers` do.
        weights: names as in the checkpoint and whole tensors, dropped one by one as they are copied.
        table: the model's names.
        num_layers: how often names with `{}` occur.
        num_experts: how often names with `{expert}` occur, in each layer that has experts.
        ignored: full names of tensors that may be there and are not read.
        group: ranks.

    Raises:
        CheckpointError: naming tensors that are missing, unexpected, there twice, of another shape, or that differ and must not.
        PluginError: the table does not fit the model.
    """
    placements = plan_placements(model, table, num_layers=num_layers, num_experts=num_experts, ignored=ignored, group=group)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    first_names = {name for name, _ in model.named_parameters()}
    loaded: set[str] = set()
    unexpected: list[str] = []
    second: dict[str, Tensor] = {}
    for name, tensor in weights:
        if name not in placements:
            if name not in ignored and not name.endswith(table.ignored):
                unexpected.append(name)
            continue
        if name in loaded or name in second:
            raise CheckpointError(f"the checkpoint holds tensor {name!r} twice")
        # What goes to a second name of a parameter has to wait: which of the two comes first must not matter.
        if all(placement.parameter not in first_names for placement in placements[name]):
            second[name] = tensor
            continue
        loaded.add(name)
        for placement in placements[name]:
            _copy(name, tensor, placement, parameters[placement.parameter])
    filled = {slot for name in loaded for slot in _slots(placements[name], parameters)}
    for name, tensor in second.items():
        _fill_under_second_name(model, name, tensor, placements[name], parameters, filled)
    _report(_missing(placements, parameters, filled), unexpected)


def _slots(places: Iterable[Placement], parameters: Mapping[str, nn.Parameter]) -> set[Slot]:
    return {slot_of(placement, parameters) for placement in places}


def _copy(name: str, tensor: Tensor, placement: Placement, parameter: nn.Parameter) -> None:
    place = _place(name, tensor, placement, parameter)
    place.copy_(tensor[placement.source])


def _place(name: str, tensor: Tensor, placement: Placement, parameter: nn.Parameter) -> Tensor:
    """The part of a parameter that a tensor fills."""
    if tuple(tensor.shape) != placement.shape:
        raise CheckpointError(f"tensor {name!r} has shape {tuple(tensor.shape)}, the configuration asks for {placement.shape}")
    whole = parameter.data if placement.member is None else parameter.data[placement.member]
    return whole[placement.rows]


def _fill_under_second_name(
    model: nn.Module,
    name: str,
    tensor: Tensor,
    places: tuple[Placement, ...],
    parameters: Mapping[str, nn.Parameter],
    filled: set[Slot],
) -> None:
    """Fill what is shared where nothing did under its first name; otherwise see that it is the same, or part the two."""
    for placement in places:
        parameter = parameters[placement.parameter]
        slot = slot_of(placement, parameters)
        if slot not in filled:
            _copy(name, tensor, placement, parameter)
            filled.add(slot)
            continue
        place = _place(name, tensor, placement, parameter)
        module = model.get_submodule(placement.parameter.rpartition(".")[0])
        if isinstance(module, VocabularyHead):
            if module.untie(tensor):
                _log.warning("the checkpoint says that its head is the embedding, but holds another one: %s is used", name)
        elif not torch.equal(tensor[placement.source].to(place), place):
            raise CheckpointError(f"tensor {name!r} differs from the one that fills {placement.parameter!r} under its other name")


def _missing(placements: Placements, parameters: Mapping[str, nn.Parameter], filled: set[Slot]) -> list[str]:
    """Names of tensors that would fill what nothing filled, one name a place."""
    missing, covered = [], set(filled)
    for name, places in placements.items():
        slots = _slots(places, parameters)
        if not slots <= covered:
            missing.append(name)
            covered |= slots
    return missing


def _report(missing: list[str], unexpected: list[str]) -> None:
    """Raise `CheckpointError` for what is missing and what is left over, together, since one is often the other under a wrong name."""
    faults = []
    if missing:
        faults.append(f"lacks tensors that the model needs: {shortened(_with_close_names(missing, unexpected))}")
    if unexpected:
        faults.append(f"holds tensors that the model has no place for: {shortened(unexpected)}")
    if faults:
        raise CheckpointError(f"the checkpoint {'; and it '.join(faults)}")


def _with_close_names(missing: list[str], unexpected: list[str]) -> list[str]:
    """The names, each with that of the tensor beside it which it may be."""
    if not unexpected:
        return missing
    shown = [(name, difflib.get_close_matches(name, unexpected, n=1, cutoff=_CLOSE)) for name in missing[:SHOWN]]
    return [f"{name} (is it {like[0]}?)" if like else name for name, like in shown] + missing[SHOWN:]
