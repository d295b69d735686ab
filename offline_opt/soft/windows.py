"""Better schedules for soft hits by solving a stretch of time exactly, with all the rest as it is.

Within a window of steps a mixed-integer programme decides anew what is held when; before and after it the
schedule stays. It is the programme of :mod:`offline_opt.soft.milp` with three additions: an item that is in
the cache as the window begins may stay on at no cost; one that goes on after the window must be in at its
end; and what is held across without an occasion inside takes up room.

To let a window span many steps, only *promising* occasions are in it: those held now, and those that the
Lagrangian ascent held in a part of its iterations (:class:`offline_opt.soft.ascent.Ascent`); and where an
item stays on that nearly all iterations held, this is *sure* and not up for decision. On the instances
tried, one occasion in ten was promising, three in four of these were sure, and little was lost.

:meth:`Windows.plan` makes a schedule from nothing, window by window into the future: a window looks further
ahead than it decides, and what is in as it ends is worth what the prices of the Lagrangian say. What a
schedule happens to hold at a cut, which windows that improve it cannot change, is then no obstacle.

Aggregators ``best`` and ``mean_topk``, sizes and weights; no score. HiGHS is not trusted: what it returns is
priced in integers and kept only if it is cheaper, and the caller verifies the schedule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.soft.milp import Linear, Rows, run_highs
from offline_opt.soft.occasions import Occasions
from softhit.jit import jit
from softhit.retrieval import utility_scale
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Windows", "not_supported"]

Flags = NDArray[np.bool_]


def not_supported(trace: Trace, variant: Variant) -> str | None:
    """Say why windows do not apply, or None if they do."""
    if trace.ranks is not None:
        return "windows know no score"
    if variant.aggregator == "coverage" and variant.top_k > 1:
        return "coverage is not linear in what is held"
    return None


@jit
def _loads(ptr: Any, step: Any, enter: Any, held: Any, entered: Any, sizes: Any, load: Any) -> None:
    """Load of every step, by differences."""
    load[:] = 0
    for i in range(len(ptr) - 1):
        for e in range(ptr[i], ptr[i + 1]):
            if held[e]:
                low = enter[e] if entered[e] else step[e - 1] + 1
                load[low] += sizes[i]
                load[step[e] + 1] -= sizes[i]
    total = np.int64(0)
    for u in range(len(load)):
        total += load[u]
        load[u] = total


@jit
def _inside(
    chosen: Any, item: Any, ptr: Any, step: Any, enter: Any, held: Any, entered: Any, begin: Any, end: Any,
    door: Any, before: Any, carried: Any, charged: Any, goes_on: Any,
) -> None:  # fmt: skip
    """Describe the chosen occasions of a window, sorted by item and step, and how items cross its ends.

    ``door``: latest boundary in the window since the item's previous chosen occasion at which it may enter;
    ``before``: place of that previous one, or -1; ``carried``: the item is in as the window begins and stays
    until here; ``charged``: and its insertion belongs to this occasion; ``goes_on``: it is in after the
    window as well, without a break.
    """
    for x in range(len(chosen)):
        e = chosen[x]
        i = item[e]
        same = x > 0 and item[chosen[x - 1]] == i
        before[x] = x - 1 if same else -1
        e0 = chosen[x - 1] + 1 if same else e
        if not same:
            while e0 > ptr[i] and step[e0 - 1] >= begin:
                e0 -= 1
        latest = -1
        for g in range(e0, e + 1):
            if enter[g] >= begin:
                latest = max(latest, enter[g])
        door[x] = latest
        if not same and held[e0]:
            if not entered[e0]:
                carried[x] = True
            elif enter[e0] < begin:
                carried[x] = True
                charged[x] = True
        if x + 1 == len(chosen) or item[chosen[x + 1]] != i:
            g = e + 1
            while g < ptr[i + 1] and step[g] < end:
                g += 1
            goes_on[x] = g < ptr[i + 1] and held[g] and not entered[g]


@jit
def _own_load(
    chosen: Any, step: Any, enter: Any, held: Any, entered: Any, goes_on: Any, size: Any, begin: Any,
    end: Any, load: Any,
) -> None:  # fmt: skip
    """Take the stays of the chosen occasions out of the load of the window's steps."""
    for x in range(len(chosen)):
        e = chosen[x]
        if held[e]:
            low = enter[e] if entered[e] else step[e - 1] + 1
            high = end - 1 if goes_on[x] else step[e]
            for u in range(max(low, begin), high + 1):
                load[u] -= size[x]


