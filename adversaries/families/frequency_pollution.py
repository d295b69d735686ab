"""Frequency pollution: what was popular once keeps out what is asked for now."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.families.registry import Count, Forces, Rows, count, family, form, near, reach
from adversaries.families.ring import hard_rows, ring_rows, soft_units, weave
from softhit.trace import DEFAULT_SCALE

__all__ = ["frequency_pollution"]


@family(
    "G7: LFU and priority_lru never let go of what was popular once; K >= 2: only their cost grows with T",
    seedless=True,
    popular=count("items asked for in the past"),
    repeats=count("how often each of them is asked for", low=0),
    fresh=count("items asked for in turn from then on"),
    form=form,
    near=near,
    reach=reach,
)
def frequency_pollution(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    popular: Count = "K",
    repeats: Count = "T/(2K)",
    fresh: Count = 2,
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Ask ``repeats`` rounds for the popular items in turn, then for ever for the fresh ones in turn.

    Each step's item also arrives.

    Guarantee (claim G7; serve_then_update, stream, free fill, best)
    -------------------------------------------------------------------------
    Hard, popular <= K, repeats >= 2. LFU (counts live in the cache) leaves the fresh items
    g = max(1, K - popular) slots: none reaches the count of a popular one, since with fresh > g each is
    evicted before it is asked for again. So LFU pays ``popular + n + lambda*max(0, popular+n-K)`` exactly, n
    the steps after the past, while forgetting the past costs at most
    ``popular + fresh + lambda*max(0, popular+fresh-K)`` for fresh <= K. With popular = K >= 2 and fresh = 2
    the ratio grows with n without bound, whatever additive constant is granted. FIFO and LRU forget, and pay
    that second sum. All these costs are exact for all parameters; K = 1 has nothing to pin.

    Two repeats are enough here. ``priority_lru``, the context-cache post's score, is stuck in the same way
    and pays the same, whatever its weights: a fresh item leaves without ever being touched. Where a load
    counts as a touch (``load_is_access``), recency speaks for the newcomer: with w_a*(repeats-1)*g >= w_r, g
    as above, it pays the same again. A policy that remembers the counts of what it evicted lets a fresh item
    stay once it was asked for about ``repeats`` times: it pays in proportion to fresh * repeats, so let
    repeats grow with T, as the default does. No policy of the registry does that; a test plays it by hand.

    Soft: popular and fresh items lie on two rings, as in :func:`cycling`. FIFO pays 1 - near for a miss whose
    neighbour it holds: all but the first of each part. So does LFU where one slot is left (popular = K or
    K - 1) and repeats >= 3, fresh >= 2: a neighbour's hit raises the count of the fresh item to 2 at most.
    LFU with more slots, and LRU, are not covered.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on K and T only.
    popular, repeats, fresh : count
        Defaults ``K``, ``T/(2K)`` (half of the steps are the past), 2.
    form, near, reach
        See above.

    Examples
    --------
    >>> from softhit import cost, simulate
    >>> trace = frequency_pollution(capacity=2, steps=100, repeats=2)
    >>> trace.requests[:9].tolist()
    [0, 1, 0, 1, 2, 3, 2, 3, 2]
    >>> def paid(name): return int(cost(simulate(name, trace, 2, 1), trace, 2, 1).fraction)
    >>> paid("lfu"), paid("priority_lru"), paid("lru")
    (194, 194, 6)
    """
    past = min(steps, popular * repeats)
    later = steps - past
    at = np.arange(steps, dtype=np.int64)
    old = at < past
    asked = np.where(old, at % popular, popular + (at - past) % fresh).astype(np.int32)
    gap = Fraction(1)
    if form == "hard":
        rows = hard_rows(asked)
    else:
        units = soft_units(near, reach)
        gap = 1 - Fraction(int(units[1]), DEFAULT_SCALE)
        rings = [np.arange(popular, dtype=np.int32), np.arange(popular, popular + fresh, dtype=np.int32)]
        rows = weave(
            old,
            ring_rows(asked[old], rings[0], units),
            ring_rows(asked[~old] - popular, rings[1], units),
        )

    def price(first: int, second: int) -> str:
        """Return the cost of so many misses in the past and later; the first of each has no neighbour."""
        misses = sum((min(1, m) + max(0, m - 1) * gap for m in (first, second)), Fraction(0))
        return str(misses + switch_cost * max(0, first + second - capacity))

    once = min(past, popular) if popular <= capacity else past
    pinned = popular <= capacity and repeats >= 2
    room = max(1, capacity - popular) if pinned else capacity
    forgetting = price(once, min(later, fresh) if fresh <= capacity else later)
    stuck = price(once, min(later, fresh) if fresh <= room else later)
    exact = {"fifo": forgetting}
    if form == "hard":
        exact |= {"lru": forgetting, "lfu": stuck, "priority_lru": stuck}
    elif repeats >= 3 and 0 < room == 1 and popular <= capacity and fresh >= 2 and gap > 0:
        exact["lfu"] = stuck
    what = f"lfu pays {exact['lfu']}" if "lfu" in exact else "lfu is not covered"
    statement = (
        f"K = {capacity}, {popular} popular items {repeats} times each, then {later} steps over {fresh}: "
        f"{what}, forgetting the past costs {forgetting}"
    )
    return Rows(popular + fresh, *rows, asked, Forces("G7", statement, exact=exact))
