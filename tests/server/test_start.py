"""From the command line to a server that takes requests, or to one line that says why not."""

import re
import shutil
import signal
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.server.running import START_S, Launcher, last_error, until


def test_a_port_in_use_is_said_before_anything_is_started(launch: Launcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = launch("--port", str(port))
        assert server.wait() == 1
    assert last_error(server) == f"octavo: error: port {port} of 127.0.0.1 is in use: end what listens there, or give another --port"
    assert "engine" not in server.text


@pytest.mark.parametrize(
    ("flags", "model", "code", "message"),
    [
        ((), "no-such-model", 1, "no-such-model"),
        (("--runner", "damaged"), None, 1, "shard 2 of 3 is missing"),
        (("--max-model-len", "1000000"), None, 2, "max_model_len 1,000,000 is over"),
        (("--max-model-len", "1000000", "--api-server-count", "2"), None, 2, "max_model_len 1,000,000 is over"),
        (("--ssl-keyfile", "key.pem"), None, 2, "--ssl-certfile"),
        (("--log-level", "loud"), None, 2, "--log-level 'loud'"),
        (("--api-key-file", "/nowhere"), None, 2, "--api-key-file /nowhere cannot be read"),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(
    launch: Launcher, flags: tuple[str, ...], model: str | None, code: int, message: str
) -> None:
    server = launch(*flags, model=model)
    assert server.wait(START_S) == code, server.text
    assert message in last_error(server)


def test_health_is_answered_and_requests_are_refused_while_the_model_is_being_loaded(launch: Launcher) -> None:
    server = launch("--runner", "loading")
    until(lambda: server.status("/health") == 200, within_s=START_S)
    refused = server.complete()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "starting")
    assert server.status("/ready") == 503
    server.seen |= set(server.descendants())
    assert server.seen
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


def test_every_part_of_the_start_is_timed_and_choices_have_reasons(launch: Launcher) -> None:
    server = launch.ready("--log-level", "debug")
    for part in ("plugins", "model files", "tokenizer", "import", "weights", "KV pool", "application", "engine"):
        assert re.search(rf"INFO .*start-up: (the )?{part}\b.* took \d", server.text), part
    assert re.search(r"DEBUG .*: \w+ = .+ \(.+\)", server.text)


def test_a_unix_socket_is_served_and_removed(launch: Launcher, tmp_path: Path) -> None:
    path = tmp_path / "octavo.sock"
    server = launch.ready(uds=path)
    assert server.complete().status_code == 200
    server.signal()
    assert server.wait() == 0
    assert not path.exists()


def test_a_configuration_file_gives_every_flag(launch: Launcher, tmp_path: Path) -> None:
    (tmp_path / "octavo.yaml").write_text(
        "served-model-name: [first, second]\napi-key: [sk-1]\nlog-format: json\nshutdown-timeout: 3\naccess-log: true\n"
    )
    server = launch.ready("--config", str(tmp_path / "octavo.yaml"))
    assert server.get("/v1/models").status_code == 401
    answer = server.get("/v1/models", headers={"authorization": "Bearer sk-1", "x-request-id": "mine"})
    assert [card["id"] for card in answer.json()["data"]] == ["first", "second"]
    until(lambda: '"request_id": "mine"' in server.text)
    assert "sk-1" not in server.text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate with")
def test_https_is_served_with_a_certificate(launch: Launcher, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    server = launch("--ssl-keyfile", str(key), "--ssl-certfile", str(certificate), "--runner", "loading")
    assert server.address.startswith("https://127.0.0.1:")
    trusted = ssl.create_default_context(cafile=certificate)

    def is_healthy() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{server.address}/health", verify=trusted).status_code == 200
        return False

    until(is_healthy, within_s=START_S)
    with pytest.raises(httpx.TransportError):
        server.get("/health")
