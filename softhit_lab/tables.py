"""Summaries as tables, for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from softhit_lab.cells import is_exact
from softhit_lab.summary import INTERVAL, label

__all__ = ["Sheet", "sheets", "show_measure"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Sheet:
    """A small table: a title, a head, rows of text, and a note under it.

    The first column is text and set to the left, the others to the right.
    """

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""

    def show(self, console: Console, left: bool = False) -> None:
        """Print the table on a terminal; ``left`` sets every column to the left and folds long ones.

        Where the terminal is too narrow the widths of intervals are left out.
        """
        table = self._table(self.rows, left)
        note = self.note
        wide = console.options.update(width=10_000)
        if not left and console.measure(table, options=wide).maximum > console.width:
            table = self._table([tuple(cell.partition(" ±")[0] for cell in row) for row in self.rows], left)
            note = "; ".join(part for part in note.split("; ") if "±" not in part)
        console.print(self.title, style="bold", markup=False, soft_wrap=True)
        console.print(table)
        if note:
            console.print(note, style="dim", markup=False, soft_wrap=True)

    def _table(self, rows: Sequence[tuple[str, ...]], left: bool) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number, name in enumerate(self.head):
            if left:
                table.add_column(name, overflow="fold")
            else:
                table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in rows:
            # cells are text, not markup: [low, high] is an interval
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rule = ("---", *("--:" for _ in self.head[1:]))
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.head, rule, *self.rows)]
        text = [f"**{self.title}**", "", *lines]
        return "\n".join([*text, *(["", self.note] if self.note else [])]) + "\n"


def show_measure(row: Row, measure: str) -> str:
    """Show a measure: ``2.13 ±0.04``, ``1.20..1.31`` for a band, or why there is none.

    >>> show_measure({"ratio_low": 2.0, "ratio_high": 2.0, "ratio_t_low": 1.9, "ratio_t_high": 2.1}, "ratio")
    '2.000 ±0.100'
    """
    low, high = row[f"{measure}_low"], row[f"{measure}_high"]
    if high is None:
        if low is not None:
            return f">= {low:.3f}"
        return "OPT = 0" if row["zero_opt"] and measure == "ratio" else "-"
    if low is not None and f"{low:.3f}" != f"{high:.3f}":
        return f"{low:.3f}..{high:.3f}"
    text = f"<= {high:.3f}" if low is None else f"{high:.3f}"
    if row[f"{measure}_t_low"] is not None:
        half = (row[f"{measure}_t_high"] - row[f"{measure}_t_low"]) / 2
        text += f" ±{half:.3f}" if half >= 0.0005 else ""
    return text


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _best_first(rows: Sequence[Row], measure: str) -> list[Row]:
    worst = float("inf")
    return sorted(rows, key=lambda r: (r[f"{measure}_high"] or worst, r["cost"], r["policy"]))


def _one(rows: Sequence[Row], title: str) -> Sheet:
    """Return everything about one K, T and lambda: one line per policy."""
    head = ("policy", "cost", "hits", "switching", "ALG/OPT", "slope", "above F", "worst seed")
    lines = [
        (
            row["policy"] + (" *" if row["clairvoyant"] else ""),
            f"{row['cost']:.6g}",
            _percent(row["hit_ratio"]),
            _percent(row["switching_share"]),
            show_measure(row, "ratio"),
            show_measure(row, "slope"),
            show_measure(row, "floor_ratio"),
            "-" if row["ratio_max"] is None else f"{row['ratio_max']:.3f}",
        )
        for row in _best_first(rows, "ratio")
    ]
    return Sheet(title, head, lines, _note(rows))


def _note(rows: Sequence[Row]) -> str:
    kinds = sorted({row["opt_kind"] for row in rows})
    seeds = max(row["n_seeds"] for row in rows)
    text = [f"OPT: {', '.join(kinds)}; {seeds} seed{'s' if seeds > 1 else ''}"]
    if len({(row["capacity"], row["n_steps"]) for row in rows}) == 1 and rows[0]["opt"] is not None:
        first = rows[0]
        exact = is_exact(first["opt_kind"])
        value = f"{first['opt']:.6g}" if exact else f"{first['opt_lower']:.6g}..{first['opt']:.6g}"
        text.append(f"mean OPT = {value}, floor F = {first['floor']:.6g}")
    if any(row["ratio_t_low"] is not None and row["n_seeds"] > 1 for row in rows):
        text.append("±: half of the " + INTERVAL)
    if any(not is_exact(kind) for kind in kinds):
        text.append("a..b: against the proved upper and lower bound of OPT")
    zero = sorted({row["capacity"] for row in rows if row["zero_opt"]})
    if zero:
        text.append(f"OPT = 0 in some cells at K = {', '.join(map(str, zero))}")
    if any(row["clairvoyant"] for row in rows):
        text.append("*: knows the future")
    return "; ".join(text)


def _across(rows: Sequence[Row], title: str, axis: str, measure: str) -> Sheet:
    """Return one measure: a line per policy, a column per value of ``axis``."""
    values = sorted({row[axis] for row in rows})
    lines = []
    last = [row for row in rows if row[axis] == values[-1]]
    for policy in [row["policy"] for row in _best_first(last, measure)]:
        mine = {row[axis]: row for row in rows if row["policy"] == policy}
        star = " *" if next(iter(mine.values()))["clairvoyant"] else ""
        lines.append((policy + star, *(show_measure(mine[v], measure) if v in mine else "-" for v in values)))
    name = {"capacity": "K", "n_steps": "T"}[axis]
    return Sheet(title, ("policy", *(f"{name} = {v}" for v in values)), lines, _note(rows))


def sheets(rows: Sequence[Row], measure: str = "ratio") -> list[Sheet]:
    """Return the tables of a summary: per source and lambda, against K and against T where they vary."""
    result = []
    for source in dict.fromkeys(label(row) for row in rows):
        mine = [row for row in rows if label(row) == source]
        for lam in sorted({row["switch_cost"] for row in mine}, key=Fraction):
            here = [row for row in mine if row["switch_cost"] == lam]
            capacities = sorted({row["capacity"] for row in here})
            steps = sorted({row["n_steps"] for row in here})
            longest = [row for row in here if row["n_steps"] == steps[-1]]
            where = f"{source}, lambda = {lam}"
            if len(capacities) == 1:
                result.append(_one(longest, f"{where}, K = {capacities[0]}, T = {steps[-1]}"))
            else:
                result.append(_across(longest, f"{where}, T = {steps[-1]}: ALG/OPT", "capacity", measure))
            if len(steps) > 1:
                middle = capacities[len(capacities) // 2]
                some = [row for row in here if row["capacity"] == middle]
                result.append(_across(some, f"{where}, K = {middle}: ALG/OPT", "n_steps", measure))
    return result
