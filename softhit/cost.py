"""The one place where a schedule gets its cost, exactly; and the floor nobody can go below."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_int, fail
from softhit.exact import Cost, check_switch_cost
from softhit.jit import jit
from softhit.retrieval import aggregator_code, retrieve, utility, utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant
from softhit.verify import verify

__all__ = ["added_cost", "cost", "floor_units", "miss_units_by_step", "price"]


@jit
def _misses(
    leave_ptr: Any,
    leave_items: Any,
    enter_ptr: Any,
    enter_items: Any,
    indptr: Any,
    items: Any,
    quality: Any,
    ranks: Any,
    scored: Any,
    weight: Any,
    n_items: Any,
    serves_first: Any,
    k: Any,
    aggregator: Any,
    scale: Any,
    full: Any,
    out: Any,
) -> Any:
    """Return the sum of all miss costs as (high, low), high * 2**31 + low; fill ``out`` if it is not empty.

    The halves keep every partial sum inside int64 whatever the weights.
    """
    held = np.zeros(n_items, np.uint8)
    got = np.empty(k, np.int32)
    worth = np.empty(k, np.int32)
    single = k == 1 and not scored and aggregator == 0
    keep = len(out) > 0
    high = np.int64(0)
    low = np.int64(0)
    for t in range(len(weight)):
        if not serves_first:
            for x in range(leave_ptr[t], leave_ptr[t + 1]):
                held[leave_items[x]] = 0
            for x in range(enter_ptr[t], enter_ptr[t + 1]):
                held[enter_items[x]] = 1
        c = np.int64(0)
        if weight[t] > 0:
            u = np.int64(0)
            if single:
                for x in range(indptr[t], indptr[t + 1]):
                    if held[items[x]] and quality[x] > u:
                        u = np.int64(quality[x])
            else:
                n = retrieve(indptr[t], indptr[t + 1], items, quality, ranks, scored, held, k, got, worth)
                u = utility(worth, n, aggregator, scale)
            c = weight[t] * (full - u)
        high += c >> 31
        low += c & 0x7FFFFFFF
        if keep:
            out[t] = c
        if serves_first:
            for x in range(leave_ptr[t], leave_ptr[t + 1]):
                held[leave_items[x]] = 0
            for x in range(enter_ptr[t], enter_ptr[t + 1]):
                held[enter_items[x]] = 1
    return high, low


def _units(trace: Trace, variant: Variant) -> int:
    """Return the units per 1.0 of utility, if the cost of every single step fits 64 bits in them."""
    full = utility_scale(trace.quality_scale, variant)
    heaviest = int(trace.weight.max(initial=0))
    if heaviest * full >= 2**63:
        fail("weight", heaviest, f"below 2**63 / {full}, so that one step's cost fits 64 bits")
    return full


def _sum_misses(schedule: Schedule, trace: Trace, variant: Variant, out: NDArray[np.int64]) -> int:
    full = _units(trace, variant)
    ranks = trace.quality if trace.ranks is None else trace.ranks
    high, low = _misses(
        schedule.leave_ptr,
        schedule.leave_items,
        schedule.enter_ptr,
        schedule.enter_items,
        trace.indptr,
        trace.items,
        trace.quality,
        ranks,
        trace.ranks is not None,
        trace.weight,
        trace.n_items,
        variant.serves_first,
        variant.top_k,
        aggregator_code(variant),
        trace.quality_scale,
        full,
        out,
    )
    return (int(high) << 31) + int(low)


def miss_units_by_step(schedule: Schedule, trace: Trace, variant: Variant | None = None) -> NDArray[np.int64]:
    """Return the miss cost of every step, int64[T], in units of 1/``utility_scale``.

    The schedule is taken as valid; :func:`cost` checks it first.
    """
    out = np.empty(trace.n_steps, np.int64)
    _sum_misses(schedule, trace, variant or Variant(), out)
    return out


def _exact_sum(values: NDArray[np.int64]) -> int:
    """Sum non-negative integers exactly."""
    return (int((values >> 31).sum()) << 31) + int((values & 0x7FFFFFFF).sum())


def price(
    miss_units: int, full: int, inserted: int, capacity: int, switch_cost: Any, variant: Variant
) -> Cost:
    """Combine misses (units of 1/``full``) and inserted size into an exact :class:`softhit.Cost`."""
    lam = check_switch_cost(switch_cost)
    paid = max(0, inserted - capacity) if variant.free_fill else inserted
    scale = math.lcm(full, lam.denominator)
    misses = miss_units * (scale // full)
    switches = lam.numerator * (scale // lam.denominator) * paid
    return Cost(
        units=misses + switches,
        scale=scale,
        miss_units=misses,
        switch_units=switches,
        insertions=inserted,
        paid=paid,
    )


def cost(
    schedule: Schedule, trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None
) -> Cost:
    """Verify a schedule and return its exact cost, ``sum_t w_t (1 - u_t) + lambda * (paid insertions)``.

    This is the only function of the project that computes the cost of a schedule.

    Parameters
    ----------
    schedule : Schedule
    trace : Trace
    capacity : int
        K >= 1, in units of size.
    switch_cost : int, float, Fraction or str
        lambda >= 0, taken exactly (a float by its shortest decimal).
    variant : Variant, optional
        Default: serve_then_update, stream, free fill, best.

    Raises
    ------
    InvalidSchedule, InvalidInput

    Examples
    --------
    Requests 0 1 0 with one slot that keeps item 0: two misses, one hit, a free fill.

    >>> from softhit import Schedule, cost, from_requests
    >>> keep = Schedule.from_events(3, [], [], [0], [0])
    >>> float(cost(keep, from_requests([0, 1, 0]), capacity=1, switch_cost=1))
    2.0
    """
    variant = variant or Variant()
    check_switch_cost(switch_cost)
    verify(schedule, trace, capacity, variant)
    misses = _sum_misses(schedule, trace, variant, np.empty(0, np.int64))
    unit = trace.structure.unit_sizes
    inserted = schedule.n_insertions if unit else _exact_sum(trace.sizes[schedule.enter_items])
    full = utility_scale(trace.quality_scale, variant)
    return price(misses, full, inserted, check_int("capacity", capacity, low=1), switch_cost, variant)


def added_cost(
    schedule: Schedule,
    trace: Trace,
    first: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
) -> Fraction:
    """Return what the steps after the prefix ``first`` of a trace add to the cost of a schedule, exactly.

    Raises
    ------
    InvalidSchedule, InvalidInput

    Examples
    --------
    >>> from softhit import Schedule, from_requests
    >>> keep, trace = Schedule.from_events(3, [], [], [0], [0]), from_requests([0, 1, 0])
    >>> added_cost(keep, trace, trace.prefix(1), capacity=1, switch_cost=1)
    Fraction(1, 1)
    """
    whole = cost(schedule, trace, capacity, switch_cost, variant)
    begin = cost(schedule.prefix(first.n_steps), first, capacity, switch_cost, variant)
    return whole.fraction - begin.fraction


def floor_units(trace: Trace, variant: Variant | None = None) -> int:
    """Return F, a cost no schedule of any capacity goes below, in units of 1/``utility_scale``.

    ``F = sum_t w_t (1 - u*_t)`` where u*_t is the utility if the k best items that have arrived (``stream``;
    in serve_then_update: before step t) or exist (``pool``) were held. With a score the best k are taken
    by quality, which can only lower F. Nothing is held at the first serve in serve_then_update.

    >>> from softhit import from_requests
    >>> floor_units(from_requests([0, 1, 0], quality=0.75)) / 10_000
    2.25
    """
    variant = variant or Variant()
    full = _units(trace, variant)
    first = np.zeros(trace.n_items, np.int64)
    if variant.stream:
        first[:] = trace.n_steps
        seen = np.flatnonzero(trace.arrivals >= 0)[::-1]
        first[trace.arrivals[seen]] = seen
    delay = 1 if variant.serves_first else 0
    counts = np.diff(trace.indptr)
    step = np.repeat(np.arange(trace.n_steps), counts)
    usable = first[trace.items] + delay <= step
    step, worth = step[usable], trace.quality[usable]
    order = np.lexsort((-worth, step))
    step, worth = step[order], worth[order]
    start = np.searchsorted(step, np.arange(trace.n_steps + 1))
    out = np.empty(trace.n_steps, np.int64)
    _floors(
        start, worth, trace.weight, variant.top_k, aggregator_code(variant), trace.quality_scale, full, out
    )
    return _exact_sum(out)


@jit
def _floors(
    start: Any, worth: Any, weight: Any, k: Any, aggregator: Any, scale: Any, full: Any, out: Any
) -> None:
    for t in range(len(weight)):
        n = min(k, start[t + 1] - start[t])
        out[t] = weight[t] * (full - utility(worth[start[t] : start[t] + n], n, aggregator, scale))
