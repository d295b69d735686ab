"""One time line of events for a hard trace, the same form for every order and availability.

In a hard trace a step is served by one item or by none. An optimal schedule then changes an item's
presence at few places: it may leave right after a step it serves, and it enters at the last opportunity
before a step it serves. These places, in time order, are the *events*. Event j belongs to one item, may
allow entering, leaving or both, and is linked to the item's previous and next event; an item held from
event j to its next event collects ``reward[j]``. Within one boundary between steps all leavings come
before all enterings, so the cache's content after every event must fit the capacity, and nothing else is
left of the order of a step.

A worked example. Serve-then-update, stream, requests 0 1 0: item 0 may enter at the end of step 0, serves
step 2 and may leave after it, which makes two events; item 1 is never asked for again and has none.

>>> from softhit import from_requests
>>> events = build_events(from_requests([0, 1, 0]))
>>> events.item.tolist(), events.boundary.tolist(), events.reward.tolist()
([0, 0], [1, 3], [1, 0])
>>> events.can_enter.tolist(), events.can_leave.tolist()
([True, False], [False, True])
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.jit import jit
from softhit.retrieval import utility_scale
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Events", "build_events", "require_hard"]

_ENTER, _LEAVE = 1, 2

# Sums of rewards stay below this, so that labels made of a few of them fit 64 bits.
MAX_TOTAL = 1 << 60


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a hard trace in time order; M of them.

    Attributes
    ----------
    item, boundary : int32[M]
        Whose event, and at which boundary 0..T between steps (step t lies between t and t + 1).
    prev, next : int32[M]
        The item's neighbouring events; -1: none.
    reward : int64[M]
        Collected by an item held from this event to its next one, in units of ``unit``.
    can_enter, can_leave : bool[M]
    gain : int64[N]
        What each item collects if it enters at its first event and stays: the most it can collect.
    unit : Fraction
        Cost of one unit of reward.
    base : Fraction
        Cost of serving nothing: the sum of weights.
    n_steps : int
        T.
    serves_first : bool
        The boundary of an update: t + 1 for the update of step t in serve_then_update, else t.
    """

    item: NDArray[np.int32]
    boundary: NDArray[np.int32]
    prev: NDArray[np.int32]
    next: NDArray[np.int32]
    reward: NDArray[np.int64]
    can_enter: NDArray[np.bool_]
    can_leave: NDArray[np.bool_]
    gain: NDArray[np.int64]
    unit: Fraction
    base: Fraction
    n_steps: int
    serves_first: bool

    def __len__(self) -> int:
        return len(self.item)

    def worth(self, price: Fraction | int) -> Events:
        """Drop what an insertion ``price`` (in units) makes useless: no optimum with that price changes.

        Entering is useless where all that the item can still collect does not exceed the price; an event
        that allows nothing, or that no entering precedes, disappears and hands on its reward.
        """
        floor = min(int(price), MAX_TOTAL)
        flags = self.can_enter * np.uint8(_ENTER) + self.can_leave * np.uint8(_LEAVE)
        parts = _compact(self.item, self.boundary, flags, self.reward.copy(), floor, len(self.gain))
        return Events(**_fields(parts), **self._rest())

    def _rest(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("gain", "unit", "base", "n_steps", "serves_first")}


def _fields(parts: tuple[Any, ...]) -> dict[str, Any]:
    item, boundary, flags, previous, following, reward = parts
    return {
        "item": item,
        "boundary": boundary,
        "prev": previous,
        "next": following,
        "reward": reward,
        "can_enter": (flags & _ENTER) != 0,
        "can_leave": (flags & _LEAVE) != 0,
    }


@jit
def _scan(
    request: Any,
    worth: Any,
    arrival: Any,
    stream: Any,
    serves_first: Any,
    last: Any,
    item: Any,
    boundary: Any,
    flags: Any,
    reward: Any,
) -> Any:
    """List the events of all steps; ``last[i]`` is the latest event of item i, -1 before the first."""
    m = 0
    n_steps = len(request)
    for t in range(n_steps):
        for turn in range(2):
            if (turn == 0) == serves_first:
                i = request[t]
                if i >= 0 and worth[t] > 0 and last[i] >= 0:
                    reward[last[i]] += worth[t]
                    item[m], boundary[m], flags[m], reward[m] = i, t + 1, _LEAVE, 0
                    last[i] = m
                    m += 1
                continue
            b = t + 1 if serves_first else t
            if stream:
                i = arrival[t]
            elif b < n_steps:
                i = request[b]
            else:
                i = -1
            if i < 0:
                continue
            j = last[i]
            if j >= 0 and j == m - 1 and boundary[j] == b:
                flags[j] |= _ENTER
                continue
            item[m], boundary[m], flags[m], reward[m] = i, b, _ENTER, 0
            last[i] = m
            m += 1
    return m


