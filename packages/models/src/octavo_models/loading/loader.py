"""Builds a model and loads its weights."""

from collections.abc import Iterable

import torch
from torch import Tensor

from octavo.config.engine import EngineConfig
from octavo.errors import CheckpointError, PluginError
from octavo_models.layers import Linear, LinearMethod, UnquantizedLinear
from octavo_models.loading.contract import check_pieces
from octavo_models.loading.dummy import fill_with_noise
from octavo_models.loading.room import check_room, room_for
from octavo_models.loading.stream import WeightStream
from octavo_models.model import PiecewiseModel


def load_model(
    config: EngineConfig,
    model_class: type[PiecewiseModel],
    dtype: torch.dtype,
    *,
    progress: bool,
    linear_method: LinearMethod | None = None,
) -> PiecewiseModel:
    """A model with its weights, ready to run on `config.device`; takes little more memory than the weights themselves.

    Where the configured files are dummies, the weights are random, by `config.seed` or 0.

    Args:
        config: which files, which shape, which device.
        model_class: from the registry of models.
        dtype: of weights and activations; stored weights of another type are converted.
        progress: show a bar on stderr, where that is a terminal.
        linear_method: takes over plain weights once they are loaded; None leaves them as they are.

    Raises:
        CheckpointError: naming what of the files is missing, damaged, unexpected or refused.
        ConfigurationError: the weights do not fit into memory.
        PluginError: the model's class asks for what its configuration lacks, has a wrong table of names, or breaks the contract of pieces.
    """
    stream = None if config.load.files.dummy else open_weights(config, dtype)
    if stream is not None:
        _check_size(config, stream)
    with room_for("the weights", "choose a narrower dtype or a smaller model, or free memory"), torch.device(config.device):
        model = _build(model_class, config, dtype)
    check_room(model, dtype, torch.device(config.device))
    if stream is None:
        fill_with_noise(model, config.seed or 0)
    else:
        model.load_weights(_with_progress(stream, progress))
    _finish_linears([module for module in model.modules() if isinstance(module, Linear)], linear_method)
    check_pieces(model)
    return model.eval()


def _build(model_class: type[PiecewiseModel], config: EngineConfig, dtype: torch.dtype) -> PiecewiseModel:
    """The model without weights."""
    try:
        return model_class(config.model, dtype)
    except AttributeError as error:
        if error.obj is not config.model:
            raise
        raise PluginError(
            f"{model_class.__name__} asks its configuration for {error.name!r}, which a {type(config.model).__name__} does not have: a "
            f"reader, registered with octavo_register_config_readers for what the model's files call themselves, has to put it there"
        ) from error


def _finish_linears(layers: list[Linear], method: LinearMethod | None) -> None:
    """Let methods make of weights what they multiply with, layer by layer."""
    by_method: dict[LinearMethod, list[Linear]] = {}
    for layer in layers:
        if method is not None and type(layer.method) is UnquantizedLinear:
            layer.method = method
        by_method.setdefault(layer.method, []).append(layer)
    for chosen, its_layers in by_method.items():
        chosen.reserve(its_layers)
        for layer in its_layers:
            chosen.finish_loading(layer)


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
