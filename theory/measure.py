"""What a policy pays on a trace and what the optimum is, exactly, as every claim measures them."""

from __future__ import annotations

from fractions import Fraction

from offline_opt import solve
from softhit import Trace, Variant, cost, simulate
from softhit.errors import NotCertified

__all__ = ["optimum", "paid"]


def paid(
    spec: str,
    trace: Trace,
    capacity: int,
    switch_cost: Fraction | int | str,
    variant: Variant | None = None,
    seed: int = 0,
) -> Fraction:
    """Return the exact cost of a registered policy: simulated, verified and priced by softhit.

    >>> from softhit import from_requests
    >>> print(paid("fifo", from_requests([0, 1, 0, 1]), 1, 2))   # 4 misses, 3 replacements
    10
    """
    schedule = simulate(spec, trace, capacity, switch_cost, seed=seed, variant=variant)
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
