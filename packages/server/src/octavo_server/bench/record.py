"""What is known of one request when it is over."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RequestError:
    """Why a request failed.

    Attributes:
        kind: "HTTP 503", "connection", "timeout", "cut off", "stream error", "malformed event".
        message: one line of the server or the transport.
    """

    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """One request; durations in seconds, moments in seconds since the load began.

    Attributes:
        due: when it should have been sent.
        sent: when it was.
        ended: when its stream was over.
        input_tokens, output_tokens: as the server's usage says, else as far as the client can tell.
        cached_tokens: input tokens from the server's prefix cache; None where it does not say.
        has_usage: whether the server's usage came.
        num_events: events of the stream that brought output.
        ttft_s: from sending to the first of them; None where none came.
        e2e_s: from sending to the event that ended the answer.
        inter_token_s: gaps between events that brought output.
        error: None: it succeeded.
    """

    due: float
    sent: float
    ended: float
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    has_usage: bool = False
    num_events: int = 0
    ttft_s: float | None = None
    e2e_s: float | None = None
    inter_token_s: Sequence[float] = ()
    error: RequestError | None = None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None where there is one token only."""
        if self.ttft_s is None or self.e2e_s is None or self.output_tokens < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (self.output_tokens - 1)
