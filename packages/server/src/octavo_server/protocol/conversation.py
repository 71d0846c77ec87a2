"""What says how a conversation becomes a prompt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from octavo.errors import InvalidRequestError
from octavo.text.chat_template import ChatTemplate, refuse_reserved


class ConversationFields(Protocol):
    """Fields of chats and of counting their tokens."""

    messages: list[dict[str, Any]]
    add_generation_prompt: bool | None
    continue_final_message: bool | None
    add_special_tokens: bool | None
    chat_template: str | None
    chat_template_kwargs: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A conversation and how it is rendered.

    Attributes:
        messages: as they came.
        add_generation_prompt: end the prompt with what opens the answer.
        continue_final_message: end it where the last message ends, to have that continued.
        add_special_tokens: put those around the prompt that the tokenizer adds to texts; templates write their own.
        template: another one than the model's.
        names: further ones for the template.
    """

    messages: list[dict[str, Any]]
    add_generation_prompt: bool
    continue_final_message: bool
    add_special_tokens: bool
    template: ChatTemplate | None
    names: Mapping[str, Any]


def conversation_of(
    fields: ConversationFields, model_template: ChatTemplate, *, trusts_templates: bool, implied_names: Mapping[str, Any]
) -> Conversation:
    """The conversation of a request. Raises `InvalidRequestError` for what it may not ask.

    Args:
        fields: of the request.
        model_template: the model's.
        trusts_templates: take a template that the request brings.
        implied_names: for the template, where the request does not give them itself.
    """
    names = fields.chat_template_kwargs or {}
    refuse_reserved(names)
    if fields.continue_final_message and fields.add_generation_prompt:
        raise InvalidRequestError(
            "continue_final_message and add_generation_prompt exclude each other: set one of them to false", param="continue_final_message"
        )
    template = None
    if fields.chat_template is not None:
        if not trusts_templates:
            raise InvalidRequestError(
                "chat_template is not taken from requests, because a template is a program: leave it out, "
                "or start the server with --trust-request-chat-template",
                param="chat_template",
            )
        template = model_template.with_source(fields.chat_template)
    return Conversation(
        messages=fields.messages,
        add_generation_prompt=not fields.continue_final_message and fields.add_generation_prompt is not False,
        continue_final_message=bool(fields.continue_final_message),
        add_special_tokens=bool(fields.add_special_tokens),
        template=template,
        names={**implied_names, **names},
    )
