"""`octavo bench`: how fast the engine is on this machine."""

import json
from pathlib import Path
from typing import Annotated

import typer

from octavo.cli.load import load_llm
from octavo.cli.options import EngineFlags, with_engine_flags

bench = typer.Typer(rich_markup_mode=None)


@bench.callback()
def _bench() -> None:
    """Measure the engine on this machine."""


@bench.command("throughput")
@with_engine_flags
def throughput_command(
    engine: EngineFlags,
    token_ids: Annotated[
        Path | None, typer.Option(help="JSON file with a list of prompts, each a list of token ids; else random ids", metavar="FILE")
    ] = None,
    num_prompts: Annotated[int, typer.Option(help="random prompts", min=1)] = 64,
    input_len: Annotated[int, typer.Option(help="tokens of a random prompt", min=1)] = 128,
    output_len: Annotated[int, typer.Option(help="tokens generated for each prompt", min=1)] = 128,
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON object as the last line")] = False,
) -> None:
    """Output tokens a second for a batch of prompts that are all there at the start.

    Decoding is greedy, the end of a sequence is ignored and no text is made. Loading and a warm-up with other tokens, whose
    cached prefixes are dropped, are not measured.
    """
    from octavo.cli.throughput import measure_throughput, read_prompts
    from octavo.cli.workload import random_prompts

    prompts = None if token_ids is None else read_prompts(token_ids)
    with load_llm(engine) as llm:
        if prompts is None:
            prompts = random_prompts(num_prompts, input_len, vocab_size=llm.engine.info.vocab_size, seed=engine.options.seed or 0)
        result = measure_throughput(llm, prompts, output_len)
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
        return
    for name, value in result.rows():
        typer.echo(f"{name:24} {value}")


@bench.command("latency")
@with_engine_flags
def latency_command(
    engine: EngineFlags,
    batch_size: Annotated[int, typer.Option(help="requests that are there at once", min=1)] = 8,
    input_len: Annotated[int, typer.Option(help="tokens of a prompt", min=1)] = 32,
    output_len: Annotated[int, typer.Option(help="tokens generated for each prompt", min=1)] = 128,
    num_iters: Annotated[int, typer.Option(help="batches that are measured", min=1)] = 10,
    num_iters_warmup: Annotated[int, typer.Option(help="batches before them", min=0)] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="print a JSON object as the last line, in seconds")] = False,
) -> None:
    """Time of one batch, to its first token and between tokens: mean and percentiles.

    One batch runs at a time, each of new random prompts. Decoding is greedy, the end of a sequence is ignored and no text is made.
    """
    from octavo.cli.latency import measure_latency

    with load_llm(engine) as llm:
        result = measure_latency(
            llm,
            batch_size=batch_size,
            input_len=input_len,
            output_len=output_len,
            num_iters=num_iters,
            num_iters_warmup=num_iters_warmup,
        )
    typer.echo(json.dumps(result.as_dict()) if as_json else "\n".join(result.table()))
