"""What an engine would run with, settled from the shape of a model whose weights are not read."""

from dataclasses import replace
from pathlib import Path

from octavo.config.engine import EngineConfig
from octavo.config.machine import Machine
from octavo.config.options import EngineOptions
from octavo.config.resolve import resolve
from octavo.model.config import load_model_config
from octavo.model.folder import DUMMY
from octavo.model.source import ModelFiles, default_model_name, resolve_model
from octavo.plugins.registries import Registries

PLANNED_ONLY = "fp8"
"""The type of KV cache that can be planned for only."""


def resolve_unloaded(options: EngineOptions, machine: Machine, registries: Registries, *, offline: bool) -> EngineConfig:
    """Settle every option as the engine does. Of a hub repository only the configuration is downloaded, where it has one.

    Args:
        options: as typed; the model may also be a file of the kind of `config.json`, and the KV cache of type "fp8".
        machine: that the engine is to run on.
        registries: of plugins.
        offline: download nothing.

    Raises:
        ConfigurationError, CheckpointError, ModelNotFoundError: as when the engine starts.
    """
    files = _find_files(options, registries, offline=offline)
    model = load_model_config(files, registries.config_readers)
    is_planned_only = options.kv_cache_dtype == PLANNED_ONLY
    engine_options = replace(options, kv_cache_dtype="auto") if is_planned_only else options
    config = resolve(engine_options, replace(files, dummy=False), model, machine, registries)
    return replace(config, cache=replace(config.cache, dtype=PLANNED_ONLY)) if is_planned_only else config


def _find_files(options: EngineOptions, registries: Registries, *, offline: bool) -> ModelFiles:
    name = options.model or default_model_name(registries.model_sources)
    path = Path(name)
    if path.suffix == ".json" and path.is_file():
        return ModelFiles(name=name, format="safetensors", folder=path.parent, weights=(), config=path, dummy=True)
    load_format = options.load_format if options.load_format == "gguf" else DUMMY
    return resolve_model(name, revision=options.revision, offline=offline, load_format=load_format, sources=registries.model_sources)