@jit
def _write(
    chosen: Any, item: Any, ptr: Any, step: Any, enter: Any, begin: Any, door: Any, charged: Any,
    keep: Any, take: Any, held: Any, entered: Any,
) -> None:  # fmt: skip
    """Replace the flags of a window; occasions that were not chosen are held where their item is."""
    for x in range(len(chosen)):
        held[chosen[x]] = False
        entered[chosen[x]] = False
    for x in range(len(chosen)):
        e = chosen[x]
        if keep[x]:
            if charged[x]:
                entered[e] = True
            g = e
            while g > ptr[item[e]] and step[g - 1] >= begin and not held[g - 1]:
                g -= 1
        elif take[x]:
            g = e
            while enter[g] != door[x]:
                g -= 1
            entered[g] = True
        else:
            continue
        for h in range(g, e + 1):
            held[h] = True


@jit
def _write_ends(
    last: Any, go: Any, chosen: Any, item: Any, ptr: Any, step: Any, end: Any, held: Any, entered: Any
) -> None:
    """Where an item goes on after the window, hold it until its next occasion."""
    for y in range(len(last)):
        if go[y]:
            e = chosen[last[y]]
            g = e + 1
            while g < ptr[item[e] + 1] and step[g] < end:
                g += 1
            for h in range(e + 1, g + 1):
                held[h] = True
                entered[h] = False


@jit
def _outlook(
    ptr: Any, step: Any, enter: Any, gain: Any, paid: Any, entry: Any, sizes: Any, inside: Any, out: Any
) -> None:
    """What an item can still collect from occasion e on: ``inside[e]`` if it is in then, ``out[e]`` if it is
    out after the previous one."""
    for i in range(len(ptr) - 1):
        later_in = 0.0
        later_out = 0.0
        for e in range(ptr[i + 1] - 1, ptr[i] - 1, -1):
            t = step[e]
            stay = -np.inf
            if e + 1 < ptr[i + 1]:
                stay = later_in - sizes[i] * (paid[step[e + 1] + 1] - paid[t + 1])
            inside[e] = max(0.0, gain[e]) + max(stay, later_out)
            out[e] = later_out
            if enter[e] >= 0:
                out[e] = max(out[e], inside[e] - sizes[i] * (entry + paid[t + 1] - paid[enter[e]]))
            later_in = inside[e]
            later_out = out[e]


@jit
def _worth_of_staying(
    last: Any, chosen: Any, item: Any, ptr: Any, step: Any, enter: Any, end: Any, paid: Any, entry: Any,
    sizes: Any, inside: Any, out: Any, worth: Any,
) -> None:  # fmt: skip
    """What it is worth that an item is in as the window ends, by the prices."""
    for y in range(len(last)):
        e = chosen[last[y]]
        i = item[e]
        g = e + 1
        while g < ptr[i + 1] and step[g] < end:
            g += 1
        worth[y] = 0.0
        if g < ptr[i + 1]:
            without = out[g + 1] if g + 1 < ptr[i + 1] else 0.0
            if enter[g] >= end:
                without = max(without, inside[g] - sizes[i] * (entry + paid[step[g] + 1] - paid[enter[g]]))
            worth[y] = inside[g] - sizes[i] * (paid[step[g] + 1] - paid[end]) - without


@jit
def _served(step: Any, quality: Any, weight: Any, best: Any) -> Any:
    """Weighted sum of the k best qualities of each step; the steps ascend."""
    k = len(best)
    total = np.int64(0)
    x = 0
    while x < len(step):
        t = step[x]
        best[:] = 0
        while x < len(step) and step[x] == t:
            value = np.int64(quality[x])
            for j in range(k):
                if value > best[j]:
                    other = best[j]
                    best[j] = value
                    value = other
            x += 1
        total += weight[t] * best.sum()
    return total


@dataclass(frozen=True, eq=False)
class _Window:
    """A window's programme and how to read it back."""

    programme: Linear
    chosen: NDArray[np.int64]
    door: NDArray[np.int64]
    charged: Flags
    last: NDArray[np.int64]
    go: NDArray[np.int64]


