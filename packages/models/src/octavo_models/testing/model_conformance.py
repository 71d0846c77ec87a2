"""What holds for every model that is written in pieces."""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from octavo.errors import CheckpointError, PluginError
from octavo_models.loading.contract import check_pieces
from octavo_models.model import PiecewiseLayer
from octavo_models.testing.model_under_test import ModelUnderTest, chunked_logits, usual_layers

_NUM_TOKENS = 23
_TOLERANCE = 1e-4


def check_model(model: ModelUnderTest, case: str) -> None:
    """Hold a model to one of the promises that pieces make. Raises AssertionError with the piece and what is wrong.

    Args:
        model: of `read_model`; its checkpoint has at least two layers.
        case: of `MODEL_CASES`.
    """
    with torch.inference_mode():
        _CHECKS[case](model)


class _Pieces(nn.Module):
    """A layer whose pieces are called by name, as `functional_call` only calls `forward`."""

    def __init__(self, layer: PiecewiseLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, piece: str, *arguments: Any) -> Any:
        return getattr(self.layer, piece)(*arguments)


def _check_shapes(model: ModelUnderTest) -> None:
    """Sizes and types of all that crosses a border, in both types that are common."""
    for dtype in (torch.float32, torch.bfloat16):
        built = model.build(dtype=dtype)
        config = model.config
        assert built.dtype == dtype, f"the model's dtype is {built.dtype}; it was built with {dtype}"
        assert len(built.layers) == config.num_layers, f"the model has {len(built.layers)} layers; {config.num_layers} are configured"
        usual_layers(built)
        try:
            check_pieces(built, every_layer=True)
        except PluginError as error:
            raise AssertionError(str(error)) from error
        logits = chunked_logits(built, model.tokens(_NUM_TOKENS), [_NUM_TOKENS])
        assert bool(logits.isfinite().all()), "logits are not finite: was every parameter filled?"


def _check_chunks(model: ModelUnderTest) -> None:
    """A sequence gives the same in chunks, whose rows see nothing but their own positions and the keys and values before them."""
    built, tokens = model.build(), model.tokens(_NUM_TOKENS)
    whole = chunked_logits(built, tokens, [_NUM_TOKENS])
    for chunks in ([1] * _NUM_TOKENS, [7, 1, 15], [22, 1]):
        _assert_close(f"in chunks of {chunks}", chunked_logits(built, tokens, chunks), whole)
    other = tokens.clone()
    other[-1] = (other[-1] + 1) % model.config.vocab_size
    _assert_close("before a changed token", chunked_logits(built, other, [_NUM_TOKENS])[:-1], whole[:-1])
    assert not torch.equal(chunked_logits(built, other, [_NUM_TOKENS])[-1], whole[-1]), "the last token does not show in the logits"


def _check_rows(model: ModelUnderTest) -> None:
    """What a piece gives for a row depends on that row alone, so that requests can share a step and a few rows go on alone."""
    built = model.build()
    rows = torch.tensor([5, 0, 9, 2])
    tokens, positions, rotary = model.tokens(10), torch.arange(10), built.rotary_table(10)
    carry, few = built.embed(tokens), built.embed(tokens[rows])
    for index, layer in enumerate(usual_layers(built)):
        inputs, passed = layer.before(positions, rotary, carry)
        few_inputs, few_passed = layer.before(positions[rows], rotary, few)
        _assert_rows(f"layer {index} before attention", (*few_inputs, *few_passed), (*inputs, *passed), rows)
        attended = inputs.query * 0.5
        carry, few = layer.after(attended, passed), layer.after(attended[rows], few_passed)
        _assert_rows(f"layer {index} after attention", few, carry, rows)
    _assert_rows("final", (built.final(few),), (built.final(carry),), rows)
    _assert_rows("logits", (built.logits(built.final(few)),), (built.logits(built.final(carry)),), rows)


def _check_purity(model: ModelUnderTest) -> None:
    """Pieces change neither their arguments nor anything else: called again, they give the same."""
    built = model.build()
    positions, rotary = torch.arange(6), built.rotary_table(6)
    carry = built.embed(model.tokens(6))
    for index, layer in enumerate(usual_layers(built)):
        inputs, passed = _twice(f"layer {index}, before", layer.before, positions, rotary, carry)
        carry = _twice(f"layer {index}, after", layer.after, inputs.query, passed)
    hidden = _twice("final", built.final, carry)
    _twice("logits", built.logits, hidden)


