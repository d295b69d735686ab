"""The verb ``replay``: somebody else's cache on a trace, priced here, beside the optimum."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import offline_opt
from adversaries.replay.adapter import adapter_names
from adversaries.replay.isolate import AdapterPolicy
from adversaries.replay.line import LinePolicy
from adversaries.replay.record import Answers, Replayed, replay
from offline_opt.result import OptResult
from softhit import Trace, Variant
from softhit.errors import InvalidInput
from softhit.io import write_schedule
from softhit_lab.screen import check_place, console, show_number
from softhit_lab.single import conditions
from softhit_lab.sources import open_trace

__all__ = ["replay_trace"]


def replay_trace(
    path: Path,
    program: str | None,
    adapter: str | None,
    capacity: int,
    switch_cost: Fraction,
    seed: int,
    variant: Variant,
    timeout: float | None,
    method: str,
    time_limit: float | None,
    output: Path | None,
) -> None:
    """Replay a trace file against a program or an adapter, print what it paid, and write what it held."""
    check_place(output)
    if (program is None) == (adapter is None):
        known = ", ".join(adapter_names())
        raise InvalidInput(f"give either --exec COMMAND or --adapter NAME; adapters: {known or 'none'}")
    policy: LinePolicy
    if program is not None:
        policy = LinePolicy(program, 10.0 if timeout is None else timeout)
    else:
        policy = AdapterPolicy(str(adapter), 30.0 if timeout is None else timeout)
    trace = open_trace(path)
    done = replay(policy, trace, capacity, switch_cost, seed, variant)
    best = offline_opt.solve(
        trace, capacity, switch_cost, variant=variant, method=method, time_limit=time_limit, gap=0.001
    )
    screen = console()
    title = f"{path.name}: K = {capacity}, lambda = {switch_cost}, {variant.label}, seed {seed}"
    screen.print(title, markup=False, soft_wrap=True)
    for name, text in _lines(done, trace, best).items():
        screen.print(f"{name:>9}  {text}", markup=False, soft_wrap=True)
    if output is not None:
        facts = {
            "policy": f"exec:{program}" if program is not None else f"adapter:{adapter}",
            "client": f"{done.client.name} {done.client.version}".strip(),
            "seed": seed,
            **conditions(trace, capacity, switch_cost, variant),
        }
        write_schedule(done.schedule, output, facts)


def _lines(done: Replayed, trace: Trace, best: OptResult) -> dict[str, str]:
    paid, client = done.cost, done.client
    ahead = f", steps sent ahead: {client.ahead}" if client.ahead and not client.vectors else ""
    lines = {
        "replayed": f"{client.name} {client.version}".strip() + f", {trace.n_steps} steps{ahead}",
        "cost": f"{show_number(paid.fraction)} = misses {show_number(paid.misses)}"
        f" + switching {show_number(paid.switching)} ({paid.insertions} inserted, {paid.paid} paid for)",
    }
    low, high = Fraction(best.lower_bound), None if best.cost is None else Fraction(best.cost.fraction)
    kind = f"{best.kind}, by {best.method}"
    if high is None:
        lines["OPT"] = f">= {show_number(low)} ({kind})"
    elif best.kind.startswith("exact"):
        lines["OPT"] = f"{show_number(high)} ({kind})"
        low = high
    else:
        lines["OPT"] = f"{show_number(low)} .. {show_number(high)} ({kind})"
    lines["ratio"] = _ratio(Fraction(paid.fraction), low, high)
    share = (
        f" of {trace.n_queries} queries ({100 * done.hits / trace.n_queries:.1f} %)"
        if trace.n_queries
        else ""
    )
    lines["hits"] = f"{done.hits}{share}, from what it held"
    if done.answers is not None:
        lines |= _answers(done.answers)
    return lines


def _ratio(paid: Fraction, low: Fraction, high: Fraction | None) -> str:
    upper = "unbounded" if low == 0 else f"{float(paid / low):.6g}"
    if high == low:
        return "OPT is 0" if low == 0 else upper
    if high is None or high == 0:
        return f"at most {upper}"
    return f"{float(paid / high):.6g} .. {upper}"


def _answers(said: Answers) -> dict[str, str]:
    lines = {"answers": f"it says itself that it answered {said.hits}"}
    for name, steps, what in (
        ("silent", said.silent, "it held an item that serves the query and answered with none"),
        ("ghosts", said.ghosts, "it answered with an item that it did not hold"),
    ):
        if steps:
            lines[name] = f"{len(steps)} times {what}, first at step {steps[0]}"
    return lines
