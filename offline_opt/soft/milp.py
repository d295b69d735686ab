"""The soft optimum as a time-compressed mixed-integer programme, and its LP relaxation, through HiGHS.

Variables per occasion e of an item (see :mod:`offline_opt.soft.occasions`): ``keep[e]`` = held since the
item's previous occasion, ``take[e]`` = entered since; per occasion that can serve, ``serve[e]``; per boundary
where something may enter, the ``load``; with free fill the insertions ``over`` the capacity. Minimise

    W - sum w s serve / k  +  lambda sum size take      (free fill: + lambda over instead)

subject to

    keep[e] <= keep[e-1] + take[e-1]                    nothing stays that was not held
    serve[e] <= keep[e] + take[e]                       nothing serves that is not held
    sum of serve over the row of a step <= k
    load = load before + size take - size (held before, not kept);   0 <= load <= K
    sum size take - over <= K                           free fill

With a score, an item serves only if fewer than k held items are ranked above it; for k = 1 that is
``serve[e] <= 1 - held[f]`` for each better ranked f of lower quality.

Nothing that HiGHS says is taken on trust. Its point is rounded to a schedule, which must pass
``softhit.verify`` and cost, by ``softhit.cost``, what HiGHS claims; its LP duals are turned into prices whose
bound is computed in integers (:mod:`offline_opt.soft.bound`). Only the branch-and-bound's own lower bound has
to be believed, up to a tolerance: see :func:`bound_error`.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from offline_opt.result import Prices
from offline_opt.soft.bound import cost_grid, lower_bound, round_up, rounded_prices
from offline_opt.soft.occasions import Occasions, find_occasions, schedule_of
from softhit.check import check_int
from softhit.cost import cost
from softhit.errors import InvalidInput, InvalidSchedule
from softhit.exact import Cost, check_switch_cost
from softhit.retrieval import utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = [
    "FEASIBILITY",
    "MAX_ENTRIES",
    "Branching",
    "Linear",
    "Relaxation",
    "Rows",
    "bound_error",
    "branch_and_bound",
    "not_supported",
    "relax",
]

Floats = NDArray[np.float64]
Progress = Callable[[float, float, float], None]

FEASIBILITY = 1e-9
"""Primal, dual and integrality tolerance asked of HiGHS, per row or column."""
MAX_ENTRIES = 200_000
"""Entries of a trace beyond which the programme is not built."""


@dataclass(frozen=True)
class Answer:
    """What a solver says, unchecked.

    Attributes
    ----------
    stop : str
        ``optimal``, ``time limit``, ``interrupted`` or HiGHS's words for anything else.
    point : float64[columns] or None
        None if there is no feasible point, whatever the solver's arrays hold.
    objective : float
        Of ``point``; NaN without one.
    bound : float
        Lower bound of the branch and bound; -inf if there is none.
    row_dual, column_dual : float64 arrays or None
        Of a relaxation; change of the objective per unit of a row's or column's bound.
    """

    stop: str
    point: Floats | None
    objective: float
    bound: float
    row_dual: Floats | None = None
    column_dual: Floats | None = None


@dataclass(frozen=True)
class Relaxation:
    """The LP relaxation: a bound proved in integers, and the fractional point it came with.

    Attributes
    ----------
    lower_bound : Fraction
        Proved by ``prices``, whatever HiGHS did; rounded up to the grid of costs.
    value : float
        HiGHS's own value; NaN if it was stopped before the optimum.
    prices : Prices
    keep, take : float64[E]
        The point, one pair per occasion; zeros if there is none.
    stop : str
    """

    lower_bound: Fraction
    value: float
    prices: Prices
    keep: Floats
    take: Floats
    stop: str


@dataclass(frozen=True)
class Branching:
    """The outcome of branch and bound.

    Attributes
    ----------
    schedule, cost : Schedule, Cost or None
        A verified and priced incumbent, or None.
    lower_bound : Fraction or None
        HiGHS's bound less :func:`bound_error`, rounded up to the grid of costs; believed, not proved. None
        if there is none or the answer was rejected.
    stop : str
    rejected : str or None
        Why the answer was not accepted, if it was not.
    """

    schedule: Schedule | None
    cost: Cost | None
    lower_bound: Fraction | None
    stop: str
    rejected: str | None = None


@dataclass
class Rows:
    """Triplets of a matrix under construction."""

    count: int = 0
    row: list[NDArray[Any]] = field(default_factory=list)
    column: list[NDArray[Any]] = field(default_factory=list)
    value: list[Floats] = field(default_factory=list)
    low: list[Floats] = field(default_factory=list)
    high: list[Floats] = field(default_factory=list)

    def put(self, row: Any, column: Any, value: Any) -> None:
        column = np.asarray(column)
        self.row.append(np.broadcast_to(np.asarray(row), column.shape))
        self.column.append(column)
        self.value.append(np.broadcast_to(np.asarray(value, np.float64), column.shape))

    def open(self, n: int, low: float, high: Any) -> NDArray[np.int64]:
        rows = np.arange(self.count, self.count + n)
        self.low.append(np.full(n, low))
        self.high.append(np.broadcast_to(np.asarray(high, np.float64), (n,)))
        self.count += n
        return rows

    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds of all rows."""
        return np.concatenate([np.zeros(0), *self.low]), np.concatenate([np.zeros(0), *self.high])

    def matrix(self, columns: int) -> sp.csr_array:
        shape = (self.count, columns)
        if not self.row:
            return sp.csr_array(shape)
        where = (np.concatenate(self.row), np.concatenate(self.column))
        return sp.csr_array(sp.coo_array((np.concatenate(self.value), where), shape=shape))


