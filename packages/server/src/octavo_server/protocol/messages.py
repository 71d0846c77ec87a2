"""Bodies of `/v1/messages` and `/v1/messages/count_tokens`, as Anthropic defines them."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from octavo.errors import InvalidRequestError, shown
from octavo.sampling_params import MAX_STOP_STRINGS, SEED_LIMIT, SamplingParams
from octavo_server.protocol.fields import CacheSalt, Temperature, TopK, TopP
from octavo_server.protocol.sizes import MAX_STOP_LENGTH, check_sizes

if TYPE_CHECKING:
    from octavo import AsyncLLM

Blocks = Annotated[
    str | list[dict[str, Any]],
    Meta(
        description="text, or blocks of text",
        extra_json_schema={
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type", "text"],
                        "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                    },
                },
            ]
        },
    ),
]
OutputLimit = Annotated[
    int,
    Meta(description="cap on output tokens, cut to what the context leaves", extra_json_schema={"minimum": 1, "maximum": SEED_LIMIT - 1}),
]
StopSequences = Annotated[
    list[str] | None,
    Meta(
        description="texts that end the output before them",
        extra_json_schema={"maxItems": MAX_STOP_STRINGS, "items": {"maxLength": MAX_STOP_LENGTH}},
    ),
]
StopReason = Literal["end_turn", "max_tokens", "stop_sequence"]


class InputMessage(msgspec.Struct, kw_only=True):
    """One turn of a conversation, or a part of one: turns of the same role in a row are one."""

    role: Literal["user", "assistant", "system"]
    content: Blocks


class ConversationRequest(msgspec.Struct, kw_only=True):
    """A conversation.

    Attributes:
        system: what comes before it.
        chat_template_kwargs: further names for the template.
    """

    model: str | None = None
    messages: Annotated[list[InputMessage], Meta(extra_json_schema={"minItems": 1})]
    system: Blocks | None = None
    thinking: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def implied_names(self) -> dict[str, Any]:
        """What other fields tell the chat template; that thinking is wanted is refused elsewhere."""
        return {} if self.thinking is None else {"enable_thinking": False}


class CountTokensRequest(ConversationRequest, kw_only=True):
    """A conversation whose tokens are to be counted."""


class MessagesRequest(ConversationRequest, kw_only=True):
    """A conversation to answer, or, where its last turn is the assistant's, to go on with.

    Attributes:
        cache_salt: of Octavo: prefix-cache blocks are shared between equal salts only.
    """

    max_tokens: OutputLimit
    stream: bool | None = None
    temperature: Temperature = None
    top_p: TopP = None
    top_k: TopK = None
    stop_sequences: StopSequences = None
    cache_salt: CacheSalt = None

    def sampling_params(self, llm: "AsyncLLM") -> SamplingParams:
        """Octavo's defaults, above them the model's, above them these fields. Raises `InvalidRequestError` naming a field."""
        if self.max_tokens < 1:
            raise InvalidRequestError(f"max_tokens is {shown(self.max_tokens)}, but must be at least 1", param="max_tokens")
        names = ("temperature", "top_p", "top_k")
        given: dict[str, Any] = {name: value for name in names if (value := getattr(self, name)) is not None}
        given["stop"] = self.stop_sequences or []
        try:
            check_sizes(given, llm.info.vocab_size)
            return llm.default_sampling_params(**given, max_tokens=self.max_tokens)
        except InvalidRequestError as error:
            if error.param != "stop":
                raise
            raise InvalidRequestError(str(error).replace("stop", "stop_sequences", 1), param="stop_sequences") from error


class OutputText(msgspec.Struct, kw_only=True):
    """A text of an answer."""

    type: Literal["text"] = "text"
    text: str


class MessageUsage(msgspec.Struct, kw_only=True):
    """Tokens: those of the prompt are the sum of the first three."""

    input_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, num_prompt_tokens: int, num_output_tokens: int, num_cached_tokens: int) -> "MessageUsage":
        """From all tokens of the prompt, those of the answer, and those of the prompt that came from the prefix cache."""
        return cls(
            input_tokens=num_prompt_tokens - num_cached_tokens,
            cache_read_input_tokens=num_cached_tokens,
            output_tokens=num_output_tokens,
        )


class MessagesResponse(msgspec.Struct, kw_only=True):
    """An answer; without content and reason, what a stream begins with."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[OutputText]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage


class CountTokensResponse(msgspec.Struct, kw_only=True):
    """Tokens of the prompt that the conversation becomes."""

    input_tokens: int
