"""Builds a model and loads its weights."""

from collections.abc import Iterable

import torch
from torch import Tensor

from octavo.config.engine import EngineConfig
from octavo.errors import CheckpointError
from octavo_models.layers import Linear
from octavo_models.loading.stream import WeightStream
from octavo_models.model import PiecewiseModel


def load_model(config: EngineConfig, model_class: type[PiecewiseModel], dtype: torch.dtype, *, progress: bool) -> PiecewiseModel:
    """A model with its weights, ready to run on `config.device`; takes little more memory than the weights themselves.

    Args:
        config: which files, which shape, which device.
        model_class: from the registry of models.
        dtype: of weights and activations; stored weights of another type are converted.
        progress: show a bar on stderr, where that is a terminal.

    Raises:
        CheckpointError: naming what of the files is missing, damaged, unexpected or refused.
    """
    stream = open_weights(config, dtype)
    with torch.device(config.device):
        model = model_class(config.model, dtype)
    model.load_weights(_with_progress(stream, progress))
    for module in model.modules():
        if isinstance(module, Linear):
            module.method.finish_loading(module)
    return model.eval()


def open_weights(config: EngineConfig, dtype: torch.dtype) -> WeightStream:
    """The stream of the configured files. Raises `CheckpointError` for what is wrong with them as a whole."""
    files = config.load.files
    if files.format == "safetensors":
        from octavo_models.loading.safetensors import open_safetensors

        return open_safetensors(files)
    if files.format == "gguf":
        from octavo_models.loading.gguf import open_gguf

        return open_gguf(files.weights, config.model, dtype)
    raise CheckpointError(f"weights of format {files.format!r} cannot be loaded: there are safetensors and gguf")


def _with_progress(stream: WeightStream, progress: bool) -> Iterable[tuple[str, Tensor]]:
    if not progress:
        return stream.tensors
    from tqdm import tqdm

    # disable=None: tqdm then draws on a terminal only.
    return tqdm(stream.tensors, total=stream.num_tensors, desc="Loading weights", unit="tensor", leave=False, disable=None)
