"""`--config FILE.yaml`: values for a command's options that were not typed."""

import difflib
from pathlib import Path
from typing import Any

import typer


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
        name = str(key).replace("_", "-")
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise typer.BadParameter(f"{path} has the unknown key {key!r}: it is no option of '{context.command_path}'{hint}")
        parameter, negated = names[name]
        if isinstance(value, dict) or (negated and not isinstance(value, bool)):
            raise typer.BadParameter(f"{path} gives {key!r} the value {value!r}: write it as on the command line")
        defaults[parameter] = not value if negated else value
    context.default_map = {**(context.default_map or {}), **defaults}


def _read(path: Path) -> dict[Any, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{path} holds a {type(content).__name__}: write one 'option: value' a line")
    return content


def _option_names(context: typer.Context) -> dict[str, tuple[str, bool]]:
    """Long name without dashes -> (parameter, whether the name says no)."""
    names: dict[str, tuple[str, bool]] = {}
    for parameter in context.command.params:
        if parameter.param_type_name != "option" or parameter.name in {None, "config", "help"}:
            continue
        for options, negated in ((parameter.opts, False), (parameter.secondary_opts, True)):
            names |= {option[2:]: (str(parameter.name), negated) for option in options if option.startswith("--")}
    return names
