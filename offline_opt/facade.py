"""The facade: pick the method that fits an instance, run it, and say what its answer is worth.

>>> from softhit import from_requests
>>> answer = solve(from_requests([0, 1, 0, 1]), capacity=1, switch_cost="1/2")
>>> answer.method, answer.kind, float(answer.cost)
('flow', 'exact', 3.0)
>>> print(answer.explain())
method flow: every step is served by at most one item, and all sizes are 1
OPT = 3, proved; the schedule attains it
stopped: optimal; a schedule; certified
min-cost flow by a sweep over events; the prices prove the cost
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from offline_opt import dp
from offline_opt.certificate.prices import class_prices
from offline_opt.classes import contract, lift, not_contractible
from offline_opt.result import MethodResult, OptResult, Prices, Status, confirm
from offline_opt.soft import milp
from offline_opt.soft.occasions import find_occasions
from offline_opt.soft.primal import improve, round_point
from softhit.check import check_int, check_real, fail, unknown
from softhit.cost import cost, floor_units
from softhit.errors import InvalidInput
from softhit.exact import Cost, check_switch_cost
from softhit.policies import make_policy, policy_names
from softhit.retrieval import utility_scale
from softhit.schedule import Schedule
from softhit.simulate import simulate
from softhit.trace import Trace
from softhit.variant import Variant

if TYPE_CHECKING:
    from offline_opt.soft.state import State

__all__ = ["METHODS", "Method", "Problem", "choose", "method_names", "solve"]

AUTO_WORK = 2_000_000
"""Where the caller sets no time limit, ``auto`` gives branch and bound this many nodes times entries, so that
its answer does not depend on the machine's speed."""
AUTO_CELLS = 1 << 24
"""Up to this many states x steps ``auto`` prefers the dynamic programme."""
AUTO_ENTRIES = 10_000
"""Beyond this many entries ``auto`` does not try branch and bound: it hardly improves anything there."""
AUTO_LP = 10_000
"""Beyond this many entries ``auto`` takes prices by ascent, as good as the LP relaxation and sooner there."""

_STARTS = ("lru", "lfu", "gated_lru", "fifo")


@dataclass(frozen=True)
class Problem:
    """A trace with everything else that defines the optimum, checked."""

    trace: Trace
    capacity: int
    switch_cost: Fraction
    variant: Variant

    def price(self, schedule: Schedule) -> Cost:
        """Verify and price a schedule."""
        return cost(schedule, self.trace, self.capacity, self.switch_cost, self.variant)

    @property
    def floor(self) -> Fraction:
        """F: no schedule of any capacity costs less."""
        full = utility_scale(self.trace.quality_scale, self.variant)
        return Fraction(floor_units(self.trace, self.variant), full)

    @property
    def instance(self) -> str:
        """What a saved state of it is bound to: trace hash, capacity, switch cost and variant."""
        return f"{self.trace.hash} {self.capacity} {self.switch_cost} {self.variant.label}"


class _Clock:
    """What ends a run: time, nodes of branch and bound, iterations, a gap; and where it goes on from."""

    def __init__(
        self,
        limit: float | None,
        say: Callable[[str], None] | None,
        nodes: int | None = None,
        gap: float = 0.0,
        iterations: int | None = None,
        state: State | None = None,
    ) -> None:
        self.limit, self.say, self.nodes, self.began = limit, say, nodes, time.monotonic()
        self.gap, self.iterations, self.state = gap, iterations, state

    def left(self, share: float = 1.0) -> float | None:
        if self.limit is None:
            return None
        return max(0.0, self.limit - (time.monotonic() - self.began)) * share


class _OutOfTime(Exception):
    """Raised inside a progress call to leave a solver that knows no time limit."""


Run = Callable[[Problem, _Clock], OptResult]


@dataclass(frozen=True)
class Method:
    """One row of the method table.

    Attributes
    ----------
    name : str
    guarantee : str
        What its answer is worth.
    scope : str
        What it applies to.
    applies : callable
        Problem -> None, or the reason why the method does not apply.
    run : callable
    """

    name: str
    guarantee: str
    scope: str
    applies: Callable[[Problem], str | None]
    run: Run


def _hard(problem: Problem) -> str | None:
    if not problem.trace.structure.unit_sizes:
        return "items have sizes"
    if not problem.trace.structure.hard:
        return "some step can be served by several items (soft hits)"
    return None


