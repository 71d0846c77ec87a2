from collections.abc import Callable

import pytest

from octavo.testing.conformance import check_plugin

GOOD = """
import octavo

@octavo.hookimpl
def octavo_register_scheduler_policies(registry):
    registry.register("backwards", "octavo.scheduler.policy:Priority")
"""
FAULTY = {
    "heavy": ("import numpy\n" + GOOD, "imports numpy"),
    "dangling": (GOOD.replace("octavo.scheduler.policy:Priority", "nowhere:Policy"), "does not load from 'nowhere:Policy'"),
    "wrong": (GOOD.replace("octavo.scheduler.policy:Priority", "pathlib:Path"), "does not extend"),
    "broken": ("raise RuntimeError('out of order')", "out of order"),
    "empty": ("", "registers nothing"),
}


def test_a_plugin_that_registers_names_passes(install: Callable[[str, str], None]) -> None:
    install("checked", GOOD)
    assert check_plugin("checked") == {"scheduler_policies": ["backwards"]}


@pytest.mark.parametrize(("source", "fault"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_plugin_is_found(install: Callable[[str, str], None], source: str, fault: str) -> None:
    install("checked", source)
    with pytest.raises(AssertionError, match=fault):
        check_plugin("checked")
