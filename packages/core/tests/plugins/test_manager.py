import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo.errors import ConfigurationError, PluginError
from octavo.plugins import hookspecs
from octavo.plugins.manager import hook_names, load_plugins
from octavo.scheduler.policy import FirstComeFirstServed

Install = Callable[..., str]

REGISTERS_A_MODEL = """
import octavo

@octavo.hookimpl
def octavo_register_models(registry):
    registry.register("{name}", "nowhere:Model")
"""


def test_builtins_come_first_through_the_hooks_of_everyone() -> None:
    loaded = load_plugins(allow=())
    assert [plugin.name for plugin in loaded.plugins] == ["octavo"]
    assert loaded.plugins[0].distribution == "octavo-core"
    assert loaded.plugins[0].hooks == ("octavo_register_executors", "octavo_register_scheduler_policies")
    assert loaded.registries.scheduler_policies.get("fcfs") is FirstComeFirstServed
    assert loaded.registries.scheduler_policies.owner("priority") == "octavo"


def test_there_is_a_registry_for_every_hook_and_a_hook_for_every_registry() -> None:
    specified = {name for name in vars(hookspecs) if name.startswith("octavo_")}
    assert specified == set(hook_names())


def test_every_hook_says_what_it_registers_and_stands_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for name in hook_names():
        assert getattr(hookspecs, name).__doc__
        assert f"`{name}`" in readme


def test_plugins_load_in_the_order_of_their_names_and_own_what_they_register(install: Install) -> None:
    module = install("zeta", REGISTERS_A_MODEL.format(name="z"), version="2.5")
    install("alpha", REGISTERS_A_MODEL.format(name="a"))
    loaded = load_plugins(allow=("zeta", "alpha"))
    assert [plugin.name for plugin in loaded.plugins] == ["octavo", "alpha", "zeta"]
    zeta = loaded.plugins[-1]
    assert (zeta.distribution, zeta.version, zeta.module) == ("octavo-zeta", "2.5", module)
    assert zeta.hooks == ("octavo_register_models",)
    assert loaded.registries.models.owner("z") == "zeta"


def test_any_pluggy_marker_of_the_project_name_serves(install: Install) -> None:
    install(
        "stranger",
        REGISTERS_A_MODEL.format(name="s")
        .replace("import octavo", "import pluggy")
        .replace("@octavo.hookimpl", '@pluggy.HookimplMarker("octavo")'),
    )
    assert "s" in load_plugins(allow=("stranger",)).registries.models


def test_loading_twice_gives_the_same_in_separate_registries(install: Install) -> None:
    install("alpha", REGISTERS_A_MODEL.format(name="a"))
    first, second = load_plugins(allow=("alpha",)), load_plugins(allow=("alpha",))
    assert first.plugins == second.plugins
    assert first.registries.models is not second.registries.models
    assert list(first.registries.models) == list(second.registries.models) == ["a"]


def test_registries_are_frozen_afterwards() -> None:
    with pytest.raises(PluginError, match="after start-up"):
        load_plugins(allow=()).registries.models.register("late", "nowhere:Model")


def test_a_blocked_plugin_is_not_imported_even_where_it_is_allowed(install: Install) -> None:
    module = install("alpha", "raise RuntimeError('imported')")
    loaded = load_plugins(allow=("alpha",), block=("alpha",))
    assert [plugin.name for plugin in loaded.plugins] == ["octavo"]
    assert module not in sys.modules


@pytest.mark.parametrize("choice", [{"block": ("alpha",)}, {"allow": ()}], ids=["blocked", "not allowed"])
def test_an_unknown_name_comes_with_the_plugins_that_were_left_out(install: Install, choice: dict[str, tuple[str, ...]]) -> None:
    install("alpha", "")
    with pytest.raises(ConfigurationError, match=r"unknown sampler 'coldest': .*installed but blocked, .*'alpha'"):
        load_plugins(**choice).registries.samplers.get("coldest")


def test_an_unknown_blocked_plugin_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    load_plugins(allow=(), block=("ghost",))
    assert "blocked plugin 'ghost' is not installed" in caplog.text


