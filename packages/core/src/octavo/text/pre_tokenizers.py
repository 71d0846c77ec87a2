"""How byte-level BPE tokenizers split text before merging, by the names that GGUF files give them.

The regular expressions are data that belongs to each vocabulary: with another one, token ids differ. They are those of
the models' published `tokenizer.json` files.
"""

from dataclasses import dataclass

from octavo.errors import CheckpointError

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SYMBOLS_AND_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

_LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_SYMBOLS_AND_SPACES}"
_QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SYMBOLS_AND_SPACES}"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, kw_only=True)
class SplitRules:
    """What happens to text before the merges.

    Attributes:
        pattern: regular expression whose matches are the words; None is GPT-2's own.
        splits_digits: every digit is a word, before the pattern is looked at.
        normalizes_nfc: text is brought into Unicode's composed form first.
        ignores_merges: a word that is a token is taken whole.
        adds_bos: sequences begin with BOS where the file does not say.
    """

    pattern: str | None = None
    splits_digits: bool = False
    normalizes_nfc: bool = False
    ignores_merges: bool = False
    adds_bos: bool = False


_GPT2_RULES = SplitRules()
_LLAMA3_RULES = SplitRules(pattern=_LLAMA3, ignores_merges=True, adds_bos=True)
_RULES = {
    "default": _GPT2_RULES,
    "gpt-2": _GPT2_RULES,
    "llama-bpe": _LLAMA3_RULES,
    "llama3": _LLAMA3_RULES,
    "qwen2": SplitRules(pattern=_QWEN2, normalizes_nfc=True),
    "smollm": SplitRules(splits_digits=True),
    "tekken": SplitRules(pattern=_TEKKEN, ignores_merges=True, adds_bos=True),
}


def split_rules(name: str) -> SplitRules:
    """The rules of a name in `tokenizer.ggml.pre`. Raises `CheckpointError` listing the known ones."""
    if name not in _RULES:
        raise CheckpointError(f"tokenizer.ggml.pre is {name!r}, which is not supported; known are {', '.join(_RULES)}")
    return _RULES[name]
