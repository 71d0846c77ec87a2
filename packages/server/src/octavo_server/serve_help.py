"""Help of `octavo serve`: what most people need, in groups; `--help all` has every flag."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand

_ALL = "all"
_SHORT = frozenset(
    {
        "host",
        "port",
        "uds",
        "served_model_name",
        "max_queued_requests",
        "api_key",
        "api_key_file",
        "api_server_count",
        "shutdown_timeout",
        "log_level",
        "model",
        "dtype",
        "max_model_len",
        "kv_cache_memory_bytes",
        "memory_utilization",
        "max_num_seqs",
        "config",
        "help",
    }
)
"""Parameters that the short help shows."""


class ServeCommand(TyperCommand):
    """Shows its options in groups; a few of them for `--help`, all for `--help all` and `--help-all`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the long help out before anything is parsed."""
        asks = "--help-all" in args or ("--help", _ALL) in pairwise(args)
        if asks:
            ctx.meta[_ALL] = True
            typer.echo(self.get_help(ctx))
            raise typer.Exit
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the groups, in the order of their first options."""
        shows_all = ctx.meta.get(_ALL, False)
        groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and (shows_all or parameter.name in _SHORT or parameter.param_type_name == "argument"):
                groups[getattr(parameter, "rich_help_panel", None) or "General"].append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if not shows_all:
            formatter.write_paragraph()
            formatter.write_text("octavo serve --help all shows every flag.")
