"""What becomes of a command line."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.cli.main import run
from octavo_server.launch import Launch

HEAVY = ("fastapi", "uvicorn", "starlette", "pydantic", "torch", "prometheus_client")


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launch]:
    """What a command line would start."""
    launches: list[Launch] = []
    monkeypatch.setattr("octavo_server.serve.serve", launches.append)
    monkeypatch.delenv("OCTAVO_API_KEY", raising=False)

    def do(*arguments: str) -> Launch:
        assert run(["serve", *arguments]) == 0
        return launches.pop()

    return do


def test_flags_become_the_configuration(launch: Callable[..., Launch]) -> None:
    started = launch(
        "model", "--host", "::1", "--port", "9000", "--served-model-name", "a,b", "--served-model-name", "c", "--max-num-queued-reqs", "5",
        "--max-request-bytes", "1MB", "--api-key", "k1,k2", "--allowed-origins", "https://a", "--allow-credentials", "-asc", "3",
        "--shutdown-timeout", "0.5", "--root-path", "/octavo/", "--max-num-seqs", "7", "--plugins-block", "x", "--disable-fastapi-docs",
    )  # fmt: skip
    config = started.config
    assert (config.host, config.port, config.served_model_names, config.max_queued_requests) == ("::1", 9000, ("a", "b", "c"), 5)
    assert (config.max_request_bytes, config.api_keys, config.api_server_count) == (10**6, {"key-1": "k1", "key-2": "k2"}, 3)
    assert (config.cors.origins, config.cors.credentials, config.cors.methods) == (("https://a",), True, ("*",))
    assert (config.shutdown_timeout_s, config.root_path, config.docs) == (0.5, "/octavo", False)
    assert (started.options.model, started.options.max_num_seqs, started.plugins_block) == ("model", "7", ("x",))


def test_keys_come_from_the_environment_where_nothing_else_has_any(launch: Callable[..., Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_API_KEY", "k1, k2")
    assert launch().config.api_keys == {"key-1": "k1", "key-2": "k2"}
    assert launch("--api-key", "k3").config.api_keys == {"key-1": "k3"}


def test_a_configuration_crosses_to_another_process(launch: Callable[..., Launch], tmp_path: Path) -> None:
    import msgspec

    started = launch("--api-key", "k", "--allowed-origins", "*", "--num-blocks", "12", "--kv-cache-dtype", "float32")
    assert msgspec.json.decode(msgspec.json.encode(started), type=Launch) == started


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--root-path", "octavo"), "--root-path 'octavo'"),
        (("--max-request-bytes", "much"), "--max-request-bytes 'much'"),
        (("--ssl-keyfile", "k"), "--ssl-certfile"),
        (("--ssl-ca-certs", "a", "--ssl-cert-reqs", "2"), "--ssl-ca-certs, --ssl-cert-reqs without a certificate"),
        (("--ssl-ciphers", "a"), "--ssl-ciphers without a certificate"),
        (("--ssl-certfile", "c", "--ssl-cert-reqs", "1"), "give --ssl-ca-certs"),
        (("--ssl-certfile", "c", "--ssl-ca-certs", "a"), "give --ssl-cert-reqs"),
        (("--ssl-certfile", "/nowhere"), "/nowhere"),
        (("--shutdown-timeout", "inf"), "--shutdown-timeout inf"),
        (("--sse-keep-alive-interval", "inf"), "--sse-keep-alive-interval inf"),
        (("--api-key", ""), "--api-key has no key"),
        (("--log-format", "xml"), "--log-format 'xml'"),
        (("--loop", "twisted"), "--loop 'twisted'"),
        (("--port", "65536"), "--port"),
        (("--frob",), "--frob"),
    ],
)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize("long", [("--help", "all"), ("--help-all",)])
def test_the_long_help_has_every_flag_and_the_short_one_the_usual(long: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--help"]) == 0
    short = capsys.readouterr().out
    assert run(["serve", *long]) == 0
    full = capsys.readouterr().out
    for flag in ("--port", "--api-key-file", "--max-model-len"):
        assert flag in short
        assert flag in full
    for flag in ("--ssl-ciphers", "--block-size", "--restart-engine"):
        assert flag not in short
        assert flag in full
    assert len(short.splitlines()) < 70
    assert "--help all" in short


def test_the_plugin_brings_nothing_heavy() -> None:
    program = "import octavo_server.plugin, octavo_server.serve, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


def test_tls_needs_files_that_belong_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    (tmp_path / "cert").write_text("no certificate")
    assert run(["serve", "--ssl-certfile", str(tmp_path / "cert")]) == 2
    assert f"--ssl-certfile {tmp_path / 'cert'} cannot be used" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate with")
def test_flags_of_tls_are_blamed_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, key, encrypted = (str(tmp_path / name) for name in ("cert", "key", "encrypted"))
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-aes128", "-passout", "pass:a", "-in", key, "-out", encrypted], check=True, capture_output=True)

    def refusal(*flags: str) -> str:
        assert run(["serve", "--ssl-certfile", certificate, *flags]) == 2
        return capsys.readouterr().err

    assert "without --ssl-keyfile the key is in that file, too" in refusal()
    assert "is encrypted" in refusal("--ssl-keyfile", encrypted)
    assert "--ssl-ciphers 'nonsense' cannot be used: No cipher can be selected." in refusal(
        "--ssl-keyfile", key, "--ssl-ciphers", "nonsense"
    )
    assert f"--ssl-ca-certs {key} cannot be used" in refusal("--ssl-keyfile", key, "--ssl-ca-certs", key, "--ssl-cert-reqs", "2")
