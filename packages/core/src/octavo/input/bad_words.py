"""Words that must not come, as the tokens they are split into."""

from collections.abc import Sequence

from octavo.errors import InvalidRequestError
from octavo.text.tokenizer import Tokenizer


def bad_token_sequences(words: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The sequences of token ids that must not be completed: each word as it begins a text, and as it stands behind a space.

    White space before a word counts for nothing, as both forms are made anyway. Each sequence comes once, and none that ends with another
    one: that is forbidden already.

    Raises:
        InvalidRequestError: a word holds half of a surrogate pair, or the model has no tokenizer.
    """
    if words and not tokenizer.makes_text:
        raise InvalidRequestError("bad words need a tokenizer, and this model has none: leave them out", param="bad_words")
    texts = [prefix + word.lstrip() for word in words for prefix in ("", " ")]
    sequences = {tuple(ids) for ids in tokenizer.encode_batch(texts, add_special_tokens=False) if ids} if texts else set()
    # Backwards, what ends with another one begins with it, and stands right behind it when sorted.
    needed: list[tuple[int, ...]] = []
    for ids in sorted(tuple(reversed(ids)) for ids in sequences):
        if not needed or ids[: len(needed[-1])] != needed[-1]:
            needed.append(ids)
    return sorted(list(reversed(ids)) for ids in needed)
