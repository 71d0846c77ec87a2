"""Log-probabilities as they travel: numbers in bytes, a few objects a request however many tokens it has."""

import struct
from collections.abc import Iterator, Sequence

import msgspec

MAX_LOGPROBS = 20
"""Alternatives that a request may ask for at each token, unless the engine is started with another limit."""


class LogprobRows(msgspec.Struct, frozen=True, kw_only=True):
    """Of consecutive tokens: how likely each was, and the likeliest tokens in its place. n tokens, k alternatives.

    Values are the natural log-softmax, in float32, of the model's own logits: before biases, processors, penalties and temperature.

    Attributes:
        num_top: k.
        ids: int32 [n, 1 + k]: the token, then the k likeliest ones, the likeliest first.
        values: float32 [n, 1 + k]: their log-probabilities.
        ranks: int32 [n]: of the token; 1 is the likeliest.

    All three are little-endian, row by row.
    """

    num_top: int
    ids: bytes
    values: bytes
    ranks: bytes

    def __post_init__(self) -> None:
        numbers = (len(self.ranks) // 4) * (1 + self.num_top)
        if self.num_top < 0 or len(self.ranks) % 4 or not len(self.ids) == len(self.values) == 4 * numbers:
            sizes = f"{len(self.ids)}, {len(self.values)} and {len(self.ranks)} bytes"
            raise ValueError(f"log-probabilities with {self.num_top} alternatives cannot have ids, values and ranks of {sizes}")

    @classmethod
    def pack(cls, ids: Sequence[int], values: Sequence[float], ranks: Sequence[int]) -> "LogprobRows":
        """From plain numbers, row by row."""
        assert ranks, "without tokens nobody knows how many alternatives there are"
        assert len(ids) == len(values)
        return cls(
            num_top=len(ids) // len(ranks) - 1,
            ids=struct.pack(f"<{len(ids)}i", *ids),
            values=struct.pack(f"<{len(values)}f", *values),
            ranks=struct.pack(f"<{len(ranks)}i", *ranks),
        )

    def __len__(self) -> int:
        return len(self.ranks) // 4

    def token_values(self) -> list[float]:
        """Log-probability of each token itself."""
        return list(self._numbers("f", self.values)[:: 1 + self.num_top])

    def positions(self) -> Iterator[tuple[tuple[int, ...], tuple[float, ...], int]]:
        """Ids and values, 1 + k each, and the token's rank, of one token after the other."""
        width = 1 + self.num_top
        ids, values, ranks = self._numbers("i", self.ids), self._numbers("f", self.values), self._numbers("i", self.ranks)
        for row, rank in enumerate(ranks):
            part = slice(row * width, (row + 1) * width)
            yield ids[part], values[part], rank

    @staticmethod
    def _numbers(kind: str, data: bytes) -> tuple:  # type: ignore[type-arg]
        return struct.unpack(f"<{len(data) // 4}{kind}", data)


def join(parts: Sequence[LogprobRows]) -> LogprobRows:
    """Consecutive parts as one; no parts are no tokens."""
    return LogprobRows(
        num_top=parts[0].num_top if parts else 0,
        ids=b"".join(part.ids for part in parts),
        values=b"".join(part.values for part in parts),
        ranks=b"".join(part.ranks for part in parts),
    )
