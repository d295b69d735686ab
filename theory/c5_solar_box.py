"""C5: in a box of traces, and of lambda, the measured expected slope of SOLAR stays below 3.

Statement
---------
serve_then_update, stream, free fill; e_t serves its query best. The box: K in 1..32; lambda in [0, 10];
cycles over K < w <= 4K items, and piecewise-stationary requests (uniform or Zipf) with working sets of
K/2 <= w <= 4K items, drawn afresh from 10K items for each segment of 10K to 50K steps. For every case of
the box that was tried, the expectation over SOLAR's coins of ``(ALG(2T) - ALG(T)) / (OPT(2T) - OPT(T))``,
exact OPT, is below 3: the upper limits are, at one-sided error 10^-6, from 30 or more runs, where OPT
grows by 200 or more.

Hard hits, graded hits (an item serves its query with its own quality), classes of items of equal meaning;
a few cases with soft neighbours, against a certified lower bound of OPT.

Outside
-------
The box's ends are there for a reason.

* *Longer segments*: at K = 32 with w = 33 and segments of 1000K the slope is near 3.9. One endless
  segment on K+1 items is the adversary of C1, and H_32 = 4.06.
* *Larger caches*: means of 2.94 at K = 64 and 3.04 at K = 128 (w = 149, lambda = 1/20; limits 3.03 and
  3.05). It is mostly OPT's foresight of independent draws (docs/solar.md).
* *The worst case* of a policy of this kind: gated LRU, lambda = 1, theta = 2, has exact competitive
  ratios 3, 9/2, 6 and 9 for K = 1, 2, 3, 4. No bound for all traces may be read into this claim; C1 and
  C2 exclude it.

Examples
--------
>>> print(judge("solar", Case(2, 3, 100, Fraction(0), seed=1)).state)
below

What the numbers are
--------------------
``python -m benchmarks.solar_box`` searches the box: the worst mean it found is 2.84 (upper limit 2.86),
at K = 31, w = 36, lambda = 1/20, on 200 fresh runs after the search. The checks here draw other traces
from the same box; their worst has 2.84 (K = 32, w = 36, lambda = 1/10; 400 fresh runs, upper limit 2.85).
The stored table, by K: the worst of up to 54 cases near the place where large caches do worst, by 30 runs
each, then 200 fresh runs of it. A maximum of many noisy means is biased upwards; a fresh mean is not.

References
----------
Ours. The constant is that of the SOLAR paper's abstract, which states it for all K."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from adversaries.exact import exact_ratio
from adversaries.families import make_trace
from softhit import simulate
from softhit.cost import added_cost
from theory import artefact
from theory.claim import Check, Claim, Figure, Mutant, equal, hold
from theory.measure import optimum
from theory.solar_box import BOUND, ERROR, TINY, Case, Verdict, draw, growth, judge, limits, slopes

__all__ = ["CLAIM"]

STORED = artefact.FOLDER / "c5_box.csv"
ZERO = Fraction(0)
POINTS = (
    Case(32, 38, 1600, ZERO, seed=1),
    Case(32, 36, 1600, ZERO, seed=500),
    Case(32, 36, 1600, Fraction(1, 10), seed=2),
    Case(31, 36, 1550, Fraction(1, 20), seed=5),
    Case(32, 32, 1600, ZERO, seed=1),
    Case(32, 33, 0, ZERO),
    Case(32, 128, 0, Fraction(10)),
    Case(32, 37, 1600, ZERO, 0.0, "classes", 3),
    Case(16, 18, 800, Fraction(1, 10), 0.0, "graded", 2),
    Case(24, 27, 1200, ZERO, 0.4, seed=3),
    Case(3, 4, 150, ZERO, seed=4),
    Case(1, 2, 50, Fraction(1, 4) - TINY, seed=5),
)
SOFT = (
    Case(4, 5, 200, Fraction(1), form="soft", seed=2),
    Case(2, 4, 100, Fraction(1, 2), form="soft", seed=1),
    Case(4, 5, 0, Fraction(1), form="soft"),
)
CAPACITIES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 31, 32, 48, 64, 128)


def points(policy: str = "solar", bound: float = BOUND, cases: Iterable[Case] = POINTS) -> None:
    """The worst points known, and others of all kinds: the upper limit of the expected slope is below 3."""
    for case in cases:
        verdict = judge(policy, case, bound)
        hold(verdict.state == "below", f"{policy}, {case}: {verdict}, {verdict.state} {bound}")


def search(
    policy: str = "solar", bound: float = BOUND, count: int = 30, seed: int = 5
) -> dict[Case, Verdict]:
    """Random cases of the box: no lower limit is above 3, and hardly any case is undecided."""
    rng = np.random.default_rng(seed)
    seen: dict[Case, Verdict] = {}
    loads = []
    for _ in range(count):
        case = draw(rng)
        if (ready := growth(case)) is None:
            continue
        loads.append(ready[3])
        verdict = seen[case] = judge(policy, case, bound)
        hold(verdict.state != "above", f"{policy}, {case}: {verdict}, above {bound}")
    open_ = [f"{case}: {verdict}" for case, verdict in seen.items() if verdict.state == "undecided"]
    hold(len(open_) <= len(seen) // 20, f"{policy}: undecided {len(open_)} of {len(seen)}: {open_[:3]}")
    # the search would say nothing on traces where OPT too misses nearly everything, or with few cases
    hold(2 * len(seen) >= count, f"only {len(seen)} of {count} cases in which OPT grows by 200")
    share = float(np.mean(np.array(loads) <= 0.7))
    hold(share >= 0.5, f"OPT pays at most 0.7 a step in {share:.0%} of the cases, wanted half")
    return seen


def search_more() -> None:
    """The same for 800 cases; when this was written, none was undecided."""
    search(count=800, seed=6)


def soft_neighbours(policy: str = "solar", cases: Iterable[Case] = SOFT) -> None:
    """Neighbours on a ring serve with quality 1/2: below 3 even against a lower bound of OPT's growth."""
    points(policy, cases=cases)


