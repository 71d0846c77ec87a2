"""How large the parameters of a request may be. Each of its sequences takes them to the engine, so `n` multiplies what they cost."""

from collections.abc import Mapping
from typing import Any

import msgspec

from octavo.errors import InvalidRequestError

MAX_STOP_LENGTH = 1024
MAX_BAD_WORD_CHARACTERS = 1 << 15
MAX_PROCESSOR_BYTES = 1 << 14


def check_sizes(given: Mapping[str, Any], vocab_size: int) -> None:
    """Refuse what is far larger than it makes sense, before anything looks at it closely.

    Args:
        given: sampling parameters by name, of the types that a body may have.
        vocab_size: of the model; a list of tokens needs no more.

    Raises:
        InvalidRequestError: naming the field.
    """
    for name in ("stop_token_ids", "allowed_token_ids"):
        if (count := len(given.get(name, ()))) > vocab_size:
            _refuse(name, f"has {count:,} token ids, but the model has only {vocab_size:,} tokens: send each one once")
    longest = max(map(len, given.get("stop", ())), default=0)
    if longest > MAX_STOP_LENGTH:
        _refuse("stop", f"has a string of {longest:,} characters, but they have at most {MAX_STOP_LENGTH:,}: send its beginning")
    total = sum(map(len, given.get("bad_words", ())))
    if total > MAX_BAD_WORD_CHARACTERS:
        _refuse("bad_words", f"have {total:,} characters together, but at most {MAX_BAD_WORD_CHARACTERS:,} are taken: send fewer")
    size = len(msgspec.json.encode(given.get("logits_processors", {})))
    if size > MAX_PROCESSOR_BYTES:
        _refuse("logits_processors", f"take {size:,} bytes, but at most {MAX_PROCESSOR_BYTES:,} are taken: shorten their arguments")


def _refuse(name: str, problem: str) -> None:
    raise InvalidRequestError(f"{name} {problem}", param=name)
