"""Messages to a prompt, by the jinja template that a model brings.

Templates come with checkpoints, so they run in a sandbox that reaches nothing but what they are given. What they may use
is what Transformers offers them: https://huggingface.co/docs/transformers/chat_templating
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from jinja2 import Template

from octavo.errors import MAX_SHOWN, InvalidRequestError, shown
from octavo.text.messages import check_messages
from octavo.text.template_environment import TemplateEnvironment
from octavo.text.template_filters import METER
from octavo.text.template_meter import LimitReachedError, Meter, RenderLimits

MAX_SOURCE_CHARACTERS = 1 << 17
_FULL = RenderLimits()
_RESERVED = frozenset({"messages", "tools", "documents", "tokenize", "add_generation_prompt", "continue_final_message", "chat_template"})
# Stands behind the content that is to be continued, so that templates may trim and rearrange what is before it; of private use in Unicode.
_CONTINUED_HERE = "\uf8f0continued here\uf8f1"


class TemplateLimitError(InvalidRequestError):
    """A rendering wants more time or memory than it may take."""


class ChatTemplate:
    """A chat template, compiled when it is first used; threads may share it.

    A rendered prompt holds whatever special tokens the model wants, BOS too: encode it with `add_special_tokens=False`.

    Args:
        source: jinja text; None for a model that has no template, where only rendering fails.
        special_tokens: names that the template may use, such as "bos_token", and their spellings.
    """

    def __init__(self, source: str | None, *, special_tokens: Mapping[str, str] | None = None) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens or {})

    def with_source(self, source: str) -> "ChatTemplate":
        """Another template for the same model."""
        return ChatTemplate(source, special_tokens=self._special_tokens)

    def problem(self) -> str | None:
        """What keeps the source from being a template at all, in one line; None where there is none, or where it compiles."""
        if self.source is None:
            return None
        try:
            _ = self._compiled
        except InvalidRequestError as error:
            return str(error)
        return None

    @property
    def is_compiled(self) -> bool:
        """Whether the first use, which takes longer, is over."""
        return "_compiled" in self.__dict__

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **names: Any,
    ) -> str:
        """`render_with` of keywords."""
        return self.render_with(messages, names, add_generation_prompt=add_generation_prompt, continue_final_message=continue_final_message)

    def render_with(
        self,
        messages: Sequence[Mapping[str, Any]],
        names: Mapping[str, Any],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        limits: RenderLimits = _FULL,
    ) -> str:
        """The prompt for a conversation. Messages of a developer are the system's where the template does not know that role.

        Args:
            messages: at least one, each with "role" and "content" (a string, or text parts, which are joined).
            names: further ones for the template; they may not replace what is Octavo's to give.
            add_generation_prompt: end with what opens the assistant's answer; nothing is added where the last message is continued.
            continue_final_message: end where the content of the last message ends.
            limits: what the rendering may take.

        Raises:
            TemplateLimitError: it would take more than that.
            InvalidRequestError: bad messages or names, no template, or one that refuses these messages (with its own words).
        """
        refuse_reserved(names)
        conversation = self._conversation(messages)
        if continue_final_message:
            conversation[-1]["content"] += _CONTINUED_HERE
        given = {"messages": conversation, "add_generation_prompt": add_generation_prompt and not continue_final_message}
        template = self._compiled
        try:
            text = _joined(template.generate({**self._special_tokens, **names, **given, METER: Meter(limits)}), limits)
        except LimitReachedError as error:
            raise TemplateLimitError(f"the chat template is stopped on these messages: {error}", param="messages") from error
        except Exception as error:
            # It is a program: there is nothing that it cannot raise.
            raise InvalidRequestError(f"the chat template refuses these messages: {_one_line(error)}", param="messages") from error
        return _up_to_continuation(text) if continue_final_message else text

    def _conversation(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        conversation = check_messages(messages)
        if self.source is not None and "developer" not in self.source:
            for message in conversation:
                if message["role"] == "developer":
                    message["role"] = "system"
        return conversation

    @cached_property
    def _compiled(self) -> Template:
        if self.source is None:
            raise InvalidRequestError(
                "this model brings no chat template: pass one with --chat-template, or send a prompt instead of messages", param="messages"
            )
        if len(self.source) > MAX_SOURCE_CHARACTERS:
            raise InvalidRequestError(
                f"the chat template has {len(self.source):,} characters, but at most {MAX_SOURCE_CHARACTERS:,} are taken", param="messages"
            )
        try:
            return TemplateEnvironment().from_string(self.source)
        except Exception as error:
            # Beside jinja's own errors those of Python, which the template becomes: too deep, too many blocks, numbers too large.
            raise InvalidRequestError(f"the chat template cannot be compiled: {_one_line(error)}", param="messages") from error


def _joined(parts: Iterable[str], limits: RenderLimits) -> str:
    rendered: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        if length > limits.characters:
            raise LimitReachedError(f"the prompt gets longer than {limits.characters:,} characters")
        rendered.append(part)
    return "".join(rendered)


def _one_line(error: Exception) -> str:
    """What an error says, cut where it is long; its kind where it says nothing."""
    text = " ".join(str(error).split())
    return text if 0 < len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…" if text else type(error).__name__


def refuse_reserved(names: object) -> None:
    """Raise `InvalidRequestError` for what is no mapping from names, and for names that are not a request's to give a template."""
    if not isinstance(names, Mapping):
        kind = type(names).__name__
        raise InvalidRequestError(f"chat template arguments are a mapping from names to values, not {kind}", param="chat_template_kwargs")
    for name in names:
        if not isinstance(name, str):
            raise InvalidRequestError(
                f"chat template arguments have the name {shown(name)}, which is no text", param="chat_template_kwargs"
            )
    if reserved := sorted(_RESERVED & names.keys()):
        raise InvalidRequestError(f"chat template arguments may not set {', '.join(reserved)}", param="chat_template_kwargs")


def _up_to_continuation(text: str) -> str:
    end = text.rfind(_CONTINUED_HERE)
    if end < 0:
        raise InvalidRequestError(
            "the chat template does not show the content of the last message, so that it cannot be continued", param="messages"
        )
    return text[:end].replace(_CONTINUED_HERE, "")
