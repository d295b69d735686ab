"""Replay a schedule against a trace and reject any violation of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_int
from softhit.errors import InvalidInput, InvalidSchedule
from softhit.jit import jit
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["RULES", "verify"]

RULES = (
    "",
    "the item id is out of range",
    "the item leaves but is not held",
    "the item enters but is already held",
    "only the arrival of the step may enter (stream)",
    "the cache holds more than its capacity",
)


@jit
def _replay(
    leave_ptr: Any,
    leave_items: Any,
    enter_ptr: Any,
    enter_items: Any,
    arrivals: Any,
    sizes: Any,
    capacity: Any,
    stream: Any,
) -> Any:
    n_items = len(sizes)
    held = np.zeros(n_items, np.uint8)
    used = np.int64(0)
    for t in range(len(arrivals)):
        for x in range(leave_ptr[t], leave_ptr[t + 1]):
            i = leave_items[x]
            if i < 0 or i >= n_items:
                return t, i, 1
            if not held[i]:
                return t, i, 2
            held[i] = 0
            used -= sizes[i]
        for x in range(enter_ptr[t], enter_ptr[t + 1]):
            i = enter_items[x]
            if i < 0 or i >= n_items:
                return t, i, 1
            if held[i]:
                return t, i, 3
            if stream and i != arrivals[t]:
                return t, i, 4
            held[i] = 1
            used += sizes[i]
            if used > capacity:
                return t, i, 5
    return -1, -1, 0


def verify(schedule: Schedule, trace: Trace, capacity: int, variant: Variant | None = None) -> None:
    """Check a schedule against the rules of the model; return nothing, or raise.

    The cache starts empty; within a step leaves come before enters. Rules: an item that leaves is held;
    an item that enters is not; in ``stream`` it is the arrival of the step; the sizes held never exceed
    ``capacity``. The order of a step does not matter for validity.

    Raises
    ------
    InvalidSchedule
        With the first offending step, item and rule.
    InvalidInput
        The schedule has another number of steps than the trace, or the capacity is not an integer >= 1.

    Examples
    --------
    >>> from softhit import Schedule, from_requests, verify
    >>> verify(Schedule.from_events(2, [], [], [0, 1], [0, 1]), from_requests([0, 1]), capacity=1)
    Traceback (most recent call last):
    ...
    softhit.errors.InvalidSchedule: invalid schedule at step 1, item 1: the cache holds more than its capacity
    """
    variant = variant or Variant()
    limit = check_int("capacity", capacity, low=1)
    if schedule.n_steps != trace.n_steps:
        raise InvalidInput(f"the schedule has {schedule.n_steps} steps, the trace {trace.n_steps}")
    step, item, rule = _replay(
        schedule.leave_ptr,
        schedule.leave_items,
        schedule.enter_ptr,
        schedule.enter_items,
        trace.arrivals,
        trace.sizes,
        min(limit, 2**62),
        variant.stream,
    )
    if rule:
        raise InvalidSchedule(int(step), int(item), RULES[rule])
