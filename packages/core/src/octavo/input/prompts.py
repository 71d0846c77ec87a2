"""The forms a prompt may have, and the one that the engine takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from octavo.errors import InvalidRequestError, shown
from octavo.input.batch import say_which
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer

Message: TypeAlias = Mapping[str, Any]
"""One message of a conversation: `role`, `content` and what else the chat template reads."""

Prompt: TypeAlias = str | Sequence[int] | Mapping[str, Any] | Sequence[Message]
"""Text, token ids, `{"prompt": text}` or `{"prompt_token_ids": ids}`, or the messages of a conversation."""

_FORMS = "text, a list of token ids, {'prompt_token_ids': […]}, {'prompt': text} or a list of messages"


@dataclass(frozen=True, kw_only=True)
class TokenizedPrompt:
    """A prompt as the engine takes it.

    Attributes:
        text: what was tokenized (after the chat template); None where token ids were given.
        token_ids: at least one, each in the vocabulary.
    """

    text: str | None
    token_ids: list[int]


@dataclass(frozen=True, kw_only=True)
class _Plain:
    """A prompt brought down to text or token ids; of `text` and `token_ids` one is None."""

    text: str | None = None
    adds_special_tokens: bool = False
    token_ids: list[Any] | None = None


class PromptReader:
    """Turns prompts of every form into checked token ids. Every refusal is an `InvalidRequestError`.

    Args:
        tokenizer: of the model.
        chat_template: of the model; without source, conversations are refused.
        vocab_size: ids from here on are refused.
    """

    def __init__(self, *, tokenizer: Tokenizer, chat_template: ChatTemplate, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._vocab_size = vocab_size

    def read(self, prompts: Sequence[object], *, numbered: bool = True) -> list[TokenizedPrompt]:
        """Prompts of any form. Text gets the special tokens that the tokenizer adds; a conversation asks for an answer.

        Args:
            prompts: of whatever forms.
            numbered: name the number of the prompt that is refused.
        """
        return self._read_each(prompts, self._plain, numbered=numbered)

    def read_chats(
        self,
        conversations: Sequence[object],
        *,
        numbered: bool = True,
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[TokenizedPrompt]:
        """Conversations through the chat template, which writes its special tokens itself.

        Args:
            conversations: lists of messages, which are mappings with `role` and `content`.
            numbered: name the number of the conversation that is refused.
            add_generation_prompt: end with the header of the answer.
            template_kwargs: further names for the template.
        """

        def render(conversation: object) -> _Plain:
            return self._rendered(conversation, add_generation_prompt=add_generation_prompt, template_kwargs=template_kwargs or {})

        return self._read_each(conversations, render, numbered=numbered)

    def _read_each(self, prompts: Sequence[object], simplify: Callable[[object], _Plain], *, numbered: bool) -> list[TokenizedPrompt]:
        plain = []
        for index, prompt in enumerate(prompts):
            with say_which(index if numbered else None):
                plain.append(simplify(prompt))
        tokenized = self._tokenize(plain)
        for index, prompt in enumerate(tokenized):
            with say_which(index if numbered else None):
                self._check(prompt.token_ids)
        return tokenized

    def _plain(self, prompt: object) -> _Plain:
        if isinstance(prompt, str):
            return _Plain(text=prompt, adds_special_tokens=True)
        if isinstance(prompt, Mapping):
            return _plain_mapping(prompt)
        if isinstance(prompt, Sequence) and not isinstance(prompt, (bytes, bytearray)):
            if prompt and isinstance(prompt[0], Mapping):
                return self._rendered(prompt, add_generation_prompt=True, template_kwargs={})
            return _Plain(token_ids=list(prompt))
        raise _refusal(f"a prompt is {_FORMS}, not {type(prompt).__name__}")

    def _rendered(self, messages: object, *, add_generation_prompt: bool, template_kwargs: Mapping[str, Any]) -> _Plain:
        if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
            raise _refusal(f"a conversation is a list of messages, not {type(messages).__name__}")
        text = self._chat_template.render(messages, add_generation_prompt=add_generation_prompt, **template_kwargs)
        return _Plain(text=text)

    def _tokenize(self, prompts: list[_Plain]) -> list[TokenizedPrompt]:
        """All texts at once, on all cores."""
        token_ids = [prompt.token_ids or [] for prompt in prompts]
        for adds_special_tokens in (True, False):
            places = [
                place
                for place, prompt in enumerate(prompts)
                if prompt.text is not None and prompt.adds_special_tokens is adds_special_tokens
            ]
            if places:
                texts = [str(prompts[place].text) for place in places]
                batch = self._tokenizer.encode_batch(texts, add_special_tokens=adds_special_tokens)
                for place, ids in zip(places, batch, strict=True):
                    token_ids[place] = ids
        return [TokenizedPrompt(text=prompt.text, token_ids=ids) for prompt, ids in zip(prompts, token_ids, strict=True)]

    def _check(self, token_ids: list[Any]) -> None:
        if not token_ids:
            raise _refusal("the prompt has no tokens: give at least one")
        if not _are_plain_ids(token_ids, self._vocab_size):
            wrong = next(item for item in token_ids if type(item) is not int or not 0 <= item < self._vocab_size)
            raise _refusal(f"token id {shown(wrong)} is not one of the model's, which are integers in [0, {self._vocab_size})")


def _plain_mapping(prompt: Mapping[str, Any]) -> _Plain:
    if "prompt_token_ids" in prompt:
        token_ids = prompt["prompt_token_ids"]
        if not isinstance(token_ids, Sequence) or isinstance(token_ids, (str, bytes, bytearray)):
            raise _refusal(f"token ids are a list of integers, not {type(token_ids).__name__}")
        return _Plain(token_ids=list(token_ids))
    if "prompt" in prompt:
        if not isinstance(prompt["prompt"], str):
            raise _refusal(f"'prompt' is text, not {type(prompt['prompt']).__name__}")
        return _Plain(text=prompt["prompt"], adds_special_tokens=True)
    raise _refusal(f"a prompt is {_FORMS}, not a mapping with the keys {', '.join(map(shown, prompt)) or 'none'}")


def split_prompts(prompts: object) -> tuple[list[object], bool]:
    """A list of prompts, and whether it was one: a single prompt becomes a list of one.

    A list is a single prompt where it begins with an integer (token ids) or with a message.

    Raises:
        InvalidRequestError: there is no prompt in it.
    """
    if not isinstance(prompts, Sequence) or isinstance(prompts, (str, bytes)):
        return [prompts], False
    if not prompts:
        raise _refusal("there is no prompt: give at least one")
    first = prompts[0]
    if isinstance(first, int) or (isinstance(first, Mapping) and "role" in first):
        return [prompts], False
    return list(prompts), True


def _are_plain_ids(token_ids: list[Any], vocab_size: int) -> bool:
    """The same check as one by one, at the speed of the built-ins."""
    return set(map(type, token_ids)) == {int} and min(token_ids) >= 0 and max(token_ids) < vocab_size


def _refusal(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, param="prompt")
