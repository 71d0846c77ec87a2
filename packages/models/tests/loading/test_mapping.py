"""Shards of any number of ranks join to the whole."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo_models.layers import ParallelGroup, Part, WeightLayout
from octavo_models.loading.mapping import NameTable, Target, place, place_parts


def shard(layout: WeightLayout, tensors: list[torch.Tensor], group: ParallelGroup) -> torch.Tensor:
    """A rank's parameter, filled as the places say; NaN where nothing was written."""
    parameter = torch.full(layout.local_shape(group), float("nan"))
    for part, tensor in enumerate(tensors):
        placement = place("weight", layout, part, group)
        assert placement.shape == tuple(tensor.shape)
        parameter[placement.rows] = tensor[placement.source]
    return parameter


def tensors_of(layout: WeightLayout) -> list[torch.Tensor]:
    return [torch.randn((part.size,) if layout.columns is None else (part.size, layout.columns)) for part in layout.parts]


def test_fused_projections_stand_side_by_side() -> None:
    layout = WeightLayout(parts=(Part(8), Part(4), Part(4)), columns=6, axis=0)
    tensors = tensors_of(layout)
    assert torch.equal(shard(layout, tensors, ParallelGroup()), torch.cat(tensors))


@given(units=st.tuples(*[st.integers(1, 3)] * 3), unit=st.integers(1, 4), columns=st.one_of(st.none(), st.integers(1, 3)))
def test_two_column_shards_of_fused_projections_join_to_the_whole(units: tuple[int, ...], unit: int, columns: int | None) -> None:
    layout = WeightLayout(parts=tuple(Part(2 * count * unit, unit) for count in units), columns=columns, axis=0)
    tensors = tensors_of(layout)
    shards = [shard(layout, tensors, ParallelGroup(rank, 2)) for rank in range(2)]
    sizes = [part.size // 2 for part in layout.parts]
    halves = zip(*(piece.split(sizes) for piece in shards), strict=True)
    for tensor, (first, second) in zip(tensors, halves, strict=True):
        assert torch.equal(torch.cat((first, second)), tensor)


def test_two_row_shards_join_to_the_whole_along_columns() -> None:
    layout = WeightLayout(parts=(Part(5),), columns=6, axis=1)
    tensors = tensors_of(layout)
    shards = [shard(layout, tensors, ParallelGroup(rank, 2)) for rank in range(2)]
    assert torch.equal(torch.cat(shards, dim=1), tensors[0])


def test_what_is_not_split_is_whole_on_every_rank() -> None:
    layout = WeightLayout(parts=(Part(5),))
    tensors = tensors_of(layout)
    for rank in range(2):
        assert torch.equal(shard(layout, tensors, ParallelGroup(rank, 2)), tensors[0])


def test_fewer_kv_heads_than_ranks_are_replicated_beside_their_query_heads() -> None:
    head, query_heads, kv_heads, ranks = 4, 8, 2, 4
    layout = WeightLayout(parts=(Part(query_heads * head, head), Part(kv_heads * head, head)), columns=3, axis=0)
    query, key = tensors_of(layout)
    for rank in range(ranks):
        local = shard(layout, [query, key], ParallelGroup(rank, ranks))
        own_query, own_key = local.split([2 * head, head])
        kv_head = (rank * 2) // (query_heads // kv_heads)
        assert torch.equal(own_query, query[rank * 2 * head : (rank + 1) * 2 * head])
        assert torch.equal(own_key, key[kv_head * head : (kv_head + 1) * head])


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_tensor_that_is_fused_in_the_checkpoint_goes_where_its_parts_would(size: int) -> None:
    head, query_heads, kv_heads = 4, 8, 2
    layout = WeightLayout(parts=(Part(query_heads * head, head), *[Part(kv_heads * head, head)] * 2), columns=3, axis=0)
    tensors = tensors_of(layout)
    fused = torch.cat(tensors)
    for rank in range(size):
        group = ParallelGroup(rank, size)
        parameter = torch.full(layout.local_shape(group), float("nan"))
        for placement in place_parts("weight", layout, Target("qkv", num_parts=3), group):
            assert placement.shape == tuple(fused.shape)
            parameter[placement.rows] = fused[placement.source]
        assert torch.equal(parameter, shard(layout, tensors, group))


@pytest.mark.parametrize(("axis", "parts"), [(0, (Part(6), Part(6))), (1, (Part(5),))])
def test_shards_of_every_stacked_parameter_join_to_the_whole(axis: int, parts: tuple[Part, ...]) -> None:
    layout = WeightLayout(parts=parts, columns=4, axis=axis, stack=3)
    plain = WeightLayout(parts=parts, columns=4, axis=axis)
    experts = [tensors_of(plain) for _ in range(3)]
    for rank in range(2):
        group = ParallelGroup(rank, 2)
        parameter = torch.full(layout.local_shape(group), float("nan"))
        for member, tensors in enumerate(experts):
            for part, tensor in enumerate(tensors):
                (placement,) = place_parts("weight", layout, Target("experts", part, member=member), group)
                parameter[placement.member][placement.rows] = tensor[placement.source]
        assert torch.equal(parameter, torch.stack([shard(plain, tensors, group) for tensors in experts]))


def test_names_are_filled_in_for_each_layer() -> None:
    table = NameTable(modules={"model.norm": Target("norm"), "h.{}.k": Target("layers.{}.qkv", 1)})
    assert table.expand(2) == {
        "model.norm": Target("norm"),
        "h.0.k": Target("layers.0.qkv", 1),
        "h.1.k": Target("layers.1.qkv", 1),
    }


def test_names_of_experts_are_filled_in_for_each_layer_and_expert() -> None:
    table = NameTable(modules={"h.{}.experts.{expert}.up": Target("layers.{}.up", in_some_layers=True)})
    assert table.expand(2, 2) == {
        f"h.{layer}.experts.{expert}.up": Target(f"layers.{layer}.up", member=expert, in_some_layers=True)
        for layer in range(2)
        for expert in range(2)
    }


def test_a_changed_table_has_other_names_and_keeps_the_rest() -> None:
    table = NameTable(modules={"norm": Target("norm"), "up": Target("gate_up", 1)}, ignored=(".bias",))
    assert table.changed({"gate_up": Target("gate_up", num_parts=2)}, without=("up",)) == NameTable(
        modules={"norm": Target("norm"), "gate_up": Target("gate_up", num_parts=2)}, ignored=(".bias",)
    )


def test_a_rank_outside_its_group_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        ParallelGroup(2, 2)
