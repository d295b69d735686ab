"""Draw a summary: ratio against K and against T, switching share, and the ratio above the floor.

Every figure is a PNG and an SVG with two files beside them: the numbers drawn (``.csv``) and the command that
made them (``.txt``). The same numbers make the same bytes, with the same version of matplotlib.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softhit.io import replacing
from softhit_lab.cells import write_csv, write_text
from softhit_lab.summary import INTERVAL, classical, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GREY", "OTHERS", "SETTINGS", "Drawing", "draw", "log_axis", "panels", "save", "spread", "styles"]

Row = Mapping[str, Any]

WIDTH = 8.4
DPI = 110
SETTINGS: dict[Any, Any] = {
    "axes.grid": True,
    "axes.grid.which": "major",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.dpi": DPI,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.alpha": 0.25,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.dpi": DPI,
    "svg.hashsalt": "softhit",
}

# Okabe and Ito's palette: distinct for every common kind of colour blindness, and the markers differ too.
_KNOWN = {
    "solar": ("#D55E00", "o"),
    "fifo": ("#0072B2", "s"),
    "lru": ("#009E73", "^"),
    "marking": ("#CC79A7", "D"),
    "gated_lru": ("#56B4E9", "v"),
    "arc": ("#E69F00", "P"),
    "never": ("#000000", "X"),
}
OTHERS = "others (see csv)"
_SPARE_COLOURS = ("#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#000000", "#0072B2", "#009E73", "#D55E00")
_SPARE_MARKERS = ("P", "v", "D", "X", "<", ">", "p", "*", "h", "d", "8")
_MOST_COLOURS = 8
GREY = "#9A9A9A"


@dataclass(frozen=True)
class Drawing:
    """A figure, the rows that it shows, and the columns of them that matter."""

    name: str
    figure: Figure
    rows: list[Row]
    columns: list[str]


def styles(policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return colour and marker per policy; with many policies those that are not known are thin and grey."""
    result: dict[str, dict[str, Any]] = {}
    many = len(policies) > _MOST_COLOURS
    taken = {_KNOWN[p][0] for p in policies if p in _KNOWN}
    free = [c for c in _SPARE_COLOURS if c not in taken] or [GREY]
    others = 0
    for name in policies:
        if name in _KNOWN:
            colour, marker = _KNOWN[name]
            result[name] = {"color": colour, "marker": marker, "zorder": 3}
        elif many:
            result[name] = {"color": GREY, "marker": "", "linewidth": 0.8, "zorder": 2}
        else:
            marker = _SPARE_MARKERS[others % len(_SPARE_MARKERS)]
            result[name] = {"color": free[others % len(free)], "marker": marker, "zorder": 2}
            others += 1
    return result


