"""Greedy continuations by Transformers, the independent side of the comparison: `python tests/equality/reference.py [--check] OUT.json`.

Needs the `reference` dependency group. Weights are the GGUF file's, dequantized to float32; end-of-sequence tokens are ignored.
For every step the file says, beside the token, which one came second and how far behind its logit was.
"""

# ruff: noqa: T201 (a script: it prints)

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from model_file import digest, find_model_file
from torch import Tensor

DATA = Path(__file__).resolve().parents[1] / "data"
NUM_TOKENS = 64
GAP_TOLERANCE = 1e-3
"""How far gaps of two machines may be apart before they count as different; also the largest gap of a tie."""


def load_model(model_file: Path) -> Any:
    """The model in float32, as Transformers builds it."""
    from transformers import AutoModelForCausalLM
    from transformers.utils.quantization_config import GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        model_file.parent, gguf_file=model_file.name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    model.generation_config.eos_token_id = None
    return model.eval()


def best_two(logits: Tensor) -> tuple[int, int, float]:
    """logits float32 [V] -> best token, second token, gap between their logits."""
    values, ids = torch.topk(logits, 2)
    return int(ids[0]), int(ids[1]), round(float(values[0] - values[1]), 6)


@torch.inference_mode()
def continue_greedily(model: Any, token_ids: list[int], num_tokens: int) -> dict[str, list[Any]]:
    """Tokens, runners-up and gaps of one prompt, each of length `num_tokens`."""
    from transformers import GenerationConfig

    # No end-of-sequence token is named, so nothing ends the text early.
    plain = GenerationConfig(max_new_tokens=num_tokens, do_sample=False, output_logits=True, return_dict_in_generate=True, pad_token_id=0)
    inputs = torch.tensor([token_ids])
    output = model.generate(inputs, attention_mask=torch.ones_like(inputs), generation_config=plain)
    tokens, second, gaps = zip(*(best_two(logits[0]) for logits in output.logits), strict=True)
    assert list(tokens) == output.sequences[0, len(token_ids) :].tolist()
    return {"token_ids": list(tokens), "runner_up_ids": list(second), "gaps": list(gaps)}


def make_reference(prompts: list[dict[str, Any]], num_tokens: int = NUM_TOKENS) -> dict[str, Any]:
    """The content of `reference.json`."""
    import transformers

    model_file = find_model_file()
    model = load_model(model_file)
    continuations = {}
    for prompt in prompts:
        continuations[prompt["name"]] = continue_greedily(model, prompt["token_ids"], num_tokens)
        print(f"{prompt['name']}: smallest gap {min(continuations[prompt['name']]['gaps'])}", file=sys.stderr, flush=True)
    return {
        "model": {"file": model_file.name, "sha256": digest(model_file)},
        "dtype": "float32",
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__},
        "continuations": continuations,
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What two reference files disagree on. After a tie that fell the other way a prompt's rest is not comparable and is left out."""
    found = [f"{key}: {old[key]} != {new[key]}" for key in ("model", "dtype") if old[key] != new[key]]
    if old["continuations"].keys() != new["continuations"].keys():
        return [*found, "the prompts are not the same"]
    for name, before in old["continuations"].items():
        after = new["continuations"][name]
        for position, (a, b) in enumerate(zip(before["token_ids"], after["token_ids"], strict=True)):
            gap, new_gap = before["gaps"][position], after["gaps"][position]
            if a != b:
                if not (b == before["runner_up_ids"][position] and gap <= GAP_TOLERANCE):
                    found.append(f"{name}: token {position} is {b}, was {a} with a gap of {gap}")
                break
            if abs(gap - new_gap) > GAP_TOLERANCE:
                found.append(f"{name}: gap at token {position} is {new_gap}, was {gap}")
    return found


def write(reference: dict[str, Any], target: Path) -> None:
    """One line a prompt, so that a change shows where it is."""
    head = {key: value for key, value in reference.items() if key != "continuations"}
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in reference["continuations"].items())
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    target.write_text("\n".join(["{", *lines, '  "continuations": {', rows, "  }", "}", ""]), encoding="utf-8")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare with OUT instead of writing it; exit 1 where they differ")
    arguments.add_argument("out", type=Path, metavar="OUT.json")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    reference = make_reference(json.loads((DATA / "prompts.json").read_text(encoding="utf-8")))
    if not given.check:
        write(reference, given.out)
        return 0
    found = differences(json.loads(given.out.read_text(encoding="utf-8")), reference)
    print("\n".join(found) or f"{given.out.name}: the same")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
