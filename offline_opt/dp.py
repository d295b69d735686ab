"""The optimum of a tiny instance by dynamic programming over the sets a cache can hold.

The ground truth of the package: every variant, with score, sizes and weights, and no idea shared with the
other solvers. For every step it keeps the cheapest way to hold each set of items. An update takes two
sweeps over the items: leaving (a set inherits the value of any superset), then entering (one item at a
time, paying for its size). With free fill the state also counts what has been inserted, up to the
capacity, because only what comes after that is charged.

Items that serve nothing, cannot arrive or are larger than the capacity are left out first; they can only
do harm. What remains is limited by three module constants, and exceeding one is an error that says so.

A worked example: requests 0 1 2 0 1, one slot, serve_then_update, stream, charged fill, lambda = 1/2.
Serving nothing costs 5. Holding item 0 after step 0 saves the miss of step 3 and costs 1/2: 4.5 in all.
Holding item 1 instead does the same; both need two slots.

>>> from fractions import Fraction
>>> from softhit import Variant, cost, from_requests
>>> trace, charged = from_requests([0, 1, 2, 0, 1]), Variant(fill="charged")
>>> best = best_schedule(trace, 1, Fraction(1, 2), charged)
>>> float(cost(best, trace, 1, Fraction(1, 2), charged))
4.5
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_int
from softhit.cost import cost
from softhit.errors import InvalidInput
from softhit.exact import check_switch_cost
from softhit.jit import jit
from softhit.retrieval import utility, utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import AGGREGATORS, Variant

__all__ = ["MAX_CELLS", "MAX_ITEMS", "MAX_STATES", "best_schedule", "too_large"]

MAX_ITEMS = 12
"""Items that can matter: 4,096 sets."""
MAX_STATES = 1 << 18
"""Sets within capacity, times the levels of the fill counter (capacity + 1 with free fill)."""
MAX_CELLS = 1 << 26
"""States times steps: one parent pointer of four bytes each."""

_INFINITY = 1 << 62


def _useful(trace: Trace, capacity: int, variant: Variant) -> NDArray[np.int64]:
    weight = np.repeat(trace.weight, np.diff(trace.indptr))
    serves = np.zeros(trace.n_items, np.bool_)
    serves[trace.items[(trace.quality > 0) & (weight > 0)]] = True
    if variant.stream:
        arrives = np.zeros(trace.n_items, np.bool_)
        arrives[trace.arrivals[trace.arrivals >= 0]] = True
        serves &= arrives
    return np.flatnonzero(serves & (trace.sizes <= capacity))


def _sets(sizes: list[int], capacity: int) -> NDArray[np.int64]:
    """The subsets that fit, as ascending bit masks."""
    total = np.zeros(1, np.int64)
    for size in sizes:
        total = np.concatenate([total, total + size])
    return np.flatnonzero(total <= capacity)


def too_large(trace: Trace, capacity: int, variant: Variant) -> str | None:
    """Say which limit the instance exceeds, or None if the programme fits."""
    capacity = min(capacity, 2**61)
    items = _useful(trace, capacity, variant)
    if len(items) > MAX_ITEMS:
        return f"{len(items)} items can matter, at most {MAX_ITEMS} fit"
    levels = capacity + 1 if variant.free_fill else 1
    states = len(_sets(trace.sizes[items].tolist(), capacity)) * levels
    if states > MAX_STATES:
        return f"{states} states, at most {MAX_STATES} fit"
    if states * trace.n_steps > MAX_CELLS:
        return f"{states} states x {trace.n_steps} steps, at most {MAX_CELLS} fit"
    return None


@jit
def _utilities(
    row: Any, worth: Any, sets: Any, k: Any, aggregator: Any, scale: Any, got: Any, out: Any
) -> None:
    """Utility of every set for one row, whose items come in the order in which they are retrieved."""
    for m in range(len(sets)):
        n = 0
        total = np.int64(0)
        for x in range(len(row)):
            if n == k:
                break
            if sets[m] >> row[x] & 1:
                got[n] = worth[x]
                total += worth[x]
                n += 1
        out[m] = utility(got, n, aggregator, scale) if aggregator == 2 else total


@jit
def _sweep(
    ptr: Any,
    row_items: Any,
    row_worth: Any,
    weight: Any,
    arrivals: Any,
    sizes: Any,
    sets: Any,
    where: Any,
    levels: Any,
    stream: Any,
    serves_first: Any,
    k: Any,
    aggregator: Any,
    scale: Any,
    full: Any,
    miss_factor: Any,
    price: Any,
    infinity: Any,
    parent: Any,
) -> Any:
    """Fill ``parent`` and return the values after the last step; state = set index * levels + fill."""
    n_items = len(sizes)
    n_sets = len(sets)
    value = np.full(n_sets * levels, infinity, np.int64)
    value[0] = 0
    worth = np.empty(n_sets, np.int64)
    got = np.zeros(k, np.int32)
    for t in range(len(weight)):
        for turn in range(2):
            if (turn == 0) == serves_first:
                if weight[t] == 0:
                    continue
                a, b = ptr[t], ptr[t + 1]
                _utilities(row_items[a:b], row_worth[a:b], sets, k, aggregator, scale, got, worth)
                for m in range(n_sets):
                    loss = weight[t] * (full - worth[m]) * miss_factor
                    for f in range(levels):
                        if value[m * levels + f] < infinity:
                            value[m * levels + f] += loss
                continue
            origin = parent[t]
            for s in range(n_sets * levels):
                origin[s] = s
            for i in range(n_items):
                for m in range(n_sets):
                    if not sets[m] >> i & 1:
                        continue
                    low = where[sets[m] ^ (1 << i)]
                    for f in range(levels):
                        if value[m * levels + f] < value[low * levels + f]:
                            value[low * levels + f] = value[m * levels + f]
                            origin[low * levels + f] = origin[m * levels + f]
            for i in range(n_items):
                if stream and i != arrivals[t]:
                    continue
                for m in range(n_sets):
                    if sets[m] >> i & 1:
                        continue
                    high = where[sets[m] | (1 << i)]
                    if high < 0:
                        continue
                    for f in range(levels):
                        v = value[m * levels + f]
                        if v >= infinity:
                            continue
                        g = min(levels - 1, f + sizes[i])
                        # with one level everything is charged; else only what exceeds the last level
                        v += price * (sizes[i] - (g - f))
                        if v < value[high * levels + g]:
                            value[high * levels + g] = v
                            origin[high * levels + g] = origin[m * levels + f]
    return value


def best_schedule(trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None) -> Schedule:
    """Return an optimal schedule, for every variant.

    Parameters
    ----------
    trace : Trace
        Few enough items that can matter; see :func:`too_large`.
    capacity : int
        K >= 1, in units of size.
    switch_cost : int, float, Fraction or str
        lambda >= 0, exactly.
    variant : Variant, optional

    Raises
    ------
    InvalidInput
        The instance exceeds a limit of this module (the message says which), or its costs exceed 64 bits
        when written as integers over their common denominator.

    Notes
    -----
    Time O(T 2^N N (K + 1)), the last factor with free fill only. All numbers are integers.
    """
    variant = variant or Variant()
    capacity = min(check_int("capacity", capacity, low=1), 2**61)
    lam = check_switch_cost(switch_cost)
    if (reason := too_large(trace, capacity, variant)) is not None:
        raise InvalidInput(f"the dynamic programme over sets is for tiny instances: {reason}")
    items = _useful(trace, capacity, variant)
    sizes = trace.sizes[items]
    sets = _sets(sizes.tolist(), capacity)
    where = np.full(1 << len(items), -1, np.int64)
    where[sets] = np.arange(len(sets))
    levels = capacity + 1 if variant.free_fill else 1

    full = utility_scale(trace.quality_scale, variant)
    scale = math.lcm(full, lam.denominator)
    price = lam.numerator * (scale // lam.denominator)
    inserted = trace.n_steps * (int(sizes.max(initial=0)) if variant.stream else int(sizes.sum()))
    if trace.total_weight * scale + price * inserted >= _INFINITY:
        raise InvalidInput("costs exceed 64 bits as integers: use a rounder switch_cost or smaller weights")

    local = np.full(trace.n_items + 1, -1, np.int64)
    local[items] = np.arange(len(items))
    ptr, row_items, row_worth = _rows(trace, local)
    parent = np.empty((trace.n_steps, len(sets) * levels), np.int32)
    value = _sweep(
        ptr,
        row_items,
        row_worth,
        trace.weight,
        local[trace.arrivals],
        sizes,
        sets,
        where,
        levels,
        variant.stream,
        variant.serves_first,
        variant.top_k,
        AGGREGATORS.index(variant.aggregator),
        trace.quality_scale,
        full,
        scale // full,
        price,
        _INFINITY,
        parent,
    )
    state = int(value.argmin())
    schedule = _unwind(parent, state, sets, levels, items)
    found = cost(schedule, trace, capacity, lam, variant)
    if found.units * scale != int(value[state]) * found.scale:
        raise AssertionError(f"value {int(value[state])}/{scale} but the schedule costs {found.fraction}")
    return schedule


def _rows(trace: Trace, local: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Useful entries of each row, in the order of retrieval: score or quality descending, then item id."""
    step = np.repeat(np.arange(trace.n_steps), np.diff(trace.indptr))
    key = -trace.quality if trace.ranks is None else trace.ranks
    order = np.lexsort((trace.items, key, step))
    order = order[local[trace.items[order]] >= 0]
    ptr = np.searchsorted(step[order], np.arange(trace.n_steps + 1))
    return ptr, local[trace.items[order]], trace.quality[order]


def _unwind(
    parent: NDArray[np.int32], state: int, sets: NDArray[np.int64], levels: int, items: NDArray[np.int64]
) -> Schedule:
    n_steps = len(parent)
    leaves: list[tuple[int, int]] = []
    enters: list[tuple[int, int]] = []
    for t in range(n_steps - 1, -1, -1):
        before = int(parent[t, state])
        new, old = int(sets[state // levels]), int(sets[before // levels])
        for bit, item in enumerate(items.tolist()):
            if (new ^ old) >> bit & 1:
                (enters if new >> bit & 1 else leaves).append((t, item))
        state = before
    leaves.reverse()
    enters.reverse()
    return Schedule.from_events(
        n_steps,
        [t for t, _ in leaves],
        [i for _, i in leaves],
        [t for t, _ in enters],
        [i for _, i in enters],
    )
