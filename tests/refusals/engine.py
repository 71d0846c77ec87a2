"""What the tests of refusals run, and what has to be left of it afterwards."""

from dataclasses import dataclass
from typing import Any

from octavo import LLM, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
PROMPT = [5, 6, 7]
FLAGS: dict[str, Any] = {"max_model_len": 128, "num_blocks": 12, "max_num_seqs": 4, "max_num_batched_tokens": 32}


@dataclass(frozen=True)
class Finished:
    """What a command line left."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what is wrong; nothing was answered."""
        lines = [line for line in self.err.splitlines() if line.startswith("octavo: error: ")]
        assert (len(lines), self.out) == (1, ""), self
        assert "Traceback" not in self.err
        return lines[0]


@dataclass(frozen=True)
class Survivor:
    """An engine, and what it answered when it was new."""

    llm: LLM
    answer: list[int]

    def check(self) -> None:
        """Every block is free, and the answer is the same."""
        stats = self.llm.stats()
        assert (stats.running, stats.waiting, stats.kv_usage) == (0, 0, 0)
        assert answer(self.llm) == self.answer


def answer(llm: LLM) -> list[int]:
    """Greedy tokens after a fixed prompt."""
    (output,) = llm.generate([PROMPT], GREEDY, use_tqdm=False)
    return output.outputs[0].token_ids
