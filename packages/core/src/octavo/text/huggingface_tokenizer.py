"""A tokenizer from `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`; no code of a model is run."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from octavo.errors import CheckpointError, shown
from octavo.model.foreign import ForeignFields, read_json_object, read_text_file
from octavo.model.source import ModelFiles
from octavo.text.backend import failing_as
from octavo.text.tokenizer_settings import TokenizerSettings

_MOST_SHOWN = 10


def read_huggingface_tokenizer(files: ModelFiles) -> TokenizerSettings:
    """Read the tokenizer of a model in Hugging Face's layout. Raises `CheckpointError` naming a file that is missing or damaged."""
    if files.tokenizer is None:
        raise CheckpointError(f"{files.folder} has no tokenizer.json: save the model's fast tokenizer there")
    config = ForeignFields({}, "tokenizer_config.json")
    if files.tokenizer_config is not None:
        config = ForeignFields(read_json_object(files.tokenizer_config), str(files.tokenizer_config))
    return TokenizerSettings(
        backend=_read_backend(files.tokenizer),
        special_tokens=_special_tokens(config),
        adds_bos=config.boolean("add_bos_token", False) if config.has("add_bos_token") else None,
        adds_eos=config.boolean("add_eos_token", False) if config.has("add_eos_token") else None,
        chat_template=_chat_template(files, config),
    )


def _read_backend(path: Path) -> Backend:
    with failing_as(CheckpointError, f"{path} cannot be read as a tokenizer"):
        backend = Backend.from_file(str(path))
    # Files saved by trainers may cut or pad every text to the length that they were trained with.
    backend.no_truncation()
    backend.no_padding()
    return backend


def _special_tokens(config: ForeignFields) -> dict[str, str]:
    """The fields named "…_token", each a spelling or an object that has one."""
    spellings = ((role, _spelling(value)) for role, value in config.values.items() if role.endswith("_token"))
    return {role: spelling for role, spelling in spellings if spelling is not None}


def _spelling(value: Any) -> str | None:
    match value:
        case str():
            return value
        case {"content": str(content)}:
            return content
        case _:
            return None


def _chat_template(files: ModelFiles, config: ForeignFields) -> str | None:
    """The file beside the tokenizer, or the field of its configuration: one template, or several by name."""
    if files.chat_template is not None:
        return read_text_file(files.chat_template)
    templates = config.values.get("chat_template")
    if not isinstance(templates, list):
        return config.text("chat_template") if config.has("chat_template") else None
    named = [(item.get("name"), item.get("template")) for item in templates if isinstance(item, dict)]
    default = next((template for name, template in reversed(named) if name == "default"), None)
    if not isinstance(default, str):
        names = ", ".join(shown(name) for name, _ in named[:_MOST_SHOWN])
        more = f" and {len(named) - _MOST_SHOWN:,} more" if len(named) > _MOST_SHOWN else ""
        raise config.refused(f"none of its chat templates is a text named 'default'; there are {names or 'none'}{more}")
    return default
