"""Prices where no solver left any: those of the floor F, and those of a trace contracted to classes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.result import Prices
from softhit.errors import InvalidInput
from softhit.retrieval import utility_scale
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["class_prices", "floor_prices"]


def floor_prices(trace: Trace, capacity: int, variant: Variant) -> Prices:
    """Return the prices that prove the floor F: what serves, once the cache holds all that can be in it.

    ``serve[t]`` is what the k-th best item that may be in the cache earns at step t, and slots and insertions
    are free. For ``coverage`` no item earns anything, and the step keeps its best possible utility.

    >>> import numpy as np
    >>> from softhit import from_arrays
    >>> trace = from_arrays([[0, 0], [0.5, 0.25], [0, 0.25]], arrivals=[0, 1, -1])
    >>> p = floor_prices(trace, 1, Variant())
    >>> (p.serve * float(p.unit)).tolist()
    [0.0, 0.5, 0.25]
    """
    n_steps = trace.n_steps
    zero = np.zeros(n_steps, np.int64)
    unit = Fraction(1, utility_scale(trace.quality_scale, variant))
    if variant.aggregator == "coverage":
        return Prices(slot=zero, serve=zero, entry=0, unit=unit, credit=zero)
    delay = 1 if variant.serves_first else 0
    first = np.zeros(trace.n_items, np.int64)
    if variant.stream:
        first[:] = n_steps
        come = np.flatnonzero(trace.arrivals >= 0)[::-1]
        first[trace.arrivals[come]] = come
    step = np.repeat(np.arange(n_steps), np.diff(trace.indptr))
    usable = (first[trace.items] + delay <= step) & (trace.sizes[trace.items] <= capacity)
    step, earned = step[usable], trace.quality[usable].astype(np.int64)
    order = np.lexsort((-earned, step))
    step, earned = step[order], earned[order]
    begin = np.searchsorted(step, np.arange(n_steps))
    count = np.searchsorted(step, np.arange(n_steps), side="right") - begin
    enough = np.flatnonzero(count >= variant.top_k)
    serve = zero.copy()
    serve[enough] = earned[begin[enough] + variant.top_k - 1]
    return Prices(slot=zero, serve=serve * trace.weight, entry=0, unit=unit)


def class_prices(prices: Prices, trace: Trace, variant: Variant) -> Prices:
    """Return prices for a trace of classes that prove what ``prices`` prove for the contracted trace.

    In the contracted trace a class is one item and no serve price is needed. In the trace itself each member
    could earn the same rewards, so they must be taken away: serve prices such that no member earns anything,
    which sum to what the class earned.

    They are found going back in time. The *premium* of a class at a boundary is how much more it can earn
    from there on if it is in than if it is out. It gains a reward where the class serves, loses the slot
    prices, never falls below 0 (the class may leave), and may not exceed the price of an insertion where a
    member may enter. An excess there is what the class earns; it is taken off the rewards that follow,
    nearest first, which lowers the premium by the same amount.

    Parameters
    ----------
    prices : Prices
        Of :func:`offline_opt.classes.contract` of the trace, without serve prices.

    Raises
    ------
    InvalidInput
        The trace has no classes, or the prices include serve prices.
    """
    classes = trace.structure.classes
    if classes is None or not trace.structure.unit_sizes or variant.top_k > 1:
        raise InvalidInput("only traces of classes, unit sizes and one item retrieved have such prices")
    if prices.credit is not None or (prices.serve is not None and np.any(np.asarray(prices.serve))):
        raise InvalidInput("prices must have no serve prices and no credit")
    full = utility_scale(trace.quality_scale, variant)
    unit = Fraction(prices.unit)
    scale = math.lcm(unit.denominator, full)
    factor = unit.numerator * (scale // unit.denominator)
    slot = [int(price) * factor for price in prices.slot.tolist()]
    entry = prices.entry * factor

    n_steps = trace.n_steps
    paid = [0]
    for price in slot:
        paid.append(paid[-1] + price)
    rows = np.flatnonzero((np.diff(trace.indptr) > 0) & (trace.weight > 0))
    served = np.full(n_steps, -1, np.int64)
    served[rows] = classes[trace.items[trace.indptr[rows]]]
    reward = np.zeros(n_steps, dtype=object)
    reward[rows] = trace.quality[trace.indptr[rows]].astype(object) * trace.weight[rows].astype(object)
    rewards = (reward * (scale // full)).tolist()
    enters = np.append(classes, -1)[trace.arrivals]
    serve = _excess(served.tolist(), rewards, enters.tolist(), slot, paid, entry, variant)
    return Prices(slot=_integers(slot), serve=_integers(serve), entry=entry, unit=Fraction(1, scale))


def _integers(values: list[int]) -> NDArray[Any]:
    small = all(value < 2**62 for value in values)
    return np.array(values, dtype=np.int64 if small else object)


def _excess(
    served: list[int],
    rewards: list[int],
    enters: list[int],
    slot: list[int],
    paid: list[int],
    entry: int,
    variant: Variant,
) -> list[int]:
    """Go back in time; per class: premium, boundary at which it holds, and later (step, reward left)."""
    n_classes = max(max(served, default=-1), max(enters, default=-1)) + 1
    premium, at = [0] * n_classes, [len(slot)] * n_classes
    later: list[list[tuple[int, int]]] = [[] for _ in range(n_classes)]
    serve = [0] * len(slot)
    delay = 1 if variant.serves_first else 0

    def move(c: int, boundary: int) -> None:
        premium[c] -= paid[at[c]] - paid[boundary]
        at[c] = boundary
        if premium[c] <= 0:
            premium[c] = 0
            later[c].clear()

    def may_enter(c: int) -> None:
        excess = premium[c] - entry
        if excess <= 0:
            return
        premium[c] = entry
        while excess > 0:
            step, left = later[c].pop()
            taken = min(left, excess)
            serve[step] += taken
            excess -= taken
            if left > taken:
                later[c].append((step, left - taken))

    for t in range(len(slot) - 1, -1, -1):
        c = served[t]
        if c >= 0:
            move(c, t + 1)
            premium[c] += rewards[t]
            later[c].append((t, rewards[t]))
            move(c, t)
            if not variant.stream and t >= delay:
                may_enter(c)
        if variant.stream and t >= delay and enters[t - delay] >= 0:
            c = enters[t - delay]
            move(c, t)
            may_enter(c)
    return serve
