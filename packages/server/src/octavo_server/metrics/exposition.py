"""The page that Prometheus reads."""

import asyncio
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from octavo import AsyncLLM
from octavo.errors import EngineDeadError
from octavo_server.metrics.engine import EngineCollector, EngineSnapshot
from octavo_server.metrics.requests import RequestMetrics

ANSWER_TIMEOUT_S = 5.0
"""How long a scrape waits for the engine; Prometheus itself gives up after 10 s unless told otherwise."""


class _Together(Collector):
    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for collector in self._collectors:
            yield from collector.collect()


async def expose(metrics: RequestMetrics, llm: AsyncLLM | None, model: str | None, *, accept: str) -> tuple[bytes, str]:
    """Render everything as one page.

    Args:
        metrics: of requests.
        llm: the engine's client; None while there is no engine.
        model: the name that is served; None before the first engine was ready.
        accept: header of the request: classic text or OpenMetrics.

    Returns:
        The page and its content type.
    """
    snapshot = None
    if model is not None:
        metrics.open_model(model)
        snapshot = await _snapshot(llm, model)
    is_up = llm is not None and llm.is_alive
    metrics.flush()
    encode, content_type = choose_encoder(accept)
    collector = _Together(metrics, EngineCollector(metrics.prefix, is_up=is_up, snapshot=snapshot, tenants=metrics.tenants))
    # Reading the files of many processes takes milliseconds, in which no stream should have to wait.
    page = await asyncio.to_thread(encode, collector)
    return page, content_type


async def _snapshot(llm: AsyncLLM | None, model: str) -> EngineSnapshot | None:
    """None where there is no engine, or none that answers in time: numbers of another moment would hide that."""
    if llm is None:
        return None
    try:
        stats = await asyncio.wait_for(llm.stats(), ANSWER_TIMEOUT_S)
    except (EngineDeadError, TimeoutError):
        return None
    info = llm.info
    cache_config = {
        "block_size": str(info.block_size),
        "num_gpu_blocks": str(info.num_blocks),
        "max_model_len": str(info.max_model_len),
        "max_pool_tokens": str(info.max_pool_tokens),
    }
    return EngineSnapshot(model=model, stats=stats, cache_config=cache_config)
