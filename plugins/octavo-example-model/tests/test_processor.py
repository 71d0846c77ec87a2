import numpy as np
import pytest
import torch

from octavo_example_model.processor import PromptBias
from octavo_models.testing.conformance import check_bad_argument, check_logits_processor


def test_conforms() -> None:
    check_logits_processor(PromptBias, 2.5)


@pytest.mark.parametrize("argument", ["much", None, True, [1.0]])
def test_what_is_no_number_is_refused(argument: object) -> None:
    check_bad_argument(PromptBias, argument)


def test_tokens_of_the_prompt_are_raised_once_each() -> None:
    logits = torch.zeros(6)
    PromptBias(2.5, vocab_size=6).apply(logits, np.array([1, 4, 1], dtype=np.int32), np.array([2], dtype=np.int32))
    assert logits.tolist() == [0, 2.5, 0, 0, 2.5, 0]