def _from(result: MethodResult, problem: Problem, reason: str, note: str) -> OptResult:
    """Price what a method for exact optima found; its bound counts only if it is proved."""
    priced = confirm(result, problem.trace, problem.capacity, problem.switch_cost, problem.variant)
    notes: tuple[str, ...] = (note,)
    if result.schedule is None:
        notes = (note, f"it finds the value {result.objective} without a schedule")
    return _answer(
        problem,
        result.schedule,
        priced,
        result.lower_bound,
        result.prices,
        result.stop,
        result.method,
        reason,
        notes,
        believed=result.objective if result.stop == "optimal" else None,
    )


def _answer(
    problem: Problem,
    schedule: Schedule | None,
    priced: Cost | None,
    proved: Fraction | None,
    prices: Prices | None,
    stop: str,
    method: str,
    reason: str,
    notes: tuple[str, ...],
    believed: Fraction | None = None,
) -> OptResult:
    """Assemble an answer; ``believed`` is a lower bound that rests on a solver's word."""
    if proved is None:
        proved, notes = problem.floor, (*notes, "the proved lower bound is the floor F only")
        prices = None
    if priced is not None and priced.fraction < proved:
        raise AssertionError(f"{method}: cost {priced.fraction} below the proved bound {proved}")
    if priced is not None and priced.fraction == proved:
        kind, stop = "exact", "optimal"
    elif priced is not None and believed is not None and priced.fraction == believed:
        kind = "exact (solver)"
    else:
        kind = "band"
        if stop == "optimal":
            stop, notes = "gap", (*notes, "the solver is done, within the limits of its floating point only")
    return OptResult(
        schedule=schedule,
        cost=priced,
        lower_bound=proved,
        gap=None if priced is None else priced.fraction - proved,
        kind=kind,
        certificate=prices,
        status=Status(stop=stop, incumbent=schedule is not None, certified=kind != "exact (solver)"),
        method=method,
        reason=reason,
        notes=notes,
    )


def _hold_all(problem: Problem) -> Schedule:
    """Take everything in at its first opportunity and keep it."""
    trace, variant = problem.trace, problem.variant
    occasions = find_occasions(trace, problem.capacity, variant)
    first = occasions.first & (occasions.enter >= 0)
    steps = np.flatnonzero(trace.arrivals >= 0)
    items = occasions.item[first]
    if not variant.stream:
        at = np.zeros(len(items), np.int64)
    else:
        come = np.full(trace.n_items, trace.n_steps, np.int64)
        come[trace.arrivals[steps[::-1]]] = steps[::-1]
        at = come[items]
    return Schedule.from_intervals(trace.n_steps, items, at, np.full(len(items), trace.n_steps))


def _everything_fits(problem: Problem) -> str | None:
    trace = problem.trace
    if trace.structure.scored:
        return "the retriever ranks by a score, so holding everything may hurt"
    if not problem.variant.free_fill and problem.switch_cost > 0:
        return "every insertion is charged"
    weight = np.repeat(trace.weight, np.diff(trace.indptr))
    wanted = np.unique(trace.items[(trace.quality > 0) & (weight > 0)])
    if problem.variant.stream:
        wanted = np.intersect1d(wanted, trace.arrivals)
    if sum(trace.sizes[wanted].tolist()) > problem.capacity:
        return "the items that can serve do not all fit"
    return None


def _run_all(problem: Problem, clock: _Clock) -> OptResult:
    schedule = _hold_all(problem)
    return _answer(
        problem,
        schedule,
        problem.price(schedule),
        problem.floor,
        None,
        "optimal",
        "hold_all",
        "all items that can serve fit, and holding them costs nothing",
        ("the cost is the floor F, below which no schedule goes",),
    )


_FLOW_REASON = "every step is served by at most one item, and all sizes are 1"


def _flow(trace: Trace, problem: Problem, clock: _Clock) -> MethodResult:
    from offline_opt.flow.sweep import solve_sweep

    def tell(done: int, total: int) -> None:
        if clock.say is not None:
            clock.say(f"flow: {done} of {total}")
        if clock.left() == 0.0:
            raise _OutOfTime

    needed = clock.say is not None or clock.limit is not None
    return solve_sweep(
        trace, problem.capacity, problem.switch_cost, problem.variant, progress=tell if needed else None
    )


