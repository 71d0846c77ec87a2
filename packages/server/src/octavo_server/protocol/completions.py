"""Bodies of `/v1/completions`."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from octavo.errors import InvalidRequestError, shown
from octavo_server.protocol.envelope import Envelope
from octavo_server.protocol.fields import Choices, NumLogprobs, Prompts
from octavo_server.protocol.generation_fields import GenerationFields
from octavo_server.protocol.logprobs import CompletionLogprobs, PromptLogprob

DEFAULT_MAX_TOKENS = 16


class CompletionRequest(GenerationFields, kw_only=True):
    """Prompts to continue.

    Attributes:
        echo: answer with the prompt in front, its log-probabilities too.
        logprobs: 0 is the tokens' own.
        add_special_tokens: put those around a text that the tokenizer adds, such as BOS.
        best_of: choices are not made to be thrown away, so it must equal `n`.
    """

    prompt: Prompts = None
    echo: bool | None = None
    logprobs: NumLogprobs = None
    best_of: Choices = None
    add_special_tokens: bool | None = None

    @property
    def output_limit(self) -> int:
        """Output tokens at most."""
        return DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def wanted_prompt_logprobs(self) -> int | None:
        """Likeliest tokens that are needed at each one of the prompt."""
        wanted = [count for count in (self.prompt_logprobs, self.logprobs if self.echo else None) if count is not None]
        return max(wanted, default=None)

    def check(self) -> None:
        """Refuse what no field's type says. Raises `InvalidRequestError`."""
        super().check()
        n = self.num_choices
        if self.best_of is not None and self.best_of != n:
            raise InvalidRequestError(
                f"best_of is {shown(self.best_of)}, which this server does not support: leave it out, or send n, which is {shown(n)}",
                param="best_of",
            )

    def prompts(self, most: int) -> list[object]:
        """The prompts, each a text or a mapping with token ids, for `PromptReader.read`. Raises `InvalidRequestError`.

        Args:
            most: sequences that one request may have, `n` for each prompt.
        """
        given = self.prompt
        if given is None:
            raise InvalidRequestError("prompt is missing: send text, token ids, or a list of either", param="prompt")
        prompts = _split(given)
        self.check_sequences(len(prompts), most)
        return [_simple(prompt) for prompt in prompts]


def _split(given: Any) -> list[Any]:
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list):
        raise InvalidRequestError(f"prompt is text, token ids, or a list of either, not {shown(given)}", param="prompt")
    if not given:
        raise InvalidRequestError("prompt is an empty list: send at least one text or token id", param="prompt")
    return given if isinstance(given[0], str | list) else [given]


def _simple(prompt: Any) -> object:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list):
        return {"prompt_token_ids": prompt}
    raise InvalidRequestError(
        f"prompt holds {shown(prompt)} among others of another kind: send texts, or lists of token ids", param="prompt"
    )


class CompletionChoice(msgspec.Struct, kw_only=True):
    """One continuation, or a part of it. `stop_reason` is the stop string or stop token id that ended it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET
    token_ids: list[int] | UnsetType = UNSET


class CompletionResponse(Envelope, kw_only=True):
    """All continuations of all prompts, or in a stream a part of one."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[CompletionChoice]
