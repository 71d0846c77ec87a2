import pytest

from octavo.input.truncation import Truncation


@pytest.mark.parametrize(
    ("kept", "keeps_end", "expected"), [(2, True, [4, 5]), (2, False, [3, 4]), (3, True, [3, 4, 5]), (9, True, [3, 4, 5]), (1, True, [5])]
)
def test_so_many_tokens_are_kept(kept: int, keeps_end: bool, expected: list[int]) -> None:
    assert Truncation(num_tokens=kept, keeps_end=keeps_end).apply([3, 4, 5]) == expected
