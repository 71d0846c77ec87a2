"""Every exception that Octavo raises on purpose."""

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.outputs import RequestOutput


MAX_SHOWN = 200
"""Characters of a value in a message."""

MAX_DESCRIBED = 2000
"""Characters of another's message in a message."""


class OctavoError(Exception):
    """Root of the tree: catch it to catch whatever Octavo itself reports."""


class ConfigurationError(OctavoError, ValueError):
    """A flag, a keyword or a file names something that cannot be: the message says the value, the limit and the way out."""


class InvalidRequestError(OctavoError, ValueError):
    """A request is refused before it is queued; nothing of anybody else's is touched.

    `param` names the field at fault, `code` is the machine-readable kind (such as `context_length_exceeded`).
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ModelNotFoundError(ConfigurationError):
    """No source, folder, file or hub repository answers to the name of a model."""


class CheckpointError(OctavoError, ValueError):
    """A checkpoint is incomplete, damaged, of an unknown kind, or holds something that Octavo refuses to run."""


class PluginError(OctavoError):
    """A plugin failed to load, registered a name twice or registered something that does not exist."""


def shown(value: object) -> str:
    """A value for a message: its `repr`, cut where it is long, so that a message stays a line whatever was sent.

    Of a container that is large or deep only some of what is inside is looked at. Never raises.
    """
    is_container = isinstance(value, list | tuple | dict | set | frozenset)
    try:
        text = _container_repr.repr(value) if is_container else repr(value)
    except Exception as error:  # noqa: BLE001 - a stranger's `__repr__` may raise anything, and this is to say what is wrong with it
        # Python refuses to write out an integer of thousands of digits.
        problem = "too large to show" if isinstance(error, ValueError) else "that cannot be shown"
        return f"<{type(value).__name__} {problem}>"
    if len(text) <= MAX_SHOWN:
        return text
    return f"{text[:MAX_SHOWN]}…" if is_container else f"{text[:MAX_SHOWN]}… ({len(text):,} characters)"


_container_repr = reprlib.Repr()
_container_repr.maxlevel = 4
for _limit in ("maxlist", "maxtuple", "maxdict", "maxset", "maxfrozenset"):
    setattr(_container_repr, _limit, 64)
for _limit in ("maxstring", "maxlong", "maxother"):
    setattr(_container_repr, _limit, MAX_SHOWN)


def described(error: BaseException) -> str:
    """An exception for a message: its class and what it says, cut where that is long. A stranger's may fail to say anything."""
    try:
        text = str(error)
    except Exception as failure:  # noqa: BLE001 - a stranger's exception may fail at this too
        text = f"<no message, since making it raised {type(failure).__name__}>"
    cut = text if len(text) <= MAX_DESCRIBED else f"{text[:MAX_DESCRIBED]}… ({len(text):,} characters)"
    if cut and type(error) is Exception:
        return cut
    return f"{type(error).__name__}: {cut}" if cut else type(error).__name__


def summarized(error: BaseException) -> str:
    """The beginning of what an exception says, as one line: those of compilers and parsers go on for pages."""
    return " ".join(str(error).split())[:MAX_SHOWN]


class RequestFailedError(OctavoError, RuntimeError):
    """A request ended with an error while the engine lives on.

    `outputs` are those of all prompts of the call, in order; the failed ones have a choice with `finish_reason` "error".
    """

    def __init__(self, message: str, *, outputs: "Sequence[RequestOutput]" = ()) -> None:
        super().__init__(message)
        self.outputs = outputs


class EngineDeadError(OctavoError, RuntimeError):
    """The engine cannot go on; what it was running is lost."""
