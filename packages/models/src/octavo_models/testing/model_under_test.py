"""A model of a tiny checkpoint, built anew as often as a suite needs, and run without cache and without runner."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from octavo.model.config import ModelConfig, load_model_config
from octavo.model.config_reader import ConfigReader
from octavo.model.folder import inspect_path
from octavo.model.foreign import ForeignFields, read_json_object
from octavo_kernels.reference.attention import causal_attention
from octavo_models.layers import Linear
from octavo_models.loading.safetensors import open_safetensors
from octavo_models.model import PiecewiseLayer, PiecewiseModel

Weights = Iterable[tuple[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class ModelUnderTest:
    """An architecture with weights.

    Attributes:
        model_class: of the model.
        config: shape of the checkpoint.
        weights: every tensor of the checkpoint by name, in its order.
    """

    model_class: type[PiecewiseModel]
    config: ModelConfig
    weights: dict[str, Tensor]

    def build(self, weights: Weights | None = None, *, dtype: torch.dtype = torch.float32) -> PiecewiseModel:
        """The model with these weights, by default the checkpoint's. Parameters that nobody fills are NaN."""
        model = self.model_class(self.config, dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter.fill_(float("nan"))
        model.load_weights(self.weights.items() if weights is None else weights)
        for module in model.modules():
            if isinstance(module, Linear):
                module.method.finish_loading(module)
        return model.eval()

    def tokens(self, count: int) -> Tensor:
        """Random token ids, int64 [count], the same at each call."""
        return torch.randint(0, self.config.vocab_size, (count,), generator=torch.Generator().manual_seed(1))


def read_model(folder: Path | str, model_class: type[PiecewiseModel], *, reader: ConfigReader | None = None) -> ModelUnderTest:
    """The model in a folder of `config.json` and safetensors.

    Args:
        folder: of a tiny checkpoint with at least two layers; best with random weights under which all parts of a layer show.
        model_class: of the model.
        reader: of the configuration, where the architecture is a plugin's own.
    """
    files = inspect_path(Path(folder), name=str(folder))
    if reader is None or files.config is None:
        config = load_model_config(files)
    else:
        config = reader(ForeignFields(read_json_object(files.config), str(files.config)))
    return ModelUnderTest(
        model_class=model_class, config=config, weights={name: tensor.clone() for name, tensor in open_safetensors(files).tensors}
    )


def usual_layers(model: PiecewiseModel) -> list[PiecewiseLayer]:
    """The layers of a model that attends once in each."""
    layers = [layer for layer in model.layers if isinstance(layer, PiecewiseLayer)]
    assert len(layers) == len(model.layers), "the suite is for models whose layers have attention as their one border"
    return layers


def chunked_logits(model: PiecewiseModel, token_ids: Tensor | Sequence[int], chunks: Sequence[int] | None = None) -> Tensor:
    """Logits [N, V] of every position of one sequence that runs in chunks of these lengths, with keys and values kept between them.

    Args:
        model: with weights.
        token_ids: of the sequence, N.
        chunks: lengths that add up to N; None runs it as a whole.
    """
    token_ids = torch.as_tensor(token_ids, dtype=torch.int64)
    chunks = [len(token_ids)] if chunks is None else chunks
    assert sum(chunks) == len(token_ids), f"chunks of {list(chunks)} do not make {len(token_ids)} tokens"
    rotary = model.rotary_tables(len(token_ids))
    kept: list[list[Tensor]] = [[] for _ in model.layers]
    logits, start = [], 0
    for length in chunks:
        positions = torch.arange(start, start + length)
        carry = model.embed(token_ids[start : start + length])
        for layer, past in zip(usual_layers(model), kept, strict=True):
            (query, key, value), carry = layer.before(positions, rotary[layer.rotary_index], carry)
            past[:] = [torch.cat(pair) for pair in zip(past, (key, value), strict=True)] if past else [key, value]
            carry = layer.after(causal_attention(query, past[0], past[1], layer.attention).to(model.dtype), carry)
        logits.append(model.logits(model.final(carry)))
        start += length
    return torch.cat(logits)