@dataclass(frozen=True, eq=False)
class Linear:
    """A mixed-integer linear programme in the form HiGHS takes: minimise, rows and columns between bounds."""

    matrix: sp.csr_array
    row_low: Floats
    row_high: Floats
    objective: Floats
    constant: float
    low: Floats
    high: Floats
    integer: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Programme(Linear):
    """The programme of a trace, with the places of what is read back."""

    occasions: Occasions
    serve_steps: NDArray[np.int64]
    serve_rows: NDArray[np.int64]
    load_boundaries: NDArray[np.int64]
    load_columns: NDArray[np.int64]
    load_unit: float
    over_row: int
    credit_steps: NDArray[np.int64]
    credit_rows: NDArray[np.int64]


def not_supported(trace: Trace, variant: Variant) -> str | None:
    """Say why the programme does not describe the instance exactly, or None if it does."""
    if variant.aggregator == "coverage" and variant.top_k > 1:
        return "coverage is not linear in what is held (the programme only bounds it)"
    if len(trace.items) > MAX_ENTRIES:
        return f"{len(trace.items)} entries, at most {MAX_ENTRIES} fit"
    return None


def build(trace: Trace, capacity: int, switch_cost: Any, variant: Variant, ranked: bool = True) -> Programme:
    """Write the programme down. For ``coverage`` it is a relaxation, for all else exact.

    ``ranked=False`` leaves out the rows that a score needs: the optimum then chooses what it retrieves, as
    in the bound from prices.
    """
    lam = float(check_switch_cost(switch_cost))
    occasions = find_occasions(trace, capacity, variant)
    full = utility_scale(trace.quality_scale, variant)
    n = len(occasions)
    at = occasions.step.astype(np.int64)
    quality = trace.quality[occasions.entry].astype(np.float64)
    weight = trace.weight[at].astype(np.float64)
    size = trace.sizes[occasions.item].astype(np.float64)
    unit = float(size.max(initial=1.0))  # loads in units of the largest item
    size, room = size / unit, capacity / unit
    here = np.arange(n)
    later = np.flatnonzero(~occasions.first)
    serving = np.flatnonzero(quality > 0)
    boundaries = np.unique(occasions.enter[occasions.enter >= 0]).astype(np.int64)

    keep, take = here, n + here
    serve_of = np.full(n, -1, np.int64)
    serve_of[serving] = 2 * n + np.arange(len(serving))
    load = 2 * n + len(serving) + np.arange(len(boundaries))
    columns = 2 * n + len(serving) + len(boundaries)
    over = columns
    columns += int(variant.free_fill)
    covered = variant.aggregator == "coverage" and variant.top_k > 1
    rated = np.unique(at[serving]) if covered else np.zeros(0, np.int64)
    worth = columns + np.arange(len(rated))
    columns += len(rated)

    objective, low, high = np.zeros(columns), np.zeros(columns), np.ones(columns)
    if covered:
        objective[worth] = -trace.weight[rated]
    else:
        objective[serve_of[serving]] = -(weight * quality / full)[serving]
    high[keep[occasions.first]] = 0.0
    high[take[occasions.enter < 0]] = 0.0
    high[load] = room
    rows = Rows()

    r = rows.open(len(later), -np.inf, 0.0)
    rows.put(r, keep[later], 1.0)
    rows.put(r, keep[later - 1], -1.0)
    rows.put(r, take[later - 1], -1.0)

    r = rows.open(len(serving), -np.inf, 0.0)
    rows.put(r, serve_of[serving], 1.0)
    rows.put(r, keep[serving], -1.0)
    rows.put(r, take[serving], -1.0)

    # a row that offers at most k items needs no limit
    steps, where, counts = np.unique(at[serving], return_inverse=True, return_counts=True)
    crowded = counts > variant.top_k
    serve_rows = rows.open(int(crowded.sum()), -np.inf, float(variant.top_k))
    row_of = np.full(len(steps), -1, np.int64)
    row_of[crowded] = serve_rows
    inside = crowded[where]
    rows.put(row_of[where[inside]], serve_of[serving[inside]], 1.0)

    r = rows.open(len(boundaries), 0.0, 0.0)
    rows.put(r, load, 1.0)
    rows.put(r[1:], load[:-1], -1.0)
    entering = np.flatnonzero(occasions.enter >= 0)
    rows.put(r[np.searchsorted(boundaries, occasions.enter[entering])], take[entering], -size[entering])
    # what is held at e and not kept to e+1 has left before the next boundary that counts
    out = np.searchsorted(boundaries, at + 1)
    seen = np.flatnonzero(out < len(boundaries))
    rows.put(r[out[seen]], keep[seen], size[seen])
    rows.put(r[out[seen]], take[seen], size[seen])
    seen = later[out[later - 1] < len(boundaries)]
    rows.put(r[out[seen - 1]], keep[seen], -size[seen])

    over_row = -1
    if variant.free_fill:
        objective[over] = lam * unit
        high[over] = np.inf
        over_row = int(rows.open(1, -np.inf, room)[0])
        rows.put(over_row, take[entering], size[entering])
        rows.put(over_row, [over], -1.0)
    else:
        objective[take] = lam * size * unit

    credit_rows = np.zeros(0, np.int64)
    if covered:
        credit_rows = rows.open(len(rated), -np.inf, 0.0)
        rows.put(credit_rows, worth, 1.0)
        rows.put(
            credit_rows[np.searchsorted(rated, at[serving])], serve_of[serving], -quality[serving] / full
        )
    elif ranked and trace.ranks is not None:
        _ranked_rows(rows, trace, occasions, variant.top_k, serve_of, keep, take)

    integer = np.zeros(columns, np.bool_)
    integer[keep] = integer[take] = True
    if ranked and trace.ranks is not None and variant.top_k > 1:
        # the rows of several places bind whole serves only
        integer[serve_of[serving]] = True
    return Programme(
        matrix=rows.matrix(columns),
        row_low=rows.bounds()[0],
        row_high=rows.bounds()[1],
        objective=objective,
        constant=float(trace.total_weight),
        low=low,
        high=high,
        integer=integer,
        occasions=occasions,
        serve_steps=steps[crowded],
        serve_rows=serve_rows,
        load_boundaries=boundaries,
        load_columns=load,
        load_unit=unit,
        over_row=over_row,
        credit_steps=rated,
        credit_rows=credit_rows,
    )


