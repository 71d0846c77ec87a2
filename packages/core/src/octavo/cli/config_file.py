"""`--config FILE.yaml`: values for a command's options that were not typed."""

import difflib
from pathlib import Path
from typing import Any

import typer

from octavo.errors import CheckpointError, shown, summarized
from octavo.model.foreign import read_bytes

MAX_BYTES = 1 << 20
_MAX_NAME = 100


def apply_config_file(context: typer.Context, path: Path | None) -> None:
    """Callback of `--config`: make the file's values the defaults of the command's options.

    Keys are the options' long names without dashes in front (`max-model-len`, or `max_model_len`). What was typed wins.

    Raises:
        typer.BadParameter: the file cannot be read, is not a mapping, or has a key that is no option of the command.
    """
    if path is None or context.resilient_parsing:
        return
    names = _option_names(context)
    defaults: dict[str, Any] = {}
    for key, value in _read(path).items():
        name = key.replace("_", "-") if isinstance(key, str) else ""
        if name not in names:
            close = difflib.get_close_matches(name[:_MAX_NAME], names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise typer.BadParameter(f"{path} has the unknown key {shown(key)}: it is no option of '{context.command_path}'{hint}")
        parameter, negated = names[name]
        if not _can_be_typed(value) or (negated and not isinstance(value, bool)):
            raise typer.BadParameter(f"{path} gives {key!r} the value {shown(value)}: write it as on the command line")
        if parameter in defaults:
            raise typer.BadParameter(f"{path} gives {name!r} more than once: keep one of them")
        defaults[parameter] = not value if negated else value
    context.default_map = {**(context.default_map or {}), **defaults}


def _read(path: Path) -> dict[Any, Any]:
    import yaml

    try:
        loader = yaml.SafeLoader(read_bytes(path, max_bytes=MAX_BYTES).decode())
        node = loader.get_single_node()
        if isinstance(node, yaml.MappingNode):
            _check_keys(path, [str(key.value) for key, _ in node.value])
        content = None if node is None else loader.construct_document(node)
    except CheckpointError as error:
        raise typer.BadParameter(str(error)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Beside what is no YAML: no UTF-8, numbers of too many digits, dates that are none, what is nested endlessly.
        raise typer.BadParameter(f"{path} is not YAML that can be read: {summarized(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{path} holds a {type(content).__name__}: write one 'option: value' a line")
    return content


def _check_keys(path: Path, keys: list[str]) -> None:
    """Raise `typer.BadParameter` where the same key stands twice, of which YAML would silently take the last."""
    for key, following in zip(sorted(keys), sorted(keys)[1:], strict=False):
        if key == following:
            raise typer.BadParameter(f"{path} gives {shown(key)} more than once: keep one of them")


def _can_be_typed(value: Any) -> bool:
    """Whether a value is one of the command line, or a list of them."""
    return all(isinstance(item, str | int | float | None) for item in (value if isinstance(value, list) else [value]))


def _option_names(context: typer.Context) -> dict[str, tuple[str, bool]]:
    """Long name without dashes -> (parameter, whether the name says no)."""
    names: dict[str, tuple[str, bool]] = {}
    for parameter in context.command.params:
        if parameter.param_type_name != "option" or parameter.name in {None, "config", "help"}:
            continue
        for options, negated in ((parameter.opts, False), (parameter.secondary_opts, True)):
            names |= {option[2:]: (str(parameter.name), negated) for option in options if option.startswith("--")}
    return names
