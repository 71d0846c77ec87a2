"""Every kind of failure has one shape, and nothing of the inside is in it."""

import logging
from typing import Any

import pytest

from octavo.errors import EngineDeadError


def test_an_unknown_route_is_404(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(), "/nowhere")
    assert (answer.status, answer.error["type"]) == (404, "invalid_request_error")


@pytest.mark.parametrize("path", ["/v1/models/", "//v1/models", "/V1/models", "/v1/../v1/models", "/health/"])
def test_another_spelling_of_a_path_is_another_path(make_app: Any, ask: Any, path: str) -> None:
    answer = ask(make_app(), path)
    assert answer.status == 404
    assert "location" not in answer.headers


def test_a_wrong_method_is_405_and_says_which_is_right(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(), "/v1/models", {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert "GET" in answer.error["message"]


def test_a_body_that_is_no_json_is_400(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(), "/number", b'{"a": ')
    assert answer.status == 400
    assert "not JSON" in answer.error["message"]


@pytest.mark.parametrize("body", [b"\xff\xfe{", b'{"a": ' + b"1" * 5000 + b"}", b"\x80"])
def test_a_body_that_no_parser_reads_is_400(make_app: Any, ask: Any, body: bytes) -> None:
    answer = ask(make_app(), "/number", body)
    assert answer.status == 400
    assert answer.error["message"]


def test_a_field_that_does_not_fit_is_400_and_named(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(), "/number", {"a": "x"})
    assert (answer.status, answer.error["param"]) == (400, "a")
    assert "'x'" in answer.error["message"]


def test_a_missing_body_is_400(make_app: Any, ask: Any) -> None:
    assert "body is missing" in ask(make_app(), "/number", method="POST").error["message"]


def test_what_the_engine_refuses_is_400_with_its_field_and_code(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(), "/fail/invalid")
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "temperature", "too_cold")


def test_a_dead_engine_is_503(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(), "/fail/dead")
    assert (answer.status, answer.error["code"]) == (503, "engine_dead")
    assert answer.headers["retry-after"].isdecimal()


def test_a_bug_is_500_without_a_word_of_it_and_logged_with_all(make_app: Any, ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = ask(make_app(), "/fail/bug")
    assert answer.status == 500
    assert "secret" not in str(answer.json)
    assert "the secret of the house" in caplog.text


@pytest.mark.parametrize("path", ["/nowhere", "/fail/bug", "/fail/invalid", "/health"])
def test_every_answer_has_the_id_of_its_request(make_app: Any, ask: Any, path: str) -> None:
    assert ask(make_app(), path, x_request_id="mine-1").headers["x-request-id"] == "mine-1"


def test_nothing_is_served_while_the_model_is_being_loaded(make_app: Any, ask: Any) -> None:
    app = make_app(llm=None)
    answer = ask(app, "/v1/models")
    assert (answer.status, answer.error["code"]) == (503, "starting")
    assert ask(app, "/nowhere").status == 404
    assert ask(app, "/openapi.json").status == 200


def test_nothing_new_is_served_while_the_server_ends(make_app: Any, ask: Any) -> None:
    app = make_app()
    app.state.server.is_draining = True
    answer = ask(app, "/echo", b"x")
    assert (answer.status, answer.error["code"]) == (503, "shutting_down")


def test_nothing_is_served_with_a_dead_engine(make_app: Any, ask: Any) -> None:
    app = make_app()
    app.state.server.llm.death = EngineDeadError("it was killed")
    answer = ask(app, "/echo", b"x")
    assert (answer.status, answer.error["code"]) == (503, "engine_dead")
    assert "it was killed" in answer.error["message"]


def test_pages_from_elsewhere_may_ask_only_where_they_were_allowed_to(make_app: Any, ask: Any) -> None:
    from octavo_server.config import CorsConfig

    given = {"origin": "https://page", "access_control_request_method": "POST"}
    assert ask(make_app(), "/echo", method="OPTIONS", **given).status == 405
    app = make_app(cors=CorsConfig(origins=("https://page",)), api_keys={"a": "k"})
    assert ask(app, "/echo", method="OPTIONS", **given).headers["access-control-allow-origin"] == "https://page"
    assert ask(app, "/fail/bug", origin="https://page", key="k").headers["access-control-allow-origin"] == "https://page"
    assert "access-control-allow-origin" not in ask(app, "/health", origin="https://other").headers


def test_a_root_path_is_served_with_and_without_it(make_app: Any, ask: Any) -> None:
    app = make_app(root_path="/octavo", api_keys={"a": "k"})
    for path in ("/octavo/health", "/health"):
        assert ask(app, path).status == 200
    for path in ("/octavo/v1/models", "/v1/models"):
        assert ask(app, path).status == 401
        assert ask(app, path, key="k").status == 200
    assert ask(app, "/openapi.json", key="k").json["servers"] == [{"url": "/octavo"}]


def test_the_documentation_can_be_left_out(make_app: Any, ask: Any) -> None:
    app = make_app(docs=False)
    assert [ask(app, path).status for path in ("/docs", "/openapi.json")] == [404, 404]
