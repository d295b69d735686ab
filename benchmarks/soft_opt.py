"""The bracket around the soft optimum at scale, its growth, and the LP relaxation by HiGHS and by cvxpy."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import Report, isolated, more_than

__all__ = ["run"]

_TRACE = """
from fractions import Fraction
from benchmarks.workloads import topics
from softhit import Variant
variant = Variant(availability="pool", fill="charged")
trace = topics({steps}, {items}, {per_topic})
"""

_OURS = (
    _TRACE
    + """
from offline_opt.soft.lagrangian import bracket
bracket(topics(500, 100, 10), 5, "1/2", variant)  # compile
told = []
def tell(low, high, gap, iteration, seconds):
    told.append((seconds, low, gap))
cpu = time.process_time()
found = bracket(trace, {capacity}, "1/2", variant, time_limit={limit}, progress=tell)
print(json.dumps(dict(
    seconds=found.seconds, cpu=time.process_time() - cpu, gap=found.gap, low=float(found.lower_bound),
    high=float(found.cost), entries=len(trace.items), iterations=found.iterations, peak=peak(),
    stop=found.stop,
    near=next((s for s, low, _ in told if low >= 0.9995 * float(found.lower_bound)), None),
)))
"""
)

_HIGHS = (
    _TRACE
    + """
import highspy
from offline_opt.soft.milp import build
p = build(trace, {capacity}, Fraction(1, 2), variant)
solver = highspy.Highs()
solver.setOptionValue("output_flag", False)
solver.setOptionValue("parallel", "off")
solver.setOptionValue("solver", {solver!r})
lp = highspy.HighsLp()
lp.num_col_, lp.num_row_ = len(p.objective), p.matrix.shape[0]
lp.col_cost_, lp.offset_ = p.objective, p.constant
lp.col_lower_, lp.col_upper_ = p.low, p.high
lp.row_lower_, lp.row_upper_ = p.row_low, p.row_high
lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
lp.a_matrix_.start_, lp.a_matrix_.index_ = p.matrix.indptr, p.matrix.indices
lp.a_matrix_.value_ = p.matrix.data
solver.passModel(lp)
start = time.perf_counter()
solver.run()
seconds = time.perf_counter() - start
status = solver.modelStatusToString(solver.getModelStatus())
print(json.dumps(dict(seconds=seconds, value=solver.getObjectiveValue(), status=status)))
"""
)

_CVXPY = (
    _TRACE
    + """
import cvxpy as cp
from offline_opt.soft.milp import build
p = build(trace, {capacity}, Fraction(1, 2), variant)
start = time.perf_counter()
x = cp.Variable(len(p.objective), bounds=[p.low, p.high])
rows = p.matrix @ x
both = p.row_low == p.row_high
above, below = (p.row_low > -float("inf")) & ~both, (p.row_high < float("inf")) & ~both
limits = [rows[both] == p.row_low[both]] if both.any() else []
limits += [rows[above] >= p.row_low[above]] if above.any() else []
limits += [rows[below] <= p.row_high[below]] if below.any() else []
problem = cp.Problem(cp.Minimize(p.objective @ x + p.constant), limits)
problem.solve(solver={solver!r})
seconds = time.perf_counter() - start
print(json.dumps(dict(seconds=seconds, value=problem.value and float(problem.value), status=problem.status)))
"""
)

_GROWTH = """
from fractions import Fraction
from benchmarks.workloads import topics
from offline_opt.certificate import checker, make_certificate
from offline_opt.soft.lagrangian import bracket
from softhit import Variant
from softhit.io.canonical import canonical_bytes
variant = Variant(availability="pool", fill="charged")
bracket(topics(500, 100, 10), 5, "1/2", variant)  # compile
trace = topics({steps}, {items}, 20)
reached = dict()
def tell(low, high, gap, iteration, seconds):
    reached.setdefault(iteration, time.process_time())
