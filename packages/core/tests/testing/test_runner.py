from octavo.engine.inprocess import InProcessExecutor
from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest, StepPlan
from octavo.testing.config import fake_config
from octavo.testing.model import continuation
from octavo.testing.runner import FakeRunner


def test_the_fake_runner_serves_in_process_without_files() -> None:
    registries = Registries()
    registries.runners.register("fake", FakeRunner)
    executor = InProcessExecutor(fake_config(vocab_size=50), registries, ())
    assert executor.start().num_blocks == 64
    added = AddedRequest(
        request_id="a",
        epoch=0,
        token_ids=[5, 6, 7],
        num_prompt_tokens=3,
        num_computed_tokens=0,
        block_ids=[[64]],
        params=SamplingParams(temperature=0),
        ending_token_ids=[],
        seed=0,
    )
    plan = StepPlan(step_id=0, removed=[], added=[added], continued=[], num_tokens={"a": 3}, num_output_tokens={"a": 0})
    assert executor.submit(plan).result().token_ids == {"a": continuation([5, 6, 7], 1, vocab_size=50)}
    executor.shutdown()
    executor.shutdown()
