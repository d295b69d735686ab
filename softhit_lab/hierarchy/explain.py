"""The verb ``hierarchy explain``: the log of a run, turn by turn or along one segment, with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from softhit.check import nearest, unknown
from softhit.errors import InvalidInput
from softhit.hierarchy.log import EVENTS, read_log
from softhit_lab.hierarchy.story import Turn, move, reason, turns_of
from softhit_lab.screen import console

__all__ = ["explain_run", "find_logs", "grid"]


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


def grid(rows: Sequence[tuple[str, ...]], indent: int = 2) -> Padding:
    """Return rows of plain text, the first columns as wide as they need to be, the last one folded."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for number in range(len(rows[0]) if rows else 0):
        last = number == len(rows[0]) - 1
        table.add_column(overflow="fold", ratio=1 if last else None, no_wrap=False)
    for row in rows:
        table.add_row(*map(escape, row))
    return Padding(table, (0, 0, 0, indent))


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


def explain_run(run: Path, name: str | None, turn: int | None, segment: str | None) -> None:
    """Print why each thing of a run happened; see :func:`softhit_lab.hierarchy.commands.explain`.

    Raises
    ------
    InvalidInput
        There is no such run, turn or segment.
    """
    logs = find_logs(run, name)
    told = [(path.stem, turns_of(read_log(path))) for path in logs]
    if segment is not None:
        _explain_segment(told, segment, turn)
        return
    if len(told) > 1 and name is None:
        names = ", ".join(stem for stem, _ in told)
        raise InvalidInput(f"{str(run)!r} holds several runs, choose one with --run: {names}")
    ((_, turns),) = told
    if turn is not None:
        last = turns[-1].number if turns else 0
        turns = [t for t in turns if t.number == turn]
        if not turns:
            raise InvalidInput(f"turn must be one of the run's, 1 to {last}, got {turn}")
    screen = console()
    for one in turns:
        _show_title(one)
        if one.events:
            screen.print(grid(_rows(one)))
    kinds = {e["kind"] for t in turns for e in t.events}
    meant = [(kind.replace("_", " "), text) for kind, text in EVENTS.items() if kind in kinds]
    screen.print(grid([("", ""), *meant], 0), style="dim")


def _show_title(turn: Turn) -> None:
    screen = console()
    screen.print(f"[bold]turn {turn.number}[/bold]  {escape(turn.title)}  [dim]{escape(turn.fullness)}[/dim]")


def _explain_segment(told: Sequence[tuple[str, Sequence[Turn]]], segment: str, turn: int | None) -> None:
    rows: list[tuple[str, ...]] = []
    known: set[str] = set()
    for name, turns in told:
        for one in turns:
            known.update(str(e["segment"]) for e in one.events if "segment" in e)
            rows += [
                (
                    f"{name} {one.number}",
                    str(e["kind"]).replace("_", " "),
                    move(e),
                    reason(e),
                )
                for e in one.events
                if e.get("segment") == segment and turn in (None, one.number)
            ]
    if not rows:
        raise InvalidInput(
            f"no event of the run is about segment {segment!r}{nearest(segment, sorted(known))}"
        )
    screen = console()
    screen.print(f"[bold]{escape(segment)}[/bold]")
    screen.print(grid([("run, turn", "event", "where", "why"), *rows]))
