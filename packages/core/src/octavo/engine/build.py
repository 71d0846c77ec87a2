"""From options to an engine that takes requests."""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octavo.cache.capacity import pool_tokens
from octavo.cache.manager import KVCacheManager
from octavo.cache.spec import kv_groups
from octavo.config.engine import Decision, EngineConfig
from octavo.config.machine import read_machine
from octavo.config.options import EngineOptions
from octavo.config.resolve import AUTO, DEFAULT_RUNNER, resolve
from octavo.engine.client import InProcessClient
from octavo.engine.executor import Executor, InProcessExecutor
from octavo.engine.loop import EngineLoop
from octavo.engine.messages import ModelInfo
from octavo.engine.runner import ModelRunner, PoolSize
from octavo.env import Environment, let_waiting_threads_sleep, read_environment
from octavo.model.architecture import unknown_architecture_named
from octavo.model.config import load_model_config
from octavo.model.generation import GenerationDefaults, load_generation_defaults
from octavo.model.source import ModelFiles, default_model_name, resolve_model
from octavo.plugins.manager import load_plugins
from octavo.plugins.registries import Registries
from octavo.scheduler.scheduler import Scheduler
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer, load_tokenizer

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
        tokenizer: of the model.
        chat_template: of the model; without source where it has none.
        generation_defaults: of the model; all None with `generation_config="none"`.
        client: adds, aborts and steps.
    """

    config: EngineConfig
    decisions: tuple[Decision, ...]
    info: ModelInfo
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    generation_defaults: GenerationDefaults
    client: InProcessClient


def build_engine(options: EngineOptions, *, plugins_allow: tuple[str, ...] | None = None, plugins_block: tuple[str, ...] = ()) -> Engine:
    """Load plugins, the model and its weights, size the KV pool, and put the engine together.

    What runs the model takes seconds to import, so this happens in a thread beside everything that does without.

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
    with _phase("plugins"):
        registries = load_plugins(allow=plugins_allow, block=plugins_block).registries
    # What a user can get wrong is looked at first: the import takes seconds, and cannot be left off once it has begun.
    with _phase("model files"):
        files = _find_model(options, environment, registries)
        with unknown_architecture_named(files, registries.models):
            model = load_model_config(files, registries.config_readers)
        config = resolve(options, files, model, read_machine(environment=environment), registries)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="octavo-import") as background:
        runner_class = _import_runner(options, registries, background)
        with _phase("tokenizer"):
            tokenizer = load_tokenizer(files)
        with _phase("runner import"):
            runner = runner_class.result()(config, registries)
    executor = InProcessExecutor(runner)
    try:
        with _phase("weights and KV pool"):
            pool = executor.start()
        decisions = (*config.decisions, *runner.decisions)
        _log_decisions(decisions)
        info = model_info(config, pool, registries)
        engine = Engine(
            config=config,
            decisions=decisions,
            info=info,
            tokenizer=tokenizer,
            chat_template=ChatTemplate(tokenizer.chat_template, special_tokens=tokenizer.special_tokens),
            generation_defaults=load_generation_defaults(files) if config.load.use_generation_config else GenerationDefaults(),
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


def _find_model(options: EngineOptions, environment: Environment, registries: Registries) -> ModelFiles:
    sources = registries.model_sources
    return resolve_model(
        default_model_name(sources) if options.model is None else options.model,
        revision=options.revision,
        offline=environment.hub_offline,
        load_format=options.load_format,
        sources=sources,
    )


def _import_runner(options: EngineOptions, registries: Registries, background: ThreadPoolExecutor) -> "Future[type[ModelRunner]]":
    """Start to import the class of the runner; what goes wrong shows where the result is asked for."""
    let_waiting_threads_sleep()
    name = DEFAULT_RUNNER if options.runner == AUTO else options.runner
    return background.submit(registries.runners.get, name)


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
    )


def _log_decisions(decisions: tuple[Decision, ...]) -> None:
    for decision in decisions:
        _log.debug("%s = %s (%s)", decision.name, decision.value, decision.reason)


@contextmanager
def _phase(name: str) -> Iterator[None]:
    """Log how long a part of start-up took."""
    start = time.perf_counter()
    yield
    _log.debug("start-up: %s took %.2f s", name, time.perf_counter() - start)
