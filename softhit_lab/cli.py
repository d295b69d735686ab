"""The command line ``softhit``: each verb reads its options and calls one function.

Exit codes: 0 fine, 1 something was found invalid, 2 usage, 130 interrupted (a sweep resumes when repeated).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import softhit
from softhit.errors import InvalidSchedule, NotCertified, PolicyError, SofthitError
from softhit_lab import ranges
from softhit_lab.hierarchy import commands
from softhit_lab.options import Common, takes_common

__all__ = ["app", "main"]

# typer carries its own copy of click in some versions; its errors are found through the public one
_USAGE: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
_INVALID = (InvalidSchedule, NotCertified, PolicyError)


class _Group(TyperGroup):
    """Turn every expected error into one line on standard error and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except _USAGE as error:
            code = 2
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                _complain(error.format_message())
        except SofthitError as error:
            _complain(str(error))
            code = 1 if isinstance(error, _INVALID) else 2
        except OSError as error:
            _complain(f"{error.filename or 'file'}: {error.strerror or error}")
            code = 2
        except MemoryError as error:
            _complain(
                f"not enough memory ({str(error) or 'asked for too much'}); try fewer steps, items or values"
            )
            code = 2
        except (KeyboardInterrupt, typer.Abort):
            code = 130
        if code == 130:
            typer.echo("interrupted", err=True)
        sys.exit(code if isinstance(code, int) else 0)


def _complain(text: str) -> None:
    # what a file holds may be quoted in an error, and must not command the terminal
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))
    typer.echo(f"error: {line}", err=True)


