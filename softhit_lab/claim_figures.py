"""Draw the figure of a claim: lines with intervals, beside the curves that the claim speaks of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softhit_lab.figures import GREY, OTHERS, SETTINGS, Drawing, log_axis, panels, spread, styles
from theory.claim import Figure

__all__ = ["draw_claim"]

_MOST_TICKS = 7
_DASHES = (":", "--", "-.", (0, (5, 1)))


def draw_claim(name: str, figure: Figure, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Return the drawing of a claim's rows; its file name is the claim's id in small letters."""
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        return _draw(name, figure, rows)


def _draw(name: str, figure: Figure, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    key = figure.panel
    panel_values = list(dict.fromkeys(row[key] for row in rows)) if key else [None]
    canvas, places = panels(len(panel_values), height=4.0, share_y=figure.share_y)
    names = list(dict.fromkeys(str(row[figure.by]) for row in rows))
    look = styles(names)
    for axes, value in zip(places, panel_values, strict=True):
        here = [row for row in rows if key is None or row[key] == value]
        for series in names:
            mine = [row for row in here if str(row[figure.by]) == series and row[figure.y] is not None]
            _line(axes, figure, mine, look[series], series)
        axes.set_xlabel(figure.x_label or figure.x)
        if value is not None:
            axes.set_title(f"{figure.panel} = {value}".replace("lambda", "$\\lambda$"))
    for axes in places:
        # the frame belongs to the data; a steep reference leaves it
        alike = places if figure.share_y else [axes]
        bottom, top = (f(each.dataLim.intervaly[i] for each in alike) for i, f in ((0, min), (1, max)))
        margin = (top / bottom) ** 0.05 if figure.y_log else 0.05 * (top - bottom)
        if figure.y_log:
            axes.set_yscale("log")
            axes.set_ylim(bottom / margin, top * margin)
        else:
            axes.set_ylim(bottom - margin, top + margin)
        xs = sorted({float(row[figure.x]) for row in rows})
        if figure.x_log:
            axes.set_xscale("log")
        _references(axes, figure, xs)
        if figure.x_log:
            log_axis(axes.xaxis, spread(xs, _MOST_TICKS))
        if figure.y_log:
            log_axis(axes.yaxis)
    places[0].set_ylabel(figure.y_label or figure.y)
    handles: dict[str, Any] = {}
    for axes in places:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    order = sorted(handles, key=lambda label: label == OTHERS)
    canvas.legend([handles[label] for label in order], order, loc="outside right upper")
    if key is None:
        places[0].set_title(figure.title)
    else:
        canvas.suptitle(figure.title, fontsize=10, x=0.02, ha="left")
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return Drawing(name.lower(), canvas, list(rows), columns)


def _line(axes: Any, figure: Figure, rows: Sequence[Mapping[str, Any]], look: Any, name: str) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda row: float(row[figure.x]))
    x = [float(row[figure.x]) for row in rows]
    y = [float(row[figure.y]) for row in rows]
    plain = look["color"] == GREY
    axes.plot(x, y, label=OTHERS if plain else name, markeredgewidth=0, **look)
    if figure.low and figure.high and not plain:
        low = [max(0.0, v - float(row[figure.low])) for v, row in zip(y, rows, strict=True)]
        high = [max(0.0, float(row[figure.high]) - v) for v, row in zip(y, rows, strict=True)]
        axes.errorbar(x, y, yerr=[low, high], fmt="none", ecolor=look["color"], elinewidth=1, capsize=1.5)


def _references(axes: Any, figure: Figure, at: Sequence[float]) -> None:
    if not at:
        return
    space = np.geomspace if figure.x_log and at[0] > 0 else np.linspace
    grid = space(at[0], at[-1], 121)
    for number, (name, curve) in enumerate(figure.references.items()):
        points = [curve(float(x)) for x in grid]
        dash = _DASHES[number % len(_DASHES)]
        axes.plot(grid, points, color="#444444", linestyle=dash, linewidth=1.1, zorder=4, label=name)
