"""Pollution: one item answers everything, and a stream of fresh junk asks to be let in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.families.registry import Forces, Rows, family, form, near, reach
from adversaries.families.ring import hard_rows, soft_units
from softhit.trace import DEFAULT_SCALE

__all__ = ["pollution"]


@family(
    "A2: a policy that admits every arrival pays at least 1 + lambda*(T-K), the optimum 1",
    seedless=True,
    form=form,
    near=near,
    reach=reach,
)
def pollution(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Answer every query with item 0, which arrives at step 0; at step t > 0 a fresh item t arrives.

    Guarantee (claim A2; serve_then_update, stream, free fill, best)
    ----------------------------------------------------------------
    A policy that admits every arrival pays at least ``1 + lambda*(T-K)``; keeping item 0 costs 1. So its
    ratio grows with T without bound. FIFO also loses item 0 and pays exactly ``(T-K)(1+lambda)`` for T > K
    (unbounded even at lambda = 0); LRU touches item 0 at every step and, for K >= 2, pays exactly
    ``1 + lambda*(T-K)``. Policies that admit on a miss pay 1.

    Soft: the ``reach`` latest junk items serve too, with quality ``near * (reach+1-d)/reach`` at age d
    (d = 1: the arrival of the step before). The bounds stay; FIFO pays
    ``1 + (T-K-1)(1-near) + lambda*(T-K)``.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on T only. N = T.

    Examples
    --------
    >>> trace = pollution(capacity=2, steps=5)
    >>> trace.requests.tolist(), trace.arrivals.tolist()
    ([0, 0, 0, 0, 0], [0, 1, 2, 3, 4])
    """
    arrivals = np.arange(steps, dtype=np.int32)
    if form == "hard":
        rows = hard_rows(np.zeros(steps, np.int32))
        gap = Fraction(1)
    else:
        units = soft_units(near, reach)
        gap = 1 - Fraction(int(units[1]), DEFAULT_SCALE)
        reach = int(np.count_nonzero(units)) - 1
        # row t: item 0, then the junk items t-reach..t-1 that exist (item 0 is no junk), ascending
        counts = 1 + np.clip(np.arange(steps, dtype=np.int64) - 1, 0, reach)
        indptr = np.zeros(steps + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        step = np.repeat(arrivals, counts)
        place = np.arange(indptr[-1]) - indptr[:-1][step]
        age = np.where(place == 0, 0, counts[step] - place)
        items = np.where(place == 0, 0, step - age).astype(np.int32)
        rows = (indptr, items, units[age])
    late = max(0, steps - capacity)
    least = min(1, steps) + switch_cost * late
    lost = max(0, late - 1) * gap
    exact = {"fifo": str(least + lost)}
    if capacity >= 2:
        exact["lru"] = str(least)
    statement = (
        f"T = {steps}, K = {capacity}: a policy that admits every arrival pays at least {least}, "
        f"fifo exactly {exact['fifo']}; keeping item 0 costs {min(1, steps)}"
    )
    return Rows(steps, *rows, arrivals, Forces("A2", statement, exact=exact))
