"""From Anthropic's conversations to those that chat templates know."""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.errors import InvalidRequestError, shown
from octavo.text.chat_template import refuse_reserved
from octavo_server.protocol.conversation import Conversation
from octavo_server.protocol.messages import ConversationRequest

_BETWEEN_TURNS = "\n\n"


def conversation_of_messages(fields: ConversationRequest) -> Conversation:
    """The conversation: its system text first, turns of one role in a row joined; where the assistant's is last, that goes on.

    Raises:
        InvalidRequestError: there is no turn, or one holds something else than text.
    """
    names = fields.chat_template_kwargs or {}
    refuse_reserved(names)
    if not fields.messages:
        raise InvalidRequestError("messages is empty, but a conversation has at least one", param="messages")
    turns: list[dict[str, Any]] = []
    if fields.system:
        turns.append({"role": "system", "content": _text(fields.system, "system")})
    for index, message in enumerate(fields.messages):
        text = _text(message.content, f"messages[{index}].content")
        if turns and turns[-1]["role"] == message.role:
            turns[-1]["content"] += _BETWEEN_TURNS + text
        else:
            turns.append({"role": message.role, "content": text})
    goes_on = fields.messages[-1].role == "assistant"
    return Conversation(
        messages=turns,
        add_generation_prompt=not goes_on,
        continue_final_message=goes_on,
        add_special_tokens=False,
        template=None,
        names={**fields.implied_names, **names},
    )


def _text(content: str | Sequence[Mapping[str, Any]], place: str) -> str:
    """The text of blocks, one after the other."""
    return content if isinstance(content, str) else "".join(_block_text(block, f"{place}[{index}]") for index, block in enumerate(content))


def _block_text(block: Mapping[str, Any], place: str) -> str:
    kind = block.get("type")
    if kind != "text":
        raise InvalidRequestError(
            f"{place} is a block of type {shown(kind)}, which this server does not support: send text",
            param=f"{place}.type",
            code="unsupported_parameter",
        )
    text = block.get("text")
    if not isinstance(text, str):
        raise InvalidRequestError(f"{place}.text must be a string, not {type(text).__name__}", param=f"{place}.text")
    return text
