from typing import Any

import pytest

from octavo.errors import ConfigurationError
from octavo_server.bench.record import RequestError
from octavo_server.bench.slo import ServiceLevel, parse_slo


def test_limits_have_units_and_are_milliseconds_without_one() -> None:
    assert parse_slo("ttft=500ms, itl=50, tpot=.04s,e2e=10s") == ServiceLevel(ttft_s=0.5, itl_s=0.05, tpot_s=0.04, e2e_s=10.0)
    assert str(parse_slo("e2e=2s,ttft=500us")) == "ttft ≤ 0.5 ms, e2e ≤ 2000 ms"


@pytest.mark.parametrize("text", ["", "ttft", "ttft=", "ttft=5m", "first=5ms", "ttft=-5ms", "ttft=1ms,ttft=2ms", "ttft=1ms,"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="slo"):
        parse_slo(text)


@pytest.mark.parametrize(
    ("limits", "is_met"),
    [
        ("ttft=1s,itl=400ms,tpot=300ms,e2e=1.9s", True),
        ("ttft=999ms", False),
        ("itl=399ms", False),
        ("tpot=299ms", False),
        ("e2e=1899ms", False),
    ],
)
def test_a_request_keeps_all_limits_or_none_count(record: Any, limits: str, is_met: bool) -> None:
    done = record(ttft_s=1.0, e2e_s=1.9, output_tokens=4, inter_token_s=(0.2, 0.4, 0.3))
    assert parse_slo(limits).is_met_by(done) is is_met


def test_a_failed_request_keeps_nothing_and_one_token_has_no_gaps(record: Any) -> None:
    level = parse_slo("ttft=2s,itl=1us,tpot=1us")
    assert level.is_met_by(record(ttft_s=1.0, e2e_s=1.0, output_tokens=1))
    assert not level.is_met_by(record(ttft_s=1.0, e2e_s=1.0, output_tokens=1, error=RequestError("timeout", "late")))
