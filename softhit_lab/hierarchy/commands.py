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

MOST = 2**31 - 1
"""Of tokens and of points; checkpoints and stores take no integers above 64 bits."""

Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A log, .jsonl, or the folder of a demo.", show_default=False),
]
Name = Annotated[
    str | None, typer.Option("--run", help="Which run, where a folder holds several.", show_default=False)
]
Thread = Annotated[
    str | None,
    typer.Option("--thread", help="Which thread, where a graph ran in several.", show_default=False),
]


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder: stores, logs and checkpoints.")
    ] = Path("results/hierarchy"),
    data: Annotated[
        Path | None, typer.Option("--data", help="A LoCoMo json instead of the language reference.")
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="What leaves L1 first: priority_lru, lru, solar, ...")
    ] = "priority_lru",
    budget: Annotated[str, typer.Option("--budget", help="Tokens of L1.")] = "1200",
    capacity: Annotated[
        str | None, typer.Option("--capacity", help="Points of L2; default: what L3 holds, and 16.")
    ] = None,
    questions: Annotated[str, typer.Option("--questions", help="How many are asked in each run.")] = "4",
    engine: Annotated[str, typer.Option("--engine", help="L2: qdrant, or edge, in process.")] = "qdrant",
    url: Annotated[str | None, typer.Option("--url", help="L2: a Qdrant server instead of a folder.")] = None,
    seed: Annotated[str, typer.Option("--seed", help="Seed of policies that draw.")] = "0",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what came of it.")] = False,
) -> None:
    """Run an agent twice: the second run finds what the first wrote.

    A graph of LangGraph with a stand-in for the language model; no network. Turn by turn it prints what
    enters and leaves the context, and why. After Ctrl-C the same command goes on.
    """
    from softhit_lab.hierarchy.demo import Settings, run_demo

    settings = Settings(
        data=data,
        policy=policy,
        budget=ranges.whole("budget", budget, low=1, high=MOST),
        capacity=None if capacity is None else ranges.whole("capacity", capacity, low=1, high=MOST),
        questions=ranges.whole("questions", questions, low=1, high=10_000),
        engine=engine,
        url=url,
        seed=ranges.whole("seed", seed),
    )
    if run_demo(output, settings, quiet=quiet):
        raise typer.Exit(130)


@app.command()
def explain(
    run: Run,
    name: Name = None,
    turn: Annotated[str | None, typer.Option("--turn", help="Only this turn.", show_default=False)] = None,
    segment: Annotated[
        str | None,
        typer.Option("--segment", help="Follow one segment through all levels.", show_default=False),
    ] = None,
    thread: Thread = None,
) -> None:
    """Say turn by turn what entered and left, and why.

    A run whose graph served several threads is told thread by thread.
    """
    from softhit_lab.hierarchy.explain import explain_run

    explain_run(run, name, None if turn is None else ranges.whole("turn", turn), segment, thread)


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
    thread: Thread = None,
) -> None:
    """Write a run as a trace, for the verbs run, opt and ratio."""
    from softhit_lab.hierarchy.explain import write_run_as_trace

    write_run_as_trace(run, name, output, schedule, thread)


@app.command()
def study(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder for the figure and its numbers.")
    ] = Path("results/l1-vs-opt"),
    data: Annotated[
        Path | None, typer.Option("--data", help="A LoCoMo json; without it the families only.")
    ] = None,
    conversations: Annotated[
        str | None, typer.Option("--conversations", help="How many of the file; default: all.")
    ] = None,
    traces: Annotated[str, typer.Option("--traces", help="Of each family.")] = "3",
) -> None:
    """Compare policies for L1 with the optimum in tokens.

    Without data it takes about 45 seconds of one core with --traces 1, and as much again for each further
    trace; with data longer.
    """
    from softhit_lab.l1_study import run_study
    from softhit_lab.screen import console
    from softhit_lab.sweep import prepare_folder

    limit = None if conversations is None else ranges.whole("conversations", conversations, low=1)
    n = ranges.whole("traces", traces, low=1, high=1000)
    prepare_folder(output)
    screen = console()
    if not screen.is_terminal:
        # one column a policy and two bounds a cell are wider than a console takes a file to be
        screen.width = 10_000
    for sheet in run_study(output, data, limit, n):
        sheet.show(screen)
    screen.print(f"figure and numbers: {output}", markup=False)
