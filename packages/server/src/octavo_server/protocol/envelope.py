"""What all parts of an answer have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

import octavo
from octavo_server.protocol.usage import Usage

SYSTEM_FINGERPRINT = f"octavo-{octavo.__version__}"


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What names an answer.

    Attributes:
        id: of the request, in the dialect's form.
        created: unix seconds.
        model: name of the model in answers.
    """

    id: str
    created: int
    model: str


class Envelope(msgspec.Struct, kw_only=True):
    """An answer, or a chunk of one. `usage` is left out where nobody asked for it, and null in chunks before the one that says it."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str
    choices: Sequence[Any]
    usage: Usage | UnsetType | None = UNSET
