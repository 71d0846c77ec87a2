from xml.etree import ElementTree

import pytest

from octavo_server.bench.plot import Line, Panel, draw, ticks


@pytest.mark.parametrize(
    ("largest", "last"), [(0, 1), (0.7, 0.8), (1, 1), (6, 6), (7, 8), (99, 100), (101, 120), (5.5e-3, 6e-3), (1234, 1500)]
)
def test_ticks_are_round_and_reach_the_largest(largest: float, last: float) -> None:
    found = ticks(largest)
    assert found[0] == 0
    assert found[-1] == pytest.approx(last)
    assert len(found) <= 8


def test_a_picture_is_xml_with_a_point_a_rate() -> None:
    panel = Panel(
        "a & b",
        "x",
        "y",
        [
            Line("up", [(1.0, 2.0, "1"), (3.0, 4.0, "2")]),
            Line("<flat>", [(1.0, 1.0, "1")]),
        ],
    )
    root = ElementTree.fromstring(draw([panel, Panel("empty", "x", "y", [])], title="t"))
    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == 3
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a & b", "<flat>", "empty", "t"} <= set(texts)
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 < float(circle.attrib["cx"]) < 480
        assert 0 < float(circle.attrib["cy"]) < 360
