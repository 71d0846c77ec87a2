"""A tiny random Llama behind the runner, and a driver that makes plans for it the way a scheduler would."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.config.cache import CacheConfig
from octavo.config.engine import EngineConfig
from octavo.config.load import LoadConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.model.config import ModelConfig, RopeConfig
from octavo.model.source import ModelFiles
from octavo.plugins.registries import Registries
from octavo.sampling_params import SamplingParams
from octavo.scheduler.plan import AddedRequest, ContinuedRequest, StepPlan, StepResult
from octavo_models.runner.runner import TorchModelRunner
from octavo_models.testing import write_tiny_llama

VOCAB = 320
BLOCK_SIZE = 8
NUM_BLOCKS = 60


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", vocab_size=VOCAB, tie_word_embeddings=False, seed=3)


@pytest.fixture
def registries() -> Registries:
    made = Registries()
    made.models.register("llama", "octavo_models.llama:LlamaModel")
    made.attention_backends.register("sdpa", "octavo_kernels.attention.sdpa:SdpaAttention")
    made.samplers.register("default", "octavo_models.sampling.default:DefaultSampler")
    return made


@pytest.fixture
def config(folder: Path) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(
            architecture="llama",
            vocab_size=VOCAB,
            hidden_size=64,
            intermediate_size=128,
            num_layers=2,
            num_heads=4,
            num_kv_heads=2,
            head_size=16,
            rms_norm_eps=1e-5,
            rope=RopeConfig(theta=10000.0, dim=16),
            max_position=512,
            tie_embeddings=False,
        ),
        load=LoadConfig(
            files=ModelFiles(name="tiny", format="safetensors", folder=folder, weights=tuple(sorted(folder.glob("*.safetensors")))),
            dtype="float32",
            max_model_len=128,
            max_model_len_is_explicit=True,
            use_generation_config=False,
        ),
        cache=CacheConfig(
            block_size=BLOCK_SIZE,
            dtype="float32",
            num_blocks=NUM_BLOCKS,
            memory_bytes=None,
            memory_utilization=None,
            enable_prefix_caching=False,
        ),
        scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=64),
        attention_backend="auto",
        runner="torch",
        sampler="default",
        device="cpu",
        seed=None,
        decisions=(),
    )


@pytest.fixture
def make_runner(config: EngineConfig, registries: Registries) -> Iterator[Callable[..., TorchModelRunner]]:
    """Builds a runner that is ready for steps; keywords replace parts of the configuration."""
    made = []

    def make(**changes: Any) -> TorchModelRunner:
        runner = TorchModelRunner(replace(config, **changes), registries)
        runner.load()
        runner.allocate_pool()
        made.append(runner)
        return runner

    yield make
    for runner in made:
        runner.shutdown()


@dataclass
class Driven:
    """A request as the driver sees it."""

    params: SamplingParams
    seed: int
    tokens: list[int]
    num_prompt_tokens: int
    blocks: list[int] = field(default_factory=list)
    num_computed: int = 0
    is_held: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> list[int]:
        return self.tokens[self.num_prompt_tokens :]


class Driver:
    """Makes plans: blocks are handed out backwards and never twice, and what is sampled is noted."""

    def __init__(self, runner: TorchModelRunner) -> None:
        self.runner = runner
        self.requests: dict[str, Driven] = {}
        self._free = list(range(1, NUM_BLOCKS + 1))
        self._removed: list[str] = []
        self._step_id = 0

    def add(
        self,
        name: str,
        prompt: Sequence[int],
        params: SamplingParams | None = None,
        *,
        output: Sequence[int] = (),
        seed: int = 0,
        **more: Any,
    ) -> None:
        """Take in a request; `more` are further fields of `AddedRequest`."""
        params = SamplingParams(temperature=0) if params is None else params
        self.requests[name] = Driven(params=params, seed=seed, tokens=[*prompt, *output], num_prompt_tokens=len(prompt), more=more)

    def remove(self, name: str) -> None:
        request = self.requests.pop(name)
        self._free += request.blocks
        self._removed.append(name)

    def step(self, num_tokens: dict[str, int]) -> StepResult:
        """Run these requests by so many tokens."""
        added, continued, outputs = [], [], {}
        for name, count in num_tokens.items():
            request = self.requests[name]
            needed = -(-(request.num_computed + count) // BLOCK_SIZE) - len(request.blocks)
            new = [self._free.pop() for _ in range(needed)]
            request.blocks += new
            if request.is_held:
                continued.append(ContinuedRequest(request_id=name, epoch=0, num_computed_tokens=request.num_computed, new_block_ids=[new]))
            else:
                added.append(self._addition(name, request))
                request.is_held = True
            request.num_computed += count
            if request.num_computed == len(request.tokens):
                outputs[name] = len(request.output)
        plan = StepPlan(
            step_id=self._step_id, removed=self._removed, added=added, continued=continued, num_tokens=num_tokens, num_output_tokens=outputs
        )
        self._step_id, self._removed = self._step_id + 1, []
        result = self.runner.execute(plan)
        assert result.step_id == plan.step_id
        assert set(result.token_ids) == set(outputs) - set(result.errors)
        for name, tokens in result.token_ids.items():
            self.requests[name].tokens += tokens
        return result

    def generate(self, count: int, *, chunk: int = 64) -> dict[str, list[int]]:
        """Run all requests, at most `chunk` tokens each a step, until each has so many output tokens."""
        while True:
            wanted = {}
            for name, request in self.requests.items():
                if len(request.output) < count:
                    wanted[name] = min(chunk, len(request.tokens) - request.num_computed)
            if not wanted:
                return {name: request.output for name, request in self.requests.items()}
            self.step(wanted)

    @staticmethod
    def _addition(name: str, request: Driven) -> AddedRequest:
        return AddedRequest(
            request_id=name,
            epoch=0,
            token_ids=list(request.tokens),
            num_prompt_tokens=request.num_prompt_tokens,
            num_computed_tokens=request.num_computed,
            block_ids=[list(request.blocks)],
            params=request.params,
            ending_token_ids=[2],
            seed=request.seed,
            **request.more,
        )


@pytest.fixture
def make_driver(make_runner: Callable[..., TorchModelRunner]) -> Callable[..., Driver]:
    """A driver of a fresh runner; keywords replace parts of the configuration."""

    def make(**changes: Any) -> Driver:
        return Driver(make_runner(**changes))

    return make