def _run_flow(problem: Problem, clock: _Clock) -> OptResult:
    try:
        result = _flow(problem.trace, problem, clock)
    except _OutOfTime:
        return _late(problem, clock, "flow", _FLOW_REASON)
    how = "a sweep over events" if result.method == "sweep" else "successive shortest paths"
    note = f"min-cost flow by {how}; the prices prove the cost"
    answer = _from(result, problem, _FLOW_REASON, note)
    return _named(answer, "flow")


def _named(answer: OptResult, name: str) -> OptResult:
    return replace(answer, method=name)


def _late(problem: Problem, clock: _Clock, name: str, reason: str) -> OptResult:
    """An answer for an exact method that ran out of time: what the policies do, and the floor."""
    schedule, priced = _best_start(problem, [])
    note = "out of time: the schedule is a policy's, improved item by item"
    return _answer(problem, schedule, priced, None, None, "time", name, reason, (note,))


_CLASS_REASON = "items fall into classes of equal value, so each class is one item of a hard trace"


def _run_classes(problem: Problem, clock: _Clock) -> OptResult:
    hard = contract(problem.trace)
    try:
        result = _flow(hard, problem, clock)
    except _OutOfTime:
        return _late(problem, clock, "classes", _CLASS_REASON)
    confirm(result, hard, problem.capacity, problem.switch_cost, problem.variant)
    assert result.schedule is not None
    assert result.prices is not None
    schedule = lift(result.schedule, problem.trace, problem.variant)
    return _answer(
        problem,
        schedule,
        problem.price(schedule),
        result.lower_bound,
        class_prices(result.prices, problem.trace, problem.variant),
        "optimal",
        "classes",
        _CLASS_REASON,
        (f"min-cost flow on the {hard.n_items} classes; its prices, lifted to the members, prove the cost",),
    )


def _run_dp(problem: Problem, clock: _Clock) -> OptResult:
    schedule = dp.best_schedule(*_parts(problem))
    priced = problem.price(schedule)
    return _answer(
        problem,
        schedule,
        priced,
        priced.fraction,
        None,
        "optimal",
        "dp",
        "few enough items to go through all sets that a cache can hold",
        ("dynamic programme over sets: proved by exhaustion, there is no certificate to check",),
    )


def _parts(problem: Problem) -> tuple[Trace, int, Fraction, Variant]:
    return problem.trace, problem.capacity, problem.switch_cost, problem.variant


def _dp_fits(problem: Problem) -> str | None:
    return dp.too_large(problem.trace, problem.capacity, problem.variant)


def _best_start(
    problem: Problem, more: list[Schedule], prices: Prices | None = None, limit: float | None = None
) -> tuple[Schedule, Cost]:
    """The best of: nothing, a few policies, and what is given; each improved item by item."""
    trace, variant = problem.trace, problem.variant
    starts = [Schedule.from_events(trace.n_steps, [], [], [], [])]
    tried = [
        simulate(make_policy(name), trace, problem.capacity, problem.switch_cost, variant=variant)
        for name in _STARTS
        if name in policy_names()
    ]
    if tried:
        starts.append(min(tried, key=lambda schedule: problem.price(schedule).fraction))
    occasions = find_occasions(trace, problem.capacity, variant)
    found = []
    for start in [*starts, *more]:
        better = improve(start, *_parts(problem), time_limit=limit, occasions=occasions)
        found.append((problem.price(better), better))
    if prices is not None:
        for start in (starts[0], *more):
            better = improve(start, *_parts(problem), time_limit=limit, occasions=occasions, prices=prices)
            found.append((problem.price(better), better))
    priced, schedule = min(found, key=lambda pair: pair[0].fraction)
    return schedule, priced


