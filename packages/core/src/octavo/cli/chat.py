"""`octavo chat`: a conversation on the terminal."""

import io
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.load import load_llm
from octavo.cli.options import EngineFlags, with_engine_flags
from octavo.cli.prompts import encoding_problem
from octavo.cli.sampling import Stop, Temperature, TopK, TopP, check_sampling, settle_sampling
from octavo.errors import CheckpointError, ConfigurationError, InvalidRequestError, RequestFailedError, shown

if TYPE_CHECKING:
    from octavo.cli.conversation import Conversation
    from octavo.llm import LLM
    from octavo.sampling_params import SamplingParams

_PROMPT = "> "
_COMMANDS = "/reset forgets the conversation, /exit leaves; Ctrl-C ends an answer"


@with_engine_flags
def chat_command(
    engine: EngineFlags,
    system: Annotated[str | None, typer.Option(help="system message of the conversation", metavar="TEXT")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="most tokens of an answer; default: what the context leaves")] = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    stop: Stop = None,
) -> None:
    """Talk with a model, a line a message.

    /reset forgets the conversation, /exit or the end of the input leaves. Ctrl-C ends an answer, and at the prompt the program.
    The oldest turns are forgotten where the context is full. Without a terminal each line of standard input is answered in turn.
    """
    sampling = check_sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, top_k=top_k, stop=stop, seed=engine.options.seed)
    with load_llm(engine) as llm:
        if llm.engine.chat_template.source is None:
            raise ConfigurationError("the model has no chat template, so it holds no conversation: use `octavo generate --raw`")
        if (problem := llm.engine.chat_template.problem()) is not None:
            raise CheckpointError(f"{problem}: give another one with --chat-template, or use `octavo generate --raw`")
        from octavo.cli.conversation import Conversation

        params = settle_sampling(llm, {"max_tokens": None} | sampling)
        _talk(llm, Conversation(llm, system=system, max_tokens=max_tokens), params)


def _talk(llm: "LLM", conversation: "Conversation", params: "SamplingParams") -> None:
    """Answer line after line until the input ends."""
    if sys.stdin.isatty():
        _note(_COMMANDS)
    if isinstance(sys.stdin, io.TextIOWrapper):
        # A line that is no text is one that is not answered, and not the end of the talk.
        sys.stdin.reconfigure(errors="surrogateescape")
    while (line := _read_line()) is not None:
        command = line.strip()
        if command == "/exit":
            return
        if command == "/reset":
            conversation.reset()
            _note("the conversation is forgotten")
        elif line.startswith("/"):
            _note(f"unknown command {shown(command.split()[0])}: {_COMMANDS}; a space before it makes it a message")
        elif (problem := encoding_problem(command)) is not None:
            _note(f"the line is not text: {problem}")
        elif command:
            _take_turn(llm, conversation, params, command)


def _take_turn(llm: "LLM", conversation: "Conversation", params: "SamplingParams", text: str) -> None:
    try:
        dropped = conversation.ask(text)
    except InvalidRequestError as error:
        _note(str(error))
        return
    if dropped:
        _note(f"the context is full: the oldest {'turn is' if dropped == 1 else f'{dropped} turns are'} forgotten")
    conversation.answer(_answer(llm, conversation, params))


def _answer(llm: "LLM", conversation: "Conversation", params: "SamplingParams") -> str:
    """Write an answer while it grows, and return as much of it as there is."""
    text, note = "", None
    try:
        with closing(llm.stream(conversation.messages, params)) as stream:
            for output in stream:
                completion = output.outputs[0]
                typer.echo(completion.text[len(text) :], nl=False)
                text = completion.text
                if completion.finish_reason == "length":
                    is_cut_by_us = len(completion.token_ids) == params.max_tokens
                    note = "the answer was cut" + (f" after {params.max_tokens} tokens" if is_cut_by_us else ": the context is full")
    except KeyboardInterrupt:
        note = "the answer was ended"
    except (RequestFailedError, InvalidRequestError) as error:
        note = f"the answer failed: {error}"
    typer.echo()
    if note is not None:
        _note(note)
    return text


def _read_line() -> str | None:
    """The next line of the user, None at the end of the input; on a terminal with editing and history."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None
    with suppress(ImportError):
        import readline  # noqa: F401 - `input` edits lines with it
    try:
        return input(_PROMPT)
    except EOFError:
        typer.echo()
        return None


def _note(text: str) -> None:
    typer.echo(f"octavo: note: {text}", err=True)
