"""Chat messages as users send them, checked and brought into the one form that templates for text understand."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.errors import InvalidRequestError, shown

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def check_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copies of the messages with their content as one string.

    Raises `InvalidRequestError` naming the message that is wrong and what would be right.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise InvalidRequestError("messages must be a list of objects with role and content", param="messages")
    if not messages:
        raise InvalidRequestError("messages is empty, but a conversation has at least one", param="messages")
    return [_check_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _check_message(message: Any, place: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise InvalidRequestError(f"{place} is {shown(message)}, but must be an object with role and content", param=place)
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidRequestError(f"{place}.role is {shown(role)}, but must be a name such as 'user'", param=f"{place}.role")
    return {**message, "content": _joined_text(message.get("content"), f"{place}.content")}


def _joined_text(content: Any, place: str) -> str:
    """Text of a content: itself, or its text parts one after the other; nothing stands for no text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
        raise InvalidRequestError(f"{place} must be a string or a list of parts, not {type(content).__name__}", param=place)
    return "".join(_part_text(part, f"{place}[{index}]") for index, part in enumerate(content))


def _part_text(part: Any, place: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _TEXT_PARTS:
        raise InvalidRequestError(f"{place} is a part of type {shown(kind)}, but this model takes text only", param=f"{place}.type")
    text = part.get("text")
    if not isinstance(text, str):
        raise InvalidRequestError(f"{place}.text must be a string, not {type(text).__name__}", param=f"{place}.text")
    return text
