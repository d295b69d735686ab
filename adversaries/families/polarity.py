"""Polarity: the wrong item of a pair scores higher than the right one, so holding both is worse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.families.registry import Count, Forces, Rows, count, family, form, grid, real
from softhit.trace import DEFAULT_SCALE

__all__ = ["polarity"]


@family(
    "retrieval noise: who admits every arrival serves every query wrongly from lap 2 on, the optimum rightly",
    seedless=True,
    pairs=count("pairs of a right and a wrong item; 2*pairs <= K lets a cache hold all"),
    form=form,
    near=real("quality of the wrong item", soft=True),
)
def polarity(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    pairs: Count = "(K+1)/3",
    form: str = "hard",
    near: float = 0.5,
) -> Rows:
    """Ask for the pairs in turn; in even laps the right item of the pair arrives, in odd ones the wrong one.

    Pair c has the right item 2c, quality 1, and the wrong item 2c + 1, which ranks first and has quality 0.
    So the score orders the two by falling quality (think of an answer and of its negation, closer to the
    question). A lap is one round of queries for all pairs.

    Guarantee (serve_then_update, stream, free fill, best)
    ------------------------------------------------------
    With pairs <= K the optimum is ``min(T, pairs)``: the first query of a pair finds nothing whatever one
    does, and the right items alone serve all others. With 2*pairs <= K a policy that admits every arrival
    evicts nothing, holds both items of all pairs from lap 2 on, and pays ``min(T, pairs) + max(0, T -
    2*pairs)``: its ratio grows with T without bound, at every lambda, though it never pays for a replacement.
    Filling free room is enough: ``never`` and SOLAR do it too. Policies that admit on a miss pay
    min(T, pairs). With pairs <= K < 2*pairs FIFO holds the latest item of
    each pair and pays for even laps, and lambda for each step from K on; with K < pairs it never hits. FIFO
    is exact for all parameters, LRU and LFU unless pairs <= K < 2*pairs.

    Soft: the wrong item has quality ``near``, and a query that it serves costs 1 - near.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on K and T only.
    pairs : count
        Default ``(K+1)/3``: all items fit for K >= 2.
    form, near
        See above; ``near`` is rounded to the quality grid.

    Examples
    --------
    >>> from softhit import cost, simulate
    >>> trace = polarity(capacity=4, steps=100, pairs=2)
    >>> [int(cost(simulate(name, trace, 4), trace, 4, 1).fraction) for name in ("lru", "lru(admit=miss)")]
    [98, 2]
    """
    lap, pair = np.divmod(np.arange(steps, dtype=np.int64), pairs)
    arrivals = (2 * pair + lap % 2).astype(np.int32)
    wrong = grid(near) if form == "soft" else Fraction(0)
    items = (2 * pair[:, None] + np.arange(2)).astype(np.int32).ravel()
    quality = np.tile(np.array([DEFAULT_SCALE, int(wrong * DEFAULT_SCALE)], np.int32), steps)
    ranks = np.tile(np.array([1, 0], np.int32), steps)
    gap = 1 - wrong
    seen = min(steps, pairs)
    optimum = str(seen) if pairs <= capacity else ""
    if 2 * pairs <= capacity:
        price = seen + max(0, steps - 2 * pairs) * gap
        what = "a policy that admits every arrival"
    elif pairs <= capacity:
        even = int(np.count_nonzero((lap % 2 == 0) & (lap > 0)))
        price = seen + even * gap + switch_cost * max(0, steps - capacity)
        what = "fifo"
    else:
        price = steps + switch_cost * max(0, steps - capacity)
        what = "fifo"
    alike = ["fifo"] if pairs <= capacity < 2 * pairs else ["fifo", "lru", "lfu"]
    statement = f"K = {capacity}, {pairs} pairs: {what} pays {price}"
    statement += f", the optimum is {optimum}" if optimum else ""
    forces = Forces("", statement, exact=dict.fromkeys(alike, str(price)), optimum=optimum)
    indptr = 2 * np.arange(steps + 1, dtype=np.int64)
    return Rows(2 * pairs, indptr, items, quality, arrivals, forces, ranks=ranks)
