import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.text.stop import StopMatcher


def run(parts: list[tuple[str, bool]], stops: list[str], *, include: bool = False) -> tuple[list[str], str | None]:
    """Deltas, and the stop string that ended them."""
    matcher = StopMatcher(stops, include=include)
    deltas = []
    for text, active in parts:
        result = matcher.feed(text, active)
        deltas.append(result.text)
        if result.stop is not None:
            return deltas, result.stop
    return [*deltas, matcher.finish()], None


def naive(parts: list[tuple[str, bool]], stops: list[str], include: bool) -> tuple[str, str | None]:
    """The definition: of all occurrences that end in an active part the one that ends first, the longest of those."""
    text = "".join(part for part, _ in parts)
    active = [flag for part, flag in parts for _ in part]
    found = [
        (start + len(stop), start, stop)
        for stop in stops
        for start in range(len(text) - len(stop) + 1)
        if text.startswith(stop, start) and active[start + len(stop) - 1]
    ]
    if not found:
        return text, None
    end, start, stop = min(found)
    return text[: end if include else start], stop


LETTERS = st.text(alphabet="ab", max_size=6)


@settings(deadline=None)
@given(
    parts=st.lists(st.tuples(LETTERS, st.booleans()), max_size=10),
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4),
    include=st.booleans(),
)
def test_any_parts_and_stops_agree_with_a_search_of_the_whole(parts: list[tuple[str, bool]], stops: list[str], include: bool) -> None:
    deltas, stop = run(parts, stops, include=include)
    assert ("".join(deltas), stop) == naive(parts, stops, include)


@settings(deadline=None)
@given(text=LETTERS, stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=3))
def test_nothing_is_held_back_without_need(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    shown = matcher.feed(text, active=False).text
    held = max((k for stop in stops for k in range(len(stop)) if text.endswith(stop[:k])), default=0)
    assert shown == text[: len(text) - held]


def active(*parts: str) -> list[tuple[str, bool]]:
    return [(part, True) for part in parts]


def test_a_stop_string_over_many_parts_never_leaks() -> None:
    assert run(active("ABC", "DEF", "G", "HI", "J", "zz"), ["DEFGHIJ"]) == (["ABC", "", "", "", ""], "DEFGHIJ")
    deltas, stop = run(active("ABC", "DEF", "G", "HI", "J", "zz"), ["DEFGHIJ"], include=True)
    assert ("".join(deltas), stop) == ("ABCDEFGHIJ", "DEFGHIJ")


def test_a_start_that_comes_to_nothing_is_shown_after_all() -> None:
    assert run(active("abST", "Oc"), ["STOP"]) == (["ab", "STOc", ""], None)
    assert run(active("abST"), ["STOP"]) == (["ab", "ST"], None)


def test_a_stop_inside_a_part_cuts_inside_it() -> None:
    assert run(active("one.two"), ["."]) == (["one"], ".")


def test_what_is_completed_first_wins() -> None:
    assert run(active("xaby"), ["y", "ab"]) == (["x"], "ab")
    assert run(active("xab"), ["b", "ab"]) == (["x"], "ab")


def test_what_is_completed_before_the_minimum_does_not_count() -> None:
    assert run([("a.b", False), ("c.d", True)], ["."]) == (["a.b", "c"], ".")
    assert run([("xST", False), ("OP", True)], ["STOP"]) == (["x", ""], "STOP")


def test_without_stop_strings_everything_passes() -> None:
    assert run(active("a", "b"), []) == (["a", "b", ""], None)


def test_empty_stop_strings_are_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        StopMatcher([""])
