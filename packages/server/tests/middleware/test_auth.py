"""Who may ask."""

import hmac
from typing import Any

import pytest
from starlette.routing import Route

KEYS = {"alice": "sk-alice", "bob": "sk-bob"}
OPEN = {"/health", "/ready", "/ping", "/version"}


def example(path: str) -> str:
    return path.replace("{model:path}", "tiny").replace("{how}", "invalid")


def test_every_route_needs_a_key_but_those_that_are_for_everybody(make_app: Any, ask: Any) -> None:
    app = make_app(api_keys=KEYS)
    walked = set()
    for route in app.routes:
        assert isinstance(route, Route)
        for method in route.methods or ():
            walked.add(route.path)
            path, body = example(route.path), b"{}" if method == "POST" else None
            statuses = [ask(app, path, body, method=method, **headers).status for headers in ({}, {"key": "sk-eve"})]
            known = ask(app, path, body, method=method, key="sk-bob").status
            if route.path in OPEN | {"/metrics"}:
                assert statuses == [known, known], path
            else:
                assert statuses == [401, 401], path
            assert known != 401
    assert walked >= OPEN | {"/v1/models", "/echo", "/docs", "/openapi.json", "/load", "/metrics"}


@pytest.mark.parametrize(
    "path",
    [
        "//v1/models",
        "/V1/models",
        "/v1/models/",
        "/v1/../v1/models",
        "/health/../v1/models",
        "/health/",
        "/HEALTH",
        "//health",
        "/x",
    ],
)
def test_no_spelling_goes_round_the_keys(make_app: Any, ask: Any, path: str) -> None:
    assert ask(make_app(api_keys=KEYS), path).status == 401


def test_metrics_are_open_unless_they_are_protected(make_app: Any, ask: Any) -> None:
    assert ask(make_app(api_keys=KEYS), "/metrics").status == 200
    app = make_app(api_keys=KEYS, protect_metrics=True)
    assert [ask(app, "/metrics").status, ask(app, "/metrics", key="sk-bob").status] == [401, 200]


def test_a_refusal_says_how_keys_are_sent(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(api_keys=KEYS), "/v1/models", key="sk-eve")
    assert (answer.status, answer.error["code"], answer.headers["www-authenticate"]) == (401, "invalid_api_key", "Bearer")
    assert "sk-" not in answer.error["message"]


@pytest.mark.parametrize(
    ("headers", "tenant"),
    [
        ({"authorization": "Bearer sk-alice"}, "alice"),
        ({"authorization": "bearer  sk-bob "}, "bob"),
        ({"x_api_key": "sk-bob"}, "bob"),
        ({"authorization": "Bearer nonsense", "x_api_key": "sk-alice"}, "alice"),
    ],
)
def test_the_tenant_is_the_name_of_the_key(make_app: Any, ask: Any, headers: dict[str, str], tenant: str) -> None:
    assert ask(make_app(api_keys=KEYS), "/echo", b"x", **headers).json["tenant"] == tenant


@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Basic sk-alice", "sk-alice", "Bearer sk-alice sk-bob", "Bearer SK-ALICE", "Bearer ü"]
)
def test_what_only_resembles_a_key_is_none(make_app: Any, ask: Any, value: str) -> None:
    assert ask(make_app(api_keys=KEYS), "/echo", b"x", authorization=value).status == 401


def test_without_keys_nobody_needs_one_and_the_tenant_has_no_name(make_app: Any, ask: Any) -> None:
    assert ask(make_app(), "/echo", b"x", key="whatever").json["tenant"] == ""


def test_a_key_is_compared_with_all_in_constant_time(make_app: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    compare = hmac.compare_digest

    def noted(given: bytes, known: bytes) -> bool:
        compared.append(len(known))
        return compare(given, known)

    monkeypatch.setattr("octavo_server.middleware.auth.hmac.compare_digest", noted)
    ask(make_app(api_keys=KEYS), "/v1/models", key="sk-alice")
    assert compared == [32, 32]


def test_keys_show_nowhere(make_app: Any, ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = make_app(api_keys=KEYS, access_log=True)
    with caplog.at_level("DEBUG"):
        documents = [ask(app, path, key="sk-alice").body.decode() for path in ("/openapi.json", "/docs", "/v1/models", "/nowhere")]
    for text in (*documents, caplog.text, repr(app.state.server.config)):
        assert "sk-alice" not in text


def test_a_body_is_not_read_before_the_key_is_known(make_app: Any, ask: Any) -> None:
    app = make_app(api_keys=KEYS, max_request_bytes=10)
    assert ask(app, "/echo", b"x" * 100).status == 401
