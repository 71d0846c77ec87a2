"""The options of `octavo bench serve`."""

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from octavo.cli.config_file import apply_config_file
from octavo.cli.state import debug_option
from octavo.errors import ConfigurationError, shown
from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.slo import ServiceLevel, parse_slo
from octavo_server.bench.workload import WorkloadConfig


def _option(*names: str, **more: Any) -> Any:
    return typer.Option(*names, **more)


_SERVER, _WORK, _LOAD, _OUTPUT = ({"rich_help_panel": name} for name in ("Server", "Workload", "Load", "Results"))


@dataclass(frozen=True, kw_only=True)
class BenchmarkFlags:
    """One field an option, as typed."""

    base_url: Annotated[str | None, _option(help="address of the server [default: http://HOST:PORT]", metavar="URL", **_SERVER)] = None
    host: Annotated[str, _option(help="where the server listens", **_SERVER)] = "127.0.0.1"
    port: Annotated[int, _option(help="and on which port", min=1, max=65535, **_SERVER)] = 8000
    endpoint: Annotated[str, _option(help="completions (/v1/completions) or chat (/v1/chat/completions)", **_SERVER)] = "completions"
    model: Annotated[str | None, _option(help="name in requests; default: the first that the server lists", **_SERVER)] = None
    api_key: Annotated[str | None, _option(help="sent as bearer token", metavar="KEY", **_SERVER)] = None
    timeout: Annotated[float, _option(help="give up a request after so many seconds", metavar="SECONDS", **_SERVER)] = 3600.0
    wait: Annotated[float, _option(help="wait so long for a server that is not ready", metavar="SECONDS", **_SERVER)] = 0.0
    workload: Annotated[str | None, _option(help="random, shared-prefix or jsonl [default: random, or jsonl with --dataset]", **_WORK)] = (
        None
    )
    dataset: Annotated[
        str | None, _option(help='ShareGPT conversations, or lines {"prompt": …, "output_len": …}', metavar="FILE", **_WORK)
    ] = None
    num_prompts: Annotated[int, _option(help="requests to send", **_WORK)] = 100
    input_len: Annotated[int, _option(help="tokens of a random prompt, without a shared prefix", **_WORK)] = 512
    output_len: Annotated[int | None, _option(help="tokens of an answer [default: 128, or what the dataset says]", **_WORK)] = None
    range_ratio: Annotated[float, _option(help="lengths vary by this share up and down", **_WORK)] = 0.0
    prefix_len: Annotated[int | None, _option(help="tokens of a shared prefix [default: 256]", **_WORK)] = None
    num_prefixes: Annotated[int | None, _option(help="different shared prefixes [default: 8]", **_WORK)] = None
    prompt_form: Annotated[str, _option(help="random prompts as ids, as text, or auto: ids where the server takes them", **_WORK)] = "auto"
    vocab_size: Annotated[int | None, _option(help="ids are below it [default: what the server says, else 10000]", **_WORK)] = None
    ignore_eos: Annotated[
        bool | None, _option("--ignore-eos/--no-ignore-eos", help="answers of full length [default: on, but for datasets]", **_WORK)
    ] = None
    temperature: Annotated[float, _option(help="0 is greedy; below 0: the server's default", **_WORK)] = 0.0
    extra_body: Annotated[str | None, _option(help="further fields of every request, as JSON", metavar="JSON", **_WORK)] = None
    seed: Annotated[int, _option(help="of prompts and arrivals", **_WORK)] = 0
    request_rate: Annotated[float, _option(help="requests a second, or inf: all at once", metavar="RATE", **_LOAD)] = math.inf
    arrival: Annotated[str, _option(help="poisson or constant gaps between requests", **_LOAD)] = "poisson"
    burstiness: Annotated[float, _option(help="of poisson: below 1 burstier, above 1 more even", **_LOAD)] = 1.0
    max_concurrency: Annotated[int | None, _option(help="most requests at once; others wait here", **_LOAD)] = None
    ramp_up: Annotated[float, _option(help="let the rate (with inf: the concurrency) grow for so long", metavar="SECONDS", **_LOAD)] = 0.0
    warmup: Annotated[int, _option(help="requests before the measurement", **_LOAD)] = 1
    slo: Annotated[str | None, _option(help="limits for goodput, such as ttft=500ms,itl=50ms,tpot=40ms,e2e=10s", **_LOAD)] = None
    sweep: Annotated[str | None, _option(help="request rates to run one after the other, such as 1,2,4,8", metavar="RATES", **_LOAD)] = None
    plot: Annotated[Path | None, _option(help="picture of a sweep", metavar="FILE.svg", **_OUTPUT)] = None
    save: Annotated[Path | None, _option(help="write results and every request as JSON", metavar="FILE", **_OUTPUT)] = None
    as_json: Annotated[bool, _option("--json", help="print a JSON object as the last line instead of a table", **_OUTPUT)] = False
    config: Annotated[
        Path | None,
        _option(help="YAML file of options; flags win over it", callback=apply_config_file, is_eager=True, metavar="FILE.yaml", **_OUTPUT),
    ] = None
    debug: Annotated[bool, debug_option(**_OUTPUT)] = False

    def as_config(self) -> BenchmarkConfig:
        """The benchmark that is asked for. Raises `ConfigurationError`."""
        return BenchmarkConfig(
            base_url=f"http://{self.host}:{self.port}" if self.base_url is None else self.base_url,
            endpoint=self.endpoint,
            model=self.model,
            api_key=self.api_key,
            workload=self._as_workload(),
            prompt_form=self.prompt_form,
            vocab_size=self.vocab_size,
            request_rate=self.request_rate,
            arrival=self.arrival,
            burstiness=self.burstiness,
            max_concurrency=self.max_concurrency,
            ramp_up_s=self.ramp_up,
            num_warm_ups=self.warmup,
            ignore_eos=self.ignore_eos,
            temperature=None if self.temperature < 0 else self.temperature,
            extra_body=_parse_object(self.extra_body),
            wait_s=self.wait,
            timeout_s=self.timeout,
            service_level=ServiceLevel() if self.slo is None else parse_slo(self.slo),
            seed=self.seed,
        )

    def _as_workload(self) -> WorkloadConfig:
        return WorkloadConfig(
            kind=self.workload or ("random" if self.dataset is None else "jsonl"),
            num_prompts=self.num_prompts,
            input_len=self.input_len,
            output_len=self.output_len,
            range_ratio=self.range_ratio,
            prefix_len=self.prefix_len,
            num_prefixes=self.num_prefixes,
            dataset=self.dataset,
        )


def with_benchmark_flags(command: Callable[[BenchmarkFlags], None]) -> Callable[..., None]:
    """A command with every option of `BenchmarkFlags`."""

    def run(**values: Any) -> None:
        command(BenchmarkFlags(**values))

    hints = get_type_hints(BenchmarkFlags, include_extras=True)
    parameters = [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=hints[item.name])
        for item in fields(BenchmarkFlags)
    ]
    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parse_object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"extra_body {shown(text)} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f'extra_body {shown(text)} is no JSON object: write it as {{"top_p": 0.9}}')
    return value
