"""The program with its standard streams closed, full or cut."""

import subprocess
import sys
from pathlib import Path

import pytest

OCTAVO = Path(sys.executable).parent / "octavo"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", f'"{OCTAVO}" {command}'], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_what_cannot_be_written_is_an_error_of_one_line(redirection: str) -> None:
    done = shell(f"--version {redirection}")
    assert done.returncode == 1
    assert done.stderr.startswith("octavo: error: standard output cannot be written: ")
    assert done.stderr.count("\n") == 1


def test_a_full_standard_error_leaves_the_exit_code() -> None:
    assert shell("generate --model /no/such/model hello 2>/dev/full").returncode == 1
    assert shell("generate --no-such-flag 2>/dev/full").returncode == 2
    assert shell("--debug generate --no-such-flag 2>/dev/full").returncode == 2


def test_a_closed_standard_error_loses_messages_and_keeps_them_out_of_the_output() -> None:
    assert shell("--version 2>&-").stdout.startswith("octavo ")
    done = shell("generate --model /no/such/model hello 2>&-")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_closed_standard_input_is_empty() -> None:
    done = shell("generate --model /no/such/model - <&-")
    assert (done.returncode, done.stderr) == (2, "octavo: error: the prompt is empty: give some text\n")


def test_all_of_them_closed_leave_the_exit_code() -> None:
    assert shell("generate --model /no/such/model hello <&- >&- 2>&-").returncode == 1
