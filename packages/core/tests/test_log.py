import logging
from collections.abc import Iterator

import pytest

from octavo.log import configure_logging


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


def test_messages_of_octavo_and_its_packages_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info")
    for name in ("octavo.memory", "octavo_models.runner", "octavo_stranger"):
        logging.getLogger(name).info("said by %s", name)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["INFO said by octavo.memory", "INFO said by octavo_models.runner", "INFO said by octavo_stranger"]


def test_other_libraries_are_heard_from_warnings_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug")
    logging.getLogger("httpx").info("chatter")
    logging.getLogger("httpx").warning("trouble")
    assert capsys.readouterr().err == "WARNING httpx: trouble\n"


def test_the_level_holds_and_the_last_call_wins(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info")
    configure_logging("warning")
    logging.getLogger("octavo").info("unheard")
    logging.getLogger("octavo").warning("heard")
    assert capsys.readouterr().err == "WARNING heard\n"
