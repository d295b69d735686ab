"""The exact hard-hit optimum against the solvers a user would pick, and how it grows."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.measure import Report, isolated

__all__ = ["run"]

_CODE = """
from benchmarks.workloads import zipf
from softhit import from_requests
import numpy as np
kind, n, k, cost = {kind!r}, {steps}, {capacity}, {cost!r}
if kind == "zipf":
    ids = zipf(n)
else:
    ids = np.arange(n) % (2 * k)
    noise = np.random.default_rng(0).random(n) < 0.05
    ids = np.where(noise, np.random.default_rng(1).integers(0, 2 * k, n), ids)
trace = from_requests(ids)
{load}
solve(trace.prefix(1000), min(k, 20), cost)  # compile
base = peak()
start = time.perf_counter()
result = solve(trace, k, cost)
seconds = time.perf_counter() - start
print(json.dumps(dict(seconds=seconds, peak=peak(), base=base, objective=str(result.objective))))
"""

_OURS = "from offline_opt.flow.sweep import solve_sweep as solve"
_PEERS = {
    "OR-tools": "from offline_opt.flow.network import solve_ortools as solve",
    "networkx": "from offline_opt.flow.network import solve_networkx as solve",
    "cvxpy (HiGHS)": "from offline_opt.flow.lp import solve_lp as solve",
}

_FINE = ("997/1000", "333/1000", "1/997", "1234567/1000003")


def _measure(load: str, kind: str, steps: int, capacity: int, cost: str, limit: float) -> dict[str, Any]:
    return isolated(_CODE.format(kind=kind, steps=steps, capacity=capacity, cost=cost, load=load), limit)


def run(report: Report, limit: float = 120.0, fast: bool = False) -> None:
    """Compare at T = 10^4 and 10^5, then go to T = 10^6 alone; each solve in a fresh process."""
    table = f"Exact optimum, lambda = 1/2, each in its own process, limit {limit:g} s"
    sizes = [(3_000, 50)] if fast else [(10_000, 100), (100_000, 100)]
    for kind in ("zipf", "loop"):
        for steps, capacity in sizes:
            ours = _measure(_OURS, kind, steps, capacity, "1/2", limit)
            if "failed" in ours:
                report.add(table, f"ours, {kind}, T = {steps:,}, K = {capacity}", ours["failed"])
                continue
            report.add(table, f"ours, {kind}, T = {steps:,}, K = {capacity}", f"{ours['seconds']:.3f} s")
            for name, load in _PEERS.items():
                if name != "OR-tools" and steps > 10_000:
                    continue
                other = _measure(load, kind, steps, capacity, "1/2", limit)
                what = f"{name}, {kind}, T = {steps:,}, K = {capacity}"
                if "failed" in other:
                    late = "not finished" in other["failed"]
                    note = f"ours at least {limit / ours['seconds']:.0f}x faster" if late else ""
                    report.add(table, what, other["failed"], note)
                else:
                    agree = "same optimum" if other["objective"] == ours["objective"] else "DIFFERENT OPTIMUM"
                    report.add(
                        table,
                        what,
                        f"{other['seconds']:.2f} s",
                        f"ours {other['seconds'] / ours['seconds']:.0f}x faster; {agree}",
                    )
    table = "Exact optimum, growth (zipf, lambda = 1/2, one thread)"
    found: dict[tuple[int, int], float] = {}
    grid = [(t, k) for t in (100_000, 1_000_000) for k in (10, 100, 1000)]
    for steps, capacity in grid[: 3 if fast else None]:
        got = _measure(_OURS, "zipf", steps, capacity, "1/2", 3 * limit)
        what = f"T = {steps:,}, K = {capacity}"
        if "failed" in got:
            report.add(table, what, got["failed"])
            continue
        found[steps, capacity] = got["seconds"]
        report.add(
            table,
            what,
            f"{got['seconds']:.2f} s",
            f"peak {got['peak']:.0f} MB, {got['peak'] - got['base']:.0f} MB above the loaded trace",
        )
    for capacity in (10, 100, 1000):
        if (100_000, capacity) in found and (1_000_000, capacity) in found:
            power = math.log10(found[1_000_000, capacity] / found[100_000, capacity])
            report.add(table, f"growth exponent in T at K = {capacity}", f"{power:.2f}")
    for steps in (100_000, 1_000_000):
        if (steps, 10) in found and (steps, 1000) in found:
            power = math.log10(found[steps, 1000] / found[steps, 10]) / 2
            report.add(table, f"growth exponent in K at T = {steps:,}", f"{power:.2f}", "from K = 10 to 1000")
    table = "Exact optimum, fine switching costs (zipf, K = 1000, one thread)"
    for steps in (100_000, 1_000_000)[: 1 if fast else None]:
        for cost in _FINE:
            got = _measure(_OURS, "zipf", steps, 1000, cost, 3 * limit)
            what = f"T = {steps:,}, lambda = {cost}"
            if "failed" in got:
                report.add(table, what, got["failed"])
                continue
            note = f"peak {got['peak']:.0f} MB, {got['peak'] - got['base']:.0f} MB above the loaded trace"
            if (steps, 1000) in found:
                note += f"; {got['seconds'] / found[steps, 1000]:.1f} times lambda = 1/2"
            report.add(table, what, f"{got['seconds']:.2f} s", note)
