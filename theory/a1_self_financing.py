"""A1: replacements that are paid for by disjoint sets of misses cost at most what the misses cost.

Statement
---------
Let a run pay c_t >= 0 for misses at step t, M = sum of c_t, and make S replacements (insertions beyond the
first K, unit sizes). Suppose a replacement at step t may be charged to parts of the costs c_0, ..., c_t of
total at least theta, no part of any cost charged twice.

* theta >= lambda: ``lambda S <= M`` after every step, so with free fill ``Cost <= 2 M``, with charged fill
  ``Cost <= 2 M + lambda K``.
* theta >= lambda / beta, beta > 0: ``Cost <= (1 + beta) M``, and ``+ lambda K``.

Any trace, weights, aggregator and availability. Two gates meet the condition: one counter of all miss cost
since the last replacement; and one counter per item, if a step credits at most one of them, by at most c_t,
and a replacement starts a counter that has reached theta again from zero.

What it needs
-------------
* c_t is the cost of the step *before* its update. In serve_then_update that is what the step pays. In
  update_then_serve an admitted item may serve its own step, which then pays nothing: there lambda S is at
  most what the same schedule would miss in serve_then_update, and may exceed M without bound. With
  theta >= lambda + (the largest c_t), a counter per item, and no change of the cache but for admitting the
  arrival, lambda S <= M holds there too: only the last credit of each replacement can have been saved.
* One counter per cost. If every candidate of a ``pool`` is credited for the same miss, one miss pays for
  several replacements, and lambda S <= M fails.
* Unit sizes. With sizes lambda is paid per unit, and a gate of lambda per item does not cover it.

Proof
-----
In ``proofs/A1.md``: sum what is charged, over replacements; it is at least theta S and at most M.

Examples
--------
>>> from softhit import cost, from_requests, simulate
>>> trace = from_requests([0, 1, 1, 2, 2, 3, 3])       # each newcomer is missed theta = 2 times
>>> paid = cost(simulate("gated_lru(theta=2)", trace, 1, 2), trace, 1, 2)
>>> print(paid.misses, paid.paid, paid.fraction)       # 7 misses, 3 replacements at 2
7 3 13

References
----------
The SOLAR paper states self-financing for its global counter; the form with several counters is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from offline_opt.instances import random_instance
from softhit import Schedule, Trace, Variant, cost, from_arrays, from_requests, simulate
from softhit.cost import miss_units_by_step
from softhit.retrieval import utility_scale
from theory.claim import Check, Claim, Mutant, equal, hold

__all__ = ["CLAIM", "gates", "orders", "several_counters", "sizes", "tight"]

FAMILY = ("solar", "solar_paper", "solar_admission", "solar_mean", "solar(memory=1)")
"""The gated policies of the SOLAR family; ``solar_eviction`` has no gate."""
KINDS = ("hard", "requests", "classes", "soft", "scored")
SERVED = (("best", 1), ("mean_topk", 2), ("coverage", 3))
UPDATE_FIRST = Variant(order="update_then_serve")


def _instances(seed: int, count: int) -> Iterator[tuple[Trace, int, Fraction, Variant]]:
    """Draw traces of every kind of unit size, under every availability, fill and aggregator."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        trace, k, lam = random_instance(rng, KINDS[number % 5], max_steps=150, max_items=10)
        aggregator, top_k = SERVED[number % 3]
        availability, fill = ("stream", "pool")[number // 2 % 2], ("free", "charged")[number // 4 % 2]
        yield trace, min(k, 4), lam, Variant("serve_then_update", availability, fill, aggregator, top_k)


def gates(share: Fraction = Fraction(1), spare: int = 0) -> None:
    """After every step lambda S <= M, and Cost <= 2 M (+ lambda K if the fill is charged)."""
    replaced = 0
    for number, (trace, k, lam, variant) in enumerate(_instances(1, 240)):
        for spec in (f"gated_lru(theta={share * lam})", FAMILY[number % 5]):
            where = f"instance {number}, {spec}, K={k}, lambda={lam}, {variant.label}"
            schedule = simulate(spec, trace, k, lam, seed=number, variant=variant)
            full = utility_scale(trace.quality_scale, variant)
            missed = np.cumsum(miss_units_by_step(schedule, trace, variant)).tolist()
            swapped = np.maximum(schedule.enter_ptr[1:] - k, 0).tolist()
            for t, (units, s) in enumerate(zip(missed, swapped, strict=True)):
                m = Fraction(units, full)
                hold(lam * (s + spare) <= m or s == 0, f"{where}: step {t}, lambda S = {lam * s} > M = {m}")
            paid = cost(schedule, trace, k, lam, variant)
            most = 2 * Fraction(paid.misses) + (0 if variant.free_fill else lam * k)
            hold(paid.fraction <= most, f"{where}: cost {paid.fraction}, at most {most}")
            replaced += swapped[-1] if lam else 0
    hold(replaced > 1500, f"only {replaced} replacements at a price: nothing was tested")


def tight(beta: tuple[Fraction, ...] = (Fraction(1, 3), Fraction(1), Fraction(4)), factor: int = 1) -> None:
    """With theta = lambda / beta, Cost <= (1 + beta) M, and no smaller factor will do."""
    k, n = 1, 200
    for b in beta:
        for theta in (1, 2, 5):
            lam = b * theta
            # fresh items, each asked for theta times in a row: missed theta times, then admitted
            asked = [0, *(i for i in range(1, n) for _ in range(theta))]
            trace = from_requests(asked)
            spec = f"gated_lru(theta={theta})"
            paid = cost(simulate(spec, trace, k, lam), trace, k, lam)
            where = f"{spec}, lambda={lam}, beta={b}"
            equal(Fraction(paid.misses), Fraction(1 + theta * (n - 1)), f"misses, {where}")
            equal(paid.paid, n - 1, f"replacements, {where}")
            ratio = paid.fraction / Fraction(paid.misses)
            hold(ratio <= factor * (1 + b), f"{where}: ratio {float(ratio):.5g} above {factor} (1 + beta)")
            hold(
                ratio >= factor * (1 + b) * Fraction(99, 100), f"{where}: ratio {float(ratio):.5g}, not tight"
            )
    rng = np.random.default_rng(3)
    for number in range(60):
        trace, k, lam = random_instance(rng, KINDS[number % 5], max_steps=150, max_items=10)
        b = beta[number % len(beta)]
        paid = cost(simulate(f"gated_lru(theta={lam / b})", trace, k, lam), trace, k, lam)
        bound = (1 + b * factor) * Fraction(paid.misses)
        hold(paid.fraction <= bound, f"instance {number}, beta={b}: cost {paid.fraction}, at most {bound}")


def orders(extra: int = 1) -> None:
    """In update_then_serve lambda S may exceed M; with theta >= lambda + the largest cost it does not."""
    trace = from_requests(np.arange(400) % 4)
    paid = cost(simulate("gated_lru(theta=1)", trace, 3, 1, variant=UPDATE_FIRST), trace, 3, 1, UPDATE_FIRST)
    equal((paid.misses, paid.paid), (0, 397), "misses and replacements, theta = lambda = 1 on the cycle")
    for spec in ("solar_paper", "solar(xi_low=0.25, xi_high=0.5)"):
        schedule = simulate(spec, trace, 3, "1/2", variant=UPDATE_FIRST)
        paid = cost(schedule, trace, 3, "1/2", UPDATE_FIRST)
        hold(paid.switching > paid.misses, f"{spec}: {paid.switching} for replacements, {paid.misses} missed")
    replaced = 0
    for number, (trace, k, lam, first) in enumerate(_instances(2, 120)):
        variant = Variant("update_then_serve", first.availability, first.fill, first.aggregator, first.top_k)
        where = f"instance {number}, K={k}, lambda={lam}, {variant.label}"
        schedule = simulate(FAMILY[number % 5], trace, k, lam, seed=number, variant=variant)
        swapped = max(0, schedule.n_insertions - k)
        before = Fraction(cost(schedule, trace, k, lam, first).misses)
        hold(lam * swapped <= before, f"{where}: lambda S = {lam * swapped}, but {before} before the updates")
        theta = lam + extra * int(trace.weight.max(initial=0))
        schedule = simulate(f"gated_lru(theta={theta})", trace, k, lam, variant=variant)
        swapped = max(0, schedule.n_insertions - k)
        missed = Fraction(cost(schedule, trace, k, lam, variant).misses)
        hold(lam * swapped <= missed, f"{where}, theta={theta}: lambda S = {lam * swapped} > M = {missed}")
        replaced += swapped if lam else 0
    hold(replaced > 100, f"only {replaced} replacements at a price: nothing was tested")


def _generous(n_items: int, n_steps: int, theta: int, credited: int) -> Schedule:
    """Play K = 1 with a counter per item, every miss credited to ``credited`` items that are not held.

    Nothing ever serves. Whatever has reached theta enters, one after the other, each replacing the last.
    """
    counters, held = [0] * n_items, -1
    leaves: list[tuple[int, int]] = []
    enters: list[tuple[int, int]] = []
    for t in range(n_steps):
        candidates = [(t + i) % n_items for i in range(n_items)]
        for i in [i for i in candidates if i != held][:credited]:
            counters[i] += 1
        due = [i for i in range(n_items) if counters[i] >= theta]
        # a step changes the content once: only the last of those that are due can stay
        for i in due[-1:]:
            if held >= 0:
                leaves.append((t, held))
            enters.append((t, i))
            counters[i], held = 0, i
    leave_steps, left = [t for t, _ in leaves], [i for _, i in leaves]
    return Schedule.from_events(n_steps, leave_steps, left, [t for t, _ in enters], [i for _, i in enters])


def several_counters(credited: int = 6) -> None:
    """Credit every candidate of the pool for the same miss, and lambda S exceeds M."""
    n_items, n_steps, lam = 7, 700, 3
    trace = from_requests(np.full(n_steps, -1), n_items=n_items)
    variant = Variant(availability="pool")
    paid = cost(_generous(n_items, n_steps, lam, credited), trace, 1, lam, variant)
    equal(int(paid.misses), n_steps, "misses: nothing serves anything")
    hold(
        paid.switching > paid.misses, f"{credited} credited: {paid.switching} for replacements, M = {n_steps}"
    )


def sizes(size: int = 3) -> None:
    """A gate of theta = lambda per item does not cover lambda per unit of size."""
    trace = from_arrays(np.eye(2)[np.arange(100) % 2], np.arange(100) % 2, sizes=[size, size])
    paid = cost(simulate("gated_lru(theta=2)", trace, size, 2), trace, size, 2)
    equal((int(paid.misses), paid.paid), (67, 33 * size), f"misses and inserted size, items of {size}")
    hold(paid.switching > paid.misses, f"items of {size}: {paid.switching} for replacements, {paid.misses}")


CLAIM = Claim(
    id="A1",
    title="self-financing",
    statement="Replacements charged to disjoint parts of the misses, theta >= lambda each, cost at most M.",
    variant="serve_then_update; any availability, fill, aggregator, hits and weights; unit sizes",
    source="the SOLAR paper for one global counter; several counters and the limits ours",
    status="machine-checked",
    scope=(
        "all sequences, theta and lambda (rational in Coq); that policies obey it: random traces of up to "
        "150 steps"
    ),
    breaks="update_then_serve unless theta >= lambda + max c_t; several counters for one miss; sizes",
    checks=(
        Check("gates", gates),
        Check("tight", tight),
        Check("orders", orders),
        Check("several_counters", several_counters),
        Check("sizes", sizes),
    ),
    mutants=(
        Mutant("theta_half_lambda", "gates", {"share": Fraction(1, 2)}, "a gate that lends"),
        Mutant("one_more_replacement", "gates", {"spare": 1}, "the inequality is attained"),
        Mutant("twice_beta", "tight", {"factor": 2}, "1 + beta is attained, so 2 (1 + beta) is not tight"),
        Mutant("same_theta_in_both_orders", "orders", {"extra": 0}, "the last credit is saved by the update"),
        Mutant("one_counter_per_miss", "several_counters", {"credited": 1}, "then A1 holds"),
        Mutant("unit_sizes", "sizes", {"size": 1}, "then A1 holds"),
    ),
    proofs=("A1.md", "A1.v"),
)
