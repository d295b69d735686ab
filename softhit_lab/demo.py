"""A first run: two families and a real text against the optimum, with tables, figures and a report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from softhit import Variant
from softhit.errors import InvalidInput
from softhit.io import write_trace
from softhit_lab import verbs
from softhit_lab.claims import draw_claims
from softhit_lab.experiment import Sweep
from softhit_lab.figures import draw, save
from softhit_lab.report import Part, write_report
from softhit_lab.screen import console
from softhit_lab.sources import FamilySource, FileSource
from softhit_lab.summary import classical, summarise
from softhit_lab.sweep import prepare_folder
from softhit_lab.tables import sheets
from softhit_lab.text import text_traces

__all__ = ["draw_documents", "run_demo"]

Row = Mapping[str, Any]

FAST_POLICIES = ("solar", "fifo", "lru", "marking", "gated_lru", "never")


@dataclass(frozen=True)
class Study:
    """One part of the demo: a folder name, what it is about, its sweep, and what to look at in it."""

    name: str
    about: str
    sweep: Sweep
    look: Callable[[Sequence[Row]], list[str]]


def _at(rows: Sequence[Row], policy: str, **where: Any) -> Row | None:
    for row in rows:
        if row["policy"] == policy and all(row[key] == value for key, value in where.items()):
            return row
    return None


def _slope(row: Row | None) -> str:
    return "-" if row is None or row["slope_high"] is None else f"{row['slope_high']:.2f}"


def _look_at_cycle(rows: Sequence[Row]) -> list[str]:
    k, t = max(r["capacity"] for r in rows), max(r["n_steps"] for r in rows)
    lam = float(Fraction(rows[0]["switch_cost"]))
    solar, fifo, lru = (_at(rows, name, capacity=k, n_steps=t) for name in ("solar", "fifo", "lru"))
    small = _at(rows, "fifo", capacity=k, n_steps=min(r["n_steps"] for r in rows))
    notes = [
        f"K = {k}: the slope of FIFO is {_slope(fifo)}, of LRU {_slope(lru)}, of SOLAR {_slope(solar)}"
        + (f"; (K+1)(1+lambda) = {(k + 1) * (1 + lam):g}." if classical(rows) else ".")
    ]
    if fifo and fifo["hit_ratio"] is not None:
        notes.append(
            f"There FIFO answers {100 * fifo['hit_ratio']:.1f} % of the requests from the cache, and a fixed "
            f"set of K items {100 * k / (k + 1):.1f} %."
        )
    if fifo and small and fifo["ratio_high"] and small["ratio_high"]:
        notes.append(
            f"FIFO's total ratio at K = {k} is {small['ratio_high']:.2f} for T = {small['n_steps']} and "
            f"{fifo['ratio_high']:.2f} for T = {t}: the fill, which everybody pays, dilutes short runs. The "
            "slope (dotted in ratio-vs-T) does not see it."
        )
    held = _at(rows, "never", capacity=k, n_steps=t)
    if held and held["ratio_high"] == 1:
        notes.append(
            "'never', which fills the cache and then holds what it has, is optimal on a cycle; the next "
            "family shows what that costs once the working set moves."
        )
    return notes


def _look_at_segments(rows: Sequence[Row]) -> list[str]:
    t = max(r["n_steps"] for r in rows)
    longest = [r for r in rows if r["n_steps"] == t and r["slope_high"] is not None and not r["clairvoyant"]]
    worst: dict[str, float] = {}
    for row in longest:
        worst[row["policy"]] = max(worst.get(row["policy"], 0.0), row["slope_high"])
    order = sorted(worst, key=lambda name: worst[name])
    best = ", ".join(f"{name} {worst[name]:.2f}" for name in order[:4])
    last = f"{order[-1]} {worst[order[-1]]:.2f}" if order else "-"
    notes = [f"The greatest slope over all K, at T = {t}, is least for: {best}; and greatest for {last}."]
    if classical(rows):
        notes.append(
            "These are ratios on this family. No online policy stays below H_K (dotted) on every sequence; a "
            "policy that does so here says that the family is kinder than the worst case."
        )
    return notes


def _look_at_text(rows: Sequence[Row]) -> list[str]:
    notes = []
    for k in sorted({r["capacity"] for r in rows}):
        here = [r for r in rows if r["capacity"] == k and r["ratio_high"] and not r["clairvoyant"]]
        if not here:
            costs = [r for r in rows if r["capacity"] == k and r["zero_opt"] and not r["clairvoyant"]]
            if costs:
                low, high = (choose(costs, key=lambda r: r["cost"]) for choose in (min, max))
                notes.append(
                    f"K = {k}: OPT = 0, which no ratio can say anything about; costs from "
                    f"{low['cost']:.6g} ({low['policy']}) to {high['cost']:.6g} ({high['policy']})."
                )
            continue
        best = min(here, key=lambda r: r["cost"])
        low, high = min(r["ratio_high"] for r in here), max(r["ratio_high"] for r in here)
        share = 100 * here[0]["floor"] / here[0]["opt"]
        above = [r["floor_ratio_high"] for r in here if r["floor_ratio_high"]]
        spread = f", above the floor from {min(above):.2f} to {max(above):.2f}" if above else ""
        notes.append(
            f"K = {k} (OPT {here[0]['opt_kind']}): raw ratios from {low:.2f} to {high:.2f}{spread}. The "
            f"floor is {share:.0f} % of OPT: that much of it nobody can avoid. Least cost: {best['policy']}."
        )
    return notes


def _studies(fast: bool, seed: int, variant: Variant) -> list[Study]:
    policies = tuple(p for p in verbs.online_policies() if not fast or p in FAST_POLICIES)
    capacities = (2, 8, 32) if fast else (2, 4, 8, 16, 32, 64, 128)
    steps = (1000, 10_000) if fast else (1000, 3162, 10_000, 31_623)
    seeds = range(seed, seed + (2 if fast else 5))

    def sweep(family: str, settings: dict[str, str], n: int) -> Sweep:
        source = FamilySource.of(family, settings)
        return Sweep(source, policies, capacities, steps, (Fraction(1),), tuple(seeds)[:n], variant)

    return [
        Study(
            "cycling",
            "Requests 0, 1, ..., K, 0, 1, ...: one item more than fits. FIFO throws out what comes next.",
            sweep("cycling", {"w": "K+1"}, len(seeds)),
            _look_at_cycle,
        ),
        Study(
            "piecewise",
            "Uniform requests from 1.5 K items; every 20 K steps the working set is replaced by another one.",
            sweep("piecewise", {"w": "1.5K"}, 2 if fast else 3),
            _look_at_segments,
        ),
    ]


def run_demo(
    folder: Path, data: Path | None, fast: bool, seed: int, variant: Variant, jobs: int | None
) -> None:
    """Run the demo and write tables, figures and ``report.md`` into ``folder``."""
    screen = console()
    try:
        texts = text_traces(data, fast)
    except InvalidInput as error:
        if data is not None:
            raise
        texts = []  # some systems package Python without its documentation
        screen.print(f"no text in this demo: {error}", markup=False, soft_wrap=True)
    prepare_folder(folder)
    studies = _studies(fast, seed, variant)
    policies = studies[0].sweep.policies
    (folder / "traces").mkdir(exist_ok=True)
    for text in texts:
        path = folder / "traces" / f"{text.name}.parquet"
        write_trace(text.trace, path)
        source = FileSource.of(path)
        sweep = Sweep(source, policies, text.capacities, (source.n_steps,), (Fraction(1),), (seed,), variant)
        studies.append(Study(text.name, text.about, sweep, _look_at_text))
    parts = []
    for study in studies:
        place = folder / study.name
        command = study.sweep.command(place)
        screen.print(f"\n{study.name}: {study.about}\n$ {command}", markup=False, soft_wrap=True)
        rows = summarise(verbs.run_or_stop(study.sweep, place, jobs, "loky", command))
        figures = [save(drawing, place / "figures", command)[0] for drawing in draw(rows)]
        tables = sheets(rows)
        for sheet in tables:
            sheet.show(screen)
        notes = study.look(rows)
        for note in notes:
            screen.print(f"- {note}", markup=False, soft_wrap=True)
        parts.append(Part(study.name, study.about, command, rows, tables, figures, notes))
    report = write_report(folder, parts, variant)
    screen.print(f"\nreport: {report}", markup=False)


def draw_documents(folder: Path, jobs: int | None) -> None:
    """Draw the figures of the documents into ``folder``, as PNG: some of two sweeps, and those of claims."""
    prepare_folder(folder)
    wanted = {"slope-vs-K", "ratio-vs-T"}
    with tempfile.TemporaryDirectory() as scratch:
        for study in _studies(fast=False, seed=0, variant=Variant()):
            place = Path(scratch) / study.name
            command = study.sweep.command(Path("results") / study.name)
            rows = summarise(verbs.run_or_stop(study.sweep, place, jobs, "loky", command))
            for drawing in draw(rows):
                if any(drawing.name.endswith(end) for end in wanted):
                    written = save(drawing, folder, command, formats=("png",))
                    console().print(str(written[0]), markup=False)
    for path in draw_claims(folder):
        console().print(str(path), markup=False)
