"""What a sampler is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SamplingBatch:
    """Per-row parameters of one step, R rows, all on the device of the logits. A field is None where no row needs it.

    Attributes:
        all_greedy: every row takes its likeliest token, and nothing below but the edits of logits applies.
        plain_rows: int64 [D], rows that draw from all tokens that `min_p` leaves.
        ranked_rows: int64 [F], rows that draw and have `top_k` or `top_p`; rows in neither take their likeliest token.
        temperature: float32 [R]; 0 marks a greedy row.
        top_k: int64 [R]; V where off.
        top_p, min_p: float32 [R]; 1 and 0 where off.
        uniforms: float64 [R] in [0, 1), one draw a row, a function of (seed, output index) alone.
        output_counts: int32 [P, V], how often each token was put out, for the rows in `penalty_rows`.
        seen: bool [P, V], tokens of prompt and output, for the rows in `penalty_rows`.
        penalty_rows: int64 [P].
        presence_penalty, frequency_penalty, repetition_penalty: float32 [P].
        bias_rows, bias_ids, bias_values: int64, int64, float32 [K]: additions to single logits (logit bias; -inf forbids).
        restricted_rows: int64 [A], rows in which only some tokens may come, each once.
        allowed_rows, allowed_ids: int64 [L]: the tokens that may come in them.
    """

    all_greedy: bool
    plain_rows: Tensor | None = None
    ranked_rows: Tensor | None = None
    temperature: Tensor | None = None
    top_k: Tensor | None = None
    top_p: Tensor | None = None
    min_p: Tensor | None = None
    uniforms: Tensor | None = None
    output_counts: Tensor | None = None
    seen: Tensor | None = None
    penalty_rows: Tensor | None = None
    presence_penalty: Tensor | None = None
    frequency_penalty: Tensor | None = None
    repetition_penalty: Tensor | None = None
    bias_rows: Tensor | None = None
    bias_ids: Tensor | None = None
    bias_values: Tensor | None = None
    restricted_rows: Tensor | None = None
    allowed_rows: Tensor | None = None
    allowed_ids: Tensor | None = None

    def without_edits(self) -> "SamplingBatch":
        """The same for logits that `apply_edits` was through with: no biases, no restrictions, no penalties."""
        return replace(self, bias_rows=None, restricted_rows=None, penalty_rows=None)


class Sampler(ABC):
    """Draws one token a row; pure, and without a synchronisation with the host. Registered with `octavo_register_samplers`."""

    marks_bad_rows: ClassVar[bool] = False
    """Whether `sample` gives -1 for rows without a finite largest logit; if not, the runner looks at all logits before."""

    @property
    def takes_likeliest(self) -> bool:
        """Whether `sample` is `likeliest` for batches that are all greedy and edit no logits; the runner need not make logits then."""
        return False

    @abstractmethod
    def sample(self, logits: Tensor, batch: SamplingBatch) -> Tensor:
        """logits [R, V] of any floating type (may be overwritten) -> token ids int64 [R]."""