def _bracket(problem: Problem, clock: _Clock, branch: bool, name: str, reason: str) -> OptResult:
    """Lower bound from the LP's prices, upper bound from heuristics, then branch and bound if asked for."""
    trace, variant = problem.trace, problem.variant
    notes: list[str] = []
    relaxed = milp.relax(*_parts(problem), time_limit=clock.left(0.4))
    proved, prices = relaxed.lower_bound, relaxed.prices
    certificate: Prices | None = prices
    source = "prices from the LP relaxation, in integers"
    if problem.floor > proved:
        proved, source, certificate = problem.floor, "the floor F, which is above the LP relaxation", None
    notes.append(f"lower bound: {source}")
    if relaxed.stop != "optimal":
        notes.append(f"the LP relaxation stopped early ({relaxed.stop}); its prices are valid but weaker")
    if clock.say is not None:
        clock.say(f"{name}: LP relaxation proves {float(proved):.6g}")
    occasions = find_occasions(trace, problem.capacity, variant)
    rounded = round_point(occasions, relaxed.keep + relaxed.take, trace, problem.capacity)
    stop = "gap" if relaxed.stop == "optimal" else "time"
    believed: Fraction | None = None
    try:
        schedule, priced = _best_start(problem, [rounded], prices, clock.left(0.1))
    except KeyboardInterrupt:
        schedule = Schedule.from_events(trace.n_steps, [], [], [], [])
        priced, stop = problem.price(schedule), "interrupted"
        notes.append("interrupted before there was a schedule better than none")
    within = priced.fraction - proved <= Fraction(clock.gap) * priced.fraction
    if stop != "interrupted" and within and priced.fraction > proved:
        stop = "target"
        if branch:
            notes.append("the heuristic schedule is within the wanted gap; no branch and bound was needed")
    elif branch and stop != "interrupted" and priced.fraction > proved:
        say = clock.say

        def tell(seconds: float, best: float, low: float) -> None:
            if say is not None:
                say(f"milp: {seconds:.1f} s, best {best:.6g}, bound {low:.6g}")

        try:
            out = milp.branch_and_bound(
                *_parts(problem),
                time_limit=clock.left(),
                max_nodes=clock.nodes,
                progress=tell if say is not None else None,
            )
        except KeyboardInterrupt:
            out = milp.Branching(None, None, None, "interrupted")
        stop = {"time limit": "time", "node limit": "iterations"}.get(out.stop, out.stop)
        if out.rejected is not None:
            notes.append(f"the solver's answer was rejected: {out.rejected}")
            stop = "rejected"
        if out.cost is not None and out.schedule is not None and out.cost.fraction < priced.fraction:
            schedule, priced = out.schedule, out.cost
        elif out.schedule is None and out.rejected is None:
            notes.append("branch and bound found no schedule; the one given is from heuristics")
        believed = out.lower_bound
        if believed is not None and priced.fraction > believed:
            notes.append(f"branch and bound's own lower bound, not proved: {float(believed):.10g}")
    elif branch:
        notes.append("the heuristic schedule meets the proved bound; no branch and bound was needed")
    return _answer(
        problem, schedule, priced, proved, certificate, stop, name, reason, tuple(notes), believed=believed
    )


def _run_milp(problem: Problem, clock: _Clock) -> OptResult:
    reason = "mixed-integer programme over the occasions at which presence matters"
    return _bracket(problem, clock, True, "milp", reason)


def _run_relaxation(problem: Problem, clock: _Clock) -> OptResult:
    reason = "LP relaxation against heuristic schedules"
    return _bracket(problem, clock, False, "relaxation", reason)


def _run_lagrangian(problem: Problem, clock: _Clock) -> OptResult:
    from offline_opt.soft.lagrangian import bracket

    def tell(low: float, high: float, gap: float, iteration: int, seconds: float) -> None:
        if clock.say is not None:
            clock.say(
                f"lagrangian: iteration {iteration}, {low:.6g} <= OPT <= {high:.6g}, gap {100 * gap:.3g} %"
            )

    found = bracket(
        *_parts(problem),
        iterations=clock.iterations,
        gap=clock.gap,
        time_limit=clock.left(),
        progress=None if clock.say is None else tell,
        state=clock.state,
    )
    source = "the floor F" if found.prices is None else "prices by ascent on the Lagrangian dual, in integers"
    answer = _answer(
        problem,
        found.schedule,
        found.cost,
        found.lower_bound,
        found.prices,
        "target" if found.stop == "gap" else found.stop,
        "lagrangian",
        "prices by ascent, and schedules improved by slots and windows",
        (f"lower bound: {source}; {found.iterations} iterations", *found.notes),
    )
    return replace(answer, state=found.state)


