"""Good schedules for soft hits, by improving one item at a time; upper bounds without a promise.

Given what the other items do, the best way to hold one item is an on/off programme over its occasions:
each is worth what the item adds to the utility of its step, an insertion costs lambda, and a step whose
cache is full without the item cannot be crossed. :func:`improve` takes the items in turn until no item can
do better. It never makes a schedule worse. Every variant, with score, sizes and weights.

The result is a local optimum only. Here item 0 comes first and takes the slot; the optimum is 2.25.

>>> from softhit import cost, from_arrays
>>> trace = from_arrays([[0, 0], [0, 0], [0.5, 0.75]], arrivals=[0, 1, -1])
>>> empty = Schedule.from_events(3, [], [], [], [])
>>> float(cost(improve(empty, trace, 1, 1), trace, 1, 1))
2.5
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.result import Prices
from offline_opt.soft.occasions import Occasions, find_occasions, flags_of, schedule_of
from softhit.check import check_int
from softhit.exact import check_switch_cost
from softhit.jit import jit
from softhit.retrieval import aggregator_code, retrieve, utility, utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["improve", "round_point"]

_NEVER = -(1 << 62)


@jit
def _fits(load: Any, room: Any, low: Any, high: Any) -> Any:
    for u in range(low, high + 1):  # noqa: SIM110 (a generator does not compile to this loop)
        if load[u] > room:
            return False
    return True


@jit
def _add_load(
    e0: Any, e1: Any, step: Any, enter: Any, held: Any, entered: Any, amount: Any, load: Any
) -> Any:
    """Add ``amount`` over the stays of one item; return how often it enters."""
    times = 0
    for e in range(e0, e1):
        if held[e]:
            low = enter[e] if entered[e] else step[e - 1] + 1
            times += entered[e]
            for u in range(low, step[e] + 1):
                load[u] += amount
    return times


@jit
def _path(
    e0: Any,
    e1: Any,
    step: Any,
    enter: Any,
    worth: Any,
    price: Any,
    size: Any,
    rents: Any,
    load: Any,
    room: Any,
    stayed: Any,
    dropped: Any,
    held: Any,
    entered: Any,
) -> Any:
    """Write the best stays of one item into ``held`` and ``entered``."""
    off = np.int64(0)
    on = np.int64(_NEVER)
    for e in range(e0, e1):
        t = step[e]
        stay = np.int64(_NEVER)
        if on > _NEVER and _fits(load, room, step[e - 1] + 1, t):
            stay = on - size * (rents[t + 1] - rents[step[e - 1] + 1])
        fresh = np.int64(_NEVER)
        if enter[e] >= 0:
            value = off - price - size * (rents[t + 1] - rents[enter[e]])
            if value > stay and _fits(load, room, enter[e], t):
                fresh = value
        stayed[e] = stay >= fresh
        on = max(stay, fresh)
        if on > _NEVER:
            on += worth[e - e0]
        dropped[e] = on > off
        if on > off:
            off = on
    inside = False
    for e in range(e1 - 1, e0 - 1, -1):
        if not inside:
            inside = dropped[e]
        held[e] = inside
        entered[e] = inside and not stayed[e]
        if entered[e]:
            inside = False


@jit
def _sweep(
    ptr: Any,
    step: Any,
    entry: Any,
    enter: Any,
    indptr: Any,
    positions: Any,
    quality: Any,
    ranks: Any,
    scored: Any,
    weight: Any,
    sizes: Any,
    capacity: Any,
    k: Any,
    aggregator: Any,
    scale: Any,
    factor: Any,
    price: Any,
    rents: Any,
    free: Any,
    held: Any,
    entered: Any,
    present: Any,
    load: Any,
    inserted: Any,
) -> Any:
    """Improve each item once; ``inserted[0]`` is the inserted size. Return the total gain, rents counted.

    ``rents[u]`` is what a unit of size pays for lying in the cache over all steps before boundary u.
    """
    gain = np.int64(0)
    got = np.empty(k, np.int32)
    best = np.empty(k, np.int32)
    n = len(step)
    stayed, dropped = np.empty(n, np.bool_), np.empty(n, np.bool_)
    trial_held, trial_entered = np.empty(n, np.bool_), np.empty(n, np.bool_)
    for i in range(len(ptr) - 1):
        e0, e1 = ptr[i], ptr[i + 1]
        if e0 == e1:
            continue
        size = sizes[i]
        times = _add_load(e0, e1, step, enter, held, entered, -size, load)
        others = inserted[0] - size * times
        worth = np.empty(e1 - e0, np.int64)
        for e in range(e0, e1):
            t = step[e]
            present[entry[e]] = 0
            m = retrieve(indptr[t], indptr[t + 1], positions, quality, ranks, scored, present, k, got, best)
            without = utility(best, m, aggregator, scale)
            present[entry[e]] = 1
            m = retrieve(indptr[t], indptr[t + 1], positions, quality, ranks, scored, present, k, got, best)
            worth[e - e0] = weight[t] * (utility(best, m, aggregator, scale) - without) * factor
            present[entry[e]] = 0
        for attempt in range(3):
            # 0: as it is; 1: insertions at full price; 2: as if they were free (some of them may be)
            if attempt == 0:
                trial_held[e0:e1] = held[e0:e1]
                trial_entered[e0:e1] = entered[e0:e1]
            else:
                if attempt == 2 and not (free and others < capacity):
                    break
                p = price * size if attempt == 1 else np.int64(0)
                _path(
                    e0,
                    e1,
                    step,
                    enter,
                    worth,
                    p,
                    size,
                    rents,
                    load,
                    capacity - size,
                    stayed,
                    dropped,
                    trial_held,
                    trial_entered,
                )
            value = np.int64(0)
            z = others
            for e in range(e0, e1):
                if trial_held[e]:
                    value += worth[e - e0]
                    if trial_entered[e]:
                        z += size
                        value -= size * (rents[step[e] + 1] - rents[enter[e]])
                    else:
                        value -= size * (rents[step[e] + 1] - rents[step[e - 1] + 1])
            value -= price * (max(0, z - capacity) if free else z)
            if attempt == 0:
                now = value
                inserted[0] = z
            elif value > now:
                gain += value - now
                now = value
                inserted[0] = z
                held[e0:e1] = trial_held[e0:e1]
                entered[e0:e1] = trial_entered[e0:e1]
        _add_load(e0, e1, step, enter, held, entered, size, load)
        for e in range(e0, e1):
            present[entry[e]] = held[e]
    return gain


def improve(
    schedule: Schedule,
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    time_limit: float | None = None,
    max_sweeps: int = 50,
    occasions: Occasions | None = None,
    prices: Prices | None = None,
) -> Schedule:
    """Return a schedule that costs at most as much; a valid one must be given.

    Parameters
    ----------
    prices : Prices, optional
        Slot prices that are charged in the first sweeps, so that items leave room to better ones. Then the
        result may cost more than ``schedule``.
    time_limit : float, optional
        Seconds; looked at between sweeps over all items.
    max_sweeps : int
    """
    variant = variant or Variant()
    capacity = min(check_int("capacity", capacity, low=1), 2**61)
    lam = check_switch_cost(switch_cost)
    occasions = occasions or find_occasions(trace, capacity, variant)
    full = utility_scale(trace.quality_scale, variant)
    scale = math.lcm(full, lam.denominator)
    price = lam.numerator * (scale // lam.denominator)
    held, entered = flags_of(occasions, schedule)
    sizes = trace.sizes[occasions.item]
    most = trace.total_weight * scale + price * 2 * int(sum(sizes.tolist()))
    if most >= 1 << 61:
        return schedule
    load = np.zeros(trace.n_steps + 1, np.int64)
    _whole_load(occasions.ptr, occasions.step, occasions.enter, held, entered, trace.sizes, load)
    present = np.zeros(len(trace.items), np.uint8)
    present[occasions.entry] = held
    inserted = np.array([int(sizes[entered].sum())], np.int64)
    nothing = np.zeros(trace.n_steps + 1, np.int64)
    room = (1 << 60) // int(trace.sizes.max(initial=1))
    phases = [nothing] if prices is None else [_rents(prices, scale, room), nothing]
    began = time.monotonic()
    for rents in phases:
        for _ in range(max_sweeps):
            gain = _sweep(
                occasions.ptr,
                occasions.step,
                occasions.entry,
                occasions.enter,
                trace.indptr,
                np.arange(len(trace.items), dtype=np.int32),
                trace.quality,
                trace.quality if trace.ranks is None else trace.ranks,
                trace.ranks is not None,
                trace.weight,
                trace.sizes,
                capacity,
                variant.top_k,
                aggregator_code(variant),
                trace.quality_scale,
                scale // full,
                price,
                rents,
                variant.free_fill,
                held,
                entered,
                present,
                load,
                inserted,
            )
            if gain == 0 or (time_limit is not None and time.monotonic() - began > time_limit):
                break
    return schedule_of(occasions, trace.n_steps, held, entered)


def _rents(prices: Prices, scale: int, most: int) -> NDArray[np.int64]:
    """What a unit of size pays up to each boundary, in units of cost; capped, as these only guide."""
    slot = np.asarray(prices.slot, np.float64) * float(prices.unit * scale)
    total = np.concatenate([np.zeros(1), np.cumsum(slot)])
    result: NDArray[np.int64] = np.rint(np.minimum(total, float(most))).astype(np.int64)
    return result


@jit
def _whole_load(ptr: Any, step: Any, enter: Any, held: Any, entered: Any, sizes: Any, load: Any) -> None:
    for i in range(len(ptr) - 1):
        _add_load(ptr[i], ptr[i + 1], step, enter, held, entered, sizes[i], load)


@jit
def _round(
    ptr: Any, step: Any, enter: Any, share: Any, sizes: Any, capacity: Any, load: Any, held: Any, entered: Any
) -> None:
    for i in range(len(ptr) - 1):
        for e in range(ptr[i], ptr[i + 1]):
            if share[e] < 0.5:
                continue
            room = capacity - sizes[i]
            if e > ptr[i] and held[e - 1] and _fits(load, room, step[e - 1] + 1, step[e]):
                low = step[e - 1] + 1
            elif enter[e] >= 0 and _fits(load, room, enter[e], step[e]):
                entered[e] = True
                low = enter[e]
            else:
                continue
            held[e] = True
            for u in range(low, step[e] + 1):
                load[u] += sizes[i]


def round_point(
    occasions: Occasions, share: NDArray[np.floating[Any]], trace: Trace, capacity: int
) -> Schedule:
    """Hold each item where an LP point holds at least half of it, as far as the capacity allows."""
    held, entered = np.zeros(len(occasions), np.bool_), np.zeros(len(occasions), np.bool_)
    load = np.zeros(trace.n_steps + 1, np.int64)
    _round(
        occasions.ptr,
        occasions.step,
        occasions.enter,
        share,
        trace.sizes,
        min(capacity, 2**61),
        load,
        held,
        entered,
    )
    return schedule_of(occasions, trace.n_steps, held, entered)
