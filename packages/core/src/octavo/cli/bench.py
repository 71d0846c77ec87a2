"""`octavo bench`: how fast the engine is on this machine; plugins add commands of their own to the group."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from octavo.cli.group import PluginCommands
from octavo.cli.load import load_llm
from octavo.cli.options import EngineFlags, with_engine_flags
from octavo.cli.workload import MOST_PROMPTS
from octavo.errors import ConfigurationError

_MOST_BATCHES = 1_000_000

bench = typer.Typer(cls=PluginCommands, rich_markup_mode=None)


@bench.callback()
def _bench() -> None:
    """Measure how fast the engine or a server is."""


@bench.command("throughput")
@with_engine_flags
def throughput_command(
    engine: EngineFlags,
    token_ids: Annotated[
        Path | None, typer.Option(help="JSON file with a list of prompts, each a list of token ids; else random ids", metavar="FILE")
    ] = None,
    num_prompts: Annotated[int, typer.Option(help="random prompts", min=1, max=MOST_PROMPTS)] = 64,
    input_len: Annotated[int, typer.Option(help="tokens of a random prompt", min=1)] = 128,
    output_len: Annotated[int, typer.Option(help="tokens generated for each prompt", min=1)] = 128,
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON object as the last line")] = False,
) -> None:
    """Output tokens a second for a batch of prompts that are all there at the start.

    Decoding is greedy, the end of a sequence is ignored and no text is made. Loading and a warm-up with other tokens, whose
    cached prefixes are dropped, are not measured.
    """
    from octavo.cli.throughput import measure_library_share, measure_throughput, read_prompts
    from octavo.cli.workload import check_workload, random_prompts

    prompts = None if token_ids is None else read_prompts(token_ids)
    with load_llm(engine) as llm:
        if prompts is None:
            check_workload(llm, num_prompts=num_prompts, input_len=input_len, output_len=output_len)
            prompts = random_prompts(num_prompts, input_len, vocab_size=llm.engine.info.vocab_size, seed=engine.options.seed or 0)
        result = measure_throughput(llm, prompts, output_len)
        if as_json:
            result = replace(result, library_share=measure_library_share(llm, prompts, output_len))
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
        return
    for name, value in result.rows():
        typer.echo(f"{name:24} {value}")


@bench.command("latency")
@with_engine_flags
def latency_command(
    engine: EngineFlags,
    batch_size: Annotated[int, typer.Option(help="requests that are there at once", min=1, max=MOST_PROMPTS)] = 8,
    input_len: Annotated[int, typer.Option(help="tokens of a prompt", min=1)] = 32,
    output_len: Annotated[int, typer.Option(help="tokens generated for each prompt", min=1)] = 128,
    num_iters: Annotated[int, typer.Option(help="batches that are measured", min=1, max=_MOST_BATCHES)] = 10,
    num_iters_warmup: Annotated[int, typer.Option(help="batches before them", min=0, max=_MOST_BATCHES)] = 2,
    profile: Annotated[
        bool, typer.Option("--profile", help="then clock what steps spend their time on, in batches run for that alone")
    ] = False,
    profile_file: Annotated[
        Path | None, typer.Option(help="with --profile: write its steps as a trace for Perfetto or chrome://tracing", metavar="FILE.json")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON object as the last line, in seconds")] = False,
) -> None:
    """Time of one batch, to its first token and between tokens: mean and percentiles.

    One batch runs at a time, each of new random prompts. Decoding is greedy, the end of a sequence is ignored and no text is made.
    """
    from octavo.cli.latency import check_clocks, measure_latency, profile_steps
    from octavo.profile.trace import write_trace

    if profile_file is not None and not profile:
        raise ConfigurationError("--profile-file is written by --profile: give both")
    with load_llm(engine) as llm:
        if profile:
            check_clocks(llm)
        result = measure_latency(
            llm,
            batch_size=batch_size,
            input_len=input_len,
            output_len=output_len,
            num_iters=num_iters,
            num_iters_warmup=num_iters_warmup,
        )
        steps = profile_steps(llm, batch_size=batch_size, input_len=input_len, output_len=output_len) if profile else None
    if as_json:
        typer.echo(json.dumps(result.as_dict() | ({} if steps is None else {"profile": steps.as_dict()})))
    else:
        typer.echo("\n".join([*result.table(), *([] if steps is None else ["", *steps.table()])]))
    if steps is not None and profile_file is not None:
        write_trace(profile_file, steps.spans.spans, name="octavo bench latency")
