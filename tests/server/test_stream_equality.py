"""A stream says the same as a whole answer, whatever is asked for: random requests to a real model, eight at a time."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from octavo_server.protocol.chat import ChatRequest
from octavo_server.protocol.completions import CompletionRequest
from tests.server.running import Launcher, RunningServer, events

NUM_REQUESTS, AT_ONCE = 200, 8
VOCAB_SIZE, MAX_MODEL_LEN = 512, 256
ROOM = ("--max-model-len", str(MAX_MODEL_LEN), "--num-blocks", "600", "--max-num-seqs", "64", "--max-num-batched-tokens", "256")
LETTERS = "etaoinshrdluéß字😀"
OTHER_FIELDS = {"model", "request_id", "priority", "logits_processors", "best_of", "max_completion_tokens", "reasoning_effort"}
OTHER_FIELDS |= {"chat_template", "chat_template_kwargs"}
"""Fields that say nothing of the text, are refused, or need what the tiny model does not have."""


@dataclass(frozen=True)
class Asked:
    """A request and both forms of its answer.

    Attributes:
        data: of the stream's events, `[DONE]` included.
    """

    is_chat: bool
    body: dict[str, Any]
    whole: dict[str, Any]
    data: list[str]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """Events with choices."""
        return [event for event in self._events if event["choices"]]

    @property
    def usages(self) -> list[dict[str, Any]]:
        """Of the events without choices."""
        return [event["usage"] for event in self._events if not event["choices"]]

    @property
    def _events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.data if line != "[DONE]"]

    def joined(self, parts: list[dict[str, Any]]) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
        """What the parts of an answer say of each choice, put together, and what they say of a chat's prompt."""
        choices: dict[int, dict[str, Any]] = {}
        for part in parts:
            for choice in part["choices"]:
                known = choices.setdefault(choice["index"], {"text": "", "token_ids": [], "logprobs": [], "ends": []})
                known["text"] += (choice.get("delta") or choice["message"])["content"] if self.is_chat else choice["text"]
                known["token_ids"] += choice.get("token_ids", [])
                if choice["logprobs"] is not None:
                    table = choice["logprobs"]
                    known["logprobs"] += table["content"] if self.is_chat else zip(*table.values(), strict=True)
                if choice["finish_reason"] is not None:
                    known["ends"].append((choice["finish_reason"], choice["stop_reason"]))
                known |= {name: choice[name] for name in ("prompt_token_ids", "prompt_logprobs") if name in choice}
        prompt = {name: part[name] for part in parts for name in ("prompt_token_ids", "prompt_logprobs") if name in part}
        return choices, prompt