def _run_floor(problem: Problem, clock: _Clock) -> OptResult:
    reason = "the floor F against heuristic schedules"
    schedule, priced = _best_start(problem, [], None, clock.left(0.2))
    return _answer(problem, schedule, priced, None, None, "gap", "floor", reason, ())


def _peer(module: str, function: str, name: str, note: str) -> Run:
    def run(problem: Problem, clock: _Clock) -> OptResult:
        solver = getattr(importlib.import_module(module), function)
        return _named(_from(solver(*_parts(problem)), problem, _FLOW_REASON, note), name)

    return run


def _milp_fits(problem: Problem) -> str | None:
    return milp.not_supported(problem.trace, problem.variant)


def _relaxation_fits(problem: Problem) -> str | None:
    n = len(problem.trace.items)
    return None if n <= milp.MAX_ENTRIES else f"{n} entries, at most {milp.MAX_ENTRIES} fit"


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            "hold_all",
            "exact, proved by the floor F",
            "everything fits and holding is free; no score",
            _everything_fits,
            _run_all,
        ),
        Method("flow", "exact, proved by prices", "hard hits, unit sizes", _hard, _run_flow),
        Method(
            "classes",
            "exact, proved by prices",
            "rows are whole classes of items, unit sizes, one item retrieved, no score",
            lambda p: not_contractible(p.trace, p.variant),
            _run_classes,
        ),
        Method("dp", "exact, proved by exhaustion", "few items (any variant)", _dp_fits, _run_dp),
        Method(
            "milp",
            "exact if the solver's bound is believed, else a band with a proved lower bound",
            "best and mean_topk, with score and sizes",
            _milp_fits,
            _run_milp,
        ),
        Method(
            "relaxation",
            "a band with a proved lower bound",
            "anything of moderate size",
            _relaxation_fits,
            _run_relaxation,
        ),
        Method(
            "lagrangian",
            "a band with a proved lower bound near the LP relaxation's, and narrow for best and mean_topk",
            "anything of any size",
            lambda p: None,
            _run_lagrangian,
        ),
        Method(
            "floor",
            "a band from the floor F to heuristic schedules; wide",
            "anything",
            lambda p: None,
            _run_floor,
        ),
        Method(
            "networkx",
            "exact by network simplex (slow; for cross-checks)",
            "hard hits, unit sizes",
            _hard,
            _peer("offline_opt.flow.network", "solve_networkx", "networkx", "network simplex of networkx"),
        ),
        Method(
            "ortools",
            "exact by cost scaling (needs the extra 'ortools')",
            "hard hits, unit sizes",
            _hard,
            _peer("offline_opt.flow.network", "solve_ortools", "ortools", "SimpleMinCostFlow of OR-tools"),
        ),
        Method(
            "lp",
            "exact because the matrix is totally unimodular (needs the extra 'cvxpy')",
            "hard hits, unit sizes",
            _hard,
            _peer("offline_opt.flow.lp", "solve_lp", "lp", "LP through cvxpy and HiGHS"),
        ),
    )
}
"""Every method by name."""


def method_names() -> list[str]:
    """Return the names that :func:`solve` accepts, ``auto`` first."""
    return ["auto", *METHODS]


def _choose(problem: Problem) -> tuple[str, Method]:
    for name in ("flow", "hold_all", "classes"):
        if METHODS[name].applies(problem) is None:
            return "", METHODS[name]
    trace = problem.trace
    if METHODS["dp"].applies(problem) is None:
        levels = problem.capacity + 1 if problem.variant.free_fill else 1
        if (levels << dp.MAX_ITEMS) * trace.n_steps <= AUTO_CELLS or trace.n_steps <= 64:
            return "", METHODS["dp"]
    if METHODS["milp"].applies(problem) is None and len(trace.items) <= AUTO_ENTRIES:
        return f"; {len(trace.items)} entries, within auto's {AUTO_ENTRIES} for branch and bound", METHODS[
            "milp"
        ]
    if len(trace.items) <= AUTO_LP:
        why = METHODS["milp"].applies(problem) or f"{len(trace.items)} entries are too many for it"
        return f"; no branch and bound: {why}", METHODS["relaxation"]
    return f"; no LP: {len(trace.items)} entries, beyond auto's {AUTO_LP}", METHODS["lagrangian"]


