"""Search the box of claim C5 for SOLAR's worst slope ratio: ``python -m benchmarks.solar_box -o FOLDER``.

The box: K in 1..32, lambda in [0, 10], cycles K < w <= 4K and piecewise-stationary requests with K/2 <= w <=
4K, segments of 10K to 50K steps, uniform or Zipf; the working sets of successive segments are drawn afresh
from 10K items (``independent``) or disjoint (``disjoint``). The value of a point (one trace, one lambda) is
the expectation over the policy's coins of

    (ALG(2T) - ALG(T)) / (OPT(2T) - OPT(T)),   T >= max(60 K, 4000), at least 4 segments in T.

Three stages: a coarse grid with few runs a point; around the worst points, neighbours in w, segment, lambda
and trace with more runs, repeated from each new worst; then many fresh runs at the worst, on which the
one-sided limit is computed: the maximum of many noisy means is biased upwards, a fresh mean is not.

Forms: ``hard``; ``graded`` (each item serves its query with its own quality in [0.2, 1]); ``classes`` (each
item is eight of equal meaning, and each arrival is the next one of them); for these OPT is exact. ``soft``
(neighbours on a ring serve with quality 1/2): OPT is bracketed, its increment is at least LB(2T) - UB(T), and
the value is an upper estimate.

Writes ``points.csv`` and ``manifest.json`` (command, versions, worst points).
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import stats

from adversaries.families import make_trace
from offline_opt import solve
from offline_opt.flow.ssp import solve_ssp
from softhit import Trace, simulate
from softhit.build import from_requests
from softhit.cost import miss_units_by_step

__all__ = ["VARIANTS", "Point", "Value", "increments", "slopes", "trace_of", "upper_limit"]

PROTOTYPE = "solar(horizon=2, prior=1, xi_low=0.5, xi_high=1.5)"
VARIANTS = {
    "default": "solar",
    "prototype": PROTOTYPE,
    "H = 2K": "solar(horizon=2)",
    "H = 8K": "solar(horizon=8)",
    "prior 1": "solar(prior=1)",
    "xi in [1/2, 3/2]": "solar(xi_low=0.5, xi_high=1.5)",
    "fixed 0.85": "solar(xi_low=0.85, xi_high=0.85)",
    "fixed 1": "solar(xi_low=1, xi_high=1)",
    "bare prior": "solar(evidence=false)",
    "mean": "solar_mean",
    "gate only": "solar_admission",
    "eviction only": "solar_eviction",
    "paper": "solar_paper",
}
ERROR = 1e-6
MEMBERS = 8
LEAST_INCREMENT = 200


@dataclass(frozen=True)
class Point:
    """One instance of the box: a trace and lambda."""

    capacity: int
    w: int
    segment: int  # 0: a cycle
    zipf: float
    switch_cost: Fraction
    form: str = "hard"
    trace_seed: int = 0
    sets: str = "independent"

    @property
    def half(self) -> int:
        """T: the slope is taken between T and 2T."""
        least = max(60 * self.capacity, 4000)
        period = self.segment if self.segment else self.w
        return period * max(math.ceil(least / period), 4)


@dataclass(frozen=True)
class Value:
    """What was measured at a point, for one policy."""

    point: Point
    runs: int
    mean: float
    sd: float
    limit: float
    normalised: float
    increment: float
    kind: str
    stage: str = ""


def requests_of(point: Point) -> NDArray[np.int64]:
    """Return the items asked for in 2T steps."""
    k, steps = point.capacity, 2 * point.half
    if point.segment == 0:
        return np.arange(steps) % point.w
    if point.sets == "disjoint":
        return make_trace("piecewise", k, steps, seed=point.trace_seed, **_family(point)).requests.astype(
            np.int64
        )
    rng = np.random.default_rng([point.trace_seed, 4])
    share = 1 / np.arange(1, point.w + 1) ** point.zipf
    asked = [
        rng.choice(10 * k, point.w, replace=False)[rng.choice(point.w, point.segment, p=share / share.sum())]
        for _ in range(steps // point.segment)
    ]
    return np.concatenate(asked)


def _family(point: Point) -> dict[str, Any]:
    items = max(10 * point.capacity, 2 * point.w)
    return {"w": point.w, "segment": point.segment, "zipf": point.zipf, "items": items}


@lru_cache(maxsize=64)
def trace_of(point: Point) -> Trace:
    """Return the trace of 2T steps."""
    asked = requests_of(point)
    if point.form == "hard":
        return from_requests(asked)
    rng = np.random.default_rng([point.trace_seed, 5])
    n = int(asked.max()) + 1
    if point.form == "graded":
        return from_requests(asked, n_items=n, quality=rng.uniform(0.2, 1, n)[asked])
    if point.form == "classes":
        turn = np.zeros(n, np.int64)
        arrivals = np.empty(len(asked), np.int64)
        for t, c in enumerate(asked):
            arrivals[t] = c * MEMBERS + turn[c] % MEMBERS
            turn[c] += 1
        return Trace(
            n_items=n * MEMBERS,
            indptr=np.arange(len(asked) + 1) * MEMBERS,
            items=(asked[:, None] * MEMBERS + np.arange(MEMBERS)).ravel(),
            quality=np.full(len(asked) * MEMBERS, 10_000),
            arrivals=arrivals,
        )
    k, steps = point.capacity, 2 * point.half
    if point.segment == 0:
        return make_trace("cycling", k, steps, w=point.w, form="soft")
    return make_trace("piecewise", k, steps, seed=point.trace_seed, form="soft", **_family(point))


@cache
def _optimum(point: Point) -> tuple[float, str]:
    trace, k, lam = trace_of(point), point.capacity, point.switch_cost
    if point.form == "soft":
        whole = solve(trace, k, lam, method="relaxation")
        half = solve(trace.prefix(point.half), k, lam, method="relaxation")
        if "interrupted" in (whole.status.stop, half.status.stop):
            raise KeyboardInterrupt
        assert whole.lower_bound is not None
        assert half.cost is not None
        return float(whole.lower_bound) - float(half.cost), "lower bound"
    hard = trace if point.form == "graded" else from_requests(requests_of(point))
    ends = [float(solve_ssp(part, k, lam).objective) for part in (hard.prefix(point.half), hard)]
    return ends[1] - ends[0], "exact"


def increments(point: Point) -> tuple[float, float, str]:
    """Return (OPT(2T) - OPT(T), the floor's increment, kind of OPT)."""
    trace = trace_of(point)
    opt, kind = _optimum(point)
    floor = 0.0
    if point.form == "graded":
        floor = float(np.sum(10_000 - trace.quality[point.half :])) / 10_000
    return opt, floor, kind


def slopes(policy: str, point: Point, seeds: Iterable[int]) -> NDArray[np.float64]:
    """Return ALG(2T) - ALG(T) for each policy seed."""
    trace, t, k = trace_of(point), point.half, point.capacity
    found = []
    for seed in seeds:
        schedule = simulate(policy, trace, k, point.switch_cost, seed=seed)
        missed = int(miss_units_by_step(schedule, trace)[t:].sum()) / trace.quality_scale
        entered = [int(schedule.enter_ptr[end]) for end in (t, 2 * t)]
        paid = max(0, entered[1] - k) - max(0, entered[0] - k)
        found.append(missed + float(point.switch_cost) * paid)
    return np.array(found)


def upper_limit(values: NDArray[np.float64], error: float = ERROR) -> float:
    """Return Student's one-sided upper confidence limit of the mean (see docs/solar.md for why)."""
    n = len(values)
    return float(values.mean() + stats.t.isf(error, n - 1) * values.std(ddof=1) / math.sqrt(n))


def measure(policy: str, point: Point, seeds: range, stage: str) -> Value | None:
    """Measure a policy at a point; None where OPT grows by less than 200 (the slope says little there)."""
    opt, floor, kind = increments(point)
    if opt < LEAST_INCREMENT:
        return None
    got = slopes(policy, point, seeds)
    ratio = got / opt
    normalised = float((got.mean() - floor) / (opt - floor)) if opt > floor else math.inf
    sd = float(ratio.std(ddof=1))
    return Value(point, len(seeds), float(ratio.mean()), sd, upper_limit(ratio), normalised, opt, kind, stage)


def coarse(capacities: Iterable[int], forms: Iterable[str]) -> list[Point]:
    """Return the first stage's grid."""
    points: dict[Point, None] = {}
    for form in forms:
        soft = form != "hard"
        for k in capacities:
            if form == "soft":  # an LP each
                for w, segment in ((k + 1, 0), (math.ceil(1.25 * k), 50 * k), (2 * k, 20 * k)):
                    for lam in (Fraction(0), Fraction(1), Fraction(5)):
                        points[Point(k, w, segment, 0.0, lam, form, 1)] = None
                continue
            costs = ["0", "1/10", "3/10", "49/100", "1", "3", "10"] if not soft else ["0", "3/10", "1", "5"]
            cycles = sorted({k + 1, math.ceil(1.25 * k), 2 * k, 4 * k} - set(range(k + 1)))
            sets = sorted({max(1, k // 2), k, k + 1, *(math.ceil(f * k) for f in (1.06, 1.15, 1.25, 2, 4))})
            for lam in map(Fraction, costs):
                for w in cycles:
                    points[Point(k, w, 0, 0.0, lam, form)] = None
                for w in sets:
                    for segment in (10 * k, 50 * k):
                        points[Point(k, w, segment, 0.0, lam, form, 1)] = None
                for segment in (10 * k, 50 * k):
                    points[Point(k, 4 * k, segment, 1.0, lam, form, 1)] = None
    return list(points)


def neighbours(point: Point, limit: bool) -> list[Point]:
    """Return points near a bad one that are in the box (``limit``: K up to 32)."""
    k, near = point.capacity, []
    step = max(1, k // 32)
    for w in (point.w - step, point.w + step):
        low = k + 1 if point.segment == 0 else max(1, (k + 1) // 2)
        if low <= w <= 4 * k:
            near.append(dataclasses.replace(point, w=w))
    for lam in (point.switch_cost - Fraction(1, 20), point.switch_cost + Fraction(1, 20), Fraction(0)):
        if 0 <= lam <= 10 and lam != point.switch_cost:
            near.append(dataclasses.replace(point, switch_cost=lam))
    if point.segment:
        near += [dataclasses.replace(point, trace_seed=point.trace_seed + s) for s in (10, 20, 30)]
        near.append(dataclasses.replace(point, sets="disjoint"))
        if point.segment != 50 * k:
            near.append(dataclasses.replace(point, segment=min(50 * k, 2 * point.segment)))
    if limit:
        near += [
            dataclasses.replace(point, capacity=q, w=round(point.w * q / k), segment=point.segment // k * q)
            for q in {k - 1, k + 1} & set(range(1, 33))
            if round(point.w * q / k) > (q if point.segment == 0 else 0)
        ]
    return near


def search(
    policy: str,
    capacities: list[int],
    forms: list[str],
    rounds: int,
    final_runs: int,
    base: int = 0,
) -> list[Value]:
    """Run the three stages for one policy and return everything measured; the final ones come last."""
    known: dict[Point, Value] = {}

    def visit(points: Iterable[Point], runs: int, stage: str) -> None:
        for point in points:
            if point not in known:
                value = measure(policy, point, range(base, base + runs), stage)
                if value:
                    known[point] = value

    def worst(n: int) -> list[Value]:
        return sorted(known.values(), key=lambda v: -v.mean)[:n]

    visit(coarse(capacities, forms), 6, "coarse")
    for _ in range(rounds if forms != ["soft"] else 0):
        visit([p for v in worst(6) for p in neighbours(v.point, max(capacities) <= 32)], 16, "refine")
    finals = [
        measure(policy, v.point, range(base + 1000, base + 1000 + final_runs), "final") for v in worst(5)
    ]
    return [*known.values(), *sorted((v for v in finals if v), key=lambda v: v.mean)]


def beyond(policy: str, capacity: int = 32, runs: int = 30) -> list[Value]:
    """Measure what lies outside the box in one direction: segments of up to 1000K steps, lambda = 0."""
    found = []
    for factor in (50, 100, 200, 500, 1000):
        for w in (capacity + 1, math.ceil(1.06 * capacity), math.ceil(1.15 * capacity)):
            point = Point(capacity, w, factor * capacity, 0.0, Fraction(0), "hard", 1)
            value = measure(policy, point, range(runs), f"segment {factor}K")
            if value:
                found.append(value)
    return sorted(found, key=lambda v: v.mean)


def _row(name: str, policy: str, v: Value) -> dict[str, object]:
    p = v.point
    return {
        "variant": name,
        "policy": policy,
        "stage": v.stage,
        "form": p.form,
        "family": "piecewise" if p.segment else "cycling",
        "K": p.capacity,
        "w": p.w,
        "segment": p.segment,
        "zipf": p.zipf,
        "sets": p.sets if p.segment else "",
        "lambda": str(p.switch_cost),
        "trace_seed": p.trace_seed,
        "T": p.half,
        "opt_increment": round(v.increment, 4),
        "opt_kind": v.kind,
        "runs": v.runs,
        "mean": round(v.mean, 4),
        "sd": round(v.sd, 4),
        "upper_limit": round(v.limit, 4),
        "floor_normalised": round(v.normalised, 4),
    }


def main() -> int:
    """Parse the command line, search, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solar_box")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--variants", default="default", help=f"comma list of: {', '.join(VARIANTS)}; or all")
    parser.add_argument("--capacities", default="1,2,3,4,6,8,12,16,24,32")
    parser.add_argument("--forms", default="hard", help="comma list of hard, graded, classes, soft")
    parser.add_argument("--rounds", type=int, default=4, help="refinements around the worst points")
    parser.add_argument("--final-runs", type=int, default=200)
    parser.add_argument("--beyond", action="store_true", help="segments beyond the box, at K = 32, instead")
    chosen = parser.parse_args()
    names = list(VARIANTS) if chosen.variants == "all" else chosen.variants.split(",")
    capacities = [int(k) for k in chosen.capacities.split(",")]
    rows, summary, began = [], {}, time.process_time()
    for name in names:
        policy = VARIANTS[name.strip()]
        if chosen.beyond:
            values = beyond(policy)
        else:
            values = search(policy, capacities, chosen.forms.split(","), chosen.rounds, chosen.final_runs)
        rows += [_row(name, policy, v) for v in values]
        summary[name] = rows[-1]
        top = values[-1]
        print(f"{name:18s} worst {top.mean:.3f} (limit {top.limit:.3f}) at {top.point}", flush=True)
    chosen.output.mkdir(parents=True, exist_ok=True)
    partial = chosen.output / "points.csv.part"
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(chosen.output / "points.csv")
    manifest = {
        "command": " ".join(["python -m benchmarks.solar_box", *sys.argv[1:]]),
        "variants": {n: VARIANTS[n] for n in names},
        "points": len(rows),
        "cpu_seconds": round(time.process_time() - began, 1),
        "error_of_limits": ERROR,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "scipy": scipy.__version__,
        },
        "machine": platform.machine(),
        "worst": summary,
    }
    partial = chosen.output / "manifest.json.part"
    partial.write_text(json.dumps(manifest, indent=1) + "\n")
    partial.replace(chosen.output / "manifest.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
