"""Whether the pieces of a model give what the runner reads of them: looked at once, on two rows, before anything is built on it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from octavo.errors import PluginError
from octavo_kernels.attention import AttentionSpec
from octavo_models.model import AttentionInputs, Border, Carry, DecoderLayer, PiecewiseLayer, PiecewiseModel

_ROWS = 2


def check_pieces(model: PiecewiseModel, *, every_layer: bool = False) -> None:
    """Run the embedding, layers and the head, and look at the number, the sizes and the types of all that they return.

    Args:
        model: with weights, whatever they are.
        every_layer: look at each layer; otherwise at the first one of every class and border.

    Raises:
        PluginError: naming the piece, what it gives and what it must give.
    """
    device = next(model.parameters()).device
    with torch.inference_mode(), torch.device(device):
        tables = [table.to(device) for table in _tables(model)]
        carry = model.embed(torch.arange(_ROWS) % model.config.vocab_size)
        _check_carry("embed", model, carry)
        seen = set()
        for index, layer in enumerate(model.layers):
            kind = (type(layer), tuple(border if isinstance(border, AttentionSpec) else type(border) for border in layer.borders))
            if every_layer or kind not in seen:
                seen.add(kind)
                carry = _check_layer(f"layer {index}", model, layer, tables, carry)
        _check_tensor("final", model.final(carry), (_ROWS, model.config.hidden_size), None)
        _check_tensor("logits", model.logits(model.final(carry)), (_ROWS, model.config.vocab_size), None)


def _tables(model: PiecewiseModel) -> Sequence[Tensor]:
    tables: object = model.rotary_tables(_ROWS)
    if not isinstance(tables, tuple | list):
        raise PluginError(f"rotary_tables returned a {type(tables).__name__}, but must return a tuple of tensors")
    for index, table in enumerate(tables):
        where = f"rotary table {index}"
        if not isinstance(table, Tensor):
            raise PluginError(f"{where} is a {type(table).__name__}, but must be a tensor")
        if table.dtype != torch.float32:
            raise PluginError(f"{where} is {table.dtype}, but must be torch.float32")
        if len(table) != _ROWS:
            raise PluginError(f"{where} has {len(table)} rows; {_ROWS} were asked for")
    return tables


def _check_layer(where: str, model: PiecewiseModel, layer: DecoderLayer, tables: Sequence[Tensor], carry: Carry) -> Carry:
    if not 0 <= layer.rotary_index < len(tables):
        raise PluginError(f"{where} asks for rotary table {layer.rotary_index}; the model has {len(tables)}, counted from 0")
    positions, rotary = torch.arange(_ROWS), tables[layer.rotary_index]
    borders = layer.borders
    arrived: Tensor | None = None
    for index in range(len(borders) + 1):
        piece = f"{where}, {_piece_name(layer, index)}"
        result: object = layer.piece(index, positions, rotary, arrived, carry)
        if not isinstance(result, tuple) or len(result) != 2:
            given = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
            raise PluginError(f"{piece} returned {given}, but must return a pair: the inputs of what follows, and the carry")
        inputs, carry = result
        _check_carry(piece, model, carry)
        if index < len(borders):
            arrived = _check_border(piece, where, model, borders[index], inputs)
        elif not isinstance(inputs, tuple) or inputs:
            raise PluginError(f"{piece}, the last one, returned inputs of a border that does not follow; it must return ()")
    return carry


def _piece_name(layer: DecoderLayer, index: int) -> str:
    return ("before", "after")[index] if isinstance(layer, PiecewiseLayer) else f"piece {index}"


def _check_border(where: str, layer: str, model: PiecewiseModel, border: AttentionSpec | Border, inputs: object) -> Tensor:
    """What a piece hands to the border behind it; returns something of the shape that comes out there."""
    expected: list[tuple[str, tuple[int, ...], torch.dtype]]
    if isinstance(border, AttentionSpec):
        _check_heads(layer, model, border)
        heads = (border.num_heads, border.num_kv_heads, border.num_kv_heads)
        sizes = zip(AttentionInputs._fields, heads, strict=True)
        expected = [(name, (_ROWS, number, border.head_size), model.dtype) for name, number in sizes]
        output, dtype = expected[0][1], model.dtype
    else:
        expected = [(spec.name, (_ROWS, spec.width), spec.dtype or model.dtype) for spec in border.inputs]
        output, dtype = (_ROWS, border.output.width), border.output.dtype or model.dtype
    names = [name for name, _, _ in expected]
    if not isinstance(inputs, tuple | list) or len(inputs) != len(expected):
        given = f"{len(inputs)} tensors" if isinstance(inputs, tuple | list) else f"a {type(inputs).__name__}"
        raise PluginError(f"{where} returned {given} for what follows, but must return {', '.join(names)}, as a tuple")
    for (name, shape, kind), tensor in zip(expected, inputs, strict=True):
        _check_tensor(f"{where}: {name}", tensor, shape, kind)
    return torch.zeros(output, dtype=dtype)


def _check_heads(layer: str, model: PiecewiseModel, spec: AttentionSpec) -> None:
    config = model.config
    planned = (config.num_heads, config.num_kv_heads, config.head_size)
    actual = (spec.num_heads, spec.num_kv_heads, spec.head_size)
    if actual != planned:
        raise PluginError(f"{layer} attends with heads, KV heads and size {actual}; the configuration, which sizes pages, says {planned}")


def _check_carry(where: str, model: PiecewiseModel, carry: object) -> None:
    names = [spec.name for spec in model.carry]
    if not isinstance(carry, tuple):
        raise PluginError(f"{where}: the carry is a {type(carry).__name__}, but must be a tuple of {', '.join(names)}: write (x,) for one")
    if len(carry) != len(names):
        raise PluginError(f"{where}: the carry has {len(carry)} tensors; the model declares {names}")
    for spec, tensor in zip(model.carry, carry, strict=True):
        _check_tensor(f"{where}: {spec.name}", tensor, (_ROWS, spec.width), spec.dtype or model.dtype)


def _check_tensor(where: str, tensor: object, shape: tuple[int, ...], dtype: torch.dtype | None) -> None:
    if not isinstance(tensor, Tensor):
        raise PluginError(f"{where} is a {type(tensor).__name__}, but must be a tensor")
    if tuple(tensor.shape) != shape:
        raise PluginError(f"{where} is {tuple(tensor.shape)}, but must be {shape}")
    if dtype is not None and tensor.dtype != dtype:
        raise PluginError(f"{where} is {tensor.dtype}, but must be {dtype}")
