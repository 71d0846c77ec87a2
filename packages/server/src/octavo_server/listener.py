"""The socket that is listened on: taken before anything that takes time, so that a port in use shows at once."""

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from octavo.errors import ConfigurationError, OctavoError
from octavo_server.config import ServerConfig

BACKLOG = 2048


class ListenError(OctavoError, OSError):
    """The address cannot be listened on."""


def open_listener(config: ServerConfig) -> socket.socket:
    """A listening socket at the address of a configuration.

    Raises:
        ListenError: the address is taken, or is none of this machine's.
        ConfigurationError: it is no address.
    """
    return _listen_on_path(Path(config.uds)) if config.uds is not None else _listen_on_port(config.host, config.port)


def describe(listener: socket.socket, *, encrypted: bool) -> str:
    """Where a listener is reached, for people."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    shown_host = f"[{host}]" if ":" in host else host
    return f"{'https' if encrypted else 'http'}://{shown_host}:{port}"


def close_listener(listener: socket.socket, config: ServerConfig) -> None:
    """Stop listening, and remove a socket's path."""
    listener.close()
    if config.uds is not None:
        with suppress(OSError):
            Path(config.uds).unlink()


def _listen_on_port(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigurationError(f"--host {host!r} is no address of this machine: {error}") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # "::" then takes IPv4, too, as people expect of it.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(f"port {port} of {host} is in use: end what listens there, or give another --port") from error
        raise ListenError(f"cannot listen on port {port} of {host}: {error.strerror}") from error
    return listener


def _listen_on_path(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listener.bind(os.fspath(path))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if isinstance(error, ListenError):
            raise
        raise ListenError(f"cannot listen on --uds {path}: {error.strerror or error}") from error
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the path of a socket that nobody listens on any more. Raises `ListenError` where it is something else."""
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise ListenError(f"--uds {path} is a file and no socket: give another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(os.fspath(path)) == 0:
            raise ListenError(f"--uds {path} is in use: end what listens there, or give another path")
    path.unlink()
