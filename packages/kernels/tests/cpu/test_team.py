"""The threads of the library: whoever calls, and whatever happened to the threads before, all parts of the work are done."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from octavo_kernels.cpu import linear as cpu
from octavo_kernels.cpu.isa import choose_isa

ROWS, INPUTS, OUTPUTS = 40, 256, 2048
"""Enough for every thread to be woken."""


@pytest.fixture
def multiply(library, generator):
    isa = choose_isa(library)
    weight = torch.randn(OUTPUTS, INPUTS, generator=generator)
    packed, x = cpu.pack(library, weight, isa=isa), torch.randn(ROWS, INPUTS, generator=generator)

    def run(num_threads=3):
        torch.set_num_threads(num_threads)
        out = torch.full((ROWS, OUTPUTS), torch.nan)
        cpu.linear(library, x, packed, None, out, isa=isa)
        return out

    return run


def num_tasks():
    return len(list(Path("/proc/self/task").iterdir()))


def test_callers_take_turns(multiply):
    expected = multiply(1)
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(multiply, 2 + index % 3) for index in range(200)]
    assert all(torch.equal(result.result(), expected) for result in results)


def test_threads_that_fell_asleep_come_back(multiply):
    expected = multiply(1)
    for pause in (0, 0.001, 0.02, 0.02):
        time.sleep(pause)
        assert torch.equal(multiply(), expected)


def test_threads_are_started_once_and_the_fewer_are_some_of_them(multiply):
    multiply(5)
    before = num_tasks()
    for num_threads in (5, 2, 4, 3, 5):
        multiply(num_threads)
    assert num_tasks() == before


def test_a_caller_that_ended_leaves_nothing_open(multiply):
    multiply()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        thread = threading.Thread(target=multiply)
        thread.start()
        thread.join()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_signals_are_left_to_the_program(multiply):
    multiply()
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(threading.current_thread()))
    try:
        blocked = 0
        for task in Path("/proc/self/task").iterdir():
            status = (task / "status").read_text().splitlines()
            blocked |= int(next(line.split()[1] for line in status if line.startswith("SigBlk")), 16)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert heard == [threading.main_thread()]
        assert blocked >> (signal.SIGUSR1 - 1) & 1, "the team blocks signals"
    finally:
        signal.signal(signal.SIGUSR1, before)


FORKING = """
import os, sys, torch
from octavo_kernels.cpu import linear as cpu
from octavo_kernels.cpu.isa import choose_isa
from octavo_kernels.cpu.library import load_library
library = load_library(); isa = choose_isa(library)
torch.manual_seed(1)
packed, x = cpu.pack(library, torch.randn(2048, 256), isa=isa), torch.randn(40, 256)
def run():
    out = torch.empty(40, 2048)
    cpu.linear(library, x, packed, None, out, isa=isa)
    return out
torch.set_num_threads(3)
expected = run()
child = os.fork()
if child == 0:
    os._exit(0 if all(torch.equal(run(), expected) for _ in range(20)) else 3)
_, status = os.waitpid(child, 0)
assert torch.equal(run(), expected)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_process_has_threads_of_its_own():
    assert subprocess.run([sys.executable, "-c", FORKING], timeout=60, check=False).returncode == 0
