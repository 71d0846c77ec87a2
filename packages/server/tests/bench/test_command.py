import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.errors import BenchmarkError
from octavo_server.bench.sweep import parse_rates, run_sweep

SMALL = ("--num-prompts", "4", "--input-len", "5", "--output-len", "4")


def test_a_table_says_what_was_asked_and_measured(octavo: Any, server: Any) -> None:
    done = octavo("bench", "serve", "--base-url", server.url, *SMALL, "--slo", "ttft=10s")
    assert (done.code, done.err) == (0, "")
    assert f"server                       {server.url}/v1/completions\n" in done.out
    assert "completed                    4, 0 failed\n" in done.out
    assert "goodput requests/s" in done.out
    assert "TTFT: time to first token" in done.out


def test_the_last_line_is_an_object(octavo: Any, server: Any, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    done = octavo("bench", "serve", "--port", str(server.port), *SMALL, "--json", "--save", str(path))
    assert done.code == 0
    printed = json.loads(done.out.splitlines()[-1])
    assert (printed["completed"], printed["total_output_tokens"]) == (4, 16)
    saved = json.loads(path.read_text())
    requests = saved.pop("requests")
    assert saved == printed
    assert len(requests) == 4
    assert all(len(request["itl_ms"]) == 3 and request["error"] is None for request in requests)


def test_a_sweep_has_a_line_a_rate_and_a_picture(octavo: Any, server: Any, tmp_path: Path) -> None:
    path = tmp_path / "sweep.svg"
    flags = (*SMALL, "--sweep", "50,100", "--slo", "ttft=10s", "--plot", str(path))
    done = octavo("bench", "serve", "--base-url", server.url, *flags)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()[-2:]] == ["50", "100"]
    assert len(ElementTree.fromstring(path.read_text()).findall(".//{http://www.w3.org/2000/svg}circle")) == 6
    first, second = (json.dumps(sorted(body["prompt"] for body in server.bodies[start : start + 4])) for start in (2, 8))
    assert first != second
    printed = json.loads(octavo("bench", "serve", "--base-url", server.url, *flags, "--json").out.splitlines()[-1])
    assert [entry["request_rate"] for entry in printed["sweep"]] == [50, 100]


def test_options_may_come_from_a_file(octavo: Any, server: Any, tmp_path: Path) -> None:
    path = tmp_path / "bench.yaml"
    path.write_text(f"base-url: {server.url}\nnum-prompts: 3\ninput-len: 5\nignore-eos: false\n")
    assert json.loads(octavo("bench", "serve", "--config", str(path), "--json").out)["completed"] == 3
    assert "ignore_eos" not in server.bodies[-1]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--plot", "x.svg"], "--plot x.svg draws a sweep"),
        (["--sweep", "1,2", "--plot", "x.png"], "ends in .svg"),
        (["--save", "no/such/folder/x"], "--save"),
        (["--sweep", "1,fast"], "sweep 'fast'"),
        (["--slo", "ttft"], "slo 'ttft'"),
        (["--extra-body", "[1]"], "extra_body"),
        (["--extra-body", "{"], "is not JSON"),
        (["--base-url", "nowhere"], "base_url 'nowhere'"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--dataset", "/no/such/file"], "No such file"),
    ],
)
def test_usage_errors_are_one_line(octavo: Any, server: Any, flags: list[str], said: str) -> None:
    done = octavo("bench", "serve", "--port", str(server.port), *flags)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert said in line


def test_a_server_that_fails_every_request_is_one_line(octavo: Any, server: Any, answers: Any) -> None:
    server.script = lambda _: answers((b'{"error": {"message": "overloaded"}}',), status=503)
    done = octavo("bench", "serve", "--base-url", server.url, *SMALL)
    assert (done.code, done.out) == (1, "")
    assert done.err == "octavo: error: every request failed (1), the first with HTTP 503: overloaded\n"


def test_ctrl_c_prints_what_there_is(server: Any, answers: Any, events: Any) -> None:
    server.script = lambda _: answers(tuple(events(4)), holds=len(server.bodies) > 4)
    program = "import sys; from octavo.cli.main import main; sys.argv = ['octavo', *sys.argv[1:]]; main()"
    flags = ("--base-url", server.url, "--num-prompts", "6", "--prompt-form", "ids", "--warmup", "0", "--json")
    environment = os.environ | {"OCTAVO_PLUGINS_ALLOW": "server"}
    command = [sys.executable, "-c", program, "bench", "serve", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + 30
        while len(server.bodies) < 6:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")
    printed = json.loads(out)
    assert printed["completed"] + printed["unfinished"] == 6
    assert printed["unfinished"] >= 2


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from octavo.cli.main import run; run(['bench', '--help']); run(['bench', 'serve', '--help']);"
        "sys.exit(str({'torch', 'numpy', 'aiohttp', 'httptools', 'uvloop', 'fastapi', 'rich', 'asyncio'} & set(sys.modules)))"
    )
    environment = os.environ | {"OCTAVO_PLUGINS_ALLOW": "server"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False, text=True)
    assert done.stderr == "set()\n"
    assert "serve" in done.stdout
    assert "--request-rate" in done.stdout


def test_rates() -> None:
    assert parse_rates("1, 2.5,inf") == [1, 2.5, float("inf")]


def test_a_sweep_goes_on_after_a_rate_at_which_everything_fails() -> None:
    asked: list[BenchmarkConfig] = []

    def run(config: BenchmarkConfig) -> Any:
        asked.append(config)
        if config.request_rate != 2:
            raise BenchmarkError("overloaded")
        return type("Result", (), {"unfinished": 0})()

    sweep = run_sweep(BenchmarkConfig(seed=5), [1, 2, 4], run)
    assert len(sweep.results) == 1
    assert sweep.failures == ["at 1 requests/s: overloaded", "at 4 requests/s: overloaded"]
    assert [(config.request_rate, config.seed) for config in asked] == [(1, 5), (2, 6), (4, 7)]
    with pytest.raises(BenchmarkError, match="at 1 requests/s"):
        run_sweep(BenchmarkConfig(), [1], run)


def test_an_interrupt_keeps_the_rates_before_it() -> None:
    def run(config: BenchmarkConfig) -> Any:
        if config.request_rate == 2:
            raise KeyboardInterrupt
        return type("Result", (), {"unfinished": 0})()

    sweep = run_sweep(BenchmarkConfig(), [1, 2], run)
    assert (len(sweep.results), sweep.was_stopped) == (1, True)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(BenchmarkConfig(), [2, 1], run)
