"""Answers of `/v1/messages`, whole and as events."""

from collections.abc import Sequence
from typing import Any

import msgspec

from octavo.errors import RequestFailedError
from octavo.output.token_delta import TokenDelta
from octavo.outputs import RequestOutput
from octavo.types import FinishReason
from octavo_server.protocol.messages import MessagesResponse, MessageUsage, OutputText, StopReason
from octavo_server.protocol.usage import Usage

_encode = msgspec.json.Encoder().encode
_STOP_REASONS: dict[FinishReason, StopReason] = {FinishReason.STOP: "end_turn", FinishReason.LENGTH: "max_tokens"}


class MessagesWriter:
    """Writes the answer to a conversation.

    Args:
        message_id: of the answer.
        model: its name in the answer.
        num_prompt_tokens: of the conversation.
    """

    def __init__(self, *, message_id: str, model: str, num_prompt_tokens: int) -> None:
        self._id = message_id
        self._model = model
        self._num_prompt_tokens = num_prompt_tokens
        self._has_begun = False
        self._end: dict[str, Any] = {}

    def whole(self, outputs: Sequence[RequestOutput], usage: Usage) -> MessagesResponse:
        """All of it."""
        ((completion,),) = [output.outputs for output in outputs]
        assert completion.finish_reason is not None, "the answer is finished"
        stop_reason, stop_sequence = _stop(completion.finish_reason, completion.stop_reason)
        return MessagesResponse(
            id=self._id,
            model=self._model,
            content=[OutputText(text=completion.text)],
            stop_reason=stop_reason,
            stop_sequence=stop_sequence,
            usage=_usage(usage),
        )

    def events(self, place: int, deltas: list[TokenDelta], num_cached_tokens: int) -> bytes:  # noqa: ARG002 (there is one prompt)
        """An event for each token that brought text, behind those that open the answer."""
        if not deltas:
            return b""
        parts = [] if self._has_begun else [self._opening(num_cached_tokens)]
        self._has_begun = True
        for delta in deltas:
            if delta.text:
                parts.append(_DELTA_BEFORE + _encode(delta.text) + _DELTA_BEHIND)
            if delta.finish_reason is not None:
                stop_reason, stop_sequence = _stop(delta.finish_reason, delta.stop_reason)
                self._end = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
        return b"".join(parts)

    def closing_events(self, usage: Usage) -> bytes:
        """The end of the text, why it ended and what it took."""
        return (
            event({"type": "content_block_stop", "index": 0})
            + event({"type": "message_delta", "delta": self._end, "usage": _usage(usage)})
            + event({"type": "message_stop"})
        )

    def _opening(self, num_cached_tokens: int) -> bytes:
        message = MessagesResponse(
            id=self._id,
            model=self._model,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=MessageUsage.of(self._num_prompt_tokens, 0, num_cached_tokens),
        )
        return (
            event({"type": "message_start", "message": message})
            + event({"type": "content_block_start", "index": 0, "content_block": OutputText(text="")})
            + event({"type": "ping"})
        )


def event(value: dict[str, Any]) -> bytes:
    """One event, which says its type twice."""
    name: str = value["type"]
    return b"event: " + name.encode() + b"\ndata: " + _encode(value) + b"\n\n"


_PLACEHOLDER = "\x00text\x00"
_DELTA_BEFORE, _, _DELTA_BEHIND = event(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _PLACEHOLDER}}
).partition(_encode(_PLACEHOLDER))


def _stop(reason: FinishReason, detail: str | int | None) -> tuple[StopReason, str | None]:
    """Why an answer ended, and the stop sequence that ended it."""
    if reason is FinishReason.STOP and isinstance(detail, str):
        return "stop_sequence", detail
    if reason not in _STOP_REASONS:
        raise RequestFailedError("the answer was cut off: the server gave this request up")
    return _STOP_REASONS[reason], None


def _usage(usage: Usage) -> MessageUsage:
    return MessageUsage.of(usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details.cached_tokens)
