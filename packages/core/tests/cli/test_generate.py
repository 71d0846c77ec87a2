import io
import json
from pathlib import Path
from typing import Any

import pytest

from octavo.testing.llm import word_backend
from octavo.testing.model import continuation

HELLO = [3, 5, 4]
"""Ids of "hello" as a user's message and the header of the answer."""


def answer(prompt: list[int], count: int) -> str:
    """What the fake model says: words without spaces, up to the end of the sequence."""
    tokens = continuation(prompt, count, vocab_size=1000)
    tokens = tokens[: tokens.index(2)] if 2 in tokens else tokens
    backend = word_backend(["user", "assistant", "hello", "there"])
    return "".join(str(backend.id_to_token(token)) for token in tokens if token > 2)


def test_a_prompt_is_one_message_of_a_user_and_its_answer_alone_is_on_stdout(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("generate", *fake_model, "hello", "--max-tokens", "4")
    assert (done.code, done.out) == (0, answer(HELLO, 4) + "\n")
    assert "ready in" in done.err


def test_raw_text_is_continued_as_it_is(octavo: Any, fake_model: tuple[str, ...]) -> None:
    assert octavo("generate", *fake_model, "--raw", "hello", "--max-tokens", "4").out == answer([5], 4) + "\n"


def test_json_has_a_line_a_prompt(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("generate", *fake_model, "hello", "there", "--json", "--max-tokens", "3", "--seed", "1")
    first, second = map(json.loads, done.out.splitlines())
    assert list(first) == ["prompt", "text", "token_ids", "finish_reason", "usage"]
    assert (first["prompt"], second["prompt"]) == ("hello", "there")
    assert first["token_ids"] == continuation(HELLO, 3, vocab_size=1000)
    assert first["finish_reason"] == "length"
    assert first["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 3,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_a_system_message_stands_before_each_prompt(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("generate", *fake_model, "hello", "--system", "there", "--json", "--max-tokens", "1")
    assert json.loads(done.out)["usage"]["prompt_tokens"] == 5


def test_prompts_come_from_standard_input_and_from_the_lines_of_a_file(
    octavo: Any, fake_model: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n"))
    (tmp_path / "prompts.txt").write_text("there\r\n\nhello there\n")
    done = octavo("generate", *fake_model, "-", "--file", str(tmp_path / "prompts.txt"), "--json", "--max-tokens", "1")
    assert [json.loads(line)["prompt"] for line in done.out.splitlines()] == ["hello", "there", "hello there"]


def test_without_a_chat_template_the_prompt_is_continued_and_a_note_says_so(octavo: Any, fake_model: tuple[str, ...]) -> None:
    (Path(fake_model[1]) / "tokenizer_config.json").write_text("{}")
    done = octavo("generate", *fake_model, "hello", "--max-tokens", "4")
    assert done.out == answer([5], 4) + "\n"
    assert "no chat template" in done.err


def test_greedy_unless_a_flag_or_the_model_says_otherwise(octavo: Any, fake_model: tuple[str, ...]) -> None:
    def tokens(*more: str) -> list[int]:
        ids: list[int] = json.loads(octavo("generate", *fake_model, "hello", "--json", "--max-tokens", "3", *more).out)["token_ids"]
        return ids

    greedy = continuation(HELLO, 3, vocab_size=1000)
    assert tokens() == greedy
    assert tokens("--temperature", "1", "--seed", "7") == continuation(HELLO, 3, vocab_size=1000, seed=7)
    (Path(fake_model[1]) / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 0.7}))
    assert tokens("--seed", "7") == continuation(HELLO, 3, vocab_size=1000, seed=7)
    assert tokens("--generation-config", "none") == greedy
    assert tokens("--temperature", "0") == greedy


def test_an_answer_grows_on_a_terminal(octavo: Any, fake_model: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    done = octavo("generate", *fake_model, "hello", "--max-tokens", "4")
    assert done.out == answer(HELLO, 4) + "\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is no prompt"),
        ([""], "the prompt is empty"),
        (["hello", " "], "prompt 2 of 2 is empty"),
        (["-", "-"], "give '-' once"),
        (["hello", "--file", "/no/such/file"], "--file /no/such/file cannot be read"),
        (["hello", "--raw", "--system", "x"], "leave out --system or --raw"),
        (["hello", "--temperature", "-1"], "temperature is -1.0"),
        (["hello", "--top-p", "0"], "top_p is 0.0"),
        (["hello", "--max-tokens", "-1"], "max_tokens is -1"),
        (["hello", "--max-tokens", "many"], "--max-tokens"),
        (["hello", "--stop", ""], "stop is ''"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(octavo: Any, fake_model: tuple[str, ...], arguments: list[str], said: str) -> None:
    done = octavo("generate", *fake_model, *arguments)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("octavo: error: ")
    assert said in line


def test_empty_standard_input_is_refused(octavo: Any, fake_model: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    done = octavo("generate", *fake_model, "-")
    assert (done.code, "the prompt is empty" in done.err) == (2, True)


def test_a_prompt_over_the_context_names_both_numbers(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("generate", *fake_model, "--max-model-len", "20", " ".join(["hello"] * 30))
    assert done.code == 2
    assert "32 tokens" in done.err
    assert "context is 20 tokens" in done.err


def test_a_model_that_is_not_there_is_a_failure(octavo: Any, fake_plugin: str) -> None:
    done = octavo("generate", "--model", "/no/such/model", "hello")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("octavo: error: no model '/no/such/model'")


def test_plain_answers_have_a_blank_line_between_them(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("generate", *fake_model, "hello", "hello", "--max-tokens", "4")
    assert done.out == f"{answer(HELLO, 4)}\n\n{answer(HELLO, 4)}\n"


def test_several_answers_to_a_prompt_are_lines_of_their_own_with_their_number(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("generate", *fake_model, "hello", "--n", "3", "--json", "--max-tokens", "2", "--temperature", "1")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [(line["prompt"], line["index"]) for line in lines] == [("hello", 0), ("hello", 1), ("hello", 2)]


def test_log_probabilities_need_json(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("generate", *fake_model, "hello", "--logprobs", "2")
    assert (done.code, "--json" in done.err) == (2, True)


def test_penalties_out_of_range_are_refused_before_the_model_is_looked_for(octavo: Any) -> None:
    done = octavo("generate", "--model", "nowhere", "hello", "--presence-penalty", "3")
    assert (done.code, "presence_penalty is 3.0" in done.err) == (2, True)


def test_an_answer_without_tokens_is_refused(octavo: Any, fake_model: tuple[str, ...]) -> None:
    assert octavo("generate", *fake_model, "hello", "--max-tokens", "0").code == 2


def test_the_number_of_a_prompt_is_named_where_there_are_several(octavo: Any, fake_model: tuple[str, ...]) -> None:
    long = "hello " * 600
    assert "error: the prompt has 60" in octavo("generate", *fake_model, long).err.splitlines()[-1]
    assert "error: prompt 1: the prompt has 60" in octavo("generate", *fake_model, "hello", long).err.splitlines()[-1]