cpu = time.process_time()
found = bracket(trace, {capacity}, "1/2", variant, iterations={iterations}, rounds=1, progress=tell)
cpu = time.process_time() - cpu
made = make_certificate(trace, {capacity}, Fraction(1, 2), variant, found.schedule, found.prices)
data, instance = made.to_bytes(), canonical_bytes(trace)
start = time.process_time()
assert checker.check(data, instance).proved
print(json.dumps(dict(
    entries=len(trace.items), seconds=found.seconds, cpu=cpu, gap=found.gap,
    ascent=reached[{iterations}] - reached[0], checked=time.process_time() - start,
)))
"""

_RIVALS = {
    "LP by HiGHS, dual simplex": (_HIGHS, "simplex"),
    "LP by HiGHS, interior point": (_HIGHS, "ipm"),
    "LP by HiGHS, first order (PDLP)": (_HIGHS, "pdlp"),
    "LP by cvxpy, HiGHS": (_CVXPY, "HIGHS"),
    "LP by cvxpy, Clarabel": (_CVXPY, "CLARABEL"),
}
_ITERATIONS = 200
MEMORY = 8.0
"""GB of address space that a rival may take."""
TOO_LARGE = more_than(MEMORY)


def _ours(report: Report, table: str, size: dict[str, Any], capacity: int, limit: float) -> dict[str, Any]:
    # compiling and making the trace are not counted, but take their time
    got = isolated(_OURS.format(**size, capacity=capacity, limit=limit), limit + 240)
    what = "ours"
    if "failed" in got:
        report.add(table, what, got["failed"])
        return got
    near = "" if got["near"] is None else f"; bound within 0.05 % of its last value after {got['near']:.1f} s"
    report.add(
        table,
        what,
        f"gap {100 * got['gap']:.3f} %",
        f"{got['seconds']:.1f} s ({got['cpu']:.1f} s of CPU, {got['stop']}), {got['entries']:,} entries, "
        f"{got['low']:.2f} <= OPT <= {got['high']:.2f}, {got['iterations']} iterations, "
        f"peak {got['peak']:.0f} MB{near}",
    )
    return got


def _rivals(
    report: Report,
    table: str,
    size: dict[str, Any],
    capacity: int,
    limit: float,
    proved: float,
    beaten: dict[str, str],
) -> None:
    """Run the rivals; ``beaten`` holds those that already failed at a smaller size, and how."""
    for what, (code, solver) in _RIVALS.items():
        if what in beaten:
            report.add(table, what, "not tried", f"smaller instance: {beaten[what]}")
            continue
        other = isolated(code.format(**size, capacity=capacity, solver=solver), limit, MEMORY)
        if "failed" not in other and other["status"].lower() != "optimal":
            # what comes without this status is no answer, 0.0 for instance
            gave_up = f"gave up after {other['seconds']:.0f} s: {other['status']}"
            other["failed"] = TOO_LARGE if other["status"] == "Memory limit reached" else gave_up
        if "failed" in other:
            beaten[what] = other["failed"]
            report.add(table, what, other["failed"])
            continue
        off = 100 * (other["value"] - proved) / other["value"]
        note = f"{other['status']}; our proved bound is {off:.4f} % below its value"
        report.add(table, what, f"{other['seconds']:.1f} s", note)


def _growth(report: Report, limit: float, fast: bool) -> None:
    """Double T, N and K one at a time; the work is the same by iterations and rounds, not by seconds.

    The times of the ascent and of the checker are the CPU's: other work on the machine counts less.
    """
    steps, items, capacity = (2000, 200, 10) if fast else (4000, 400, 20)
    factors = (1, 2) if fast else (1, 2, 4)
    cases = [(steps * f, items, capacity) for f in factors]
    cases += [(steps, items * f, capacity) for f in factors[1:]]
    cases += [(steps, items, capacity * f) for f in factors[1:]]
    table = f"Growth of the bracket ({_ITERATIONS} iterations, one round) and of checking its certificate"
    for steps, items, capacity in cases:
        what = f"T = {steps:,}, N = {items:,}, K = {capacity}"
        code = _GROWTH.format(steps=steps, items=items, capacity=capacity, iterations=_ITERATIONS)
        row = isolated(code, limit)
        if "failed" in row:
            report.add(table, what, row["failed"])
            continue
        each = 1e9 * row["ascent"] / _ITERATIONS / row["entries"]
        note = (
            f"{row['cpu']:.1f} s of CPU, {row['entries']:,} entries, ascent {each:.0f} ns per entry and "
            f"iteration, gap {100 * row['gap']:.2f} %, checked in {row['checked']:.2f} s"
        )
        report.add(table, what, f"{row['seconds']:.1f} s", note)


def run(report: Report, limit: float = 120.0, fast: bool = False) -> None:
    """Compare where the LP can be solved, then at T = 10^5; each solve in a fresh process.

    A rival's limit counts from the start of its process: making the trace and the model take part of it. One
    that fails at T = 2000 is not tried at T = 10^5.
    """
    small = {"steps": 2000, "items": 400, "per_topic": 10}
    large = {"steps": 100_000, "items": 5000, "per_topic": 20}
    cases: list[tuple[dict[str, int], int, float]] = [(small, 20, min(limit, 30.0))]
    if not fast:
        cases += [(large, 100, limit), (large, 1000, limit)]
    beaten: dict[str, str] = {}
    for size, capacity, seconds in cases:
        table = (
            f"Soft optimum (best, pool, charged, lambda = 1/2), T = {size['steps']:,}, K = {capacity}: "
            f"one thread, limits {seconds:g} s and {MEMORY:g} GB of address space"
        )
        ours = _ours(report, table, size, capacity, seconds)
        if "failed" not in ours and capacity < 1000:
            _rivals(report, table, size, capacity, seconds, ours["low"], beaten)
    _growth(report, 300.0, fast)
