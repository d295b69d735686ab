"""E1: with hard hits the offline optimum is a minimum-cost flow, so LP, flow, DP and MILP agree exactly.

Statement
---------
Unit sizes, at most one item serves a step; every order, availability and fill; any weights and qualities.

* Schedules that enter late and leave early are the integral flows of the network of
  `offline_opt.flow.network`, at the same cost, and no other schedule is cheaper. The matrix of a network is
  totally unimodular: the linear programme has an integral optimum, which is OPT.
* The same where similarity is an equivalence relation and one item is retrieved: classes are the items.
* Classical paging (e_t = q_t, every hit worth 1). serve_then_update, stream, lambda = 0: OPT is the number of
  misses of Belady's rule *with bypassing*. update_then_serve, charged fill: OPT = 0 at lambda = 0, lambda
  times the faults of forced Belady for 0 < lambda <= 1/2, the misses of Belady with bypassing at lambda = 1.

What does not hold
------------------
Soft hits: with three items and a query for each pair of them the constraint matrix has a minor of 2, and the
LP relaxation may be 0 where OPT is not (instance ``lp_gap`` of `offline_opt.instances`). Above lambda = 1/2
forced Belady may be beaten. Belady *without* bypassing is not optimal at lambda = 0.

Proof
-----
In ``proofs/E1.md``.

Examples
--------
>>> from softhit import from_requests
>>> from theory.measure import optimum
>>> trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
>>> print(optimum(trace, 1, 0), belady(trace, 1).n_insertions, forced_belady(trace, 1).n_insertions)
4 3 5

References
----------
L. A. Belady, IBM Systems Journal 5(2), 1966. Berger, Beckmann, Harchol-Balter, Practical bounds on optimal
caching with variable object sizes, 2018, for caching as a flow. Schrijver, Theory of Linear and Integer
Programming, 1986, chapter 19, for network matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from offline_opt import dp, solve
from offline_opt.belady import belady, forced_belady
from offline_opt.flow.network import Network, build_network, solve_networkx
from offline_opt.flow.ssp import solve_ssp
from offline_opt.flow.sweep import solve_sweep
from offline_opt.instances import random_instance
from offline_opt.soft.milp import branch_and_bound, relax
from softhit import Schedule, Trace, Variant, cost, from_requests, simulate
from theory.claim import Check, Claim, Mutant, close, equal, hold

__all__ = ["CLAIM", "agree", "classes", "flows", "matrix", "paging", "update_first"]

VARIANTS = tuple(
    Variant(*choice)
    for choice in itertools.product(
        ("serve_then_update", "update_then_serve"), ("stream", "pool"), ("free", "charged")
    )
)
PAGING = Variant(order="update_then_serve", fill="charged")
Problem = tuple[Trace, int, Fraction, Variant]
Solver = Callable[[Trace, int, Fraction, Variant], "Fraction | None"]


def _priced(schedule: Schedule, *problem: Any) -> Fraction:
    return cost(schedule, *problem).fraction


def _lru(trace: Trace, k: int, lam: Fraction, variant: Variant) -> Fraction:
    return _priced(simulate("lru", trace, k, lam, variant=variant), trace, k, lam, variant)


def _milp(*problem: Any) -> Fraction | None:
    found = branch_and_bound(*problem)
    hold(found.rejected is None, f"branch and bound: {found.rejected}")
    same = found.cost is not None and found.cost.fraction == found.lower_bound
    return found.cost.fraction if found.cost is not None and same else None


SOLVERS: Mapping[str, Solver] = {
    "flow, by a sweep over events": lambda *p: solve_sweep(*p).objective,
    "flow, by shortest paths": lambda *p: solve_ssp(*p).objective,
    "flow, prices of the sweep": lambda *p: solve_sweep(*p).lower_bound,
    "flow, by network simplex": lambda *p: solve_networkx(*p).objective,
    "LP, prices of its optimum": lambda *p: relax(*p).lower_bound,
    "MILP": _milp,
}


def _hard(seed: int, each: int, kind: str = "hard") -> list[Problem]:
    rng = np.random.default_rng(seed)
    return [
        (*random_instance(rng, kind, max_steps=14, max_items=6), variant)
        for variant in VARIANTS
        for _ in range(each)
    ]


def agree(solvers: Mapping[str, Solver] = SOLVERS, each: int = 8) -> None:
    """LP, flow, DP and MILP find the same number, exactly, in all eight variants."""
    tried = 0
    for number, problem in enumerate(_hard(6, each)):
        trace, k, lam, variant = problem
        best = _priced(dp.best_schedule(*problem), *problem)
        tried += best < trace.total_weight
        for name, solver in solvers.items():
            what = f"instance {number}, {name}, K={k}, lambda={lam}, {variant.label}"
            equal(solver(*problem), best, what)
    hold(tried > 4 * each, f"only {tried} instances in which anything can be served")


def _incidence(network: Network) -> NDArray[np.int64]:
    """Return the node-arc matrix: -1 where an arc begins, 1 where it ends."""
    row: dict[Any, int] = {}
    for arc in network.arcs:
        row.setdefault(arc.tail, len(row))
        row.setdefault(arc.head, len(row))
    out = np.zeros((len(row), len(network.arcs)), np.int64)
    for column, arc in enumerate(network.arcs):
        out[row[arc.tail], column] -= 1
        out[row[arc.head], column] += 1
    return out


def _determinant(matrix: NDArray[np.int64]) -> int:
    """Bareiss: exact, in integers."""
    a = [[int(x) for x in row] for row in matrix]
    n, sign, last = len(a), 1, 1
    for i in range(n - 1):
        pivot = next((r for r in range(i, n) if a[r][i]), None)
        if pivot is None:
            return 0
        if pivot != i:
            a[i], a[pivot], sign = a[pivot], a[i], -sign
        for r in range(i + 1, n):
            for c in range(i + 1, n):
                a[r][c] = (a[r][c] * a[i][i] - a[r][i] * a[i][c]) // last
        last = a[i][i]
    return sign * a[-1][-1]


def triangle(problem: Problem) -> NDArray[np.int64]:
    """Return the constraints of three queries, each for two of three items: soft hits, for comparison."""
    return np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]])


def matrix(constraints: Callable[[Problem], NDArray[np.int64]] | None = None) -> None:
    """Every column of the constraint matrix has one 1 and one -1, so every minor is -1, 0 or 1."""
    rng = np.random.default_rng(7)
    for number, problem in enumerate(_hard(7, 4)):
        a = constraints(problem) if constraints else _incidence(build_network(*problem))
        where = f"instance {number}, {problem[3].label}"
        for _ in range(60):
            size = int(rng.integers(1, min(7, *a.shape) + 1)) if a.size else 0
            if size:
                part = a[rng.permutation(len(a))[:size]][:, rng.permutation(a.shape[1])[:size]]
                minor = _determinant(part)
                hold(minor in (-1, 0, 1), f"{where}: a minor of {minor}: {part.tolist()}")
        ends = [(int((c == 1).sum()), int((c == -1).sum()), int((c != 0).sum())) for c in a.T]
        hold(set(ends) <= {(1, 1, 2)}, f"{where}: columns with other entries than one 1 and one -1")


def flows(charge: int = 1) -> None:
    """The linear programme of the network, by a general solver, has the value OPT; vertices are integral."""
    for number, problem in enumerate(_hard(8, 8)):
        network = build_network(*problem)
        where = f"instance {number}, K={problem[1]}, lambda={problem[2]}, {problem[3].label}"
        best = _priced(dp.best_schedule(*problem), *problem)
        if not network.arcs:
            equal(network.base, best, f"nothing can be served, {where}")
            continue
        a = _incidence(network)
        rows = list(dict.fromkeys(x for arc in network.arcs for x in (arc.tail, arc.head)))
        demand = np.zeros(len(rows))
        demand[rows.index(network.source)] -= network.amount
        demand[rows.index(network.sink)] += network.amount
        prices = [arc.cost * (charge if arc.kind == "enter" else 1) for arc in network.arcs]
        bounds = [(0, arc.capacity) for arc in network.arcs]
        # the dual simplex ends at a vertex
        found = linprog(prices, A_eq=a, b_eq=demand, bounds=bounds, method="highs-ds")
        hold(found.status == 0, f"{where}: {found.message}")
        point = np.asarray(found.x, np.float64)
        whole = np.rint(point)
        hold(bool(np.all(np.abs(point - whole) < 1e-6)), f"{where}: a vertex that is not integral")
        total = sum(int(f) * arc.cost for f, arc in zip(whole, network.arcs, strict=True))
        equal(network.base + network.unit * total, best, f"value of the network LP, {where}")
        schedule = network.schedule(int(f) for f in whole)
        equal(_priced(schedule, *problem), best, f"schedule of the vertex, {where}")
        value = float(network.base) + float(network.unit) * float(np.dot(prices, point))
        close(value, float(best), 1e-6, f"LP, {where}")


def classes(contracted: bool = True) -> None:
    """Where similarity is an equivalence relation the flow on classes is optimal."""
    for number, problem in enumerate(_hard(9, 25, "classes")):
        best = _priced(dp.best_schedule(*problem), *problem)
        where = f"instance {number}, K={problem[1]}, lambda={problem[2]}, {problem[3].label}"
        if contracted:
            found = solve(*problem, method="classes")
            equal(found.lower_bound, best, f"flow on classes, {where}")
        else:
            equal(_lru(*problem), best, f"LRU, {where}")


def _farthest(requests: list[int], k: int, forced: bool) -> int:
    """Faults of Belady's rule, looking ahead afresh at every fault."""
    held: set[int] = set()
    faults = 0
    for t, item in enumerate(requests):
        if item in held:
            continue
        faults += 1
        rest = requests[t + 1 :]
        if len(held) < k:
            held.add(item)
            continue
        ahead = {i: rest.index(i) if i in rest else len(rest) for i in held | {item}}
        if forced:
            del ahead[item]
        held = (
            held - {max(ahead, key=ahead.__getitem__)} | {item}
            if forced
            else set(ahead) - {max(ahead, key=ahead.__getitem__)}
        )
    return faults


