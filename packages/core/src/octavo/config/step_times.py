"""What decode steps take on a machine with the model as written and compiled: measured by a runner, kept for later starts."""

import hashlib
import logging
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from octavo.errors import CheckpointError
from octavo.model.config import ModelConfig
from octavo.model.foreign import read_bytes
from octavo.versions import installed_version

FILE = "step_times.json"
MAX_BYTES = 1 << 20
MOST_STEPS = 8
SHORTEST_S, LONGEST_S = 1e-7, 1e5

_PACKAGES = ("octavo-models", "octavo-kernels", "torch")
_NOT_OF_THE_SHAPE = ("rope", "local_rope", "max_position", "eos_token_ids", "bos_token_id", "stored_dtype")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Seconds of a decode step, by the number of its requests; both have the same numbers.

    Attributes:
        written: with the model as written.
        compiled: with its pieces compiled.
    """

    written: dict[int, float]
    compiled: dict[int, float]

    @property
    def prefers_compiled(self) -> bool:
        """Whether compiled steps take less, by the mean of the ratios (geometric)."""
        return sum(math.log(self.compiled[requests] / seconds) for requests, seconds in self.written.items()) < 0

    def __str__(self) -> str:
        steps = (
            f"{1000 * seconds:.1f} ms as written and {1000 * self.compiled[requests]:.1f} ms compiled with {requests} running"
            for requests, seconds in self.written.items()
        )
        return f"a decode step takes here: {', '.join(steps)}"


def step_times_key(model: ModelConfig, *, cpu: str, num_threads: int, **choices: str) -> str:
    """What the times depend on.

    Args:
        model: of which the shape matters.
        cpu: its model.
        num_threads: that compute.
        choices: other options that decide what runs, such as the dtype.
    """
    shape = {name: value for name, value in asdict(model).items() if name not in _NOT_OF_THE_SHAPE}
    return hashlib.sha256(
        repr((shape, cpu, num_threads, sorted(choices.items()), [installed_version(name) for name in _PACKAGES])).encode()
    ).hexdigest()


def read_step_times(folder: Path) -> dict[str, StepTimes]:
    """What was kept in a folder, by key. A file that is damaged counts as none, with a warning."""
    file = folder / FILE
    if not file.exists():
        return {}
    try:
        kept = msgspec.json.decode(read_bytes(file, max_bytes=MAX_BYTES), type=dict[str, StepTimes])
    except (CheckpointError, OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        _log.warning("%s cannot be read, so nothing is known of what steps take here: %s", file, error)
        return {}
    return {key: times for key, times in kept.items() if _is_sound(times)}


def keep_step_times(folder: Path, key: str, times: StepTimes) -> None:
    """Add to what is kept in a folder, which is made. Where that cannot be written, a warning says so.

    Of two processes that keep times at the same moment one may lose them, and measures again.
    """
    kept: Mapping[str, StepTimes] = {**read_step_times(folder), key: times}
    file = folder / FILE
    unfinished = file.with_name(f"{FILE}.{os.getpid()}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(msgspec.json.encode(kept))
        unfinished.replace(file)
    except OSError as error:
        _log.warning("what steps take cannot be kept for later starts: %s", error)
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _is_sound(times: StepTimes) -> bool:
    """Whether a clock may have shown this."""
    requests, seconds = times.written.keys(), (*times.written.values(), *times.compiled.values())
    are_possible = all(count > 0 for count in requests) and all(SHORTEST_S <= value <= LONGEST_S for value in seconds)
    return 0 < len(requests) <= MOST_STEPS and requests == times.compiled.keys() and are_possible
