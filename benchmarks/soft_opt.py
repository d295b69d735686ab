"""The bracket around the soft optimum at scale, beside the LP relaxation by the algorithms of HiGHS."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import Report, isolated

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

_ALGORITHMS = {"dual simplex": "simplex", "interior point": "ipm", "first order (PDLP)": "pdlp"}


def _ours(report: Report, table: str, size: dict[str, Any], capacity: int, limit: float) -> dict[str, Any]:
    # compiling and making the trace are not counted, but take their time
    got = isolated(_OURS.format(**size, capacity=capacity, limit=limit), limit + 240)
    what = f"ours, T = {size['steps']:,}, K = {capacity}"
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


def run(report: Report, limit: float = 120.0, fast: bool = False) -> None:
    """Compare where the LP can be solved, then at T = 10^5; each solve in a fresh process."""
    table = f"Soft optimum (best, pool, charged, lambda = 1/2), one thread, limit {limit:g} s"
    small = {"steps": 2000, "items": 400, "per_topic": 10}
    large = {"steps": 100_000, "items": 5000, "per_topic": 20}
    cases = [(small, 20)] if fast else [(small, 20), (large, 100), (large, 1000)]
    for size, capacity in cases:
        ours = _ours(report, table, size, capacity, limit)
        for name, solver in _ALGORITHMS.items():
            if "failed" in ours or (size is large and capacity == 1000):
                continue
            what = f"LP by HiGHS, {name}, T = {size['steps']:,}, K = {capacity}"
            other = isolated(_HIGHS.format(**size, capacity=capacity, solver=solver), limit)
            if "failed" in other:
                report.add(table, what, other["failed"])
            else:
                off = 100 * (other["value"] - ours["low"]) / other["value"]
                note = f"{other['status']}; our proved bound is {off:.4f} % below its value"
                report.add(table, what, f"{other['seconds']:.1f} s", note)
