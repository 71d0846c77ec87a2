"""Rows of token ids or block ids, one a slot, as one array that can be indexed for all rows at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class RowTable:
    """int32 rows of different lengths, zeros behind them; the array widens as rows grow.

    Args:
        num_rows: number of slots.
        width: columns to begin with.
    """

    def __init__(self, num_rows: int, width: int) -> None:
        self.values: NDArray[np.int32] = np.zeros((num_rows, width), dtype=np.int32)
        """[slots, columns]; replaced when it widens, so never keep it."""
        self.lengths: NDArray[np.int64] = np.zeros(num_rows, dtype=np.int64)
        """[slots]"""

    def row(self, row: int) -> NDArray[np.int32]:
        """What a row holds; a view."""
        return self.values[row, : self.lengths[row]]

    def extend(self, row: int, items: Sequence[int]) -> None:
        """Put items behind a row."""
        start = int(self.lengths[row])
        end = start + len(items)
        self._widen(end)
        self.values[row, start:end] = items
        self.lengths[row] = end

    def append(self, rows: NDArray[np.int64], items: NDArray[np.int64]) -> None:
        """Put one item behind each of these rows, all different."""
        ends = self.lengths[rows]
        if len(ends):
            self._widen(int(ends.max()) + 1)
        self.values[rows, ends] = items
        self.lengths[rows] += 1

    def clear(self, row: int) -> None:
        """Empty a row."""
        self.values[row, : self.lengths[row]] = 0
        self.lengths[row] = 0

    def move(self, source: int, target: int) -> None:
        """Put a row where an empty one is, and leave an empty one."""
        length = self.lengths[source]
        self.values[target, :length] = self.values[source, :length]
        self.lengths[target] = length
        self.clear(source)

    def _widen(self, needed: int) -> None:
        num_rows, width = self.values.shape
        if needed > width:
            grown = np.zeros((num_rows, max(needed, 2 * width)), dtype=np.int32)
            grown[:, :width] = self.values
            self.values = grown
