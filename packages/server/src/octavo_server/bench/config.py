"""What a benchmark is told."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from octavo.errors import ConfigurationError, shown
from octavo_server.bench.slo import ServiceLevel
from octavo_server.bench.workload import WorkloadConfig

ENDPOINTS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
WORKLOADS = ("random", "shared-prefix", "jsonl")
ARRIVALS = ("poisson", "constant")
PROMPT_FORMS = ("auto", "ids", "text")


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """One benchmark of one server.

    Attributes:
        base_url: of the server, with or without "/v1".
        endpoint: a key of `ENDPOINTS`.
        model: name in requests; None: the first that the server lists.
        api_key: sent as a bearer token.
        workload: what is sent.
        prompt_form: how random prompts are sent: "ids", "text", or "auto": ids where the server takes them.
        vocab_size: ids below it are drawn; None: what the server says, else 10,000.
        request_rate: requests a second; infinite: as soon as may be.
        arrival: "poisson" or "constant".
        burstiness: see `arrival_offsets`.
        max_concurrency: most requests at once; others wait here. None: no limit.
        ramp_up_s: the rate, or with an infinite rate the concurrency, grows linearly for so long.
        num_warm_ups: requests before the measurement.
        ignore_eos: answers go on to their full length; None: where prompts are random.
        temperature: None: the server's default.
        extra_body: further fields of every request; they win.
        wait_s: how long to wait for a server that cannot be reached or is not ready.
        timeout_s: a request that takes longer is given up.
        service_level: what counts for goodput.
        seed: of prompts and arrivals.

    Raises:
        ConfigurationError: values that cannot be, or that contradict each other.
    """

    base_url: str = "http://127.0.0.1:8000"
    endpoint: str = "completions"
    model: str | None = None
    api_key: str | None = None
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    prompt_form: str = "auto"
    vocab_size: int | None = None
    request_rate: float = math.inf
    arrival: str = "poisson"
    burstiness: float = 1.0
    max_concurrency: int | None = None
    ramp_up_s: float = 0.0
    num_warm_ups: int = 1
    ignore_eos: bool | None = None
    temperature: float | None = 0.0
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    wait_s: float = 0.0
    timeout_s: float = 3600.0
    service_level: ServiceLevel = field(default_factory=ServiceLevel)
    seed: int = 0

    def __post_init__(self) -> None:
        _check_address(self.base_url)
        for name, value, known in (
            ("endpoint", self.endpoint, tuple(ENDPOINTS)),
            ("workload", self.workload.kind, WORKLOADS),
            ("arrival", self.arrival, ARRIVALS),
            ("prompt_form", self.prompt_form, PROMPT_FORMS),
        ):
            if value not in known:
                raise ConfigurationError(f"{name} {value!r} is unknown: there are {', '.join(known)}")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigurationError("api_key has characters that no header can carry: give printable ASCII")
        _check_numbers(self)
        _check_workload(self.workload)
        if self.endpoint == "chat" and self.prompt_form == "ids":
            raise ConfigurationError("prompt_form 'ids' goes with endpoint 'completions': chats are text")
        if self.ramp_up_s and math.isinf(self.request_rate) and self.max_concurrency is None:
            raise ConfigurationError("ramp_up has nothing to grow: give a request_rate or a max_concurrency")

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.root_url + ENDPOINTS[self.endpoint]

    @property
    def root_url(self) -> str:
        """The server without a path of the API."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        return headers if self.api_key is None else headers | {"Authorization": f"Bearer {self.api_key}"}

    @property
    def ignores_eos(self) -> bool:
        """Whether answers go on to their full length."""
        return self.workload.dataset is None if self.ignore_eos is None else self.ignore_eos


def _check_address(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and not parts.query
    except ValueError:
        is_address = False
    if not is_address or not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise ConfigurationError(f"base_url {shown(base_url)} is no address: write it as http://127.0.0.1:8000")


def _check_numbers(config: BenchmarkConfig) -> None:
    workload = config.workload
    for name, value, least in (
        ("num_prompts", workload.num_prompts, 1),
        ("input_len", workload.input_len, 1),
        ("output_len", workload.output_len, 1),
        ("prefix_len", workload.prefix_len, 1),
        ("num_prefixes", workload.num_prefixes, 1),
        ("vocab_size", config.vocab_size, 1),
        ("max_concurrency", config.max_concurrency, 1),
        ("num_warm_ups", config.num_warm_ups, 0),
        ("ramp_up", config.ramp_up_s, 0),
        ("wait", config.wait_s, 0),
        ("temperature", config.temperature, 0),
    ):
        if value is not None and not least <= value < math.inf:
            raise ConfigurationError(f"{name} {value} is out of range: give {least} or more")
    for name, number in (("request_rate", config.request_rate), ("burstiness", config.burstiness), ("timeout", config.timeout_s)):
        if not number > 0:
            raise ConfigurationError(f"{name} {number} is out of range: give more than 0")
    if not 0 <= workload.range_ratio < 1:
        raise ConfigurationError(f"range_ratio {workload.range_ratio} is out of range: give 0 or more and below 1")


def _check_workload(workload: WorkloadConfig) -> None:
    if (workload.kind == "jsonl") != (workload.dataset is not None):
        raise ConfigurationError("workload 'jsonl' and a dataset go together: give both or neither")
    if workload.kind != "shared-prefix" and (workload.prefix_len is not None or workload.num_prefixes is not None):
        raise ConfigurationError(f"prefix_len and num_prefixes say nothing to workload {workload.kind!r}: they are of 'shared-prefix'")
    if workload.kind == "jsonl" and workload.range_ratio:
        raise ConfigurationError("range_ratio says nothing to workload 'jsonl': lengths are those of the file")
