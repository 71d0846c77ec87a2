from hypothesis import given
from hypothesis import strategies as st

from octavo_models.sampling.bad_sequences import BadSequences

TOKENS = st.integers(0, 3)
SEQUENCES = st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1, max_size=6)


@given(SEQUENCES, st.lists(TOKENS, max_size=12), st.integers(0, 12))
def test_forbidden_is_what_would_complete_a_sequence(sequences: list[list[int]], output: list[int], known: int) -> None:
    bad = BadSequences(sequences, output[:known])
    for token in output[known:]:
        bad.record(token)
    completing = {token for token in range(4) if any([*output, token][-len(sequence) :] == sequence for sequence in sequences)}
    assert set(bad.forbidden()) == completing


def test_without_output_only_single_tokens_are_forbidden() -> None:
    assert BadSequences([[5], [6, 7]], []).forbidden() == [5]
