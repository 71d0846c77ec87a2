"""Facts about this machine that decisions rest on, found without torch."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from octavo.config.cgroup import read_cpu_quota, read_memory_limits
from octavo.config.procfs import read_fields
from octavo.config.step_times import StepTimes, read_step_times
from octavo.env import Environment, read_environment

INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16")
"""Extensions that kernels and defaults depend on, in the kernel's spelling."""

_CUDA_PATHS = ("dev/nvidiactl", "proc/driver/nvidia/version")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What this process may use.

    Attributes:
        system: operating system and its version.
        architecture: of the CPU, such as "x86_64".
        cpu_model: as the CPU calls itself.
        cpu_flags: those of `INSTRUCTION_SETS` that the CPU has.
        num_cpus: logical CPUs usable, by affinity and quota.
        total_memory: bytes; a control group's limit where that is less than what is installed.
        available_memory: bytes that can be taken now, within every limit.
        has_cuda: a CUDA device is there and not hidden.
        large_pages: when the system backs memory with large pages: "always", "madvise" (where it is asked to), "never"; "unknown".
        num_threads: those that the user wants to compute with; None: as many as there are CPUs.
        step_times: what decode steps were measured to take here, by `step_times_key`.
    """

    system: str
    architecture: str
    cpu_model: str
    cpu_flags: frozenset[str]
    num_cpus: int
    total_memory: int
    available_memory: int
    has_cuda: bool
    large_pages: str = "unknown"
    num_threads: int | None = None
    step_times: Mapping[str, StepTimes] = field(default_factory=dict, repr=False)

    @property
    def has_cpu_bfloat16(self) -> bool:
        """Whether the CPU multiplies bfloat16 in hardware."""
        return bool(self.cpu_flags & {"avx512_bf16", "amx_bf16"})

    def with_step_times(self, environment: Environment) -> "Machine":
        """With what was measured before."""
        return self if environment.cache is None else replace(self, step_times=read_step_times(environment.cache))


def read_machine(root: Path = Path("/"), environment: Environment | None = None) -> Machine:
    """Look at the machine; the facts do not change later, but for `available_memory`.

    Args:
        root: where `proc`, `sys` and `dev` lie; `/` but for tests.
        environment: None reads that of the process.
    """
    environment = read_environment() if environment is None else environment
    cpu = read_fields(root / "proc/cpuinfo")
    total, available = _memory(root)
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cpu_model=cpu.get("model name") or platform.processor() or "unknown",
        cpu_flags=frozenset(INSTRUCTION_SETS) & frozenset((cpu.get("flags") or cpu.get("Features") or "").split()),
        num_cpus=_usable_cpus(root),
        total_memory=total,
        available_memory=available,
        has_cuda=not environment.cuda_hidden and any((root / path).exists() for path in _CUDA_PATHS),
        large_pages=_large_pages(root),
        num_threads=environment.num_threads,
    )


def _large_pages(root: Path) -> str:
    """The choice in brackets."""
    try:
        choices = (root / "sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "unknown"
    return choices.partition("[")[2].partition("]")[0] or "unknown"


def _usable_cpus(root: Path) -> int:
    """Part of a CPU is no CPU: threads beyond the quota only wait for each other."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = read_cpu_quota(root)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def _memory(root: Path) -> tuple[int, int]:
    """Total and available bytes."""
    fields = {key: int(value.split()[0]) * 1024 for key, value in read_fields(root / "proc/meminfo").items() if value.endswith("kB")}
    if "MemTotal" in fields:
        total = fields["MemTotal"]
        available = fields.get("MemAvailable", fields.get("MemFree", total))
    else:
        total = available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in read_memory_limits(root):
        total = min(total, limit.limit)
        available = min(available, limit.available)
    return total, available
