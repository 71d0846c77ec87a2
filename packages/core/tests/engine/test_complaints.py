import logging

import pytest

from octavo.engine import complaints
from octavo.engine.complaints import Complaints


def test_what_keeps_coming_is_said_now_and_then(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(complaints.time, "monotonic", lambda: now)
    wrong = Complaints(logging.getLogger("octavo.test"), "dropped: %s")
    for index in range(50):
        wrong.add(f"reason {index}")
    now += complaints.INTERVAL_S
    wrong.add("x" * 1000)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "dropped: reason 0"
    assert messages[1].startswith("dropped: xxx")
    assert messages[1].endswith("(49 more since the last of these messages)")
    assert len(messages) == 2
    assert len(messages[1]) < 300
