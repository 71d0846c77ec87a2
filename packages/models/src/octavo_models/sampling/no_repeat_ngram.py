"""A processor against loops."""

from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from octavo_models.sampling.processor import LogitsProcessor


class NoRepeatNgram(LogitsProcessor):
    """Forbids tokens that would complete an n-gram which prompt or output hold already (Paulus et al. 2017, section 2.5). Argument: n."""

    def __init__(self, argument: Any, *, vocab_size: int) -> None:
        super().__init__(argument, vocab_size=vocab_size)
        if type(argument) is not int or argument < 1:
            raise ValueError(f"{argument!r} is no length of n-grams: give an integer of at least 1")

    def apply(self, logits: Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:
        ids = np.concatenate([prompt_ids, output_ids])
        beginning = self.argument - 1
        if len(ids) <= beginning:
            return
        ngrams = sliding_window_view(ids, self.argument)
        repeats = (ngrams[:, :beginning] == ids[len(ids) - beginning :]).all(axis=1)
        forbidden = torch.from_numpy(ngrams[repeats, -1].astype(np.int64))
        logits[forbidden.to(logits.device)] = -torch.inf
