"""What every reader of a weight format gives."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class WeightStream:
    """A checkpoint, tensor by tensor, so that few of them are held beside the model.

    Attributes:
        num_tensors: how many will come.
        num_values: elements of all of them together.
        tensors: pairs of Hugging Face name and tensor on the CPU; to be read once. A tensor may be a view of a mapped file.
    """

    num_tensors: int
    num_values: int
    tensors: Iterator[tuple[str, Tensor]]
