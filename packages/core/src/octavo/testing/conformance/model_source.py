"""What holds for every named model."""

from pathlib import Path

from octavo.errors import ModelNotFoundError
from octavo.model.config import ModelConfig, load_model_config
from octavo.model.config_reader import ConfigReader
from octavo.model.folder import inspect_path
from octavo.model.source import ModelSource
from octavo.plugins.registry import Registry
from octavo.text.tokenizer import load_tokenizer


def check_model_source(source: type[ModelSource], *, readers: Registry[ConfigReader] | None = None) -> ModelConfig:
    """Locate a model that is there, and read its shape and its tokenizer. Raises AssertionError, or what reading the files raises.

    Args:
        source: the source's class.
        readers: of `config.json`, where the architecture is a plugin's own.

    Returns:
        The model's shape.
    """
    assert isinstance(source, type), f"{source!r} is no class"
    assert issubclass(source, ModelSource), f"{source.__name__} does not extend octavo.model.source.ModelSource"
    assert isinstance(source.is_default, bool), f"{source.__name__}.is_default is {source.is_default!r}, but must be True or False"
    path = source().locate()
    assert isinstance(path, Path), f"{source.__name__}.locate() returned {path!r}, but must return a pathlib.Path"
    assert path.exists(), f"{source.__name__}.locate() returned {path}, which is not there: it must raise ModelNotFoundError then"
    assert source().locate() == path, f"{source.__name__}.locate() returned two different places"
    files = inspect_path(path, name="checked")
    config = load_model_config(files, readers)
    tokenizer = load_tokenizer(files)
    assert tokenizer.encode("a", add_special_tokens=False), "the tokenizer makes no tokens of a letter"
    return config


def check_missing_model(source: type[ModelSource]) -> None:
    """Locate a model that is not there. Raises AssertionError where that is no `ModelNotFoundError` of one line."""
    try:
        path = source().locate()
    except ModelNotFoundError as error:
        message = str(error)
        assert message.strip(), f"{source.__name__}.locate() does not say what to install"
        assert "\n" not in message, f"{source.__name__}.locate() says in several lines what belongs into one: {message!r}"
        return
    raise AssertionError(f"{source.__name__}.locate() returned {path}, but the model is not there: it must raise ModelNotFoundError")
