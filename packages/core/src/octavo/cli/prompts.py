"""What a command line brings as prompts, checked before a model is loaded."""

import sys
from pathlib import Path

from octavo.errors import ConfigurationError


def collect_prompts(arguments: list[str], file: Path | None, *, raw: bool) -> list[str]:
    """Prompts of the command line, with standard input in the place of "-", then those of the file, one a line.

    Blank lines of the file are skipped. White space alone is a prompt only where it is taken as it is.

    Raises:
        ConfigurationError: there is none, one is empty or no text, or the file or standard input cannot be read.
    """
    if arguments.count("-") > 1:
        raise ConfigurationError("standard input can be read once: give '-' once")
    prompts = [_read_standard_input() if argument == "-" else argument for argument in arguments]
    if file is not None:
        prompts += _read_lines(file)
    if not prompts:
        raise ConfigurationError("there is no prompt: give a PROMPT, '-' for standard input, or --file")
    for position, prompt in enumerate(prompts, start=1):
        which = f"prompt {position} of {len(prompts)}" if len(prompts) > 1 else "the prompt"
        if (problem := encoding_problem(prompt)) is not None:
            raise ConfigurationError(f"{which} is not text: {problem}")
        if not (prompt if raw else prompt.strip()):
            raise ConfigurationError(f"{which} is empty: give some text")
    return prompts


def encoding_problem(text: str) -> str | None:
    """What is wrong with bytes that Python let through as halves of surrogate pairs, for it could make no characters of them.

    None where all is text. Python lets them through on command lines, and on standard input where the locale is "C".
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = len(text[: error.start].encode())
        return f"what stands at byte {before} is no character in {sys.stdin.encoding or 'its encoding'}"
    return None


def _read_standard_input() -> str:
    """One prompt; the newline that ends the last line is no part of it."""
    try:
        text = sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"standard input is not text in {error.encoding}: {error.reason} at byte {error.start}") from error
    if (problem := encoding_problem(text)) is not None:
        raise ConfigurationError(f"standard input is not text: {problem}")
    return text


def _read_lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ConfigurationError(f"--file {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--file {file} is not UTF-8: {error.reason} at byte {error.start}") from error
    prompts = [line.rstrip("\r") for line in lines if line.strip()]
    if not prompts:
        raise ConfigurationError(f"--file {file} has no prompt: write one a line")
    return prompts
