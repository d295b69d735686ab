"""What is done with one trace: make it, look at it, run policies on it, find its optimum, verify a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import offline_opt
from adversaries.families import make_trace
from offline_opt.certificate import Certificate, certify, check_certificate, write_certificate
from offline_opt.facade import Problem, choose
from offline_opt.soft.lagrangian import State, default_iterations
from softhit import Trace, Variant, cost, floor_units, make_policy, simulate
from softhit.errors import InvalidInput, InvalidSchedule
from softhit.io import convert_requests, read_schedule, schedule_metadata, write_schedule, write_trace
from softhit.io.files import existing
from softhit.io.formats import guess_format
from softhit.io.stream import WRITABLE
from softhit.retrieval import utility_scale
from softhit_lab.screen import check_place, console, show_number, write_json
from softhit_lab.sources import open_trace
from softhit_lab.tables import Sheet
from softhit_lab.telling import Telling
from softhit_lab.work import count_hits, naming

__all__ = ["Stops", "make_or_convert", "print_facts", "run_policies", "solve_trace", "verify_file"]

STOPS = {
    "optimal": "the bounds meet",
    "target": "the wanted gap is reached",
    "gap": "it narrows no further",
    "iterations": "all planned work is done",
    "time": "the time limit was reached",
    "interrupted": "it was interrupted",
    "rejected": "a solver's answer failed a check and was not used",
}
"""Stop reasons in words."""


@dataclass(frozen=True)
class Stops:
    """What ends the search for an optimum; None: not asked for.

    Attributes
    ----------
    gap : float or None
        A part of the cost.
    iterations : int or None
    seconds : float or None
    """

    gap: float | None = None
    iterations: int | None = None
    seconds: float | None = None


USUAL_STOPS = Stops(gap=0.001, seconds=120.0)
"""Where nothing else is asked for, ``lagrangian`` stops at the one that comes first."""


def make_or_convert(
    source: str,
    capacity: int,
    steps: int,
    switch_cost: Fraction,
    seed: int,
    settings: Mapping[str, str],
    output: Path | None,
    format: str | None = None,
) -> str:
    """Make a family's trace or read a file, write it if asked to, and describe it in one line.

    A log of plain requests is converted a chunk at a time, in memory that grows with its items only.
    """
    check_place(output)
    # a folder may well be named after the family whose results it holds
    if Path(source).suffix or Path(source).is_file():
        if settings:
            raise InvalidInput(f"set is for families; {source!r} is a file")
        if output is not None and _is_log(source, format) and guess_format(output).name in WRITABLE:
            done = convert_requests(source, output, format)
            n = done.n_steps
            return (
                f"<Trace {Path(source).name}: {n} steps ({n} queries), {done.n_items} items, {n} entries, "
                f"{done.hash[:12]}>"
            )
        made = open_trace(source, format)
    elif format is not None:
        raise InvalidInput(f"format is for files; {source!r} is none")
    else:
        made = make_trace(source, capacity, steps, switch_cost, seed, **settings)
    if output is not None:
        write_trace(made, output)
    return repr(made)


def _is_log(source: str, format: str | None) -> bool:
    """Whether a file holds plain requests whatever is in it."""
    path = existing(source, "trace file")
    with path.open("rb") as file:
        if format is None and file.read(4) == b"PAR1":
            return False
    return (guess_format(path).name if format is None else format) in ("csv", "ids", "oracleGeneral")


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


def methods_for(problem: Problem) -> tuple[list[str], dict[str, str]]:
    """Return the methods that apply to a problem, and why the others do not."""
    reasons = {name: method.applies(problem) for name, method in offline_opt.METHODS.items()}
    return [n for n, why in reasons.items() if why is None], {
        n: w for n, w in reasons.items() if w is not None
    }


def print_facts(
    path: Path,
    capacity: int,
    switch_cost: Fraction,
    variant: Variant,
    output: Path | None,
    format: str | None = None,
) -> None:
    """Print what a trace file holds and which ways to its optimum apply."""
    check_place(output)
    trace = open_trace(path, format)
    facts = facts_of(trace, variant)
    apply, others = methods_for(Problem(trace, capacity, switch_cost, variant))
    facts["methods"] = {
        "capacity": capacity,
        "switch_cost": str(switch_cost),
        "apply": apply,
        "others": others,
    }
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
        "floor F": f"{show_number(Fraction(facts['floor']))} ({variant.label})",
        "hash": facts["hash"],
    }
    for name in apply:
        lines[name] = offline_opt.METHODS[name].guarantee
    for name, why in others.items():
        lines[name] = f"does not apply: {why}"
    for key in ("generator", "source", "parameters", "seed", "forces"):
        if facts["metadata"].get(key) is not None:
            value = facts["metadata"][key]
            lines[key] = value if isinstance(value, str) else json.dumps(value)
    origin = next((name for name in ("generator", "source") if name in lines), None)
    screen = console()
    for name, text in lines.items():
        if name == apply[0]:
            screen.print(f"to find the optimum at K = {capacity}, lambda = {switch_cost}:", markup=False)
        elif name == origin:
            screen.print("where it comes from:")
        screen.print(f"{name:>12}  {text}", markup=False, soft_wrap=True)
    write_json(facts, output)


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
    check_place(output)
    if not specs:
        raise InvalidInput("policy must name at least one policy")
    if output is not None and len(specs) > 1:
        raise InvalidInput(f"a schedule file holds one policy; got {len(specs)}: {', '.join(specs)}")
    chosen = [(spec, make_policy(spec)) for spec in specs]
    trace = open_trace(path)
    floor = Fraction(floor_units(trace, variant), utility_scale(trace.quality_scale, variant))
    lines = []
    for spec, policy in chosen:
        with naming(spec):
            schedule = simulate(policy, trace, capacity, switch_cost, seed, variant=variant)
            paid = cost(schedule, trace, capacity, switch_cost, variant)
        hits = count_hits(schedule, trace, variant)
        share = f"{100 * paid.switch_units / paid.units:.1f} %" if paid.units else "-"
        hit = f"{100 * hits / trace.n_queries:.1f} %" if trace.n_queries else "-"
        numbers = (paid.fraction, paid.misses, paid.switching)
        lines.append((spec, *map(show_number, numbers), share, str(paid.insertions), str(paid.paid), hit))
        if output is not None:
            facts = {"policy": spec, "seed": seed, **conditions(trace, capacity, switch_cost, variant)}
            write_schedule(schedule, output, facts)
    head = ("policy", "cost", "misses", "switching", "share", "inserted", "paid for", "hit ratio")
    title = f"{path.name}: K = {capacity}, lambda = {switch_cost}, {variant.label}, seed {seed}"
    note = f"T = {trace.n_steps}, floor F = {show_number(floor)}"
    Sheet(title, head, lines, note).show(console())


def solve_trace(
    path: Path,
    capacity: int,
    switch_cost: Fraction,
    variant: Variant,
    method: str,
    stops: Stops,
    output: Path | None,
    explain: bool = False,
    quiet: bool = False,
) -> bool:
    """Find the optimum of a trace file, print what is proved about it, and write what proves it.

    ``explain`` adds what the method promises, what of that holds here, and which other methods there are.
    Beside ``output`` a run of ``lagrangian`` that has not reached its target leaves its state, from which the
    next one goes on. Returns whether Ctrl-C ended the search; what had been found is printed and written.
    """
    check_place(output)
    trace = open_trace(path)
    problem = Problem(trace, capacity, switch_cost, variant)
    name, _ = choose(problem, method)
    place = None if output is None else output.with_name(output.name + ".state")
    state = None if place is None else _open_state(place, problem)
    with Telling(console(error=True), quiet) as tell:
        if name == "lagrangian":
            stops = USUAL_STOPS if stops == Stops() else stops
            tell.announce(f"lagrangian: {len(trace.items)} entries; {_plan(stops, trace)}")
            if state is not None:
                tell.announce(f"lagrangian: goes on from {place}, {state.iterations} iterations so far")
        found = offline_opt.solve(
            trace,
            capacity,
            switch_cost,
            variant=variant,
            method=method,
            time_limit=stops.seconds,
            progress=None if quiet else tell,
            gap=0.0 if stops.gap is None else stops.gap,
            iterations=stops.iterations,
            state=state,
        )
    finished = found.status.stop in ("optimal", "target")
    if place is not None and found.state is not None and not finished:
        # first of all: it holds everything, should writing the rest be interrupted
        found.state.save(place)
    screen = console()
    screen.print(f"{path.name}: K = {capacity}, lambda = {switch_cost}, {variant.label}", markup=False)
    screen.print(f"kind   {found.kind}", markup=False)
    if found.cost is not None:
        split = f"{show_number(found.cost.misses)} misses + {show_number(found.cost.switching)} switching"
        screen.print(f"cost   {show_number(found.cost.fraction)} = {split}", markup=False)
    screen.print(f"bound  {show_number(Fraction(found.lower_bound))}", markup=False)
    screen.print(found.explain(), markup=False, soft_wrap=True)
    if explain:
        for line in _explanation(found, problem, method):
            screen.print(line, markup=False, soft_wrap=True)
    if output is not None:
        _write_found(found, problem, output)
    if place is not None and finished:
        place.unlink(missing_ok=True)
    elif place is not None and found.state is not None:
        screen.print(f"state {place}: the same command goes on from here", markup=False, soft_wrap=True)
    return found.status.stop == "interrupted"


def _plan(stops: Stops, trace: Trace) -> str:
    """Say what will end a run of ``lagrangian``."""
    n = default_iterations(trace) if stops.iterations is None else stops.iterations
    ends = [] if stops.gap is None else [f"at a gap of {100 * stops.gap:.6g} %"]
    if stops.seconds is None:
        ends.append(f"after {n} iterations and the improvements that follow")
    else:
        ends.append(f"after {stops.seconds:.6g} s, when {n} iterations are done and nothing is gained")
    return f"stops {', '.join(ends)}, or on Ctrl-C with the bounds so far"


def _open_state(place: Path, problem: Problem) -> State | None:
    """Read the state beside an output, if there is one, and refuse that of another instance."""
    if not place.exists():
        return None
    state = State.load(place)
    if state.instance == problem.instance:
        return state
    names = ("trace", "capacity", "switch_cost", "variant")
    theirs, ours = state.instance.split(), problem.instance.split()
    other = [
        f"{name} {a[:40]}, not {b[:40]}" for name, a, b in zip(names, theirs, ours, strict=False) if a != b
    ]
    raise InvalidInput(
        f"{str(place)!r} is the state of a run about another instance ({'; '.join(other)}): "
        "remove it, or give another -o"
    )


def _write_found(found: offline_opt.OptResult, problem: Problem, output: Path) -> None:
    """Write the schedule if the name ends in .parquet, else a certificate."""
    trace, capacity = problem.trace, problem.capacity
    switch_cost, variant = problem.switch_cost, problem.variant
    if output.suffix != ".parquet":
        certificate = certify(found, trace, capacity, switch_cost, variant)
        write_certificate(certificate, output)
        proved = f"{show_number(certificate.lower_bound)} <= OPT <= {show_number(certificate.upper_bound)}"
        console().print(f"certificate {output}: {proved}", markup=False, soft_wrap=True)
    elif found.schedule is None:
        raise InvalidInput("there is no schedule to write; give the method more time")
    else:
        facts = {"method": found.method, **conditions(trace, capacity, switch_cost, variant)}
        write_schedule(found.schedule, output, facts)


def _explanation(found: offline_opt.OptResult, problem: Problem, asked: str) -> list[str]:
    """Say what was chosen and why, what is and is not guaranteed, and what else there is."""
    chosen = offline_opt.METHODS[found.method]
    bound = "the lower bound, proved in exact arithmetic"
    stopped = STOPS.get(found.status.stop, "reported by the solver")
    if found.kind == "exact":
        sure, unsure = f"the optimum: {bound}, equals the cost of a verified schedule", "nothing"
        if found.method == "dp":
            unsure = "a certificate that shows as much: the proof is that all sets were gone through"
    elif found.cost is None:
        sure, unsure = bound, "anything about a schedule: there is none"
    else:
        sure = f"{bound}, and the cost, that of a verified schedule"
        unsure = "that this schedule is optimal, or that any attains the lower bound"
        if found.kind == "exact (solver)":
            unsure = "that no schedule is cheaper: this rests on the solver's word"
            stopped = "so the solver says"
        elif problem.trace.structure.scored or problem.variant.aggregator == "coverage":
            unsure += "; with a score or coverage prices bound a relaxation, so the gap may not close"
    if found.status.stop in ("time", "interrupted"):
        unsure += f"; the same numbers on another machine: {stopped}"
    how = "auto" if asked == "auto" else "by name"
    lines = [
        "",
        f"chosen          {found.method} ({how}): {found.reason}",
        f"it applies to   {chosen.scope}",
        f"it promises     {chosen.guarantee}",
        f"guaranteed      {sure}",
        f"not guaranteed  {unsure}",
        f"stop reason     {found.status.stop}: {stopped}",
        f"incumbent       {'yes, a verified schedule' if found.status.incumbent else 'no schedule'}",
        f"certified       {'yes, all that is stated above as proved' if found.status.certified else 'no'}",
        f"certificate     {_provable(found)}",
        "other methods",
    ]
    width = max(map(len, offline_opt.METHODS))
    for name, method in offline_opt.METHODS.items():
        if name != found.method:
            why = method.applies(problem)
            text = method.guarantee if why is None else f"does not apply: {why}"
            lines.append(f"  {name:<{width}}  {text}")
    return lines


def _provable(found: offline_opt.OptResult) -> str:
    """Say what a certificate of this answer would hold."""
    if found.method == "dp":
        return (
            "no certificate says that this is the optimum: it was found by exhaustion; with -o the bracket "
            "LB <= OPT <= UB that prices prove, whose LB may lie below OPT"
        )
    if found.kind == "exact":
        return "with -o, of the optimum: LB = UB"
    if found.kind == "exact (solver)":
        return (
            "no certificate says that this is the optimum: branch and bound leaves nothing to check; with "
            "-o the bracket LB <= OPT <= UB that prices prove"
        )
    return "with -o, of the bracket LB <= OPT <= UB"


def conditions(trace: Trace, capacity: int, switch_cost: Fraction, variant: Variant) -> dict[str, Any]:
    """Return what a schedule was made for, as its file records it."""
    return {
        "trace": trace.hash,
        "capacity": capacity,
        "switch_cost": str(switch_cost),
        "variant": {name: getattr(variant, name) for name in Variant.__dataclass_fields__},
    }


def verify_file(
    file: Path,
    trace_file: Path,
    capacity: int | None,
    switch_cost: Fraction | None,
    variant: Mapping[str, Any],
    output: Path | None,
) -> bool:
    """Check a certificate or a schedule against a trace, print the verdict, and return it.

    A certificate says itself what it is about; one about something else than what is given here is rejected.
    A schedule was written with its conditions; what is given here (``variant``: some of its fields) takes
    their place.
    """
    check_place(output)
    with existing(file, "file").open("rb") as stream:
        first = stream.read(1)
    with existing(trace_file, "trace file").open("rb") as stream:
        if stream.read(40).startswith(b'{"format":"softhit-certificate"'):
            raise InvalidInput(
                f"the certificate comes first, then the trace; {str(trace_file)!r} is a certificate"
            )
    trace = open_trace(trace_file)
    if first == b"{":
        data = file.read_bytes()
        verdict = check_certificate(data, trace)
        proved, reason = verdict.proved, verdict.reason
        asked = {"capacity": capacity, "switch_cost": switch_cost, **variant}
        other = _differs(Certificate.from_bytes(data), asked) if proved else None
        if other is not None:
            proved, reason = False, other
    else:
        proved, reason = _verify_schedule(file, trace, capacity, switch_cost, variant)
    console().print(f"{'valid' if proved else 'rejected'}: {reason}", markup=False, soft_wrap=True)
    write_json({"valid": proved, "reason": reason}, output)
    return proved


def _differs(certificate: Certificate, asked: Mapping[str, Any]) -> str | None:
    """Say in what a certificate speaks about another problem than the one asked about."""
    for name, value in asked.items():
        home = certificate.variant if name in Variant.__dataclass_fields__ else certificate
        if value is not None and value != getattr(home, name):
            return f"the certificate is for {name} {getattr(home, name)}, not {value}"
    return None


def _verify_schedule(
    file: Path,
    trace: Trace,
    capacity: int | None,
    switch_cost: Fraction | None,
    given: Mapping[str, Any],
) -> tuple[bool, str]:
    schedule, facts = read_schedule(file), schedule_metadata(file)
    k = facts.get("capacity") if capacity is None else capacity
    lam = facts.get("switch_cost") if switch_cost is None else switch_cost
    if k is None or lam is None:
        raise InvalidInput(f"{str(file)!r} does not say its capacity and switch_cost; give both")
    if facts.get("trace", trace.hash) != trace.hash:
        return False, "the schedule is for another trace: the hashes differ"
    stated = facts.get("variant", {})
    if not isinstance(stated, dict) or not stated.keys() <= Variant.__dataclass_fields__.keys():
        raise InvalidInput(f"{str(file)!r} states a variant that is none: {stated!r}")
    variant = Variant(**{**stated, **given})
    if schedule.n_steps != trace.n_steps:
        return False, f"the schedule has {schedule.n_steps} steps, the trace {trace.n_steps}"
    try:
        paid = cost(schedule, trace, k, lam, variant)
    except InvalidSchedule as why:
        return False, str(why)
    return True, f"it costs {show_number(paid.fraction)} at K = {k}, lambda = {lam}, {variant.label}"
