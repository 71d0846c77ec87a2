"""The pages about the server say what is there, and what they show works against one live server.

Blocks marked `bash` and `python` are run as they stand, but for the address. Blocks marked `console` are not: servers of their own,
and what needs systemd or Docker. Of these the flags of `octavo serve` are checked.
"""

import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
import yaml

import octavo_server.serve
from octavo.cli.main import run
from octavo_server.app import create_app
from octavo_server.config import ServerConfig
from octavo_server.launch import Launch
from octavo_server.metrics.requests import RequestMetrics
from octavo_server.protocol.chat import ChatRequest
from octavo_server.protocol.completions import CompletionRequest
from octavo_server.protocol.messages import MessagesRequest
from octavo_server.state import ServerState
from tests.server.running import PROGRAM, Launcher, RunningServer

DOCS = Path(__file__).parent.parent / "docs"
README = DOCS.parent / "README.md"
PAGES = [DOCS / name for name in ("server.md", "operations.md", "tuning.md")]
SERVER_PAGE = PAGES[0].read_text()
SMALL = ("--max-model-len", "2048", "--num-blocks", "512", "--max-num-seqs", "16")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def documented(language: str, *, asks_server: bool = True) -> list[Any]:
    """Blocks as parameters: those that ask a server, or those that do without."""
    pages = [*PAGES, README] if asks_server else PAGES
    found = [(page, number, block) for page in pages for number, block in enumerate(blocks(page, language))]
    return [pytest.param(block, id=f"{page.stem}-{number}") for page, number, block in found if ("8000" in block) == asks_server]


def console_lines() -> list[str]:
    return [line[2:] for page in (*PAGES, README) for block in blocks(page, "console") for line in block.splitlines()]


SERVE_LINES = [line for line in console_lines() if re.search(r"\boctavo serve\b", line)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands run, with the files that the pages speak of."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / ".curlrc").write_text("fail\nsilent\nshow-error\n")
    (folder / "keys").write_text("alice: sk-alice\n# a comment\nsk-other\n")
    (folder / "serve.yaml").write_text(blocks(PAGES[0], "yaml")[0])
    (certificate,) = [block for block in blocks(PAGES[0], "bash") if block.startswith("openssl ")]
    bash(certificate, folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    launcher = Launcher(Path("smollm2"), tmp_path_factory.mktemp("server"), SMALL)
    yield launcher.ready()
    launcher.close()


def bash(script: str, folder: Path) -> str:
    path = os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "CURL_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_address(text: str, server: RunningServer) -> str:
    host = server.address.removeprefix("http://")
    return text.replace("localhost:8000", host).replace("--port 8000", f"--port {host.rpartition(':')[2]}")


@pytest.mark.parametrize("block", documented("bash"))
def test_commands_that_ask_the_server_succeed(block: str, folder: Path, server: RunningServer) -> None:
    assert bash(with_address(block, server), folder)


@pytest.mark.slow
@pytest.mark.parametrize("block", documented("bash", asks_server=False))
def test_other_commands_succeed(block: str, folder: Path) -> None:
    bash(block, folder)


@pytest.mark.parametrize("program", documented("python"))
def test_programs_answer(program: str, server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    module = sys.modules["documented_client"] = types.ModuleType("documented_client")
    exec(compile(with_address(program, server), "documented_client", "exec"), module.__dict__)
    assert "Paris" in capsys.readouterr().out


@pytest.mark.parametrize("line", SERVE_LINES)
def test_servers_are_started_with_flags_that_can_be(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[Launch] = []
    monkeypatch.setattr(octavo_server.serve, "serve", launched.append)
    monkeypatch.chdir(folder)
    words = shlex.split(line)
    for name, _, value in (word.partition("=") for word in words[: words.index("octavo")] if re.match(r"[A-Z_]+=", word)):
        monkeypatch.setenv(name, value)
    assert run(words[words.index("octavo") + 1 :]) == 0
    assert len(launched) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_yaml_is_yaml(page: Path) -> None:
    assert all(yaml.safe_load(block) for block in blocks(page, "yaml"))


def test_every_flag_is_described() -> None:
    command: Any = typer.main.get_command(octavo_server.serve.application)
    flags = {parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("--")}
    assert len(flags) > 40
    assert sorted(flag for flag in flags if f"`{flag}`" not in SERVER_PAGE.partition("## Flags")[2]) == []


def test_every_route_is_described() -> None:
    app = create_app(ServerState(ServerConfig(), RequestMetrics(), started=0))
    paths = {str(route.path).replace("{model:path}", "NAME") for route in app.routes}  # type: ignore[attr-defined]
    table = SERVER_PAGE.partition("## Routes")[2].partition("## Request fields")[0]
    assert sorted(path for path in paths - {"/docs/oauth2-redirect"} if f"{path}`" not in table) == []


@pytest.mark.parametrize("shape", [ChatRequest, CompletionRequest, MessagesRequest], ids=lambda shape: shape.__name__)
def test_every_field_is_described(shape: type[msgspec.Struct]) -> None:
    text = SERVER_PAGE.partition("## Request fields")[2].partition("## Streams")[0]
    assert [field.encode_name for field in msgspec.structs.fields(shape) if f"`{field.encode_name}`" not in text] == []
