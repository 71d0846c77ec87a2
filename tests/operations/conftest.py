"""What a server really exports."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from octavo import AsyncLLM
from octavo.testing.llm import fake_llm
from octavo_server.app import create_app
from octavo_server.config import ServerConfig
from octavo_server.metrics.requests import RequestMetrics
from octavo_server.state import ServerState

ROOT = Path(__file__).parents[2]
SCRAPE_LABELS = frozenset({"instance", "job"})
"""Labels that Prometheus adds."""


@dataclass(frozen=True)
class Exported:
    """Everything on a server's page.

    Attributes:
        types: of each metric, counters with `_total`.
        labels: of each metric.
        sample_labels: of each name of a series, `_bucket` and the like included.
    """

    types: Mapping[str, str]
    labels: Mapping[str, frozenset[str]]
    sample_labels: Mapping[str, frozenset[str]]


@pytest.fixture(scope="session")
def exported() -> Exported:
    """The page of a server with a key, above a fake engine that has served nothing yet."""
    types, labels, sample_labels = {}, {}, {}
    for metric in text_string_to_metric_families(asyncio.run(_scrape())):
        name = metric.name + ("_total" if metric.type == "counter" else "")
        types[name] = metric.type
        labels[name] = frozenset(label for sample in metric.samples for label in sample.labels) - {"le"}
        sample_labels |= {sample.name: frozenset(sample.labels) | SCRAPE_LABELS for sample in metric.samples}
    return Exported(types, labels, sample_labels)


async def _scrape() -> str:
    config = ServerConfig(api_keys={"someone": "k" * 20})
    state = ServerState(config, RequestMetrics(tenants=config.api_keys), started=0)
    async with AsyncLLM.from_engine(fake_llm().llm.engine) as llm:
        state.serve_with(llm)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(state)), base_url="http://server") as client:
            return (await client.get("/metrics")).raise_for_status().text
