"""`docs/metrics.md` describes exactly what is exported."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(octavo:\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)


def test_every_metric_is_described_with_its_type_and_labels(exported: Any) -> None:
    described = {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in ROW.findall(PAGE.read_text())}
    assert described == {name: (kind, exported.labels[name]) for name, kind in exported.types.items()}


def test_no_metric_is_described_twice() -> None:
    names = [name for name, _, _ in ROW.findall(PAGE.read_text())]
    assert len(names) == len(set(names))


def test_every_name_in_the_text_is_one_of_them(exported: Any) -> None:
    _, _, text = PAGE.read_text().partition("## What adds up")
    names = {f"octavo:{name}" for name in re.findall(r"`(\w+_\w+)`", text)}
    assert names
    assert names <= set(exported.types) | set(exported.sample_labels)
