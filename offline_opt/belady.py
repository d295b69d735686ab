"""Belady's rule, with and without bypassing: the classical optima that the flow must reproduce.

Requests are classical paging: step t asks for the item that arrives, every hit is worth the same. Among the
items held and the one just requested, Belady's rule gives up the one whose next request is farthest away.

* With bypassing the request itself may be the one given up. In serve_then_update, stream, this minimises
  misses, hence the cost at lambda = 0; in update_then_serve it is optimal at lambda = 1, where fetching
  and missing cost the same.
* Forced: a request that is not held must be fetched. In update_then_serve no step is ever missed, and the
  number of fetches is the least possible among schedules that miss none; with charged fill and
  0 < lambda <= 1/2 the optimum is lambda times that number.

Worked example, K = 1, requests 1 1 2 1 2 2 2 1 in serve_then_update. Forced: content 1 1 2 1 2 2 2 1 after
each step, hits at steps 1, 5 and 6: three. With bypassing: keep 1 until step 3 (hits at 1 and 3), then 2
(hits at 5 and 6): four.

References
----------
.. [1] L. A. Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal
   5(2), 1966.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_int
from softhit.errors import InvalidInput
from softhit.jit import jit
from softhit.schedule import Schedule
from softhit.trace import Trace

__all__ = ["belady", "forced_belady"]


@jit
def _push(heap: Any, size: Any, key: Any) -> None:
    """Add a key to the max-heap of the first ``size`` entries."""
    at = size
    while at > 0 and heap[(at - 1) >> 1] < key:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = key


@jit
def _pop(heap: Any, size: Any) -> Any:
    """Remove the largest of ``size`` keys and return it."""
    top = heap[0]
    key = heap[size - 1]
    size -= 1
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key
    return top


@jit
def _run(
    request: Any, n_items: Any, capacity: Any, forced: Any, leave_step: Any, leave: Any, enter_step: Any
) -> Any:
    """Play the rule; return the numbers of leavings and enterings, whose steps and items are written.

    A key is the step of an item's next request, or T + item if there is none, so that keys are unique and
    name their item.
    """
    n_steps = len(request)
    upcoming = np.empty(n_steps, np.int64)
    seen = np.empty(n_items, np.int64)
    for i in range(n_items):
        seen[i] = n_steps + i
    for t in range(n_steps - 1, -1, -1):
        upcoming[t] = seen[request[t]]
        seen[request[t]] = t
    held = np.zeros(n_items, np.uint8)
    # keys of requests gone by stay behind; they are below all others and are swept out now and then
    heap = np.empty(2 * capacity + 2, np.int64)
    size = used = left = entered = 0
    for t in range(n_steps):
        i = request[t]
        if size > 2 * capacity:
            kept = 0
            for x in range(size):
                if heap[x] > t:
                    key = heap[x]
                    _push(heap, kept, key)
                    kept += 1
            size = kept
        if not held[i]:
            if used == capacity:
                farthest = heap[0]
                if not forced and farthest < upcoming[t]:
                    continue
                _pop(heap, size)
                size -= 1
                victim = request[farthest] if farthest < n_steps else farthest - n_steps
                held[victim] = 0
                leave_step[left] = t
                leave[left] = victim
                left += 1
                used -= 1
            held[i] = 1
            used += 1
            enter_step[entered] = t
            entered += 1
        _push(heap, size, upcoming[t])
        size += 1
    return left, entered


def _play(trace: Trace, capacity: int, forced: bool) -> Schedule:
    slots = min(check_int("capacity", capacity, low=1), max(1, trace.n_items))
    structure = trace.structure
    if not structure.requests or not structure.unit_sizes:
        raise InvalidInput(
            "Belady's rule needs classical paging: every step asks for the one item that arrives "
            "(e_t = q_t), and sizes are 1"
        )
    worth = trace.weight.astype(np.int64) * trace.quality
    if len(worth) and (worth.min() != worth.max() or worth[0] == 0):
        raise InvalidInput(
            "Belady's rule needs equally valuable hits: one quality and one weight > 0 throughout"
        )
    n = trace.n_steps
    leave_step, leave, enter_step = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int64)
    left, entered = _run(trace.requests, trace.n_items, slots, forced, leave_step, leave, enter_step)
    into: NDArray[np.int64] = enter_step[:entered]
    return Schedule.from_events(n, leave_step[:left], leave[:left], into, trace.requests[into])


def belady(trace: Trace, capacity: int) -> Schedule:
    """Return the schedule of Belady's rule with bypassing, in O(T log K).

    Optimal in serve_then_update, stream, lambda = 0, and in update_then_serve, charged fill, lambda = 1
    (either availability).

    Raises
    ------
    InvalidInput
        Not classical paging with equally valuable hits and unit sizes.

    Examples
    --------
    >>> from softhit import cost, from_requests
    >>> trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
    >>> float(cost(belady(trace, 1), trace, 1, 0))
    4.0
    """
    return _play(trace, capacity, forced=False)


def forced_belady(trace: Trace, capacity: int) -> Schedule:
    """Return the schedule of Belady's rule where every request must be fetched, in O(T log K).

    Its insertions are the classical number of faults.

    Raises
    ------
    InvalidInput
        As :func:`belady`.

    Examples
    --------
    >>> from softhit import cost, from_requests
    >>> trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
    >>> float(cost(forced_belady(trace, 1), trace, 1, 0)), forced_belady(trace, 1).n_insertions
    (5.0, 5)
    """
    return _play(trace, capacity, forced=True)
