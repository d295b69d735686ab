"""The places in a trace where the presence of an item can matter, item by item.

Between two steps that have an item in their row, its presence changes nothing but the load. So an optimal
schedule drops an item only right after such a step, and inserts it at the last opportunity before one. An
*occasion* is one entry of the trace together with the latest boundary since the item's previous occasion
at which the item may enter. Boundary u lies just before step u is served: the update of step t acts at
boundary t + 1 in serve_then_update, at boundary t in update_then_serve.

Left out are entries that no schedule can use: of steps with weight 0, of items that serve nothing or exceed
the capacity, and before the item's first opportunity to enter.

>>> from softhit import from_arrays
>>> trace = from_arrays([[0, 0.5], [1, 0.5], [1, 0]], arrivals=[0, 1, -1])
>>> o = find_occasions(trace, capacity=1)
>>> [(int(o.item[e]), int(o.step[e]), int(o.enter[e])) for e in range(len(o))]
[(0, 1, 1), (0, 2, -1)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.jit import jit
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Occasions", "find_occasions", "flags_of", "schedule_of"]


@dataclass(frozen=True, eq=False)
class Occasions:
    """Occasions sorted by item, then step; E of them.

    Attributes
    ----------
    ptr : int64[N+1]
        Item i has the occasions ``ptr[i]:ptr[i+1]``.
    item, step : int32[E]
    entry : int64[E]
        Position in ``trace.items``.
    enter : int32[E]
        Latest boundary, after the item's previous occasion and not after this step, at which the item may
        enter; -1: none.
    delay : int
        Boundary of the update of step t, minus t: 1 in serve_then_update, 0 in update_then_serve.
    """

    ptr: NDArray[np.int64]
    item: NDArray[np.int32]
    step: NDArray[np.int32]
    entry: NDArray[np.int64]
    enter: NDArray[np.int32]
    delay: int

    def __len__(self) -> int:
        return len(self.item)

    @property
    def first(self) -> NDArray[np.bool_]:
        """Whether each occasion is the first one of its item."""
        mask = np.zeros(len(self), np.bool_)
        mask[self.ptr[:-1][np.diff(self.ptr) > 0]] = True
        return mask


@jit
def _scan(
    indptr: Any,
    items: Any,
    weight: Any,
    arrivals: Any,
    usable: Any,
    stream: Any,
    delay: Any,
    place: Any,
    item: Any,
    step: Any,
    entry: Any,
    enter: Any,
) -> None:
    """One pass over time; with empty output arrays it only counts into ``place``."""
    writing = len(item) > 0
    n_items = len(usable)
    chance = np.full(n_items, -1, np.int64)  # latest boundary at which the item could enter
    previous = np.full(n_items, -1, np.int64)  # step of its latest occasion
    for t in range(len(weight)):
        if stream and delay == 0 and arrivals[t] >= 0:
            chance[arrivals[t]] = t
        if weight[t] > 0:
            for x in range(indptr[t], indptr[t + 1]):
                i = items[x]
                if not usable[i]:
                    continue
                if not stream and t >= delay:
                    chance[i] = t
                if chance[i] < 0:
                    continue
                if writing:
                    e = place[i]
                    item[e], step[e], entry[e] = i, t, x
                    enter[e] = chance[i] if chance[i] > previous[i] else -1
                place[i] += 1
                previous[i] = t
        if stream and delay == 1 and arrivals[t] >= 0:
            chance[arrivals[t]] = t + 1


def find_occasions(trace: Trace, capacity: int, variant: Variant | None = None) -> Occasions:
    """List the occasions of a trace. Any order and availability; the fill does not matter."""
    variant = variant or Variant()
    delay = 1 if variant.serves_first else 0
    usable = np.zeros(trace.n_items, np.bool_)
    usable[trace.items[trace.quality > 0]] = True
    usable &= trace.sizes <= min(capacity, 2**62)
    fixed = (trace.indptr, trace.items, trace.weight, trace.arrivals, usable, variant.stream, delay)
    count = np.zeros(trace.n_items, np.int64)
    none32, none64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
    _scan(*fixed, count, none32, none32, none64, none32)
    ptr = np.zeros(trace.n_items + 1, np.int64)
    np.cumsum(count, out=ptr[1:])
    n = int(ptr[-1])
    item, step, enter = (np.empty(n, np.int32) for _ in range(3))
    entry = np.empty(n, np.int64)
    if n:
        _scan(*fixed, ptr[:-1].copy(), item, step, entry, enter)
    return Occasions(ptr=ptr, item=item, step=step, entry=entry, enter=enter, delay=delay)


def schedule_of(occasions: Occasions, n_steps: int, held: Any, entered: Any) -> Schedule:
    """Return the schedule that holds each item at its ``held`` occasions.

    Parameters
    ----------
    held, entered : bool[E]
        ``entered`` marks held occasions before which the item came in, rather than stayed since the
        previous one. An item leaves right after the last occasion of a stay.

    Raises
    ------
    ValueError
        An occasion is held that the item neither entered for nor was held before, or entered where it
        may not.
    """
    held = np.asarray(held, np.bool_)
    entered = np.asarray(entered, np.bool_) & held
    if np.any(entered & (occasions.enter < 0)):
        raise ValueError("an item enters where it may not")
    stays = held & ~entered
    before = np.r_[False, held[:-1]] & ~occasions.first
    if np.any(stays & ~before):
        raise ValueError("an item stays that was not held")
    begin = np.flatnonzero(entered)
    after = np.r_[stays[1:], False] & ~np.r_[occasions.first[1:], True]
    end = np.flatnonzero(held & ~after)
    enter_steps = occasions.enter[begin] - occasions.delay
    leave_steps = occasions.step[end] + 1 - occasions.delay
    return Schedule.from_intervals(n_steps, occasions.item[begin], enter_steps, leave_steps)


@jit
def _mark(
    leave_ptr: Any,
    leave_items: Any,
    enter_ptr: Any,
    enter_items: Any,
    delay: Any,
    ptr: Any,
    step: Any,
    held: Any,
    entered: Any,
) -> None:
    n_items = len(ptr) - 1
    n_steps = len(leave_ptr) - 1
    cursor = ptr[:-1].copy()
    open_since = np.full(n_items, -1, np.int64)
    for t in range(n_steps + 1):
        # after the last step, whatever is still in leaves
        last = n_items if t == n_steps else leave_ptr[t + 1] - leave_ptr[t]
        for x in range(last):
            i = x if t == n_steps else leave_items[leave_ptr[t] + x]
            if open_since[i] < 0:
                continue
            e = cursor[i]
            while e < ptr[i + 1] and step[e] < open_since[i]:
                e += 1
            first = True
            while e < ptr[i + 1] and step[e] < t + delay:
                held[e] = True
                entered[e] = first
                first = False
                e += 1
            cursor[i] = e
            open_since[i] = -1
        if t < n_steps:
            for x in range(enter_ptr[t], enter_ptr[t + 1]):
                open_since[enter_items[x]] = t + delay


def flags_of(occasions: Occasions, schedule: Schedule) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return ``(held, entered)`` of a valid schedule; the inverse of :func:`schedule_of`.

    Stays that contain no occasion are left out, and an item enters as late and leaves as early as its
    occasions allow, so the schedule of these flags costs at most as much.
    """
    held, entered = np.zeros(len(occasions), np.bool_), np.zeros(len(occasions), np.bool_)
    _mark(
        schedule.leave_ptr,
        schedule.leave_items,
        schedule.enter_ptr,
        schedule.enter_items,
        occasions.delay,
        occasions.ptr,
        occasions.step,
        held,
        entered,
    )
    return held, entered
