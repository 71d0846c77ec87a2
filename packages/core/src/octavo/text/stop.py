"""Stop strings in text that comes in parts."""

from collections.abc import Sequence
from typing import NamedTuple


class StopResult(NamedTuple):
    """What one part brought: text that may be shown, and the stop string that ended it, if one did."""

    text: str
    stop: str | None = None


class StopMatcher:
    """Finds the stop string that is completed first, however the text is cut into parts.

    Of two that are completed by the same character the longer one counts. Text that may turn out to be the start of a stop
    string is held back until that is settled, so nothing of a stop string is ever shown.

    Every stop string is followed by a Knuth-Morris-Pratt automaton (Knuth, Morris and Pratt 1977), whose state is the number
    of its characters that the text ends with: what must be held back is the largest state.

    Args:
        stops: strings, none empty.
        include: show the stop string that ended the text.
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        assert all(stops), "an empty stop string is refused before this"
        self._automata = [_Automaton(stop) for stop in dict.fromkeys(stops)]
        self._include = include
        self._held = ""
        self._stop: str | None = None

    def feed(self, text: str, active: bool = True) -> StopResult:
        """Take the next part of the text.

        Args:
            text: what is new.
            active: whether a stop string that is completed in this part ends the text; off before `min_tokens`. One that
                begins in a part that is not active and is completed in one that is counts.

        Returns:
            Text that no later part can take back, and the stop string that ended it; after that nothing may be fed.
        """
        assert self._stop is None, "fed after a stop string ended the text"
        if not self._automata:
            return StopResult(text)
        matches = [(end, automaton) for automaton in self._automata if (end := automaton.advance(text, active)) is not None]
        if matches:
            return self._ended(text, *min(matches, key=lambda match: (match[0], -len(match[1].stop))))
        whole = self._held + text
        held = 0 if self._include else max(automaton.state for automaton in self._automata)
        shown = len(whole) - held
        self._held = whole[shown:]
        return StopResult(whole[:shown])

    def finish(self) -> str:
        """The text that is still held back, when no more comes; nothing where a stop string ended it."""
        held, self._held = self._held, ""
        return held

    def _ended(self, text: str, end: int, automaton: "_Automaton") -> StopResult:
        self._stop = automaton.stop
        shown = len(self._held) + end - (0 if self._include else len(automaton.stop))
        whole = self._held + text
        self._held = ""
        return StopResult(whole[:shown], automaton.stop)


class _Automaton:
    """Where a text stands with one stop string.

    Attributes:
        stop: the string.
        state: how many of its first characters the text ends with; below its length.
    """

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.state = 0
        self._borders = _borders(stop)

    def advance(self, text: str, active: bool) -> int | None:
        """Read a part of the text; where the stop string is completed and counts, return the length of text up to its end."""
        stop, borders, state = self.stop, self._borders, self.state
        position = 0
        while position < len(text):
            if state == 0:
                position = text.find(stop[0], position)
                if position < 0:
                    break
            while state and text[position] != stop[state]:
                state = borders[state - 1]
            if text[position] == stop[state]:
                state += 1
            position += 1
            if state == len(stop):
                if active:
                    return position
                state = borders[-1]
        self.state = state
        return None


def _borders(text: str) -> list[int]:
    """For each prefix the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(text)
    length = 0
    for position in range(1, len(text)):
        while length and text[position] != text[length]:
            length = borders[length - 1]
        if text[position] == text[length]:
            length += 1
        borders[position] = length
    return borders
