"""Whatever is asked, the answer is one that `/openapi.json` describes."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from octavo import AsyncLLM
from octavo.testing.llm import fake_llm
from octavo_server.app import create_app
from octavo_server.config import ServerConfig
from octavo_server.http_server import HttpServer
from octavo_server.listener import describe, open_listener
from octavo_server.metrics.requests import RequestMetrics
from octavo_server.state import ServerState

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 20
SOUND = {
    "/v1/completions": {"model": "fake", "prompt": "hello"},
    "/v1/chat/completions": {"model": "fake", "messages": [{"role": "user", "content": "hello"}]},
    "/tokenize": {"model": "fake", "prompt": "hello"},
}
"""Fields of requests that are answered, if the others are left out."""


@contextmanager
def served() -> Iterator[str]:
    """The whole application above a fake engine, in a thread; its address."""
    config = ServerConfig(host="127.0.0.1", port=0)
    listener = open_listener(config)
    stop = threading.Event()

    async def serve() -> None:
        async with AsyncLLM.from_engine(fake_llm(words=["hello", "there"]).llm.engine) as llm:
            state = ServerState(config, RequestMetrics(), started=1_700_000_000)
            state.serve_with(llm)
            server = HttpServer(create_app(state), config)
            serving = server.start(listener)
            await asyncio.to_thread(stop.wait)
            server.stop()
            await serving

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    address = describe(listener, encrypted=False)
    thread.start()
    try:
        yield address
    finally:
        stop.set()
        thread.join(20)


@pytest.fixture(scope="module")
def schema() -> Iterator[Any]:
    with served() as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json", config=SchemathesisConfig())


def test_every_answer_is_described(schema: Any) -> None:
    operations = [result.ok() for result in schema.get_all_operations()]
    assert {*SOUND, "/v1/models", "/health"} <= {operation.path for operation in operations}
    for operation in operations:
        statuses = ask_at_random(operation, GenerationMode.POSITIVE)
        if operation.path in SOUND:
            assert 200 in statuses, operation.path
        if operation.body:
            statuses |= ask_at_random(operation, GenerationMode.NEGATIVE)
            assert 400 in statuses, operation.path


def ask_at_random(operation: Any, mode: GenerationMode) -> set[int]:
    """Statuses of the answers to requests that fit the description, or do not."""
    statuses = set()

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and operation.path in SOUND:
            # With all fields at random hardly a request would get further than the first of them.
            case.body = {**dict(list(case.body.items())[:2]), **SOUND[operation.path]}
        response = case.call(timeout=20)
        case.validate_response(response, checks=CHECKS)
        statuses.add(response.status_code)

    ask()
    return statuses
