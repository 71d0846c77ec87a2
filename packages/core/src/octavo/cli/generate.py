"""`octavo generate`: answers to prompts on standard output."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.answers import AnswerWriter
from octavo.cli.load import load_llm
from octavo.cli.options import EngineFlags, with_engine_flags
from octavo.cli.prompts import collect_prompts
from octavo.cli.sampling import (
    Choices,
    FrequencyPenalty,
    IgnoreEos,
    Logprobs,
    MinP,
    MinTokens,
    PresencePenalty,
    RepetitionPenalty,
    Stop,
    Temperature,
    TopK,
    TopP,
    check_sampling,
    settle_sampling,
)
from octavo.errors import ConfigurationError

if TYPE_CHECKING:
    from octavo.input.prompts import Prompt
    from octavo.llm import LLM
    from octavo.sampling_params import SamplingParams


@with_engine_flags
def generate_command(
    engine: EngineFlags,
    prompts: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT|-", show_default=False, help="what to answer; - reads one prompt from stdin")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="file with one prompt a line; blank lines are skipped", metavar="FILE")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="continue the text as it is, without the chat template")] = False,
    system: Annotated[str | None, typer.Option(help="system message before each prompt", metavar="TEXT")] = None,
    max_tokens: Annotated[int, typer.Option(help="most tokens of an answer")] = 256,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    min_p: MinP = None,
    presence_penalty: PresencePenalty = None,
    frequency_penalty: FrequencyPenalty = None,
    repetition_penalty: RepetitionPenalty = None,
    stop: Stop = None,
    min_tokens: MinTokens = None,
    ignore_eos: IgnoreEos = None,
    n: Choices = None,
    logprobs: Logprobs = None,
    as_json: Annotated[bool, typer.Option("--json", help="a JSON object a line: prompt, text, token_ids, finish_reason, usage")] = False,
) -> None:
    """Answer prompts, each as one message of a user.

    Only answers go to standard output, in the order of the prompts and as soon as they are there, with a blank line between two.
    --seed makes draws repeatable: in float32 an answer then depends on its prompt alone.
    """
    texts = collect_prompts(prompts or [], file, raw=raw)
    if raw and system is not None:
        raise ConfigurationError("raw text has no place for a system message: leave out --system or --raw")
    if max_tokens < 1:
        raise ConfigurationError(f"max_tokens is {max_tokens}, which leaves no answer: give at least 1")
    if logprobs is not None and not as_json:
        raise ConfigurationError("plain answers have no place for log-probabilities: add --json, or leave out --logprobs")
    sampling = check_sampling(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        repetition_penalty=repetition_penalty,
        stop=stop,
        min_tokens=min_tokens,
        ignore_eos=ignore_eos,
        n=n,
        logprobs=logprobs,
        seed=engine.options.seed,
    )
    with load_llm(engine) as llm:
        params = settle_sampling(llm, sampling)
        wrapped = _wrap(texts, llm, raw=raw, system=system)
        if len(texts) == 1 and params.n == 1 and not as_json and sys.stdout.isatty():
            _stream(llm, wrapped[0], params)
            return
        shows_progress = len(texts) > 1 and sys.stderr.isatty() and not sys.stdout.isatty()
        given = wrapped[0] if len(wrapped) == 1 else wrapped
        AnswerWriter(texts, as_json=as_json).write_all(llm.as_completed(given, params, use_tqdm=shows_progress))


def _wrap(texts: list[str], llm: "LLM", *, raw: bool, system: str | None) -> "list[Prompt]":
    """Each text as one user message, or as it is."""
    if not raw and llm.engine.chat_template.source is None:
        typer.echo("octavo: note: the model has no chat template, so the prompt is continued as it is", err=True)
        raw = True
    if raw:
        return list(texts)
    head = [] if system is None else [{"role": "system", "content": system}]
    return [[*head, {"role": "user", "content": text}] for text in texts]


def _stream(llm: "LLM", prompt: "Prompt", params: "SamplingParams") -> None:
    """Write an answer while it grows."""
    written = 0
    for output in llm.stream(prompt, params):
        text = output.outputs[0].text
        typer.echo(text[written:], nl=False)
        written = len(text)
    typer.echo()
