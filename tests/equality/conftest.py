"""Fixtures of the comparison with Transformers, and the table that it prints at the end."""

from collections.abc import Callable

import pytest

from tests.equality.play import Outcome
from tests.equality.recorded import Recorded, load_recorded

ROWS = pytest.StashKey[list[tuple[str, Outcome]]]()
QUICK_NAMES = ("story-33", "languages-520", "languages-15", "workshop-17", "story-16", "dialogue-43", "workshop-65", "story-1")
CROWD_NAMES = ("story-1", "languages-2", "languages-5", "languages-8", "languages-15", "story-16", "workshop-17", "lists-31")
QUICK_TOKENS, CROWD_TOKENS = 16, 24


@pytest.fixture(scope="session")
def recorded() -> list[Recorded]:
    """All prompts with 64 tokens of the reference."""
    return list(load_recorded().values())


@pytest.fixture(scope="session")
def quick(recorded: list[Recorded]) -> list[Recorded]:
    """Eight prompts, one of them longer than 512 tokens, with 16 tokens of the reference."""
    by_name = {one.name: one for one in recorded}
    return [by_name[name].first(QUICK_TOKENS) for name in QUICK_NAMES]


@pytest.fixture(scope="session")
def crowd(recorded: list[Recorded]) -> list[Recorded]:
    """Eight short prompts with 24 tokens of the reference: they outgrow a small pool together, again and again."""
    by_name = {one.name: one for one in recorded}
    return [by_name[name].first(CROWD_TOKENS) for name in CROWD_NAMES]


@pytest.fixture
def report(pytestconfig: pytest.Config) -> Callable[[str, Outcome], None]:
    """Adds a row to the table."""
    rows = pytestconfig.stash.setdefault(ROWS, [])
    return lambda name, outcome: rows.append((name, outcome))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("same tokens as Transformers")
    width = max(len(name) for name, _ in rows)
    terminalreporter.line(f"{'setting':{width}}  {'equal':>7}  {'ties':>4}  {'preemptions':>11}  {'cached tokens':>13}")
    for name, outcome in rows:
        agreement = outcome.agreement
        equal = f"{agreement.num_equal}/{agreement.num_prompts}"
        cached = sum(outcome.cached.values())
        terminalreporter.line(f"{name:{width}}  {equal:>7}  {len(agreement.ties):>4}  {outcome.preemptions:>11}  {cached:>13}")
    for name, outcome in rows:
        for difference in outcome.agreement.ties + outcome.agreement.faults:
            terminalreporter.line(f"{name}: {difference}")