def _ranked_rows(
    rows: Rows,
    trace: Trace,
    occasions: Occasions,
    k: int,
    serve_of: NDArray[np.int64],
    keep: NDArray[np.int64],
    take: NDArray[np.int64],
) -> None:
    """What is ranked above an item must not fill the k places before it."""
    assert trace.ranks is not None
    rank = trace.ranks[occasions.entry]
    order = np.lexsort((occasions.item, rank, occasions.step))
    quality = trace.quality[occasions.entry]
    bounds = np.flatnonzero(np.diff(occasions.step[order], prepend=-1, append=-1))
    for a, b in itertools.pairwise(bounds.tolist()):
        row = order[a:b]
        for place, e in enumerate(row.tolist()):
            if serve_of[e] < 0:
                continue
            above = row[:place]
            if k == 1:
                above = above[quality[above] < quality[e]]
                r = rows.open(len(above), -np.inf, 1.0)
                rows.put(r, np.full(len(above), serve_of[e]), 1.0)
                rows.put(r, keep[above], 1.0)
                rows.put(r, take[above], 1.0)
            elif len(above) >= k:
                excess = len(above) - (k - 1)
                r = rows.open(1, -np.inf, float(len(above)))
                rows.put(r, serve_of[e : e + 1], float(excess))
                rows.put(r[0], keep[above], 1.0)
                rows.put(r[0], take[above], 1.0)


