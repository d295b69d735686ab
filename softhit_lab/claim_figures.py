"""Draw the figure of a claim: lines with intervals, beside the curves that the claim speaks of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softhit_lab.figures import Drawing, panels, styles
from theory.claim import Figure

__all__ = ["draw_claim"]

_DASHES = (":", "--", "-.", (0, (5, 1)))


def draw_claim(name: str, figure: Figure, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Return the drawing of a claim's rows; its file name is the claim's id in small letters."""
    key = figure.panel
    panel_values = list(dict.fromkeys(row[key] for row in rows)) if key else [None]
    canvas, places = panels(len(panel_values), share_y=True)
    names = list(dict.fromkeys(str(row[figure.by]) for row in rows))
    look = styles(names)
    for axes, value in zip(places, panel_values, strict=True):
        here = [row for row in rows if key is None or row[key] == value]
        for series in names:
            mine = [row for row in here if str(row[figure.by]) == series and row[figure.y] is not None]
            _line(axes, figure, mine, look[series], series)
        _references(axes, figure, [row[figure.x] for row in here])
        axes.set_xlabel(figure.x_label or figure.x)
        if value is not None:
            axes.set_title(f"{figure.panel} = {value}".replace("lambda", "$\\lambda$"))
        if figure.x_log:
            axes.set_xscale("log")
        if figure.y_log:
            axes.set_yscale("log")
    places[0].set_ylabel(figure.y_label or figure.y)
    handles: dict[str, Any] = {}
    for axes in places:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    canvas.legend(list(handles.values()), list(handles), loc="outside right upper")
    canvas.suptitle(figure.title, fontsize=10)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Drawing(name.lower(), canvas, list(rows), columns)


def _line(axes: Any, figure: Figure, rows: Sequence[Mapping[str, Any]], look: Any, name: str) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda row: float(row[figure.x]))
    x = [float(row[figure.x]) for row in rows]
    y = [float(row[figure.y]) for row in rows]
    axes.plot(x, y, label=name, markeredgewidth=0, **look)
    if figure.low and figure.high:
        low = [max(0.0, v - float(row[figure.low])) for v, row in zip(y, rows, strict=True)]
        high = [max(0.0, float(row[figure.high]) - v) for v, row in zip(y, rows, strict=True)]
        axes.errorbar(x, y, yerr=[low, high], fmt="none", ecolor=look["color"], elinewidth=1, capsize=1.5)


def _references(axes: Any, figure: Figure, values: Sequence[Any]) -> None:
    at = [float(value) for value in values]
    if not at or not figure.references:
        return
    low, high = min(at), max(at)
    space = np.geomspace if figure.x_log and low > 0 else np.linspace
    grid = space(low, high, 121)
    bottom, top = axes.get_ylim()
    for number, (name, curve) in enumerate(figure.references.items()):
        points = [curve(float(x)) for x in grid]
        dash = _DASHES[number % len(_DASHES)]
        axes.plot(grid, points, color="#444444", linestyle=dash, linewidth=1.1, zorder=1, label=name)
        finite = [p for p in points if math.isfinite(p)]
        # a steep reference leaves the frame, which belongs to the data
        if finite and max(finite) <= 2 * top:
            bottom, top = min(bottom, min(finite)), max(top, 1.03 * max(finite))
    axes.set_ylim(bottom, top)
