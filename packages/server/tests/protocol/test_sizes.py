from typing import Any

import pytest

from octavo.errors import InvalidRequestError
from octavo_server.protocol.sizes import MAX_BAD_WORD_CHARACTERS, MAX_PROCESSOR_BYTES, MAX_STOP_LENGTH, check_sizes

VOCAB_SIZE = 100


def processor(size: int) -> dict[str, str]:
    """A processor and its argument, of so many bytes as JSON."""
    return {"a": "x" * (size - len('{"a":""}'))}


@pytest.mark.parametrize(
    ("field", "most", "too_much"),
    [
        ("stop", ["a", "x" * MAX_STOP_LENGTH], ["a", "x" * (MAX_STOP_LENGTH + 1)]),
        ("bad_words", ["x" * 1024] * (MAX_BAD_WORD_CHARACTERS // 1024), ["x" * 1024] * (MAX_BAD_WORD_CHARACTERS // 1024) + ["a"]),
        ("stop_token_ids", [1] * VOCAB_SIZE, [1] * (VOCAB_SIZE + 1)),
        ("allowed_token_ids", [1] * VOCAB_SIZE, [1] * (VOCAB_SIZE + 1)),
        ("logits_processors", processor(MAX_PROCESSOR_BYTES), processor(MAX_PROCESSOR_BYTES + 1)),
    ],
)
def test_parameters_are_taken_up_to_a_size(field: str, most: Any, too_much: Any) -> None:
    check_sizes({field: most, "n": 128}, VOCAB_SIZE)
    with pytest.raises(InvalidRequestError, match=field) as refused:
        check_sizes({field: too_much, "n": 1}, VOCAB_SIZE)
    assert refused.value.param == field
    assert len(str(refused.value)) < 200
