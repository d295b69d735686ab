"""What the verbs do that are about many things: sweeps from options, lists, figures of a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from adversaries.families import family_info, family_names
from softhit import Variant, policy_names
from softhit.check import unknown
from softhit.errors import InvalidInput
from softhit.policies import policy_info
from softhit_lab.cells import read_cells
from softhit_lab.crew import end_workers
from softhit_lab.experiment import Optimum, Sweep
from softhit_lab.figures import draw, save
from softhit_lab.screen import check_place, console, write_sheet
from softhit_lab.sources import FamilySource, FileSource, Source
from softhit_lab.summary import summarise
from softhit_lab.sweep import Interrupted, run_sweep
from softhit_lab.tables import Sheet, sheets

__all__ = [
    "draw_results",
    "online_policies",
    "print_families",
    "print_policies",
    "run_or_stop",
    "sweep_from_options",
]


def online_policies() -> list[str]:
    """Return the names of all policies that do not know the future."""
    return policy_names(clairvoyant=False)


def sweep_from_options(
    policies: Sequence[str],
    family: str | None,
    file: Path | None,
    settings: Mapping[str, str],
    capacities: Sequence[int],
    steps: Sequence[int] | None,
    switch_costs: Sequence[Fraction],
    seeds: Sequence[int],
    variant: Variant,
    method: str,
    time_limit: float | None,
    folder: Path,
    jobs: int | None,
    backend: str,
    with_figures: bool,
) -> None:
    """Build the sweep that the options describe, run it, and show and draw its result."""
    if (family is None) == (file is None):
        raise InvalidInput("give either a family or a trace file: --family NAME or --trace FILE")
    source: Source
    if file is not None:
        if settings:
            raise InvalidInput("set is for families; a trace file has no parameters")
        source = FileSource.of(file)
        lengths = steps if steps is not None else [source.n_steps]
    else:
        family_info(str(family))
        source = FamilySource.of(str(family), settings)
        lengths = steps if steps is not None else [10_000]
    named = [name for spec in policies for name in (online_policies() if spec == "all" else [spec])]
    sweep = Sweep(
        source=source,
        policies=tuple(dict.fromkeys(named)),
        capacities=tuple(capacities),
        steps=tuple(lengths),
        switch_costs=tuple(switch_costs),
        seeds=tuple(seeds),
        variant=variant,
        optimum=Optimum(method, time_limit),
    )
    command = sweep.command(folder)
    cells = run_or_stop(sweep, folder, jobs, backend, command)
    rows = summarise(cells)
    screen = console()
    for sheet in sheets(rows):
        sheet.show(screen)
    drawings = draw(rows) if with_figures else []
    for drawing in drawings:
        save(drawing, folder / "figures", command)
    more = f", {len(drawings)} figures in {folder / 'figures'}" if drawings else ""
    screen.print(f"{len(cells)} cells in {folder / 'cells.parquet'} (and .csv){more}", markup=False)


def run_or_stop(
    sweeps: Sweep | Sequence[Sweep], folder: Path, jobs: int | None, backend: str, command: str
) -> list[dict[str, Any]]:
    """Run sweeps; on Ctrl-C say how to resume, and leave with 130."""
    screen = console(error=True)
    try:
        return run_sweep(sweeps, folder, jobs, backend, command, screen)
    except Interrupted as stop:
        done = f"{stop.finished} of {stop.total} cells are finished and kept in {stop.folder}"
        screen.print(
            f"{stop.why}: {done}; the same command resumes:\n  {command}", markup=False, soft_wrap=True
        )
        raise SystemExit(130) from None
    finally:
        end_workers()


def print_policies(output: Path | None) -> None:
    """Print the registry of policies."""
    check_place(output)
    lines = []
    for name in policy_names():
        row = policy_info(name)
        marks = ["knows the future"] if row.clairvoyant else []
        marks += [] if row.deterministic else ["draws"]
        own = ", ".join(f"{p}={v}" for p, v in row.parameters.items() if p not in ("touch", "admit"))
        lines.append((name, own, row.admission, row.eviction, ", ".join(marks), row.summary))
    head = ("name", "parameters (with defaults)", "admission", "eviction", "marks", "summary")
    sheet = Sheet("policies", head, lines)
    sheet.show(console(), left=True)
    write_sheet(sheet, output)


def print_families(output: Path | None) -> None:
    """Print the registry of families."""
    check_place(output)
    lines = []
    for name in family_names():
        row = family_info(name)
        settings = ", ".join(f"{p}={v.default}" for p, v in row.parameters.items())
        plain = [re.sub(r":\w+:`~?([^`]*)`|``", r"\1", text) for text in (row.summary, row.forces)]
        lines.append((name, settings, *plain))
    sheet = Sheet("families", ("name", "parameters (with defaults)", "summary", "forces"), lines)
    sheet.show(console(), left=True)
    write_sheet(sheet, output)


def draw_results(results: Path, output: Path | None) -> None:
    """Draw a result folder again."""
    rows = summarise(read_cells(results / "cells.parquet"))
    try:
        command = str(json.loads((results / "manifest.json").read_text())["command"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        unknown("result folder", str(results), ["one with cells.parquet and manifest.json"])
    folder = output or results / "figures"
    for drawing in draw(rows):
        console().print(str(save(drawing, folder, command)[0]), markup=False)
