"""uvicorn, as this server runs it."""

import asyncio
import logging
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from octavo_server.config import ServerConfig, TlsConfig
from octavo_server.connections import Room
from octavo_server.http_protocol import Protocol
from octavo_server.listener import BACKLOG
from octavo_server.open_files import allow_connections

KEEP_ALIVE_S = 75
"""Idle connections stay open that long: longer than the 60 s of common load balancers, so that the server never closes first."""

CLOSING_S = 2
"""Seconds for what is left to say when the server ends."""

_LOOK_EVERY_S = 1.0
_log = logging.getLogger(__name__)


class HttpServer(uvicorn.Server):
    """A server that leaves signals to its owner.

    Args:
        app: to serve.
        config: of the server.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._awake_s = 0.0
        self._looked_at = time.monotonic()
        super().__init__(
            uvicorn.Config(
                app,
                loop=config.loop,
                http=partial(Protocol, room=_room(config)),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CLOSING_S,
                **_tls(config.tls),
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Look now and then at clients that take too long."""
        now = time.monotonic()
        if (elapsed_s := now - self._looked_at) >= _LOOK_EVERY_S:
            # What clients sent while this process stood still is still to be read: that time does not count.
            self._awake_s += min(elapsed_s, 2 * _LOOK_EVERY_S)
            self._looked_at = now
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Protocol)
                connection.look(self._awake_s)
        return await super().on_tick(counter)

    def start(self, listener: socket.socket) -> "asyncio.Task[None]":
        """Serve until `stop`."""
        return asyncio.create_task(self.serve(sockets=[listener]), name="http")

    def stop(self) -> None:
        """Take no more connections, finish what is under way within `CLOSING_S`, and end."""
        self.should_exit = True


def _room(config: ServerConfig) -> Room:
    most = allow_connections(config.max_connections)
    if most < config.max_connections:
        _log.debug("at most %d connections: the limit of open files leaves room for no more", most)
    return Room(most)


def _tls(config: TlsConfig | None) -> dict[str, Any]:
    if config is None:
        return {}
    return {
        "ssl_certfile": config.certificate,
        "ssl_keyfile": config.key,
        "ssl_ca_certs": config.client_authorities,
        "ssl_cert_reqs": config.client_certificates,
        "ssl_ciphers": config.ciphers,
    }
