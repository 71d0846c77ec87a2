"""The forms a prompt may have, and the one that the engine takes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

from octavo.errors import InvalidRequestError, shown
from octavo.input.batch import say_which
from octavo.input.length import QUICK, TakesLongError, refuse_far_too_long
from octavo.input.truncation import Truncation
from octavo.text.chat_template import ChatTemplate, TemplateLimitError, refuse_reserved
from octavo.text.template_meter import RenderLimits
from octavo.text.tokenizer import Tokenizer

Message: TypeAlias = Mapping[str, Any]
"""One message of a conversation: `role`, `content` and what else the chat template reads."""

Prompt: TypeAlias = str | Sequence[int] | Mapping[str, Any] | Sequence[Message]
"""Text, token ids, `{"prompt": text}` or `{"prompt_token_ids": ids}`, both with `cache_salt` or without, or messages of a conversation."""

MAX_SALT_LENGTH = 256
_FORMS = "text, a list of token ids, {'prompt_token_ids': […]}, {'prompt': text} or a list of messages"
_KEYS = ("prompt", "prompt_token_ids", "cache_salt")
_MAX_KEYS_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class TokenizedPrompt:
    """A prompt as the engine takes it.

    Attributes:
        text: what was tokenized (after the chat template); None where token ids were given, and where the prompt was cut.
        token_ids: at least one, each in the vocabulary.
        cache_salt: cached prefixes are shared between prompts of one salt only.
    """

    text: str | None
    token_ids: list[int]
    cache_salt: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Plain:
    """A prompt brought down to text or token ids; of `text` and `token_ids` one is None."""

    text: str | None = None
    adds_special_tokens: bool = False
    token_ids: list[Any] | None = None
    cache_salt: str | None = None


class PromptReader:
    """Turns prompts of every form into checked token ids. Every refusal is an `InvalidRequestError`.

    Args:
        tokenizer: of the model.
        chat_template: of the model; without source, conversations are refused.
        vocab_size: ids from here on are refused.
        max_model_len: texts that are far too long for this context are refused before they are tokenized; None: none are.
    """

    def __init__(self, *, tokenizer: Tokenizer, chat_template: ChatTemplate, vocab_size: int, max_model_len: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._vocab_size = vocab_size
        self._max_model_len = max_model_len

    def read(
        self,
        prompts: Sequence[object],
        *,
        numbered: bool = True,
        add_special_tokens: bool = True,
        truncation: Truncation | None = None,
        quick: bool = False,
    ) -> list[TokenizedPrompt]:
        """Prompts of any form. A conversation asks for an answer.

        Args:
            prompts: of whatever forms.
            numbered: name the number of the prompt that is refused.
            add_special_tokens: give text the special tokens that the tokenizer adds.
            truncation: None: a prompt stays as long as it is.
            quick: raise `TakesLongError` where a conversation takes noticeable time.
        """

        def simplify(prompt: object) -> _Plain:
            return self._plain(prompt, adds_special_tokens=add_special_tokens, quick=quick)

        return self._read_each(prompts, simplify, numbered=numbered, truncation=truncation, is_to_run=True)

    def read_chats(
        self,
        conversations: Sequence[object],
        *,
        numbered: bool = True,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: Mapping[str, Any] | None = None,
        chat_template: ChatTemplate | None = None,
        add_special_tokens: bool = False,
        truncation: Truncation | None = None,
        is_to_run: bool = True,
        quick: bool = False,
    ) -> list[TokenizedPrompt]:
        """Conversations through the chat template, which writes its special tokens itself.

        Args:
            conversations: lists of messages, which are mappings with `role` and `content`.
            numbered: name the number of the conversation that is refused.
            add_generation_prompt: end with the header of the answer.
            continue_final_message: end where the content of the last message does; not together with `add_generation_prompt`.
            template_kwargs: further names for the template.
            chat_template: another template than the model's.
            add_special_tokens: give the rendered text those that the tokenizer adds, too; a BOS that is there is not doubled.
            truncation: None: a prompt stays as long as it is.
            is_to_run: False: it is tokenized however long it is, as to count its tokens.
            quick: as for `read`.
        """
        template = chat_template or self._chat_template
        names = {} if template_kwargs is None else template_kwargs
        refuse_reserved(names)

        def render(conversation: object) -> _Plain:
            with _quickly(template, quick) as limits:
                text = template.render_with(
                    _checked_conversation(conversation),
                    names,
                    add_generation_prompt=add_generation_prompt,
                    continue_final_message=continue_final_message,
                    limits=limits,
                )
            return _Plain(text=text, adds_special_tokens=add_special_tokens)

        return self._read_each(conversations, render, numbered=numbered, truncation=truncation, is_to_run=is_to_run)

    def _read_each(
        self,
        prompts: Sequence[object],
        simplify: Callable[[object], _Plain],
        *,
        numbered: bool,
        truncation: Truncation | None,
        is_to_run: bool,
    ) -> list[TokenizedPrompt]:
        plain: list[_Plain] = []
        for index, prompt in enumerate(prompts):
            with say_which(index if numbered else None):
                plain.append(simplify(prompt))
                if is_to_run and truncation is None and self._max_model_len is not None and (text := plain[-1].text) is not None:
                    refuse_far_too_long(text, self._tokenizer, self._max_model_len)
        tokenized = self._tokenize(plain)
        for index, prompt in enumerate(tokenized):
            with say_which(index if numbered else None):
                self._check(prompt.token_ids)
        return tokenized if truncation is None else [_truncated(prompt, truncation) for prompt in tokenized]

    def _plain(self, prompt: object, *, adds_special_tokens: bool, quick: bool) -> _Plain:
        if isinstance(prompt, str):
            return _Plain(text=prompt, adds_special_tokens=adds_special_tokens)
        if isinstance(prompt, Mapping):
            return _plain_mapping(prompt, adds_special_tokens=adds_special_tokens)
        if isinstance(prompt, Sequence) and not isinstance(prompt, (bytes, bytearray)):
            if prompt and isinstance(prompt[0], Mapping):
                with _quickly(self._chat_template, quick) as limits:
                    return _Plain(text=self._chat_template.render_with(prompt, {}, limits=limits))
            return _Plain(token_ids=list(prompt))
        raise _refusal(f"a prompt is {_FORMS}, not {type(prompt).__name__}")

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
        return [
            TokenizedPrompt(text=prompt.text, token_ids=ids, cache_salt=prompt.cache_salt)
            for prompt, ids in zip(prompts, token_ids, strict=True)
        ]

    def _check(self, token_ids: list[Any]) -> None:
        if not token_ids:
            raise _refusal("the prompt has no tokens: give at least one")
        if not _are_plain_ids(token_ids, self._vocab_size):
            wrong = next(item for item in token_ids if type(item) is not int or not 0 <= item < self._vocab_size)
            raise _refusal(f"token id {shown(wrong)} is not one of the model's, which are integers in [0, {self._vocab_size})")


def _checked_conversation(messages: object) -> Sequence[Message]:
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise _refusal(f"a conversation is a list of messages, not {type(messages).__name__}")
    return messages


def _truncated(prompt: TokenizedPrompt, truncation: Truncation) -> TokenizedPrompt:
    kept = truncation.apply(prompt.token_ids)
    return prompt if kept is prompt.token_ids else replace(prompt, text=None, token_ids=kept)


@contextmanager
def _quickly(template: ChatTemplate, quick: bool) -> Iterator[RenderLimits]:
    """What a rendering inside may take: of one that has to be quick, `TakesLongError` says that it is not."""
    if not quick:
        yield RenderLimits()
        return
    if template.source is not None and not template.is_compiled:
        raise TakesLongError
    try:
        yield QUICK
    except TemplateLimitError as error:
        raise TakesLongError from error


def _plain_mapping(prompt: Mapping[str, Any], *, adds_special_tokens: bool) -> _Plain:
    _check_keys(prompt)
    salt = prompt.get("cache_salt")
    if salt is not None and not _is_salt(salt):
        raise _refusal(f"'cache_salt' is {shown(salt)}, but must be text of 1 to {MAX_SALT_LENGTH} characters: leave it out to share")
    if "prompt_token_ids" in prompt:
        token_ids = prompt["prompt_token_ids"]
        if not isinstance(token_ids, Sequence) or isinstance(token_ids, (str, bytes, bytearray)):
            raise _refusal(f"token ids are a list of integers, not {type(token_ids).__name__}")
        return _Plain(token_ids=list(token_ids), cache_salt=salt)
    if not isinstance(prompt["prompt"], str):
        raise _refusal(f"'prompt' is text, not {type(prompt['prompt']).__name__}")
    return _Plain(text=prompt["prompt"], adds_special_tokens=adds_special_tokens, cache_salt=salt)


def _is_salt(salt: object) -> bool:
    return isinstance(salt, str) and 0 < len(salt) <= MAX_SALT_LENGTH and not any("\ud800" <= character <= "\udfff" for character in salt)


def _check_keys(prompt: Mapping[str, Any]) -> None:
    """One of the forms, and nothing that would be passed over."""
    forms = [key for key in ("prompt", "prompt_token_ids") if key in prompt]
    if not forms:
        keys = ", ".join(map(shown, islice(prompt, _MAX_KEYS_SHOWN))) or "none"
        raise _refusal(f"a prompt is {_FORMS}, not a mapping with the keys {keys}")
    if len(forms) > 1:
        raise _refusal("a prompt has 'prompt' or 'prompt_token_ids', not both: leave one of them out")
    unknown = [key for key in prompt if key not in _KEYS]
    if unknown:
        raise _refusal(f"a prompt has the key {shown(unknown[0])}, which is unknown: there are {', '.join(_KEYS)}")


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