app = typer.Typer(
    cls=_Group,
    help="Semantic caches against the best schedule in hindsight.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"softhit {softhit.__version__}")
        raise typer.Exit()


@app.callback()
def _start(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    # users' own policies, module:Class, live where the command is given
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace file.", show_default=False)]
Capacity = Annotated[str, typer.Option("--capacity", "-K", help="K >= 1.", show_default=False)]
SwitchCost = Annotated[str, typer.Option("--switch-cost", "-l", help="lambda >= 0, e.g. 0, 1/3, 2.5")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter of the family, key=value; may be repeated.")
]
Method = Annotated[
    str, typer.Option("--opt-method", help="How OPT is found: auto, or a method that `softhit info` lists.")
]
Limit = Annotated[
    str | None,
    typer.Option("--opt-time-limit", help="Seconds per optimum; results then depend on the machine."),
]
Jobs = Annotated[str | None, typer.Option("--jobs", "-j", help="Processes; default: one per core.")]
Backend = Annotated[str, typer.Option("--backend", help="loky, or dask or ray (extras).")]
OnePolicy = Annotated[str | None, typer.Option("--policy", "-p", help="The policy: a name, or module:Class.")]
Program = Annotated[
    str | None, typer.Option("--exec", help="Instead: a program that speaks the line protocol.")
]
AboutSteps = Annotated[str, typer.Option("--steps", "-T", help="About how long the trace shall be.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", help="Format of the file, where its ending does not say it: vcache, csv, ..."),
]


def _processes(jobs: str | None) -> int | None:
    return None if jobs is None else ranges.whole("jobs", jobs, low=1, high=10_000)


@app.command()
@takes_common("The file to write: .parquet, .jsonl, or another format by its ending.")
def trace(
    common: Common,
    source: Annotated[str, typer.Argument(metavar="FAMILY|FILE", help="A family, or a file to convert.")],
    capacity: Annotated[str, typer.Option("--capacity", "-K", help="K that the family is aimed at.")] = "8",
    steps: Annotated[str, typer.Option("--steps", "-T", help="Number of steps, e.g. 1e4.")] = "1e4",
    switch_cost: SwitchCost = "1",
    settings: Settings = None,
    format: FileFormat = None,
) -> None:
    """Make the trace of a family, or convert a file."""
    from softhit_lab.single import make_or_convert

    made = make_or_convert(
        source,
        ranges.whole("capacity", capacity, low=1),
        ranges.whole("steps", steps),
        ranges.switch_cost(switch_cost),
        common.seed,
        ranges.settings(settings or []),
        common.output,
        format,
    )
    typer.echo(made)


@app.command()
@takes_common("Also write the facts as JSON to this file.")
def info(
    common: Common,
    trace: TraceFile,
    capacity: Annotated[str, typer.Option("--capacity", "-K", help="K at which an optimum is wanted.")] = "8",
    switch_cost: SwitchCost = "1",
    format: FileFormat = None,
) -> None:
    """Say what a trace file holds. Also lists the ways to its optimum that apply."""
    from softhit_lab.single import print_facts

    k, lam = ranges.whole("capacity", capacity, low=1), ranges.switch_cost(switch_cost)
    print_facts(trace, k, lam, common.variant, common.output, format)


@app.command()
@takes_common("Write the schedule (one policy only) to this file.")
def run(
    common: Common,
    trace: TraceFile,
    policy: Annotated[str, typer.Option("--policy", "-p", help="Names, or module:Class; comma list.")],
    capacity: Capacity,
    switch_cost: SwitchCost = "1",
) -> None:
    """Run policies on a trace and split what they pay."""
    from softhit_lab.single import run_policies

    k, lam = ranges.whole("capacity", capacity, low=1), ranges.switch_cost(switch_cost)
    run_policies(trace, ranges.split_specs(policy), k, lam, common.seed, common.variant, common.output)


@app.command()
@takes_common("Write the schedule, what it held, to this file.")
def replay(
    common: Common,
    trace: TraceFile,
    capacity: Capacity,
    switch_cost: SwitchCost = "1",
    program: Annotated[
        str | None,
        typer.Option("--exec", help="A program that speaks the line protocol, in quotes."),
    ] = None,
    adapter: Annotated[
        str | None, typer.Option("--adapter", help="A library by the name of its adapter, or module:Class.")
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", help="Seconds per reply, 30 at least for the first; default 10, adapters 30."
        ),
    ] = None,
    opt_method: Method = "auto",
    opt_time_limit: Limit = None,
) -> None:
    """Drive somebody else's cache through a trace. Verifies and prices what it held.

    --exec runs the program that you name, with your rights. Exits with 1 if the implementation breaks the
    protocol or its capacity, stalls, aborts or ends.
    """
    from softhit_lab.replay import replay_trace

    replay_trace(
        trace,
        program,
        adapter,
        ranges.whole("capacity", capacity, low=1),
        ranges.switch_cost(switch_cost),
        common.seed,
        common.variant,
        ranges.seconds("timeout", timeout),
        opt_method,
        ranges.seconds("opt_time_limit", opt_time_limit),
        common.output,
    )


@app.command()
@takes_common("Write what proves it, a certificate, to this file; ending in .parquet: the schedule.")
def opt(
    common: Common,
    trace: TraceFile,
    capacity: Capacity,
    switch_cost: SwitchCost = "1",
    method: Annotated[str, typer.Option("--method", help="auto, or one that `softhit info` lists.")] = "auto",
    gap: Annotated[
        str | None, typer.Option("--gap", help="Stop when (cost - bound) / cost is this, e.g. 0.001 or 0.1%.")
    ] = None,
    iterations: Annotated[
        str | None, typer.Option("--iterations", help="Of the ascent of lagrangian; the same everywhere.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option("--time-limit", help="Seconds; results then depend on the machine.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also say why this method, and what is not guaranteed.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Find the best schedule in hindsight, or bounds on it. Says what is proved.

    Without --gap, --iterations and --time-limit, lagrangian, which auto takes for large soft traces, stops
    at a gap of 0.1 % or after 120 seconds, whichever comes first; other methods go on to their end. Ctrl-C
    ends the search with the bounds so far. With -o FILE, a run of lagrangian that has not reached its gap
    leaves FILE.state, and the same command goes on from there.
    """
    from softhit_lab.single import Stops, solve_trace

    k, lam = ranges.whole("capacity", capacity, low=1), ranges.switch_cost(switch_cost)
    stops = Stops(
        gap=ranges.share("gap", gap),
        iterations=None if iterations is None else ranges.whole("iterations", iterations, high=10**9),
        seconds=ranges.seconds("time_limit", time_limit),
    )
    if solve_trace(trace, k, lam, common.variant, method, stops, common.output, explain, quiet):
        raise typer.Exit(130)


@app.command()
@takes_common("Also write the verdict as JSON to this file.")
def verify(
    common: Common,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate or a schedule.")],
    trace: TraceFile,
    capacity: Annotated[
        str | None,
        typer.Option(
            "--capacity", "-K", help="K that a certificate must be for; of a schedule instead of its own."
        ),
    ] = None,
    switch_cost: Annotated[
        str | None, typer.Option("--switch-cost", "-l", help="The same for lambda.")
    ] = None,
) -> None:
    """Check a certificate or a schedule against a trace. Exits with 1 if it is rejected."""
    from softhit_lab.single import verify_file

    k = None if capacity is None else ranges.whole("capacity", capacity, low=1)
    lam = None if switch_cost is None else ranges.switch_cost(switch_cost)
    if not verify_file(file, trace, k, lam, common.named, common.output):
        raise typer.Exit(1)


@app.command()
@takes_common("The result folder; default results/ratio.")
def ratio(
    common: Common,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="Comma list of policies; all = every online one.")
    ],
    family: Annotated[str | None, typer.Option("--family", "-f", help="A family of traces.")] = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="A trace file instead of a family.")] = None,
    capacity: Annotated[str, typer.Option("--capacity", "-K", help="List or range, e.g. 2:128.")] = "8",
    steps: Annotated[
        str | None,
        typer.Option("--steps", "-T", help="List or range, e.g. 1e3:1e5; default 1e4, or the whole file."),
    ] = None,
    switch_cost: Annotated[str, typer.Option("--switch-cost", "-l", help="List or range a:b:n.")] = "1",
    seeds: Annotated[str, typer.Option("--seeds", help="How many, from --seed on.")] = "1",
    settings: Settings = None,
    opt_method: Method = "auto",
    opt_time_limit: Limit = None,
    jobs: Jobs = None,
    backend: Backend = "loky",
    figures: Annotated[bool, typer.Option(help="Draw the figures too.")] = True,
) -> None:
    """Compare policies with the optimum over K, T, lambda and seeds. The same command resumes."""
    from softhit_lab.verbs import sweep_from_options

    n = ranges.whole("seeds", seeds, low=1, high=10**6)
    sweep_from_options(
        policies=ranges.split_specs(policy),
        family=family,
        file=trace,
        settings=ranges.settings(settings or []),
        capacities=ranges.capacities(capacity),
        steps=None if steps is None else ranges.steps(steps),
        switch_costs=ranges.switch_costs(switch_cost),
        seeds=range(common.seed, common.seed + n),
        variant=common.variant,
        method=opt_method,
        time_limit=ranges.seconds("opt_time_limit", opt_time_limit),
        folder=common.output or Path("results/ratio"),
        jobs=_processes(jobs),
        backend=backend,
        with_figures=figures,
    )


@app.command()
@takes_common("Write the worst trace to this file; a search that is interrupted leaves its state beside it.")
def attack(
    common: Common,
    capacity: Capacity,
    policy: OnePolicy = None,
    program: Program = None,
    switch_cost: SwitchCost = "1",
    budget: Annotated[
        str, typer.Option("--budget", help="Evaluations, e.g. 1e4; or a time, e.g. 60s or 5m.")
    ] = "60s",
    steps: AboutSteps = "2000",
    items: Annotated[
        str | None, typer.Option("--items", help="N > K; default K + 1. More are slower.")
    ] = None,
    length: Annotated[
        str | None,
        typer.Option("--length", help="Requests before they repeat, at most; default 24 to 60, or 3 N."),
    ] = None,
    near: Annotated[
        str | None,
        typer.Option("--near", help="Soft hits: items on a ring, whose neighbours serve with this quality."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Search for the worst requests for a policy.

    What is found repeats itself for ever, and its ratio is that of what the second half of the trace costs
    the policy to what it adds to the exact optimum. --exec runs the program that you name, with your rights.
    Ctrl-C keeps the best so far; with -o the same command goes on from there.
    """
    from softhit_lab.attack import Target, read_budget
    from softhit_lab.attack import attack as run_attack

    k, lam = ranges.whole("capacity", capacity, low=1, high=10**6), ranges.switch_cost(switch_cost)
    interrupted = run_attack(
        Target(policy, program, k, lam, common.variant),
        read_budget(budget),
        ranges.whole("steps", steps, low=2, high=10**7),
        None if items is None else ranges.whole("items", items, low=k + 1, high=10**6),
        None if length is None else ranges.whole("length", length, low=2, high=10_000),
        None if near is None else ranges.quality("near", near),
        common.seed,
        common.output,
        quiet,
    )
    if interrupted:
        raise typer.Exit(130)


@app.command()
@takes_common("Write the small trace to this file.")
def shrink(
    common: Common,
    trace: TraceFile,
    capacity: Capacity,
    policy: OnePolicy = None,
    program: Program = None,
    switch_cost: SwitchCost = "1",
    ratio: Annotated[
        str | None,
        typer.Option(
            "--at-least", "-R", help="The ratio to keep, or inf; default: what it is, 95 % if that is a mean."
        ),
    ] = None,
    steps: AboutSteps = "2000",
    quiet: Quiet = False,
) -> None:
    """Reduce a trace while it stays as bad for a policy.

    A trace that does not repeat itself is taken as repeated for ever. Nothing smaller than the result by one
    request, or by one item, keeps the ratio.
    """
    from softhit_lab.attack import Target, shrink_trace

    k, lam = ranges.whole("capacity", capacity, low=1, high=10**6), ranges.switch_cost(switch_cost)
    target = Target(policy, program, k, lam, common.variant)
    shrink_trace(trace, target, ratio, ranges.whole("steps", steps, low=2, high=10**7), common.output, quiet)


@app.command()
@takes_common("Also write the table as CSV to this file.")
def policies(common: Common) -> None:
    """List the policies: admission x eviction."""
    from softhit_lab.verbs import print_policies

    print_policies(common.output)


@app.command()
@takes_common("Also write the table as CSV to this file.")
def families(common: Common) -> None:
    """List the families of traces and their parameters."""
    from softhit_lab.verbs import print_families

    print_families(common.output)


@app.command()
@takes_common("The table as csv or .md; with an ID: the folder to draw its figure into.")
def claims(
    common: Common,
    name: Annotated[str | None, typer.Argument(metavar="ID", help="A claim, e.g. C1.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Run the checks of the claim.")] = False,
    mutants: Annotated[bool, typer.Option("--mutants", help="Run its mutants too.")] = False,
    slow: Annotated[bool, typer.Option("--slow", help="Leave no check out.")] = False,
) -> None:
    """List what is claimed, or explain one claim."""
    from softhit_lab.claims import explain_claim, print_claims

    if name is None:
        if check or mutants or slow:
            raise typer.BadParameter("--check, --mutants and --slow need an ID; all at once: pytest theory/")
        print_claims(common.output)
    else:
        explain_claim(name, common.output, check, mutants, slow)


@app.command()
@takes_common("The result folder; default results/demo.")
def demo(
    common: Common,
    data: Annotated[Path | None, typer.Option("--data", help="A LoCoMo json, or any trace file.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Smaller sweeps, fewer policies.")] = False,
    jobs: Jobs = None,
) -> None:
    """A first run: sweeps, tables, figures and a report. Takes a few minutes."""
    from softhit_lab.demo import run_demo

    run_demo(common.output or Path("results/demo"), data, fast, common.seed, common.variant, _processes(jobs))


@app.command()
@takes_common("The folder to draw into; default: figures/ beside the cells.")
def figures(
    common: Common,
    results: Annotated[
        Path | None, typer.Argument(help="A result folder; without one: README's figures.")
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Draw a result folder again, or the figures of the documents."""
    if results is None:
        from softhit_lab.demo import draw_documents

        draw_documents(common.output or Path("docs/img"), _processes(jobs))
    else:
        from softhit_lab.verbs import draw_results

        draw_results(results, common.output)


app.add_typer(commands.app, name="hierarchy")


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
