from collections.abc import Callable

import pytest

from octavo.testing.conformance import check_command

GREET = '''
import octavo

def greet(name: str) -> None:
    """Greet somebody."""
    print(f"hello {name}")

def mute(name: str) -> None:
    print(name)

@octavo.hookimpl
def octavo_register_commands(registry):
    registry.register("greet", greet)
    registry.register("mute", mute)
    registry.register("bench greet", greet)
'''


def test_a_command_that_explains_itself_passes(install: Callable[[str, str], None]) -> None:
    install("greeter", GREET)
    assert "Greet somebody." in check_command("greet")
    assert "Greet somebody." in check_command("bench greet")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("generate", "own commands"),
        ("bench", "own commands"),
        ("bench latency", "own commands"),
        ("ghost", "no plugin registers"),
    ],
)
def test_a_name_that_cannot_be_called_is_found(install: Callable[[str, str], None], name: str, fault: str) -> None:
    install("greeter", GREET)
    with pytest.raises(AssertionError, match=fault):
        check_command(name)


def test_a_command_without_a_description_is_found(install: Callable[[str, str], None]) -> None:
    install("greeter", GREET)
    with pytest.raises(AssertionError, match="docstring"):
        check_command("mute")
