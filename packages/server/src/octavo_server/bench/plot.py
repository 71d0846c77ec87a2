"""A picture of a sweep, as SVG.

Written by hand: a plotting library would bring tens of megabytes and a dozen packages for two sets of axes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from octavo_server.bench.result import BenchmarkResult

_WIDTH, _HEIGHT, _MARGIN_LEFT, _MARGIN_TOP, _MARGIN_BOTTOM = 480, 360, 70, 50, 60
_PLOT_WIDTH, _PLOT_HEIGHT = _WIDTH - _MARGIN_LEFT - 30, _HEIGHT - _MARGIN_TOP - _MARGIN_BOTTOM
_COLORS = ("#1f5fa8", "#c2571a")
_MAX_TICKS = 6


@dataclass(frozen=True)
class Line:
    """Points of one measure, each with the rate it stands for."""

    name: str
    points: list[tuple[float, float, str]]


@dataclass(frozen=True)
class Panel:
    """One set of axes, both from 0."""

    title: str
    x_label: str
    y_label: str
    lines: list[Line]


def plot_sweep(results: Sequence[BenchmarkResult]) -> str:
    """Requests and goodput against p99 time to first token, and output tokens against mean time per output token."""
    requests = [_line("requests/s", results, _ttft, lambda item: item.request_throughput)]
    if any(item.goodput is not None for item in results):
        requests.append(_line("goodput", results, _ttft, lambda item: item.goodput))
    tokens = [_line("output tokens/s", results, _tpot, lambda item: item.output_throughput)]
    return draw(
        [
            Panel("Requests against time to first token", "TTFT p99 (ms)", "requests/s", requests),
            Panel("Tokens against time per output token", "TPOT mean (ms)", "output tokens/s", tokens),
        ],
        title=f"{results[0].model}, {results[0].config.url}",
    )


def draw(panels: Sequence[Panel], *, title: str) -> str:
    """Panels side by side."""
    width = _WIDTH * len(panels)
    size = f'width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#222">',
        f'<rect width="{width}" height="{_HEIGHT}" fill="#fff"/>',
        _text(width / 2, 18, title, size=13),
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({number * _WIDTH} 0)">', *_draw_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def ticks(largest: float) -> list[float]:
    """Round values from 0 to one that is not below the largest, at most `_MAX_TICKS` steps."""
    if not largest > 0:
        return [0.0, 1.0]
    rough = largest / _MAX_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [number * step for number in range(math.ceil(largest / step - 1e-9) + 1)]


def _ttft(result: BenchmarkResult) -> float | None:
    return None if result.ttft is None else result.ttft.p99


def _tpot(result: BenchmarkResult) -> float | None:
    return None if result.tpot is None else result.tpot.mean


def _line(
    name: str,
    results: Sequence[BenchmarkResult],
    latency: Callable[[BenchmarkResult], float | None],
    value: Callable[[BenchmarkResult], float | None],
) -> Line:
    points = []
    for item in results:
        x, y = latency(item), value(item)
        if x is not None and y is not None:
            points.append((x * 1e3, y, f"{item.config.request_rate:g}"))
    return Line(name, points)


def _draw_panel(panel: Panel) -> list[str]:
    points = [point for line in panel.lines for point in line.points]
    x_ticks = ticks(max((x for x, _, _ in points), default=0.0))
    y_ticks = ticks(max((y for _, y, _ in points), default=0.0))

    def x_of(value: float) -> float:
        return _MARGIN_LEFT + value / x_ticks[-1] * _PLOT_WIDTH

    def y_of(value: float) -> float:
        return _MARGIN_TOP + (1 - value / y_ticks[-1]) * _PLOT_HEIGHT

    bottom, right, middle = _MARGIN_TOP + _PLOT_HEIGHT, _MARGIN_LEFT + _PLOT_WIDTH, _MARGIN_TOP + _PLOT_HEIGHT / 2
    parts = [_text(_MARGIN_LEFT + _PLOT_WIDTH / 2, 40, panel.title)]
    for value in x_ticks:
        parts += [_rule(x_of(value), _MARGIN_TOP, x_of(value), bottom), _text(x_of(value), bottom + 18, f"{value:,g}")]
    for value in y_ticks:
        parts += [
            _rule(_MARGIN_LEFT, y_of(value), right, y_of(value)),
            _text(_MARGIN_LEFT - 8, y_of(value) + 4, f"{value:,g}", anchor="end"),
        ]
    parts.append(_text(_MARGIN_LEFT + _PLOT_WIDTH / 2, bottom + 40, panel.x_label))
    parts.append(f'<g transform="translate(18 {middle}) rotate(-90)">{_text(0, 0, panel.y_label)}</g>')
    for number, line in enumerate(panel.lines):
        parts += _draw_line(line, _COLORS[number], x_of, y_of)
        parts.append(_text(right - 8, bottom - 10 - 16 * number, line.name, anchor="end", color=_COLORS[number]))
    return parts


def _draw_line(line: Line, color: str, x_of: Callable[[float], float], y_of: Callable[[float], float]) -> list[str]:
    path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y, _ in line.points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>']
    for x, y, label in line.points:
        parts.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill="{color}"/>')
        parts.append(_text(x_of(x), y_of(y) - 8, label, color=color, size=11))
    return parts


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "middle", color: str = "#222", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{escape(text)}</text>'