def spread(values: Sequence[Any], most: int) -> list[Any]:
    """Return at most ``most`` of the values, first and last included."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    found = dict.fromkeys(row[name] for row in rows)
    return sorted(found, key=Fraction) if name == "switch_cost" else sorted(found)


def _policies(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["policy"]) for row in rows))


def _alike(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[str]]:
    """Group the policies whose values coincide everywhere: one line is drawn for them all.

    The first known one leads, so that its colour and marker are the ones that show.
    """
    known = list(_KNOWN)
    groups: dict[tuple[Any, ...], list[str]] = {}
    for policy in sorted(_policies(rows), key=lambda p: (known.index(p) if p in known else len(known), p)):
        mine = [r for r in rows if r["policy"] == policy]
        values = (tuple(round(r[n], 9) if r[n] is not None else None for n in names) for r in mine)
        groups.setdefault(tuple(values), []).append(policy)
    return {members[0]: members for members in groups.values()}


def _names(members: Sequence[str], style: Mapping[str, Any]) -> str:
    """Name a line in the legend: one policy to a row; thin grey lines share one entry."""
    return OTHERS if style["color"] == GREY else " =\n".join(members)


def _line(axes: Axes, rows: Sequence[Row], x: str, measure: str, style: Mapping[str, Any], name: str) -> None:
    """Draw one policy: a line with intervals where OPT is exact, a band where it is bracketed.

    The line is the upper end of the band; its lower end is dashed, and stands alone where the lower bound of
    OPT is too weak to give an upper end.
    """
    low, high = f"{measure}_low", f"{measure}_high"
    rows = [r for r in rows if r[x] > 0]
    shown = [r for r in rows if r[high] is not None]
    if shown:
        at, top = [r[x] for r in shown], [r[high] for r in shown]
        axes.plot(at, top, label=name, markeredgewidth=0, **style)
    exact = [r for r in shown if r[f"{measure}_t_low"] is not None]
    if exact and style["color"] != GREY:
        below = [max(0.0, r[high] - max(r[f"{measure}_t_low"], 1e-9)) for r in exact]
        above = [max(0.0, r[f"{measure}_t_high"] - r[high]) for r in exact]
        look: dict[str, Any] = {"fmt": "none", "elinewidth": 1, "capsize": 1.5, "alpha": 0.8}
        at, middle = [r[x] for r in exact], [r[high] for r in exact]
        axes.errorbar(at, middle, yerr=[below, above], ecolor=style["color"], **look)
    if all(r[low] == r[high] for r in rows):
        return
    # points whose OPT is exact belong to the band: it has no width there
    band = [r for r in rows if r[low] is not None]
    thin = {"color": style["color"], "linestyle": "--", "linewidth": 0.7, "zorder": 2}
    axes.plot([r[x] for r in band], [r[low] for r in band], **thin)
    band = [r for r in band if r[high] is not None]
    if band:
        at = [r[x] for r in band]
        ends = [r[low] for r in band], [r[high] for r in band]
        axes.fill_between(at, *ends, color=style["color"], alpha=0.12, linewidth=0)


def _references(axes: Axes, rows: Sequence[Row], switch_cost: str, top: float) -> None:
    """Draw 3 and, where the traces are plain requests, H_K and (K+1)(1+lambda); label each where it leaves.

    H_K bounds every online policy from below and (K+1)(1+lambda) is what FIFO and LRU reach, both in the
    worst case of that variant (claims C1, B2).
    """
    low, high = min(r["capacity"] for r in rows), max(r["capacity"] for r in rows)
    n = 60
    at = [low * (high / low) ** (i / n) for i in range(n + 1)]
    ends = {"3": 3.0, "$H_K$": _harmonic(high)}
    close = classical(rows) and abs(math.log(ends["$H_K$"] / ends["3"])) < 0.2
    upper = max(ends, key=lambda name: ends[name])
    curves: list[tuple[str, str, Callable[[float], float]]] = [("3", "--", lambda k: 3.0)]
    if classical(rows):
        lam = float(Fraction(switch_cost))
        curves.append(("$H_K$", ":", _harmonic))
        curves.append((r"$(K{+}1)(1{+}\lambda)$", "-.", lambda k: (k + 1) * (1 + lam)))
    for name, line, curve in curves:
        inside = [k for k in at if curve(k) <= top]
        if not inside:
            continue
        axes.plot(inside, [curve(k) for k in inside], color="#444444", linestyle=line, linewidth=1, zorder=1)
        leaves = inside[-1] < at[-1]
        axes.annotate(
            name,
            (inside[-1], curve(inside[-1])),
            xytext=(4, -2) if leaves else (4, 0),
            textcoords="offset points",
            va="top"
            if leaves or (close and name in ends and name != upper)
            else "bottom"
            if close
            else "center",
            fontsize=8,
            color="#444444",
            annotation_clip=False,
        )


def _harmonic(k: float) -> float:
    """Return H_k, continued smoothly between the integers."""
    return math.log(k) + 0.5772156649015329 + 1 / (2 * k) - 1 / (12 * k * k) + 1 / (120 * k**4)


def _number(value: float, _: Any = None) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:g}" if value < 1000 else f"{value / 1000:.3g}k"


def _log_log(axes: Axes, x_values: Sequence[float], y: bool = True) -> None:
    """Make the axes logarithmic where there is something to show; mark the x values themselves."""
    ticks = [x for x in x_values if x > 0]
    if ticks:
        axes.set_xscale("log")
        log_axis(axes.xaxis, ticks)
    if y and any(np.any(np.asarray(line.get_ydata()) > 0) for line in axes.get_lines()):
        axes.set_yscale("log")
        log_axis(axes.yaxis)


def log_axis(axis: Any, ticks: Sequence[float] | None = None, narrow: bool = False) -> None:
    """Mark a logarithmic axis with plain numbers, the given ones or as many as fit."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    decades = math.log10(high / low) * (2 if narrow else 1)
    fine = (1,) if decades > 4.5 else (1, 2, 5) if decades > 1.7 else (1, 1.5, 2, 3, 4, 5, 7)
    axis.set_major_locator(FixedLocator(list(ticks)) if ticks else LogLocator(10, fine))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_number))