class Requests:
    """Draws requests: each option is asked for now and then, with values that often matter to a text of the tiny model."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)

    def draw(self) -> tuple[bool, dict[str, Any]]:
        """Whether it is a chat, and the body without `stream`."""
        source, is_chat = self._source, self._source.random() < 0.5
        body = self._chat() if is_chat else self._completion()
        max_tokens = source.randint(0, 24)
        body |= {"max_tokens": max_tokens, "temperature": source.choice([0, 0.7, 1.0, 1.5]), "seed": source.randrange(2**63)}
        options: dict[str, Callable[[], Any]] = {
            "n": lambda: source.randint(1, 3),
            "top_p": lambda: source.choice([0.3, 0.9, 1.0]),
            "top_k": lambda: source.choice([-1, 1, 5, 40]),
            "min_p": lambda: source.choice([0.0, 0.05, 0.3]),
            "presence_penalty": lambda: source.uniform(-2, 2),
            "frequency_penalty": lambda: source.uniform(-2, 2),
            "repetition_penalty": lambda: source.uniform(0.8, 1.5),
            "stop": lambda: source.choice([self._text(1), [self._text(1), self._text(2)]]),
            "stop_token_ids": lambda: self._token_ids(40),
            "include_stop_str_in_output": self._flag,
            "min_tokens": lambda: source.randint(0, max_tokens),
            "ignore_eos": self._flag,
            "skip_special_tokens": self._flag,
            "logit_bias": lambda: {str(token_id): source.uniform(-5, 15) for token_id in [2, *self._token_ids(10)]},
            "allowed_token_ids": lambda: [1, 2, *self._token_ids(60)],
            "bad_words": lambda: [self._text(1), self._text(2)],
            "prompt_logprobs": lambda: source.randint(0, 3),
            "truncate_prompt_tokens": lambda: source.choice([-1, 1, 5]),
            "truncation_side": lambda: source.choice(["left", "right"]),
            "return_token_ids": self._flag,
            "return_tokens_as_token_ids": self._flag,
            "echo": self._flag,
            "add_special_tokens": self._flag,
        }
        body |= {name: draw() for name, draw in options.items() if source.random() < 0.3}
        return is_chat, body

    def stream_options(self) -> dict[str, bool]:
        """Options of a stream."""
        return {name: self._flag() for name in ("include_usage", "continuous_usage_stats") if self._source.random() < 0.6}

    def _completion(self) -> dict[str, Any]:
        source = self._source
        prompts: list[Callable[[], Any]] = [
            lambda: self._text(source.randint(1, 30)),
            lambda: self._token_ids(source.randint(1, 40)),
            lambda: [self._text(8) for _ in range(source.randint(1, 3))],
            lambda: [self._token_ids(12) for _ in range(source.randint(1, 3))],
        ]
        body = {"prompt": source.choice(prompts)()}
        return body | ({"logprobs": source.randint(0, 4)} if self._flag() else {})

    def _chat(self) -> dict[str, Any]:
        source, messages = self._source, [{"role": "user", "content": self._text(self._source.randint(1, 20))}]
        body: dict[str, Any] = {"messages": messages}
        if source.random() < 0.2:
            messages.append({"role": "assistant", "content": self._text(4)})
            body |= {"add_generation_prompt": False, "continue_final_message": True}
        return body | ({"logprobs": True, "top_logprobs": source.randint(0, 4)} if self._flag() else {})

    def _text(self, length: int) -> str:
        return "".join(self._source.choices(LETTERS if length < 3 else LETTERS + "  ", k=length))

    def _token_ids(self, count: int) -> list[int]:
        return self._source.sample(range(3, VOCAB_SIZE), count)

    def _flag(self) -> bool:
        return self._source.random() < 0.5


def stop_within(whole: dict[str, Any], number: int) -> str:
    """A piece of up to four characters of an answer, most often over the borders of its tokens; empty where the answer is."""
    choice = whole["choices"][-1]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    start, length = len(text) * (2 + number % 3) // 5, 1 + number % 4
    return text[start : start + length]


@pytest.fixture(scope="module")
def server(tiny: Launcher) -> Iterator[RunningServer]:
    return tiny.ready(*ROOM)


@pytest.fixture(scope="module")
def answers(server: RunningServer) -> list[Asked]:
    """Both forms of the answers to all requests. A salt of its own keeps each from what the others left in the prefix cache."""
    requests = Requests(seed=20)
    drawn = [(number, *requests.draw(), requests.stream_options()) for number in range(NUM_REQUESTS)]
    with server.client(limits=httpx.Limits(max_connections=AT_ONCE)) as client, ThreadPoolExecutor(AT_ONCE) as pool:

        def ask_whole(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = client.post(path, json=body)
            assert answer.status_code == 200, (body, answer.text)
            return answer.json()

        def ask(number: int, is_chat: bool, body: dict[str, Any], stream_options: dict[str, bool]) -> Asked:
            path = "/v1/chat/completions" if is_chat else "/v1/completions"
            if "stop" in body and (found := stop_within(ask_whole(path, {**body, "stop": None}), number)):
                body["stop"] = found
            whole = ask_whole(path, {**body, "cache_salt": f"{number} whole"})
            streaming = {**body, "cache_salt": f"{number} stream", "stream": True, "stream_options": stream_options}
            with client.stream("POST", path, json=streaming) as response:
                data = list(events(response.iter_lines()))
            assert response.status_code == 200, (body, data)
            return Asked(is_chat, streaming, whole, data)

        return list(pool.map(ask, *zip(*drawn, strict=True)))


def test_a_stream_is_the_whole_answer_in_parts(answers: list[Asked]) -> None:
    for asked in answers:
        assert asked.joined(asked.chunks) == asked.joined([asked.whole]), asked.body


def test_a_stream_ends_each_choice_once_and_then_itself(answers: list[Asked]) -> None:
    for asked in answers:
        choices, _ = asked.joined(asked.chunks)
        assert sorted(choices) == list(range(len(asked.whole["choices"]))), asked.body
        assert all(len(choice["ends"]) == 1 for choice in choices.values()), asked.body
        last = {choice["index"]: choice["finish_reason"] for chunk in asked.chunks for choice in chunk["choices"]}
        assert None not in last.values(), asked.body
        assert asked.data.count("[DONE]") == 1, asked.body
        assert asked.data[-1] == "[DONE]", asked.body


def test_a_stream_says_the_same_usage(answers: list[Asked]) -> None:
    for asked in answers:
        options = asked.body["stream_options"]
        assert asked.usages == [asked.whole["usage"]] * options.get("include_usage", False), asked.body
        if options.get("continuous_usage_stats"):
            assert asked.chunks[-1]["usage"] == asked.whole["usage"], asked.body


def test_every_token_is_one_event(answers: list[Asked]) -> None:
    for asked in answers:
        # A choice without a token ends in an event of its own.
        assert all(len(chunk["choices"]) == 1 for chunk in asked.chunks)
        counts = Counter(chunk["choices"][0]["index"] for chunk in asked.chunks)
        assert sum(counts.values()) == max(asked.whole["usage"]["completion_tokens"], len(counts)), asked.body
        for index, choice in asked.joined([asked.whole])[0].items():
            assert not choice["token_ids"] or counts[index] == len(choice["token_ids"]), asked.body


def test_the_requests_were_of_all_kinds(answers: list[Asked]) -> None:
    choices = [choice for asked in answers for choice in asked.whole["choices"]]
    ends = Counter((choice["finish_reason"], type(choice["stop_reason"])) for choice in choices)
    assert ends.keys() == {("length", type(None)), ("stop", type(None)), ("stop", str), ("stop", int)}
    assert min(ends.values()) >= 10, ends
    asked_for = Counter(name for asked in answers for name in asked.body)
    fields = {*CompletionRequest.__struct_fields__, *ChatRequest.__struct_fields__} - OTHER_FIELDS
    assert fields - asked_for.keys() == set()
    assert min(asked_for.values()) >= 5, asked_for
