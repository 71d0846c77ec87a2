"""Pictures of what `growth.py` measured."""

from html import escape
from typing import Any

from octavo_server.bench.plot import Line, Panel, draw

WIDTH, ROW_HEIGHT, LABEL_WIDTH, TOP = 720, 26, 220, 40
BAR_WIDTH = WIDTH - LABEL_WIDTH - 80


def plot_growth(results: dict[str, Any]) -> str:
    """Step times against batch and context, and the engine's own part against running requests."""
    rows = results["overhead"]
    overhead = [line("step", rows, "requests", "step_ms"), line("engine", rows, "requests", "overhead_ms")]
    panels = [
        Panel("A decode step against requests", "requests", "ms a step", step_lines(results["batch"], "requests")),
        Panel(
            "A decode step of one request against its context", "tokens of context", "ms a step", step_lines(results["context"], "context")
        ),
        Panel("A decode step of a tiny model", "running requests", "ms a step", overhead),
    ]
    return draw(panels, title=f"{results['model']}, {results['dtype']}")


def step_lines(rows: list[dict[str, float]], x: str) -> list[Line]:
    return [line("wall", rows, x, "wall_ms"), line("processor", rows, x, "processor_ms")]


def line(name: str, rows: list[dict[str, float]], x: str, y: str) -> Line:
    """Points with their values, where they are far enough apart to be read."""
    farthest = max(row[x] for row in rows)
    return Line(name, [(row[x], row[y], f"{row[y]:.3g}" if row[x] >= farthest / 4 else "") for row in rows])


def plot_start_up(results: dict[str, Any]) -> str:
    """Seconds of each phase, one bar each in their order."""
    phases = results["startup_s"]
    longest, total = max(phases.values()), phases["ready"] + phases["first token"]
    height = TOP + ROW_HEIGHT * len(phases) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12" fill="#222">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle">{escape(results["model"])}: first token after {total:.1f} s</text>',
    ]
    for number, (name, seconds) in enumerate(phases.items()):
        y, width = TOP + ROW_HEIGHT * number, seconds / longest * BAR_WIDTH
        parts += [
            f'<text x="{LABEL_WIDTH - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LABEL_WIDTH}" y="{y + 2}" width="{max(width, 1):.1f}" height="{ROW_HEIGHT - 8}" fill="#1f5fa8"/>',
            f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{y + 15}">{seconds:.2f} s</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
