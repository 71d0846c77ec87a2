"""Addresses that can be listened on, and those that cannot."""

import socket
import stat
from pathlib import Path

import pytest

from octavo.errors import ConfigurationError
from octavo_server.config import ServerConfig
from octavo_server.listener import ListenError, close_listener, describe, open_listener


def test_port_0_is_any_that_is_free() -> None:
    with open_listener(ServerConfig(host="127.0.0.1", port=0)) as listener:
        port = listener.getsockname()[1]
        assert describe(listener, encrypted=False) == f"http://127.0.0.1:{port}"
        assert describe(listener, encrypted=True) == f"https://127.0.0.1:{port}"


def test_a_port_in_use_is_named() -> None:
    with open_listener(ServerConfig(host="127.0.0.1", port=0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port} of 127.0.0.1 is in use"):
            open_listener(ServerConfig(host="127.0.0.1", port=port))


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ListenError, match=r"192\.0\.2\.1"):
        open_listener(ServerConfig(host="192.0.2.1", port=0))
    with pytest.raises(ConfigurationError, match="no address"):
        open_listener(ServerConfig(host="not an address", port=0))


def test_a_socket_file_is_made_and_goes(tmp_path: Path) -> None:
    config = ServerConfig(uds=str(tmp_path / "s"))
    listener = open_listener(config)
    assert stat.S_ISSOCK((tmp_path / "s").stat().st_mode)
    assert describe(listener, encrypted=False) == f"unix:{tmp_path / 's'}"
    with pytest.raises(ListenError, match="is in use"):
        open_listener(config)
    close_listener(listener, config)
    assert not (tmp_path / "s").exists()


def test_a_socket_file_that_nobody_listens_on_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "s"))
    open_listener(ServerConfig(uds=str(tmp_path / "s"))).close()


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(ListenError, match="no socket"):
        open_listener(ServerConfig(uds=str(tmp_path / "s")))
    assert (tmp_path / "s").read_text() == "mine"


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="cannot listen"):
        open_listener(ServerConfig(uds=str(tmp_path / ("s" * 200))))
