"""For every suite: threads wait as they do in the program, which has to be settled before torch is imported."""

import pytest

from octavo.env import let_waiting_threads_sleep

let_waiting_threads_sleep()

REAL_PROCESSES = ("tests/server/", "tests/openai_api/", "tests/test_engine_process.py", "tests/test_executors.py", "core/tests/engine/")
"""Tests that wait for other processes: where the machine is busy elsewhere, a deadline of a few seconds can pass for no fault."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of real processes two more tries."""
    for item in items:
        if any(place in item.path.as_posix() for place in REAL_PROCESSES):
            item.add_marker(pytest.mark.flaky(reruns=2))
