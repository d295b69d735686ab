"""A2: a policy that admits every arrival pays without bound while the optimum pays 1.

Statement
---------
serve_then_update, ``stream``, free fill, best, hard hits, empty start; here e_t differs from q_t. Item 0
arrives at step 0 and answers every query; at step t > 0 a fresh item t arrives that answers nothing. For all
K >= 1, lambda >= 0 and T > K:

* a policy that admits every arrival pays at least ``1 + lambda (T - K)``;
* FIFO pays exactly ``(T - K)(1 + lambda)``, LRU (K >= 2, a hit touches) exactly ``1 + lambda (T - K)``;
* OPT = 1, whatever lambda.

So the ratio is at least lambda (T - K), and for FIFO it grows with T even at lambda = 0. Policies that admit
on a *miss* are not concerned: they pay 1 here, and B2 bounds FIFO and LRU where e_t = q_t.

Proof
-----
In ``proofs/A2.md``: step 0 misses whatever one does; arrivals K, K+1, ..., T-1 are new and enter a full
cache, lambda each; keeping item 0 costs 1.

Examples
--------
>>> from softhit import cost, simulate
>>> from adversaries.families import make_trace
>>> trace = make_trace("pollution", 2, 6)
>>> print(cost(simulate("fifo", trace, 2, 3), trace, 2, 3).fraction)   # (6-2) * (1+3)
16

References
----------
The SOLAR paper motivates admission control by always-admitting policies; the trace and the figures are ours.
"""

from __future__ import annotations

from fractions import Fraction

from adversaries.families import make_trace
from softhit import policy_names
from softhit.policies import policy_info
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import optimum as best_cost
from theory.measure import paid

__all__ = ["CLAIM", "exact_costs", "optimum", "unbounded"]

_GRID = [
    (k, steps, Fraction(lam))
    for k in (1, 2, 3, 7)
    for steps in (k + 1, k + 2, 4 * k + 9, 200)
    for lam in ("0", "1/3", "1", "5/2")
]


def _paid(spec: str, k: int, steps: int, lam: Fraction) -> Fraction:
    trace = make_trace("pollution", k, steps, lam)
    return paid(spec, trace, k, lam)


def unbounded(least: int = 1) -> None:
    """Every policy of the registry that admits every arrival pays at least 1 + lambda (T - K)."""
    always = [name for name in policy_names() if policy_info(name).admission.startswith("always")]
    hold("fifo" in always and "lru" in always, f"the registry knows {always} as always admitting")
    for k, steps, lam in _GRID:
        for name in always:
            bound = least + lam * (steps - k)
            paid = _paid(name, k, steps, lam)
            hold(paid >= bound, f"{name}, K={k}, T={steps}, lambda={lam}: paid {paid}, at least {bound}")


def exact_costs(fifo: str = "fifo", lru: str = "lru") -> None:
    """FIFO pays (T-K)(1+lambda), and LRU with K >= 2 exactly 1 + lambda (T-K)."""
    for k, steps, lam in _GRID:
        where = f"K={k}, T={steps}, lambda={lam}"
        equal(_paid(fifo, k, steps, lam), (steps - k) * (1 + lam), f"FIFO, {where}")
        if k >= 2:
            equal(_paid(lru, k, steps, lam), 1 + lam * (steps - k), f"LRU, {where}")


def optimum(expected: int = 1) -> None:
    """OPT = 1, by the exact solver and its certificate, and so for policies that admit on a miss."""
    for k, steps, lam in _GRID:
        trace = make_trace("pollution", k, steps, lam)
        best = best_cost(trace, k, lam)
        equal(best, Fraction(expected), f"OPT, K={k}, T={steps}, lambda={lam}")
        for spec in ("fifo(admit=miss)", "lru(admit=miss)"):
            equal(_paid(spec, k, steps, lam), Fraction(1), f"{spec}, K={k}, T={steps}, lambda={lam}")


CLAIM = Claim(
    id="A2",
    title="always-admit is unbounded in T",
    statement="Admitting all arrivals can cost 1 + lambda (T-K) where OPT pays 1; FIFO pays (T-K)(1+lambda).",
    variant="serve_then_update, stream, free fill, hard hits, e_t not q_t, empty start",
    source="motivation of the SOLAR paper; trace and exact figures ours",
    status="proved",
    scope="all K >= 1, T > K, lambda >= 0",
    breaks="policies that admit on a miss pay 1 here; where e_t = q_t FIFO and LRU obey B2",
    checks=(Check("unbounded", unbounded), Check("exact_costs", exact_costs), Check("optimum", optimum)),
    mutants=(
        Mutant("one_more", "unbounded", {"least": 2}, "LRU attains the bound, so one more is too much"),
        Mutant("lru_for_fifo", "exact_costs", {"fifo": "lru"}, "LRU keeps item 0"),
        Mutant("opt_zero", "optimum", {"expected": 0}, "step 0 misses whatever one does"),
    ),
    proofs=("A2.md",),
)
