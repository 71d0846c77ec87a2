"""The suite passes what is right, and finds each fault that it is there for."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from octavo_models.llama import LlamaLayer, LlamaModel
from octavo_models.model import AttentionInputs, Carry
from octavo_models.testing import write_tiny_llama
from octavo_models.testing.conformance import MODEL_CASES, ModelUnderTest, check_model, chunked_logits, read_model

MakeModel = Callable[[type[LlamaModel]], ModelUnderTest]


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    folder = write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", vocab_size=320, num_hidden_layers=3, sliding_window=9)
    return lambda model_class: read_model(folder, model_class)


@pytest.mark.parametrize("case", MODEL_CASES, ids=str)
def test_llama_conforms(make_model: MakeModel, case: str) -> None:
    check_model(make_model(LlamaModel), case)


def test_a_folder_may_be_text_and_token_ids_a_list(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "tiny", vocab_size=320)
    built = read_model(str(folder), LlamaModel).build()
    logits = chunked_logits(built, [3, 1, 4, 1, 5])
    torch.testing.assert_close(logits, chunked_logits(built, torch.tensor([3, 1, 4, 1, 5]), [2, 3]), rtol=0, atol=1e-4)


def with_layers(spoil: Callable[[int, LlamaLayer], None]) -> type[LlamaModel]:
    """A Llama whose layers were spoiled one by one."""

    class Spoiled(LlamaModel):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            for index, layer in enumerate(self.layers):
                assert isinstance(layer, LlamaLayer)
                spoil(index, layer)

    return Spoiled


def mix_rows(index: int, layer: LlamaLayer) -> None:
    after = layer.after
    layer.after = lambda attended, carry: after(attended - attended.mean(dim=0), carry)  # type: ignore[method-assign]


def write_carry(index: int, layer: LlamaLayer) -> None:
    after = layer.after

    def spoiled(attended: Tensor, carry: Carry) -> Carry:
        (result,) = after(attended, carry)
        return (carry[0].copy_(result),)

    layer.after = spoiled  # type: ignore[method-assign]


def count_calls(index: int, layer: LlamaLayer) -> None:
    after, calls = layer.after, nn.Buffer(torch.zeros(1))

    def spoiled(attended: Tensor, carry: Carry) -> Carry:
        calls.add_(1)
        return after(attended * calls, carry)

    layer.after = spoiled  # type: ignore[method-assign]


def scale_by_number(index: int, layer: LlamaLayer) -> None:
    layer.mlp_norm.eps = 0.1 * (index + 1)


def wide_keys(index: int, layer: LlamaLayer) -> None:
    before = layer.before

    def spoiled(positions: Tensor, rotary: Tensor, carry: Carry) -> tuple[AttentionInputs, Carry]:
        inputs, passed = before(positions, rotary, carry)
        return inputs._replace(key=inputs.key.float()), passed

    layer.before = spoiled  # type: ignore[method-assign]


def forget_positions(index: int, layer: LlamaLayer) -> None:
    before = layer.before
    layer.before = lambda positions, rotary, carry: before(torch.arange(len(positions)), rotary, carry)  # type: ignore[method-assign]


class Careless(LlamaModel):
    """Takes what it knows and asks no more."""

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        complete = dict(self.named_parameters())
        with torch.no_grad():
            for parameter in complete.values():
                parameter.fill_(0.5)


class TwoCarries(LlamaModel):
    def embed(self, token_ids: Tensor) -> Carry:
        return super().embed(token_ids) * 2


FAULTY = {
    "mixes rows": (with_layers(mix_rows), "rows", "some rows alone"),
    "mixes rows of chunks": (with_layers(mix_rows), "chunks", "in chunks"),
    "counts positions anew": (with_layers(forget_positions), "chunks", "in chunks"),
    "writes the carry": (with_layers(write_carry), "purity", "an argument was changed"),
    "keeps state": (with_layers(count_calls), "purity", "a second call gives something else"),
    "knows its number": (with_layers(scale_by_number), "layers", "does more than its weights say"),
    "another type": (with_layers(wide_keys), "shapes", r"key is torch\.float32"),
    "undeclared carry": (TwoCarries, "shapes", "the carry has 2 tensors"),
    "careless loading": (Careless, "weights", "raised nothing"),
}


@pytest.mark.parametrize(("model_class", "case", "fault"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_model_is_found(make_model: MakeModel, model_class: type[LlamaModel], case: str, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_model(make_model(model_class), case)


def test_a_checkpoint_of_one_layer_cannot_show_that_layers_are_alike(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "tiny", vocab_size=320, num_hidden_layers=1)
    with pytest.raises(AssertionError, match="one layer"):
        check_model(read_model(folder, LlamaModel), "layers")
