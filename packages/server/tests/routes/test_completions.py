"""What `/v1/completions` answers."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from octavo.input.bad_words import bad_token_sequences
from octavo.testing.model import continuation
from octavo.text.tokenizer import Tokenizer

WORDS = ("hello", "there", "world")


def text_of(token_ids: list[int]) -> str:
    return "".join({3: "hello", 4: "there", 5: "world"}.get(token_id, f"x{token_id}") for token_id in token_ids)


def test_a_text_is_continued_by_sixteen_tokens(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete("hello there", ignore_eos=True)
        expected = continuation([3, 4], 16)
        (choice,) = answer.json["choices"]
        assert (choice["text"], choice["finish_reason"], choice["index"]) == (text_of(expected), "length", 0)
        assert answer.json["object"] == "text_completion"
        assert answer.json["model"] == "fake"
        assert answer.json["usage"] == {
            "prompt_tokens": 2,
            "completion_tokens": 16,
            "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    with_client(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_the_id_is_that_of_the_request(with_client: Callable[..., None], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.post("/v1/completions", {"prompt": "hello", "stream": stream}, **{"x-request-id": "mine-1"})
        assert {part["id"] for part in (answer.events if stream else [answer.json])} == {"cmpl-mine-1"}
        answer = await client.complete(request_id="from the body", max_tokens=1)
        assert answer.json["id"] == "cmpl-from the body"

    with_client(scenario)


@pytest.mark.parametrize(
    ("prompt", "token_ids"),
    [
        ("hello", [[3]]),
        ([3, 4], [[3, 4]]),
        (["hello", "there world"], [[3], [4, 5]]),
        ([[3], [4, 5], [6]], [[3], [4, 5], [6]]),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_every_form_of_prompts(with_client: Callable[..., None], prompt: Any, token_ids: list[list[int]], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete(prompt, max_tokens=3, ignore_eos=True, stream=stream)
        texts = dict.fromkeys(range(len(token_ids)), "")
        for part in answer.events if stream else [answer.json]:
            for choice in part["choices"]:
                texts[choice["index"]] += choice["text"]
        assert list(texts.values()) == [text_of(continuation(ids, 3)) for ids in token_ids]

    with_client(scenario)


def test_choices_are_numbered_over_all_prompts(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete(["hello", "there"], n=2, best_of=2, max_tokens=2)
        assert [choice["index"] for choice in answer.json["choices"]] == [0, 1, 2, 3]
        usage = answer.json["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2, 8)

    with_client(scenario)


def test_scoring_without_generating(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete("hello there world", max_tokens=0, echo=True, logprobs=1)
        assert answer.status == 200
        (choice,) = answer.json["choices"]
        logprobs = choice["logprobs"]
        assert choice["text"] == "hello there world"
        assert logprobs["tokens"] == ["hello", "there", "world"]
        assert logprobs["token_logprobs"] == pytest.approx([None, -0.004, -0.005])
        assert logprobs["top_logprobs"][0] is None
        assert all(len(top) == 2 for top in logprobs["top_logprobs"][1:])
        assert logprobs["text_offset"] == [0, 6, 12]
        assert answer.json["usage"]["completion_tokens"] == 0
        assert choice["finish_reason"] == "length"
        assert (await client.complete("hello", max_tokens=0)).json["choices"][0]["text"] == ""

    with_client(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_echo_puts_the_prompt_and_its_logprobs_in_front(with_client: Callable[..., None], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete("hello there", max_tokens=2, echo=True, logprobs=0, n=2, ignore_eos=True, stream=stream)
        parts = answer.events if stream else [answer.json]
        expected = continuation([3, 4], 2)
        for index in range(2):
            choices = [choice for part in parts for choice in part["choices"] if choice["index"] == index]
            text = "".join(choice["text"] for choice in choices)
            tokens = [token for choice in choices for token in choice["logprobs"]["tokens"]]
            offsets = [offset for choice in choices for offset in choice["logprobs"]["text_offset"]]
            values = [value for choice in choices for value in choice["logprobs"]["token_logprobs"]]
            tops = [top for choice in choices for top in choice["logprobs"]["top_logprobs"]]
            assert text == "hello there" + text_of(expected)
            assert [text[offset:].lstrip().startswith(token) for token, offset in zip(tokens, offsets, strict=True)] == [True] * 4
            assert offsets == sorted(offsets)
            assert values[0] is None
            assert values[1:] == pytest.approx([-token_id / 1000 for token_id in [4, *expected]])
            assert [list(top) for top in tops[1:]] == [[token] for token in tokens[1:]]

    with_client(scenario)


def test_logprobs_of_output_alone_count_from_its_start(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete("hello there", logprobs=1, max_tokens=2)
        assert answer.json["choices"][0]["logprobs"]["text_offset"][0] == 0

    with_client(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_token_ids_and_prompt_logprobs_come_where_they_are_asked_for(with_client: Callable[..., None], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete(
            "hello there",
            max_tokens=3,
            ignore_eos=True,
            return_token_ids=True,
            prompt_logprobs=1,
            logprobs=0,
            return_tokens_as_token_ids=True,
            stream=stream,
        )
        choices = [choice for part in (answer.events if stream else [answer.json]) for choice in part["choices"]]
        expected = continuation([3, 4], 3)
        assert [token_id for choice in choices for token_id in choice["token_ids"]] == expected
        assert [token for choice in choices for token in choice["logprobs"]["tokens"]] == [f"token_id:{token_id}" for token_id in expected]
        assert choices[0]["prompt_token_ids"] == [3, 4]
        assert choices[0]["prompt_logprobs"] == [
            None,
            {
                "4": {"logprob": pytest.approx(-0.004), "rank": 5, "decoded_token": "there"},
                "0": {"logprob": 0.0, "rank": 1, "decoded_token": "<unk>"},
            },
        ]
        assert all("prompt_token_ids" not in choice for choice in choices[1:])

    with_client(scenario)


def test_max_tokens_is_a_cap(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        answer = await client.complete([3] * 100, max_tokens=1000, ignore_eos=True)
        assert answer.json["usage"]["completion_tokens"] == 28
        assert answer.json["choices"][0]["finish_reason"] == "length"
        answer = await client.complete([3] * 127, max_tokens=5, ignore_eos=True)
        assert answer.json["usage"]["completion_tokens"] == 1
        for prompt in ([3] * 128, "hello " * 128):
            answer = await client.complete(prompt, stream=True)
            assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "context_length_exceeded", "prompt")
            assert "128" in answer.error["message"]

    with_client(scenario)


def test_a_prompt_is_cut_where_that_is_asked_for(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        prompt = list(range(3, 203))
        answer = await client.complete(prompt, truncate_prompt_tokens=4, max_tokens=2, echo=True, return_token_ids=True)
        choice = answer.json["choices"][0]
        assert (choice["prompt_token_ids"], answer.json["usage"]["prompt_tokens"]) == ([199, 200, 201, 202], 4)
        assert choice["text"].startswith("x199x200x201x202")
        answer = await client.complete(prompt, truncate_prompt_tokens=2, truncation_side="right", return_token_ids=True)
        assert answer.json["choices"][0]["prompt_token_ids"] == [3, 4]
        assert (await client.complete(prompt, truncate_prompt_tokens=-1, max_tokens=8)).json["usage"]["prompt_tokens"] == 120
        assert (
            (await client.complete("hello there", truncate_prompt_tokens=2, echo=True)).json["choices"][0]["text"].startswith("hello there")
        )
        for wrong in (0, -2, 129):
            assert (await client.complete(prompt, truncate_prompt_tokens=wrong)).error["param"] == "truncate_prompt_tokens"

    with_client(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_cached_tokens_are_told(with_client: Callable[..., None], stream: bool) -> None:
    async def scenario(client: Any) -> None:
        for expected in (0, 32):
            answer = await client.complete(
                list(range(3, 43)), max_tokens=1, stream=stream, **({"stream_options": {"include_usage": True}} if stream else {})
            )
            usage = answer.events[-1]["usage"] if stream else answer.json["usage"]
            assert usage["prompt_tokens_details"] == {"cached_tokens": expected}

    with_client(scenario)


def test_salts_keep_prefixes_apart(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        async def cached(**fields: Any) -> int:
            answer = await client.complete(list(range(3, 43)), max_tokens=1, **fields)
            return answer.json["usage"]["prompt_tokens_details"]["cached_tokens"]

        assert [await cached(), await cached(cache_salt="a"), await cached(cache_salt="b")] == [0, 0, 0]
        assert [await cached(), await cached(cache_salt="a")] == [32, 32]
        for wrong in ("", "x" * 129):
            assert (await client.complete(cache_salt=wrong)).error["param"] == "cache_salt"

    with_client(scenario)


def test_null_is_the_same_as_left_out(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        fields = {
            "max_tokens",
            "n",
            "stop",
            "logprobs",
            "echo",
            "stream",
            "logit_bias",
            "seed",
            "user",
            "suffix",
            "response_format",
            "top_k",
        }
        answer = await client.complete(**dict.fromkeys(fields), ignore_eos=True)
        assert (answer.status, answer.json["usage"]["completion_tokens"]) == (200, 16)

    with_client(scenario)


def test_a_model_may_be_served_under_other_names(with_client: Callable[..., None]) -> None:
    async def scenario(client: Any) -> None:
        for name in ("first", "second", None):
            answer = await client.complete(model=name, max_tokens=1)
            assert (answer.status, answer.json["model"]) == (200, "first")
        for stream in (False, True):
            answer = await client.complete(model="fake", stream=stream)
            assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")

    with_client(scenario, flags={"served_model_names": ("first", "second")})


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})]
)
def test_many_bad_words_hold_up_no_stream(
    with_client: Callable[..., None], monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    threads: list[threading.Thread] = []

    def note(words: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
        threads.append(threading.current_thread())
        return bad_token_sequences(words, tokenizer)

    monkeypatch.setattr("octavo.input.requests.bad_token_sequences", note)

    async def scenario(client: Any) -> None:
        for num_words in (1, 1000):
            answer = await client.post(path, {**body, "bad_words": ["therewor"] * num_words, "max_tokens": 1})
            assert answer.status == 200, answer
        few, many = threads
        assert few is threading.current_thread()
        assert many is not few

    with_client(scenario)
