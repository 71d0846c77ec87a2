"""Hands the engine's outputs to the prompts they belong to."""

from collections.abc import Iterable
from dataclasses import dataclass

from octavo.engine.messages import EngineOutput
from octavo.output.group import RequestGroup


@dataclass(frozen=True, kw_only=True)
class Processed:
    """What came of a step's outputs.

    Attributes:
        changed: groups that gained something, each once, in the order of the outputs.
        stopped: requests that a stop string ended, and the output tokens they keep; the engine has to be told.
    """

    changed: list[RequestGroup]
    stopped: list[tuple[str, int]]


class OutputProcessor:
    """Knows which group every request under way belongs to."""

    def __init__(self) -> None:
        self._homes: dict[str, tuple[RequestGroup, int]] = {}

    def add(self, group: RequestGroup) -> None:
        """Expect outputs of a group's requests."""
        for choice in group.choices:
            self._homes[choice.request_id] = (group, choice.index)

    def forget(self, group: RequestGroup) -> list[str]:
        """Expect nothing more of a group; the ids of its requests that had not finished."""
        return [choice.request_id for choice in group.choices if self._homes.pop(choice.request_id, None) and not choice.finished]

    def expects(self, group: RequestGroup) -> bool:
        """Whether the engine has yet to say how a request of a group ended, of those that met a stop string too."""
        return any(choice.request_id in self._homes for choice in group.choices)

    def process(self, outputs: Iterable[EngineOutput]) -> Processed:
        """Add a step's outputs to their groups. Outputs of requests that nobody expects (aborted ones) are dropped."""
        changed: dict[str, RequestGroup] = {}
        stopped: list[tuple[str, int]] = []
        for output in outputs:
            home = self._homes.get(output.request_id)
            if home is None:
                continue
            group, index = home
            if group.take(index, output):
                stopped.append((output.request_id, len(group.choices[index].token_ids)))
            if output.finish_reason is not None:
                del self._homes[output.request_id]
            changed[group.request_id] = group
        return Processed(changed=list(changed.values()), stopped=stopped)
