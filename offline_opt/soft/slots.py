"""Good schedules for soft hits, by giving one slot of the cache at a time its best history.

A schedule that never holds more than K items of size 1 is K histories, one per slot: what the slot holds,
step by step. Given the other K - 1 histories, the best one for the remaining slot is the optimum of a cache
with one slot, in which an item is worth what it adds to the utility of the others. That is a dynamic
programme with one value per item and, as every change costs the same, one number per boundary:

    empty(u)   = the most a history can have collected when it holds nothing needed at boundary u
    inside(i)  = max(inside(i), empty(boundary at which i may enter) - lambda) + what i adds at this step

A pass looks only at entries that add something: with rows sorted by quality it stops at the first one that
does not exceed what the others serve. :func:`reslot` deals the stays out to slots at random, gives each slot
its best history, and repeats; a sweep never makes a schedule worse. Histories of single items
(:mod:`offline_opt.soft.primal`) cannot do that when the cache is full: to let one item in, another has to
leave. Every variant; unit sizes only.

The local optimum of :mod:`offline_opt.soft.primal`, in which item 0 keeps item 1 out, is left at once:

>>> from softhit import cost, from_arrays
>>> trace = from_arrays([[0, 0], [0, 0], [0.5, 0.75]], arrivals=[0, 1, -1])
>>> held = Schedule.from_events(3, [], [], [0], [0])
>>> float(cost(held, trace, 1, 1)), float(cost(reslot(held, trace, 1, 1), trace, 1, 1))
(2.5, 2.25)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.soft.occasions import Occasions, find_occasions, flags_of, schedule_of
from softhit.check import check_int
from softhit.errors import InvalidInput
from softhit.exact import check_switch_cost
from softhit.jit import jit
from softhit.retrieval import aggregator_code, retrieve, utility, utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Slots", "reslot"]

_NOWHERE = -1


@jit
def _threshold(a: Any, b: Any, quality: Any, holders: Any, k: Any) -> Any:
    """Quality of the k-th best held entry of a row sorted by quality, 0 if fewer are held."""
    n = 0
    for p in range(a, b):
        if holders[p] > 0:
            n += 1
            if n == k:
                return np.int64(quality[p])
    return np.int64(0)


@jit
def _adds(
    p: Any,
    a: Any,
    b: Any,
    places: Any,
    quality: Any,
    ranks: Any,
    scored: Any,
    holders: Any,
    k: Any,
    aggregator: Any,
    scale: Any,
    got: Any,
    worth: Any,
) -> Any:
    """What entry p adds to the utility of the held entries of its row, any aggregator, any ranking."""
    if holders[p] > 0:
        return np.int64(0)
    n = retrieve(a, b, places, quality, ranks, scored, holders, k, got, worth)
    without = utility(worth, n, aggregator, scale)
    holders[p] = 1
    n = retrieve(a, b, places, quality, ranks, scored, holders, k, got, worth)
    holders[p] = 0
    return utility(worth, n, aggregator, scale) - without


@jit
def _put(
    first: Any, last: Any, amount: Any, place: Any, step: Any, row: Any, plain: Any, quality: Any,
    holders: Any, stayers: Any, k: Any, cut: Any,
) -> None:  # fmt: skip
    """Add a stay (``amount`` 1) or take it away (-1), and bring the thresholds of its steps up to date."""
    for e in range(first, last + 1):
        p = place[e]
        holders[p] += amount
        if e > first:
            stayers[p] += amount
        if plain:
            t = step[e]
            cut[t] = _threshold(row[t], row[t + 1], quality, holders, k)


@jit
def _best_history(
    row: Any, item: Any, quality: Any, ranks: Any, scored: Any, enter: Any, doors: Any, door_ptr: Any,
    weight: Any, plain: Any, stream: Any, k: Any, aggregator: Any, scale: Any, factor: Any, price: Any,
    holders: Any, cut: Any, places: Any, got: Any, worth: Any,
    empty: Any, via: Any, inside: Any, latest: Any, came: Any,
) -> None:  # fmt: skip
    """Fill the tables of the dynamic programme; ``via[u]`` is the entry a history ends with at boundary u.

    ``came[p]`` is the entry of the same item from which entry p was reached, or -1 if the item entered.
    """
    latest[:] = _NOWHERE
    empty[0] = 0
    via[0] = _NOWHERE
    for t in range(len(weight)):
        best = empty[t]
        end = via[t]
        if stream:
            # an item may enter long before it adds something
            for d in range(door_ptr[t], door_ptr[t + 1]):
                p = doors[d]
                i = item[p]
                fresh = empty[enter[p]] - price
                if latest[i] < 0 or fresh > inside[i]:
                    inside[i] = fresh
                    latest[i] = p
                    came[p] = _NOWHERE
        a = row[t]
        b = row[t + 1]
        for p in range(a, b):
            if plain:
                if quality[p] <= cut[t]:
                    break
                if holders[p] > 0:
                    continue
                gain = quality[p] - cut[t]
            else:
                gain = _adds(
                    p, a, b, places, quality, ranks, scored, holders, k, aggregator, scale, got, worth
                )
            i = item[p]
            if not stream and enter[p] >= 0:
                fresh = empty[enter[p]] - price
                if latest[i] < 0 or fresh > inside[i]:
                    inside[i] = fresh
                    came[p] = _NOWHERE
                else:
                    came[p] = latest[i]
            elif latest[i] < 0:
                continue
            elif latest[i] != p:
                came[p] = latest[i]
            latest[i] = p
            inside[i] += gain * weight[t] * factor
            if inside[i] > best:
                best = inside[i]
                end = p
        empty[t + 1] = best
        via[t + 1] = end


@jit
def _read(via: Any, came: Any, enter: Any, occasion: Any, last_boundary: Any, first: Any, last: Any) -> Any:
    """Write the stays of the best history, latest first, as ranges of occasions; return how many."""
    n = 0
    p = via[last_boundary]
    while p >= 0:
        last[n] = occasion[p]
        while came[p] >= 0:
            p = came[p]
        first[n] = occasion[p]
        n += 1
        p = via[enter[p]]
    return n


@jit
def _sweep(
    order: Any, ptr: Any, old_first: Any, old_last: Any,
    step: Any, place: Any, occasion: Any,
    row: Any, item: Any, quality: Any, ranks: Any, scored: Any, enter: Any, doors: Any, door_ptr: Any,
    weight: Any, plain: Any, stream: Any, k: Any, aggregator: Any, scale: Any, factor: Any, price: Any,
    free: Any, capacity: Any, holders: Any, stayers: Any, cut: Any, places: Any, inserted: Any,
    empty: Any, via: Any, inside: Any, latest: Any, came: Any, trial_first: Any, trial_last: Any,
    new_first: Any, new_last: Any,
) -> Any:  # fmt: skip
    """Give each slot of ``order`` its best history, given the others; return the gain.

    Slot s has the stays ``ptr[s]:ptr[s+1]``. ``inserted[0]`` is the number of insertions of all.
    """
    total = np.int64(0)
    got = np.empty(k, np.int32)
    worth = np.empty(k, np.int32)
    n_steps = len(weight)
    for s in order:
        a, b = ptr[s], ptr[s + 1]
        for y in range(a, b):
            _put(old_first[y], old_last[y], -1, place, step, row, plain, quality, holders, stayers, k, cut)
        before = np.int64(0)
        for y in range(a, b):
            for e in range(old_first[y], old_last[y] + 1):
                t = step[e]
                p = place[e]
                if plain:
                    if holders[p] == 0 and quality[p] > cut[t]:
                        before += (quality[p] - cut[t]) * weight[t] * factor
                else:
                    before += weight[t] * factor * _adds(
                        p, row[t], row[t + 1], places, quality, ranks, scored, holders, k, aggregator,
                        scale, got, worth,
                    )  # fmt: skip
        others = inserted[0] - (b - a)
        before -= price * (max(0, inserted[0] - capacity) if free else inserted[0])
        count = -1
        # the first insertions may be free; then the best history is that of one of the two prices
        for attempt in range(2 if free and others < capacity else 1):
            charge = price if attempt == 0 else np.int64(0)
            _best_history(
                row, item, quality, ranks, scored, enter, doors, door_ptr, weight, plain, stream, k,
                aggregator, scale, factor, charge, holders, cut, places, got, worth, empty, via, inside,
                latest, came,
            )  # fmt: skip
            n = _read(via, came, enter, occasion, n_steps, trial_first, trial_last)
            after = empty[n_steps] + charge * n
            after -= price * (max(0, others + n - capacity) if free else others + n)
            if after > before:
                total += after - before
                before = after
                count = n
                new_first[:n] = trial_first[:n]
                new_last[:n] = trial_last[:n]
        if count < 0:
            for y in range(a, b):
                _put(old_first[y], old_last[y], 1, place, step, row, plain, quality, holders, stayers, k, cut)
        else:
            inserted[0] = others + count
            for y in range(count):
                _put(new_first[y], new_last[y], 1, place, step, row, plain, quality, holders, stayers, k, cut)
    return total


@jit
def _deal(low: Any, high: Any, by_end: Any, rng: Any, slot: Any) -> Any:
    """Deal stays, sorted by their first step, out to slots; one of the free ones, at random."""
    free = np.empty(len(low), np.int64)
    n_free = 0
    used = 0
    done = 0
    for y in range(len(low)):
        while high[by_end[done]] < low[y]:
            free[n_free] = slot[by_end[done]]
            n_free += 1
            done += 1
        if n_free:
            z = rng.integers(0, n_free)
            slot[y] = free[z]
            n_free -= 1
            free[z] = free[n_free]
        else:
            slot[y] = used
            used += 1
    return used


class Slots:
    """A schedule under improvement, slot by slot.

    Parameters
    ----------
    trace, capacity, switch_cost, variant
        Sizes must all be 1.
    schedule : Schedule
        A valid one to begin with.
    occasions : Occasions, optional

    Raises
    ------
    InvalidInput
        Items have sizes, or costs do not fit 64 bits.
    """

    def __init__(
        self,
        schedule: Schedule,
        trace: Trace,
        capacity: int,
        switch_cost: Any,
        variant: Variant,
        occasions: Occasions | None = None,
    ) -> None:
        if not trace.structure.unit_sizes:
            raise InvalidInput("slots are for unit sizes; this trace has others")
        self.capacity = min(check_int("capacity", capacity, low=1), 2**61)
        lam = check_switch_cost(switch_cost)
        o = occasions or find_occasions(trace, capacity, variant)
        self.occasions, self.n_steps = o, trace.n_steps
        full = utility_scale(trace.quality_scale, variant)
        self.scale = math.lcm(full, lam.denominator)
        price = lam.numerator * (self.scale // lam.denominator)
        if trace.total_weight * self.scale + price * (len(o) + 1) >= 1 << 61:
            raise InvalidInput(f"costs in units of 1/{self.scale} do not fit 64 bits")
        scored = trace.ranks is not None
        plain = not scored and variant.aggregator != "coverage"
        quality = trace.quality[o.entry]
        # retrieval needs rows in the order of items; without it, the best first
        order = np.lexsort((o.item, -quality if plain else o.item, o.step))
        self.place = np.empty(len(o), np.int32)
        self.place[order] = np.arange(len(o), dtype=np.int32)
        enter = o.enter[order]
        doors = np.flatnonzero(enter >= 0) if variant.stream else np.zeros(0, np.int64)
        steps = np.arange(trace.n_steps + 1)
        at = o.step[order]
        self.holders, self.stayers = np.zeros(len(o), np.int16), np.zeros(len(o), np.int16)
        self.cut = np.zeros(trace.n_steps, np.int64)
        self._row = np.searchsorted(at, steps)
        self._plain, self._k, self._quality = plain, variant.top_k, quality[order]
        self._instance = (
            o.step,
            self.place,
            order,
            self._row,
            o.item[order],
            self._quality,
            self._quality if trace.ranks is None else trace.ranks[o.entry[order]],
            scored,
            enter,
            doors,
            np.searchsorted(at[doors], steps),
            trace.weight,
            plain,
            variant.stream,
            variant.top_k,
            aggregator_code(variant),
            trace.quality_scale,
            self.scale // full,
        )
        self._price, self._free = price, variant.free_fill
        self._places = np.arange(len(o) if not plain else 0, dtype=np.int32)
        self._tables = (
            np.zeros(trace.n_steps + 1, np.int64),
            np.zeros(trace.n_steps + 1, np.int64),
            np.zeros(trace.n_items, np.int64),
            np.zeros(trace.n_items, np.int64),
            np.full(len(o), _NOWHERE, np.int64),
            *(np.zeros(trace.n_steps + 1, np.int64) for _ in range(4)),
        )
        self.inserted = np.zeros(1, np.int64)
        self.load(schedule)

    def load(self, schedule: Schedule) -> None:
        """Take over a schedule."""
        self._set(*flags_of(self.occasions, schedule))

    def _set(self, held: NDArray[np.bool_], entered: NDArray[np.bool_]) -> None:
        self.holders[self.place] = held
        self.stayers[self.place] = held & ~entered
        self.inserted[0] = np.count_nonzero(entered)
        if self._plain:
            _thresholds(self._row, self._quality, self.holders, self._k, self.cut)

    def _flags(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        held = self.holders[self.place] > 0
        return held, held & (self.stayers[self.place] == 0)

    def schedule(self) -> Schedule:
        """Return the schedule as it is now."""
        return schedule_of(self.occasions, self.n_steps, *self._flags())

    def sweep(self, rng: np.random.Generator, tick: Callable[[], bool] | None = None) -> int:
        """Deal the stays to slots and give each its best history; return the gain, in units of 1/``scale``.

        ``tick`` is called now and then and ends the sweep by returning True.
        """
        held, entered = self._flags()
        self._set(held, entered)  # what two slots held is one stay now
        o = self.occasions
        first = np.flatnonzero(entered)
        goes_on = np.r_[(held & ~entered)[1:], False]
        last = np.flatnonzero(held & ~goes_on)
        low, high = o.enter[first], o.step[last]
        by_low = np.argsort(low, kind="stable")
        first, last, low, high = first[by_low], last[by_low], low[by_low], high[by_low]
        slot = np.zeros(len(first), np.int64)
        used = int(_deal(low, high, np.argsort(high, kind="stable"), rng, slot))
        by_slot = np.argsort(slot, kind="stable")
        ptr = np.searchsorted(slot[by_slot], np.arange(used + 2))
        stays = (first[by_slot], last[by_slot])
        gain = 0
        todo = rng.permutation(used)
        for part in np.array_split(todo, max(1, math.ceil(used / 8))):
            gain += self._run(part, ptr, stays)
            if tick is not None and tick():
                return gain
        empty = np.array([used])
        for _ in range(max(0, self.capacity - used)):
            found = self._run(empty, ptr, stays)
            gain += found
            if not found or (tick is not None and tick()):
                break
        return gain

    def _run(
        self,
        slots: NDArray[np.int64],
        ptr: NDArray[np.int64],
        stays: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> int:
        return int(
            _sweep(
                slots,
                ptr,
                *stays,
                *self._instance,
                self._price,
                self._free,
                self.capacity,
                self.holders,
                self.stayers,
                self.cut,
                self._places,
                self.inserted,
                *self._tables,
            )
        )


@jit
def _thresholds(row: Any, quality: Any, holders: Any, k: Any, cut: Any) -> None:
    for t in range(len(cut)):
        cut[t] = _threshold(row[t], row[t + 1], quality, holders, k)


def reslot(
    schedule: Schedule,
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    max_sweeps: int = 20,
    seed: int = 0,
) -> Schedule:
    """Return a schedule that costs at most as much; a valid one must be given, with unit sizes.

    Stops after ``max_sweeps`` sweeps or three in a row without gain.
    """
    slots = Slots(schedule, trace, capacity, switch_cost, variant or Variant())
    rng = np.random.default_rng(seed)
    idle = 0
    for _ in range(max_sweeps):
        idle = 0 if slots.sweep(rng) else idle + 1
        if idle == 3:
            break
    return slots.schedule()
