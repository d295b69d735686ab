"""What a policy pays on a trace and what the optimum is, exactly, as every claim measures them."""

from __future__ import annotations

from fractions import Fraction

from offline_opt import dp, solve
from softhit import Policy, Trace, Variant, cost, simulate
from softhit.errors import NotCertified

__all__ = ["enumerated_optimum", "optimum", "paid"]


def paid(
    policy: str | Policy,
    trace: Trace,
    capacity: int,
    switch_cost: Fraction | int | str,
    variant: Variant | None = None,
    seed: int = 0,
) -> Fraction:
    """Return the exact cost of a policy, by name or an object: simulated, verified and priced by softhit.

    >>> from softhit import from_requests
    >>> print(paid("fifo", from_requests([0, 1, 0, 1]), 1, 2))   # 4 misses, 3 replacements
    10
    """
    schedule = simulate(policy, trace, capacity, switch_cost, seed=seed, variant=variant)
    return cost(schedule, trace, capacity, switch_cost, variant).fraction


def optimum(
    trace: Trace, capacity: int, switch_cost: Fraction | int | str, variant: Variant | None = None
) -> Fraction:
    """Return the exact offline optimum.

    Raises
    ------
    NotCertified
        The solver did not prove its answer.

    Examples
    --------
    >>> from softhit import from_requests
    >>> print(optimum(from_requests([0, 1, 0, 1]), 1, 2))   # hold item 0: it misses once, item 1 twice
    3
    """
    result = solve(trace, capacity, switch_cost, variant)
    if result.cost is None or result.cost.fraction != result.lower_bound:
        raise NotCertified(f"K={capacity}, lambda={switch_cost}: optimum only bracketed")
    return result.cost.fraction


def enumerated_optimum(
    trace: Trace, capacity: int, switch_cost: Fraction | int | str, variant: Variant | None = None
) -> Fraction:
    """Return the optimum by the dynamic programme over sets of items: few items only, every variant.

    >>> from softhit import from_requests
    >>> print(enumerated_optimum(from_requests([0, 1, 0, 1]), 1, 2))
    3
    """
    return cost(
        dp.best_schedule(trace, capacity, Fraction(switch_cost), variant or Variant()),
        trace,
        capacity,
        switch_cost,
        variant,
    ).fraction