def _check_layers(model: ModelUnderTest) -> None:
    """Layers of one kind differ in their weights alone: the first with the weights of another equals that other, bit by bit."""
    built = model.build()
    assert len(built.layers) > 1, "the checkpoint has one layer: give it two or more of each kind"
    positions, rotary, start = torch.arange(6), built.rotary_table(6), built.embed(model.tokens(6))
    carry = tuple(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(2)).to(tensor.dtype) for tensor in start)
    kinds = [list(layers) for _, layers in groupby(sorted(enumerate(usual_layers(built)), key=_kind), key=_kind)]
    for (_, first), *others in kinds:
        attended = first.before(positions, rotary, carry)[0].query
        for index, layer in others:
            weights = dict(_Pieces(layer).named_parameters()) | dict(_Pieces(layer).named_buffers())
            for piece, arguments in (("before", (positions, rotary, carry)), ("after", (attended, carry))):
                expected = _flat(getattr(layer, piece)(*arguments))
                actual = _flat(functional_call(_Pieces(first), weights, (piece, *arguments)))
                same = all(map(torch.equal, actual, expected))
                assert same, f"{piece} of layer {index} does more than its weights say: what differs between layers must be a parameter"


def _kind(numbered: tuple[int, PiecewiseLayer]) -> str:
    """What has to be equal for two layers to share a piece."""
    layer = numbered[1]
    return repr((type(layer), layer.attention, [(name, weight.shape, weight.dtype) for name, weight in layer.named_parameters()]))


def _check_weights(model: ModelUnderTest) -> None:
    """Every tensor is needed, once and in its shape, in any order; what is wrong is named."""
    names = list(model.weights)
    tokens = model.tokens(5)
    expected = chunked_logits(model.build(), tokens, [5])
    backwards = [(name, model.weights[name]) for name in reversed(names)]
    assert torch.equal(chunked_logits(model.build(backwards), tokens, [5]), expected), "the order of tensors matters"
    for name in names:
        rest = [(other, tensor) for other, tensor in model.weights.items() if other != name]
        _refuses(model, rest, name, f"without {name}")
        _refuses(model, [*rest, (name, model.weights[name].repeat_interleave(2, dim=0))], name, f"with {name} of another shape")
    everything = list(model.weights.items())
    _refuses(model, [*everything, everything[0]], names[0], f"with {names[0]} twice")
    _refuses(model, [*everything, ("surplus.weight", torch.zeros(2, 2))], "surplus.weight", "with a tensor that is not the model's")


def _refuses(model: ModelUnderTest, weights: Iterable[tuple[str, Tensor]], name: str, fault: str) -> None:
    try:
        model.build(weights)
    except CheckpointError as error:
        if name not in str(error):
            raise AssertionError(f"load_weights {fault}: the error does not name the tensor: {error}") from error
    except Exception as error:
        raise AssertionError(f"load_weights {fault} raised {type(error).__name__}: {error}; it must raise CheckpointError") from error
    else:
        raise AssertionError(f"load_weights {fault} raised nothing; it must raise CheckpointError naming {name!r}")


def _check_rotary(model: ModelUnderTest) -> None:
    """The table says the same at every call."""
    built = model.build()
    assert torch.equal(built.rotary_table(64), built.rotary_table(64)), "the rotary table differs from call to call"


def _twice(where: str, piece: Callable[..., Any], *arguments: Any) -> Any:
    before = [tensor.clone() for tensor in _flat(arguments)]
    first = [tensor.clone() for tensor in _flat(piece(*arguments))]
    result = piece(*arguments)
    assert all(map(torch.equal, _flat(arguments), before)), f"{where}: an argument was changed"
    assert all(map(torch.equal, _flat(result), first)), f"{where}: a second call gives something else"
    return result


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for part in value for tensor in _flat(part)]


def _assert_rows(where: str, few: Iterable[Tensor], all_rows: Iterable[Tensor], rows: Tensor) -> None:
    for actual, expected in zip(few, all_rows, strict=True):
        _assert_close(f"{where}, some rows alone", actual, expected[rows])


def _assert_close(where: str, actual: Tensor, expected: Tensor) -> None:
    difference = float((actual - expected).abs().max())
    assert difference <= _TOLERANCE, f"{where}: differs by {difference:.2g} from the whole"


_CHECKS: dict[str, Callable[[ModelUnderTest], None]] = {
    "shapes": _check_shapes,
    "chunks": _check_chunks,
    "rows": _check_rows,
    "purity": _check_purity,
    "layers": _check_layers,
    "weights": _check_weights,
    "rotary table": _check_rotary,
}

MODEL_CASES: tuple[str, ...] = tuple(_CHECKS)
"""The promises: sizes and types, chunks equal the whole, rows are independent, pieces are pure, layers differ in weights alone, weights."""