def _paging(seed: int, count: int) -> list[tuple[Trace, int]]:
    rng = np.random.default_rng(seed)
    return [
        (from_requests(rng.integers(0, rng.integers(2, 9), rng.integers(5, 60))), int(rng.integers(1, 5)))
        for _ in range(count)
    ]


def paging(forced: bool = False) -> None:
    """At lambda = 0 in serve_then_update OPT is what Belady's rule with bypassing misses."""
    differ = 0
    for number, (trace, k) in enumerate(_paging(10, 300)):
        best = solve_sweep(trace, k, Fraction(0)).objective
        rule = forced_belady if forced else belady
        asked = trace.requests.tolist()
        equal(_priced(rule(trace, k), trace, k, 0), best, f"Belady, instance {number}, K={k}: {asked}")
        equal(Fraction(_farthest(asked, k, forced=False)), best, f"by looking ahead, K={k}: {asked}")
        differ += _farthest(asked, k, forced=True) > best
    hold(differ > 100, f"bypassing helps in {differ} instances only: nothing was tested")


def update_first(largest: Fraction = Fraction(1, 2)) -> None:
    """In update_then_serve OPT is 0, lambda times forced faults, or the misses with bypassing."""
    cases = [*_paging(11, 150), (from_requests([1, 2, 1]), 1)]
    for number, (trace, k) in enumerate(cases):
        asked = trace.requests.tolist()
        where = f"instance {number}, K={k}: {asked}"
        equal(solve_sweep(trace, k, Fraction(0), PAGING).objective, Fraction(0), f"lambda = 0, {where}")
        faults = _farthest(asked, k, forced=True)
        equal(forced_belady(trace, k).n_insertions, faults, f"forced faults, {where}")
        for lam in (Fraction(1, 1000), Fraction(1, 3), largest):
            best = solve_sweep(trace, k, lam, PAGING).objective
            equal(best, lam * faults, f"lambda = {lam}, {where}")
        bypassing = Fraction(_farthest(asked, k, forced=False))
        equal(solve_sweep(trace, k, Fraction(1), PAGING).objective, bypassing, f"lambda = 1, {where}")


