"""What control groups leave of the machine (Linux, version 1 and 2).

The limits of a group and of all groups around it hold together. In a container the path in `/proc/self/cgroup` is often not
visible, and the mount's root is the container's own group: a path that does not exist is passed over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from octavo.config.procfs import read_text


@dataclass(frozen=True, kw_only=True)
class MemoryLimit:
    """A limit on memory that is in force.

    Attributes:
        limit: bytes.
        available: bytes left of it; file cache that the kernel gives back counts as free.
    """

    limit: int
    available: int


def read_memory_limits(root: Path) -> tuple[MemoryLimit, ...]:
    """Every limit on memory, from the innermost group outwards.

    Args:
        root: where `proc` and `sys` lie; `/` but for tests.
    """
    return tuple(limit for folder in _folders(root, "memory") if (limit := _memory_limit(folder)) is not None)


def read_cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time that may be used, or None without a quota.

    Args:
        root: where `proc` and `sys` lie; `/` but for tests.
    """
    quotas = [quota for folder in _folders(root, "cpu") if (quota := _cpu_quota(folder)) is not None]
    return min(quotas, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's group and of those around it: of the controller in version 1, of the one tree in version 2."""
    mounts = root / "sys/fs/cgroup"
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        mount = mounts / controller if controllers else mounts
        inner = PurePosixPath(path.lstrip("/"))
        for part in (inner, *inner.parents) if inner.parts else (inner,):
            if ".." not in part.parts and (mount / part).is_dir():
                yield mount / part


def _memory_limit(folder: Path) -> MemoryLimit | None:
    for limit_name, usage_name, cache_key in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, usage = read_text(folder / limit_name).strip(), read_text(folder / usage_name).strip()
        if limit.isdigit() and usage.isdigit():
            cache = _statistics(folder / "memory.stat").get(cache_key, 0)
            used = max(int(usage) - cache, 0)
            return MemoryLimit(limit=int(limit), available=max(int(limit) - used, 0))
    return None


def _cpu_quota(folder: Path) -> float | None:
    quota, _, period = read_text(folder / "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = read_text(folder / "cpu.cfs_quota_us").strip(), read_text(folder / "cpu.cfs_period_us").strip()
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return int(quota) / int(period)
    return None


def _statistics(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
