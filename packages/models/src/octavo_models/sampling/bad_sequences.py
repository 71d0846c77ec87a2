"""Sequences of tokens that must not be completed."""

from collections import defaultdict, deque
from collections.abc import Sequence


class BadSequences:
    """Of one request: follows its output, and says what must not come next, by a look at the last tokens alone.

    Args:
        sequences: of token ids, none empty.
        output: so far.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], output: Sequence[int]) -> None:
        last_by_beginning: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for sequence in sequences:
            last_by_beginning[tuple(sequence[:-1])].append(sequence[-1])
        self._last_by_beginning = dict(last_by_beginning)
        self._lengths = sorted({len(beginning) for beginning in last_by_beginning})
        longest = self._lengths[-1]
        self._tail = deque(output[max(0, len(output) - longest) :], maxlen=longest)

    def record(self, token_id: int) -> None:
        """Note one more token of the output."""
        self._tail.append(token_id)

    def forbidden(self) -> list[int]:
        """Ids that would complete a sequence now."""
        tail = tuple(self._tail)
        found: list[int] = []
        for length in self._lengths:
            if length <= len(tail):
                found += self._last_by_beginning.get(tail[len(tail) - length :], ())
        return found
