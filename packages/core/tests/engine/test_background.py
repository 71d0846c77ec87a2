import threading
from concurrent.futures import Future

import pytest

from octavo.engine.background import BackgroundEngine
from octavo.engine.client import InProcessClient
from octavo.engine.messages import EngineOutput, EngineRequest
from octavo.errors import EngineDeadError
from octavo.sampling_params import SamplingParams
from octavo.testing.engine import FakeEngine, fake_engine
from octavo.testing.model import continuation
from octavo.types import FinishReason


class Panic(BaseException):
    """As extensions written in Rust raise it."""


class Listener:
    """Collects what comes, in the engine's thread."""

    def __init__(self) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.last: dict[str, EngineOutput] = {}
        self.thread: threading.Thread | None = None
        self.death: Future[EngineDeadError] = Future()
        self._ended: dict[str, threading.Event] = {}

    def outputs(self, outputs: list[EngineOutput]) -> None:
        self.thread = threading.current_thread()
        for output in outputs:
            self.tokens.setdefault(output.request_id, []).extend(output.new_token_ids)
            if output.finish_reason is not None:
                self.last[output.request_id] = output
                self.end_of(output.request_id).set()

    def end_of(self, request_id: str) -> threading.Event:
        return self._ended.setdefault(request_id, threading.Event())

    def wait_for(self, request_id: str) -> EngineOutput:
        assert self.end_of(request_id).wait(30)
        return self.last[request_id]


def background(fake: FakeEngine) -> tuple[BackgroundEngine, Listener]:
    listener = Listener()
    engine = BackgroundEngine(InProcessClient(fake.loop, fake.executor), on_outputs=listener.outputs, on_death=listener.death.set_result)
    return engine, listener


def request(request_id: str, token_ids: list[int], max_tokens: int = 5) -> EngineRequest:
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    return EngineRequest(request_id=request_id, token_ids=token_ids, params=params, arrival_time=1.0, seed=0)


def test_requests_run_in_a_thread_that_ends_with_the_engine() -> None:
    fake = fake_engine()
    engine, listener = background(fake)
    engine.add([request("a", [5]), request("b", [6])])
    assert listener.wait_for("a").finish_reason is listener.wait_for("b").finish_reason is FinishReason.LENGTH
    assert listener.tokens == {"a": continuation([5], 5), "b": continuation([6], 5)}
    assert listener.thread not in {None, threading.current_thread()}
    engine.close()
    assert not listener.thread.is_alive()
    assert fake.executor.is_shut_down
    engine.close()


def test_an_idle_engine_takes_no_steps() -> None:
    fake = fake_engine()
    engine, listener = background(fake)
    engine.ping().result(30)
    engine.add([request("a", [5])])
    listener.wait_for("a")
    stats = engine.stats().result(30)
    engine.ping().result(30)
    assert stats.running == 0
    assert engine.stats().result(30).counters.steps == stats.counters.steps
    engine.close()


def test_what_the_engine_refuses_ends_with_the_reason_and_the_others_run() -> None:
    engine, listener = background(fake_engine())
    engine.add([request("a", [5], max_tokens=100)])
    engine.add([request("c", [7]), request("long", [5] * 1000)])
    engine.add([request("b", [6])])
    for refused in ("long", "c"):
        assert listener.wait_for(refused).finish_reason is FinishReason.ERROR
        assert "1000 tokens" in str(listener.last[refused].error)
    assert listener.wait_for("b").finish_reason is FinishReason.LENGTH
    assert listener.wait_for("a").finish_reason is FinishReason.LENGTH
    engine.close()


def test_aborts_and_finishes_are_carried_out_between_steps() -> None:
    engine, listener = background(fake_engine(max_model_len=100_000, num_blocks=30_000))
    engine.add([request("a", [5], max_tokens=90_000), request("b", [6], max_tokens=90_000)])
    engine.abort(["a", "unknown"])
    engine.finish("b", 0)
    engine.finish("unknown", 3)
    assert listener.wait_for("b").finish_reason is FinishReason.STOP
    assert "a" not in listener.last
    stats = engine.stats().result(30)
    assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
    engine.close()


