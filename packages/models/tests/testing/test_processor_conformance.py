"""The suite passes what is right, and finds each fault that it is there for."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo_models.sampling import LogitsProcessor
from octavo_models.sampling.no_repeat_ngram import NoRepeatNgram
from octavo_models.testing.conformance import check_bad_argument, check_logits_processor

Ids = NDArray[np.int32]


def test_the_built_in_processor_conforms() -> None:
    check_logits_processor(NoRepeatNgram, 2)


@pytest.mark.parametrize("argument", [0, "two", None, [2]])
def test_the_built_in_processor_refuses_what_is_no_length(argument: Any) -> None:
    check_bad_argument(NoRepeatNgram, argument)


class Remembers(LogitsProcessor):
    calls = 0

    def apply(self, logits: Tensor, prompt_ids: Ids, output_ids: Ids) -> None:
        self.calls += 1
        logits[self.calls % len(logits)] = 3.0


class Rolls(LogitsProcessor):
    def apply(self, logits: Tensor, prompt_ids: Ids, output_ids: Ids) -> None:
        logits += torch.rand(len(logits))


class Returns(LogitsProcessor):
    def apply(self, logits: Tensor, prompt_ids: Ids, output_ids: Ids) -> None:
        return logits + 1  # type: ignore[return-value]


class ForbidsAll(LogitsProcessor):
    def apply(self, logits: Tensor, prompt_ids: Ids, output_ids: Ids) -> None:
        logits.fill_(-float("inf"))


class MakesNaN(LogitsProcessor):
    def apply(self, logits: Tensor, prompt_ids: Ids, output_ids: Ids) -> None:
        logits[0] = float("nan")


@pytest.mark.parametrize(
    ("processor", "fault"),
    [
        (Remembers, "made anew"),
        (Rolls, "made anew"),
        (Returns, "return nothing"),
        (ForbidsAll, "no token is left"),
        (MakesNaN, "is NaN"),
    ],
)
def test_a_faulty_processor_is_found(processor: type[LogitsProcessor], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_logits_processor(processor, None)


class Deep(LogitsProcessor):
    def __init__(self, argument: Any, *, vocab_size: int) -> None:
        super().__init__(argument["depth"], vocab_size=vocab_size)

    def apply(self, logits: Tensor, prompt_ids: Ids, output_ids: Ids) -> None: ...


@pytest.mark.parametrize(("argument", "fault"), [({"depth": 1}, "took the argument"), ({}, "raised KeyError")])
def test_a_processor_that_refuses_badly_is_found(argument: Any, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_bad_argument(Deep, argument)
