"""Prompts of a file: conversations in ShareGPT's form, or one prompt a line."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

from octavo.errors import ConfigurationError, shown
from octavo_server.bench.prompt import Prompt, estimate_tokens

_ASKING = {"human", "user"}
_ANSWERING = {"gpt", "assistant", "chatgpt", "bing", "bard"}
_DEFAULT_OUTPUT_LEN = 128


def load_dataset(path: str, *, output_len: int | None) -> list[Prompt]:
    """Every prompt of a file: a JSON list, or an object a line.

    An object with "prompt" (text or token ids) may say its "output_len". Of one with "conversations" the first question that has an
    answer is asked, and the length of that answer is taken; others are left out.

    Args:
        output_len: tokens of every answer, whatever the file says.

    Raises:
        ConfigurationError: the file cannot be read, has an entry of another form, or has no prompt.
    """
    prompts = [prompt for where, entry in _entries(path) if (prompt := _read_entry(entry, output_len, f"{path}, {where}")) is not None]
    if not prompts:
        raise ConfigurationError(f'dataset {path} has no prompt: write {{"prompt": …, "output_len": …}} or a conversation a line')
    return prompts


def _entries(path: str) -> Iterator[tuple[str, Any]]:
    """Each entry with its place for messages."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"dataset {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"dataset {path} is not UTF-8: {error.reason} at byte {error.start}") from error
    if text.lstrip().startswith("["):
        yield from ((f"entry {number}", entry) for number, entry in enumerate(_decode(text, path), start=1))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", _decode(line, f"{path}, line {number}")


def _decode(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"dataset {where} is not JSON: {error}") from error


def _read_entry(entry: Any, output_len: int | None, where: str) -> Prompt | None:
    if isinstance(entry, dict) and isinstance(entry.get("conversations"), list):
        return _read_conversation(entry["conversations"], output_len)
    content = entry.get("prompt") if isinstance(entry, dict) else None
    length = (entry.get("output_len") or _DEFAULT_OUTPUT_LEN) if isinstance(entry, dict) else None
    if not _is_prompt(content) or not isinstance(length, int) or length < 1:
        raise ConfigurationError(f'dataset {where} holds {shown(entry)}: write {{"prompt": …, "output_len": …}} or a conversation')
    length = length if output_len is None else output_len
    return Prompt.of_text(content, length) if isinstance(content, str) else Prompt.of(content, length)


def _is_prompt(content: Any) -> TypeGuard[list[int] | str]:
    if not content or isinstance(content, str):
        return bool(content)
    return isinstance(content, list) and all(type(token_id) is int and token_id >= 0 for token_id in content)


def _read_conversation(turns: list[Any], output_len: int | None) -> Prompt | None:
    said = [(turn.get("from"), turn.get("value")) for turn in turns if isinstance(turn, dict)]
    for (asking, question), (answering, answer) in pairwise(said):
        if asking in _ASKING and answering in _ANSWERING and isinstance(question, str) and isinstance(answer, str) and question.strip():
            return Prompt.of_text(question, estimate_tokens(answer) if output_len is None else output_len)
    return None
