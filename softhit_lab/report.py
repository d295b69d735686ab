"""Write ``report.md``: what was measured, by which command, against which optimum, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softhit import Variant
from softhit_lab.cells import write_text
from softhit_lab.summary import INTERVAL
from softhit_lab.tables import Sheet

__all__ = ["Part", "write_report"]

_KINDS = {
    "exact": "the optimum, proved",
    "exact (solver)": "the optimum, if the bound of a solver's branch and bound is believed",
    "band": "between a proved lower bound and the cost of a schedule; ratios are bands a..b",
}


@dataclass(frozen=True)
class Part:
    """One sweep of the report: its command, summary, tables, figures, and sentences about them."""

    name: str
    about: str
    command: str
    rows: Sequence[Mapping[str, Any]]
    sheets: Sequence[Sheet]
    figures: Sequence[Path]
    notes: Sequence[str]


def write_report(folder: Path, parts: Sequence[Part], variant: Variant) -> Path:
    """Write ``report.md`` into ``folder`` and return its path; it holds no time, so that reruns are equal."""
    kinds = sorted({row["opt_kind"] for part in parts for row in part.rows})
    text = [
        "# Policies against the optimum",
        "",
        f"Variant: `{variant.label}`. Every cost is an exact integer over a scale; `cells.parquet` in each "
        "folder has them, `manifest.json` the versions and the time.",
        "",
        "* **ALG/OPT**: sum of costs over seeds / sum of optima; ±: half of the "
        f"{INTERVAL} (of a ratio of sums: Cochran 1977).",
        "* **slope**: the same for the second half of the run only; what a constant cannot hide in.",
        "* **above F**: (ALG - F) / (OPT - F), F = what even a cache that keeps everything pays.",
        "* **switching**: the share of the cost that is switching.",
        "* **Lines in figures**: dashed, 3; on paging also dotted, H_K, below which no online policy stays "
        "on every sequence, and dash-dotted, (K+1)(1+lambda), the worst case of FIFO and LRU.",
        "* **OPT**: " + "; ".join(f"*{kind}*: {_KINDS.get(kind, kind)}" for kind in kinds) + ".",
        "",
    ]
    for part in parts:
        text += [f"## {part.name}", "", part.about, "", "```", part.command, "```", ""]
        text += ["What to look at:", "", *(f"* {note}" for note in part.notes), ""] if part.notes else []
        text += [sheet.markdown() for sheet in part.sheets]
        for figure in part.figures:
            text += [f"![{figure.stem}]({figure.relative_to(folder).as_posix()})", ""]
    path = folder / "report.md"
    write_text("\n".join(text), path)
    return path
