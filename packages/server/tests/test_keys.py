"""Where keys come from."""

from pathlib import Path

import pytest

from octavo.errors import ConfigurationError
from octavo_server.keys import collect_keys


def test_keys_of_the_command_line_are_numbered() -> None:
    assert collect_keys(["a,b", "c"], None, ("ignored",)) == {"key-1": "a", "key-2": "b", "key-3": "c"}


def test_keys_of_a_file_may_have_names(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\n\nalice: sk-1:2\n  sk-plain  \nbob:\tsk-3\n")
    assert collect_keys([], file, ()) == {"alice": "sk-1:2", "key-2": "sk-plain", "bob": "sk-3"}
    assert collect_keys(["typed"], file, ())["key-1"] == "typed"


def test_keys_of_the_environment_count_where_there_are_no_others() -> None:
    assert collect_keys([], None, ("a",)) == {"key-1": "a"}
    assert collect_keys([], None, ()) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no key"),
        ("# nothing\n", "has no key"),
        ("two words", "line 1 is neither"),
        ("a: secret\nb:secret2", "line 2 may be a name and a key"),
        ("a: secret\na: other", "named 'a'"),
        ("a: secret\nb: secret", "given twice"),
        ("clé", "characters"),
    ],
)
def test_a_file_that_cannot_be_is_refused_without_its_keys(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message) as refused:
        collect_keys([], file, ())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("given", [[""], [" "], [","], ["", ","]])
def test_a_flag_without_a_key_does_not_open_the_server(given: list[str]) -> None:
    for environment in ((), ("a",)):
        with pytest.raises(ConfigurationError, match="--api-key has no key"):
            collect_keys(given, None, environment)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        collect_keys([], tmp_path / "none", ())
