"""A loop over a hot set that fits, broken by scans of items that never come back."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.families.registry import Count, Forces, Rows, count, family, form, near, reach
from adversaries.families.ring import hard_rows, ring_rows, soft_units, trail_rows, weave
from softhit.trace import DEFAULT_SCALE

__all__ = ["scan_loop"]


@family(
    "B2: a scan of more than K - hot items costs LRU and FIFO the whole hot set; (1+lambda)(hot+scan)/scan",
    seedless=True,
    hot=count("items of the loop; up to K they fit"),
    laps=count("rounds of the loop between two scans"),
    scan=count("items of a scan, each new and asked for once"),
    form=form,
    near=near,
    reach=reach,
)
def scan_loop(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    hot: Count = "K/2",
    laps: Count = 10,
    scan: Count = "K/2+1",
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Ask for 0, ..., hot-1 over and over, and after every ``laps`` rounds for ``scan`` new items, once each.

    Each step's item also arrives.

    Guarantee (claim B2; serve_then_update, stream, free fill, best)
    ----------------------------------------------------------------
    Hard, hot <= K. No schedule hits the first request of an item, and keeping the hot set hits all others:
    the optimum is the number of different items, for every lambda. A scan of more than K - hot items throws
    the first hot item out of LRU, and each hot item that comes back throws out the next: LRU misses the hot
    set once more after each scan, and after no scan if scan <= K - hot. FIFO forgets hits, so it loses the
    hot set at every q-th scan, q = floor((K-hot)/scan) + 1. Both costs are exact. With q = 1 the ratio tends
    to ``(1+lambda)(hot+scan)/scan``, which at hot = K, scan = 1 is the (K+1)(1+lambda) of B2.

    Hard, hot > K: FIFO and LRU never hit. Policies that resist scans are covered by nothing here; measure.

    Soft: the hot items lie on a ring as in :func:`cycling`; a scanned item's query is also served by the
    ``reach`` items of the same scan before it, with quality ``near * (reach+1-d)/reach`` at age d. FIFO,
    which does not look at hits, misses the same items, and pays 1 - near for those whose neighbour it holds:
    all but the first of a scan, and the first hot item where the hot set was lost to the last item. Exact.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on K and T only.
    hot, laps, scan : count
        Defaults ``K/2``, 10, ``K/2+1``.
    form, near, reach
        See above.

    Examples
    --------
    >>> scan_loop(capacity=2, steps=9, hot=2, laps=2, scan=1).requests.tolist()
    [0, 1, 0, 1, 2, 0, 1, 0, 1]
    """
    at, place = np.divmod(np.arange(steps, dtype=np.int64), laps * hot + scan)
    scanning = place >= laps * hot
    into = place - laps * hot
    asked = np.where(scanning, hot + at * scan + into, place % hot).astype(np.int32)
    fits = hot <= capacity
    every = (capacity - hot) // scan + 1 if fits else 1
    first_lap = ~scanning & (place < hot)
    if fits:
        by_fifo = scanning | (first_lap & (at % every == 0))
        by_lru = scanning | (first_lap & ((at == 0) | (every == 1)))
    else:
        by_fifo = by_lru = np.ones(steps, bool)
    gap = Fraction(1)
    if form == "hard":
        rows = hard_rows(asked)
    else:
        units = soft_units(near, reach)
        gap = 1 - Fraction(int(units[1]), DEFAULT_SCALE)
        loop = ring_rows(asked[~scanning], np.arange(hot, dtype=np.int32), units)
        rows = weave(~scanning, loop, trail_rows(asked[scanning], into[scanning], units))
    # how many places the scans before a loss went into the hot set; the last hot item is lost with the rest
    deep = every * scan - (capacity - hot) >= hot if fits else scan >= capacity
    alone = (scanning & (into == 0)) | (by_fifo & (place == 0) & ((at == 0) | deep))

    def price(missed: int, alone: int) -> str:
        return str(alone + (missed - alone) * gap + switch_cost * max(0, missed - capacity))

    fifo_misses, lru_misses = int(np.count_nonzero(by_fifo)), int(np.count_nonzero(by_lru))
    exact = {"fifo": price(fifo_misses, int(np.count_nonzero(alone)))}
    distinct = min(steps, hot) + int(np.count_nonzero(scanning))
    optimum = ""
    statement = f"K = {capacity}, hot = {hot}, scan = {scan}: fifo "
    statement += f"loses the hot set once in {every} scans" if every > 1 else "loses the hot set at each scan"
    if not fits:
        statement = f"K = {capacity}, hot = {hot} does not fit: fifo never finds what is asked for"
    statement += f", cost {exact['fifo']}"
    if form == "hard":
        exact["lru"] = price(lru_misses, lru_misses)
        statement += f"; lru pays {exact['lru']}"
        if fits:
            optimum = str(distinct)
            limit = (1 + switch_cost) * Fraction(hot + every * scan, every * scan)
            statement += f"; the optimum is {optimum}, and the ratio of fifo tends to {limit}"
    forces = Forces("B2", statement, exact=exact, optimum=optimum)
    return Rows(hot + int(np.count_nonzero(scanning)), *rows, asked, forces)
