"""The prompts and Transformers' continuations of them, as committed in `tests/data`."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.equality.ties import Continuation

DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One prompt and what the reference continues it with."""

    name: str
    text: str
    token_ids: tuple[int, ...]
    continuation: Continuation

    def first(self, num_tokens: int) -> "Recorded":
        """The same with a shorter continuation."""
        return Recorded(name=self.name, text=self.text, token_ids=self.token_ids, continuation=self.continuation.first(num_tokens))


def load_recorded() -> dict[str, Recorded]:
    """All prompts by name, in the order of the file."""
    prompts = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))
    continuations = json.loads((DATA / "reference.json").read_text(encoding="utf-8"))["continuations"]
    return {
        prompt["name"]: Recorded(
            name=prompt["name"],
            text=prompt["text"],
            token_ids=tuple(prompt["token_ids"]),
            continuation=Continuation(**{key: tuple(values) for key, values in continuations[prompt["name"]].items()}),
        )
        for prompt in prompts
    }
