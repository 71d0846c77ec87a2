"""What a logits processor is."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class LogitsProcessor(ABC):
    """Edits the logits of one request before its next token is chosen. Registered with `octavo_register_logits_processors`.

    A request asks for it by name in `SamplingParams.logits_processors`; one object is made for each that does, and no other request's
    logits are touched. It may be made anew between any two tokens (after a preemption), so what it does must follow from its argument and
    the tokens alone; what it remembers may only save time.

    What the constructor or `apply` raises ends this request with that message, and no other. What other parameters forbid stays forbidden
    whatever a processor does: they come after it.

    Args:
        argument: what the request gave, plain JSON; raise `ValueError` where it is of no use.
        vocab_size: V.
    """

    def __init__(self, argument: Any, *, vocab_size: int) -> None:
        self.argument = argument
        self.vocab_size = vocab_size

    @abstractmethod
    def apply(self, logits: Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> None:
        """Change the logits in place.

        Args:
            logits: float32 [V], on the model's device, as the model gave them or as the request's processor before left them; -inf forbids.
            prompt_ids: of the prompt, not to be written.
            output_ids: of the output so far, not to be written.
        """
