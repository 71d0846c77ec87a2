import os
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo.config.cgroup import read_cpu_quota, read_memory_limits
from octavo.config.machine import read_machine
from octavo.env import Environment

GIB = 1 << 30
WriteRoot = Callable[[dict[str, str]], Path]

MEMINFO = {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\nMemFree: 1024 kB\nMemAvailable: {12 * GIB // 1024} kB\nHugePages_Total: 0\n"}


@pytest.fixture
def write_root(tmp_path: Path) -> WriteRoot:
    """Write files under a root folder and return it."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def group_v2(path: str, *, limit: str, usage: int, cache: int = 0, cpu: str = "max 100000") -> dict[str, str]:
    folder = f"sys/fs/cgroup{path.rstrip('/')}"
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {cache}\n",
        f"{folder}/cpu.max": f"{cpu}\n",
    }


def test_memory_without_limits_is_what_the_kernel_says(write_root: WriteRoot) -> None:
    machine = read_machine(write_root(MEMINFO), Environment())
    assert (machine.total_memory, machine.available_memory) == (16 * GIB, 12 * GIB)


def test_a_version_2_limit_counts_and_file_cache_is_free(write_root: WriteRoot) -> None:
    own = group_v2("/app/inner", limit=str(4 * GIB), usage=3 * GIB, cache=2 * GIB)
    root = write_root({**MEMINFO, "proc/self/cgroup": "0::/app/inner\n", **own})
    machine = read_machine(root, Environment())
    assert (machine.total_memory, machine.available_memory) == (4 * GIB, 3 * GIB)


def test_the_limit_of_an_outer_group_counts_too(write_root: WriteRoot) -> None:
    own = group_v2("/app/inner", limit="max", usage=GIB)
    outer = group_v2("/app", limit=str(2 * GIB), usage=GIB)
    root = write_root({**MEMINFO, "proc/self/cgroup": "0::/app/inner\n", **own, **outer})
    assert read_machine(root, Environment()).available_memory == GIB


def test_a_path_outside_the_container_falls_back_to_the_root_of_the_mount(write_root: WriteRoot) -> None:
    root = write_root(
        {
            **MEMINFO,
            "proc/self/cgroup": "9:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB // 2}\n",
            "sys/fs/cgroup/memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 4}\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        }
    )
    machine = read_machine(root, Environment())
    assert (machine.total_memory, machine.available_memory) == (GIB, GIB - GIB // 4)
    assert machine.num_cpus == 1


def test_version_1_without_limit_changes_nothing(write_root: WriteRoot) -> None:
    root = write_root(
        {
            **MEMINFO,
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        }
    )
    machine = read_machine(root, Environment())
    assert (machine.total_memory, machine.available_memory) == (16 * GIB, 12 * GIB)
    assert read_cpu_quota(root) is None


def test_usage_over_the_limit_leaves_nothing(write_root: WriteRoot) -> None:
    root = write_root({"proc/self/cgroup": "0::/\n", **group_v2("/", limit="100", usage=200)})
    assert [limit.available for limit in read_memory_limits(root)] == [0]


@pytest.mark.parametrize(("quota", "expected"), [("max 100000", None), ("50000 100000", 0.5), ("400000 100000", 4.0), ("x 0", None)])
def test_cpu_quota(write_root: WriteRoot, quota: str, expected: float | None) -> None:
    root = write_root({"proc/self/cgroup": "0::/a\n", **group_v2("/a", limit="max", usage=0, cpu=quota)})
    assert read_cpu_quota(root) == expected


def test_no_quota_leaves_at_least_one_cpu_and_no_more_than_the_affinity(write_root: WriteRoot) -> None:
    little = write_root({"proc/self/cgroup": "0::/a\n", **group_v2("/a", limit="max", usage=0, cpu="1000 100000")})
    assert read_machine(little, Environment()).num_cpus == 1
    much = write_root(group_v2("/a", limit="max", usage=0, cpu="99900000 100000"))
    assert read_machine(much, Environment()).num_cpus == len(os.sched_getaffinity(0))


def test_cpu_model_and_the_flags_that_matter(write_root: WriteRoot) -> None:
    cpuinfo = (
        "processor : 0\nmodel name : Some CPU @ 2.0: GHz\nflags : fpu avx2 avx512f amx_bf16 sse\n\nprocessor : 1\nmodel name : Other\n"
    )
    machine = read_machine(write_root({"proc/cpuinfo": cpuinfo}), Environment())
    assert machine.cpu_model == "Some CPU @ 2.0: GHz"
    assert machine.cpu_flags == {"avx2", "avx512f", "amx_bf16"}
    assert machine.has_cpu_bfloat16


@pytest.mark.parametrize("path", ["dev/nvidiactl", "proc/driver/nvidia/version"])
def test_a_cuda_device_is_seen_unless_it_is_hidden(write_root: WriteRoot, path: str) -> None:
    assert not read_machine(write_root({}), Environment()).has_cuda
    root = write_root({path: ""})
    assert read_machine(root, Environment()).has_cuda
    assert not read_machine(root, Environment(cuda_hidden=True)).has_cuda


def test_a_system_without_these_files_still_has_memory_and_a_cpu(write_root: WriteRoot) -> None:
    machine = read_machine(write_root({}), Environment())
    assert machine.total_memory == machine.available_memory > 0
    assert machine.num_cpus >= 1


def test_this_machine() -> None:
    machine = read_machine()
    assert 0 < machine.available_memory <= machine.total_memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [("always [madvise] never\n", "madvise"), ("[always] madvise never\n", "always"), ("strange\n", "unknown"), (None, "unknown")],
)
def test_when_pages_are_large_is_the_choice_in_brackets(write_root: WriteRoot, text: str | None, expected: str) -> None:
    files = {} if text is None else {"sys/kernel/mm/transparent_hugepage/enabled": text}
    assert read_machine(write_root(MEMINFO | files), Environment()).large_pages == expected
