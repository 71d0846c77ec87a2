"""Bodies of `/v1/chat/completions`."""

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from octavo.errors import InvalidRequestError, shown
from octavo_server.protocol.envelope import Envelope
from octavo_server.protocol.fields import MaxTokens, Messages, NumLogprobs
from octavo_server.protocol.generation_fields import GenerationFields
from octavo_server.protocol.logprobs import ChatLogprobs, PromptLogprob

if TYPE_CHECKING:
    from octavo.engine.messages import ModelInfo

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ChatRequest(GenerationFields, kw_only=True):
    """A conversation to answer.

    Attributes:
        add_generation_prompt: end the prompt with what opens the answer.
        continue_final_message: end it where the last message ends, to have that continued.
        add_special_tokens: put those around the prompt that the tokenizer adds to texts; templates write their own.
        chat_template: another one than the model's, where the server takes them.
        chat_template_kwargs: further names for the template.
        max_completion_tokens: the same as `max_tokens`, over which it goes.
        echo: answer with the text of the last message in front.
        logprobs: whether to give them.
        top_logprobs: likeliest tokens beside each one; needs `logprobs`.
        reasoning_effort: for the chat template, as `reasoning_effort` and `enable_thinking`.
    """

    messages: Messages
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    max_completion_tokens: MaxTokens = None
    echo: bool | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs = None
    reasoning_effort: ReasoningEffort | None = None

    @property
    def output_limit(self) -> int | None:
        """Output tokens at most; None: what the context leaves."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def num_logprobs(self) -> int | None:
        """Likeliest tokens beside each one; None: no log-probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def implied_names(self) -> dict[str, Any]:
        """What other fields tell the chat template."""
        effort = self.reasoning_effort
        return {} if effort is None else {"reasoning_effort": effort, "enable_thinking": effort != "none"}

    def check_for(self, info: "ModelInfo") -> None:
        """Refuse what no field's type says. Raises `InvalidRequestError`."""
        self.check()
        top = self.top_logprobs
        if top and not self.logprobs:
            raise InvalidRequestError("top_logprobs needs logprobs: set it to true, or leave both out", param="top_logprobs")
        if top is not None and not 0 <= top <= info.max_logprobs:
            raise InvalidRequestError(
                f"top_logprobs is {shown(top)}, but must be between 0 and {info.max_logprobs}: ask for fewer", param="top_logprobs"
            )


class ChatMessage(msgspec.Struct, kw_only=True):
    """The answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(msgspec.Struct, kw_only=True):
    """One answer. `stop_reason` is the stop string or stop token id that ended it."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    token_ids: list[int] | UnsetType = UNSET


class ChatDelta(msgspec.Struct, kw_only=True):
    """What a token adds to an answer; the role comes with the first."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str


class ChatChunkChoice(msgspec.Struct, kw_only=True):
    """One token of one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET
    token_ids: list[int] | UnsetType = UNSET


class PromptPart(Envelope, kw_only=True):
    """What is said of the prompt, once an answer."""

    prompt_logprobs: list[dict[str, PromptLogprob] | None] | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET


class ChatResponse(PromptPart, kw_only=True):
    """All answers."""

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]


class ChatChunk(PromptPart, kw_only=True):
    """One event of a stream."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChatChunkChoice]
