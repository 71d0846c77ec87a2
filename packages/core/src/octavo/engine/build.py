"""From options to an engine that takes requests."""

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from octavo.cache.capacity import pool_tokens
from octavo.cache.manager import KVCacheManager
from octavo.cache.spec import kv_groups
from octavo.config.engine import Decision, EngineConfig, latest_decisions
from octavo.config.machine import read_machine
from octavo.config.options import EngineOptions
from octavo.config.resolve import resolve
from octavo.engine.client import InProcessClient
from octavo.engine.executor import Executor
from octavo.engine.loop import EngineLoop
from octavo.engine.messages import ModelInfo
from octavo.engine.phases import phase
from octavo.engine.runner import PoolSize
from octavo.engine.text_side import TextSide, find_model, load_text_side
from octavo.env import read_environment
from octavo.model.architecture import unknown_architecture_named
from octavo.model.config import load_model_config
from octavo.model.generation import GenerationDefaults
from octavo.plugins.manager import load_plugins
from octavo.plugins.registries import Registries
from octavo.scheduler.scheduler import Scheduler
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from octavo.scheduler.policy import SchedulerPolicy

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A running engine and what its clients need to talk text with it.

    Attributes:
        config: what it runs with.
        decisions: every "auto" with its reason, those of the runner included.
        info: limits that requests are checked against.
        text: tokenizer, chat template and defaults of the model.
        client: adds, aborts and steps.
    """

    config: EngineConfig
    decisions: tuple[Decision, ...]
    info: ModelInfo
    text: TextSide
    client: InProcessClient

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the model."""
        return self.text.tokenizer

    @property
    def chat_template(self) -> ChatTemplate:
        """Of the model; without source where it has none."""
        return self.text.chat_template

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """Of the model; all None with `generation_config="none"`."""
        return self.text.generation_defaults


def build_engine(options: EngineOptions, *, plugins_allow: tuple[str, ...] | None = None, plugins_block: tuple[str, ...] = ()) -> Engine:
    """Load plugins, the model and its weights, size the KV pool, and put the engine together.

    What runs the model takes seconds to import, so the executor does this beside everything that does without.

    Args:
        options: flags as typed.
        plugins_allow, plugins_block: see `load_plugins`.

    Raises:
        PluginError: a plugin is broken.
        ConfigurationError: an option cannot be, or nothing fits into memory.
        CheckpointError: the model's files are incomplete, damaged or of an unknown kind.
    """
    start = time.perf_counter()
    environment = read_environment()
    with phase("plugins"):
        loaded = load_plugins(allow=plugins_allow, block=plugins_block)
        registries = loaded.registries
    # What a user can get wrong is looked at first: the import takes seconds, and cannot be left off once it has begun.
    with phase("model files"):
        files = find_model(options, environment, registries)
        with unknown_architecture_named(files, registries.models):
            model = load_model_config(files, registries.config_readers)
        config = resolve(options, files, model, read_machine(environment=environment).with_step_times(environment), registries)
    executor = registries.executors.get(config.executor)(config, registries, tuple(plugin.name for plugin in loaded.plugins))
    try:
        executor.prepare()
        with phase("tokenizer"):
            text = load_text_side(files, use_generation_config=config.load.use_generation_config, chat_template=options.chat_template)
        pool = executor.start()
        config = _with_budget(config, pool)
        decisions = latest_decisions((*config.decisions, *executor.decisions))
        _log_decisions(decisions)
        info = model_info(config, pool, registries)
        engine = Engine(
            config=config,
            decisions=decisions,
            info=info,
            text=text,
            client=InProcessClient(
                build_loop(config, info, executor, registries.scheduler_policies.get(config.scheduler.policy)()), executor
            ),
        )
    except BaseException:
        executor.shutdown()
        raise
    _log.info("ready in %.1f s: %s, %s on %s", time.perf_counter() - start, files.name, config.load.dtype, config.device)
    return engine


def build_loop(config: EngineConfig, info: ModelInfo, executor: Executor, policy: "SchedulerPolicy") -> EngineLoop:
    """Block manager, scheduler and loop above an executor that has started."""
    groups = kv_groups(config.model, block_size=info.block_size, dtype=config.cache.dtype)
    cache = KVCacheManager(
        groups,
        info.num_blocks,
        max_step_tokens=config.scheduler.max_chunk,
        enable_prefix_caching=config.cache.enable_prefix_caching,
        fingerprint=repr((config.load.files, config.model, config.load.dtype, config.cache.dtype)).encode(),
    )
    scheduler = Scheduler(
        config.scheduler, policy, cache, max_model_len=info.max_model_len, eos_token_ids=frozenset(config.model.eos_token_ids)
    )
    return EngineLoop(scheduler, executor)


def model_info(config: EngineConfig, pool: PoolSize, registries: Registries) -> ModelInfo:
    """What clients must know of an engine above a pool."""
    groups = kv_groups(config.model, block_size=config.cache.block_size, dtype=config.cache.dtype)
    return ModelInfo(
        vocab_size=config.model.vocab_size,
        max_model_len=pool.max_model_len,
        eos_token_ids=list(config.model.eos_token_ids),
        block_size=config.cache.block_size,
        num_blocks=pool.num_blocks,
        max_pool_tokens=pool_tokens(groups, pool.num_blocks, max_step_tokens=config.scheduler.max_chunk),
        max_logprobs=config.max_logprobs,
        logits_processors=list(registries.logits_processors),
        max_num_seqs=config.scheduler.max_num_seqs,
    )


def _with_budget(config: EngineConfig, pool: PoolSize) -> EngineConfig:
    """The configuration with the token budget that the runner measured, where it did."""
    if pool.max_num_batched_tokens is None:
        return config
    scheduler = replace(config.scheduler, max_num_batched_tokens=pool.max_num_batched_tokens, context_scale=pool.context_scale)
    return replace(config, scheduler=scheduler)


def _log_decisions(decisions: tuple[Decision, ...]) -> None:
    for decision in decisions:
        _log.debug("%s = %s (%s)", decision.name, decision.value, decision.reason)
