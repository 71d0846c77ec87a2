"""Options that every command which loads a model has: one for each field of `EngineOptions`, and how plugins are chosen."""

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from octavo.cli.config_file import apply_config_file
from octavo.cli.state import debug_option
from octavo.config.keywords import ALIASES
from octavo.config.options import EngineOptions
from octavo.env import read_environment, split_names

_PANEL = "Engine"
_METAVARS = {
    "model": "NAME",
    "chat_template": "FILE",
    "max_model_len": "TOKENS",
    "block_size": "TOKENS",
    "num_blocks": "COUNT",
    "kv_cache_memory_bytes": "SIZE",
    "memory_utilization": "SHARE",
    "max_num_seqs": "COUNT",
    "max_num_batched_tokens": "TOKENS",
    "long_prefill_token_threshold": "TOKENS",
    "max_logprobs": "COUNT",
    "optimization_level": "LEVEL",
    "compile_artifacts": "FILE",
    "seed": "NUMBER",
}


@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """The engine's part of a command line.

    Attributes:
        options: flags and, below them, the values of `--config`.
        plugins_allow: the only plugins to load; None: all.
        plugins_block: plugins not to load.
        debug: log everything.
    """

    options: EngineOptions
    plugins_allow: tuple[str, ...] | None
    plugins_block: tuple[str, ...]
    debug: bool = False


def with_engine_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every engine flag; it receives them as the keyword `engine`, an `EngineFlags`."""

    @functools.wraps(command)
    def run(**values: Any) -> None:
        values.pop("config")
        command(engine=_take_engine_flags(values), **values)

    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "engine"]
    parameters = [*own, *_engine_parameters()]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__
    return run


def _take_engine_flags(values: dict[str, Any]) -> EngineFlags:
    """Remove what belongs to the engine from a command's values."""
    given = {item.name: value for item in fields(EngineOptions) if (value := values.pop(item.name)) is not None}
    environment = read_environment()
    allow, block = values.pop("plugins_allow"), values.pop("plugins_block")
    return EngineFlags(
        options=EngineOptions(**given),
        plugins_allow=environment.plugins_allow if allow is None else split_names(allow),
        plugins_block=environment.plugins_block if block is None else split_names(block),
        debug=values.pop("debug"),
    )


def _engine_parameters() -> list[inspect.Parameter]:
    hints = typing.get_type_hints(EngineOptions)
    parameters = []
    for item in fields(EngineOptions):
        help_text = item.metadata["help"]
        if item.default not in {None, MISSING} and str(item.default) != help_text.split(",")[0].split(" ")[0]:
            help_text = f"{help_text} [default: {'on' if item.default is True else item.default}]"
        option = typer.Option(
            *_declarations(item.name, hints[item.name]),
            help=help_text,
            metavar=None if _flag_type(hints[item.name]) is bool else _METAVARS.get(item.name, "TEXT"),
            rich_help_panel=_PANEL,
            show_default=False,
        )
        parameters.append(_keyword(item.name, Annotated[_flag_type(hints[item.name]) | None, option]))
    return [*parameters, *_shared_parameters()]


def _shared_parameters() -> list[inspect.Parameter]:
    def option(*names: str, help_text: str, **more: Any) -> Any:
        return typer.Option(*names, help=help_text, rich_help_panel=_PANEL, show_default=False, **more)

    allow = option("--plugins-allow", help_text="load only these plugins (names with commas); else OCTAVO_PLUGINS_ALLOW", metavar="NAMES")
    block = option("--plugins-block", help_text="do not load these plugins (names with commas); else OCTAVO_PLUGINS_BLOCK", metavar="NAMES")
    config = option(
        "--config", help_text="YAML file of options; flags win over it", callback=apply_config_file, is_eager=True, metavar="FILE.yaml"
    )
    return [
        _keyword("plugins_allow", Annotated[str | None, allow]),
        _keyword("plugins_block", Annotated[str | None, block]),
        _keyword("config", Annotated[Path | None, config]),
        _keyword("debug", Annotated[bool, debug_option(rich_help_panel=_PANEL)], default=False),
    ]


def _keyword(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag_type(hint: Any) -> Any:
    """The type that the command line parses: text where text is allowed, since sizes may carry a unit."""
    types = set(typing.get_args(hint) or (hint,))
    return next(kind for kind in (str, bool, float, int) if kind in types)


def _declarations(name: str, hint: Any) -> tuple[str, ...]:
    flag = "--" + name.replace("_", "-")
    if _flag_type(hint) is bool:
        return (f"{flag}/--no-{flag[2:]}",)
    return (flag, *("--" + alias.replace("_", "-") for alias, field in ALIASES.items() if field == name))
