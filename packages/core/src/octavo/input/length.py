"""Which prompts take noticeable time to tokenize, and which of them are not worth it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from octavo.errors import InvalidRequestError
from octavo.text.template_meter import RenderLimits
from octavo.text.tokenizer import Tokenizer

T = TypeVar("T")

LONG_PROMPT_CHARACTERS = 4096
"""Texts from here on are tokenized in a thread, so that other streams do not wait for them."""

_SLACK_TOKENS = 1024
_CHARACTERS_A_TOKEN = 8
_LONGER = 4
_MOST_TOKENIZED = 3

QUICK = RenderLimits(characters=4 * LONG_PROMPT_CHARACTERS, cpu_seconds=0.01)
"""What a conversation may take to render where other streams wait for it."""


class TakesLongError(Exception):
    """A prompt looked short but is not, as its template makes much of it: it must be read again, in a thread."""


async def beside_streams(read: Callable[[bool], T], *, is_long: bool) -> T:
    """What reading a prompt returns, without holding up an event loop.

    Args:
        read: called with whether to be quick: then it raises `TakesLongError` where the prompt takes noticeable time, and is called again
            in a thread.
        is_long: go to the thread at once.
    """
    if not is_long:
        try:
            return read(True)
        except TakesLongError:
            pass
    return await asyncio.to_thread(read, False)


def is_long(prompt: object) -> bool:
    """Whether a prompt is a long text, or messages whose texts are long together."""
    if isinstance(prompt, str):
        return len(prompt) >= LONG_PROMPT_CHARACTERS
    if isinstance(prompt, Mapping):
        return is_long(prompt.get("prompt"))
    if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping):
        return sum(len(str(message.get("content"))) for message in prompt if isinstance(message, Mapping)) >= LONG_PROMPT_CHARACTERS
    return False


def refuse_far_too_long(text: str, tokenizer: Tokenizer, max_model_len: int) -> None:
    """Refuse a text whose beginning alone has far more tokens than the context, so that megabytes need not be tokenized to say so.

    Tokens at the cut may be others than in the whole text, so the beginning has to have more than twice as many as would be too many.
    It is taken longer and longer where it does not; together no more is tokenized here than half of the text. Raises
    `InvalidRequestError` with the code `context_length_exceeded`.
    """
    enough = 2 * max_model_len + _SLACK_TOKENS
    num_characters = enough * _CHARACTERS_A_TOKEN
    while num_characters * _MOST_TOKENIZED <= len(text):
        if len(tokenizer.encode(text[:num_characters], add_special_tokens=False)) > enough:
            raise InvalidRequestError(
                f"the prompt of {len(text):,} characters has more than {enough:,} tokens, but the context is {max_model_len} tokens: "
                "shorten the prompt",
                param="prompt",
                code="context_length_exceeded",
            )
        num_characters *= _LONGER
