"""The names that requests may give."""

from typing import Any


def test_the_model_bears_its_own_name(make_app: Any, ask: Any) -> None:
    assert ask(make_app(), "/v1/models").json == {
        "object": "list",
        "data": [{"id": "tiny", "object": "model", "created": 1_700_000_000, "owned_by": "octavo", "root": "tiny", "max_model_len": 128}],
    }


def test_the_model_bears_the_names_that_it_was_given(make_app: Any, ask: Any) -> None:
    app = make_app(served_model_names=("first", "org/second"))
    assert [(card["id"], card["root"]) for card in ask(app, "/v1/models").json["data"]] == [("first", "tiny"), ("org/second", "tiny")]
    assert ask(app, "/v1/models/org/second").json["id"] == "org/second"
    assert ask(app, "/v1/models/tiny").status == 404


def test_an_unknown_model_is_404_and_the_known_ones_are_named(make_app: Any, ask: Any) -> None:
    answer = ask(make_app(), "/v1/models/other")
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")
    assert "'other'" in answer.error["message"]
    assert "tiny" in answer.error["message"]
