"""`octavo compile`: compile a model's pieces once, for starts elsewhere that then take seconds less."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octavo.cli.options import EngineFlags, with_engine_flags
from octavo.errors import ConfigurationError

if TYPE_CHECKING:
    from octavo.engine.runner import ModelRunner

_LEVEL = 2


@with_engine_flags
def compile_command(
    engine: EngineFlags,
    target: Annotated[str | None, typer.Argument(metavar="MODEL", show_default=False, help="as --model")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write, for --compile-artifacts", metavar="FILE")] = Path(
        "octavo-compiled.bin"
    ),
) -> None:
    """Compile a model with the flags that it will be served with, and write the result to a file.

    The file serves on machines with the same versions and a CPU or GPU of the same kind; elsewhere it is left aside with a warning.
    On a CPU it also measures what steps take as written and compiled here; later starts choose the faster, and `octavo env` has both.
    --load-format dummy spares reading the weights. Loading such a file runs what is in it: trust it like a program.
    """
    from octavo.config.units import format_bytes
    from octavo.log import configure_logging

    configure_logging("debug" if engine.debug else "info")
    if not output.absolute().parent.is_dir():
        raise ConfigurationError(f"output {str(output)!r} lies in a folder that does not exist: make it, or give another --output")
    options = replace(engine.options, model=target or engine.options.model, compile_in_background=False, compile_artifacts=None)
    if options.optimization_level == "auto" and not options.enforce_eager:
        options = replace(options, optimization_level=_LEVEL)
    runner = _make_runner(replace(engine, options=options))
    try:
        runner.load()
        runner.allocate_pool()
        size = runner.save_compiled(output)
    finally:
        runner.shutdown()
    typer.echo(f"{output}: {format_bytes(size)}")


def _make_runner(engine: EngineFlags) -> "ModelRunner":
    """The runner of an engine with these flags, in this process and without the engine."""
    from octavo.config.machine import read_machine
    from octavo.config.resolve import resolve
    from octavo.engine.text_side import find_model
    from octavo.env import let_waiting_threads_sleep, read_environment
    from octavo.model.config import load_model_config
    from octavo.plugins.manager import load_plugins

    environment = read_environment()
    registries = load_plugins(allow=engine.plugins_allow, block=engine.plugins_block).registries
    files = find_model(engine.options, environment, registries)
    model = load_model_config(files, registries.config_readers)
    config = resolve(engine.options, files, model, read_machine(environment=environment), registries)
    let_waiting_threads_sleep()
    return registries.runners.get(config.runner)(config, registries)
