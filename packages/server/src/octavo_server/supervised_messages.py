"""What the supervisor and an API process tell each other: JSON lines over a socket pair."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import msgspec

from octavo.engine.wire import Failure
from octavo_server.launch import Launch


class Serve(msgspec.Struct, frozen=True, kw_only=True, tag="serve"):
    """All that the supervisor says: what to serve, where the engine is, and which of its clients to be."""

    launch: Launch
    folder: str
    client: int


class EngineLost(msgspec.Struct, frozen=True, kw_only=True, tag="engine_lost"):
    """An engine is lost to the process.

    Attributes:
        process: id of the lost engine's: another one may be loading by the time that this is read.
        reason: what is known of why.
    """

    process: int | None
    reason: str


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The process takes requests."""


FromChild = Ready | EngineLost | Failure

T = TypeVar("T")

_LONGEST_LINE = 16 * 2**20


class Mailbox(Generic[T]):
    """One end. `T` is what the other end says.

    Args:
        reader, writer: of the connection; made by `open_mailbox`.
        kind: of the messages that come.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kind: type[T]) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = msgspec.json.Decoder(kind)

    def say(self, message: object) -> None:
        """Send, without waiting; an end that is gone hears nothing."""
        self._writer.write(msgspec.json.encode(message) + b"\n")

    async def listen(self) -> AsyncIterator[T]:
        """What the other end says, until it is gone."""
        try:
            while line := await self._reader.readline():
                yield self._decoder.decode(line)
        except ConnectionError:
            return

    async def close(self) -> None:
        """Send what is still to be sent, and hang up."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


async def open_mailbox(connection: socket.socket, kind: type[T]) -> Mailbox[T]:
    """One end over a connected socket, which belongs to it from now on."""
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_LONGEST_LINE)
    return Mailbox(reader, writer, kind)
