"""E3: every bound that the package ships holds, on every instance whose optimum is known otherwise.

Statement
---------
For every method of `offline_opt.solve`, and every certificate made from its answer, ``LB <= OPT <= UB``; an
answer called exact has LB = OPT = UB; where a solver's word is needed (``exact (solver)``), UB = OPT held.
OPT is known from the dynamic programme over sets, or was worked out by hand.

Why
---
UB is the price of a schedule that `softhit.verify` accepts. LB is the floor F, below which no schedule goes;
or a bound by prices (E2), which may be rounded up to a grid on which all costs lie; or an optimum by
exhaustion (the dynamic programme). That the *programs* produce only such numbers is what is checked here, on
finitely many instances: hence ``computed``, not ``proved``.

Proof
-----
Of the inequalities: ``proofs/E3.md``.

Examples
--------
>>> from softhit import from_requests
>>> answer = solve(from_requests([0, 1, 0, 1]), 1, "1/2", method="floor")
>>> answer.lower_bound <= 3 <= answer.cost.fraction, answer.kind
(True, 'band')

References
----------
Ours. A bound above the optimum was once published for a solver of this kind: instance ``webcaching_6``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from offline_opt import instances, solve
from offline_opt.certificate import certify, check_certificate
from offline_opt.facade import METHODS, Problem
from offline_opt.soft.bound import cost_grid
from softhit import Variant, cost, policy_names, simulate
from softhit.cost import floor_units
from softhit.errors import InvalidInput
from softhit.retrieval import utility_scale
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import enumerated_optimum

__all__ = ["CLAIM", "floor", "named", "policies", "random", "random_many"]

VARIANTS = tuple(
    itertools.product(("serve_then_update", "update_then_serve"), ("stream", "pool"), ("free", "charged"))
)
SERVED = (("best", 1), ("mean_topk", 2), ("coverage", 2), ("mean_topk", 3), ("coverage", 3))
CORE = ("hold_all", "flow", "classes", "dp", "milp", "relaxation", "lagrangian", "floor", "networkx")
"""Methods of a plain install; ``ortools`` and ``lp`` need extras and are compared in the tests."""


def _cases(seed: int, each: int) -> Iterator[tuple[str, Problem]]:
    rng = np.random.default_rng(seed)
    for number, (kind, variant) in enumerate(itertools.product(instances.KINDS, VARIANTS)):
        for turn in range(each):
            aggregator, top_k = (
                SERVED[(number + turn) % 5] if kind in ("soft", "scored", "sized") else SERVED[0]
            )
            trace, k, lam = instances.random_instance(rng, kind, max_steps=11, max_items=5)
            # now and then everything fits
            k += 6 * int(rng.random() < 0.1)
            v = Variant(*variant, aggregator, top_k)
            yield f"{kind} {number}.{turn}, K={k}, lambda={lam}, {v.label}", Problem(trace, k, lam, v)


def _compare(
    what: str, problem: Problem, best: Fraction, raised: int, used: Counter[str], certificates: bool
) -> None:
    trace, k, lam, variant = problem.trace, problem.capacity, problem.switch_cost, problem.variant
    grid = cost_grid(trace, k, lam, variant)
    for name in CORE:
        if METHODS[name].applies(problem) is not None:
            continue
        iterations = 30 if name == "lagrangian" else None
        # without a limit branch and bound may go through millions of nodes of a weak programme
        limit = 2.0 if name == "milp" and variant.top_k > 1 and trace.structure.scored else None
        answer = solve(trace, k, lam, variant, method=name, iterations=iterations, time_limit=limit)
        where = f"{what}, {name}"
        low = answer.lower_bound + raised * grid
        hold(low <= best, f"{where}: LB = {low} above OPT = {best}")
        used[name] += 1
        if answer.cost is not None:
            high = answer.cost.fraction
            hold(best <= high, f"{where}: UB = {high} below OPT = {best}")
            if answer.kind != "band":
                equal(high, best, f"{where}: {answer.kind}")
            assert answer.schedule is not None
            equal(
                cost(answer.schedule, trace, k, lam, variant).fraction,
                high,
                f"{where}: price of the schedule",
            )
        if answer.kind == "exact":
            equal(answer.lower_bound, best, f"{where}: an exact answer's bound")
        used["tight" if answer.lower_bound == best else "loose"] += 1
        if certificates:
            verdict = check_certificate(certify(answer, trace, k, lam, variant), trace)
            hold(verdict.proved, f"{where}: certificate rejected, {verdict.reason}")
            assert verdict.lower_bound is not None
            assert verdict.upper_bound is not None
            hold(
                verdict.lower_bound <= best <= verdict.upper_bound, f"{where}: {verdict.reason}, OPT = {best}"
            )


def named(raised: int = 0) -> None:
    """On every named instance, whose optimum was worked out by hand, and by every method that applies."""
    used: Counter[str] = Counter()
    for name in instances.names():
        instance = instances.get(name)
        problem = Problem(*instance.problem)
        equal(_optimum(problem), instance.optimum, f"OPT of {name}")
        _compare(name, problem, instance.optimum, raised, used, certificates=True)
    hold({*CORE} <= set(used), f"methods tried: {dict(used)}")


def _optimum(problem: Problem) -> Fraction:
    return enumerated_optimum(problem.trace, problem.capacity, problem.switch_cost, problem.variant)


def random(raised: int = 0, seed: int = 17, each: int = 1) -> None:
    """On random instances of every kind and variant, against the dynamic programme over sets."""
    used: Counter[str] = Counter()
    for number, (what, problem) in enumerate(_cases(seed, each)):
        _compare(what, problem, _optimum(problem), raised, used, certificates=number % 4 == 0)
    hold({*CORE} <= set(used), f"methods tried: {dict(used)}")
    hold(used["loose"] > 20 * each, f"hardly any bound is loose: {dict(used)}")


def random_many(raised: int = 0) -> None:
    """The same on ten times as many."""
    random(raised, seed=18, each=10)


def floor(early: int = 0) -> None:
    """The floor F is at most OPT, and is OPT where everything fits and the fill is free."""
    attained = 0
    for what, problem in _cases(19, 6):
        trace, variant = problem.trace, problem.variant
        full = utility_scale(trace.quality_scale, variant)
        low, best = Fraction(floor_units(trace, variant), full), _optimum(problem)
        hold(low + early * Fraction(1, full) <= best, f"{what}: F = {low} above OPT = {best}")
        if METHODS["hold_all"].applies(problem) is None:
            equal(low, best, f"{what}: F where everything fits")
        attained += low == best
    hold(attained > 10, f"F is attained {attained} times only")


def policies(forgotten: int = 0) -> None:
    """No policy of the registry, clairvoyant ones included, pays less than OPT."""
    met = 0
    for number, (what, problem) in enumerate(_cases(20, 4)):
        trace, k, lam, variant = problem.trace, problem.capacity, problem.switch_cost, problem.variant
        best = _optimum(problem)
        for name in policy_names():
            try:
                schedule = simulate(name, trace, k, lam, seed=number, variant=variant)
            except InvalidInput:
                # no sizes for it, or classical paging only
                continue
            priced = cost(schedule, trace, k, lam, variant)
            paid = Fraction(priced.misses) if forgotten else priced.fraction
            hold(best <= paid, f"{what}: {name} pays {paid}, OPT = {best}")
            met += paid == best
    hold(met > 100, f"a policy meets OPT {met} times only")


CLAIM = Claim(
    id="E3",
    title="bounds are bounds",
    statement="LB <= OPT <= UB for every method and certificate, on every instance whose optimum is known.",
    variant="every order, availability, fill and aggregator; sizes, weights, scores",
    source="ours",
    status="computed",
    scope="the named instances; random ones of up to 11 steps and 5 items: 48 (slow: 480), of every kind",
    breaks="nothing known; the inequalities are proved, that the programs keep to them is tested",
    checks=(
        Check("named", named),
        Check("random", random),
        Check("random_many", random_many, slow=True),
        Check("floor", floor),
        Check("policies", policies),
    ),
    mutants=(
        Mutant("one_step_up", "named", {"raised": 1}, "lower bounds that are OPT, raised by one step"),
        Mutant("one_step_up_at_random", "random", {"raised": 1}),
        Mutant("floor_too_high", "floor", {"early": 1}),
        Mutant("replacements_forgotten", "policies", {"forgotten": 1}),
    ),
    proofs=("E3.md",),
)
