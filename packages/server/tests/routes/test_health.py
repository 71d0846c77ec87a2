"""What probes and load balancers see."""

from typing import Any

import pytest

import octavo
from octavo.errors import EngineDeadError


def statuses(ask: Any, app: Any) -> dict[str, int]:
    return {path: ask(app, path).status for path in ("/health", "/ping", "/ready")}


def test_a_server_that_takes_requests_is_alive_and_ready(make_app: Any, ask: Any) -> None:
    app = make_app()
    assert statuses(ask, app) == {"/health": 200, "/ping": 200, "/ready": 200}
    assert ask(app, "/health").json == {"status": "ok"}


def test_a_server_that_loads_its_model_is_alive_and_not_ready(make_app: Any, ask: Any) -> None:
    app = make_app(llm=None)
    assert statuses(ask, app) == {"/health": 200, "/ping": 200, "/ready": 503}
    assert ask(app, "/ready").error["code"] == "starting"


def test_a_server_that_ends_is_alive_and_not_ready(make_app: Any, ask: Any) -> None:
    app = make_app()
    app.state.server.is_draining = True
    assert statuses(ask, app) == {"/health": 200, "/ping": 200, "/ready": 503}


def test_a_server_without_an_engine_is_neither(make_app: Any, ask: Any) -> None:
    app = make_app()
    app.state.server.llm.death = EngineDeadError("silent for 4 s")
    assert statuses(ask, app) == {"/health": 503, "/ping": 503, "/ready": 503}
    assert "silent for 4 s" in ask(app, "/health").error["message"]


@pytest.mark.parametrize(("method", "path"), [("HEAD", "/health"), ("HEAD", "/ready"), ("POST", "/ping")])
def test_probes_may_ask_in_other_ways(make_app: Any, ask: Any, method: str, path: str) -> None:
    assert ask(make_app(), path, method=method).status == 200


def test_the_version_is_octavos(make_app: Any, ask: Any) -> None:
    assert ask(make_app(), "/version").json == {"version": octavo.__version__}


def test_the_load_is_the_engines_and_the_requests_under_way(make_app: Any, ask: Any) -> None:
    app = make_app()
    app.state.server.llm.running, app.state.server.llm.waiting, app.state.server.llm.waiting_tokens = 3, 2, 70
    app.state.server.in_flight.enter()
    assert ask(app, "/load").json == {"server_load": 1, "running": 3, "waiting": 2, "waiting_tokens": 70}
