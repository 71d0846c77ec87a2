from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo_models.sampling.no_repeat_ngram import NoRepeatNgram

VOCAB = 5


@given(st.integers(1, 4), st.lists(st.integers(0, VOCAB - 1), max_size=14), st.integers(0, 14))
def test_what_would_repeat_an_ngram_is_forbidden_and_nothing_else(length: int, ids: list[int], num_prompt: int) -> None:
    tokens = np.array(ids, dtype=np.int32)
    logits = torch.arange(float(VOCAB))
    NoRepeatNgram(length, vocab_size=VOCAB).apply(logits, tokens[:num_prompt], tokens[num_prompt:])
    seen = [ids[start : start + length] for start in range(len(ids) - length + 1)]
    for token in range(VOCAB):
        repeats = [*ids, token][len(ids) + 1 - length :] in seen
        assert logits[token] == (-torch.inf if repeats else token)


@pytest.mark.parametrize("argument", [0, -1, 1.5, True, "3", None, {"size": 3}])
def test_an_argument_that_is_no_length_is_refused(argument: Any) -> None:
    with pytest.raises(ValueError, match="no length of n-grams"):
        NoRepeatNgram(argument, vocab_size=VOCAB)
