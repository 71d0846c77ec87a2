"""Where a server is, and connections to it."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from octavo_server.bench.errors import NotReadyError
from octavo_server.bench.http_stream import ResponseStream
from octavo_server.bench.record import RequestError

_CONNECT_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Address:
    """A server that was reached once.

    Attributes:
        name: host and port as given, for the Host header.
        host: one that is connected to, as a number, so that no request waits for a name to be looked up.
        port: of the server.
        path: in front of every path of the API.
        tls: None: plain HTTP.
        tls_name: whose certificate is expected.
    """

    name: str
    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None
    tls_name: str | None

    def head(self, method: str, path: str, headers: Mapping[str, str], *, length: int = 0) -> bytes:
        """The head of a request that is the only one on its connection."""
        lines = [f"{method} {self.path}{path} HTTP/1.1", f"Host: {self.name}", "Connection: close", f"Content-Length: {length}"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()

    async def exchange(self, request: bytes, on_body: Callable[[bytes, float], None]) -> tuple[ResponseStream, RequestError | None]:
        """Send a request and wait for the end of the response. Raises `OSError` where there is no connection.

        Returns:
            The response, and why it is not complete.
        """
        loop = asyncio.get_running_loop()
        transport, response = await loop.create_connection(
            lambda: ResponseStream(on_body), self.host, self.port, ssl=self.tls, server_hostname=self.tls_name
        )
        try:
            transport.write(request)
            return response, await response.ended
        finally:
            transport.abort()


async def find_address(root_url: str) -> Address:
    """Look up the server's name and take the first of its addresses that answers. Raises `NotReadyError`."""
    parts = urlsplit(root_url)
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _unreachable(root_url, error) from error
    problem: OSError | None = None
    for *_, place in found:
        host = str(place[0])
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=parts.hostname if tls else None)
        except OSError as error:
            problem = problem or error
            continue
        writer.close()
        return Address(name=parts.netloc, host=host, port=port, path=parts.path, tls=tls, tls_name=parts.hostname if tls else None)
    assert problem is not None, "a look-up finds something or fails"
    raise _unreachable(root_url, problem)


def _unreachable(root_url: str, error: OSError) -> NotReadyError:
    reason = "nothing answers in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
    return NotReadyError(f"no server at {root_url}: {reason} (start one, or give another --base-url)")