def _facts(rows: Sequence[Row], *more: str) -> str:
    first = rows[0]
    seeds = {r["n_seeds"] for r in rows}
    text = [label(first), *more]
    text.append(f"{min(seeds)} seed{'s' * (min(seeds) > 1)}")
    kinds = sorted({r["opt_kind"] for r in rows})
    text.append("OPT " + " / ".join(kinds).replace("band", "between proved bounds (bands)"))
    k = f"({first['top_k']})" if first["top_k"] > 1 else ""
    text.append(f"{first['order']}/{first['availability']}/{first['fill']}/{first['aggregator']}{k}")
    if any(r["ratio_t_low"] is not None and r["ratio_t_low"] < r["ratio_t_high"] for r in rows):
        text.append(f"bars: {INTERVAL}")
    return ", ".join(text)


def _finish(figure: Figure, rows: Sequence[Row], measures: Sequence[str], *more: str) -> None:
    """Add the legend, ordered like the right ends of the lines, and the facts below."""
    from matplotlib.lines import Line2D

    entries: dict[str, tuple[float, Any]] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            assert isinstance(handle, Line2D)
            height = float(np.asarray(handle.get_ydata())[-1])
            entries.setdefault(name, (height, handle))
    order = sorted(entries, key=lambda name: (name == OTHERS, -entries[name][0], name))
    if order:
        figure.legend([entries[n][1] for n in order], order, loc="outside right upper")
    notes = [_facts(rows, *more)]
    for measure in measures:
        for known, what in (
            (False, _UNDEFINED[measure]),
            (True, "only a lower end: the bound of OPT is weak"),
        ):
            gone = [
                r for r in rows if r[f"{measure}_high"] is None and (r[f"{measure}_low"] is not None) == known
            ]
            places = sorted({(r["capacity"], r["n_steps"]) for r in gone})
            if places:
                text = "; ".join(f"K = {k}, T = {_number(t)}" for k, t in places[:4])
                notes.append(f"{'' if known else 'not drawn, '}{what}: {text}{'; ...' * (len(places) > 4)}")
    figure.supxlabel("\n".join(notes), fontsize=7, color="#555555", x=0.01, ha="left")


_UNDEFINED = {
    "ratio": "OPT = 0",
    "slope": "OPT does not grow in the second half",
    "floor_ratio": "OPT = F",
}


