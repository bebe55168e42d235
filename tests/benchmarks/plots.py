"""Draws what the report left in plots.json: ``python -m benchmarks.plots DIRECTORY``.

Run in an environment of its own, the dependency group ``bench``, so that nothing else needs it.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_STEEP = 50


def draw(directory: Path) -> None:
    """Draw every plot as a PNG beside the report."""
    import_module("matplotlib").use("Agg")
    pyplot: Any = import_module("matplotlib.pyplot")
    for plot in json.loads((directory / "plots.json").read_text(encoding="utf-8")):
        figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=110)
        if plot["kind"] == "bars":
            _draw_bars(axes, plot)
        else:
            _draw_lines(axes, plot)
        axes.set_title(plot["title"], fontsize=10)
        figure.tight_layout()
        figure.savefig(directory / plot["file"])
        pyplot.close(figure)


def _draw_bars(axes: Any, plot: dict[str, Any]) -> None:
    names, values = list(plot["bars"]), list(plot["bars"].values())
    drawn = axes.barh(names[::-1], values[::-1])
    axes.bar_label(drawn, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set_xlabel(plot["x"])
    axes.margins(x=0.15)
    if min(values) > 0 and max(values) / min(values) > _STEEP:
        axes.set_xscale("log")


def _draw_lines(axes: Any, plot: dict[str, Any]) -> None:
    for name, points in plot["lines"].items():
        axes.plot(*zip(*points, strict=True), label=name, linewidth=1.4)
    spread = [x for points in plot["lines"].values() for x, _ in points]
    if min(spread) > 0 and max(spread) / min(spread) > _STEEP:
        axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(plot["x"])
    axes.set_ylabel(plot["y"])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
