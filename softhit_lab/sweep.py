"""Run a sweep: in parallel, with progress, resumable however it ended, the same for any number of jobs.

A result folder holds ``cells.parquet`` and ``cells.csv`` (one row per cell, see :mod:`softhit_lab.cells`),
``summary.csv`` (aggregated over seeds, see :mod:`softhit_lab.summary`), ``manifest.json`` (the only file
with a time in it), ``journal.jsonl`` (what is finished, for resuming) and ``figures/``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from softhit.check import check_int
from softhit.errors import InvalidInput
from softhit_lab.cells import COLUMNS, FORMAT, derive, write_cells, write_csv, write_text
from softhit_lab.crew import call_all, check_backend, in_backend, sigterm_as_ctrl_c
from softhit_lab.experiment import Cell, Sweep, code_version
from softhit_lab.journal import Journal
from softhit_lab.summary import summarise
from softhit_lab.work import Job, Task, run_task, warm_up

__all__ = ["Interrupted", "prepare_folder", "run_sweep"]

Records = dict[str, dict[str, Any]]


@dataclass
class Interrupted(Exception):
    """A sweep was stopped; what was finished is kept in the journal of its folder."""

    why: str
    finished: int
    total: int
    folder: Path


def prepare_folder(folder: Path) -> Path:
    """Make the folder of a result, or say now that nothing could be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(f"cannot write into {str(folder)!r}: {error.strerror}") from None
    return folder


def plan(sweeps: Sequence[Sweep], records: Records, folder: str) -> list[Task]:
    """Return the tasks that fill the cells which are not recorded yet, the long ones first."""
    tasks: list[Task] = []
    for sweep in sweeps:
        together: dict[Any, list[Job]] = {}
        for instance in sweep.instances():
            keyed = [(spec, Cell(instance, spec).key) for spec in sweep.policies]
            missing = tuple(pair for pair in keyed if pair[1] not in records)
            if missing:
                job = Job(instance, instance.key, missing, records.get(instance.key))
                grid = (instance.capacity, instance.n_steps, instance.switch_cost)
                # one trace for all seeds: its optimum is found once
                group = grid if instance.source.seedless else (*grid, instance.seed)
                together.setdefault(group, []).append(job)
        tasks += [Task(tuple(jobs), folder) for jobs in together.values()]
    return sorted(tasks, key=lambda task: -task.effort)


def _warm(tasks: Sequence[Task]) -> list[tuple[Job, str]]:
    """Return short jobs that compile what the tasks use: one per policy, each in one process only."""
    jobs: dict[str, tuple[Job, str]] = {}
    for task in tasks:
        job = task.jobs[0]
        for spec, key in job.policies:
            jobs.setdefault(spec, (Job(job.instance, job.key, ((spec, key),)), task.folder))
    return list(jobs.values())


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def run_sweep(
    sweeps: Sweep | Sequence[Sweep],
    folder: str | os.PathLike[str],
    jobs: int | None = None,
    backend: str = "loky",
    command: str = "",
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Fill every cell of one or several sweeps and write the result folder.

    Parameters
    ----------
    sweeps : Sweep or sequence of Sweep
        With several, their cells follow one another in one result.
    folder : path
    jobs : int, optional
        Processes; default: one per core. The result does not depend on it.
    backend : {"loky", "dask", "ray"}
        Where they run; the last two need their extra.
    command : str
        What made the result, for the manifest.
    console : rich.console.Console, optional
        Where progress is shown; default: standard error.

    Returns
    -------
    list of dict
        The derived cells, in the order of the grid.

    Raises
    ------
    InvalidInput
        Before anything is written or run.
    Interrupted
        On Ctrl-C or SIGTERM, or if a process of the sweep dies; the same call resumes.
    """
    many = [sweeps] if isinstance(sweeps, Sweep) else list(sweeps)
    for sweep in many:
        sweep.check()
    check_backend(backend)
    workers = joblib.cpu_count() if jobs is None else check_int("jobs", jobs, low=1)
    fresh = not Path(folder).exists()
    path = prepare_folder(Path(folder))
    console = console or Console(stderr=True)
    cells = [cell for sweep in many for cell in sweep.cells()]
    with Journal(path / "journal.jsonl") as journal:
        keys = [cell.key for cell in cells]
        tasks = plan(many, journal.records, os.getcwd())
        missing = sum(task.cells for task in tasks)
        if missing < len(cells):
            console.print(f"{len(cells) - missing} of {len(cells)} cells are there from an earlier run")
        try:
            with sigterm_as_ctrl_c():
                _run(tasks, journal, workers, backend, console, len(cells))
        except (KeyboardInterrupt, BrokenProcessPool) as stop:
            died = "a process of the sweep ended unexpectedly, perhaps for want of memory"
            done = sum(key in journal.records for key in keys)
            why = "interrupted" if isinstance(stop, KeyboardInterrupt) else died
            raise Interrupted(why, done, len(cells), path) from None
        except Exception:
            if not journal.records:
                journal.path.unlink()
                with contextlib.suppress(OSError):
                    path.rmdir() if fresh else None
            raise
        # the name of a trace file is no part of its key: a renamed file is the same trace under its new name
        rows = [derive(journal.records[cell.key] | cell.configuration()) for cell in cells]
        # still locked, so that the files of one result are of one sweep
        write_cells(rows, path / "cells.parquet")
        write_csv(rows, path / "cells.csv", COLUMNS)
        summary = summarise(rows)
        write_csv(summary, path / "summary.csv", list(summary[0]))
        _write_manifest(path, many, len(rows), command, workers, backend)
    return rows


def _run(
    tasks: Sequence[Task], journal: Journal, workers: int, backend: str, console: Console, total: int
) -> None:
    missing = sum(task.cells for task in tasks)
    workers = min(workers, len(tasks)) if backend == "loky" else workers
    if not tasks:
        return
    with in_backend(backend, workers), _progress(console) as bar:
        warm = _warm(tasks) if workers > 1 else []
        shown = bar.add_task("compiling" if warm else "running", total=total, completed=total - missing)
        for _ in _close_at_end(call_all(warm_up, warm, workers)):
            pass
        bar.update(shown, description="running")
        for records in _close_at_end(call_all(run_task, [(task,) for task in tasks], workers)):
            new = {key: value for key, value in records.items() if key not in journal.records}
            journal.add(new)
            bar.advance(shown, sum("policy" in value for value in new.values()))


def _close_at_end(results: Iterator[Any]) -> Iterable[Any]:
    # closing ends the processes now, not whenever the collector gets to the iterator
    with contextlib.closing(results):  # type: ignore[type-var]
        yield from results


def _versions() -> dict[str, str]:
    names = ("softhit", "numpy", "numba", "scipy", "pyarrow", "highspy", "joblib", "matplotlib")
    versions = {"python": platform.python_version()}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _write_manifest(
    folder: Path, sweeps: Sequence[Sweep], cells: int, command: str, jobs: int, backend: str
) -> None:
    facts = {
        "format": FORMAT,
        "made": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": command,
        "code": code_version(),
        "sweeps": [sweep.describe() for sweep in sweeps],
        "cells": cells,
        "jobs": jobs,
        "backend": backend,
        "versions": _versions(),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "byte_order": sys.byteorder,
    }
    text = json.dumps(facts, indent=2) + "\n"
    write_text(text, folder / "manifest.json")
