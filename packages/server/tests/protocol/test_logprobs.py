import msgspec
import pytest

from octavo.outputs import Logprob
from octavo.testing.llm import word_backend
from octavo.text.tokenizer import Tokenizer
from octavo.text.tokenizer_settings import TokenizerSettings
from octavo_server.protocol.logprobs import LOWEST, chat_logprob, completion_logprobs, likeliest, prompt_logprobs
from octavo_server.protocol.token_spelling import TokenSpelling

TOKENIZER = Tokenizer(TokenizerSettings(backend=word_backend(["a", "b", "c", "<0xF0>", "<0xF1>"], vocab_size=20)))
SPELLING = TokenSpelling(TOKENIZER, as_ids=False)
A, B, C, F0, F1 = range(3, 8)


def position(*ranked: tuple[int, float, int]) -> dict[int, Logprob]:
    return {token_id: Logprob(value, rank, TOKENIZER.token_bytes(token_id).decode(errors="replace")) for token_id, value, rank in ranked}


def test_the_token_stands_beside_the_likeliest() -> None:
    found = completion_logprobs([A, B], [None, position((B, -3.0, 9), (C, -0.1, 1), (A, -0.2, 2))], [0, 1], num_top=2, spelling=SPELLING)
    assert found.tokens == ["a", "b"]
    assert found.token_logprobs == [None, -3.0]
    assert found.top_logprobs == [None, {"b": -3.0, "c": -0.1, "a": -0.2}]
    assert found.text_offset == [0, 1]


def test_the_likeliest_are_as_many_as_were_asked_for() -> None:
    among = position((A, -0.1, 1), (B, -0.2, 2), (C, -0.3, 3))
    assert [token_id for token_id, _ in likeliest(among, 2)] == [A, B]
    tied = position((C, -0.1, 1), (A, -0.1, 1), (B, -0.1, 2))
    assert [token_id for token_id, _ in likeliest(tied, 2)] == [C, A]
    assert likeliest(among, 0) == []


def test_a_chat_lists_only_the_likeliest() -> None:
    found = chat_logprob(B, position((B, -3.0, 9), (C, -0.1, 1), (A, -0.2, 2)), num_top=2, spelling=SPELLING)
    assert (found.token, found.logprob, found.bytes) == ("b", -3.0, [98])
    assert [(top.token, top.logprob) for top in found.top_logprobs] == [("c", -0.1), ("a", -0.2)]


def test_parts_of_characters_are_told_apart() -> None:
    (top,) = completion_logprobs([F0], [position((F0, -1.0, 2), (F1, -0.5, 1))], [0], num_top=1, spelling=SPELLING).top_logprobs
    assert top == {"bytes:\\xf0": -1.0, "bytes:\\xf1": -0.5}
    by_id = TokenSpelling(TOKENIZER, as_ids=True)
    assert (by_id.text(F0), by_id.bytes(F0)) == ("token_id:6", [0xF0])


def test_prompts_are_by_id() -> None:
    found = prompt_logprobs([A, B], [None, position((B, -3.0, 9), (C, -0.1, 1), (A, -0.2, 2))], num_top=1)
    assert msgspec.to_builtins(found) == [
        None,
        {"4": {"logprob": -3.0, "rank": 9, "decoded_token": "b"}, "5": {"logprob": -0.1, "rank": 1, "decoded_token": "c"}},
    ]


@pytest.mark.parametrize("value", [float("-inf"), -1e30])
def test_json_has_no_infinity(value: float) -> None:
    assert chat_logprob(A, position((A, value, 5)), num_top=1, spelling=SPELLING).logprob == LOWEST
