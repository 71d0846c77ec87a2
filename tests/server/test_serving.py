"""A real model behind the real program."""

import json
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.server.running import Launcher, RunningServer

if TYPE_CHECKING:
    import openai


@pytest.fixture(scope="module")
def server(tiny: Launcher) -> Iterator[RunningServer]:
    return tiny.ready("--max-request-bytes", "2MB", OCTAVO_API_KEY="sk-1")


@pytest.fixture
def client(server: RunningServer) -> "Iterator[openai.OpenAI]":
    import openai

    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="sk-1", max_retries=0) as client:
        yield client


def raw(server: RunningServer, sent: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer to bytes."""
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        while b"\r\n\r\n" not in received or len(received.partition(b"\r\n\r\n")[2]) < length_of(received):
            part = connection.recv(65536)
            if not part:
                break
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def length_of(received: bytes) -> int:
    head = received.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])


def test_the_model_is_listed_and_answers(client: "openai.OpenAI") -> None:
    (model,) = client.models.list().data
    answer = client.completions.create(model=model.id, prompt="hello", max_tokens=5, temperature=0)
    streamed = client.completions.create(model=model.id, prompt="hello", max_tokens=5, temperature=0, stream=True)
    assert answer.choices[0].text == "".join(chunk.choices[0].text for chunk in streamed)


def test_errors_have_a_body_that_the_client_understands(client: "openai.OpenAI") -> None:
    import openai

    (model,) = client.models.list().data
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model=model.id, prompt=[5] * 200, stream=stream)
        assert refused.value.code == "context_length_exceeded"
        assert refused.value.response.headers["content-type"] == "application/json"
        assert "200" in refused.value.message
        assert "128" in refused.value.message
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt="hello")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-2").models.list()


def test_what_is_no_http_gets_the_envelope_too(server: RunningServer) -> None:
    head, body = raw(server, b"NONSENSE\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


def test_a_body_that_is_announced_too_long_is_refused_before_it_is_sent(server: RunningServer) -> None:
    start = time.monotonic()
    head, body = raw(server, b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-1\r\ncontent-length: 200000000\r\n\r\n")
    assert time.monotonic() - start < 1
    assert head.startswith(b"HTTP/1.1 413")
    assert "2,000,000 bytes" in json.loads(body)["error"]["message"]


def test_a_body_in_chunks_is_refused_when_it_is_too_long(server: RunningServer) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-1\r\ntransfer-encoding: chunked\r\n\r\n"
    assert raw(server, head + chunk * 40)[0].startswith(b"HTTP/1.1 413")


def test_nested_json_harms_nobody(server: RunningServer) -> None:
    start = time.monotonic()
    with server.client(headers={"authorization": "Bearer sk-1"}) as client:
        answer = client.post("/v1/completions", content=b'{"prompt":' + b"[" * 100_000, headers={"content-type": "application/json"})
    assert (answer.status_code, time.monotonic() - start < 1) == (400, True)
    assert server.status("/health") == 200


def test_the_key_is_not_in_the_log(server: RunningServer) -> None:
    assert "sk-1" not in server.text
