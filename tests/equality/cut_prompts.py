"""Cut the 32 prompts out of the texts in `tests/data/texts`: `python tests/equality/cut_prompts.py [--check]`.

Needs the `reference` dependency group: the ids come from Transformers' reading of the GGUF file, not from Octavo's.
"""

# ruff: noqa: T201 (a script: it prints)

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

from model_file import find_model_file
from tokenizers import Tokenizer, pre_tokenizers

DATA = Path(__file__).resolve().parents[1] / "data"

# text, where the cut begins, tokens (None: to the end of the text). Cuts of one beginning share a prefix.
CUTS: list[tuple[str, str, int | None]] = [
    ("story", "The lamp on Gull Rock", 1500),
    ("story", "The lamp on Gull Rock", 257),
    ("story", "The lamp on Gull Rock", 256),
    ("story", "The lamp on Gull Rock", 255),
    ("story", "The lamp on Gull Rock", 33),
    ("story", "The lamp on Gull Rock", 16),
    ("story", "The lamp on Gull Rock", 1),
    ("story", "That autumn", 400),
    ("story", "They came that night", 129),
    ("workshop", "# Notes", 1000),
    ("workshop", "# Notes", 128),
    ("workshop", "# Notes", 127),
    ("workshop", "# Notes", 17),
    ("workshop", "from collections", 320),
    ("workshop", "from collections", 65),
    ("workshop", "#include", 200),
    ("workshop", "SELECT owner", 64),
    ("workshop", "What should a test", 100),
    ("lists", "Packing list", 700),
    ("lists", "Packing list", 160),
    ("lists", "| month", 80),
    ("lists", '{"station"', 63),
    ("lists", "2, 3, 5", 48),
    ("lists", "red, orange", 31),
    ("languages", "Der Zug", 520),
    ("languages", "Le boulanger", 32),
    ("languages", "駅前", 15),
    ("languages", "На краю", 5),  # noqa: RUF001
    ("languages", "La abuela", 8),
    ("languages", "Na kopci", 2),
    ("dialogue", "<|im_start|>system", None),
    ("dialogue", "<|im_start|>user\nAnd", None),
]


def load_tokenizer(model_file: Path) -> Tokenizer:
    """SmolLM2's tokenizer: vocabulary and merges as Transformers reads them, but digits split apart first, which it leaves out."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_file.parent, gguf_file=model_file.name).backend_tokenizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    return tokenizer


def cut(tokenizer: Tokenizer, text: str, length: int | None) -> tuple[str, list[int]]:
    """The shortest beginning of `text` that is `length` tokens long when it is tokenized by itself, and its ids."""
    if length is None:
        return text, tokenizer.encode(text).ids
    about = tokenizer.encode(text).offsets[length - 1][1]
    for end in range(max(about - 20, 1), about + 20):
        ids = tokenizer.encode(text[:end]).ids
        if len(ids) == length:
            return text[:end], ids
    raise ValueError(f"no beginning of {text[:20]!r} has {length} tokens: choose another length or another place")


def cut_all(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """All prompts, long and short ones mixed."""
    prompts: list[dict[str, Any]] = []
    for source, beginning, length in CUTS:
        text = (DATA / "texts" / f"{source}.txt").read_text(encoding="utf-8")
        piece, ids = cut(tokenizer, text[text.index(beginning) :], length)
        prompts.append({"name": f"{source}-{len(ids)}", "text": piece, "token_ids": ids})
    random.Random(32).shuffle(prompts)
    return prompts


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    check = arguments.parse_args().check
    prompts = cut_all(load_tokenizer(find_model_file()))
    target = DATA / "prompts.json"
    if check:
        same = json.loads(target.read_text(encoding="utf-8")) == prompts
        print(f"{target.name}: {'the same' if same else 'differs'}")
        return 0 if same else 1
    rows = ",\n".join(json.dumps(prompt, ensure_ascii=False) for prompt in prompts)
    target.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    print(f"{len(prompts)} prompts, {sum(len(p['token_ids']) for p in prompts)} tokens: {target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
