"""A tokenizer from `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`; no code of a model is run."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from octavo.errors import CheckpointError
from octavo.model.foreign import ForeignFields, read_json_object
from octavo.model.source import ModelFiles
from octavo.text.tokenizer_settings import TokenizerSettings


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
    try:
        backend = Backend.from_file(str(path))
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read as a tokenizer: {error}") from error
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
        try:
            return files.chat_template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{files.chat_template} cannot be read: {error}") from error
    templates = config.values.get("chat_template")
    if not isinstance(templates, list):
        return config.text("chat_template") if config.has("chat_template") else None
    by_name = {item.get("name"): item.get("template") for item in templates if isinstance(item, dict)}
    default = by_name.get("default")
    if not isinstance(default, str):
        raise config.refused(f"none of its chat templates is named 'default'; there are {', '.join(map(str, by_name)) or 'none'}")
    return default
