"""Every exception that Octavo raises on purpose."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.outputs import RequestOutput


MAX_SHOWN = 200
"""Characters of a value in a message."""


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
    """A value for a message: its `repr`, cut where it is long, so that a message stays a line whatever was sent."""
    try:
        text = repr(value)
    except ValueError:
        # An integer of thousands of digits, which Python refuses to write out.
        return f"<{type(value).__name__} too large to show>"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text):,} characters)"


class RequestFailedError(OctavoError, RuntimeError):
    """A request ended with an error while the engine lives on.

    `outputs` are those of all prompts of the call, in order; the failed ones have a choice with `finish_reason` "error".
    """

    def __init__(self, message: str, *, outputs: "Sequence[RequestOutput]" = ()) -> None:
        super().__init__(message)
        self.outputs = outputs


class EngineDeadError(OctavoError, RuntimeError):
    """The engine cannot go on; what it was running is lost."""
