"""The hooks of the server."""

from typing import TYPE_CHECKING

from octavo import hookimpl

if TYPE_CHECKING:
    import typer

    from octavo.plugins.registry import Registry


@hookimpl
def octavo_register_commands(registry: "Registry[typer.Typer]") -> None:
    """Register `octavo serve` and `octavo bench serve`."""
    registry.register("serve", "octavo_server.serve:application", summary="Serve a model over HTTP, with OpenAI's API.")
    registry.register("bench serve", "octavo_server.bench.command:bench_serve", summary="Measure how fast a server answers under load.")
