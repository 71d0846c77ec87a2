from pathlib import Path
from typing import Any

import pytest

from octavo.config.keywords import check_names, options_from_keywords
from octavo.errors import ConfigurationError


def test_paths_are_taken_as_text() -> None:
    options = options_from_keywords({"model": Path("m"), "chat_template": Path("t"), "gpu_memory_utilization": 0.5})
    assert (options.model, options.chat_template, options.memory_utilization) == ("m", "t", 0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": 5}, "model 5 is of type int"),
        ({"chat_template": 10**5000}, "chat_template <int too large to show> is of type int"),
        ({"max_seqs": 1}, "did you mean 'max_num_seqs'"),
        ({"x" * 10**6: 1}, "unknown engine flag 'xxx"),
        (
            {"memory_utilization": 0.5, "gpu_memory_utilization": 0.5},
            "memory_utilization and gpu_memory_utilization are two names of one flag: give one of them",
        ),
    ],
    ids=["number", "huge number", "unknown", "long", "twice"],
)
def test_what_cannot_be_is_named_in_a_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as problem:
        options_from_keywords(given)
    assert len(str(problem.value)) < 1500


def test_lists_of_names() -> None:
    assert check_names("plugins_allow", None) is None
    assert check_names("plugins_allow", ["a", "b"]) == ("a", "b")
    assert check_names("plugins_allow", ()) == ()
    for value in (5, "models", b"models", [1], {"a": 1}):
        with pytest.raises(ConfigurationError, match=r"plugins_allow .* is no list of names"):
            check_names("plugins_allow", value)
