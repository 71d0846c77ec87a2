import json
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import ConfigurationError
from octavo_server.bench.workload import TokenSource, WorkloadConfig, make_prompts, make_warm_up

IDS = TokenSource(5000)
TEXT = TokenSource(None)


def test_random_prompts_have_their_lengths_and_differ() -> None:
    config = WorkloadConfig(num_prompts=6, input_len=20, output_len=9)
    prompts = make_prompts(config, IDS, seed=1)
    assert [(len(prompt.content), prompt.num_tokens, prompt.output_len) for prompt in prompts] == [(20, 20, 9)] * 6
    assert len({tuple(prompt.content) for prompt in prompts}) == 6
    assert all(256 <= token_id < 5000 for prompt in prompts for token_id in prompt.content)  # type: ignore[operator]
    assert prompts == make_prompts(config, IDS, seed=1)
    assert prompts != make_prompts(config, IDS, seed=2)


def test_a_small_vocabulary_is_used_whole() -> None:
    (prompt,) = make_prompts(WorkloadConfig(num_prompts=1, input_len=500), TokenSource(10), seed=0)
    assert set(prompt.content) == set(range(10))


def test_text_has_as_many_words() -> None:
    (prompt,) = make_prompts(WorkloadConfig(num_prompts=1, input_len=30), TEXT, seed=0)
    assert isinstance(prompt.content, str)
    assert len(prompt.content.split(" ")) == prompt.num_tokens == 30


def test_lengths_vary_by_the_ratio() -> None:
    prompts = make_prompts(WorkloadConfig(num_prompts=400, input_len=20, output_len=10, range_ratio=0.5), IDS, seed=0)
    assert {prompt.num_tokens for prompt in prompts} == set(range(10, 31))
    assert {prompt.output_len for prompt in prompts} == set(range(5, 16))


def test_prefixes_are_shared_evenly_and_what_follows_is_not() -> None:
    config = WorkloadConfig(kind="shared-prefix", num_prompts=12, input_len=10, prefix_len=30, num_prefixes=3)
    prompts = make_prompts(config, IDS, seed=0)
    beginnings = [tuple(prompt.content[:30]) for prompt in prompts]
    assert sorted(beginnings.count(beginning) for beginning in set(beginnings)) == [4, 4, 4]
    assert len({tuple(prompt.content[30:]) for prompt in prompts}) == 12
    (warm_up,) = make_warm_up(config, IDS, count=1, seed=0)
    assert warm_up.num_tokens == 40
    assert tuple(warm_up.content[:30]) not in beginnings


def write(path: Path, *entries: Any, as_list: bool = False) -> str:
    path.write_text(json.dumps(entries) if as_list else "\n".join(map(json.dumps, entries)) + "\n")
    return str(path)


CONVERSATION = {
    "id": "x",
    "conversations": [
        {"from": "gpt", "value": "Welcome."},
        {"from": "human", "value": "What is the capital of France?"},
        {"from": "gpt", "value": "a" * 40},
    ],
}


@pytest.mark.parametrize("as_list", [True, False])
def test_conversations_ask_their_first_question_that_has_an_answer(tmp_path: Path, as_list: bool) -> None:
    path = write(tmp_path / "c", CONVERSATION, {"conversations": [{"from": "human", "value": "alone"}]}, as_list=as_list)
    (prompt,) = make_prompts(WorkloadConfig(kind="jsonl", dataset=path), TEXT, seed=0)
    assert (prompt.content, prompt.output_len) == ("What is the capital of France?", 10)


def test_lines_say_prompts_and_lengths(tmp_path: Path) -> None:
    path = write(tmp_path / "p", {"prompt": "hello there", "output_len": 3}, {"prompt": [5, 6, 7]})
    prompts = make_prompts(WorkloadConfig(kind="jsonl", dataset=path, num_prompts=9), TEXT, seed=0)
    found = sorted((prompt.output_len, prompt.num_tokens, prompt.content) for prompt in prompts)
    assert found == [(3, 3, "hello there"), (128, 3, [5, 6, 7])]
    assert len(make_prompts(WorkloadConfig(kind="jsonl", dataset=path, num_prompts=1), TEXT, seed=0)) == 1
    assert {prompt.output_len for prompt in make_prompts(WorkloadConfig(kind="jsonl", dataset=path, output_len=4), TEXT, seed=0)} == {4}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no prompt"),
        (b'{"prompt": "x"}\n{', "line 2 is not JSON"),
        (b"[3]", "entry 1 holds 3"),
        (b'{"prompt": ""}', "line 1 holds"),
        (b'{"prompt": [1, true]}', "line 1 holds"),
        (b'{"prompt": "x", "output_len": -1}', "line 1 holds"),
        (b'{"conversations": []}', "has no prompt"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        make_prompts(WorkloadConfig(kind="jsonl", dataset=str(path)), TEXT, seed=0)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        make_prompts(WorkloadConfig(kind="jsonl", dataset=str(tmp_path / "none")), TEXT, seed=0)
