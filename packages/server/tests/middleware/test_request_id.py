"""Names of requests."""

from typing import Any

import pytest

from octavo_server.logs import REQUEST_ID


@pytest.mark.parametrize("given", ["abc", "a" * 128, "01J/x:y=z@w+1_2.3-4"])
def test_a_clients_name_is_kept(make_app: Any, ask: Any, given: str) -> None:
    assert ask(make_app(), "/health", x_request_id=given).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a" * 129, "a b", 'a"b', "a\nb", "ü", "<script>"])
def test_a_name_that_could_do_harm_is_replaced(make_app: Any, ask: Any, given: str) -> None:
    chosen = ask(make_app(), "/health", x_request_id=given).headers["x-request-id"]
    assert chosen != given
    assert len(chosen) == 32


def test_names_that_are_made_up_differ(make_app: Any, ask: Any) -> None:
    app = make_app()
    assert len({ask(app, "/health").headers["x-request-id"] for _ in range(5)}) == 5


def test_requests_are_counted_while_they_are_answered(make_app: Any, ask: Any) -> None:
    app = make_app()
    ask(app, "/fail/bug")
    assert app.state.server.in_flight.count == 0
    assert REQUEST_ID.get() == ""
