"""The one place that reads the process environment, and sets in it what libraries read when they are loaded."""

import os
from dataclasses import dataclass

VARIABLES = {
    "OCTAVO_PLUGINS_ALLOW": "the only plugins to load, separated by commas",
    "OCTAVO_PLUGINS_BLOCK": "plugins not to load, separated by commas",
    "HF_HUB_OFFLINE": "1: download nothing",
    "CUDA_VISIBLE_DEVICES": "GPUs to use; empty or -1: none",
    "OMP_NUM_THREADS": "threads to compute with",
    "OMP_WAIT_POLICY": "how threads wait for each other; not set: they spin briefly, then sleep",
    "GOMP_SPINCOUNT": "the same, as a number of turns",
}
"""Every variable that is read here, and what it means."""

_SPIN_TURNS = "1000"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What Octavo takes from environment variables, read once at start-up."""

    plugins_allow: tuple[str, ...] | None = None
    plugins_block: tuple[str, ...] = ()
    hub_offline: bool = False
    cuda_hidden: bool = False


def read_environment() -> Environment:
    """Read the variables of `VARIABLES`."""
    allow = os.environ.get("OCTAVO_PLUGINS_ALLOW")
    cuda_devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    return Environment(
        plugins_allow=None if allow is None else split_names(allow),
        plugins_block=split_names(os.environ.get("OCTAVO_PLUGINS_BLOCK", "")),
        hub_offline=os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"},
        cuda_hidden=cuda_devices is not None and (not cuda_devices.strip() or cuda_devices.strip().startswith("-")),
    )


def let_waiting_threads_sleep() -> None:
    """Make OpenMP threads that wait for each other sleep after a few turns, unless the user said how they wait.

    Left alone, GNU OpenMP spins for milliseconds. Where another process wants the core, the thread that is waited for then gets
    it last, and a step takes a hundred times as long. Must come before torch, which brings OpenMP, is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_TURNS)


def environment_values() -> dict[str, str | None]:
    """Each variable of `VARIABLES` as it stands, None where it is not set."""
    return {name: os.environ.get(name) for name in VARIABLES}


def split_names(text: str) -> tuple[str, ...]:
    """Split a comma-separated list, dropping blanks."""
    return tuple(name for part in text.split(",") if (name := part.strip()))
