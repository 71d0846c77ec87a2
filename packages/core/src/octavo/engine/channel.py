"""Whole messages over a stream socket: each is preceded by its length, four bytes, little-endian."""

import socket
from collections.abc import Callable

_LENGTH_BYTES = 4
_READ_BYTES = 1 << 16


class ChannelClosed(Exception):  # noqa: N818 - the ordinary end of a conversation
    """The other end is gone."""


class Channel:
    """One end; belongs to one thread.

    Args:
        connection: a connected stream socket; the channel's from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._received = bytearray()

    def fileno(self) -> int:
        """Descriptor to wait on."""
        return self._connection.fileno()

    def send(self, message: bytes, wait: Callable[[], None]) -> None:
        """Send a message. Raises `ChannelClosed` where nobody takes it.

        Args:
            wait: called where there is no room at the moment; returns when there may be some.
        """
        left = memoryview(len(message).to_bytes(_LENGTH_BYTES, "little") + message)
        while left:
            try:
                left = left[self._connection.send(left) :]
            except BlockingIOError:
                wait()
            except ConnectionError as error:
                raise ChannelClosed from error

    def take(self) -> bytes | None:
        """The next message, None where it has not come in full. Never waits. Raises `ChannelClosed` where nothing more can come."""
        while (message := self._split()) is None:
            try:
                part = self._connection.recv(_READ_BYTES)
            except BlockingIOError:
                return None
            except ConnectionError as error:
                raise ChannelClosed from error
            if not part:
                raise ChannelClosed
            self._received += part
        return message

    def receive(self, wait: Callable[[], None]) -> bytes:
        """The next message; `wait` is called where nothing is there, and returns when there may be something."""
        while (message := self.take()) is None:
            wait()
        return message

    def close(self) -> None:
        """Hang up; calling it twice is fine."""
        self._connection.close()

    def _split(self) -> bytes | None:
        """Cut a complete message off what has been received."""
        end = _LENGTH_BYTES + int.from_bytes(self._received[:_LENGTH_BYTES], "little")
        if len(self._received) < max(end, _LENGTH_BYTES):
            return None
        message = bytes(memoryview(self._received)[_LENGTH_BYTES:end])
        del self._received[:end]
        return message
