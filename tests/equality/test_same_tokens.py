"""Under every setting Octavo says what Transformers says, token by token, in float32 and at temperature 0."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from octavo import LLM, SamplingParams
from octavo_kernels.cpu.library import find_library
from tests.equality.play import Outcome, full_blocks, play, shared_tokens
from tests.equality.recorded import Recorded
from tests.equality.settings import FULL, FULL_CROWD, FULL_SMALL_POOL, QUICK, QUICK_CROWD, Run, Setting
from tests.equality.ties import MAX_PROMPTS_WITH_TIES

Report = Callable[[str, Outcome], None]
BACKENDS = (
    "sdpa",
    pytest.param("cpu", marks=pytest.mark.skipif(find_library() is None, reason="octavo-kernels was built without a C++ compiler")),
)
MAX_CROWD_PROMPT = 100


def start(setting: Setting, backend: str, recorded: Sequence[Recorded]) -> LLM:
    lengths = [len(one.token_ids) + len(one.continuation.token_ids) for one in recorded]
    flags: dict[str, Any] = {"block_size": setting.block_size, "attention_backend": backend, "dtype": "float32"}
    return LLM("smollm2", **flags | setting.pool_flags(lengths) | setting.flags)


def check(setting: Setting, backend: str, recorded: Sequence[Recorded], report: Report, max_prompts_with_ties: int) -> None:
    with start(setting, backend, recorded) as llm:
        for run in setting.runs:
            outcome = play(llm, recorded, run)
            report(f"{backend}, {setting.name}, {run.name}", outcome)
            assert outcome.agreement.failures(max_prompts_with_ties) == []
            check_cached(setting, run, recorded, outcome.cached)
            assert outcome.preemptions >= setting.min_preemptions
            assert setting.min_preemptions > 0 or outcome.preemptions == 0
            stats = llm.stats()
            assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0.0)


def check_cached(setting: Setting, run: Run, recorded: Sequence[Recorded], cached: dict[str, int]) -> None:
    at_most = {one.name: full_blocks(len(one.token_ids) - 1, setting.block_size) for one in recorded}
    if run.cached == "nothing":
        assert cached == dict.fromkeys(at_most, 0)
    elif run.cached == "everything":
        assert cached == at_most
    else:
        assert all(cached[name] <= at_most[name] for name in at_most)
        if setting.spare_blocks is None:
            shared = shared_tokens(recorded, setting.block_size)
            assert sum(shared.values()) > 0
            assert all(cached[name] >= shared[name] for name in shared)


@pytest.fixture(scope="module")
def plain_llm() -> Iterator[LLM]:
    with LLM("smollm2", dtype="float32", max_model_len=512, num_blocks=256, block_size=16) as llm:
        yield llm


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("setting", QUICK, ids=lambda setting: setting.name)
def test_eight_prompts_give_the_references_tokens(setting: Setting, backend: str, quick: list[Recorded], report: Report) -> None:
    check(setting, backend, quick, report, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("setting", QUICK_CROWD, ids=lambda setting: setting.name)
def test_preempted_requests_give_the_references_tokens(setting: Setting, backend: str, crowd: list[Recorded], report: Report) -> None:
    check(setting, backend, crowd, report, 0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("setting", FULL + FULL_SMALL_POOL, ids=lambda setting: setting.name)
def test_all_prompts_give_the_references_tokens(setting: Setting, backend: str, recorded: list[Recorded], report: Report) -> None:
    check(setting, backend, recorded, report, MAX_PROMPTS_WITH_TIES)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("setting", FULL_CROWD, ids=lambda setting: setting.name)
def test_prompts_preempted_many_times_give_the_references_tokens(
    setting: Setting, backend: str, recorded: list[Recorded], report: Report
) -> None:
    check(setting, backend, [one for one in recorded if len(one.token_ids) <= MAX_CROWD_PROMPT], report, MAX_PROMPTS_WITH_TIES)


def test_four_seeded_choices_are_distinct_and_come_again(plain_llm: LLM) -> None:
    prompt = "The keeper of the lighthouse"
    single, four = (SamplingParams(n=n, seed=7, temperature=1.0, max_tokens=12, ignore_eos=True) for n in (1, 4))
    first, again, alone = (plain_llm.generate(prompt, params, use_tqdm=False)[0].outputs for params in (four, four, single))
    texts = [choice.text for choice in first]
    assert texts == [choice.text for choice in again]
    assert len(set(texts)) == 4
    assert alone[0].token_ids == first[0].token_ids


def test_a_seed_draws_the_same_alone_and_in_company(plain_llm: LLM, crowd: list[Recorded]) -> None:
    prompts = [list(one.token_ids) for one in crowd]
    params = [SamplingParams(seed=seed, temperature=1.0, max_tokens=8, ignore_eos=True) for seed in range(len(prompts))]
    alone = [plain_llm.generate(prompt, one, use_tqdm=False)[0] for prompt, one in zip(prompts, params, strict=True)]
    together = plain_llm.generate(prompts, params, use_tqdm=False)
    assert [output.outputs[0].token_ids for output in together] == [output.outputs[0].token_ids for output in alone]


def test_without_a_seed_draws_differ_between_calls(plain_llm: LLM) -> None:
    params = SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True)
    texts = [plain_llm.generate("Once", params, use_tqdm=False)[0].outputs[0].text for _ in range(2)]
    assert texts[0] != texts[1]
