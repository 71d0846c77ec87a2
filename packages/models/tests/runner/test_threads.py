import pytest
import torch

from octavo_models.runner import threads
from octavo_models.runner.threads import choose_threads


@pytest.mark.parametrize(("own", "usable", "expected"), [(8, 2, "2"), (2, 8, "2"), (4, 4, "4")])
def test_no_more_threads_than_cpus_and_no_more_than_torch_would_take(
    monkeypatch: pytest.MonkeyPatch, own: int, usable: int, expected: str
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    machine = threads.read_machine()
    monkeypatch.setattr(torch, "get_num_threads", lambda: own)
    monkeypatch.setattr(threads, "read_machine", lambda: type(machine)(**{**vars(machine), "num_cpus": usable}))
    assert choose_threads().value == expected


def test_what_the_environment_says_is_given_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert choose_threads().reason.startswith("OMP_NUM_THREADS")
