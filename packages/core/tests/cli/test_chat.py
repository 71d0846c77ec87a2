import io
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo.scheduler.plan import StepPlan, StepResult
from octavo.testing.llm import word_backend
from octavo.testing.model import continuation
from octavo.testing.runner import FakeRunner

WORDS = ["user", "assistant", "hello", "there"]
USER, ASSISTANT, HELLO, THERE = 3, 4, 5, 6
Type = Callable[[str], None]


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Type:
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A terminal on which somebody types lines; what is no text is raised, and the end of the input comes behind the last."""

    def start(*lines: str | BaseException) -> None:
        remaining: Iterator[str | BaseException] = iter([*lines, EOFError()])

        def read(_prompt: str) -> str:
            line = next(remaining)
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("builtins.input", read)

    return start


def says(prompt: list[int], count: int) -> str:
    """What the fake model answers, as one word; "hello" and the others would read as words of their own."""
    backend = word_backend(WORDS)
    tokens = continuation(prompt, count, vocab_size=1000)
    assert not set(tokens) & set(range(3 + len(WORDS))), "choose another prompt: this answer is no filler"
    return "".join(str(backend.id_to_token(token)) for token in tokens)


def test_each_line_is_answered_with_what_was_said_before(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    piped("hello\n\nthere\n")
    done = octavo("chat", *fake_model, "--max-tokens", "1")
    first = says([USER, HELLO, ASSISTANT], 1)
    said = int(first.removeprefix("x"))
    second = says([USER, HELLO, ASSISTANT, said, USER, THERE, ASSISTANT], 1)
    assert (done.code, done.out) == (0, f"{first}\n{second}\n")


def test_reset_forgets_and_exit_leaves(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    piped("hello\n/reset\nhello\n/exit\nthere\n")
    done = octavo("chat", *fake_model, "--max-tokens", "2")
    answer = says([USER, HELLO, ASSISTANT], 2)
    assert (done.code, done.out) == (0, f"{answer}\n{answer}\n")
    assert "the conversation is forgotten" in done.err


def test_a_system_message_stands_first_and_stays(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    piped("hello\n/reset\nhello\n")
    done = octavo("chat", *fake_model, "--system", "there", "--max-tokens", "2")
    answer = says([0, THERE, USER, HELLO, ASSISTANT], 2)
    assert done.out == f"{answer}\n{answer}\n"


def test_unknown_commands_are_no_messages(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    piped("/forget it\n hello\n")
    done = octavo("chat", *fake_model, "--max-tokens", "2")
    assert done.out == says([USER, HELLO, ASSISTANT], 2) + "\n"
    assert "unknown command '/forget'" in done.err


def test_the_oldest_turns_go_when_the_context_is_full(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    piped(f"{'hello ' * 12}\n{'there ' * 12}\nhello\n")
    done = octavo("chat", *fake_model, "--max-tokens", "1", "--max-model-len", "32")
    assert done.code == 0
    last = done.out.splitlines()[-1]
    second = done.out.splitlines()[1]
    assert "the oldest turn is forgotten" in done.err
    kept = [USER, *[THERE] * 12, ASSISTANT, int(second.removeprefix("x")), USER, HELLO, ASSISTANT]
    assert last == says(kept, 1)


def test_a_message_that_never_fits_is_refused_and_the_talk_goes_on(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    piped(f"{'hello ' * 100}\nhello\n")
    done = octavo("chat", *fake_model, "--max-tokens", "2", "--max-model-len", "32")
    assert (done.code, done.out) == (0, says([USER, HELLO, ASSISTANT], 2) + "\n")
    assert "takes 102 tokens and the context is 32" in done.err


def test_an_answer_goes_to_the_end_of_the_context_and_says_that_it_was_cut(
    octavo: Any, fake_model: tuple[str, ...], piped: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped("hello\n")
    done = octavo("chat", *fake_model, "--max-model-len", "16")
    assert "the answer was cut: the context is full" in done.err
    piped("hello\n")
    assert "the answer was cut after 2 tokens" in octavo("chat", *fake_model, "--max-tokens", "2").err


def test_an_interrupt_ends_the_answer_and_not_the_program(
    octavo: Any, fake_model: tuple[str, ...], typed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, steps = FakeRunner.execute, []

    def interrupted(runner: FakeRunner, plan: StepPlan) -> StepResult:
        steps.append(plan)
        if len(steps) == 3:
            signal.raise_signal(signal.SIGINT)
        return execute(runner, plan)

    monkeypatch.setattr(FakeRunner, "execute", interrupted)
    typed("hello", "/reset", "hello")
    done = octavo("chat", *fake_model, "--max-tokens", "5")
    assert done.code == 0
    short, long = done.out.split()
    assert long == says([USER, HELLO, ASSISTANT], 5)
    assert short == says([USER, HELLO, ASSISTANT], 2)
    assert "the answer was ended" in done.err


def test_an_interrupt_at_the_prompt_and_the_end_of_the_input_leave(
    octavo: Any, fake_model: tuple[str, ...], typed: Callable[..., None]
) -> None:
    typed(KeyboardInterrupt())
    assert octavo("chat", *fake_model).code == 130
    typed()
    done = octavo("chat", *fake_model)
    assert done.code == 0
    assert "/reset" in done.err


def test_a_model_without_a_template_holds_no_conversation(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    (Path(fake_model[1]) / "tokenizer_config.json").write_text("{}")
    piped("hello\n")
    done = octavo("chat", *fake_model)
    assert (done.code, done.out) == (2, "")
    assert "no chat template" in done.err


def test_impossible_parameters_are_refused_before_the_model_loads(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("chat", *fake_model, "--temperature", "-1")
    assert done.code == 2
    assert done.err.count("\n") == 1


def test_a_line_that_is_no_text_is_not_answered_and_the_talk_goes_on(
    octavo: Any, fake_model: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff\nhello\n"), encoding="utf-8"))
    done = octavo("chat", *fake_model, "--max-tokens", "2")
    assert (done.code, done.out) == (0, says([USER, HELLO, ASSISTANT], 2) + "\n")
    assert "the line is not text: what stands at byte 1 is no character in utf-8" in done.err


def test_a_turn_that_the_template_stops_is_not_the_end(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    template = "{% if messages[-1].content == 'there' %}{{ 'a' * 10 ** 12 }}{% endif %}user {{ messages[-1].content }} assistant"
    (Path(fake_model[1]) / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    piped("there\nhello\n")
    done = octavo("chat", *fake_model, "--max-tokens", "2")
    assert (done.code, done.out) == (0, says([USER, HELLO, ASSISTANT], 2) + "\n")
    assert "the chat template is stopped" in done.err


def test_a_broken_template_holds_no_conversation(octavo: Any, fake_model: tuple[str, ...], piped: Type) -> None:
    (Path(fake_model[1]) / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{% for %}"}))
    piped("hello\n")
    done = octavo("chat", *fake_model)
    assert (done.code, done.out) == (1, "")
    assert "the chat template cannot be compiled" in done.err
    assert octavo("generate", "--raw", "hello", *fake_model, "--max-tokens", "1").code == 0


def test_an_answer_of_no_tokens_is_refused(octavo: Any, fake_model: tuple[str, ...]) -> None:
    done = octavo("chat", *fake_model, "--max-tokens", "0")
    assert done.code == 2
    assert "'--max-tokens'" in done.err
