"""What talks text for a model: found and loaded without the engine, and without torch."""

import logging
from dataclasses import dataclass
from pathlib import Path

from octavo.config.options import EngineOptions
from octavo.env import Environment, read_environment
from octavo.errors import CheckpointError, ConfigurationError
from octavo.model.foreign import read_text_file
from octavo.model.generation import GenerationDefaults, load_generation_defaults
from octavo.model.source import ModelFiles, default_model_name, resolve_model
from octavo.plugins.manager import load_plugins
from octavo.plugins.registries import Registries
from octavo.text.chat_template import ChatTemplate
from octavo.text.tokenizer import Tokenizer, load_tokenizer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TextSide:
    """What the clients of an engine need to talk text with it.

    Attributes:
        model_name: what the user called the model, or the source that offered itself.
        tokenizer: of the model.
        chat_template: of the model; without source where it has none.
        generation_defaults: of the model; all None where they are not wanted.
    """

    model_name: str
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    generation_defaults: GenerationDefaults


def find_text_side(
    options: EngineOptions, *, plugins_allow: tuple[str, ...] | None = None, plugins_block: tuple[str, ...] = ()
) -> TextSide:
    """What talks text for the model that an engine of these options runs. Raises as `build_engine` does."""
    registries = load_plugins(allow=plugins_allow, block=plugins_block).registries
    files = find_model(options, read_environment(), registries)
    return load_text_side(files, use_generation_config=options.generation_config != "none", chat_template=options.chat_template)


def find_model(options: EngineOptions, environment: Environment, registries: Registries) -> ModelFiles:
    """The files of the model that the options name. Raises `ConfigurationError`, `ModelNotFoundError` or `CheckpointError`."""
    sources = registries.model_sources
    return resolve_model(
        default_model_name(sources) if options.model is None else options.model,
        revision=options.revision,
        offline=environment.hub_offline,
        load_format=options.load_format,
        sources=sources,
    )


def load_text_side(files: ModelFiles, *, use_generation_config: bool, chat_template: str | None = None) -> TextSide:
    """Read the files of a model that have to do with text.

    Args:
        files: of the model.
        use_generation_config: whether its defaults of sampling are wanted.
        chat_template: file with another template than the model's.

    Raises:
        CheckpointError: a file of the model cannot be.
        ConfigurationError: the file of the template cannot be read, or is no template.
    """
    tokenizer = load_tokenizer(files)
    return TextSide(
        model_name=files.name,
        tokenizer=tokenizer,
        chat_template=_template(tokenizer, None if chat_template is None else Path(chat_template)),
        generation_defaults=load_generation_defaults(files) if use_generation_config else GenerationDefaults(),
    )


def _template(tokenizer: Tokenizer, file: Path | None) -> ChatTemplate:
    """The template in a file, or the model's. One of the model's that is broken is a warning: it need not hold conversations."""
    template = ChatTemplate(tokenizer.chat_template if file is None else _read_template(file), special_tokens=tokenizer.special_tokens)
    if (problem := template.problem()) is not None:
        if file is not None:
            raise ConfigurationError(f"chat_template {str(file)!r}: {problem}")
        _log.warning("conversations are refused: %s", problem)
    return template


def _read_template(file: Path) -> str:
    try:
        return read_text_file(file)
    except CheckpointError as error:
        raise ConfigurationError(f"chat_template: {error}") from error
