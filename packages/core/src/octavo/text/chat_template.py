"""Messages to a prompt, by the jinja template that a model brings.

Templates come with checkpoints, so they run in a sandbox that reaches nothing but what they are given. What they may use
is what Transformers offers them: https://huggingface.co/docs/transformers/chat_templating
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from octavo.errors import InvalidRequestError
from octavo.text.messages import check_messages

MAX_RENDERED_CHARACTERS = 32 << 20
_RESERVED = frozenset({"messages", "tools", "documents", "tokenize", "add_generation_prompt", "chat_template"})
# What an expression of a template can raise when it meets messages that it was not written for.
_EXPRESSION_ERRORS = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class ChatTemplate:
    """A chat template, compiled when it is first used.

    A rendered prompt holds whatever special tokens the model wants, BOS too: encode it with `add_special_tokens=False`.

    Args:
        source: jinja text; None for a model that has no template, where only `render` fails.
        special_tokens: names that the template may use, such as "bos_token", and their spellings.
        max_characters: cap on a rendered prompt.
    """

    def __init__(
        self, source: str | None, *, special_tokens: Mapping[str, str] | None = None, max_characters: int = MAX_RENDERED_CHARACTERS
    ) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens or {})
        self._max_characters = max_characters

    def render(self, messages: Sequence[Mapping[str, Any]], /, *, add_generation_prompt: bool = True, **kwargs: Any) -> str:
        """The prompt for a conversation.

        Args:
            messages: at least one, each with "role" and "content" (a string, or text parts, which are joined).
            add_generation_prompt: end with what opens the assistant's answer.
            kwargs: further names for the template; they may not replace what is Octavo's to give.

        Raises:
            InvalidRequestError: bad messages or names, no template, or one that refuses these messages (with its own words).
        """
        if reserved := sorted(_RESERVED & kwargs.keys()):
            raise InvalidRequestError(f"chat template arguments may not set {', '.join(reserved)}", param="chat_template_kwargs")
        conversation = check_messages(messages)
        names = self._special_tokens | kwargs | {"messages": conversation, "add_generation_prompt": add_generation_prompt}
        try:
            return self._join(self._template.generate(names))
        except _EXPRESSION_ERRORS as error:
            if isinstance(error, InvalidRequestError):
                raise
            raise InvalidRequestError(f"the chat template refuses these messages: {error}", param="messages") from error

    @cached_property
    def _template(self) -> Template:
        if self.source is None:
            raise InvalidRequestError(
                "this model brings no chat template: pass one with --chat-template, or send a prompt instead of messages", param="messages"
            )
        return _environment().from_string(self.source)

    def _join(self, parts: Any) -> str:
        rendered: list[str] = []
        length = 0
        for part in parts:
            length += len(part)
            if length > self._max_characters:
                raise InvalidRequestError(f"the rendered prompt is longer than {self._max_characters} characters", param="messages")
            rendered.append(part)
        return "".join(rendered)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationTag])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's part for training; for a prompt it is what is inside."""

    tags = {"generation"}  # noqa: RUF012  (jinja declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Read up to the end tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is: jinja's own filter escapes characters of HTML, and models were not trained on that."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