@jit
def _gains(item: Any, reward: Any, n_items: Any) -> Any:
    gain = np.zeros(n_items, np.int64)
    for j in range(len(item)):
        gain[item[j]] += reward[j]
    return gain


@jit
def _compact(item: Any, boundary: Any, flags: Any, reward: Any, floor: Any, n_items: Any) -> Any:
    """Keep the useful events (see :meth:`Events.worth`), renumber and link them."""
    rest = np.zeros(n_items, np.int64)
    for j in range(len(item) - 1, -1, -1):
        rest[item[j]] += reward[j]
        # without reward up to the next event, the next opportunity is never worse
        if reward[j] == 0 or rest[item[j]] <= floor:
            flags[j] &= _LEAVE
    tip = np.full(n_items, -1, np.int32)
    kept = 0
    for j in range(len(item)):
        i = item[j]
        if flags[j] & _ENTER or (flags[j] & _LEAVE and tip[i] >= 0):
            tip[i] = j
            kept += 1
        else:
            if tip[i] >= 0:
                reward[tip[i]] += reward[j]
            flags[j] = 0
    out_item = np.empty(kept, np.int32)
    out_boundary = np.empty(kept, np.int32)
    out_flags = np.empty(kept, np.uint8)
    out_prev = np.empty(kept, np.int32)
    out_next = np.full(kept, -1, np.int32)
    out_reward = np.empty(kept, np.int64)
    tip[:] = -1
    n = 0
    for j in range(len(item)):
        if flags[j] == 0:
            continue
        i = item[j]
        out_item[n], out_boundary[n], out_flags[n], out_reward[n] = i, boundary[j], flags[j], reward[j]
        out_prev[n] = tip[i]
        if tip[i] >= 0:
            out_next[tip[i]] = n
        tip[i] = n
        n += 1
    return out_item, out_boundary, out_flags, out_prev, out_next, out_reward


def require_hard(trace: Trace, method: str) -> None:
    """Raise InvalidInput, naming ``method``, unless the trace has hard hits and unit sizes."""
    if not trace.structure.unit_sizes:
        raise InvalidInput(
            f"{method} needs unit sizes, and this trace has others than 1 (use the MILP or the dual bound)"
        )
    if not trace.structure.hard:
        raise InvalidInput(
            f"{method} needs hard hits: at most one item may serve each step "
            "(use the MILP or the dual bound for soft hits)"
        )


def build_events(trace: Trace, variant: Variant | None = None) -> Events:
    """Return the events of a hard trace with unit sizes.

    Any quality, weight and arrivals; any order, availability and fill. With one item a row the three
    aggregators agree up to the factor 1/k of ``mean_topk``.

    Raises
    ------
    InvalidInput
        A step can be served by several items, an item has another size than 1, or the rewards are so
        large that 64-bit integers might not hold their sum.
    """
    variant = variant or Variant()
    require_hard(trace, "the flow solver")
    full = utility_scale(trace.quality_scale, variant)
    request = trace.requests
    worth = np.zeros(trace.n_steps, np.int64)
    worth[request >= 0] = trace.quality
    worth *= trace.weight
    common = int(np.gcd.reduce(worth)) or 1
    worth //= common
    if int(worth.max(initial=0)) * len(worth) >= MAX_TOTAL and sum(worth.tolist()) >= MAX_TOTAL:
        raise InvalidInput(f"weights and qualities are too large: their products sum to {MAX_TOTAL} or more")
    size = 2 * trace.n_steps
    item, boundary = np.empty(size, np.int32), np.empty(size, np.int32)
    flags, reward = np.empty(size, np.uint8), np.empty(size, np.int64)
    last = np.full(trace.n_items, -1, np.int64)
    m = _scan(
        request,
        worth,
        trace.arrivals,
        variant.stream,
        variant.serves_first,
        last,
        item,
        boundary,
        flags,
        reward,
    )
    parts = _compact(item[:m], boundary[:m], flags[:m], reward[:m], 0, trace.n_items)
    return Events(
        **_fields(parts),
        gain=_gains(parts[0], parts[-1], trace.n_items),
        unit=Fraction(common, full),
        base=Fraction(trace.total_weight),
        n_steps=trace.n_steps,
        serves_first=variant.serves_first,
    )
