"""The one reader of the process environment."""

import os
from dataclasses import dataclass

VARIABLES = {
    "OCTAVO_PLUGINS_ALLOW": "the only plugins to load, separated by commas",
    "OCTAVO_PLUGINS_BLOCK": "plugins not to load, separated by commas",
    "HF_HUB_OFFLINE": "1: download nothing",
    "CUDA_VISIBLE_DEVICES": "GPUs to use; empty or -1: none",
}
"""Every variable that is read here, and what it means."""


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


def environment_values() -> dict[str, str | None]:
    """Each variable of `VARIABLES` as it stands, None where it is not set."""
    return {name: os.environ.get(name) for name in VARIABLES}


def split_names(text: str) -> tuple[str, ...]:
    """Split a comma-separated list, dropping blanks."""
    return tuple(name for part in text.split(",") if (name := part.strip()))