def long_segments(policy: str = "solar", bound: float = BOUND, multiple: int = 1000) -> None:
    """Outside: K = 32, w = 33, segments of 1000K steps, lambda = 0: the lower limit is above 3."""
    capacity, w, n = 32, 33, 4
    length = multiple * capacity
    values = []
    trace = make_trace("piecewise", capacity, n * length, 0, seed=3, w=w, segment=length, items=n * w)
    half = trace.prefix(n // 2 * length)
    grown = float(optimum(trace, capacity, 0) - optimum(half, capacity, 0))
    for seed in range(30):
        schedule = simulate(policy, trace, capacity, 0, seed=seed)
        values.append(float(added_cost(schedule, trace, half, capacity, 0)) / grown)
    mean, lower, _ = limits(values, ERROR)
    hold(lower > bound, f"K={capacity}, segments of {multiple}K: {mean:.3f}, at least {lower:.3f}, not above")


def exact_ratios(theta: int = 2) -> None:
    """The exact competitive ratio of gated LRU (theta = 2, lambda = 1): 3, 9/2, 6, 9 for K = 1, 2, 3, 4."""
    for k, want in enumerate(map(Fraction, ("3", "9/2", "6", "9")), 1):
        got = exact_ratio(f"gated_lru(theta={theta})", k, k + 1, 1).ratio
        equal(got, want, f"K={k}, theta={theta}")


def _cases(k: int) -> list[Case]:
    """Return the cases of the stored table for one K: the neighbourhood that binds, and cycles."""
    near = sorted({k + 1, *(ceil(k * share) for share in (1.06, 1.12, 1.16, 1.19))})[:5]
    prices = (ZERO, Fraction(1, 20), Fraction(3, 10))
    pieces = [Case(k, w, 50 * k, lam, seed=seed) for w in near for lam in prices for seed in (11, 12, 13)]
    return [*pieces, *(Case(k, w, 0, lam) for w in near[:3] for lam in prices)]


def _table(k: int) -> list[dict[str, Any]]:
    rows = []
    for family in ("piecewise", "cycle"):
        cases = [case for case in _cases(k) if (case.segment == 0) == (family == "cycle")]
        cases = [case for case in cases if growth(case) is not None]
        worst = max(cases, key=lambda case: float(np.mean(slopes("solar", case, range(30)))))
        mean, lower, upper = limits(slopes("solar", worst, range(1000, 1200)), ERROR)
        rows.append(
            {
                "family": family,
                "K": k,
                "w": worst.w,
                "lambda": str(worst.switch_cost),
                "trace": worst.seed,
                "mean": round(mean, 4),
                "low": round(lower, 4),
                "high": round(upper, 4),
                "cases": len(cases),
                "runs": 200,
            }
        )
    return rows


def stored_table(bound: float = BOUND) -> None:
    """The stored table, fresh runs at the worst case of each K: below 3 for K <= 32, above 3 at K = 128."""
    rows = artefact.read(STORED)
    have = {(row["family"], row["K"]) for row in rows}
    wanted = {(family, k) for family in ("piecewise", "cycle") for k in CAPACITIES}
    hold(wanted <= have, f"the table lacks {sorted(wanted - have)[:3]}; make it again")
    for row in rows:
        where = f"{row['family']}, K={row['K']}, w={row['w']}, lambda={row['lambda']}"
        if row["K"] <= 32:
            hold(row["high"] < bound, f"{where}: {row['mean']}, at most {row['high']}, not below {bound}")
        if row["K"] == 128 and row["family"] == "piecewise":
            hold(row["low"] > BOUND, f"{where}: {row['mean']}, at least {row['low']}, not above {BOUND}")


def _stored_rows() -> list[dict[str, Any]]:
    return artefact.read(STORED)


_FIRST, _CYCLE, _FITS, _DEAR = POINTS[0], POINTS[5], POINTS[4], POINTS[6]

CLAIM = Claim(
    id="C5",
    title="what SOLAR does achieve",
    statement=(
        "SOLAR's expected slope against exact OPT was below 3 wherever measured in a box: K <= 32, "
        "lambda <= 10, cycles and piecewise-stationary requests."
    ),
    variant="serve_then_update, stream, free fill, e_t serves best; hard, graded, classes; few soft cases",
    source="ours; the SOLAR paper's abstract states at most 3 without such limits",
    status="empirical",
    scope="K <= 32, lambda <= 10, cycles K < w <= 4K, segments 10K..50K with K/2 <= w <= 4K; 10^-6 a limit",
    breaks="K = 128: 3.04; segments of 200K and more at K = 32; any worst case (gated LRU, K = 4: exactly 9)",
    checks=(
        Check("points", points),
        Check("search", search),
        Check("long_segments", long_segments),
        Check("exact_ratios", exact_ratios),
        Check("stored_table", stored_table),
        Check("search_more", search_more, slow=True),
        Check("soft_neighbours", soft_neighbours, slow=True),
    ),
    mutants=(
        Mutant(
            "bare_prior",
            "points",
            {"policy": "solar(evidence=false)", "cases": (_FIRST,)},
            "forgets what made it admit an item",
        ),
        Mutant("mean", "points", {"policy": "solar_mean", "cases": (_CYCLE,)}, "cycles beat a fixed order"),
        Mutant(
            "fixed_threshold",
            "points",
            {"policy": "solar(xi_low=0.85, xi_high=0.85)", "cases": (_CYCLE,)},
            "and a fixed threshold",
        ),
        Mutant(
            "long_memory",
            "points",
            {"policy": "solar(horizon=8)", "cases": (_FITS,)},
            "keeps the last segment's items",
        ),
        Mutant("paper", "points", {"policy": "solar_paper", "cases": (_FIRST,)}, "one counter for all items"),
        Mutant("no_gate", "points", {"policy": "solar_eviction", "cases": (_DEAR,)}, "lambda = 10"),
        Mutant("two_and_a_half", "points", {"bound": 2.5, "cases": (_FIRST,)}, "2.78 there"),
        Mutant("search_no_gate", "search", {"policy": "solar_eviction"}, "lambda up to 10"),
        Mutant("short_segments", "long_segments", {"multiple": 50}, "in the box it is below 3"),
        Mutant("another_theta", "exact_ratios", {"theta": 3}, "8/3, 4, 8, 12"),
        Mutant("stored_bound", "stored_table", {"bound": 2.7}, "2.8 is reached at K = 32"),
        Mutant("soft_no_gate", "soft_neighbours", {"policy": "never", "cases": SOFT[1:2]}, "never changes"),
    ),
    figure=Figure(
        title="SOLAR's slope against exact OPT at the worst of up to 54 cases; the box ends at K = 32",
        rows=_stored_rows,
        x="K",
        y="mean",
        low="low",
        high="high",
        by="family",
        references={"3": lambda _: 3.0},
        x_label="capacity K",
        y_label="expected slope ALG / OPT",
        x_log=True,
    ),
)


def main() -> None:
    """Make the stored table."""
    rows = [row for k in CAPACITIES for row in _table(k)]
    facts = {"policy": "solar", "seeds": "0..29 to choose, 1000..1199 to measure", "error": ERROR}
    artefact.write(STORED, rows, "python -m theory.c5_solar_box", seed=0, **facts)


if __name__ == "__main__":
    main()
