"""The chunks of a streamed completion or chat completion, as far as a load generator reads them."""

from typing import Any

import msgspec

from octavo.errors import MAX_SHOWN

DONE = b"[DONE]"
_FAILED_REASONS = frozenset({"error", "abort"})


class Delta(msgspec.Struct):
    """What a chunk adds to a chat message."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None


class Choice(msgspec.Struct):
    """One choice of a chunk; `text` in completions, `delta` in chats."""

    text: str | None = None
    delta: Delta | None = None
    finish_reason: str | None = None

    @property
    def brings_output(self) -> bool:
        """Whether it stands for a token or more, whose text may be held back; a role or an end alone does not."""
        if self.delta is None:
            return bool(self.text) or (self.text is not None and self.finish_reason is None)
        delta = self.delta
        if delta.content or delta.reasoning or delta.reasoning_content or delta.tool_calls:
            return True
        return delta.content is not None and delta.role is None and self.finish_reason is None


class PromptTokensDetails(msgspec.Struct):
    """Where prompt tokens came from."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Tokens as the server counted them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None


class Chunk(msgspec.Struct):
    """One event of the stream; `error`, or `object` "error" with a message, where the server gave up."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    object: str | None = None
    message: str | None = None

    @property
    def failure(self) -> str | None:
        """Why the server gave up, None where it did not."""
        if self.error is not None:
            return error_message(self.error)
        if self.object == "error":
            return self.message or "no message"
        reason = next((choice.finish_reason for choice in self.choices or () if choice.finish_reason in _FAILED_REASONS), None)
        return None if reason is None else f"finish_reason {reason!r}"


decode_chunk = msgspec.json.Decoder(Chunk).decode


def error_message(error: Any) -> str:
    """The message of an error as servers write it: an object with a message, or anything else."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        error = inner.get("message", inner) if isinstance(inner, dict) else inner
    return one_line(str(error))


def read_error(body: bytes) -> str:
    """The message of a response that is no stream."""
    try:
        return error_message(msgspec.json.decode(body))
    except msgspec.DecodeError:
        return one_line(body.decode(errors="replace")) or "no message"


def one_line(text: str) -> str:
    """A text of others as one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"