class Windows:
    """Windows of one instance.

    Parameters
    ----------
    trace, capacity, switch_cost, variant
        See :func:`not_supported`.
    occasions : Occasions
    promising : bool[E]
        Occasions that may be held besides those that are.
    sure : bool[E], optional
        Occasions at which an item that stays on now does so for good. Default: none.
    """

    def __init__(
        self,
        trace: Trace,
        capacity: int,
        switch_cost: Fraction,
        variant: Variant,
        occasions: Occasions,
        promising: Flags,
        sure: Flags | None = None,
    ) -> None:
        self._trace, self._capacity, self._variant = trace, capacity, variant
        self._lam, self._occasions, self._promising = float(switch_cost), occasions, promising
        self._sure = np.zeros(len(occasions), np.bool_) if sure is None else sure
        self._full = utility_scale(trace.quality_scale, variant)
        self._scale = math.lcm(self._full, switch_cost.denominator)
        self._price = switch_cost.numerator * (self._scale // switch_cost.denominator)
        self._size = trace.sizes[occasions.item]
        none = np.zeros(0)
        self._prospects: tuple[Any, Any, Any, Any] = (none, 0.0, none, none)
        self._by_step = np.argsort(occasions.step, kind="stable")
        self._at = np.searchsorted(occasions.step[self._by_step], np.arange(trace.n_steps + 1))

    def cuts(self, held: Flags, size: int, offset: float = 0.0) -> list[int]:
        """Cut the steps into windows of ``size`` occasions to decide, moved by ``offset`` windows."""
        open_ = (held | self._promising) & ~self._sure
        some = np.concatenate([np.zeros(1, np.int64), np.cumsum(open_[self._by_step])])
        reached = some[self._at]
        wanted = np.arange((offset - 1) % 1 * size, reached[-1], size) if reached[-1] else np.zeros(0)
        inner = np.searchsorted(reached, wanted)
        return np.unique(np.concatenate([[0], inner, [self._trace.n_steps]])).tolist()  # type: ignore[no-any-return]

    def solve(
        self, held: Flags, entered: Flags, begin: int, end: int, max_nodes: int, gap: float,
        time_limit: float | None = None,
    ) -> tuple[Flags, Flags] | None:  # fmt: skip
        """Return new flags for a cheaper schedule, or None if none was found.

        Parameters
        ----------
        held, entered : bool[E]
            The schedule now, as in :func:`offline_opt.soft.occasions.flags_of`.
        begin, end : int
            Steps of the window, ``end`` not included.
        max_nodes : int
            Limit of the branch and bound.
        gap : float
            Absolute gap at which it may stop.
        """
        window = self._window(held, entered, begin, end)
        if window is None:
            return None
        answer = run_highs(
            window.programme,
            relaxed=False,
            gap=gap,
            max_nodes=max_nodes,
            time_limit=time_limit,
        )
        point = answer.point
        if point is None or len(point) != len(window.programme.objective) or not np.all(np.isfinite(point)):
            return None
        n = len(window.chosen)
        keep, take = point[:n] > 0.5, point[n : 2 * n] > 0.5
        new_held, new_entered = held.copy(), entered.copy()
        o = self._occasions
        _write(
            window.chosen,
            o.item,
            o.ptr,
            o.step,
            o.enter,
            begin,
            window.door,
            window.charged,
            keep,
            take & ~keep,
            new_held,
            new_entered,
        )
        before = self._units(held, entered, begin, end)
        cheaper = self._units(new_held, new_entered, begin, end) < before
        return (new_held, new_entered) if cheaper and self.valid(new_held, new_entered) else None

    def outlook(self, serve: NDArray[np.float64], slot: NDArray[np.float64], entry: float) -> None:
        """Take prices, per 1.0 of cost, which :meth:`plan` needs."""
        o, trace = self._occasions, self._trace
        paid = np.concatenate([np.zeros(1), np.cumsum(slot)])
        gain = trace.weight[o.step] * (trace.quality[o.entry] / self._full) - serve[o.step]
        inside, out = np.zeros(len(o)), np.zeros(len(o))
        _outlook(o.ptr, o.step, o.enter, gain, paid, entry, trace.sizes, inside, out)
        self._prospects = (paid, entry, inside, out)

    def plan(
        self, held: Flags, entered: Flags, begin: int, middle: int, end: int, max_nodes: int, gap: float,
        time_limit: float | None = None,
    ) -> bool:  # fmt: skip
        """Decide the steps from ``begin`` to ``middle``, after which nothing is decided yet.

        The window goes on to ``end``, beyond ``middle`` without integrality. What is in as it ends is worth
        what the prices of :meth:`outlook` say that its item can still collect.

        Parameters
        ----------
        held, entered : bool[E]
            Written. An item that goes on after ``middle`` is held until its next occasion.

        Returns
        -------
        bool
            Whether there is a decision. It can be worse than what HiGHS promised, and the caller has to see
            to it that the schedule is valid.
        """
        window = self._window(held, entered, begin, end, middle)
        if window is None:
            return True
        programme = window.programme
        answer = run_highs(programme, relaxed=False, gap=gap, max_nodes=max_nodes, time_limit=time_limit)
        point = answer.point
        if point is None or len(point) != len(programme.objective) or not np.all(np.isfinite(point)):
            return False
        n, o = len(window.chosen), self._occasions
        decided = (point > 0.5) & programme.integer
        keep, take, go = decided[:n], decided[n : 2 * n], decided[window.go]
        _write(
            window.chosen, o.item, o.ptr, o.step, o.enter, begin, window.door, window.charged, keep,
            take & ~keep, held, entered,
        )  # fmt: skip
        _write_ends(window.last, go, window.chosen, o.item, o.ptr, o.step, end, held, entered)
        return True

    def valid(self, held: Flags, entered: Flags) -> bool:
        """Whether flags are a schedule: HiGHS has called points optimal that break their own constraints."""
        o = self._occasions
        goes_on = np.concatenate([np.zeros(1, np.bool_), held[:-1]]) & ~o.first
        if np.any(held & ~entered & ~goes_on) or np.any(entered & (~held | (o.enter < 0))):
            return False
        load = np.zeros(self._trace.n_steps + 1, np.int64)
        _loads(o.ptr, o.step, o.enter, held, entered, self._trace.sizes, load)
        return bool(load.max() <= self._capacity)

    def _units(self, held: Flags, entered: Flags, begin: int, end: int) -> int:
        """Cost in units of 1/``_scale`` as far as the window decides it, without what is constant."""
        within = self._by_step[self._at[begin] : self._at[end]]
        there = within[held[within]]
        served = _served(
            self._occasions.step[there],
            self._trace.quality[self._occasions.entry[there]],
            self._trace.weight,
            np.zeros(self._variant.top_k, np.int64),
        )
        inserted = int(self._size[entered].sum())
        paid = max(0, inserted - self._capacity) if self._variant.free_fill else inserted
        return paid * self._price - int(served) * (self._scale // self._full)

    def _window(
        self, held: Flags, entered: Flags, begin: int, end: int, middle: int | None = None
    ) -> _Window | None:
        o, trace, variant = self._occasions, self._trace, self._variant
        within = self._by_step[self._at[begin] : self._at[end]]
        chosen = np.sort(within[(held | self._promising)[within]])
        n = len(chosen)
        if n == 0:
            return None
        door, before = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        carried, charged, goes_on = (np.zeros(n, np.bool_) for _ in range(3))
        flags = (o.step, o.enter, held, entered)
        _inside(chosen, o.item, o.ptr, *flags, begin, end, door, before, carried, charged, goes_on)
        sizes = trace.sizes[o.item[chosen]]
        load = np.zeros(trace.n_steps + 1, np.int64)
        _loads(o.ptr, *flags, trace.sizes, load)
        _own_load(chosen, *flags, goes_on, sizes, begin, end, load)
        last = (
            np.flatnonzero(np.append(np.diff(o.item[chosen]) != 0, True))
            if middle is not None
            else np.zeros(0, np.int64)
        )
        worth = np.zeros(len(last))
        if middle is not None:
            paid, entry, value_in, value_out = self._prospects
            _worth_of_staying(
                last, chosen, o.item, o.ptr, o.step, o.enter, end, paid, entry, trace.sizes, value_in,
                value_out, worth,
            )  # fmt: skip
            goes_on = np.zeros(n, np.bool_)
        # the load can exceed the room only where something enters, or where what is fixed takes more of it
        rises = begin + 1 + np.flatnonzero(np.diff(load[begin:end]) > 0)
        boundaries = np.unique(np.concatenate([[begin], door[door >= 0], rises]))
        fixed = np.maximum.reduceat(load[begin:end], boundaries - begin)

        unit = float(sizes.max())
        size, room = sizes / unit, (self._capacity - fixed) / unit
        at = o.step[chosen].astype(np.int64)
        reward = trace.weight[at] * (trace.quality[o.entry[chosen]] / self._full)
        serving = np.flatnonzero(reward > 0)
        keep, take = np.arange(n), n + np.arange(n)
        serve = 2 * n + np.arange(len(serving))
        loads = 2 * n + len(serving) + np.arange(len(boundaries))
        over = 2 * n + len(serving) + len(boundaries)
        outside = int(self._size[entered].sum()) - int(sizes[entered[chosen]].sum())
        some_free = variant.free_fill and outside < self._capacity
        go = over + int(some_free) + np.arange(len(last))
        columns = over + int(some_free) + len(last)
        objective, low, high = np.zeros(columns), np.zeros(columns), np.ones(columns)
        objective[serve] = -reward[serving]
        high[keep[(before < 0) & ~carried]] = 0.0
        high[take[door < 0]] = 0.0
        fixed_on = np.flatnonzero((self._sure & held & ~entered)[chosen] & (high[keep] > 0))
        low[keep[fixed_on]] = 1.0
        high[loads] = room
        objective[go], high[go] = -worth, worth > 0
        rows = Rows()

        later = np.flatnonzero(before >= 0)
        r = rows.open(len(later), -np.inf, 0.0)
        rows.put(r, keep[later], 1.0)
        rows.put(r, keep[before[later]], -1.0)
        rows.put(r, take[before[later]], -1.0)

        r = rows.open(len(serving), -np.inf, 0.0)
        rows.put(r, serve, 1.0)
        rows.put(r, keep[serving], -1.0)
        rows.put(r, take[serving], -1.0)

        steps, where = np.unique(at[serving], return_inverse=True)
        r = rows.open(len(steps), -np.inf, float(variant.top_k))
        rows.put(r[where], serve, 1.0)

        r = rows.open(len(boundaries), 0.0, 0.0)
        rows.put(r, loads, 1.0)
        rows.put(r[1:], loads[:-1], -1.0)
        first = np.flatnonzero(carried)
        rows.put(np.full(len(first), r[0]), keep[first], -size[first])
        entering = np.flatnonzero(door >= 0)
        rows.put(r[np.searchsorted(boundaries, door[entering])], take[entering], -size[entering])
        out = np.searchsorted(boundaries, at + 1)
        leaving = np.flatnonzero((out < len(boundaries)) & ~goes_on)
        rows.put(r[out[leaving]], keep[leaving], size[leaving])
        rows.put(r[out[leaving]], take[leaving], size[leaving])
        ends = np.flatnonzero(out[last] < len(boundaries))
        rows.put(r[out[last[ends]]], go[ends], -size[last[ends]])
        stays = later[out[before[later]] < len(boundaries)]
        rows.put(r[out[before[stays]]], keep[stays], -size[stays])

        r = rows.open(len(last), -np.inf, 0.0)
        rows.put(r, go, 1.0)
        rows.put(r, keep[last], -1.0)
        rows.put(r, take[last], -1.0)
        on = np.flatnonzero(goes_on)
        r = rows.open(len(on), 1.0, np.inf)
        rows.put(r, keep[on], 1.0)
        rows.put(r, take[on], 1.0)

        paid = np.flatnonzero(charged)
        if some_free:
            objective[over], high[over] = self._lam * unit, np.inf
            r = rows.open(1, -np.inf, (self._capacity - outside) / unit)
            rows.put(np.full(n, r[0]), take, size)
            rows.put(np.full(len(paid), r[0]), keep[paid], size[paid])
            rows.put(r, [over], -1.0)
        else:
            objective[take] = self._lam * size * unit
            objective[keep[paid]] = self._lam * size[paid] * unit

        integer = np.zeros(columns, np.bool_)
        integer[: 2 * n] = True
        if middle is not None:
            early = at < middle
            firm = early | (before < 0) | early[before]
            integer[:n], integer[n : 2 * n], integer[go] = firm, early, early[last]
        row_low, row_high = rows.bounds()
        programme = Linear(
            matrix=rows.matrix(columns),
            row_low=row_low,
            row_high=row_high,
            objective=objective,
            constant=float(trace.weight[begin:end].sum()),
            low=low,
            high=high,
            integer=integer,
        )
        return _Window(programme, chosen, door, charged, last, go)
