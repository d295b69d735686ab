"""What the named families of requests do to a policy, for comparison with what a search finds.

Families in which queries come without arrivals are left out, for there every online policy has an unbounded
ratio: let K + 1 items arrive, then ask for ever for one that it may not hold, which nobody can load any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from statistics import fmean
from typing import Any

from adversaries.families import family_names, make_trace
from offline_opt import solve
from softhit import Variant, cost, simulate

GRID: dict[str, list[dict[str, Any]]] = {
    "cycling": [{"w": w} for w in ("K+1", "1.5K", "2K")],
    "piecewise": [
        {"w": w, "segment": segment, "drift": drift, "zipf": zipf, "items": items}
        for w in ("K", "1.5K")
        for segment in ("2K", "5K", "20K")
        for drift in (0.25, 1.0)
        for zipf in (0.0, 1.0)
        for items in ("3K", "10K")
    ],
    "noise_floor": [{"floor": floor, "segment": "5K"} for floor in (0.1, 0.5)],
    "pollution": [{}],
    "uniform_blocks": [{"tau": tau} for tau in (1, 2, 3, 4, 5, 6, 8)],
    "scan_loop": [
        {"hot": hot, "laps": laps, "scan": scan}
        for hot in ("K/2", "K")
        for laps in (1, 2, 5)
        for scan in ("K/2+1", "2K")
    ],
    "frequency_pollution": [{"repeats": 5, "fresh": n} for n in (2, "K+1")],
    "near_duplicates": [{}],
    "polarity": [{}],
    "drift": [{}],
    "conversation": [{}, {"burst": 3}],
    "working_set_sweep": [{}, {"first": "K+1", "last": "K+1", "phases": 10}, {"first": "K", "last": "1.5K"}],
}
"""Parameters to try, by family."""


def slopes(
    policy: str, capacity: int, switch_cost: Any, steps: int, seeds: int
) -> Iterator[tuple[str, float]]:
    """Yield each setting with the mean slope ratio of its second half, OPT exact; hard forms, e_t = q_t."""
    assert set(GRID) >= set(family_names()), "a family without settings here"
    for name in family_names():
        for setting in GRID[name]:
            alg, opt = [], []
            if not make_trace(name, capacity, steps, switch_cost, 0, **setting).structure.requests:
                continue
            for seed in range(seeds):
                trace = make_trace(name, capacity, steps, switch_cost, seed, **setting)
                half = trace.prefix(steps // 2)
                schedule = simulate(policy, trace, capacity, switch_cost, seed)
                costs = [
                    cost(schedule.prefix(part.n_steps), part, capacity, switch_cost).fraction
                    for part in (half, trace)
                ]
                optima = [solve(part, capacity, switch_cost, Variant()) for part in (half, trace)]
                assert all(answer.kind == "exact" for answer in optima)
                alg.append(costs[1] - costs[0])
                opt.append(Fraction(optima[1].lower_bound - optima[0].lower_bound))
            words = ", ".join(f"{k}={v}" for k, v in setting.items())
            yield f"{name}({words})", fmean(alg) / fmean(opt) if sum(opt) else float(sum(alg) > 0)
