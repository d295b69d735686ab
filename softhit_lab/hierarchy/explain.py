"""The verb ``hierarchy explain``: the log of a run, turn by turn or along one segment, with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.markup import escape

from softhit.check import nearest, unknown
from softhit.cost import cost
from softhit.errors import InvalidInput
from softhit.hierarchy.as_trace import as_trace
from softhit.hierarchy.log import EVENTS, events_of, read_log, threads_of
from softhit.io import write_schedule, write_trace
from softhit_lab.hierarchy.story import Turn, move, reason, turns_of
from softhit_lab.screen import check_place, console
from softhit_lab.single import conditions

__all__ = ["explain_run", "find_logs", "show_rows", "write_run_as_trace"]


def find_logs(run: Path, name: str | None) -> list[Path]:
    """Return the logs that ``run`` means: itself, or those of a folder, or the one of that name.

    Raises
    ------
    InvalidInput
        There is none, or none of that name.
    """
    if run.is_file():
        if name is not None:
            raise InvalidInput(f"run is for folders; {str(run)!r} is the log of one run")
        return [run]
    if not run.is_dir():
        raise InvalidInput(f"{str(run)!r} is neither the log of a run (.jsonl) nor a folder with runs")
    logs = sorted((run / "runs" if (run / "runs").is_dir() else run).glob("*.jsonl"))
    if not logs:
        raise InvalidInput(f"{str(run)!r} holds no log of a run: runs/*.jsonl")
    logs.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
    if name is None:
        return logs
    chosen = [path for path in logs if path.stem == name]
    return chosen or unknown("run", name, [path.stem for path in logs])


def _only(run: Path, logs: Sequence[Path]) -> Path:
    if len(logs) > 1:
        names = ", ".join(path.stem for path in logs)
        raise InvalidInput(f"{str(run)!r} holds several runs, choose one with --run: {names}")
    return logs[0]


def show_rows(rows: Sequence[tuple[str, ...]], indent: int = 2, style: str = "") -> None:
    """Print rows of plain text in columns as wide as the terminal allows; long texts are folded."""
    screen = console()
    if not rows:
        return
    room = screen.width - indent - 2 * (len(rows[0]) - 1)
    widths = [min(max(1, *map(len, column)), room * 2 // 5) for column in zip(*rows, strict=True)]
    widths[-1] = max(room - sum(widths[:-1]), 10)
    for row in rows:
        # an empty cell has one line, too
        cells = [
            wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(row, widths, strict=True)
        ]
        for line in zip_longest(*cells, fillvalue=""):
            text = "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True))
            screen.print(" " * indent + text.rstrip(), style=style, markup=False, soft_wrap=True)


def _rows(turn: Turn) -> list[tuple[str, ...]]:
    return [
        (
            str(event["kind"]).replace("_", " "),
            str(event.get("segment", "")),
            str(event.get("tokens") or ""),
            reason(event),
        )
        for event in turn.events
    ]


def _in_threads(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return a heading and the events of each thread; at the end what belongs to none of them."""
    threads = threads_of(events)
    parts = [(f"thread {t}" if t else "without a thread", events_of(events, t)) for t in threads]
    told = {e.get("segment") for e in events if e["kind"] != "store"}
    rest = [
        dict(e)
        for e in events
        if e["kind"] == "store"
        and (
            e["thread"] not in threads
            if "thread" in e
            else "" not in threads and e.get("segment") not in told
        )
    ]
    return [*parts, *([("of no thread that the log tells of", rest)] if rest else [])]


