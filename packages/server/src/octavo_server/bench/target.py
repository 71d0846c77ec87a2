"""What a server says of itself before load comes."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import msgspec

from octavo_server.bench.address import Address, find_address
from octavo_server.bench.chunks import read_error
from octavo_server.bench.config import BenchmarkConfig
from octavo_server.bench.errors import BenchmarkError, NotReadyError

_TIMEOUT_S = 30.0
_POLL_S = 0.5
_PATH = "/v1/models"


@dataclass(frozen=True)
class Target:
    """What requests need to know.

    Attributes:
        model: name for requests.
        vocab_size: where the server says it.
    """

    model: str
    vocab_size: int | None


async def reach(config: BenchmarkConfig) -> tuple[Address, Target]:
    """Find the server, waiting for it as long as may be. Raises `BenchmarkError` as `find_address` and `find_target` do."""
    deadline = time.monotonic() + config.wait_s
    while True:
        try:
            address = await find_address(config.root_url)
            return address, await find_target(address, config)
        except NotReadyError:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_POLL_S)


async def find_target(address: Address, config: BenchmarkConfig) -> Target:
    """Ask for the server's models. A server without such a list will do where the model is given.

    Raises:
        NotReadyError: nobody answers, or it is too early.
        BenchmarkError: the key is refused, or there is no model to ask for.
    """
    url = config.root_url + _PATH
    status, body = await _get(address, config, url)
    if status == 503:
        raise NotReadyError(f"{url} answers with HTTP 503: {read_error(body)} (--wait waits for a server that starts)")
    if status in {401, 403}:
        raise BenchmarkError(f"{url} answers with HTTP {status}: {read_error(body)} (give the key with --api-key)")
    if status != 200 and config.model is None:
        raise BenchmarkError(f"{url} answers with HTTP {status}: {read_error(body)} (give the model with --model)")
    models = _models(body) if status == 200 else []
    model = config.model or next((str(entry["id"]) for entry in models), None)
    if model is None:
        raise BenchmarkError(f"{url} lists no model: give one with --model")
    return Target(model, _vocab_size(next((entry for entry in models if entry["id"] == model), {})))


async def _get(address: Address, config: BenchmarkConfig, url: str) -> tuple[int, bytes]:
    """Status and body."""
    pieces: list[bytes] = []
    request = address.head("GET", _PATH, config.headers)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            response, error = await address.exchange(request, lambda piece, _: pieces.append(piece))
    except TimeoutError as late:
        raise NotReadyError(f"{url} does not answer within {_TIMEOUT_S:g} s: is the server still loading, or overloaded?") from late
    except OSError as problem:
        raise NotReadyError(f"{url} cannot be read: {problem}") from problem
    if error is not None:
        raise NotReadyError(f"{url} cannot be read: {error.message}")
    return response.status, b"".join(pieces) or response.error_body


def _models(body: bytes) -> list[dict[str, Any]]:
    try:
        listed = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return []
    entries = listed.get("data") if isinstance(listed, dict) else None
    return [entry for entry in entries if isinstance(entry, dict) and "id" in entry] if isinstance(entries, list) else []


def _vocab_size(entry: dict[str, Any]) -> int | None:
    """`vocab_size`, or `meta.n_vocab` as llama.cpp writes it."""
    meta = entry.get("meta")
    found = entry.get("vocab_size") or (meta.get("n_vocab") if isinstance(meta, dict) else None)
    return found if isinstance(found, int) and found > 0 else None
