from pathlib import Path

import pytest

from octavo.env import (
    VARIABLES,
    cache_folder,
    environment_values,
    keep_compiled_in,
    let_waiting_threads_sleep,
    read_environment,
    share_metrics,
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_nothing_set_allows_all_plugins_and_hides_nothing() -> None:
    environment = read_environment()
    assert (environment.plugins_allow, environment.plugins_block) == (None, ())
    assert not environment.hub_offline
    assert not environment.cuda_hidden


def test_plugin_lists_are_names_between_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_PLUGINS_ALLOW", " a, b,,")
    monkeypatch.setenv("OCTAVO_PLUGINS_BLOCK", "c")
    assert (read_environment().plugins_allow, read_environment().plugins_block) == (("a", "b"), ("c",))


@pytest.mark.parametrize(("value", "hidden"), [("", True), ("-1", True), (" ", True), ("0", False), ("0,1", False), ("GPU-1f", False)])
def test_cuda_devices_can_be_hidden(monkeypatch: pytest.MonkeyPatch, value: str, hidden: bool) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert read_environment().cuda_hidden is hidden


def test_every_variable_is_shown_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    values = environment_values()
    assert set(values) == set(VARIABLES)
    assert values["HF_HUB_OFFLINE"] == "1"
    assert values["CUDA_VISIBLE_DEVICES"] is None


def test_keys_are_read_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_API_KEY", "sk-1, sk-2")
    assert read_environment().api_keys == ("sk-1", "sk-2")
    assert environment_values()["OCTAVO_API_KEY"] == "(hidden)"
    assert "sk-1" not in repr(read_environment())


def test_waiting_threads_sleep_soon_unless_the_user_says_how_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    let_waiting_threads_sleep()
    assert environment_values()["GOMP_SPINCOUNT"] is None
    monkeypatch.delenv("OMP_WAIT_POLICY")
    let_waiting_threads_sleep()
    assert environment_values()["GOMP_SPINCOUNT"] == "1000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    let_waiting_threads_sleep()
    assert environment_values()["GOMP_SPINCOUNT"] == "7"


def test_the_folder_of_shared_metrics_is_the_one_that_was_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "elsewhere")
    assert read_environment().metrics_folder == Path("elsewhere")
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")
    assert read_environment().metrics_folder is None
    share_metrics(str(tmp_path))
    assert read_environment().metrics_folder == tmp_path


def test_caches_lie_where_the_system_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == Path.home() / ".cache" / "octavo"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/octavo")
    monkeypatch.setenv("XDG_CACHE_HOME", "not absolute")
    assert cache_folder() == Path.home() / ".cache" / "octavo" == read_environment().cache


def test_who_has_no_home_has_no_cache_and_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert read_environment().cache is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert read_environment().cache == Path("/somewhere/octavo")


@pytest.mark.parametrize(("value", "number"), [("", None), ("4", 4), (" 3 , 2", 3), ("many", None), ("0", None), ("99999999999", None)])
def test_wanted_threads_are_the_first_number(monkeypatch: pytest.MonkeyPatch, value: str, number: int | None) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert read_environment().num_threads == number


def test_what_was_compiled_is_kept_where_the_user_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/mine")
    keep_compiled_in(Path("/ours"))
    assert environment_values()["TORCHINDUCTOR_CACHE_DIR"] == "/mine"
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    keep_compiled_in(Path("/ours"))
    assert environment_values()["TORCHINDUCTOR_CACHE_DIR"] == "/ours"
