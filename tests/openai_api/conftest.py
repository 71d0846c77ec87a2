"""A tiny random model behind a real HTTP server, which the official client talks to."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from octavo import AsyncLLM
from octavo_models.testing import write_tiny_llama
from octavo_models.testing.dense import dense_logits, load_tiny_model
from octavo_server.app import create_app
from octavo_server.config import ServerConfig
from octavo_server.http_server import HttpServer
from octavo_server.listener import close_listener, open_listener
from octavo_server.metrics.requests import RequestMetrics
from octavo_server.state import ServerState

if TYPE_CHECKING:
    from openai import OpenAI

SIZES = {"max_model_len": 128, "block_size": 16, "num_blocks": 12, "max_num_seqs": 4, "max_num_batched_tokens": 32}


@dataclass
class Served:
    """A server in a thread of its own.

    Attributes:
        url: to send requests to.
        folder: of the model.
    """

    url: str
    folder: Path

    def logprobs(self, token_ids: list[int]) -> list[list[float]]:
        """Log-softmax behind every token, from one plain forward without engine, cache or chunks: [tokens, vocabulary]."""
        with torch.inference_mode():
            logits = dense_logits(load_tiny_model(self.folder), torch.tensor(token_ids))
        found: list[list[float]] = torch.log_softmax(logits.float(), dim=-1).tolist()
        return found


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    torch.set_num_threads(1)
    folder = write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", vocab_size=512, seed=5)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    config = ServerConfig(host="127.0.0.1", port=0, served_model_names=("tiny",))
    listener = open_listener(config)
    is_up, may_end = threading.Event(), threading.Event()

    async def serve() -> None:
        state = ServerState(config, RequestMetrics(), started=0)
        async with AsyncLLM(str(folder), **SIZES) as llm:
            state.serve_with(llm)
            server = HttpServer(create_app(state), config)
            running = server.start(listener)
            is_up.set()
            await asyncio.to_thread(may_end.wait)
            server.stop()
            await running
            stats = await llm.stats()
            assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)

    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 (handed to the test's thread)
            failures.append(error)
        finally:
            is_up.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert is_up.wait(60)
    try:
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", folder)
    finally:
        may_end.set()
        thread.join(30)
        close_listener(listener, config)
    assert not failures, failures


@pytest.fixture
def client(served: Served) -> "Iterator[OpenAI]":
    """The official client."""
    from openai import OpenAI

    with OpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0) as found:
        yield found
