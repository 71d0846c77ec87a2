import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from octavo import AsyncLLM, SamplingParams
from octavo.errors import EngineDeadError
from octavo.testing.llm import fake_llm
from octavo.types import FinishReason
from octavo_server.metrics import exposition
from octavo_server.metrics.exposition import expose
from octavo_server.metrics.requests import RequestMetrics

PROMPT = list(range(10, 30))


def values(page: bytes) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for metric in parse(page.decode()):
        for sample in metric.samples:
            found.setdefault(sample.name.removeprefix("octavo:"), []).append((sample.labels, sample.value))
    return found


def only(page: bytes, name: str) -> float:
    ((_, value),) = values(page)[name]
    return value


async def run_one(llm: AsyncLLM, metrics: RequestMetrics, *, max_tokens: int, reads: int, tenant: str = "a") -> None:
    """Serve a request as a route does, whose client goes away after `reads` changes."""
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    (prompt,) = llm.reader.read([PROMPT])
    with metrics.request(tenant, "m") as observation, llm.open(prompt, params, tenant=tenant) as request:
        observation.queued(len(request.prompt_token_ids), params)
        for _ in range(reads):
            deltas = await request.changes()
            observation.tokens(sum(delta.token_id is not None for delta in deltas))
            if request.finished:
                observation.finished(FinishReason.LENGTH, request.times, request.num_cached_tokens)
                return


def test_what_requests_were_observed_to_do_is_what_the_engine_counted(metrics: RequestMetrics) -> None:
    async def main() -> bytes:
        async with AsyncLLM.from_engine(fake_llm(max_model_len=100_000, num_blocks=50_000).llm.engine) as llm:
            for index in range(8):
                if index < 5:
                    await run_one(llm, metrics, max_tokens=5000, reads=2)
                else:
                    await run_one(llm, metrics, max_tokens=3, reads=100)
            await llm.check_health()
            page, _ = await expose(metrics, llm, "m", accept="")
            return page

    page = asyncio.run(main())
    ends = {labels["finished_reason"]: value for labels, value in values(page)["request_success_total"]}
    assert ends == {"abort": 5, "length": 3, "stop": 0, "error": 0}
    assert only(page, "request_prompt_tokens_sum") == only(page, "prompt_tokens_total") == 8 * len(PROMPT)
    assert only(page, "e2e_request_latency_seconds_count") == only(page, "request_generation_tokens_count") == 8
    # The engine may have been ahead of a client that went away.
    assert 9 <= only(page, "request_generation_tokens_sum") <= only(page, "generation_tokens_total")
    tenants = {labels["tenant"]: value for labels, value in values(page)["tenant_prompt_tokens_total"]}
    assert tenants == {"a": 8 * len(PROMPT), "known": 0}
    assert only(page, "num_requests_running") == only(page, "num_requests_waiting") == only(page, "kv_cache_usage_perc") == 0
    assert only(page, "iteration_tokens_total_sum") >= only(page, "prompt_tokens_computed_total") > 0
    assert only(page, "iteration_tokens_total_count") <= only(page, "engine_steps_total")
    assert only(page, "engine_up") == 1
    ((labels, one),) = values(page)["cache_config_info"]
    assert (labels["block_size"], labels["num_gpu_blocks"], one) == ("16", "50000", 1)


def test_without_an_engine_only_requests_are_told(metrics: RequestMetrics) -> None:
    page, _ = asyncio.run(expose(metrics, None, None, accept=""))
    assert only(page, "engine_up") == 0
    assert "num_requests_running" not in values(page)


class SilentLLM:
    is_alive = True

    async def stats(self) -> Any:
        await asyncio.sleep(60)


class DeadLLM:
    is_alive = False

    async def stats(self) -> Any:
        raise EngineDeadError("killed")


@pytest.mark.parametrize(("llm", "is_up"), [(SilentLLM(), 1), (DeadLLM(), 0)])
def test_an_engine_that_does_not_answer_leaves_a_gap(
    llm: Any, is_up: int, metrics: RequestMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "ANSWER_TIMEOUT_S", 0.01)
    page, _ = asyncio.run(expose(metrics, llm, "m", accept=""))
    assert only(page, "engine_up") == is_up
    assert "num_requests_running" not in values(page)
    assert "e2e_request_latency_seconds_count" in values(page)


def test_openmetrics_is_spoken_to_whoever_asks_for_it() -> None:
    metrics = RequestMetrics()

    async def main() -> tuple[bytes, str]:
        async with AsyncLLM.from_engine(fake_llm().llm.engine) as llm:
            return await expose(metrics, llm, "m", accept="application/openmetrics-text; version=1.0.0")

    page, content_type = asyncio.run(main())
    assert content_type.startswith("application/openmetrics-text")
    assert page.endswith(b"# EOF\n")
    assert len(list(parse_openmetrics(page.decode()))) > 20
