"""The verbs under ``softhit hierarchy``: each reads its options and calls one function."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softhit_lab import ranges

__all__ = ["app"]

app = typer.Typer(
    help="An agent's memory in three levels: see it at work.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A log, .jsonl, or the folder of a demo.", show_default=False),
]
Name = Annotated[
    str | None, typer.Option("--run", help="Which run, where a folder holds several.", show_default=False)
]


@app.command()
def explain(
    run: Run,
    name: Name = None,
    turn: Annotated[str | None, typer.Option("--turn", help="Only this turn.", show_default=False)] = None,
    segment: Annotated[
        str | None,
        typer.Option("--segment", help="Follow one segment through all levels.", show_default=False),
    ] = None,
) -> None:
    """Say turn by turn what entered and left, and why."""
    from softhit_lab.hierarchy.explain import explain_run

    explain_run(run, name, None if turn is None else ranges.whole("turn", turn), segment)


@app.command()
def trace(
    run: Run,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The trace file to write.", show_default=False)
    ],
    schedule: Annotated[
        Path | None,
        typer.Option("--schedule", help="Also what L1 held, for verify.", show_default=False),
    ] = None,
    name: Name = None,
) -> None:
    """Write a run as a trace, for the verbs run, opt and ratio."""
    from softhit_lab.hierarchy.explain import write_run_as_trace

    write_run_as_trace(run, name, output, schedule)