CLAIM = Claim(
    id="E1",
    title="hard hits are a flow",
    statement="With hard hits and unit sizes OPT is a min-cost flow: LP, flow, DP and MILP agree exactly.",
    variant="every order, availability and fill; hard hits or classes of equal items; unit sizes",
    source="after Belady 1966 and flow models of caching; with bypassing, lambda and pool ours",
    status="proved",
    scope="all instances; that the solvers agree: random ones, up to 14 steps and 6 items, all 8 variants",
    breaks="soft hits (a minor of 2, an LP gap), sizes; Belady's facts: classical paging only",
    checks=(
        Check("agree", agree),
        Check("matrix", matrix),
        Check("flows", flows),
        Check("classes", classes),
        Check("paging", paging),
        Check("update_first", update_first),
    ),
    mutants=(
        Mutant(
            "lru_is_a_solver",
            "agree",
            {"solvers": {"LRU": _lru}},
        ),
        Mutant("soft_hits", "matrix", {"constraints": triangle}, "an odd cycle has determinant 2"),
        Mutant("free_insertions", "flows", {"charge": 0}, "the flow that forgets lambda"),
        Mutant("lru_for_flow", "classes", {"contracted": False}),
        Mutant("forced_belady", "paging", {"forced": True}, "bypassing is needed"),
        Mutant("three_fifths", "update_first", {"largest": Fraction(3, 5)}, "requests 1 2 1: bypass 2"),
    ),
    proofs=("E1.md",),
)
