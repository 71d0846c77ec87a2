"""Bodies of `/tokenize` and `/detokenize`."""

from typing import Any

import msgspec

from octavo_server.protocol.fields import Messages


class TokenizeTextRequest(msgspec.Struct, kw_only=True):
    """A text to split into tokens."""

    prompt: str
    model: str | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class TokenizeChatRequest(msgspec.Struct, kw_only=True):
    """A conversation to render and split into tokens, as a chat would."""

    messages: Messages
    model: str | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: bool | None = None


class TokenizeResponse(msgspec.Struct, kw_only=True):
    """The tokens; `token_strs` spells them as the vocabulary does, where that was asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """Token ids to join."""

    tokens: list[int]
    model: str | None = None


class DetokenizeResponse(msgspec.Struct, kw_only=True):
    """The text, special tokens included."""

    prompt: str
