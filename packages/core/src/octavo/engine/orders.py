"""What an engine process is told, and how it says that it has started: files in its private folder."""

from pathlib import Path

import msgspec

from octavo.config.options import EngineOptions
from octavo.engine.messages import ModelInfo
from octavo.engine.wire import Failure


class StartEngine(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine process is told, by a file in its folder.

    Attributes:
        engine: its number.
        options: flags as typed.
        plugins_allow, plugins_block: see `load_plugins`.
    """

    engine: int
    options: EngineOptions
    plugins_allow: tuple[str, ...] | None
    plugins_block: tuple[str, ...]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The engine takes requests."""

    info: ModelInfo


Outcome = Started | Failure
"""How the start ended; left in a file in the folder, for the parent."""


def order_path(folder: Path, engine: int) -> Path:
    """Where the parent leaves the `StartEngine`."""
    return folder / f"engine-{engine}.start"


def outcome_path(folder: Path, engine: int) -> Path:
    """Where the engine leaves the `Outcome`."""
    return folder / f"engine-{engine}.outcome"
