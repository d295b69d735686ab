"""What the verbs of the command line do, apart from reading their options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console

import offline_opt
from adversaries.families import family_info, family_names, make_trace
from softhit import Trace, Variant, cost, floor_units, make_policy, policy_names, simulate
from softhit.check import unknown
from softhit.errors import InvalidInput
from softhit.io import write_schedule, write_trace
from softhit.policies import policy_info
from softhit.retrieval import utility_scale
from softhit_lab.cells import read_cells, write_csv, write_text
from softhit_lab.crew import end_workers
from softhit_lab.experiment import Optimum, Sweep
from softhit_lab.figures import draw, save
from softhit_lab.sources import FamilySource, FileSource, Source, open_trace
from softhit_lab.summary import summarise
from softhit_lab.sweep import Interrupted, run_sweep
from softhit_lab.tables import Sheet, sheets
from softhit_lab.work import count_hits

__all__ = [
    "draw_results",
    "make_or_convert",
    "print_facts",
    "print_families",
    "print_policies",
    "run_policies",
    "solve_trace",
    "sweep_from_options",
]


def console(error: bool = False) -> Console:
    """Return a console that does not fold tables when nobody watches."""
    made = Console(stderr=error, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = 160
    return made


def _number(value: Fraction) -> str:
    """Show a cost exactly where that is short, else to ten digits."""
    text = f"{float(value):.10g}"
    return text if Fraction(text) == value or value.denominator > 10_000 else f"{text} = {value}"


def _check_place(path: Path | None) -> None:
    """Refuse an output whose folder is not there before any work is done."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        what = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
        raise InvalidInput(f"cannot write {str(path)!r}: it {what}")


def _write_json(facts: Mapping[str, Any], path: Path | None) -> None:
    if path is not None:
        write_text(json.dumps(facts, indent=2) + "\n", path)


def _write_sheet(sheet: Sheet, path: Path | None) -> None:
    if path is not None:
        write_csv([dict(zip(sheet.head, row, strict=True)) for row in sheet.rows], path, sheet.head)


def make_or_convert(
    source: str,
    capacity: int,
    steps: int,
    switch_cost: Fraction,
    seed: int,
    settings: Mapping[str, str],
    output: Path | None,
) -> str:
    """Make a family's trace or read a file, write it if asked to, and describe it in one line."""
    _check_place(output)
    if Path(source).suffix or Path(source).exists():
        if settings:
            raise InvalidInput(f"set is for families; {source!r} is a file")
        made = open_trace(source)
    else:
        made = make_trace(source, capacity, steps, switch_cost, seed, **settings)
    if output is not None:
        write_trace(made, output)
    return repr(made)


def facts_of(trace: Trace, variant: Variant) -> dict[str, Any]:
    """Return what a trace holds, as JSON-able facts."""
    structure = trace.structure
    floor = Fraction(floor_units(trace, variant), utility_scale(trace.quality_scale, variant))
    classes = structure.classes
    return {
        "steps": trace.n_steps,
        "queries": trace.n_queries,
        "arrivals": int((trace.arrivals >= 0).sum()),
        "items": trace.n_items,
        "entries": structure.nonzeros,
        "total_weight": trace.total_weight,
        "hard": structure.hard,
        "requests": structure.requests,
        "classes": None if classes is None else len({int(c) for c in classes if c >= 0}),
        "scored": structure.scored,
        "unit_sizes": structure.unit_sizes,
        "quality_scale": trace.quality_scale,
        "hash": trace.hash,
        "variant": variant.label,
        "floor": str(floor),
        "metadata": dict(trace.metadata),
    }


def print_facts(path: Path, variant: Variant, output: Path | None) -> None:
    """Print what a trace file holds and which ways to its optimum apply."""
    _check_place(output)
    trace = open_trace(path)
    facts = facts_of(trace, variant)
    classes = facts["classes"]
    kind = "requests (paging)" if facts["requests"] else "hard hits" if facts["hard"] else "soft hits"
    if not facts["hard"] and classes is not None:
        kind += f", {classes} classes of equal items"
    sizes = "all 1" if facts["unit_sizes"] else f"{int(trace.sizes.min())}..{int(trace.sizes.max())}"
    lines = {
        "steps": f"{facts['steps']} ({facts['queries']} queries, {facts['arrivals']} arrivals)",
        "items": f"{facts['items']}, sizes {sizes}",
        "entries": f"{facts['entries']}, quality in units of 1/{facts['quality_scale']}",
        "structure": kind + (", ranked by a score of its own" if facts["scored"] else ""),
        "weight": f"{facts['total_weight']} = the cost of serving nothing",
        "floor F": f"{_number(Fraction(facts['floor']))} ({variant.label})",
        "hash": facts["hash"],
    }
    for key in ("generator", "source", "parameters", "seed", "forces"):
        if facts["metadata"].get(key) is not None:
            value = facts["metadata"][key]
            lines[key] = value if isinstance(value, str) else json.dumps(value)
    screen = console()
    for name, text in lines.items():
        screen.print(f"{name:>10}  {text}", markup=False, soft_wrap=True)
    _write_json(facts, output)


