import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import typer

from octavo.cli.application import build_application
from octavo.cli.options import EngineFlags, with_engine_flags
from octavo.config.options import EngineOptions


def flags_of(*path: str) -> dict[str, str]:
    """Long options of a command -> the parameter they set."""
    command: Any = typer.main.get_command(build_application())
    for name in path:
        command = command.commands[name]
    return {option: item.name for item in command.params if item.param_type_name == "option" for option in item.opts}


@pytest.mark.parametrize("path", [("generate",), ("bench", "throughput")])
def test_every_command_that_loads_a_model_has_every_engine_flag(path: tuple[str, ...]) -> None:
    flags = flags_of(*path)
    for field in dataclasses.fields(EngineOptions):
        assert flags["--" + field.name.replace("_", "-")] == field.name
    assert flags["--gpu-memory-utilization"] == "memory_utilization"
    assert {"--plugins-allow", "--plugins-block", "--config", "--debug"} <= flags.keys()


def take(*arguments: str) -> EngineFlags:
    """Flags as a command receives them."""
    taken: list[EngineFlags] = []

    @with_engine_flags
    def command(engine: EngineFlags) -> None:
        taken.append(engine)

    application = typer.Typer()
    application.command()(command)
    typer.main.get_command(application).main(args=list(arguments), standalone_mode=False)
    return taken[0]


def test_nothing_typed_is_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTAVO_PLUGINS_ALLOW", raising=False)
    monkeypatch.delenv("OCTAVO_PLUGINS_BLOCK", raising=False)
    assert take() == EngineFlags(options=EngineOptions(), plugins_allow=None, plugins_block=())


def test_values_have_the_types_of_the_fields() -> None:
    options = take(
        "--model", "m", "--max-model-len", "8k", "--num-blocks", "12", "--gpu-memory-utilization", "0.5", "--no-enable-prefix-caching"
    ).options
    assert options == EngineOptions(model="m", max_model_len="8k", num_blocks=12, memory_utilization=0.5, enable_prefix_caching=False)


def test_flags_win_over_the_environment_in_the_choice_of_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", "a,b")
    monkeypatch.setenv("OCTAVO_PLUGINS_BLOCK", "c")
    assert (take().plugins_allow, take().plugins_block) == (("a", "b"), ("c",))
    flags = take("--plugins-allow", " d , e ", "--plugins-block", "")
    assert (flags.plugins_allow, flags.plugins_block) == (("d", "e"), ())


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_typed_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "max-model-len: 8k\nnum_blocks: 7\nenable-prefix-caching: false\ngpu-memory-utilization: 0.3\n")
    for arguments in (["--config", file, "--num-blocks", "9"], ["--num-blocks", "9", "--config", file]):
        assert take(*arguments).options == EngineOptions(
            max_model_len="8k", num_blocks=9, enable_prefix_caching=False, memory_utilization=0.3
        )


def test_negated_names_work_in_the_file(tmp_path: Path) -> None:
    assert not take("--config", write(tmp_path / "c.yaml", "no-enable-prefix-caching: true")).options.enable_prefix_caching


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert take("--config", write(tmp_path / "c.yaml", "# nothing\n")).options == EngineOptions()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max-modl-len: 8", "unknown key 'max-modl-len'"),
        ("max-modl-len: 8", "did you mean 'max-model-len'"),
        ("config: other.yaml", "unknown key 'config'"),
        ("- 7", "holds a list"),
        ("a: [", "is not YAML"),
        ("num-blocks: many", "--num-blocks"),
        ("model: {a: 1}", "'model'"),
        ("no-enable-prefix-caching: 3", "'no-enable-prefix-caching'"),
    ],
)
def test_what_a_file_cannot_say_is_a_usage_error(octavo: Any, fake_plugin: str, tmp_path: Path, text: str, said: str) -> None:
    done = octavo("generate", "--config", write(tmp_path / "c.yaml", text), "hello")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert said in line


def test_a_file_that_is_not_there_is_a_usage_error(octavo: Any, fake_plugin: str) -> None:
    done = octavo("generate", "--config", "/no/such.yaml", "hello")
    assert (done.code, "/no/such.yaml cannot be read" in done.err) == (2, True)


def test_the_commands_own_options_may_stand_in_the_file(octavo: Any, fake_model: tuple[str, ...], tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", f"model: {fake_model[1]}\nrunner: fake\nmax-tokens: 2\njson: true\n")
    done = octavo("generate", "hello", "--config", file)
    assert len(json.loads(done.out)["token_ids"]) == 2
