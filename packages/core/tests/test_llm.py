import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from octavo import SamplingParams
from octavo.engine.client import InProcessClient
from octavo.engine.messages import EngineOutput
from octavo.errors import ConfigurationError, EngineDeadError, InvalidRequestError, RequestFailedError
from octavo.llm import LLM
from octavo.model.generation import GenerationDefaults
from octavo.scheduler.plan import StepPlan
from octavo.testing.llm import GREEDY, FakeLLM, fake_llm
from octavo.testing.model import continuation
from octavo.types import FinishReason


def test_every_form_of_a_prompt_reaches_the_engine_as_the_same_tokens() -> None:
    fake = fake_llm(words=["hello", "there"])
    forms = ["hello there", [3, 4], {"prompt_token_ids": [3, 4]}, {"prompt": "hello there"}]
    outputs = fake.generate(forms)
    assert [output.prompt_token_ids for output in outputs] == [[3, 4]] * 4
    assert [output.prompt for output in outputs] == ["hello there", None, None, "hello there"]
    assert [output.outputs[0].token_ids for output in outputs] == [continuation([3, 4], 5, vocab_size=1000)] * 4


@pytest.mark.parametrize("prompt", ["hello", [3, 4], {"prompt_token_ids": [3]}, [{"role": "user", "content": "hello"}]])
def test_a_single_prompt_gives_one_output(prompt: Any) -> None:
    assert len(fake_llm(words=["hello", "there"]).generate(prompt)) == 1


def test_cached_prefixes_are_shared_between_prompts_of_one_salt_only() -> None:
    fake = fake_llm()
    ids = [5] * 40

    def cached(prompt: Any) -> int | None:
        return fake.generate(prompt)[0].num_cached_tokens

    assert cached({"prompt_token_ids": ids, "cache_salt": "a"}) == 0
    assert cached({"prompt_token_ids": ids, "cache_salt": "b"}) == 0
    assert cached(ids) == 0
    assert cached({"prompt_token_ids": ids, "cache_salt": "a"}) == 32
    with pytest.raises(InvalidRequestError, match="the key 'salt'"):
        fake.generate({"prompt_token_ids": ids, "salt": "a"})


@pytest.mark.parametrize("names", [5, "models", [1]])
def test_plugins_are_named_in_a_list(names: Any) -> None:
    with pytest.raises(ConfigurationError, match="no list of names"):
        LLM("nowhere", plugins_allow=names)


def test_messages_go_through_the_chat_template_in_generate_and_in_chat() -> None:
    fake = fake_llm(words=["user", "assistant", "hi"])
    messages = [{"role": "user", "content": "hi"}]
    (generated,) = fake.generate(messages)
    (chatted,) = fake.llm.chat(messages, GREEDY, use_tqdm=False)
    assert generated.prompt_token_ids == chatted.prompt_token_ids == [3, 5, 4]
    assert generated.prompt == "user hi assistant"
    assert len(fake.llm.chat([messages, messages], GREEDY, use_tqdm=False)) == 2


def test_chat_can_leave_out_the_header_of_the_answer_and_pass_names_to_the_template() -> None:
    fake = fake_llm(words=["user", "assistant", "hi", "thinking"], chat_template="user hi{% if mode %} {{ mode }}{% endif %}")
    (output,) = fake.llm.chat(
        [{"role": "user", "content": "hi"}],
        GREEDY,
        use_tqdm=False,
        add_generation_prompt=False,
        chat_template_kwargs={"mode": "thinking"},
    )
    assert output.prompt == "user hi thinking"


def test_chat_without_parameters_answers_to_the_end_of_the_context() -> None:
    fake = fake_llm(words=["user", "assistant", "hi"], max_model_len=40)
    (output,) = fake.llm.chat([{"role": "user", "content": "hi"}], use_tqdm=False)
    completion = output.outputs[0]
    assert len(output.prompt_token_ids) + len(completion.token_ids) == 40 or completion.finish_reason == "stop"