def test_an_engine_that_died_answers_and_is_closed_like_any_other() -> None:
    def faults(plan: object) -> dict[str, str]:
        raise RuntimeError("the device is gone")

    fake = fake_engine(faults=faults)
    engine, listener = background(fake)
    engine.add([request("a", [5])])
    assert "the device is gone" in str(listener.death.result(30))
    engine.add([request("b", [5])])
    engine.abort(["a", "b"])
    for answer in (engine.ping(), engine.reset_prefix_cache()):
        with pytest.raises(EngineDeadError):
            answer.result(30)
    assert engine.stats().result(30).counters.steps == 1
    engine.close()
    assert fake.executor.is_shut_down


def test_a_listener_that_fails_ends_the_engine_with_its_reason() -> None:
    def fail(_outputs: list[EngineOutput]) -> None:
        raise ZeroDivisionError("a bug")

    fake, listener = fake_engine(), Listener()
    engine = BackgroundEngine(InProcessClient(fake.loop, fake.executor), on_outputs=fail, on_death=listener.death.set_result)
    engine.add([request("a", [5])])
    death = listener.death.result(30)
    assert "ZeroDivisionError: a bug" in str(death)
    assert isinstance(death.__cause__, ZeroDivisionError)
    engine.close()


def test_what_is_no_exception_ends_the_engine_like_one() -> None:
    def faults(plan: object) -> dict[str, str]:
        raise Panic("index out of bounds")

    fake = fake_engine(faults=faults)
    engine, listener = background(fake)
    engine.add([request("a", [5])])
    assert "Panic: index out of bounds" in str(listener.death.result(30))
    with pytest.raises(EngineDeadError):
        engine.ping().result(30)
    engine.close()
    assert fake.executor.is_shut_down


def test_an_exit_inside_a_step_ends_the_engine_and_not_only_its_thread() -> None:
    def faults(plan: object) -> dict[str, str]:
        raise SystemExit(3)

    fake = fake_engine(faults=faults)
    engine, listener = background(fake)
    engine.add([request("a", [5])])
    assert "SystemExit: 3" in str(listener.death.result(30))
    assert engine.stats().result(30).counters.steps == 1
    engine.close()
    assert fake.executor.is_shut_down


def test_a_question_whose_answer_is_no_exception_is_answered_and_ends_the_engine() -> None:
    class Torn(InProcessClient):
        def reset_prefix_cache(self) -> bool:
            raise Panic("poisoned")

    fake, listener = fake_engine(), Listener()
    engine = BackgroundEngine(Torn(fake.loop, fake.executor), on_outputs=listener.outputs, on_death=listener.death.set_result)
    with pytest.raises(EngineDeadError, match="Panic: poisoned"):
        engine.reset_prefix_cache().result(30)
    assert "Panic: poisoned" in str(listener.death.result(30))
    engine.close()


def test_a_listener_that_fails_at_the_death_too_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise Panic("a bug")

    fake = fake_engine()
    engine = BackgroundEngine(InProcessClient(fake.loop, fake.executor), on_outputs=fail, on_death=fail)
    engine.add([request("a", [5])])
    while engine.stats().result(30).counters.steps == 0:
        pass
    with pytest.raises(EngineDeadError):
        engine.ping().result(30)
    engine.close()
    assert fake.executor.is_shut_down
    assert "nobody could be told" in caplog.text


def test_a_closed_engine_refuses_requests_and_questions_and_tolerates_aborts() -> None:
    engine, _ = background(fake_engine())
    engine.close()
    engine.abort(["a"])
    engine.finish("a", 1)
    with pytest.raises(EngineDeadError, match="closed"):
        engine.add([request("a", [5])])
    for question in (engine.stats, engine.ping, engine.reset_prefix_cache):
        with pytest.raises(EngineDeadError, match="closed"):
            question()