def run_policies(
    path: Path,
    specs: Sequence[str],
    capacity: int,
    switch_cost: Fraction,
    seed: int,
    variant: Variant,
    output: Path | None,
) -> None:
    """Run policies on a trace file, print what they pay, and write the schedule if asked to."""
    _check_place(output)
    if not specs:
        raise InvalidInput("policy must name at least one policy")
    if output is not None and len(specs) > 1:
        raise InvalidInput(f"a schedule file holds one policy; got {len(specs)}: {', '.join(specs)}")
    chosen = [(spec, make_policy(spec)) for spec in specs]
    trace = open_trace(path)
    floor = Fraction(floor_units(trace, variant), utility_scale(trace.quality_scale, variant))
    lines = []
    for spec, policy in chosen:
        schedule = simulate(policy, trace, capacity, switch_cost, seed, variant=variant)
        paid = cost(schedule, trace, capacity, switch_cost, variant)
        hits = count_hits(schedule, trace, variant)
        share = f"{100 * paid.switch_units / paid.units:.1f} %" if paid.units else "-"
        hit = f"{100 * hits / trace.n_queries:.1f} %" if trace.n_queries else "-"
        numbers = (paid.fraction, paid.misses, paid.switching)
        lines.append((spec, *map(_number, numbers), share, str(paid.insertions), str(paid.paid), hit))
        if output is not None:
            write_schedule(schedule, output)
    head = ("policy", "cost", "misses", "switching", "share", "inserted", "paid for", "hit ratio")
    title = f"{path.name}: K = {capacity}, lambda = {switch_cost}, {variant.label}, seed {seed}"
    note = f"T = {trace.n_steps}, floor F = {_number(floor)}"
    Sheet(title, head, lines, note).show(console())


def solve_trace(
    path: Path,
    capacity: int,
    switch_cost: Fraction,
    variant: Variant,
    method: str,
    time_limit: float | None,
    output: Path | None,
) -> None:
    """Find the optimum of a trace file, print what is proved about it, and write what proves it."""
    _check_place(output)
    trace = open_trace(path)
    found = offline_opt.solve(
        trace, capacity, switch_cost, variant=variant, method=method, time_limit=time_limit
    )
    screen = console()
    screen.print(f"{path.name}: K = {capacity}, lambda = {switch_cost}, {variant.label}", markup=False)
    screen.print(f"kind   {found.kind}", markup=False)
    if found.cost is not None:
        split = f"{_number(found.cost.misses)} misses + {_number(found.cost.switching)} switching"
        screen.print(f"cost   {_number(found.cost.fraction)} = {split}", markup=False)
    screen.print(f"bound  {_number(Fraction(found.lower_bound))}", markup=False)
    screen.print(found.explain(), markup=False, soft_wrap=True)
    if output is not None:
        if found.schedule is None:
            raise InvalidInput("there is no schedule to write; give the method more time")
        write_schedule(found.schedule, output)


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
        raise InvalidInput("give either a family or a trace file")
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
            f"interrupted: {done}; the same command resumes:\n  {command}", markup=False, soft_wrap=True
        )
        raise SystemExit(130) from None
    finally:
        end_workers()


def print_policies(output: Path | None) -> None:
    """Print the registry of policies."""
    _check_place(output)
    lines = []
    for name in policy_names():
        row = policy_info(name)
        marks = ["knows the future"] if row.clairvoyant else []
        marks += [] if row.deterministic else ["draws"]
        lines.append((name, row.admission, row.eviction, ", ".join(marks), row.summary))
    sheet = Sheet("policies", ("name", "admission", "eviction", "marks", "summary"), lines)
    sheet.show(console(), left=True)
    _write_sheet(sheet, output)


def print_families(output: Path | None) -> None:
    """Print the registry of families."""
    _check_place(output)
    lines = []
    for name in family_names():
        row = family_info(name)
        settings = ", ".join(f"{p}={v.default}" for p, v in row.parameters.items())
        plain = [re.sub(r":\w+:`~?([^`]*)`|``", r"\1", text) for text in (row.summary, row.forces)]
        lines.append((name, settings, *plain))
    sheet = Sheet("families", ("name", "parameters (with defaults)", "summary", "forces"), lines)
    sheet.show(console(), left=True)
    _write_sheet(sheet, output)


def draw_results(results: Path | None, output: Path | None, jobs: int | None) -> None:
    """Draw a result folder again, or, without one, the figures of the documents."""
    if results is None:
        from softhit_lab.demo import draw_documents

        draw_documents(output or Path("docs/img"), jobs)
        return
    rows = summarise(read_cells(results / "cells.parquet"))
    try:
        command = str(json.loads((results / "manifest.json").read_text())["command"])
    except (OSError, ValueError, KeyError):
        unknown("result folder", str(results), ["one with cells.parquet and manifest.json"])
    folder = output or results / "figures"
    for drawing in draw(rows):
        console().print(str(save(drawing, folder, command)[0]), markup=False)