def test_outputs_come_in_the_order_of_prompts_with_parameters_of_their_own() -> None:
    fake = fake_llm()
    params = [SamplingParams(temperature=0, max_tokens=count, ignore_eos=True) for count in (9, 1, 4)]
    outputs = fake.generate([[5], [6], [7]], params)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [9, 1, 4]
    assert [output.prompt_token_ids for output in outputs] == [[5], [6], [7]]
    assert all(output.finished and output.outputs[0].finish_reason is FinishReason.LENGTH for output in outputs)


def test_more_prompts_than_fit_at_once_all_finish() -> None:
    fake = fake_llm(num_blocks=6)
    outputs = fake.generate([[3 + index % 200, 9] for index in range(300)])
    assert len(outputs) == 300
    assert all(output.outputs[0].token_ids == continuation(output.prompt_token_ids, 5, vocab_size=1000) for output in outputs)


def test_defaults_are_the_models_own_below_what_is_given() -> None:
    fake = fake_llm(generation_defaults=GenerationDefaults(temperature=0.6, top_k=7))
    params = fake.llm.default_sampling_params(top_k=3)
    assert (params.temperature, params.top_k, params.max_tokens) == (0.6, 3, 16)
    assert fake_llm().llm.default_sampling_params() == SamplingParams()


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("", "no tokens"),
        ([], "no prompt"),
        ([[]], "prompt 0: the prompt has no tokens"),
        ([""], "prompt 0: the prompt has no tokens"),
        ([-1], "token id -1"),
        ([10**9], "token id 1000000000"),
        ([1, "a"], "token id 'a'"),
        ([True], "token id True"),
        ([1.5], "a prompt is text"),
        ([[3], [1000]], r"prompt 1: token id 1000 .* \[0, 1000\)"),
        ([5] * 128, "128 tokens.*context is 128"),
        ([{"content": "no role"}], "prompt 0: .*'content'"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "image_url"),
        ({"text": "hello"}, "not a mapping with the keys 'text'"),
        ({"prompt": 7}, "'prompt' is text"),
        ({"prompt_token_ids": "hello"}, "token ids are a list"),
        (7, "a prompt is text"),
        (None, "a prompt is text"),
        (b"bytes", "a prompt is text"),
    ],
)
def test_an_impossible_prompt_is_refused_and_the_next_one_answered(prompt: Any, said: str) -> None:
    fake = fake_llm()
    with pytest.raises(InvalidRequestError, match=said) as caught:
        fake.llm.generate(prompt, GREEDY, use_tqdm=False)
    assert isinstance(caught.value, ValueError)
    assert fake.complete([5]).token_ids == continuation([5], 5, vocab_size=1000)


def test_an_over_long_prompt_has_a_code_and_the_longest_possible_one_gets_one_token() -> None:
    fake = fake_llm()
    with pytest.raises(InvalidRequestError) as caught:
        fake.llm.generate([[5], [5] * 128], GREEDY, use_tqdm=False)
    assert caught.value.code == "context_length_exceeded"
    assert len(fake.complete([5] * 127).token_ids) == 1


def test_a_prompt_that_fits_the_context_but_not_the_pool_is_refused_at_once() -> None:
    fake = fake_llm(num_blocks=4)
    with pytest.raises(InvalidRequestError, match=r"64 tokens.*KV pool holds 64"):
        fake.llm.generate([5] * 64, GREEDY, use_tqdm=False)
    assert len(fake.complete([5] * 63).token_ids) == 1


