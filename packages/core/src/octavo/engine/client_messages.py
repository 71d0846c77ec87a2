"""What clients and an engine process tell each other: one frame a message, a tagged union as msgpack.

A client opens a session with `Hello`; the engine answers `Ready` once it is, or `StartFailed`. Then the client adds, aborts and asks,
and the engine sends what requests gained. Both beat, so that each notices where the other is silent.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec

from octavo.config.engine import Decision
from octavo.engine.load import LoadReport
from octavo.engine.messages import EngineOutput, EngineRequest, ModelInfo
from octavo.engine.wire import Failure
from octavo.errors import InvalidRequestError
from octavo.metrics.stats import EngineStats

MAX_CLIENTS = 1024
"""Clients of one engine are numbered below this."""

MAX_REQUEST_BYTES = 64 << 20
"""The longest message to an engine. A prompt of ten million tokens fits."""

MAX_OUTPUT_BYTES = 512 << 20
"""The longest message to a client. The log-probabilities of a prompt of a million tokens, with twenty alternatives each, fit."""

BEAT_S = 0.5
"""Seconds between two beats."""

Question: TypeAlias = Literal["reset_prefix_cache", "stats", "ping"]


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """Opens a session; an older one of the same client ends. The same again is answered again, and changes nothing.

    Attributes:
        client: its number.
        session: drawn anew for each session.
    """

    client: Annotated[int, msgspec.Meta(ge=0, lt=MAX_CLIENTS)]
    session: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Add(msgspec.Struct, frozen=True, kw_only=True, tag="add"):
    """Queue the requests of one prompt, which the first one bears; the others leave it out (see `pack_add`)."""

    requests: Annotated[list[EngineRequest], msgspec.Meta(min_length=1)]


class Abort(msgspec.Struct, frozen=True, kw_only=True, tag="abort"):
    """End requests without another output."""

    request_ids: list[str]


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """End a request whose text met a stop string after so many output tokens."""

    request_id: str
    num_output_tokens: Annotated[int, msgspec.Meta(ge=0)]


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag="ask"):
    """Is answered between two steps by an `Answer` with the same number."""

    number: int
    question: Question


class ClientBeat(msgspec.Struct, frozen=True, kw_only=True, tag="beat"):
    """The client is there."""


class Goodbye(msgspec.Struct, frozen=True, kw_only=True, tag="goodbye"):
    """The session ends, and its requests with it."""


ClientMessage: TypeAlias = Hello | Add | Abort | Finish | Ask | ClientBeat | Goodbye


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The session stands.

    Attributes:
        session: of the `Hello` that is answered.
        instance: drawn anew at each start of the engine.
        engine: number of the engine.
        process: id of its process.
        info: limits of the engine.
        decisions: every "auto" with its reason, for logs.
        report: how much the engine has to do.
    """

    session: str
    instance: str
    engine: int
    process: int
    info: ModelInfo
    decisions: tuple[Decision, ...]
    report: LoadReport


class StartFailed(msgspec.Struct, frozen=True, kw_only=True, tag="start_failed"):
    """The engine could not be started."""

    failure: Failure


class Stranger(msgspec.Struct, frozen=True, kw_only=True, tag="stranger"):
    """There is no session: say hello."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True, tag="outputs"):
    """What the client's requests gained in a step, or in several."""

    outputs: list[EngineOutput]
    report: LoadReport


class EngineBeat(msgspec.Struct, frozen=True, kw_only=True, tag="beat"):
    """The engine is there."""

    report: LoadReport


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """To an `Ask`; one of `failure` and `value` is meant."""

    number: int
    value: bool | EngineStats | None = None
    failure: Failure | None = None


class Dead(msgspec.Struct, frozen=True, kw_only=True, tag="dead"):
    """The engine cannot go on; its requests are lost."""

    reason: str


EngineMessage: TypeAlias = Ready | StartFailed | Stranger | Outputs | EngineBeat | Answer | Dead

encode = msgspec.msgpack.Encoder().encode
_decode_client_message: Callable[[bytes], ClientMessage] = msgspec.msgpack.Decoder[ClientMessage](ClientMessage).decode
_decode_engine_message: Callable[[bytes], EngineMessage] = msgspec.msgpack.Decoder[EngineMessage](EngineMessage).decode


class BadMessageError(Exception):
    """What came is no message of this protocol, or breaks its rules."""


def decode_client_message(frame: bytes) -> ClientMessage:
    """Raises `BadMessageError` for whatever else came."""
    _check_size(frame, MAX_REQUEST_BYTES)
    try:
        return _decode_client_message(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessageError(str(error)) from error


def decode_engine_message(frame: bytes) -> EngineMessage:
    """Raises `BadMessageError` for whatever else came."""
    _check_size(frame, MAX_OUTPUT_BYTES)
    try:
        return _decode_engine_message(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessageError(str(error)) from error


def pack_add(requests: Sequence[EngineRequest]) -> bytes:
    """The `Add` for the requests of one prompt, encoded. Raises `InvalidRequestError` where it becomes too long to be sent."""
    first, *others = requests
    assert all(other.token_ids is first.token_ids for other in others), "the requests of a group share their prompt"
    assert all(other.bad_sequences == first.bad_sequences for other in others), "the requests of a group share their bad words"
    packed = encode(Add(requests=[first, *(msgspec.structs.replace(other, token_ids=[], bad_sequences=[]) for other in others)]))
    if len(packed) > MAX_REQUEST_BYTES:
        raise InvalidRequestError(
            f"the request takes {len(packed):,} bytes on its way to the engine, and at most {MAX_REQUEST_BYTES:,} are taken: shorten it"
        )
    return packed


def unpack_add(message: Add, *, client: int) -> list[EngineRequest]:
    """The requests of an `Add`, whole again and bearing the number of their client."""
    first = message.requests[0]
    shared = {"token_ids": first.token_ids, "bad_sequences": first.bad_sequences, "client": client}
    return [msgspec.structs.replace(request, **shared) for request in message.requests]


def pack_outputs(outputs: list[EngineOutput], report: LoadReport) -> Iterator[bytes]:
    """The `Outputs`, encoded: one message, or several where it would be too long."""
    packed = encode(Outputs(outputs=outputs, report=report))
    if len(packed) <= MAX_OUTPUT_BYTES:
        yield packed
        return
    assert len(outputs) > 1, "a request whose output cannot be sent is refused"
    middle = len(outputs) // 2
    yield from pack_outputs(outputs[:middle], report)
    yield from pack_outputs(outputs[middle:], report)


def _check_size(frame: bytes, limit: int) -> None:
    if len(frame) > limit:
        raise BadMessageError(f"{len(frame):,} bytes, but at most {limit:,} are taken")