def choose(problem: Problem, method: str = "auto") -> tuple[str, str]:
    """Return the name of the method that :func:`solve` runs, and what it adds to the reason.

    Raises
    ------
    UnknownName
        No such method.
    InvalidInput
        The method does not apply; the message says why, and which do.
    """
    if method == "auto":
        extra, chosen = _choose(problem)
    else:
        if method not in METHODS:
            unknown("method", method, method_names())
        extra, chosen = "", METHODS[method]
    if (why := chosen.applies(problem)) is not None:
        others = [m.name for m in METHODS.values() if m.applies(problem) is None]
        raise InvalidInput(
            f"method {chosen.name!r} does not apply: {why} (these do: {', '.join(others) or 'none'})"
        )
    return chosen.name, extra


def solve(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    method: str = "auto",
    time_limit: float | None = None,
    progress: Callable[[str], None] | None = None,
    gap: float = 0.0,
    iterations: int | None = None,
    state: State | None = None,
) -> OptResult:
    """Return the offline optimum of a trace, or the narrowest bracket around it that a method finds.

    Parameters
    ----------
    trace : Trace
    capacity : int
        K >= 1, in units of size.
    switch_cost : int, float, Fraction or str
        lambda >= 0, exactly.
    variant : Variant, optional
    method : str
        A name in :data:`METHODS`, or ``auto``: flow for hard hits, contraction for classes, the dynamic
        programme for few items, then branch and bound, else the LP relaxation with heuristics, else the
        Lagrangian bracket with a fixed number of iterations.
    time_limit : float, optional
        Seconds, >= 0; with a limit the answer depends on the machine. Methods that cannot stop in time
        (``dp`` and the peers) ignore it. Without one, ``auto`` gives branch and bound a limit of nodes
        (:data:`AUTO_WORK`), while ``milp`` by name runs to its end.
    progress : callable, optional
        Called now and then with a line of text. Ctrl-C in ``lagrangian``, and in ``milp`` and ``relaxation``
        once they have a lower bound, ends the run with the bracket so far; ``status.stop`` is then
        ``interrupted``. Elsewhere it is raised.
    gap : float
        Stop when ``(cost - bound) / cost`` is at most this: ``lagrangian`` at any time, ``milp`` before its
        branch and bound; the exact methods go on to the optimum.
    iterations : int, optional
        Of the ascent of ``lagrangian``; the others have none.
    state : State, optional
        ``state`` of an earlier answer to the same problem: ``lagrangian`` goes on from there, the others
        begin anew.

    Returns
    -------
    OptResult
        ``kind`` is ``exact`` (proved), ``exact (solver)`` or ``band``; ``explain()`` says why.

    Raises
    ------
    UnknownName
        No such method.
    InvalidInput
        A parameter is out of range, the method does not apply, or the state is of another problem; the
        message says why.
    MissingExtra
        The method needs a library that is not installed.

    Examples
    --------
    Soft hits, and more of them than the dynamic programme takes:

    >>> import numpy as np
    >>> from softhit import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> quality = rng.integers(0, 5, (30, 20)) / 4 * (rng.random((30, 20)) < 0.3)
    >>> answer = solve(from_arrays(quality, arrivals=rng.integers(0, 20, 30)), capacity=3, switch_cost=1)
    >>> answer.method, answer.kind, answer.lower_bound <= answer.cost.fraction
    ('milp', 'exact', True)
    """
    if not isinstance(trace, Trace):
        fail("trace", trace, "a Trace, as from_requests(ids) makes one")
    problem = Problem(
        trace=trace,
        capacity=check_int("capacity", capacity, low=1),
        switch_cost=check_switch_cost(switch_cost),
        variant=variant or Variant(),
    )
    limit = None if time_limit is None else check_real("time_limit", time_limit, low=0)
    wanted = check_real("gap", gap, low=0)
    turns = None if iterations is None else check_int("iterations", iterations, low=0)
    if state is not None and state.instance != problem.instance:
        raise InvalidInput(f"the state is of another instance: {state.instance}, not {problem.instance}")
    name, extra = choose(problem, method)
    nodes = AUTO_WORK // max(1, len(trace.items)) if method == "auto" and limit is None else None
    answer = METHODS[name].run(problem, _Clock(limit, progress, nodes, wanted, turns, state))
    if extra:
        answer = replace(answer, reason=answer.reason + extra)
    return answer
