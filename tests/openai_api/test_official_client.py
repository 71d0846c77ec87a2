"""The official client understands every answer."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from openai import OpenAI

MESSAGES: Any = [{"role": "user", "content": "the other one"}]
GREEDY: dict[str, Any] = {"model": "tiny", "temperature": 0, "extra_body": {"ignore_eos": True}}


def test_completions(client: "OpenAI") -> None:
    whole = client.completions.create(prompt="the tea", max_tokens=8, logprobs=2, **GREEDY)
    assert (whole.usage.completion_tokens, whole.choices[0].finish_reason) == (8, "length")
    assert len(whole.choices[0].logprobs.tokens) == 8
    chunks = list(client.completions.create(prompt="the tea", max_tokens=8, stream=True, stream_options={"include_usage": True}, **GREEDY))
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == whole.choices[0].text
    assert (chunks[-1].choices, chunks[-1].usage) == ([], whole.usage)


def test_chats(client: "OpenAI") -> None:
    whole = client.chat.completions.create(
        messages=MESSAGES, max_completion_tokens=8, logprobs=True, top_logprobs=2, n=2, seed=3, model="tiny", temperature=1.0
    )
    assert [choice.index for choice in whole.choices] == [0, 1]
    for choice in whole.choices:
        assert bytes(byte for item in choice.logprobs.content for byte in item.bytes).decode(errors="replace") == choice.message.content
        assert all(len(item.top_logprobs) == 2 for item in choice.logprobs.content)
    stream = client.chat.completions.create(
        messages=MESSAGES, max_completion_tokens=8, n=2, seed=3, model="tiny", temperature=1.0, stream=True
    )
    texts = ["", ""]
    for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content
    assert texts == [choice.message.content for choice in whole.choices]


def test_the_helper_for_streams_builds_the_whole_answer(client: "OpenAI") -> None:
    # The helper refuses answers that were cut short.
    ending: dict[str, Any] = {"model": "tiny", "temperature": 0, "logit_bias": {"2": 100}, "extra_body": {"min_tokens": 5}}
    whole = client.chat.completions.create(messages=MESSAGES, **ending)
    with client.chat.completions.stream(messages=MESSAGES, **ending) as stream:
        final = stream.get_final_completion()
    assert whole.choices[0].finish_reason == "stop"
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.choices[0].message.role == "assistant"


def test_many_at_once(served: Any) -> None:
    from openai import AsyncOpenAI

    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0) as client:

            async def one(number: int) -> tuple[str, str]:
                prompt = "the tea " * (number % 5 + 1)
                whole = await client.completions.create(prompt=prompt, max_tokens=6, **GREEDY)
                stream = await client.completions.create(prompt=prompt, max_tokens=6, stream=True, **GREEDY)
                return whole.choices[0].text, "".join([chunk.choices[0].text async for chunk in stream])

            for whole, streamed in await asyncio.gather(*(one(number) for number in range(12))):
                assert whole == streamed

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_errors_have_their_type_and_body(client: "OpenAI", stream: bool) -> None:
    import openai

    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(prompt="the " * 300, max_tokens=1, stream=stream, **GREEDY)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")
    assert "128" in caught.value.body["message"]
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(messages=MESSAGES, model="other", stream=stream)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        client.completions.create(prompt=[-1], model="tiny", stream=stream)


def test_seeds_make_choices_repeatable_and_different(client: "OpenAI") -> None:
    def texts(**more: Any) -> list[str]:
        return [choice.text for choice in client.completions.create(prompt="the", model="tiny", max_tokens=12, **more).choices]

    four = texts(n=4, seed=7, temperature=1)
    assert len(set(four)) == 4
    assert texts(n=4, seed=7, temperature=1) == four
    assert texts(seed=7, temperature=1) == four[:1]
    assert texts(seed=0) == texts(seed=0)
    assert texts() != texts()


@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 1e-5, 1e-6, 1e-12, 5e-324])
def test_cold_is_greedy(client: "OpenAI", temperature: float) -> None:
    def text(value: float) -> str:
        return client.completions.create(prompt="a tree", model="tiny", max_tokens=12, temperature=value).choices[0].text

    assert text(temperature) == text(0)


def test_biases_force_and_forbid(client: "OpenAI") -> None:
    def token_ids(**more: Any) -> list[int]:
        body = {"return_token_ids": True, **more.pop("extra_body", {})}
        choice = client.completions.create(prompt="the", model="tiny", max_tokens=6, temperature=0, extra_body=body, **more).choices[0]
        return choice.token_ids

    assert token_ids(logit_bias={"300": 100}) == [300] * 6
    greedy = token_ids(extra_body={"ignore_eos": True})
    assert greedy[0] not in token_ids(logit_bias={str(greedy[0]): -100}, extra_body={"ignore_eos": True})
    ended = token_ids(logit_bias={"2": 100, "7": 99}, extra_body={"min_tokens": 5})
    assert len(ended) == 6
    assert not {2, 7} & set(ended[:5])
    assert token_ids(extra_body={"allowed_token_ids": [300]}) == [300] * 6
