"""Steps per second of SOLAR, on hard and on soft traces."""

from __future__ import annotations

from benchmarks.measure import Report, paired, rate
from benchmarks.workloads import soft, zipf
from softhit import cost, from_requests, simulate

__all__ = ["run"]


def run(report: Report, n_steps: int = 500_000) -> None:
    """Measure at K = 100 and 1000, lambda = 1; the admission rate stands beside, as it decides the speed."""
    table = f"SOLAR, T = {n_steps:,}, lambda = 1"
    cases = {
        "hard (Zipf, N = 10,000)": from_requests(zipf(n_steps), n_items=10_000),
        "soft (ring, N = 5,000, 15 entries a row)": soft(n_steps, 5_000),
    }
    for name, trace in cases.items():
        for capacity in (100, 1000):
            times = paired({"solar": lambda t=trace, k=capacity: simulate("solar", t, k, 1)}, rounds=5)
            paid = cost(simulate("solar", trace, capacity, 1), trace, capacity, 1).paid
            report.add(
                table,
                f"{name}, K = {capacity}",
                rate(times["solar"], n_steps),
                f"replaces at {paid / n_steps:.1%} of steps",
            )
