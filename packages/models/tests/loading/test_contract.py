"""What a piece gives and must not is said, with the piece and both."""

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor

from octavo.errors import PluginError
from octavo.model.config import ModelConfig
from octavo.model.huggingface_config import from_huggingface
from octavo_kernels.attention import AttentionSpec, AttentionStep
from octavo_models.llama import LlamaModel
from octavo_models.loading.contract import check_pieces
from octavo_models.loading.dummy import fill_with_noise
from octavo_models.model import Border, Carry, CarrySpec, DecoderLayer
from octavo_models.testing import tiny_llama_config


@pytest.fixture
def model() -> LlamaModel:
    model = LlamaModel(from_huggingface(tiny_llama_config()), torch.float32)
    fill_with_noise(model, 0)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_as_it_should_be_is_let_through(dtype: torch.dtype) -> None:
    model = LlamaModel(from_huggingface(tiny_llama_config()), dtype)
    fill_with_noise(model, 0)
    check_pieces(model, every_layer=True)


def spoil(owner: Any, name: str, change: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, MethodType(lambda self, *arguments: change(original(*arguments)), owner))


FAULTS: dict[str, tuple[str, str, Callable[[Any], Any], str]] = {
    "embed gives a bare tensor": ("", "embed", lambda carry: carry[0], r"embed: the carry is a Tensor, .* tuple of residual"),
    "embed gives too much": ("", "embed", lambda carry: carry * 2, "embed: the carry has 2 tensors; the model declares"),
    "embed gives another width": ("", "embed", lambda carry: (carry[0][:, :3],), r"embed: residual is \(2, 3\), but must be \(2, 64\)"),
    "embed gives another type": ("", "embed", lambda carry: (carry[0].half(),), r"residual is torch\.float16, but must be torch\.float32"),
    "embed gives no tensor": ("", "embed", lambda carry: (None,), "embed: residual is a NoneType, but must be a tensor"),
    "before gives a tensor": (
        "layers.0",
        "before",
        lambda pair: pair[0].query,
        "layer 0, before returned a Tensor, but must return a pair",
    ),
    "before forgets the carry": (
        "layers.0",
        "before",
        lambda pair: pair[0],
        "layer 0, before returned a tuple of 3, but must return a pair",
    ),
    "before gives two inputs": ("layers.0", "before", lambda pair: (pair[0][:2], pair[1]), "returned 2 tensors .* query, key, value"),
    "before does not view heads": (
        "layers.0",
        "before",
        lambda pair: (pair[0]._replace(key=pair[0].key.flatten(1)), pair[1]),
        r"layer 0, before: key is \(2, 32\), but must be \(2, 2, 16\)",
    ),
    "after gives a tensor": ("layers.0", "after", lambda carry: carry[0], "layer 0, after: the carry is a Tensor"),
    "final gives a carry": ("", "final", lambda hidden: (hidden,), "final is a tuple, but must be a tensor"),
    "logits of another size": ("", "logits", lambda logits: logits[:, :5], r"logits is \(2, 5\), but must be \(2, 512\)"),
    "no table of positions": ("", "rotary_table", lambda table: table.double(), r"rotary table 0 is torch\.float64"),
    "a table of another length": ("", "rotary_table", lambda table: table[:1], "rotary table 0 has 1 rows; 2 were asked for"),
}


@pytest.mark.parametrize(("owner", "name", "change", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named(model: LlamaModel, owner: str, name: str, change: Callable[[Any], Any], fault: str) -> None:
    spoil(model.get_submodule(owner), name, change)
    with pytest.raises(PluginError, match=fault):
        check_pieces(model)


def test_heads_that_are_not_those_of_the_configuration_are_refused(model: LlamaModel) -> None:
    model.layers[0].attention = AttentionSpec(num_heads=4, num_kv_heads=4, head_size=16, scale=1.0)  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match=r"layer 0 attends with .* \(4, 4, 16\); the configuration, which sizes pages, says \(4, 2, 16\)"):
        check_pieces(model)


def test_a_later_layer_of_a_kind_is_looked_at_on_demand(model: LlamaModel) -> None:
    spoil(model.layers[1], "after", lambda carry: carry * 2)
    check_pieces(model)
    with pytest.raises(PluginError, match="layer 1, after"):
        check_pieces(model, every_layer=True)


class Mixer(Border):
    inputs = (CarrySpec(name="state", width=8, dtype=torch.float64),)
    output = CarrySpec(name="mixed", width=64)

    def run(self, step: AttentionStep, inputs: tuple[Tensor, ...], out: Tensor) -> None:
        out.zero_()


class MixedLayer(DecoderLayer):
    def __init__(self, state: torch.dtype) -> None:
        super().__init__()
        self.state = state
        self.mixer = Mixer()

    @property
    def borders(self) -> tuple[AttentionSpec | Border, ...]:
        return (self.mixer,)

    def piece(
        self, index: int, positions: Tensor, rotary: Tensor, arrived: Tensor | None, carry: Carry
    ) -> tuple[tuple[Tensor, ...], Carry]:
        if index == 0:
            return (torch.zeros(len(positions), 8, dtype=self.state),), carry
        assert arrived is not None
        return (), (carry[0] + arrived,)


class MixedModel(LlamaModel):
    def __init__(self, config: ModelConfig, state: torch.dtype) -> None:
        super().__init__(config, torch.float32)
        self.layers[0] = MixedLayer(state)  # type: ignore[index]


def test_borders_that_are_no_attention_are_looked_at_too() -> None:
    config = from_huggingface(tiny_llama_config())
    right, wrong = MixedModel(config, torch.float64), MixedModel(config, torch.float32)
    for model in (right, wrong):
        fill_with_noise(model, 0)
    check_pieces(right)
    with pytest.raises(PluginError, match=r"layer 0, piece 0: state is torch\.float32, but must be torch\.float64"):
        check_pieces(wrong)
