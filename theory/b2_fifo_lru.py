"""B2: the competitive ratio of FIFO and of LRU is exactly (K+1)(1+lambda).

Statement
---------
serve_then_update, ``stream`` with e_t = q_t, hard hits, unit sizes, free fill. For every K >= 1, lambda >= 0:

* F faults of FIFO, LRU or the textbook CLOCK (an item enters with its bit set), from the empty cache, force
  ``OPT >= ceil(F / (K + 1))``, whatever lambda. A fault costs at most 1 + lambda, so
  ``Cost <= (K + 1)(1 + lambda) OPT``.
* No smaller factor holds for FIFO and LRU: the cycle over K + 1 items (B1).

Bypassing makes the K of classical paging K + 1: OPT may miss without loading.

What does not follow
--------------------
* ``clock`` of the registry (and of libcachesim) clears the bit on entry. K + 1 faults of it may touch fewer
  items. Its ratio is ``max((K + 1)(1 + lambda), 2 K - 1)`` in every case computed: larger for small lambda.
* In update_then_serve, lambda > 0, the ratio is another one: exactly ``max(K, (K + 1) lambda)`` for FIFO and
  LRU, for every K. They never miss there; OPT may prefer to, as bypassing costs 1 and a load lambda.

Proof
-----
In ``proofs/B2.md``: K + 1 consecutive faults lie in a window of requests to at least K + 1 items. One of them
is absent from any given cache when the window begins, and misses in it.

Examples
--------
>>> from adversaries.exact import exact_ratio
>>> print(*(exact_ratio("lru", k, k + 1, "1/2").ratio for k in (1, 2, 3)))
3 9/2 6

References
----------
D. D. Sleator and R. E. Tarjan, Amortized efficiency of list update and paging rules, CACM 28(2), 1985, for
faults in windows; A. Borodin and R. El-Yaniv, Online Computation and Competitive Analysis, 1998, chapter 3,
for conservative policies. The form with bypassing and lambda is ours.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.exact import FIFO, LRU, Clock, MachinePolicy, exact_ratio
from adversaries.exact.machine import FiniteStatePolicy
from softhit import Trace, Variant, cost, from_requests, simulate
from softhit.cost import miss_units_by_step
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import optimum as best_cost
from theory.measure import paid

__all__ = [
    "CLAIM",
    "bound",
    "clock",
    "exact",
    "update_first",
    "update_first_bound",
    "update_first_cycle",
    "windows",
]

LAMBDAS = tuple(map(Fraction, ("0", "1/2", "1", "3")))
CONSERVATIVE: tuple[FiniteStatePolicy, ...] = (FIFO(), LRU(), Clock(bit=1))
UPDATE_FIRST = Variant(order="update_then_serve")
UPDATE_CHARGED = Variant(order="update_then_serve", fill="charged")
_UPDATE_FIRST = tuple(map(Fraction, ("1/4", "1/2", "3/4", "9/10", "1", "3")))
_SMALL = ((1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (2, 4), (3, 5))


def _random(rng: np.random.Generator, k: int) -> Trace:
    """Draw requests that begin with 0..K-1 and then mix rounds, repeats and noise over few items."""
    n = k + int(rng.integers(1, 4))
    asked = list(range(k))
    while len(asked) < 120:
        kind, length = rng.integers(0, 3), int(rng.integers(1, 3 * k + 3))
        start = int(rng.integers(0, n))
        if kind == 0:
            asked += [(start + i) % n for i in range(length)]
        elif kind == 1:
            asked += [start] * (length // 2 + 1)
        else:
            asked += rng.integers(0, n, length).tolist()
    return from_requests(asked, n_items=n)


def _faults(machine: FiniteStatePolicy, trace: Trace, k: int) -> list[int]:
    schedule = simulate(MachinePolicy(machine), trace, k)
    return [int(t) for t in np.flatnonzero(miss_units_by_step(schedule, trace))]


def windows(machines: tuple[FiniteStatePolicy, ...] = CONSERVATIVE, per_window: int = 1) -> None:
    """Any K + 1 consecutive faults span requests to at least K + 1 different items."""
    rng, seen = np.random.default_rng(4), 0
    for number in range(150):
        k = number % 5 + 1
        trace = _random(rng, k)
        asked = trace.requests.tolist()
        for machine in machines:
            steps = _faults(machine, trace, k)
            for first, last in zip(steps, steps[k:], strict=False):
                different = len(set(asked[first : last + 1]))
                where = f"{machine.name}, K={k}, steps {first} to {last} of {asked}"
                hold(different >= k + per_window, f"{where}: {different} items in {k + 1} faults")
                seen += 1
    hold(seen > 10_000, f"only {seen} windows")


def bound(machines: tuple[FiniteStatePolicy, ...] = CONSERVATIVE, less: int = 0) -> None:
    """From the empty cache F <= (K + 1) OPT, so Cost <= (K + 1)(1 + lambda) OPT, against the exact OPT."""
    rng = np.random.default_rng(5)
    for number in range(60):
        k = number % 4 + 1
        trace = _random(rng, k) if number % 5 else exact_ratio("lru", k, k + 1).trace(10)
        schedules = [(machine, simulate(MachinePolicy(machine), trace, k)) for machine in machines]
        for lam in LAMBDAS:
            best = best_cost(trace, k, lam)
            for machine, schedule in schedules:
                priced = cost(schedule, trace, k, lam)
                where = f"instance {number}, {machine.name}, K={k}, lambda={lam}"
                factor = k + 1 - less
                faults = Fraction(priced.misses)
                hold(faults <= factor * best, f"{where}: {faults} faults, OPT = {best}")
                most = factor * (1 + lam) * best
                hold(priced.fraction <= most, f"{where}: cost {priced.fraction}, at most {most}")


def exact(policies: tuple[str, ...] = ("fifo", "lru"), more: int = 1) -> None:
    """The exact ratio for small K: K <= 4 on K + 1 items, K <= 3 on K + 2."""
    for k, n in _SMALL:
        for lam in LAMBDAS:
            for name in policies:
                found = exact_ratio(name, k, n, lam).ratio
                equal(found, (k + more) * (1 + lam), f"ratio of {name}, K={k}, N={n}, lambda={lam}")


def clock(first: int = 1, faster: int = 2) -> None:
    """CLOCK with the bit set has (K+1)(1+lambda); the registered one max((K+1)(1+lambda), 2K-1)."""
    for k, n in _SMALL:
        for lam in map(Fraction, ("0", "1/3", "1")):
            where = f"K={k}, N={n}, lambda={lam}"
            classic = (k + 1) * (1 + lam)
            equal(exact_ratio(Clock(bit=first), k, n, lam).ratio, classic, f"textbook CLOCK, {where}")
            worse = max(classic, Fraction(faster * k - 1))
            equal(exact_ratio("clock", k, n, lam).ratio, worse, f"registered clock, {where}")


def update_first(base: int = 0) -> None:
    """In update_then_serve the exact ratio is max(K, (K+1) lambda) for small K."""
    for k, n in ((1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (2, 4)):
        for lam in _UPDATE_FIRST:
            for name in ("fifo", "lru"):
                found = exact_ratio(name, k, n, lam, UPDATE_FIRST).ratio
                where = f"{name}, K={k}, N={n}, lambda={lam}"
                equal(found, max(k + base, (k + 1) * lam), f"ratio in update_then_serve, {where}")


def update_first_bound(machines: tuple[FiniteStatePolicy, ...] = CONSERVATIVE, less: int = 0) -> None:
    """In update_then_serve Cost <= max(K, (K+1) lambda) OPT + lambda K if the fill is charged."""
    rng = np.random.default_rng(6)
    for number in range(50):
        k = number % 4 + 1
        trace = _random(rng, k)
        if number % 5 == 0:
            trace = from_requests([t % (k + 1) for t in range(12 * k * (k + 1))])
        schedules = [(machine, simulate(MachinePolicy(machine), trace, k)) for machine in machines]
        for lam in _UPDATE_FIRST:
            best = best_cost(trace, k, lam, UPDATE_CHARGED)
            ratio = max(Fraction(k - less), (k + 1 - less) * lam)
            for machine, schedule in schedules:
                spent = cost(schedule, trace, k, lam, UPDATE_CHARGED).fraction
                where = f"instance {number}, {machine.name}, K={k}, lambda={lam}"
                equal(spent, lam * schedule.n_insertions, f"cost is that of the loads, {where}")
                most = ratio * best + lam * k
                hold(spent <= most, f"{where}: cost {spent}, at most {most}")


def update_first_cycle(base: int = 0) -> None:
    """In update_then_serve the cycle over K + 1 items forces max(K, (K+1) lambda)."""
    for k in (1, 2, 3, 5, 8):
        near, far = (from_requests([t % (k + 1) for t in range(n * k * (k + 1))]) for n in (3, 9))
        for lam in _UPDATE_FIRST:
            rise = best_cost(far, k, lam, UPDATE_FIRST) - best_cost(near, k, lam, UPDATE_FIRST)
            ratio = max(Fraction(k + base), (k + 1) * lam)
            for name in ("fifo", "lru"):
                slope = (
                    paid(name, far, k, lam, UPDATE_FIRST) - paid(name, near, k, lam, UPDATE_FIRST)
                ) / rise
                equal(slope, ratio, f"slope of {name} in update_then_serve, K={k}, lambda={lam}")


CLAIM = Claim(
    id="B2",
    title="FIFO and LRU",
    statement="FIFO and LRU are (K+1)(1+lambda)-competitive, and no smaller factor holds.",
    variant="serve_then_update, stream, e_t = q_t, hard hits, unit sizes, free fill",
    source="after Sleator and Tarjan 1985; with bypassing and lambda ours",
    status="proved",
    scope="all K >= 1, lambda >= 0, sequences, from the empty cache without additive constant",
    breaks="the registered clock (bit clear on entry); e_t not q_t (A2); update_then_serve has another ratio",
    checks=(
        Check("windows", windows),
        Check("bound", bound),
        Check("exact", exact),
        Check("clock", clock),
        Check("update_first", update_first),
        Check("update_first_bound", update_first_bound),
        Check("update_first_cycle", update_first_cycle),
    ),
    mutants=(
        Mutant("clear_bit", "windows", {"machines": (Clock(),)}, "K + 1 faults of it may touch fewer items"),
        Mutant("one_more_item", "windows", {"per_window": 2}, "K + 1 faults on K + 1 items are possible"),
        Mutant("factor_k", "bound", {"less": 1}, "what classical paging has, without bypassing"),
        Mutant("ratio_k", "exact", {"more": 0}, "what classical paging has, without bypassing"),
        Mutant("clock_for_fifo", "exact", {"policies": ("clock",)}, "7 instead of 5 at K = 4, lambda = 0"),
        Mutant("clock_as_the_textbook", "clock", {"first": 0}),
        Mutant("clock_2k", "clock", {"faster": 3}),
        Mutant("k_plus_1", "update_first", {"base": 1}, "a ratio that K + 1 faults a load would give"),
        Mutant("factor_k_minus_1", "update_first_bound", {"less": 1}),
        Mutant("forces_more", "update_first_cycle", {"base": 1}),
    ),
    proofs=("B2.md",),
)
