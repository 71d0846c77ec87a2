"""What 16-bit weights cost: `uv run --no-sync python benchmarks/accuracy.py`.

Real text, cut at many places. At each the distribution of the next token in float32 is compared with that in bfloat16 on every instruction
set that this CPU has: the Kullback-Leibler divergence from float32 in nats, and how often both have the same likeliest token. Exits with 1
where the mean divergence is over `--most`.
"""

import argparse
import json
import logging
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from octavo import LLM, SamplingParams
from octavo.testing.installed import write_plugin
from octavo_kernels.cpu.isa import Isa, supported_isas
from octavo_kernels.cpu.library import load_library

PAGES = Path(__file__).parent.parent / "docs"
NUM_TEXTS, TEXT_CHARACTERS, TEXT_TOKENS, CUT_EVERY = 20, 600, 128, 8
PLUGIN = """
import octavo
from octavo_models.sampling import Sampler

KEPT = []

class Keeping(Sampler):
    "Takes the likeliest token, and keeps the logits."
    def sample(self, logits, batch):
        KEPT.extend(logits.float().clone())
        return logits.argmax(dim=-1)

@octavo.hookimpl
def octavo_register_samplers(registry):
    registry.register("keeping", Keeping)
"""


def main() -> None:
    """Print a row for each instruction set, and exit with 1 where one is too far off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2", help="name, folder or file")
    parser.add_argument("--most", type=float, default=0.005, help="largest mean divergence in nats that passes")
    parser.add_argument("--json", action="store_true", help="print a JSON object as the last line")
    arguments = parser.parse_args()
    library = load_library()
    assert library is not None, "there is nothing to compare without the library"
    with keeping_plugin() as kept:
        exact = distributions(arguments.model, kept, dtype="float32")
        rows = {
            isa.name.lower(): compare(exact, distributions(arguments.model, kept, dtype="bfloat16", cpu_isa=isa.name.lower()))
            for isa in supported_isas(library)
            if isa is not Isa.PORTABLE
        }
    print(f"{len(exact)} places of {NUM_TEXTS} texts, {arguments.model}, bfloat16 against float32")
    print(f"{'instructions':<14}{'mean KL':>10}{'largest KL':>12}{'same token':>12}")
    for name, row in rows.items():
        print(f"{name:<14}{row['mean_kl']:>10.5f}{row['largest_kl']:>12.5f}{row['same_token']:>12.1%}")
    if arguments.json:
        print(json.dumps({"model": arguments.model, "num_places": len(exact), "instructions": rows}))
    sys.exit(any(row["mean_kl"] > arguments.most for row in rows.values()))


@contextmanager
def keeping_plugin() -> Iterator[list[Tensor]]:
    """A sampler by the name of "keeping"; the logits that it has seen."""
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        module = write_plugin(Path(folder), "keeping", PLUGIN)
        yield import_module(module).KEPT
        sys.path.remove(folder)


def distributions(model: str, kept: list[Tensor], **flags: Any) -> Tensor:
    """Logits of the next token, float32 [places, V]."""
    params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
    with LLM(model, sampler="keeping", max_num_seqs=1, max_model_len=TEXT_CHARACTERS, **flags) as llm:
        texts = [output.prompt_token_ids[:TEXT_TOKENS] for output in llm.generate(list(prose()), params, use_tqdm=False)]
        kept.clear()
        for token_ids in texts:
            for end in range(CUT_EVERY, len(token_ids) + 1, CUT_EVERY):
                llm.generate([token_ids[:end]], params, use_tqdm=False)
        return torch.stack(kept)


def prose() -> Iterator[str]:
    """Pieces of this project's own pages."""
    pages = " ".join(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL) for page in sorted(PAGES.glob("*.md")))
    step = len(pages) // NUM_TEXTS
    for start in range(0, NUM_TEXTS * step, step):
        yield pages[start : start + TEXT_CHARACTERS - 1]


def compare(exact: Tensor, other: Tensor) -> dict[str, float]:
    """KL(exact, other) over all places, and the share with the same likeliest token."""
    divergence = torch.nn.functional.kl_div(other.log_softmax(-1), exact.log_softmax(-1), reduction="none", log_target=True).sum(-1)
    same = (exact.argmax(-1) == other.argmax(-1)).float().mean()
    return {"mean_kl": float(divergence.mean()), "largest_kl": float(divergence.max()), "same_token": float(same)}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main()
