"""The clients of an engine process: who they are, which requests are theirs, and what waits to be sent to them."""

from collections import deque
from collections.abc import Iterator
from itertools import count

import zmq

from octavo.engine.client_messages import BadMessageError, Hello
from octavo.engine.messages import EngineRequest

MAX_OUTBOX_BYTES = 64 << 20
"""A client for which more than this waits is given up: it does not read."""


class Session:
    """One client from its hello on.

    Attributes:
        peer: address of its connection.
        hello: what it said.
        number: drawn anew for each session; the `client` of its requests.
        silence: beats of the engine since it was heard.
        request_ids: of its requests that the engine knows.
    """

    def __init__(self, peer: bytes, hello: Hello, number: int) -> None:
        self.peer = peer
        self.hello = hello
        self.number = number
        self.silence = 0
        self.request_ids: set[str] = set()
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0

    def __str__(self) -> str:
        return f"client {self.hello.client}"

    @property
    def has_mail(self) -> bool:
        """Whether something waits because the client did not read."""
        return bool(self._outbox)

    def send(self, socket: "zmq.Socket[bytes]", message: bytes) -> bool:
        """Send a message, or keep it until the client reads. False where the client is gone, or far too slow."""
        self._outbox.append(message)
        self._outbox_bytes += len(message)
        return self.flush(socket) and self._outbox_bytes <= MAX_OUTBOX_BYTES

    def flush(self, socket: "zmq.Socket[bytes]") -> bool:
        """Send what waits, as far as there is room. False where the client is gone."""
        while self._outbox:
            try:
                socket.send_multipart((self.peer, self._outbox[0]), zmq.NOBLOCK)
            except zmq.Again:
                return True
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                return False
            self._outbox_bytes -= len(self._outbox.popleft())
        return True


class Sessions:
    """All sessions, by connection, by client and by request."""

    def __init__(self) -> None:
        self._by_peer: dict[bytes, Session] = {}
        self._by_client: dict[int, Session] = {}
        self._owners: dict[str, Session] = {}
        self._numbers = count(1)

    def __iter__(self) -> Iterator[Session]:
        """A snapshot, so that sessions may end on the way."""
        return iter(list(self._by_peer.values()))

    def __len__(self) -> int:
        return len(self._by_peer)

    @property
    def num_requests(self) -> int:
        """Requests of all clients."""
        return len(self._owners)

    def of_peer(self, peer: bytes) -> Session | None:
        """The session of a connection."""
        return self._by_peer.get(peer)

    def of_client(self, client: int) -> Session | None:
        """The session of a client."""
        return self._by_client.get(client)

    def open(self, peer: bytes, hello: Hello) -> Session:
        """A new session; neither connection nor client has one."""
        assert peer not in self._by_peer
        assert hello.client not in self._by_client
        session = Session(peer, hello, next(self._numbers))
        self._by_peer[peer] = self._by_client[hello.client] = session
        return session

    def close(self, session: Session) -> list[str]:
        """End a session; the ids of its requests that the engine knows."""
        del self._by_peer[session.peer], self._by_client[session.hello.client]
        for request_id in session.request_ids:
            del self._owners[request_id]
        return list(session.request_ids)

    def own(self, session: Session, requests: list[EngineRequest]) -> None:
        """Note requests as a client's. Raises `BadMessageError`, and notes none, where an id is taken or a leader is not among them."""
        ids = {request.request_id for request in requests}
        if len(ids) < len(requests) or not ids.isdisjoint(self._owners):
            raise BadMessageError("the id of a request is in use")
        if any(request.leader not in ids for request in requests[1:]) or requests[0].leader is not None:
            raise BadMessageError("a request follows one of another prompt")
        session.request_ids |= ids
        self._owners.update(dict.fromkeys(ids, session))

    def owner(self, request_id: str) -> Session | None:
        """Whose request it is; None for one that has ended."""
        return self._owners.get(request_id)

    def disown(self, request_id: str) -> None:
        """A request has ended."""
        self._owners.pop(request_id).request_ids.remove(request_id)
