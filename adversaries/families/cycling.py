"""Cycling over W items: the workload on which FIFO and LRU throw out what is asked for next."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.families.registry import Count, Forces, Rows, count, family, form, near, reach
from adversaries.families.ring import hard_rows, ring_rows, soft_units
from softhit.trace import DEFAULT_SCALE

__all__ = ["cycling"]


@family(
    "B1, B2: FIFO and LRU never hit once the cache is full when w > K; ratio (1+lambda)(K+1) at w = K+1",
    seedless=True,
    w=count("W, the items of the cycle"),
    form=form,
    near=near,
    reach=reach,
)
def cycling(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    w: Count = "K+1",
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Ask for 0, 1, ..., w-1, 0, 1, ...; each step's item also arrives.

    Guarantee (claims B1, B2; serve_then_update, stream, free fill, best)
    ---------------------------------------------------------------------
    Hard, w > K: FIFO and LRU never hit, so with T > K both pay ``T + lambda*(T-K)`` exactly, while the
    schedule that keeps the first K items pays 1 - K/w per step: the ratio tends to
    ``(1+lambda) w/(w-K)``, which is (1+lambda)(K+1) at w = K+1. With w <= K both pay ``min(T, w)``.

    Soft: the items lie on a ring of w places; a query for place p is served with quality 1 by its own item
    and with quality ``near * (reach+1-d)/reach`` by the items at ring distance d in 1..reach. FIFO does not
    look at hits, so with w > K and T > K it pays ``1 + (T-1)(1-near) + lambda*(T-K)`` exactly (the item of
    the step before is always held). LRU is not covered: a soft hit touches a neighbour.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on K and T only.
    w : count
        Default ``K+1``.
    form : {"hard", "soft"}
    near, reach
        See above; ``near`` is rounded to the quality grid.

    Examples
    --------
    >>> from softhit import cost, simulate
    >>> trace = cycling(capacity=3, steps=11, w="K+1")
    >>> trace.requests.tolist()
    [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    >>> cost(simulate("fifo", trace, 3, "1/2"), trace, 3, "1/2").fraction == 11 + (11 - 3) / 2
    True
    """
    asked = np.resize(np.arange(w, dtype=np.int32), steps) if steps else np.zeros(0, np.int32)
    if form == "hard":
        rows = hard_rows(asked)
        gap = Fraction(1)
    else:
        units = soft_units(near, reach)
        rows = ring_rows(asked, np.arange(w, dtype=np.int32), units)
        gap = 1 - Fraction(int(units[1]), DEFAULT_SCALE)
    # what happens at the first request of an item, after the very first step: its left neighbour is held
    if w > capacity:
        misses = min(steps, 1) + max(0, steps - 1) * gap
        paid = switch_cost * max(0, steps - capacity)
        what = "never hit" if form == "hard" else "is served by a neighbour at best"
    else:
        misses = min(steps, 1) + max(0, min(steps, w) - 1) * gap
        paid = Fraction(0)
        what = "miss each item once"
    price = str(misses + paid)
    policies = ["fifo", "lru"] if form == "hard" else ["fifo"]
    limit = ""
    if form == "hard" and w > capacity:
        limit = f"; against the static schedule the ratio tends to {(1 + switch_cost) * w / (w - capacity)}"
    statement = f"w = {w}, K = {capacity}: {' and '.join(policies)} {what}: cost {price}{limit}"
    claim = "B1" if w > capacity else "B3"
    return Rows(w, *rows, asked, Forces(claim, statement, exact=dict.fromkeys(policies, price)))
