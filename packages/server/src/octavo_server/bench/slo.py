"""Service level objectives: what a request has to keep to count for goodput."""

import re
from dataclasses import dataclass, fields

from octavo.errors import ConfigurationError, shown
from octavo_server.bench.record import RequestRecord

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(us|ms|s|)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1e-3}


@dataclass(frozen=True, kw_only=True)
class ServiceLevel:
    """Upper limits in seconds; None: no limit.

    Attributes:
        ttft_s: time to first token.
        itl_s: every gap between two events of the answer.
        tpot_s: time per output token after the first.
        e2e_s: the whole request.
    """

    ttft_s: float | None = None
    itl_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is any limit."""
        return any(getattr(self, item.name) is not None for item in fields(self))

    def is_met_by(self, record: RequestRecord) -> bool:
        """Whether a request succeeded within all limits. What it has no value for (gaps of a single token) is kept."""
        return record.error is None and (
            _within(record.ttft_s, self.ttft_s)
            and _within(max(record.inter_token_s, default=None), self.itl_s)
            and _within(record.tpot_s, self.tpot_s)
            and _within(record.e2e_s, self.e2e_s)
        )

    def __str__(self) -> str:
        limits = [(item.name.removesuffix("_s"), getattr(self, item.name)) for item in fields(self)]
        return ", ".join(f"{name} ≤ {limit * 1e3:g} ms" for name, limit in limits if limit is not None)


def parse_slo(text: str) -> ServiceLevel:
    """Limits written as "ttft=500ms,itl=50ms,tpot=40,e2e=10s"; a number without a unit is milliseconds. Raises `ConfigurationError`."""
    names = [item.name.removesuffix("_s") for item in fields(ServiceLevel)]
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        match = _DURATION.fullmatch(value)
        if name not in names or match is None:
            raise ConfigurationError(f"slo {shown(part)} is no limit: write {', '.join(names)} as in ttft=500ms,itl=50ms,e2e=10s")
        if f"{name}_s" in limits:
            raise ConfigurationError(f"slo {text!r} limits {name} twice: give each limit once")
        limits[f"{name}_s"] = float(match[1]) * _SECONDS[match[2]]
    return ServiceLevel(**limits)


def _within(value: float | None, limit: float | None) -> bool:
    return value is None or limit is None or value <= limit
