"""What an executor and the worker process of a rank tell each other.

The executor says `StartWorker` once, and then plans; the worker answers each of these messages with one of its own, in order, and
nothing follows a `Failure`.
"""

import importlib
from dataclasses import replace
from pathlib import Path

import msgspec

from octavo.config.engine import Decision, EngineConfig
from octavo.engine.runner import PoolSize
from octavo.engine.wire import Failure
from octavo.errors import ConfigurationError
from octavo.model.config import ModelConfig
from octavo.scheduler.plan import StepPlan, StepResult


class StartWorker(msgspec.Struct, frozen=True, kw_only=True):
    """Make a runner, load the model and size the pool.

    Attributes:
        rank: of the worker; the result of rank 0 counts.
        plugins: to load, and no others.
        config: of the engine, as `pack_config` packs it.
    """

    rank: int
    plugins: tuple[str, ...]
    config: bytes


class WorkerStarted(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The worker takes plans from now on; `decisions` are those of its runner."""

    pool: PoolSize
    decisions: tuple[Decision, ...]


class StepDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """A step is over.

    Attributes:
        result: of rank 0; None of the others.
        busy_s: seconds that the runner had the step.
    """

    result: StepResult | None
    busy_s: float


WorkerAnswer = WorkerStarted | StepDone | Failure

encode = msgspec.msgpack.Encoder().encode
decode_start = msgspec.msgpack.Decoder(StartWorker).decode
decode_plan = msgspec.msgpack.Decoder(StepPlan).decode
decode_answer = msgspec.msgpack.Decoder[WorkerAnswer](WorkerAnswer).decode


class _PackedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration; the model's shape apart, since plugins may extend its class."""

    config: msgspec.Raw
    model: msgspec.Raw
    model_module: str
    model_name: str


def pack_config(config: EngineConfig) -> bytes:
    """A configuration for another process.

    Raises:
        ConfigurationError: a plugin's model has fields that cannot be told to another process.
    """
    kind = type(config.model)
    problem = "it comes back changed"
    try:
        packed = _PackedConfig(
            config=msgspec.Raw(msgspec.msgpack.encode(config, enc_hook=_path_to_text)),
            model=msgspec.Raw(msgspec.msgpack.encode(config.model, enc_hook=_path_to_text)),
            model_module=kind.__module__,
            model_name=kind.__qualname__,
        )
        data = encode(packed)
        if unpack_config(data) == config:
            return data
    except (TypeError, ValueError, ImportError, AttributeError, msgspec.MsgspecError) as error:
        problem = str(error)
    raise ConfigurationError(
        f"the configuration {kind.__module__}.{kind.__qualname__} cannot be told to another process ({problem}): "
        "use --executor inprocess, or give it fields of plain types"
    )


def unpack_config(data: bytes) -> EngineConfig:
    """What `pack_config` packed. Imports the module of the model's class."""
    packed = msgspec.msgpack.decode(data, type=_PackedConfig)
    kind: type[ModelConfig] = getattr(importlib.import_module(packed.model_module), packed.model_name)
    model = msgspec.msgpack.decode(packed.model, type=kind, dec_hook=_path_from_text)
    config = msgspec.msgpack.decode(packed.config, type=EngineConfig, dec_hook=_path_from_text)
    return replace(config, model=model)


def _path_to_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is no plain value")


def _path_from_text(kind: type, value: object) -> Path:
    if issubclass(kind, Path) and isinstance(value, str):
        return Path(value)
    raise TypeError(f"{kind.__name__} is no plain type")
