"""A small byte-level BPE tokenizer that is the same each time it is written."""

import itertools
import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Ids 0, 1 and 2: unknown, begin of sequence, end of sequence."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_SPACE = "Ġ"
_FREQUENT_FIRST = "etaoinshrdlucmfwypvbgkjqxzETAOINSHRDLUCMFWYPVBGKJQXZ0123456789"


def write_tiny_tokenizer(folder: Path, vocab_size: int, *, chat_template: bool = True) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`: special tokens, the 256 bytes, then merges of two letters or a space and one.

    Raises `ValueError` for a size below 259 (no room for the bytes) or above what the merges fill.
    """
    merges = [(left, right) for left, right in itertools.product(_SPACE + _FREQUENT_FIRST, _FREQUENT_FIRST)]
    smallest = len(SPECIAL_TOKENS) + 256
    if not smallest <= vocab_size <= smallest + len(merges):
        raise ValueError(f"a tiny vocabulary has {smallest} to {smallest + len(merges)} tokens, not {vocab_size}")
    merges = merges[: vocab_size - smallest]
    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": SPECIAL_TOKENS[0],
        "bos_token": SPECIAL_TOKENS[1],
        "eos_token": SPECIAL_TOKENS[2],
        "pad_token": SPECIAL_TOKENS[2],
        "clean_up_tokenization_spaces": False,
    }
    if chat_template:
        settings["chat_template"] = CHAT_TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