def panels(columns: int, height: float = 3.4, share_y: bool = True) -> tuple[Figure, list[Axes]]:
    """Return a figure of the documents' width with so many pictures side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    grid = figure.subplots(1, columns, sharey=share_y, squeeze=False)
    return figure, list(grid[0])


_AXIS = {
    "ratio": "ALG / OPT",
    "slope": "ALG / OPT, second half of the run",
    "floor_ratio": "(ALG $-$ F) / (OPT $-$ F)",
}


def _against_k(rows: Sequence[Row], measure: str) -> Figure:
    style = styles(_policies(rows))
    costs = _values(rows, "switch_cost")
    alike = _alike(rows, [f"{measure}_high", f"{measure}_low"])
    values = [r[f"{measure}_high"] for r in rows if r[f"{measure}_high"] is not None]
    # the frame belongs to the data; the steep reference may leave it
    bound = _harmonic(max(r["capacity"] for r in rows)) if classical(rows) else 3.0
    top = 1.3 * max([*values, 3.0, bound])
    figure, places = panels(len(costs))
    for axes, lam in zip(places, costs, strict=True):
        here = [r for r in rows if r["switch_cost"] == lam]
        for policy, members in alike.items():
            mine = [r for r in here if r["policy"] == policy]
            _line(axes, mine, "capacity", measure, style[policy], _names(members, style[policy]))
        axes.set(xlabel="capacity K", title=f"$\\lambda$ = {lam}")
        _references(axes, here, lam, top)
        _log_log(axes, spread(_values(here, "capacity"), 9))
    places[0].set_ylabel(_AXIS[measure])
    _finish(figure, rows, [measure], f"T = {_number(rows[0]['n_steps'])}")
    return figure


def _against_t(rows: Sequence[Row]) -> Figure:
    style = styles(_policies(rows))
    capacities = spread(_values(rows, "capacity"), 3)
    alike = _alike(rows, ["ratio_high", "ratio_low", "slope_high"])
    figure, places = panels(len(capacities))
    for axes, k in zip(places, capacities, strict=True):
        here = [r for r in rows if r["capacity"] == k]
        for policy, members in alike.items():
            mine = [r for r in here if r["policy"] == policy]
            _line(axes, mine, "n_steps", "ratio", style[policy], _names(members, style[policy]))
            slopes = [r for r in mine if r["slope_high"] is not None]
            if style[policy]["color"] == GREY:
                continue
            thin = {"linestyle": ":", "linewidth": 1, "color": style[policy]["color"], "alpha": 0.8}
            axes.plot([r["n_steps"] for r in slopes], [r["slope_high"] for r in slopes], **thin)
        axes.set(xlabel="steps T", title=f"K = {k}")
        _log_log(axes, spread(_values(here, "n_steps"), 5))
    places[0].set_ylabel("ALG / OPT  (dotted: second half only)")
    _finish(figure, rows, ["ratio"], f"$\\lambda$ = {rows[0]['switch_cost']}")
    return figure


def _share(rows: Sequence[Row]) -> Figure:
    style = styles(_policies(rows))
    costs = _values(rows, "switch_cost")
    alike = _alike(rows, ["switching_share"])
    figure, places = panels(len(costs), height=3.0)
    for axes, lam in zip(places, costs, strict=True):
        here = [r for r in rows if r["switch_cost"] == lam]
        for policy, members in alike.items():
            mine = [r for r in here if r["policy"] == policy and r["switching_share"] is not None]
            if not mine:
                continue
            axes.plot(
                [r["capacity"] for r in mine],
                [r["switching_share"] for r in mine],
                label=_names(members, style[policy]),
                markeredgewidth=0,
                **style[policy],
            )
        axes.set(xlabel="capacity K", ylim=(-0.02, 1.0), title=f"$\\lambda$ = {lam}")
        _log_log(axes, spread(_values(here, "capacity"), 9), y=False)
    places[0].set_ylabel("switching share $\\lambda S$ / cost")
    _finish(figure, rows, [], f"T = {_number(rows[0]['n_steps'])}")
    return figure


def _beside_floor(rows: Sequence[Row]) -> Figure:
    style = styles(_policies(rows))
    alike = _alike(rows, ["ratio_high", "ratio_low", "floor_ratio_high", "floor_ratio_low"])
    figure, places = panels(2)
    for axes, measure in zip(places, ("ratio", "floor_ratio"), strict=True):
        for policy, members in alike.items():
            mine = [r for r in rows if r["policy"] == policy]
            _line(axes, mine, "capacity", measure, style[policy], _names(members, style[policy]))
        axes.set(xlabel="capacity K", title=_AXIS[measure])
        axes.axhline(3, color="#444444", linestyle="--", linewidth=1, zorder=1)
        _log_log(axes, spread(_values(rows, "capacity"), 9))
    places[0].set_ylabel("ratio to OPT")
    where = (f"T = {_number(rows[0]['n_steps'])}", f"$\\lambda$ = {rows[0]['switch_cost']}")
    _finish(figure, rows, ["ratio", "floor_ratio"], *where)
    return figure


def _by_policy(rows: Sequence[Row]) -> Figure:
    """Draw one line per policy at a single K, T and lambda: ratio, ratio above the floor, switching share."""
    style = styles(_policies(rows))
    ordered = sorted(rows, key=lambda r: (-(r["ratio_high"] or math.inf), r["policy"]))
    figure, places = panels(3, height=1.3 + 0.22 * len(rows))
    for axes, measure in zip(places, ("ratio", "floor_ratio", "switching_share"), strict=True):
        for y, row in enumerate(ordered):
            mark = {"color": style[row["policy"]]["color"], "marker": style[row["policy"]]["marker"]}
            if measure == "switching_share":
                if row[measure] is not None:  # of a cost of 0 there is no share
                    axes.plot(row[measure], y, linestyle="none", **mark)
                continue
            low, high = row[f"{measure}_low"], row[f"{measure}_high"]
            if high is None:
                place: Any = ("axes fraction", "data")
                axes.annotate(_UNDEFINED[measure], (0.05, y), xycoords=place, va="center", fontsize=7.5)
                continue
            ends = (row[f"{measure}_t_low"], row[f"{measure}_t_high"])
            bar = ends if ends[0] is not None else (high if low is None else low, high)
            wide = 1.2 if ends[0] is not None else 5
            axes.plot(bar, [y, y], color=mark["color"], linewidth=wide, alpha=0.5, solid_capstyle="butt")
            axes.plot(high, y, linestyle="none", **mark)
        titles = {**_AXIS, "switching_share": "switching share"}
        axes.set(title=titles[measure], yticks=range(len(ordered)))
        axes.set_yticklabels([r["policy"] for r in ordered])
        axes.grid(axis="y", alpha=0.12)
        if measure == "switching_share":
            axes.set_xlim(-0.03, 1.03)
            continue
        axes.axvline(1, color="#444444", linewidth=0.8)
        axes.set_ylim(-0.6, len(ordered) - 0.4)
        known = [r[f"{measure}_high"] for r in ordered if r[f"{measure}_high"] is not None]
        if known and max(known) > 5:
            axes.set_xscale("log")
            log_axis(axes.xaxis, narrow=True)
    first = rows[0]
    where = (
        f"K = {first['capacity']}",
        f"T = {_number(first['n_steps'])}",
        f"$\\lambda$ = {first['switch_cost']}",
    )
    _finish(figure, rows, ["ratio", "floor_ratio"], *where)
    return figure


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


_SHOWN = ["policy", "capacity", "n_steps", "switch_cost", "n_seeds", "opt_kind", "zero_opt"]


def _ends(*measures: str) -> list[str]:
    ends = ("low", "high", "t_low", "t_high", "min", "max")
    return [f"{m}_{end}" for m in measures for end in ends]


def draw(rows: Sequence[Row]) -> list[Drawing]:
    """Return the figures that a summary can fill, per source: what varies decides.

    Several capacities: ratio and slope against K, switching share, raw beside floor-normalised. Several
    numbers of steps: ratio against T. One of each: one row per policy.
    """
    import matplotlib as mpl

    drawings: list[Drawing] = []

    def add(name: str, shown: Sequence[Row], build: Callable[[Sequence[Row]], Figure], *columns: str) -> None:
        drawings.append(Drawing(_slug(name), build(shown), list(shown), [*_SHOWN, *columns]))

    with mpl.rc_context(SETTINGS):
        for where in dict.fromkeys(label(row) for row in rows):
            mine = [row for row in rows if label(row) == where]
            source = Path(where).stem if mine[0]["file"] else where
            capacities, steps = _values(mine, "capacity"), _values(mine, "n_steps")
            costs = spread(_values(mine, "switch_cost"), 3)
            mine = [r for r in mine if r["switch_cost"] in costs]
            longest = [r for r in mine if r["n_steps"] == steps[-1]]
            if len(capacities) > 1:
                for measure in ("ratio", "slope"):
                    build = partial(_against_k, measure=measure)
                    add(f"{source}-{measure}-vs-K", longest, build, *_ends(measure))
                add(f"{source}-switching-share", longest, _share, "switching_share")
            for lam in costs:
                mark = f"-lambda-{lam}" if len(costs) > 1 else ""
                flat = [r for r in longest if r["switch_cost"] == lam]
                if len(capacities) > 1:
                    add(f"{source}-floor{mark}", flat, _beside_floor, *_ends("ratio", "floor_ratio"))
                else:
                    columns = [*_ends("ratio", "floor_ratio"), "switching_share"]
                    add(f"{source}-policies{mark}", flat, _by_policy, *columns)
                if len(steps) > 1:
                    picked = spread(capacities, 3)
                    some = [r for r in mine if r["switch_cost"] == lam and r["capacity"] in picked]
                    add(f"{source}-ratio-vs-T{mark}", some, _against_t, *_ends("ratio", "slope"))
    return drawings


def save(drawing: Drawing, folder: Path, command: str, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure with its numbers and its command beside it; return the files."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(SETTINGS):
        for kind in formats:
            content = io.BytesIO()
            metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
            drawing.figure.savefig(content, format=kind, metadata=metadata)
            path = folder / f"{drawing.name}.{kind}"
            with replacing(path) as temporary:
                temporary.write_bytes(content.getvalue())
            written.append(path)
    data, text = folder / f"{drawing.name}.csv", folder / f"{drawing.name}.txt"
    write_csv(drawing.rows, data, drawing.columns)
    write_text(f"{command}\n", text)
    return [*written, data, text]