def explain_run(
    run: Path, name: str | None, turn: int | None, segment: str | None, thread: str | None = None
) -> None:
    """Print why each thing of a run happened; see :func:`softhit_lab.hierarchy.commands.explain`.

    Raises
    ------
    InvalidInput
        There is no such run, turn, segment or thread.
    """
    logs = find_logs(run, name)
    if segment is not None:
        if thread is not None:
            logs = [_only(run, logs)]
        _explain_segment([(path.stem, read_log(path, thread=thread)) for path in logs], segment, turn)
        return
    events = read_log(_only(run, logs), thread=thread)
    several = len(threads_of(events)) > 1
    told = [(head, turns_of(some)) for head, some in (_in_threads(events) if several else [("", events)])]
    if turn is not None:
        last = max((t.number for _, turns in told for t in turns), default=0)
        told = [(head, [t for t in turns if t.number == turn]) for head, turns in told]
        if not any(turns for _, turns in told):
            raise InvalidInput(f"turn must be one of the run's, 1 to {last}, got {turn}")
    screen = console()
    for head, turns in told:
        if head and turns:
            screen.print(f"\n[bold cyan]{escape(head)}[/bold cyan]", soft_wrap=True)
        for one in turns:
            _show_title(one)
            show_rows(_rows(one))
    kinds = {e["kind"] for _, turns in told for t in turns for e in t.events}
    meant = [(kind.replace("_", " "), text) for kind, text in EVENTS.items() if kind in kinds]
    screen.print()
    show_rows(meant, 0, "dim")


def _show_title(turn: Turn) -> None:
    screen = console()
    screen.print(f"[bold]turn {turn.number}[/bold]  {escape(turn.title)}  [dim]{escape(turn.fullness)}[/dim]")


def _explain_segment(
    told: Sequence[tuple[str, Sequence[Mapping[str, Any]]]], segment: str, turn: int | None
) -> None:
    rows: list[tuple[str, ...]] = []
    known = {str(e["segment"]) for _, events in told for e in events if "segment" in e}
    several = any(len(threads_of(events)) > 1 for _, events in told)
    for name, events in told:
        rows += [
            (
                " ".join([name, *([str(e.get("thread", "-"))] if several else []), str(e["turn"])]),
                str(e["kind"]).replace("_", " "),
                move(e),
                reason(e),
            )
            for e in events
            if e.get("segment") == segment and turn in (None, e["turn"])
        ]
    if not rows:
        raise InvalidInput(
            f"no event of the run is about segment {segment!r}{nearest(segment, sorted(known))}"
        )
    screen = console()
    screen.print(f"[bold]{escape(segment)}[/bold]")
    where = "run, thread, turn" if several else "run, turn"
    show_rows([(where, "event", "where", "why"), *rows])


def _check_apart(log: Path, output: Path, schedule: Path | None) -> None:
    """Refuse to replace a log, or one of the two files by the other."""
    for name, place in (("output", output), ("schedule", schedule)):
        if place is not None and (_same(place, log) or _is_log(place)):
            raise InvalidInput(f"{name} must be another file than the log of a run, got {str(place)!r}")
    if schedule is not None and _same(output, schedule):
        raise InvalidInput(f"schedule must be another file than output, got {str(schedule)!r} for both")


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _is_log(path: Path) -> bool:
    try:
        return path.suffix == ".jsonl" and bool(read_log(path))
    except InvalidInput:
        return False


def write_run_as_trace(
    run: Path, name: str | None, output: Path, schedule: Path | None, thread: str | None = None
) -> None:
    """Write a run as a trace of sized items, and what L1 did as a schedule, and say what L1 paid.

    Raises
    ------
    InvalidInput
        There is no such run or thread, a choice among several is missing, the log does not add up, or a file
        to write is a log or the other file to write.
    """
    for place in (output, schedule):
        check_place(place)
    log = _only(run, find_logs(run, name))
    _check_apart(log, output, schedule)
    events = read_log(log, thread=thread)
    if thread is None and len(threads := threads_of(events)) > 1:
        names = ", ".join(t or "'' (without a thread)" for t in threads)
        raise InvalidInput(f"{str(log)!r} holds several threads, choose one with --thread: {names}")
    made = as_trace(events)
    write_trace(made.trace, output)
    if schedule is not None:
        about = conditions(made.trace, made.capacity, Fraction(1), made.variant)
        write_schedule(made.schedule, schedule, {"policy": "the context allocator", **about})
    misses = cost(made.schedule, made.trace, made.capacity, 0, made.variant)
    loads = cost(made.schedule, made.trace, made.capacity, Fraction(1), made.variant)
    screen = console()
    screen.print(repr(made.trace), markup=False, soft_wrap=True)
    screen.print(
        f"capacity {made.capacity}: {misses.fraction} tokens were needed and not in L1; at lambda = 1 "
        f"what was let in costs {loads.fraction - misses.fraction} more",
        markup=False,
        soft_wrap=True,
    )
