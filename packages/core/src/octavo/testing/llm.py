"""An `LLM` on the fake engine, with a tokenizer whose every word is one token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from octavo.config.engine import EngineConfig
from octavo.engine.build import Engine
from octavo.engine.client import InProcessClient
from octavo.engine.messages import ModelInfo
from octavo.engine.text_side import TextSide
from octavo.llm import LLM
from octavo.model.generation import GenerationDefaults
from octavo.outputs import CompletionOutput, RequestOutput
from octavo.sampling_params import SamplingParams
from octavo.testing.config import fake_config
from octavo.testing.engine import EOS_TOKEN_ID, FakeEngine, fake_engine
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer
from octavo.text.tokenizer_settings import TokenizerSettings

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)
NUM_SPECIAL_TOKENS = 3
GREEDY = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True)


@dataclass(frozen=True)
class FakeLLM:
    """A facade and the engine below it."""

    llm: LLM
    engine: FakeEngine

    def generate(self, prompts: Any, params: Any = GREEDY, **more: Any) -> list[RequestOutput]:
        """`LLM.generate` without a progress bar; nothing may be left behind."""
        outputs = self.llm.generate(prompts, params, use_tqdm=False, **more)
        self.assert_idle()
        return outputs

    def complete(self, prompt: Any, params: Any = GREEDY) -> CompletionOutput:
        """The first choice of one prompt."""
        (output,) = self.generate(prompt, params)
        return output.outputs[0]

    def assert_idle(self) -> None:
        """No request is left behind, and no block is held."""
        stats = self.llm.stats()
        assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
        self.engine.scheduler.check_integrity()


def word_backend(words: Sequence[str] = (), *, vocab_size: int = 1000) -> Backend:
    """A tokenizer with the ids `<unk>` 0, `<s>` 1, `</s>` 2, then the words, then fillers `x<id>`.

    It splits at white space, and a token is spelled as its word without any; `<0xF0>` and the like stand for bytes.
    """
    tokens = ["<unk>", "<s>", "</s>", *words]
    tokens += [f"x{index}" for index in range(len(tokens), vocab_size)]
    backend = Backend(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token="<unk>"))  # noqa: S106
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(tokens[:NUM_SPECIAL_TOKENS])
    return backend


def fake_llm(
    *,
    words: Sequence[str] = (),
    vocab_size: int = 1000,
    num_blocks: int = 12,
    max_model_len: int = 128,
    chat_template: str | None = CHAT_TEMPLATE,
    generation_defaults: GenerationDefaults | None = None,
    seed: int | None = None,
    wrap_client: Callable[[InProcessClient], InProcessClient] = lambda client: client,
    **engine_options: Any,
) -> FakeLLM:
    """Build a facade; `engine_options` are those of `fake_engine`, and `wrap_client` may put something between the two."""
    fake = fake_engine(num_blocks=num_blocks, max_model_len=max_model_len, vocab_size=vocab_size, **engine_options)
    tokenizer = Tokenizer(TokenizerSettings(backend=word_backend(words, vocab_size=vocab_size), chat_template=chat_template))
    engine = Engine(
        config=_config(vocab_size=vocab_size, max_model_len=max_model_len, seed=seed),
        decisions=(),
        info=ModelInfo(
            vocab_size=vocab_size,
            max_model_len=max_model_len,
            eos_token_ids=[EOS_TOKEN_ID],
            block_size=16,
            num_blocks=num_blocks,
            max_pool_tokens=fake.cache.max_tokens,
            max_num_seqs=engine_options.get("max_num_seqs", 4),
        ),
        text=TextSide(
            model_name="fake",
            tokenizer=tokenizer,
            chat_template=ChatTemplate(tokenizer.chat_template),
            generation_defaults=generation_defaults or GenerationDefaults(),
        ),
        client=wrap_client(InProcessClient(fake.loop, fake.executor)),
    )
    return FakeLLM(LLM.from_engine(engine), fake)


def _config(*, vocab_size: int, max_model_len: int, seed: int | None) -> EngineConfig:
    config = fake_config(num_blocks=None, max_model_len=max_model_len, vocab_size=vocab_size)
    return replace(
        config,
        model=replace(config.model, eos_token_ids=(EOS_TOKEN_ID,)),
        load=replace(config.load, use_generation_config=True),
        attention_backend="auto",
        sampler="default",
        seed=seed,
    )
