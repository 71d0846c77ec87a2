"""For every suite: how threads compute and wait, which has to be settled before torch is imported."""

import os

import pytest

from octavo.env import let_waiting_threads_sleep

let_waiting_threads_sleep()
if "PYTEST_XDIST_WORKER" in os.environ:
    # There is a worker for every core.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

REAL_PROCESSES = ("tests/server/", "tests/openai_api/", "tests/test_engine_process.py", "tests/test_executors.py", "core/tests/engine/")
"""Tests that wait for other processes: where the machine is busy elsewhere, a deadline of a few seconds can pass for no fault."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of real processes two more tries."""
    for item in items:
        if any(place in item.path.as_posix() for place in REAL_PROCESSES):
            item.add_marker(pytest.mark.flaky(reruns=2))
