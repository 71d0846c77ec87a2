"""The two ends of the connection between clients and an engine process.

Both ends bound what a peer can make them hold: a frame that is too long ends its connection, and an engine keeps a few messages for
a client in its socket only.
"""

import os
from pathlib import Path

import zmq

from octavo.engine.client_messages import MAX_OUTPUT_BYTES, MAX_REQUEST_BYTES
from octavo.engine.folder import socket_path

MESSAGES_IN_SOCKET = 64
"""Messages to one client that the engine's socket holds while the client does not read."""

RECONNECT_MS = 50


def listen(context: "zmq.Context[zmq.Socket[bytes]]", folder: Path, engine: int) -> "zmq.Socket[bytes]":
    """The engine's end. A send to a client that is not there, or does not read, raises `zmq.ZMQError`."""
    path = socket_path(folder, engine)
    router = context.socket(zmq.ROUTER)
    router.set(zmq.LINGER, 0)
    router.set(zmq.MAXMSGSIZE, MAX_REQUEST_BYTES)
    router.set(zmq.ROUTER_MANDATORY, 1)
    router.set(zmq.SNDHWM, MESSAGES_IN_SOCKET)
    router.bind(f"ipc://{path}")
    os.chmod(path, 0o600)  # noqa: PTH101 - beside the folder, which is private already
    return router


def connect(context: "zmq.Context[zmq.Socket[bytes]]", path: Path) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
    """A client's end, which need not find an engine yet, and a socket that tells of finished handshakes and broken connections.

    What is sent while nobody is there reaches the next engine as words of a stranger, which it drops. ZMQ_IMMEDIATE would keep it back,
    but it also throws away what a lost engine said last.
    """
    dealer = context.socket(zmq.DEALER)
    dealer.set(zmq.LINGER, 0)
    dealer.set(zmq.MAXMSGSIZE, MAX_OUTPUT_BYTES)
    dealer.set(zmq.SNDHWM, 0)
    dealer.set(zmq.RECONNECT_IVL, RECONNECT_MS)
    # Before the connection, so that it tells of the first handshake too.
    monitor = dealer.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
    dealer.connect(f"ipc://{path}")
    return dealer, monitor


def receive(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """The frames of the next message. Raises `zmq.Again` where there is none."""
    return socket.recv_multipart(zmq.NOBLOCK)
