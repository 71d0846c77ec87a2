"""The logits processors of the requests that asked for any."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from octavo.errors import ConfigurationError, described
from octavo.sampling_params import SamplingParams
from octavo_models.sampling.processor import LogitsProcessor

FindProcessor = Callable[[str], type[LogitsProcessor]]
"""From a registered name to its class."""


def no_processors(name: str) -> type[LogitsProcessor]:
    """Where nobody registered any."""
    raise ConfigurationError(f"unknown logits processor {name!r}: there are none")


class ProcessorTable:
    """By slot; a processor that could not be made is kept as the error that it will be.

    Args:
        find: the class of a name.
        vocab_size: V.
    """

    def __init__(self, find: FindProcessor, vocab_size: int) -> None:
        self._find = find
        self._vocab_size = vocab_size
        self._by_slot: dict[int, dict[str, LogitsProcessor] | str] = {}

    def __len__(self) -> int:
        return len(self._by_slot)

    def add(self, slot: int, params: SamplingParams) -> None:
        """Make the processors of a request that lies in a slot, in the order in which it names them."""
        processors: dict[str, LogitsProcessor] = {}
        for name, argument in params.logits_processors.items():
            try:
                processors[name] = self._find(name)(argument, vocab_size=self._vocab_size)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - a stranger's code may raise anything, and only its request ends
                self._by_slot[slot] = _said(name, error)
                return
        self._by_slot[slot] = processors

    def move(self, source: int, target: int) -> None:
        """The request of one slot lies in another from now on."""
        if source in self._by_slot:
            self._by_slot[target] = self._by_slot.pop(source)

    def remove(self, slot: int) -> None:
        """Forget the request of a slot."""
        self._by_slot.pop(slot, None)

    def holds(self, slot: int) -> bool:
        """Whether the request of a slot has processors."""
        return slot in self._by_slot

    def apply(self, slot: int, logits: Tensor, prompt_ids: NDArray[np.int32], output_ids: NDArray[np.int32]) -> str | None:
        """Run a request's processors on its logits, float32 [V], in place; what went wrong, or None."""
        processors = self._by_slot[slot]
        if isinstance(processors, str):
            return processors
        for name, processor in processors.items():
            try:
                processor.apply(logits, prompt_ids, output_ids)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - a stranger's code may raise anything, and only its request ends
                return _said(name, error)
        return None


def _said(name: str, error: BaseException) -> str:
    return f"logits processor {name!r} raised {described(error)}"
