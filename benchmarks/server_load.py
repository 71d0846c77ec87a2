"""What a server makes of 256 streams at once: `uv run --no-sync python benchmarks/server_load.py`.

Starts `octavo serve` on a free port, puts load on it from this process, and prints

- requests that failed, and tokens an event (1: none were merged);
- the share of the time that the engine was inside a step, from `/metrics`;
- processor time of the API processes and of this client for each output token, from `/proc`;
- resident memory of each API process behind the load.

`--long-prompt 8000` measures something else: how long the tokens of a few running streams take while a prompt of so many tokens is
prefilled. Flags behind `--` go to the server.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from octavo_server.bench.client import LoadClient, LoadState
from octavo_server.bench.config import ENDPOINTS, BenchmarkConfig
from octavo_server.bench.limit import ConcurrencyLimit
from octavo_server.bench.load import LoadGenerator
from octavo_server.bench.payload import prepare
from octavo_server.bench.prompt import Prompt
from octavo_server.bench.record import RequestRecord
from octavo_server.bench.run import run_benchmark
from octavo_server.bench.statistics import percentile
from octavo_server.bench.target import Target, reach
from octavo_server.bench.workload import TokenSource, WorkloadConfig, make_prompts
from octavo_server.open_files import allow_connections

INPUT_LEN, OUTPUT_LEN, RANGE_RATIO = 64, 64, 0.5
SHORT_LEN, LEAD_S = 16, 2.0
START_S, STOP_S = 180.0, 60.0
MIB = 1 << 20

Table = dict[str, Any]


def main() -> None:
    """Measure, print, and exit with 1 where a request failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--long-prompt", type=int, metavar="TOKENS", help="measure gaps between tokens beside a prompt of this length")
    parser.add_argument("--streams", type=int, default=8, help="that run beside the long prompt")
    parser.add_argument("--stream-len", type=int, default=256, help="tokens of each of them; enough to outlast the long prompt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("server_flags", nargs="*", metavar="-- FLAG", help="further flags of `octavo serve`")
    arguments = parser.parse_args()
    allow_connections(arguments.concurrency)
    with running_server(arguments) as server:
        table = measure_load(server, arguments) if arguments.long_prompt is None else asyncio.run(measure_gaps(server, arguments))
    if arguments.json:
        print(json.dumps(table))
    else:
        for name, value in table.items():
            print(f"{name:32} {value:,.2f}" if isinstance(value, float) else f"{name:32} {value}")
    sys.exit(bool(table["failed"]))


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        pid: of its first process.
    """

    url: str
    pid: int

    def counter(self, name: str) -> float:
        """Of the engine."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"octavo:{name}_total{{"))

    def api_processes(self) -> list[int]:
        """Those that speak HTTP: the first one, or the children that it supervises."""
        children = [int(child) for path in Path(f"/proc/{self.pid}/task").iterdir() for child in (path / "children").read_text().split()]
        return [child for child in children if b"octavo_server.supervised" in Path(f"/proc/{child}/cmdline").read_bytes()] or [self.pid]


@contextmanager
def running_server(arguments: argparse.Namespace) -> Iterator[Server]:
    """A server that is ready; its log is shown where it does not become that."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("octavo")
    command = [str(program), "serve", arguments.model, "--host", "127.0.0.1", "--port", str(port), *arguments.server_flags]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        server = Server(f"http://127.0.0.1:{port}", process.pid)
        try:
            wait_ready(server, process)
            yield server
        except Exception:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S)


def wait_ready(server: Server, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            with urllib.request.urlopen(f"{server.url}/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the server is not ready after {START_S:g} s")


def measure_load(server: Server, arguments: argparse.Namespace) -> Table:
    """Many streams of mixed lengths."""

    def config(num_prompts: int, seed: int) -> BenchmarkConfig:
        return BenchmarkConfig(
            base_url=server.url,
            workload=WorkloadConfig(num_prompts=num_prompts, input_len=INPUT_LEN, output_len=OUTPUT_LEN, range_ratio=RANGE_RATIO),
            prompt_form="ids",
            max_concurrency=arguments.concurrency,
            num_warm_ups=0,
            seed=seed,
        )

    run_benchmark(config(min(32, arguments.concurrency), arguments.seed + 1))
    processes = server.api_processes()
    cpu_s, step_s = sum(map(cpu_seconds, processes)), server.counter("engine_step_seconds")
    result = run_benchmark(config(arguments.requests, arguments.seed))
    cpu_s, step_s = sum(map(cpu_seconds, processes)) - cpu_s, server.counter("engine_step_seconds") - step_s
    return {
        "requests": arguments.requests,
        "concurrency": result.peak_concurrency,
        "failed": result.failed + result.unfinished,
        "output tokens": result.output_tokens,
        "tokens an event": result.output_tokens / result.num_events,
        "output tokens a second": result.output_throughput,
        "engine in a step, %": 100 * step_s / result.duration_s,
        "API processes, µs a token": cpu_s / result.output_tokens * 1e6,
        "client, µs a token": result.cpu_s / result.output_tokens * 1e6,
        "API processes, MiB": [round(resident_mib(pid), 1) for pid in processes],
    }


async def measure_gaps(server: Server, arguments: argparse.Namespace) -> Table:
    """Gaps between events of short streams while a long prompt, sent when they run, waits for its first token."""
    config = BenchmarkConfig(base_url=server.url, prompt_form="ids", seed=arguments.seed)
    address, target = await reach(config)
    client = LoadClient(address, ENDPOINTS[config.endpoint], config.headers, timeout_s=config.timeout_s)
    short = draw(config, target, SHORT_LEN, arguments.stream_len, arguments.streams)
    long = draw(config, target, arguments.long_prompt, 1, 1)
    requests = [prepare(config, target.model, prompt) for prompt in [*short, *long]]
    offsets = [0.0] * len(short) + [LEAD_S]
    with ConcurrencyLimit(None) as limit:
        records = (await LoadGenerator(client, limit, LoadState(len(requests))).run(requests, offsets)).records
    if errors := [record.error for record in records if record.error is not None]:
        raise RuntimeError(f"{len(errors)} requests failed, the first with {errors[0].kind}: {errors[0].message}")
    (prefill,) = [record for record in records if record.input_tokens == arguments.long_prompt]
    begin, end = prefill.sent, prefill.sent + (prefill.ttft_s or 0.0)
    streams = [record for record in records if record is not prefill]
    gaps = sorted(gap * 1e3 for record in streams for gap in gaps_between(record, begin, end))
    if not gaps or any(record.ended < end for record in streams):
        raise RuntimeError("the streams ended before the long prompt had its first token: give a larger --stream-len")
    return {
        "long prompt, tokens": arguments.long_prompt,
        "streams beside it": len(streams),
        "failed": 0,
        "first token of the prompt, s": end - begin,
        "gaps": len(gaps),
        "gap p50, ms": percentile(gaps, 50),
        "gap p99, ms": percentile(gaps, 99),
        "gap max, ms": gaps[-1],
    }


def draw(config: BenchmarkConfig, target: Target, input_len: int, output_len: int, count: int) -> list[Prompt]:
    workload = WorkloadConfig(num_prompts=count, input_len=input_len, output_len=output_len)
    return make_prompts(workload, TokenSource(target.vocab_size), seed=config.seed)


def gaps_between(record: RequestRecord, begin: float, end: float) -> list[float]:
    """Gaps of a stream that end between two moments, both in seconds since the load began."""
    first = record.sent + (record.ttft_s or 0.0)
    moments = list(accumulate(record.inter_token_s, initial=first))[1:]
    return [gap for gap, moment in zip(record.inter_token_s, moments, strict=True) if begin < moment <= end]


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, in itself and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


if __name__ == "__main__":
    main()
