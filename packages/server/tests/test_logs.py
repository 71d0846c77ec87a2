"""Lines of the log."""

import json
import logging

import pytest

from octavo_server.config import ServerConfig
from octavo_server.logs import REQUEST_ID, configure_server_logging


@pytest.mark.usefixtures("restored_logging")
def test_json_lines_bear_the_request_and_the_exception(capsys: pytest.CaptureFixture[str]) -> None:
    configure_server_logging(ServerConfig(log_format="json"))
    token = REQUEST_ID.set("r-1")
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("octavo_server.test").exception("failed: %s", "ü\n")
    finally:
        REQUEST_ID.reset(token)
    logging.getLogger("octavo.other").info("fine")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["message"], first["request_id"]) == ("error", "octavo_server.test", "failed: ü\n", "r-1")
    assert "ValueError: bad" in first["exception"]
    assert "request_id" not in second


@pytest.mark.usefixtures("restored_logging")
def test_text_lines_bear_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    configure_server_logging(ServerConfig(log_level="warning"))
    token = REQUEST_ID.set("r-1")
    logging.getLogger("octavo_server.test").warning("slow")
    logging.getLogger("octavo_server.test").info("left out")
    REQUEST_ID.reset(token)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("Z WARNING octavo_server.test: slow [r-1]")
