import pytest

from octavo.errors import ConfigurationError, PluginError
from octavo.plugins.registry import Registry


@pytest.fixture
def registry() -> Registry[object]:
    return Registry("fruit")


def test_a_target_is_imported_when_it_is_asked_for(registry: Registry[object]) -> None:
    registry.register("path", "pathlib:PurePath")
    import pathlib

    assert registry.get("path") is pathlib.PurePath


def test_a_name_is_registered_once(registry: Registry[object]) -> None:
    registry.owned_by("one").register("apple", "a:B")
    with pytest.raises(PluginError, match="'apple' of plugin 'two' is already registered by plugin 'one'"):
        registry.owned_by("two").register("apple", "c:D")


@pytest.mark.parametrize("look_up", [Registry.get, Registry.require])
def test_an_unknown_name_lists_what_there_is_and_what_was_meant(registry: Registry[object], look_up: object) -> None:
    registry.register("apple", "a:B")
    registry.register("pear", "a:B")
    with pytest.raises(ConfigurationError, match=r"unknown fruit 'aple': there are apple, pear; did you mean 'apple'\?"):
        look_up(registry, "aple")  # type: ignore[operator]


def test_an_unknown_name_may_be_that_of_a_plugin_that_was_left_out(registry: Registry[object]) -> None:
    registry.register("apple", "a:B")
    registry.freeze(("orchard", "garden"))
    with pytest.raises(ConfigurationError, match=r"there are apple; installed but blocked, .*: 'orchard', 'garden' \(OCTAVO_PLUGINS_BLOCK"):
        registry.get("fig")


def test_requiring_a_name_imports_nothing(registry: Registry[object]) -> None:
    registry.register("apple", "no_such_module:Apple")
    assert registry.require("apple") == "apple"


@pytest.mark.parametrize("target", ["no_such_module:X", "pathlib:NoSuchName"])
def test_a_target_that_does_not_import_names_plugin_and_target(registry: Registry[object], target: str) -> None:
    registry.owned_by("orchard").register("apple", target)
    with pytest.raises(PluginError, match=f"'apple' of plugin 'orchard' does not load from '{target}'"):
        registry.get("apple")


def test_targets_are_text_whatever_was_registered(registry: Registry[object]) -> None:
    registry.register("text", "a:B")
    registry.register("class", Registry)
    registry.register("instance", object())
    assert [registry.target(name) for name in ("text", "class", "instance")] == [
        "a:B",
        "octavo.plugins.registry:Registry",
        "builtins:object",
    ]


def test_a_frozen_registry_refuses_names(registry: Registry[object]) -> None:
    registry.freeze()
    with pytest.raises(PluginError, match="after start-up"):
        registry.register("apple", "a:B")
