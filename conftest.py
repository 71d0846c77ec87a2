"""For every suite: what interpreters take from their environment, how threads compute and wait, before torch is imported."""

import gc
import os
from pathlib import Path

import pytest

from octavo.env import let_waiting_threads_sleep

let_waiting_threads_sleep()
if "PYTEST_XDIST_WORKER" in os.environ:
    # There is more than a worker for every core.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # The tests start hundreds of interpreters, and each would compile all that it imports.
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(__file__).parent / ".pytest_cache" / "bytecode"))

# What is imported while tests are collected stays to the end. Clients of other makers, which take seconds, are imported by the tests that
# need them: each of the processes that share the tests collects all of them.
gc.disable()

REAL_PROCESSES = ("tests/server/", "tests/openai_api/", "tests/test_engine_process.py", "tests/test_executors.py", "core/tests/engine/")
"""Tests that wait for other processes: where the machine is busy elsewhere, a deadline of a few seconds can pass for no fault."""


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a third of the tests' time is waiting for other processes."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and in nothing that is older."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of real processes two more tries."""
    for item in items:
        if any(place in item.path.as_posix() for place in REAL_PROCESSES):
            item.add_marker(pytest.mark.flaky(reruns=2))
