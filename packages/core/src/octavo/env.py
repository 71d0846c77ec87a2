"""The one place that reads the process environment, and sets in it what libraries read when they are loaded."""

import os
from dataclasses import dataclass, field
from pathlib import Path

VARIABLES = {
    "OCTAVO_PLUGINS_ALLOW": "the only plugins to load, separated by commas",
    "OCTAVO_PLUGINS_BLOCK": "plugins not to load, separated by commas",
    "OCTAVO_API_KEY": "keys that requests to a server must bring, separated by commas",
    "HF_HUB_OFFLINE": "1: download nothing",
    "CUDA_VISIBLE_DEVICES": "GPUs to use; empty or -1: none",
    "OMP_NUM_THREADS": "threads to compute with",
    "OMP_WAIT_POLICY": "how threads of torch wait for each other; not set: they spin briefly, then sleep",
    "GOMP_SPINCOUNT": "the same, as a number of turns",
    "XDG_CACHE_HOME": "folder of caches, where compiled pieces and what steps take are kept too; not set: ~/.cache",
    "TORCHINDUCTOR_CACHE_DIR": "where torch keeps what it compiled; not set: octavo/compiled in the folder of caches",
    "PROMETHEUS_MULTIPROC_DIR": "folder in which the processes of one server add up their metrics",
}
"""Every variable that is read here, and what it means."""

_SECRETS = frozenset({"OCTAVO_API_KEY"})
_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SPIN_TURNS = "1000"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What Octavo takes from environment variables, read once at start-up."""

    plugins_allow: tuple[str, ...] | None = None
    plugins_block: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    hub_offline: bool = False
    cuda_hidden: bool = False
    metrics_folder: Path | None = None
    cache: Path | None = None
    num_threads: int | None = None


def read_environment() -> Environment:
    """Read the variables of `VARIABLES`."""
    allow = os.environ.get("OCTAVO_PLUGINS_ALLOW")
    cuda_devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    metrics_folder = os.environ.get(_METRICS_FOLDER)
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return Environment(
        plugins_allow=None if allow is None else split_names(allow),
        plugins_block=split_names(os.environ.get("OCTAVO_PLUGINS_BLOCK", "")),
        api_keys=split_names(os.environ.get("OCTAVO_API_KEY", "")),
        hub_offline=os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"},
        cuda_hidden=cuda_devices is not None and (not cuda_devices.strip() or cuda_devices.strip().startswith("-")),
        metrics_folder=None if metrics_folder is None else Path(metrics_folder),
        cache=cache_folder(),
        num_threads=(int(threads) or None) if threads.isascii() and threads.isdigit() and len(threads) < 6 else None,
    )


def let_waiting_threads_sleep() -> None:
    """Make OpenMP threads of torch that wait for each other sleep after a few turns, unless the user said how they wait.

    Left alone, GNU OpenMP spins for milliseconds. Where another process wants the core, the thread that is waited for then gets
    it last, and a step takes a hundred times as long. Must come before torch, which brings OpenMP, is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_TURNS)


def cache_folder() -> Path | None:
    """Where Octavo keeps what it can make again, which need not exist; None for users without a home."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    if Path(home).is_absolute():
        return Path(home) / "octavo"
    try:
        return Path.home() / ".cache" / "octavo"
    except RuntimeError:
        return None


def keep_compiled_in(folder: Path) -> None:
    """Where torch keeps what it compiles from now on, unless the user said where."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))


def environment_values() -> dict[str, str | None]:
    """Each variable of `VARIABLES` as it stands, None where it is not set; of secrets only that they are there."""
    values = {name: os.environ.get(name) for name in VARIABLES}
    return {name: "(hidden)" if value and name in _SECRETS else value for name, value in values.items()}


def share_metrics(folder: str) -> None:
    """Make the metrics of this process count together with those of others that share a folder.

    Must come before prometheus_client is imported, which looks for it then.
    """
    os.environ[_METRICS_FOLDER] = folder


def split_names(text: str) -> tuple[str, ...]:
    """Split a comma-separated list, dropping blanks."""
    return tuple(name for part in text.split(",") if (name := part.strip()))
