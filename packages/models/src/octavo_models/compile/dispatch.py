"""Which graph serves a batch: a pure function of the batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from octavo_kernels.attention import GraphSupport

MAX_CAPTURE_SIZE = 512


class GraphMode(Enum):
    """How much of a step is replayed: PIECEWISE all pieces up to the last border, with borders called between; FULL all of it."""

    PIECEWISE = "piecewise"
    FULL = "full"


class GraphKey(NamedTuple):
    """A graph: its mode, and the rows that it computes. In FULL row i is request i."""

    mode: GraphMode
    num_rows: int


@dataclass(frozen=True, kw_only=True)
class BatchFacts:
    """What of a batch decides.

    Attributes:
        num_tokens, num_requests: of the step.
        every_row_samples: row i is the last token of request i, for all rows.
        wants_prompt: log-probabilities of prompts are taken of some rows.
    """

    num_tokens: int
    num_requests: int
    every_row_samples: bool
    wants_prompt: bool = False


def capture_sizes(largest: int) -> tuple[int, ...]:
    """1, 2, 4, 8, then by 8 to 256, by 16 to 512, up to `largest`, which is one itself where it is not above 512."""
    sizes = [1, 2, 4, *range(8, 257, 8), *range(272, MAX_CAPTURE_SIZE + 1, 16)]
    last = min(largest, MAX_CAPTURE_SIZE)
    return (*(size for size in sizes if size < last), last)


def lower_modes(wanted: Sequence[GraphMode], support: GraphSupport, *, all_borders_attend: bool) -> tuple[GraphMode, ...]:
    """The modes that remain of those wanted: FULL needs attention that can be captured, and no other kind of border."""
    can_be_full = support is not GraphSupport.NEVER and all_borders_attend
    return tuple(mode for mode in wanted if mode is not GraphMode.FULL or can_be_full)


class Dispatcher:
    """Chooses the smallest graph that a batch fits, FULL before PIECEWISE; None where there is none.

    Args:
        modes: that are captured.
        max_tokens, max_requests: of a step.
    """

    def __init__(self, modes: Sequence[GraphMode], *, max_tokens: int, max_requests: int) -> None:
        sizes = {GraphMode.PIECEWISE: capture_sizes(max_tokens), GraphMode.FULL: capture_sizes(max_requests)}
        self._sizes = {mode: sizes[mode] for mode in (GraphMode.PIECEWISE, GraphMode.FULL) if mode in modes}
        self._padded = {mode: _next_sizes(of_mode) for mode, of_mode in self._sizes.items()}

    def keys(self) -> tuple[GraphKey, ...]:
        """Every graph, in the order in which they are captured: PIECEWISE before FULL, largest first, so that the pool is reused."""
        return tuple(GraphKey(mode, size) for mode, sizes in self._sizes.items() for size in reversed(sizes))

    def key(self, batch: BatchFacts) -> GraphKey | None:
        """The graph of a batch of at least one token."""
        is_decode = batch.every_row_samples and not batch.wants_prompt and batch.num_tokens == batch.num_requests
        modes = (GraphMode.FULL, GraphMode.PIECEWISE) if is_decode else (GraphMode.PIECEWISE,)
        for mode in modes:
            padded = self._padded.get(mode, ())
            if batch.num_tokens < len(padded):
                return GraphKey(mode, padded[batch.num_tokens])
        return None


def _next_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """[n] is the smallest size of at least n rows."""
    padded = [sizes[0]]
    for size in sizes:
        padded += [size] * (size + 1 - len(padded))
    return tuple(padded)
