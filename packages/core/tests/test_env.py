import pytest

from octavo.env import VARIABLES, environment_values, let_waiting_threads_sleep, read_environment


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
