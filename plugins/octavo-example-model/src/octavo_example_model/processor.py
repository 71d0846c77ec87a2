"""An edit of logits that a request may ask for."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo_models.sampling import LogitsProcessor


class PromptBias(LogitsProcessor):
    """Adds a number to the logit of every token of the prompt, so that answers keep to its words; the argument is that number."""

    def __init__(self, argument: Any, *, vocab_size: int) -> None:
        super().__init__(argument, vocab_size=vocab_size)
        if type(argument) not in {int, float}:
            raise ValueError(f"the argument is {argument!r}, but must be a number to add to the logits of the prompt's tokens")

    def apply(self, logits: Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:  # noqa: ARG002
        ids = torch.from_numpy(np.unique(prompt_ids).astype(np.int64)).to(logits.device)
        logits[ids] += self.argument
