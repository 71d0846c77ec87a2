"""Builds a model and loads its weights."""

from collections.abc import Iterable

import torch
from torch import Tensor

from octavo.config.engine import EngineConfig
from octavo.errors import CheckpointError
from octavo_models.layers import Linear
from octavo_models.loading.dummy import fill_with_noise
from octavo_models.loading.room import check_room, room_for
from octavo_models.loading.stream import WeightStream
from octavo_models.model import PiecewiseModel


def load_model(config: EngineConfig, model_class: type[PiecewiseModel], dtype: torch.dtype, *, progress: bool) -> PiecewiseModel:
    """A model with its weights, ready to run on `config.device`; takes little more memory than the weights themselves.

    Where the configured files are dummies, the weights are random, by `config.seed` or 0.

    Args:
        config: which files, which shape, which device.
        model_class: from the registry of models.
        dtype: of weights and activations; stored weights of another type are converted.
        progress: show a bar on stderr, where that is a terminal.

    Raises:
        CheckpointError: naming what of the files is missing, damaged, unexpected or refused.
        ConfigurationError: the weights do not fit into memory.
    """
    stream = None if config.load.files.dummy else open_weights(config, dtype)
    if stream is not None:
        _check_size(config, stream)
    with room_for("the weights", "choose a narrower dtype or a smaller model, or free memory"), torch.device(config.device):
        model = model_class(config.model, dtype)
    check_room(model, dtype, torch.device(config.device))
    if stream is None:
        fill_with_noise(model, config.seed or 0)
    else:
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


def _check_size(config: EngineConfig, stream: WeightStream) -> None:
    """Refuse a configuration that asks for far more than the files hold, before anything of that size is made."""
    model = config.model
    embedding = model.vocab_size * model.hidden_size
    if model.num_layers > stream.num_tensors or embedding > stream.num_values:
        raise CheckpointError(
            f"the configuration of {config.load.files.name!r} asks for {model.num_layers:,} layers and an embedding of "
            f"{model.vocab_size:,} x {model.hidden_size:,}, but its files hold {stream.num_tensors:,} tensors of "
            f"{stream.num_values:,} values: they do not belong together, or it is an incomplete download"
        )


def _with_progress(stream: WeightStream, progress: bool) -> Iterable[tuple[str, Tensor]]:
    if not progress:
        return stream.tensors
    from tqdm import tqdm

    # disable=None: tqdm then draws on a terminal only.
    return tqdm(stream.tensors, total=stream.num_tensors, desc="Loading weights", unit="tensor", leave=False, disable=None)
