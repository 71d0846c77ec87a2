import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo.engine.child import BEAT_S, ChildProcess, ChildStartError, current_log_level

DEADLINE_S = 20.0
PREAMBLE = "import sys\nfrom octavo.engine.child import attach_to_parent\narguments = attach_to_parent(sys.argv[1:])\n"

Start = Callable[..., ChildProcess]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start(source, *arguments)`: a child that attaches to us and then runs some source; it is gone after the test."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    children: list[ChildProcess] = []

    def start_one(source: str, *arguments: str, **more: object) -> ChildProcess:
        (tmp_path / "some_child.py").write_text(PREAMBLE + source)
        children.append(ChildProcess("some_child", arguments, **more))  # type: ignore[arg-type]
        return children[-1]

    yield start_one
    for child in children:
        child.kill()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"after {DEADLINE_S:g} s still not: {what}"
        select.select([], [], [], 0.01)


def is_running(process_id: int) -> bool:
    """Whether there is such a process, and it is more than what is left until its parent takes note."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_gets_its_arguments_and_ends_with_its_own_status(start: Start) -> None:
    child = start("sys.exit(len(arguments))", "a", "b", "c")
    assert child.wait(DEADLINE_S) == 3
    assert child.describe_exit() == "ended with exit status 3"


def test_a_child_imports_from_where_its_parent_does(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "of_the_parent.py").write_text("STATUS = 7")
    monkeypatch.syspath_prepend(place)
    assert start("from of_the_parent import STATUS\nsys.exit(STATUS)").wait(DEADLINE_S) == 7


def test_a_child_prints_to_standard_error_and_logs_as_told(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    source = "import logging\nprint('printed')\nlog = logging.getLogger('octavo.x')\nlog.info('heard')\nlog.debug('not heard')"
    assert start(source, log_level="info").wait(DEADLINE_S) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert "printed" in err
    assert "INFO heard" in err
    assert "not heard" not in err


def test_the_log_level_is_that_of_the_process(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("ERROR", logger="octavo"):
        assert current_log_level() == "error"
    with caplog.at_level(1, logger="octavo"):
        assert current_log_level() == "debug"


def test_a_child_beats_until_it_is_stopped(start: Start) -> None:
    child = start("import threading\nthreading.Event().wait()")
    until(child.take_beats, "a beat")
    child.send_signal(signal.SIGSTOP)
    child.take_beats()
    readable, _, _ = select.select([child.lifeline], [], [], 3 * BEAT_S)
    assert readable == []
    child.send_signal(signal.SIGCONT)
    until(child.take_beats, "a beat")
    assert child.poll() is None
    assert child.describe_exit() == "is running"


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGSEGV"])
def test_the_death_of_a_child_shows_at_once(start: Start, signal_name: str) -> None:
    child = start("import threading\nthreading.Event().wait()")
    until(child.take_beats, "a beat")
    number = signal.Signals[signal_name]
    child.send_signal(number)
    until(lambda: (child.take_beats(), child.is_gone)[1], "noticed")
    assert child.wait(DEADLINE_S) == -number
    assert child.describe_exit() == f"was killed by {signal_name}"


def test_a_death_shows_also_where_a_grandchild_holds_the_lifeline(start: Start) -> None:
    child = start("import os, threading\nif os.fork() == 0:\n    threading.Event().wait(30)\n    os._exit(0)\nthreading.Event().wait()")
    until(child.take_beats, "a beat")
    child.send_signal(signal.SIGKILL)
    select.select([], [], [], 0)
    until(lambda: (child.take_beats(), child.is_gone)[1], "noticed")


def test_terminating_asks_first_and_forces_then(start: Start) -> None:
    polite = start("import signal, threading\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(4))\nthreading.Event().wait()")
    until(polite.take_beats, "a beat")
    assert polite.terminate(DEADLINE_S) == 4
    deaf = start("import signal, threading\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nthreading.Event().wait()")
    until(deaf.take_beats, "a beat")
    assert deaf.terminate(0.1) == -signal.SIGKILL
    assert deaf.terminate(0.1) == -signal.SIGKILL


def test_ctrl_c_is_left_to_the_parent(start: Start) -> None:
    child = start("import threading\nthreading.Event().wait()")
    until(child.take_beats, "a beat")
    child.send_signal(signal.SIGINT)
    child.take_beats()
    until(child.take_beats, "a beat")
    assert os.getsid(child.pid) == child.pid


def test_a_child_outlives_the_thread_that_started_it(start: Start) -> None:
    started: list[ChildProcess] = []
    thread = threading.Thread(target=lambda: started.append(start("import threading\nthreading.Event().wait()")))
    thread.start()
    thread.join()
    until(started[0].take_beats, "a beat")
    started[0].take_beats()
    until(started[0].take_beats, "a beat")


def test_a_child_does_not_outlive_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "some_child.py").write_text(PREAMBLE + "import threading\nthreading.Event().wait()")
    parent = (
        "import select\nfrom octavo.engine.child import ChildProcess\nchild = ChildProcess('some_child')\n"
        "select.select([child.lifeline], [], [])\nprint(child.pid, flush=True)\nselect.select([], [], [])\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child_id = int(process.stdout.readline())
        assert is_running(child_id)
        process.kill()
    until(lambda: not is_running(child_id), "the child is gone")


def test_a_system_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/interpreter")
    with pytest.raises(ChildStartError, match="no process for some_child"):
        ChildProcess("some_child")
