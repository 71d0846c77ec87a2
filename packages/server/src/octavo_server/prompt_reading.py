"""Prompts to token ids, without holding up streams."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from octavo import AsyncLLM
from octavo.errors import InvalidRequestError
from octavo.input import length
from octavo.input.prompts import TokenizedPrompt
from octavo.input.truncation import Truncation
from octavo_server.protocol.conversation import Conversation

LONG_BODY = 4096
"""Bytes from here on are rendered and tokenized in a thread."""

T = TypeVar("T")


async def beside_streams(body: bytes, work: Callable[[], T]) -> T:
    """What some work on a body returns; in a thread where the body is long."""
    return await asyncio.to_thread(work) if len(body) >= LONG_BODY else work()


async def read_conversation(
    body: bytes, llm: AsyncLLM, conversation: Conversation, truncation: Truncation | None = None, *, is_to_run: bool = True
) -> TokenizedPrompt:
    """Render and tokenize a conversation; one that does not run may be of any length. Raises `InvalidRequestError`."""

    def read(quick: bool) -> TokenizedPrompt:
        (prompt,) = llm.reader.read_chats(
            [conversation.messages],
            numbered=False,
            add_generation_prompt=conversation.add_generation_prompt,
            continue_final_message=conversation.continue_final_message,
            template_kwargs=conversation.names,
            chat_template=conversation.template,
            add_special_tokens=conversation.add_special_tokens,
            truncation=truncation,
            is_to_run=is_to_run,
            quick=quick,
        )
        return prompt

    try:
        return await length.beside_streams(read, is_long=len(body) >= LONG_BODY)
    except InvalidRequestError as error:
        raise about_messages(error) from error


def about_messages(error: InvalidRequestError) -> InvalidRequestError:
    """The same refusal where there is no field "prompt", but messages."""
    return InvalidRequestError(str(error), param="messages", code=error.code) if error.param == "prompt" else error
