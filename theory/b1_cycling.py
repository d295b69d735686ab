"""B1: on a cycle that does not fit, FIFO and LRU never hit, and a fixed set is the offline optimum.

Statement
---------
serve_then_update, ``stream`` with e_t = q_t, hard hits, unit sizes, empty start, free fill. The requests are
0, 1, ..., W-1, 0, 1, ... with W > K >= 1; T requests in all. For every lambda >= 0:

* FIFO and LRU miss every request: cost ``T + lambda max(0, T - K)`` exactly.
* Keeping the first K items is optimal. For T = K + m W + r with 0 <= r < W,
  ``OPT = K + m (W - K) + min(r, W - K)``; at W = K + 1 this is ``K + ceil((T - K)/(K + 1))``.
* So the ratio tends to ``(1 + lambda) W / (W - K)``, at W = K + 1 to ``(1 + lambda)(K + 1)``: unbounded in K.

Proof
-----
In ``proofs/B1.md``, by induction in ``B1.v``. In short: an item enters only at its own miss, so of W requests
in a row, all different, at most K hit; and the first K of any run of different items from the empty cache all
miss. FIFO and LRU evict the item that is asked for soonest.

Examples
--------
>>> from adversaries.families import cycling
>>> from theory.measure import optimum, paid
>>> trace = cycling(capacity=3, steps=43)              # W = 4
>>> print(paid("lru", trace, 3, 2), optimum(trace, 3, 2))       # 43 + 2 * 40; 3 + ceil(40/4)
123 13

References
----------
Known for paging since Sleator and Tarjan 1985; here with bypassing and lambda.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from adversaries.families import make_trace
from softhit import Trace, cost, from_requests
from softhit.schedule import Schedule
from theory.claim import Check, Claim, Mutant, equal
from theory.measure import optimum as best_cost
from theory.measure import paid

__all__ = ["CLAIM", "best", "costs", "optimum", "ratio"]

LAMBDAS = tuple(map(Fraction, ("0", "1/3", "1", "5/2")))


def best(k: int, w: int, steps: int) -> int:
    """Return OPT: K misses, W - K in every further W requests, and what is left over."""
    if steps <= k:
        return steps
    rounds, rest = divmod(steps - k, w)
    return k + rounds * (w - k) + min(rest, w - k)


def _grid() -> Iterator[tuple[Trace, int, int, int]]:
    for k in (1, 2, 3, 5, 8):
        for w in sorted({k + 1, k + 2, 2 * k + 1, 3 * k + 2}):
            for steps in (1, k, k + 1, w, w + 1, k + 2 * w - 1, k + 3 * w, 10 * w + 3):
                yield make_trace("cycling", k, steps, w=w), k, w, steps


def costs(policies: tuple[str, ...] = ("fifo", "lru")) -> None:
    """FIFO and LRU pay exactly T + lambda max(0, T - K), on any cycle that does not fit."""
    for trace, k, w, steps in _grid():
        for lam in LAMBDAS:
            for name in policies:
                where = f"{name}, K={k}, W={w}, T={steps}, lambda={lam}"
                equal(paid(name, trace, k, lam), steps + lam * max(0, steps - k), where)


def optimum(more: int = 0) -> None:
    """The exact optimum is that of keeping the first K items, for every lambda."""
    for trace, k, w, steps in _grid():
        keep = Schedule.from_events(steps, [], [], range(min(k, steps)), range(min(k, steps)))
        formula = best(k + more, w, steps)
        if w == k + 1 and steps >= k and not more:
            equal(formula, k - (k - steps) // (k + 1), f"the two formulas, K={k}, T={steps}")
        for lam in LAMBDAS:
            where = f"K={k}, W={w}, T={steps}, lambda={lam}"
            equal(cost(keep, trace, k, lam).fraction, Fraction(formula), f"static set, {where}")
            equal(best_cost(trace, k, lam), Fraction(formula), f"OPT, {where}")


def ratio(spread: int = 0) -> None:
    """Over whole rounds the ratio of costs is exactly (1 + lambda) W / (W - K)."""
    for k, w in ((1, 2), (2, 3), (4, 5), (4, 6), (12, 13), (12, 24)):
        near, far = (from_requests([t % w for t in range(n * w)]) for n in (5, 25))
        for lam in LAMBDAS:
            limit = (1 + lam) * (w + spread) / (w - k)
            rise = best_cost(far, k, lam) - best_cost(near, k, lam)
            for name in ("fifo", "lru"):
                slope = (paid(name, far, k, lam) - paid(name, near, k, lam)) / rise
                equal(slope, limit, f"slope of {name}, K={k}, W={w}, lambda={lam}")


CLAIM = Claim(
    id="B1",
    title="cycling",
    statement="On a cycle of W > K items FIFO and LRU pay T + lambda(T-K); OPT is static, W-K per round.",
    variant="serve_then_update, stream, e_t = q_t, free fill, hard hits, unit sizes, empty start",
    source="the SOLAR paper's motivation; the exact figures and OPT ours",
    status="machine-checked",
    scope="all K >= 1, W > K, T, lambda >= 0",
    breaks="W <= K (B3); charged fill, where a dear enough load is not worth it; pool",
    checks=(Check("costs", costs), Check("optimum", optimum), Check("ratio", ratio)),
    mutants=(
        Mutant("random_for_lru", "costs", {"policies": ("fifo", "random")}, "it hits now and then"),
        Mutant("one_slot_more", "optimum", {"more": 1}, "what OPT would pay with K + 1 slots"),
        Mutant("longer_round", "ratio", {"spread": 1}, "W + 1 misses a round"),
    ),
    proofs=("B1.md", "B1.v"),
)
