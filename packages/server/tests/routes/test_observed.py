"""What the metrics learn of requests."""

import asyncio
from collections.abc import Callable
from typing import Any

LONG = 100_000


def ends(client: Any) -> dict[str, float]:
    samples = [sample for metric in client.state.metrics.collect() for sample in metric.samples]
    return {
        sample.labels["finished_reason"]: sample.value
        for sample in samples
        if sample.name.endswith("request_success_total") and sample.value
    }


def test_every_prompt_is_counted_once_by_how_it_ended(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        for stream in (False, True):
            await client.complete("hello", max_tokens=2, ignore_eos=True, stream=stream)
            await client.complete(
                ["hello", "there"], max_tokens=2, n=2, ignore_eos=True, stop_token_ids=list(range(3, 1000)), stream=stream
            )
            await client.complete("hello", n=0, stream=stream)
            exchange = client.begin("/v1/completions", {"prompt": "hello", "max_tokens": LONG, "ignore_eos": True, "stream": stream})
            while (await client.llm.stats()).running == 0:
                await asyncio.sleep(0)
            await exchange.hang_up()
        assert ends(client) == {"length": 2, "stop": 4, "abort": 2}

    with_client(scenario, max_model_len=LONG, num_blocks=LONG // 16 * 4)