def _quiet_highs() -> Any:
    import highspy

    base: Any = highspy.Highs

    class Quiet(base):  # type: ignore[misc]
        """HiGHS greets on standard output while it is constructed; this hook runs before that."""

        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return Quiet()


def _run(solver: Any) -> Any:
    """Run HiGHS so that Ctrl-C is heard: Python hears it in the main thread only, and not inside a solver."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(solver, "startSolve"):
        return solver.run()
    solver.HandleUserInterrupt = True
    solver.startSolve()
    try:
        while True:
            done, status = solver.wait(0.2)
            if done:
                return status
    except BaseException:
        solver.cancelSolve()
        solver.wait()
        raise


def run_highs(
    programme: Linear,
    relaxed: bool,
    time_limit: float | None = None,
    gap: float = 0.0,
    progress: Progress | None = None,
    max_nodes: int | None = None,
) -> Answer:
    """Run HiGHS, on one thread, and report what it says. The only place that talks to a solver.

    There is no way to pass a point to begin with: HiGHS 1.16 maps it to the presolved programme even where
    presolve has cut it off, and then returns it as optimal with a value that is not its own, nor the optimum.

    Parameters
    ----------
    relaxed : bool
        Drop integrality.
    gap : float
        Absolute gap at which branch and bound may stop and call its point optimal.
    progress : callable, optional
        Called now and then with (seconds, best objective, bound), in a thread of the solver's own.
    """
    import highspy

    solver = _quiet_highs()
    # not "threads": HiGHS refuses to run when someone in the process has used another number before
    solver.setOptionValue("parallel", "off")
    solver.setOptionValue("random_seed", 0)
    for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance", "mip_feasibility_tolerance"):
        solver.setOptionValue(option, FEASIBILITY)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", gap)
    if time_limit is not None:
        solver.setOptionValue("time_limit", max(0.0, float(time_limit)))
    if max_nodes is not None:
        solver.setOptionValue("mip_max_nodes", int(max_nodes))
    columns = len(programme.objective)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, programme.matrix.shape[0]
    lp.col_cost_, lp.offset_ = programme.objective, programme.constant
    lp.col_lower_, lp.col_upper_ = programme.low, programme.high
    lp.row_lower_, lp.row_upper_ = programme.row_low, programme.row_high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = programme.matrix.indptr
    lp.a_matrix_.index_ = programme.matrix.indices
    lp.a_matrix_.value_ = programme.matrix.data
    if not relaxed:
        kinds = [highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger]
        lp.integrality_ = [kinds[int(flag)] for flag in programme.integer]
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        return Answer("model error", None, math.nan, -math.inf)
    if progress is not None and not relaxed:
        report = progress

        def show(event: Any) -> None:
            data = event.data_out
            report(data.running_time, data.mip_primal_bound, data.mip_dual_bound)

        solver.cbMipLogging += show
    if _run(solver) == highspy.HighsStatus.kError:
        return Answer("run error", None, math.nan, -math.inf)
    status, info, solution = solver.getModelStatus(), solver.getInfo(), solver.getSolution()
    known = {
        highspy.HighsModelStatus.kOptimal: "optimal",
        highspy.HighsModelStatus.kTimeLimit: "time limit",
        highspy.HighsModelStatus.kInterrupt: "interrupted",
    }
    if status == highspy.HighsModelStatus.kSolutionLimit:
        known[status] = "node limit"
    stop = known.get(status) or solver.modelStatusToString(status).lower()
    feasible = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    point = np.asarray(solution.col_value, np.float64) if feasible and solution.value_valid else None
    duals = bool(relaxed and solution.dual_valid)
    return Answer(
        stop=stop,
        point=point,
        objective=math.nan if point is None else float(info.objective_function_value),
        bound=-math.inf if relaxed else float(info.mip_dual_bound),
        row_dual=np.asarray(solution.row_dual, np.float64) if duals else None,
        column_dual=np.asarray(solution.col_dual, np.float64) if duals else None,
    )


def bound_error(programme: Programme) -> float:
    """Return by how much the branch and bound's lower bound may be too high although HiGHS kept its word.

    Each node's bound is that of a dual point whose reduced costs may have the wrong sign by
    ``FEASIBILITY``, which moves the bound by at most that times the range of each column; and a node's point
    counts as integral within ``FEASIBILITY`` per column, which moves its objective by at most that times the
    cost of each column. Both, summed, and doubled for the rounding of floats. This covers tolerances, not
    mistakes; hence "solver" in the kind of such an answer.
    """
    span = programme.high - programme.low
    # the insertions beyond the capacity are at most everything that can enter
    most = float(np.bincount(programme.matrix.nonzero()[0]).max(initial=1))
    span = np.where(np.isfinite(span), span, most)
    ranges = float(np.sum(span * (1.0 + np.abs(programme.objective))))
    return 2.0 * FEASIBILITY * ranges + 1e-12 * (1.0 + programme.constant)


def relax(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    time_limit: float | None = None,
    programme: Programme | None = None,
) -> Relaxation:
    """Solve the LP relaxation and prove a bound from its duals. Every variant.

    The bound is valid even if HiGHS is wrong or stopped early; then it is only weaker.

    Examples
    --------
    A step that item 0 and item 1 can serve, announced before, one slot:

    >>> from softhit import from_arrays
    >>> trace = from_arrays([[0, 0], [0, 0], [0.5, 0.75]], arrivals=[0, 1, -1])
    >>> float(relax(trace, capacity=1, switch_cost=1).lower_bound)
    2.25
    """
    variant = variant or Variant()
    capacity = check_int("capacity", capacity, low=1)
    lam = check_switch_cost(switch_cost)
    if len(trace.items) > MAX_ENTRIES:
        raise InvalidInput(f"the LP is for traces of up to {MAX_ENTRIES} entries, got {len(trace.items)}")
    p = programme or build(trace, capacity, lam, variant, ranked=False)
    n = len(p.occasions)
    answer = Answer("optimal", np.zeros(len(p.objective)), p.constant, p.constant)
    if n:
        answer = run_highs(p, relaxed=True, time_limit=time_limit)
    prices = _prices(p, answer, trace, capacity, lam, variant)
    bound = lower_bound(trace, capacity, lam, variant, prices, p.occasions)
    bound = max(round_up(bound, cost_grid(trace, capacity, lam, variant)), Fraction(0))
    usable = answer.point is not None and len(answer.point) == len(p.objective)
    point = answer.point if usable and answer.point is not None else np.zeros(max(2 * n, 1))
    return Relaxation(
        lower_bound=bound,
        value=answer.objective if answer.stop == "optimal" else math.nan,
        prices=prices,
        keep=point[:n],
        take=point[n : 2 * n],
        stop=answer.stop,
    )


def _prices(
    p: Programme, answer: Answer, trace: Trace, capacity: int, lam: Fraction, variant: Variant
) -> Prices:
    serve, slot = np.zeros(trace.n_steps), np.zeros(trace.n_steps)
    entry: float | None = None
    credit: Floats | None = None
    if answer.row_dual is not None and answer.column_dual is not None:
        serve[p.serve_steps] = -answer.row_dual[p.serve_rows]
        slot[p.load_boundaries] = -answer.column_dual[p.load_columns] / p.load_unit
        if p.over_row >= 0:
            entry = -answer.row_dual[p.over_row] / p.load_unit
        if len(p.credit_rows):
            credit = trace.weight.astype(np.float64)
            credit[p.credit_steps] = -answer.row_dual[p.credit_rows]
    elif variant.free_fill:
        entry = 0.0
    return rounded_prices(trace, capacity, lam, variant, serve, slot, entry, credit)


def _read(p: Programme, point: Floats, n_steps: int) -> Schedule:
    """Round a point to the schedule it means; ValueError if it means none."""
    n = len(p.occasions)
    if len(point) != len(p.objective) or not np.all(np.isfinite(point)):
        raise ValueError("the point has missing values")
    keep, take = point[:n] > 0.5, point[n : 2 * n] > 0.5
    return schedule_of(p.occasions, n_steps, keep | take, take & ~keep)


def branch_and_bound(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
    max_nodes: int | None = None,
    programme: Programme | None = None,
) -> Branching:
    """Solve the mixed-integer programme; aggregators ``best`` and ``mean_topk``, with score, sizes, weights.

    Parameters
    ----------
    time_limit : float, optional
        Seconds; default none.
    progress : callable, optional
        Called now and then with (seconds, best cost, lower bound).
    max_nodes : int, optional
        Nodes of the tree; default no limit.

    Raises
    ------
    InvalidInput
        The programme does not describe the instance (:func:`not_supported`).
    """
    variant = variant or Variant()
    capacity = check_int("capacity", capacity, low=1)
    lam = check_switch_cost(switch_cost)
    if (reason := not_supported(trace, variant)) is not None:
        raise InvalidInput(f"not supported by method milp: {reason}")
    p = programme or build(trace, capacity, lam, variant)
    grid = cost_grid(trace, capacity, lam, variant)
    empty = Schedule.from_events(trace.n_steps, [], [], [], [])
    if not len(p.occasions):
        price = cost(empty, trace, capacity, lam, variant)
        return Branching(empty, price, price.fraction, "optimal")
    answer = run_highs(
        p,
        relaxed=False,
        time_limit=time_limit,
        gap=float(grid) / 2,
        progress=progress,
        max_nodes=max_nodes,
    )
    return check_answer(p, answer, trace, capacity, lam, variant, grid)


def check_answer(
    p: Programme,
    answer: Answer,
    trace: Trace,
    capacity: int,
    lam: Fraction,
    variant: Variant,
    grid: Fraction,
) -> Branching:
    """Accept what can be checked: the point as a schedule, its cost, and then only the bound."""
    error = bound_error(p)
    bound: Fraction | None = None
    if math.isfinite(answer.bound):
        bound = max(Fraction(0), round_up(Fraction(answer.bound - error), grid))
    if answer.point is None:
        return Branching(None, None, bound, answer.stop)
    try:
        schedule = _read(p, answer.point, trace.n_steps)
        found = cost(schedule, trace, capacity, lam, variant)
    except (ValueError, InvalidSchedule) as fault:
        return Branching(None, None, None, answer.stop, f"the solver's point is no schedule: {fault}")
    # rounding may only improve on what the solver claims: spare serves, pointless insertions
    rejected = None
    if not float(found) <= answer.objective + error:
        rejected = f"the solver claims {answer.objective!r}, its schedule costs {float(found)!r}"
    elif bound is not None and bound > found.fraction:
        rejected = f"the solver's lower bound {answer.bound!r} exceeds {float(found)!r}, its schedule's cost"
    return Branching(schedule, found, None if rejected else bound, answer.stop, rejected)