def test_an_unknown_allowed_plugin_is_an_error_that_lists_what_there_is(install: Install) -> None:
    install("alpha", "")
    with pytest.raises(ConfigurationError, match=r"allowed plugin 'ghost' is not installed: there are .*alpha"):
        load_plugins(allow=("ghost", "alpha"))


def test_the_core_cannot_be_blocked() -> None:
    with pytest.raises(ConfigurationError, match="cannot be blocked"):
        load_plugins(allow=(), block=("octavo",))


BROKEN = {
    "import": ("import no_such_module_anywhere", "does not import: ModuleNotFoundError"),
    "exit": ("raise SystemExit(3)", "does not import: SystemExit: 3"),
    "raise": (
        "import octavo\n@octavo.hookimpl\ndef octavo_register_models(registry):\n    1 / 0",
        "octavo_register_models: ZeroDivisionError",
    ),
    "duplicate": (
        "import octavo\n@octavo.hookimpl\ndef octavo_register_scheduler_policies(registry):\n    registry.register('fcfs', 'a:B')",
        "'fcfs' of plugin 'broken' is already registered by plugin 'octavo'",
    ),
    "unknown hook": (
        "import octavo\n@octavo.hookimpl\ndef octavo_register_modles(registry): ...",
        "unknown hook 'octavo_register_modles'.*did you mean 'octavo_register_models'",
    ),
    "wrong parameters": ("import octavo\n@octavo.hookimpl\ndef octavo_register_models(table): ...", "does not fit the hooks"),
    "no marker": ("def octavo_register_models(registry): ...", "defines 'octavo_register_models' unmarked"),
    "no target": (
        "import octavo\n@octavo.hookimpl\ndef octavo_register_models(registry):\n    registry.register('m', 'no_colon')",
        "write it as 'module:Name'",
    ),
}


@pytest.mark.parametrize(("source", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_an_error_that_names_it(install: Install, source: str, message: str) -> None:
    install("broken", source)
    with pytest.raises(PluginError, match=f"plugin 'broken' .*{message}"):
        load_plugins(allow=("broken",))


@pytest.mark.parametrize(("source", "message"), BROKEN.values(), ids=BROKEN)
def test_tolerated_faults_are_collected_and_the_others_load(install: Install, source: str, message: str) -> None:
    install("broken", source)
    install("good", REGISTERS_A_MODEL.format(name="g"))
    loaded = load_plugins(allow=("broken", "good"), tolerate=True)
    assert [plugin.name for plugin in loaded.broken] == ["broken"]
    assert "g" in loaded.registries.models


def test_tolerating_lists_an_allowed_plugin_that_is_missing() -> None:
    loaded = load_plugins(allow=("ghost",), tolerate=True)
    assert [(plugin.name, plugin.error is None) for plugin in loaded.plugins] == [("octavo", True), ("ghost", False)]


def test_two_distributions_with_one_plugin_name_are_an_error(install: Install) -> None:
    install("twin", "", distribution="first")
    install("twin", "", distribution="second")
    with pytest.raises(PluginError, match=r"plugin 'twin' .*second 1.0.*first brings that name too"):
        load_plugins(allow=("twin",))


def test_an_optional_hook_of_another_version_is_passed_over(install: Install) -> None:
    install("newer", "import octavo\n@octavo.hookimpl(optionalhook=True)\ndef octavo_register_dreams(registry): ...")
    assert load_plugins(allow=("newer",)).plugins[-1].hooks == ()


def test_a_plugin_that_brings_torch_is_named(install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    install("heavy", "import sys, types\nsys.modules.setdefault('torch', types.ModuleType('torch'))")
    install("light", "")
    with caplog.at_level(logging.WARNING):
        load_plugins(allow=("heavy", "light"))
    sys.modules.pop("torch")
    assert "plugin 'heavy'" in caplog.text
    assert "'light'" not in caplog.text


def test_loading_the_core_brings_neither_torch_nor_typer() -> None:
    code = (
        "import sys; from octavo.plugins.manager import load_plugins; load_plugins(allow=()); print(*{'torch', 'typer'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