def test_nothing_is_queued_where_one_prompt_of_many_is_impossible() -> None:
    fake = fake_llm()
    with pytest.raises(InvalidRequestError, match="prompt 2"):
        fake.llm.generate([[5], [6], [5000]], GREEDY, use_tqdm=False)
    fake.assert_idle()
    assert fake.engine.executor.plans == []


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ([GREEDY], "sampling_params has 1 entries for 2 prompts"),
        ([GREEDY] * 3, "sampling_params has 3 entries for 2 prompts"),
        ({"temperature": 0}, "sampling_params is a dict"),
        ([GREEDY, None], "sampling_params is a list"),
    ],
)
def test_parameters_must_be_one_for_all_or_one_for_each(params: Any, said: str) -> None:
    fake = fake_llm()
    with pytest.raises(InvalidRequestError, match=said):
        fake.llm.generate([[5], [6]], params, use_tqdm=False)
    fake.assert_idle()


def test_priorities_must_be_one_for_all_or_one_for_each() -> None:
    fake = fake_llm()
    with pytest.raises(InvalidRequestError, match="priority has 3 entries for 2 prompts"):
        fake.llm.generate([[5], [6]], GREEDY, use_tqdm=False, priority=[1, 2, 3])
    assert len(fake.generate([[5], [6]], priority=[2, 1])) == 2


def test_ids_in_parameters_are_checked_against_the_vocabulary() -> None:
    fake = fake_llm()
    for params in (SamplingParams(stop_token_ids=[10**6], min_tokens=2), SamplingParams(logit_bias={1000: 1.0})):
        with pytest.raises(InvalidRequestError, match=r"\[0, 1000\)"):
            fake.llm.generate([5], params, use_tqdm=False)
    fake.assert_idle()


class TroubledClient(InProcessClient):
    """Calls something before each step."""

    def __init__(self, inner: InProcessClient, before_step: Callable[[int], None]) -> None:
        super().__init__(inner._loop, inner._executor)
        self._before_step = before_step
        self._steps = 0

    def step(self) -> list[EngineOutput]:
        self._steps += 1
        self._before_step(self._steps)
        return super().step()


def troubled(before_step: Callable[[int], None], **options: Any) -> FakeLLM:
    return fake_llm(wrap_client=lambda client: TroubledClient(client, before_step), **options)


