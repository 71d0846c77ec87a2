"""What is logged of a request."""

import logging
from typing import Any

import pytest


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "octavo_server.middleware.access_log"]


def test_a_request_leaves_a_line_where_it_is_asked_for(make_app: Any, ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ask(make_app(), "/echo", b"x")
        assert lines(caplog) == []
        ask(make_app(access_log=True, api_keys={"alice": "k"}), "/echo", b"x", key="k")
    (line,) = lines(caplog)
    assert line.startswith("127.0.0.1 POST /echo 200 ")
    assert line.endswith(" ms alice")


def test_a_path_cannot_forge_a_line(make_app: Any, ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ask(make_app(access_log=True), "/a\nINFO forged ü")
    (line,) = lines(caplog)
    assert r"/a\nINFO forged \xfc 404" in line
