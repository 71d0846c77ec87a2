import asyncio
from typing import Any

import httpx

from octavo import AsyncLLM
from octavo.testing.llm import fake_llm


def scrape(make_app: Any, open_client: Any, *, llm: Any = None, **flags: Any) -> httpx.Response:
    async def main() -> httpx.Response:
        async with open_client(make_app(llm=llm, **flags)) as client:
            return await client.get("/metrics")

    response: httpx.Response = asyncio.run(main())
    return response


def test_a_scrape_gets_text_with_the_first_served_name(make_app: Any, open_client: Any) -> None:
    async def main() -> httpx.Response:
        names = ("first", "second")
        async with AsyncLLM.from_engine(fake_llm().llm.engine) as llm, open_client(make_app(llm=llm, served_model_names=names)) as client:
            return await client.get("/metrics")

    response = asyncio.run(main())
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    assert 'octavo:num_requests_running{model_name="first"} 0.0' in response.text
    assert 'model_name="second"' not in response.text


def test_a_server_that_is_starting_can_be_scraped(make_app: Any, open_client: Any) -> None:
    response = scrape(make_app, open_client)
    assert response.status_code == 200
    assert "octavo:engine_up 0.0" in response.text


def test_the_page_is_behind_the_key_where_that_was_asked_for(make_app: Any, open_client: Any) -> None:
    keys = {"someone": "k" * 20}
    assert scrape(make_app, open_client, api_keys=keys).status_code == 200
    assert scrape(make_app, open_client, api_keys=keys, protect_metrics=True).status_code == 401