@pytest.fixture
def _hears_interrupts() -> Iterator[None]:
    """As in a program in the foreground: started by a shell in the background, Python would ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_hears_interrupts")
def test_an_interrupt_is_heard_between_steps_and_leaves_a_clean_engine() -> None:
    def press(step: int) -> None:
        if step == 3:
            signal.raise_signal(signal.SIGINT)

    fake = troubled(press)
    with pytest.raises(KeyboardInterrupt):
        fake.llm.generate([[5], [6] * 40, [7]], SamplingParams(temperature=0, max_tokens=60, ignore_eos=True, n=2), use_tqdm=False)
    fake.assert_idle()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert fake.complete([5]).token_ids == continuation([5], 5, vocab_size=1000)


@pytest.mark.usefixtures("_hears_interrupts")
def test_the_second_interrupt_does_not_wait_for_the_step() -> None:
    reached = []

    def press_twice(_step: int) -> None:
        signal.raise_signal(signal.SIGINT)
        reached.append("after the first")
        signal.raise_signal(signal.SIGINT)
        reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        troubled(press_twice).llm.generate([5], GREEDY, use_tqdm=False)
    assert reached == ["after the first"]


def test_whatever_is_raised_on_the_way_aborts_what_was_queued() -> None:
    def fail(step: int) -> None:
        if step == 2:
            raise RuntimeError("a full disk")

    fake = troubled(fail)
    with pytest.raises(RuntimeError, match="a full disk"):
        fake.llm.generate([[5], [6]], GREEDY, use_tqdm=False)
    fake.assert_idle()
    assert fake.complete([5]).token_ids == continuation([5], 5, vocab_size=1000)


def test_closing_a_stream_ends_its_request() -> None:
    fake = fake_llm()
    stream = fake.llm.stream([5], SamplingParams(temperature=0, max_tokens=100, ignore_eos=True))
    next(stream)
    assert fake.llm.stats().running == 1
    stream.close()
    fake.assert_idle()


def test_a_batch_beside_an_open_stream_disturbs_neither() -> None:
    fake = fake_llm()
    stream = fake.llm.stream([5], SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
    next(stream)
    (output,) = fake.llm.generate([6], GREEDY, use_tqdm=False)
    assert output.outputs[0].token_ids == continuation([6], 5, vocab_size=1000)
    *_, last = stream
    assert last.outputs[0].token_ids == continuation([5], 20, vocab_size=1000)
    fake.assert_idle()


def greedy(max_tokens: int, **more: Any) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, **more)


def test_a_call_inside_a_loop_over_prompts_that_come_as_they_finish_takes_nothing_from_it() -> None:
    fake = fake_llm()
    places = []
    for place, output in fake.llm.as_completed([[5], [6], [7]], [greedy(9), greedy(2), greedy(20)]):
        assert output.outputs[0].token_ids == continuation([5 + place], len(output.outputs[0].token_ids), vocab_size=1000)
        places.append(place)
        assert len(fake.llm.generate([9], greedy(40), use_tqdm=False)[0].outputs[0].token_ids) == 40
    assert places == [1, 0, 2]
    fake.assert_idle()


def test_a_call_inside_a_stream_takes_nothing_from_it() -> None:
    fake = fake_llm()
    outputs = []
    for output in fake.llm.stream([5], greedy(9)):
        outputs.append(output)
        fake.llm.generate([9], greedy(4 if len(outputs) == 1 else 40), use_tqdm=False)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [1, 5, 9]
    assert [output.finished for output in outputs] == [False, False, True]
    fake.assert_idle()


def test_loops_over_prompts_run_in_step_with_each_other() -> None:
    fake = fake_llm()
    pairs = list(zip(fake.llm.as_completed([[5]] * 3, greedy(4)), fake.llm.as_completed([[6]] * 3, greedy(9)), strict=True))
    assert [(first[0], second[0]) for first, second in pairs] == [(0, 0), (1, 1), (2, 2)]
    fake.assert_idle()


def test_a_call_whose_outputs_somebody_else_took_fails_instead_of_waiting_for_ever() -> None:
    fake = fake_llm()
    outputs = fake.llm.as_completed([[5], [6]], [greedy(1), greedy(9)])
    next(outputs)
    while fake.llm.engine.client.has_work():
        fake.llm.engine.client.step()
    with pytest.raises(RequestFailedError, match="went to another user of the engine"):
        next(outputs)
    fake.assert_idle()


def test_a_second_thread_is_refused_and_harms_nobody() -> None:
    refusals: list[BaseException] = []

    def intrude() -> None:
        for attempt in (
            lambda: fake.llm.generate([6], use_tqdm=False),
            lambda: next(fake.llm.stream([6])),
            fake.llm.reset_prefix_cache,
            fake.llm.close,
        ):
            try:
                attempt()
            except InvalidRequestError as error:
                refusals.append(error)

    def before_step(step: int) -> None:
        if step == 3:
            intruder = threading.Thread(target=intrude)
            intruder.start()
            intruder.join(30)

    fake = troubled(before_step)
    assert fake.complete([5]).token_ids == continuation([5], 5, vocab_size=1000)
    assert len(refusals) == 4
    assert {str(error).split(":")[0] for error in refusals} == {"this LLM is at work for another thread, or in the middle of a step"}
    assert fake.complete([6]).token_ids == continuation([6], 5, vocab_size=1000)


def test_threads_may_take_turns_with_one_stream() -> None:
    fake = fake_llm()
    stream = fake.llm.stream([5], GREEDY)
    with ThreadPoolExecutor(max_workers=1) as pool:
        outputs = [next(stream), pool.submit(next, stream).result(30), *stream]
    assert outputs[-1].outputs[0].token_ids == continuation([5], 5, vocab_size=1000)
    fake.assert_idle()


def test_a_stream_that_is_given_up_in_the_middle_of_a_step_ends_behind_it() -> None:
    streams: list[Any] = []
    fake = troubled(lambda step: streams[0].close() if step == 3 else None)
    streams.append(fake.llm.stream([6], greedy(100)))
    next(streams[0])
    assert fake.complete([5]).token_ids == continuation([5], 5, vocab_size=1000)
    fake.assert_idle()


def test_a_failed_prompt_is_reported_when_the_others_have_finished() -> None:
    def faults(plan: StepPlan) -> dict[str, str]:
        return {"1": "a row of NaN"} if "1" in plan.num_tokens else {}

    fake = fake_llm(faults=faults)
    with pytest.raises(RequestFailedError, match="1 of 3 prompts failed, the first is prompt 1: a row of NaN") as caught:
        fake.llm.generate([[5], [6], [7]], GREEDY, use_tqdm=False)
    fake.assert_idle()
    reasons = [output.outputs[0].finish_reason for output in caught.value.outputs]
    assert reasons == [FinishReason.LENGTH, FinishReason.ERROR, FinishReason.LENGTH]
    assert caught.value.outputs[1].outputs[0].error == "a row of NaN"
    assert caught.value.outputs[2].outputs[0].token_ids == continuation([7], 5, vocab_size=1000)


def test_prompts_come_as_they_finish_with_their_places_and_a_failed_one_stops_nobody() -> None:
    fake = fake_llm(faults=lambda plan: {"1": "a row of NaN"} if "1" in plan.num_tokens else {})
    params = [SamplingParams(temperature=0, max_tokens=count, ignore_eos=True) for count in (9, 1, 4)]
    outputs = dict(fake.llm.as_completed([[5], [6], [7]], params))
    assert list(outputs) == [1, 2, 0]
    assert outputs[1].outputs[0].finish_reason is FinishReason.ERROR
    assert outputs[0].outputs[0].token_ids == continuation([5], 9, vocab_size=1000)
    fake.assert_idle()


def test_leaving_prompts_that_come_as_they_finish_ends_the_others() -> None:
    fake = fake_llm()
    outputs = fake.llm.as_completed([[5], [6]], SamplingParams(temperature=0, max_tokens=50, ignore_eos=True))
    next(outputs)
    outputs.close()
    fake.assert_idle()


def test_a_lost_step_ends_the_engine_and_says_so_ever_after() -> None:
    def faults(plan: StepPlan) -> dict[str, str]:
        raise RuntimeError("the device is gone")

    fake = fake_llm(faults=faults)
    for _ in range(2):
        with pytest.raises(EngineDeadError, match="the device is gone"):
            fake.llm.generate([5], GREEDY, use_tqdm=False)


def test_what_is_no_exception_ends_the_engine_and_says_so() -> None:
    class Panic(BaseException):
        pass

    def faults(plan: StepPlan) -> dict[str, str]:
        raise Panic("index out of bounds")

    fake = fake_llm(faults=faults)
    for _ in range(2):
        with pytest.raises(EngineDeadError, match="Panic: index out of bounds"):
            fake.llm.generate([5], GREEDY, use_tqdm=False)


def test_an_exit_of_the_program_inside_a_step_is_passed_on() -> None:
    def leave(step: int) -> None:
        raise SystemExit(step)

    fake = troubled(leave)
    with pytest.raises(SystemExit):
        fake.llm.generate([5], GREEDY, use_tqdm=False)
    fake.assert_idle()


def test_a_closed_facade_refuses_prompts() -> None:
    with fake_llm().llm as llm:
        pass
    llm.close()
    with pytest.raises(EngineDeadError, match="closed"):
        llm.generate([5], GREEDY, use_tqdm=False)


def test_an_unknown_flag_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigurationError, match="'max_model_length'; did you mean 'max_model_len'"):
        LLM("no such model", max_model_length=7)


def test_the_progress_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    fake_llm().llm.generate([[5], [6]], GREEDY)
    captured = capsys.readouterr()
    assert "2/2" in captured.err
    assert "tokens/s" in captured.err
    assert captured.out == ""
