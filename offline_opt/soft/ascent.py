"""Prices for soft hits at scale: ascent on the Lagrangian dual, one pass over the occasions per iteration.

For given prices every item has its own on/off programme (:mod:`offline_opt.soft.bound`); where the items
that want to be held exceed the capacity the slot price should rise, where more than k want to serve the
serve price should, and the other way round. These excesses are a subgradient of the bound. The ascent is
that of Adam with a step that falls geometrically, in floats; no LP is built. What it returns proves nothing
by itself: :func:`offline_opt.soft.bound.lower_bound` evaluates the rounded prices in integers.

The mean of the items' choices over the iterations approaches a solution of the LP relaxation; ``share``
holds a running mean of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.result import Prices
from offline_opt.soft.bound import rounded_prices
from offline_opt.soft.occasions import Occasions
from softhit.exact import check_switch_cost
from softhit.jit import jit
from softhit.retrieval import utility_scale
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Ascent"]

Floats = NDArray[np.float64]

MARGIN = 2
"""Occasions are listed for the next iterations if they pay after this many falls of the serve price."""
RELIST = 50
"""Iterations after which they are listed anew at the latest; sooner if one that is not listed would pay."""
FORGET = 0.9
"""Decay of Adam's running means of the subgradient and of its square; the subgradient changes fast."""
PACE, LAST_PACE = 0.1, 0.0005
"""First and last step of the ascent, as a part of the natural size of a price: w_t for serving, lambda for an
insertion, and for a slot the mean weight over K, for a start times:"""
PEAK = 20
"""Slot prices are 0 at most steps and high at a few, by about this factor (or K, if that is less)."""


@jit
def _respond(
    ptr: Any,
    step: Any,
    enter: Any,
    quality: Any,
    credit: Any,
    covered: Any,
    serve: Any,
    paid: Any,
    entry: Any,
    sizes: Any,
    flags: Any,
    load: Any,
    served: Any,
    offered: Any,
    some: Any,
    share: Any,
    rate: Any,
) -> Any:
    """Solve the programme of every item; return the sum of V_i and the inserted size.

    ``load`` gets the differences of the load over boundaries, ``served`` how many items want to serve each
    step, ``offered`` (only if ``covered``) the quality they bring. ``share`` moves by ``rate`` towards 1 at
    the occasions that are held and towards 0 at the others; its places are in ``some``.
    """
    load[:] = 0.0
    served[:] = 0.0
    offered[:] = 0.0
    total = 0.0
    inserted = 0.0
    for i in range(len(ptr) - 1):
        first, last = ptr[i], ptr[i + 1]
        if first == last:
            continue
        size = float(sizes[i])
        off = 0.0
        on = 0.0
        held = False
        since = 0
        for e in range(first, last):
            t = step[e]
            after = paid[t + 1]
            mark = 0
            if held:
                on -= size * (after - paid[since])
                mark = 1  # stayed
            if enter[e] >= 0:
                fresh = off - size * (entry + after - paid[enter[e]])
                if not held or fresh > on:
                    on = fresh
                    mark = 0
                held = True
            if held:
                gain = credit[t] * quality[e] - serve[t]
                if gain > 0.0:
                    on += gain
                since = t + 1
                if on > off:
                    off = on
                    mark |= 2  # the best way to be out later is to be in now
            flags[e] = mark
        total += off
        inside = False
        for e in range(last - 1, first - 1, -1):
            mark = flags[e]
            t = step[e]
            if not inside and mark & 2:
                inside = True
                load[t + 1] -= size
            if inside:
                worth = credit[t] * quality[e]
                if worth > serve[t]:
                    served[t] += 1.0
                    if covered:
                        offered[t] += quality[e]
                share[some[e]] += rate * (1.0 - share[some[e]])
                if not mark & 1:
                    load[enter[e]] += size
                    inserted += size
                    inside = False
            else:
                share[some[e]] -= rate * share[some[e]]
    return total, inserted


@jit
def _list(
    ptr: Any,
    step: Any,
    enter: Any,
    quality: Any,
    credit: Any,
    serve: Any,
    margin: Any,
    fade: Any,
    share: Any,
    listed: Any,
    some_ptr: Any,
    some_step: Any,
    some_enter: Any,
    some_quality: Any,
    some: Any,
    passed: Any,
) -> None:
    """List the occasions worth more than the serve price less ``margin[t]``; ``some`` gets their places.

    An occasion takes over the latest boundary to enter of those passed over before it; ``passed[t]`` gets the
    best quality among these. The share of occasions that were not listed is multiplied by ``fade`` first.
    """
    passed[:] = 0.0
    n = 0
    for i in range(len(ptr) - 1):
        some_ptr[i] = n
        door = -1
        for e in range(ptr[i], ptr[i + 1]):
            t = step[e]
            if not listed[e]:
                share[e] *= fade
            door = max(door, enter[e])
            listed[e] = credit[t] * quality[e] > serve[t] - margin[t]
            if listed[e]:
                some_step[n], some_enter[n], some_quality[n], some[n] = t, door, quality[e], e
                n += 1
                door = -1
            elif quality[e] > passed[t]:
                passed[t] = quality[e]
    some_ptr[len(ptr) - 1] = n


@jit
def _complete(credit: Any, passed: Any, serve: Any) -> Any:
    """Whether no occasion that was passed over is worth more than the serve price."""
    for t in range(len(serve)):  # noqa: SIM110 (a generator does not compile to this loop)
        if credit[t] * passed[t] > serve[t]:
            return False
    return True


@jit
def _move(
    price: Any, slope: Any, mean: Any, square: Any, pace: Any, forget: Any, age: Any, high: Any
) -> None:
    """One step of Adam upwards along ``slope``, kept between 0 and ``high``; ``pace`` is per coordinate."""
    fix = 1.0 - forget**age
    for t in range(len(price)):
        mean[t] = forget * mean[t] + (1.0 - forget) * slope[t]
        square[t] = forget * square[t] + (1.0 - forget) * slope[t] * slope[t]
        if square[t] > 0.0:
            price[t] += pace[t] * (mean[t] / fix) / np.sqrt(square[t] / fix)
        price[t] = min(high[t], max(0.0, price[t]))


class Ascent:
    """Prices on their way up.

    Parameters
    ----------
    trace, capacity, switch_cost, variant
        Every variant; with a score and for ``coverage`` the bound is that of a relaxation.
    occasions : Occasions

    Attributes
    ----------
    serve, slot, credit : float64[T]
        Prices per 1.0 of cost; ``credit`` moves for ``coverage`` only.
    entry : float64[1]
    value : float
        The bound of the prices before the latest step, in floats.
    best : float
        The highest value so far; :meth:`prices` returns the prices it belongs to.
    iteration : int

    Examples
    --------
    >>> from fractions import Fraction
    >>> from offline_opt.soft.bound import lower_bound
    >>> from offline_opt.soft.occasions import find_occasions
    >>> from softhit import from_arrays
    >>> trace = from_arrays([[0, 0], [0, 0], [0.5, 0.75]], arrivals=[0, 1, -1])
    >>> ascent = Ascent(trace, 1, Fraction(1), Variant(), find_occasions(trace, 1))
    >>> ascent.climb(200)
    >>> round(float(lower_bound(trace, 1, 1, Variant(), ascent.prices())), 3)
    2.25
    """

    def __init__(
        self, trace: Trace, capacity: int, switch_cost: Any, variant: Variant, occasions: Occasions
    ) -> None:
        lam = check_switch_cost(switch_cost)
        self._problem = (trace, capacity, lam, variant)
        n_steps = trace.n_steps
        weight = trace.weight.astype(np.float64)
        full = utility_scale(trace.quality_scale, variant)
        self._occasions = (occasions.ptr, occasions.step, occasions.enter)
        self._quality = (trace.quality[occasions.entry] / full).astype(np.float32)
        self._sizes, self._covered = trace.sizes, variant.aggregator == "coverage"
        self._free, self._k = variant.free_fill, variant.top_k
        self._room, self._lam = float(capacity), np.array([float(lam)])
        self._peak = min(PEAK, self._room) - 1.0
        self._total = float(trace.total_weight)
        self.serve, self.slot, self.credit = np.zeros(n_steps), np.zeros(n_steps), weight.copy()
        self.entry = self._lam.copy()
        self._best = (self.serve.copy(), self.slot.copy(), self.credit.copy(), self.entry.copy())
        self._high = (weight, np.full(n_steps, np.inf), weight, self._lam)
        natural = max(1e-12, float(weight.mean()) if n_steps else 1.0) / self._room
        self._unit = (weight, np.full(n_steps, natural), weight, self._lam)
        self._mean: tuple[Floats, ...] | None = None
        self._means = tuple(np.zeros(len(high)) for high in self._high)
        self._squares = tuple(np.zeros(len(high)) for high in self._high)
        self.value = self.best = -np.inf
        self.iteration = 0
        self._age = 0
        self._share = np.zeros(len(occasions), np.float32)
        self._listed = np.zeros(len(occasions), np.bool_)
        self._some_ptr = np.zeros(len(occasions.ptr), np.int64)
        self._some = (
            np.zeros(len(occasions), np.int32),
            np.zeros(len(occasions), np.int32),
            np.zeros(len(occasions), np.float32),
            np.zeros(len(occasions), np.int64),
        )
        self._passed = np.full(n_steps, np.inf, np.float32)
        self._fade, self._listed_for = 1.0, 0
        self._flags = np.zeros(len(occasions), np.uint8)
        self._load = np.zeros(n_steps + 1)
        self._served, self._offered = np.zeros(n_steps), np.zeros(n_steps)

    def step(self, pace: float, rate: float = 0.0) -> None:
        """Evaluate the prices, then move them by ``pace``; ``share`` and mean prices move by ``rate``."""
        if rate > 0.0:
            prices = (self.serve, self.slot, self.credit, self.entry)
            if self._mean is None:
                self._mean = tuple(price.copy() for price in prices)
            for mean, price in zip(self._mean, prices, strict=True):
                mean[:] += rate * (price - mean)
        if self._listed_for >= RELIST or not _complete(self.credit, self._passed, self.serve):
            self._relist(MARGIN * pace * self._unit[0])
        self._listed_for += 1
        self._fade *= 1.0 - rate
        paid = np.zeros(len(self.slot) + 1)
        np.cumsum(self.slot, out=paid[1:])
        some_step, some_enter, some_quality, some = self._some
        earned, inserted = _respond(
            self._some_ptr,
            some_step,
            some_enter,
            some_quality,
            self.credit,
            self._covered,
            self.serve,
            paid,
            self.entry[0],
            self._sizes,
            self._flags,
            self._load,
            self._served,
            self._offered,
            some,
            self._share,
            rate,
        )
        self.value = (
            float(self.credit.sum())
            - self._k * float(self.serve.sum())
            - self._room * float(paid[-1])
            - earned
        )
        if self._free:
            self.value -= self._room * float(self.entry[0])
        self.iteration += 1
        self._age += 1
        if self.value > self.best:
            self.best = self.value
            for kept, now in zip(self._best, (self.serve, self.slot, self.credit, self.entry), strict=True):
                kept[:] = now
        load = np.cumsum(self._load)[:-1]
        self._adam(0, self.serve, self._served - self._k, pace)
        self._adam(1, self.slot, load - self._room, pace * (1.0 + self._peak * (pace / PACE) ** 0.25))
        if self._covered:
            self._adam(2, self.credit, 1.0 - self._offered, pace)
        if self._free:
            self._adam(3, self.entry, np.array([inserted - self._room]), pace)

    def _relist(self, margin: Floats) -> None:
        """List the occasions that can matter while no serve price falls by more than ``margin``."""
        _list(
            *self._occasions,
            self._quality,
            self.credit,
            self.serve,
            margin,
            self._fade,
            self._share,
            self._listed,
            self._some_ptr,
            *self._some,
            self._passed,
        )
        self._fade, self._listed_for = 1.0, 0

    @property
    def share(self) -> NDArray[np.float32]:
        """Running mean of the items' choices, float32[E]; 0 where an item stays but serves nothing."""
        if self._fade != 1.0:
            self._share[~self._listed] *= self._fade
            self._fade = 1.0
        return self._share

    def _adam(self, which: int, price: Floats, slope: Floats, pace: float) -> None:
        _move(
            price,
            slope,
            self._means[which],
            self._squares[which],
            pace * self._unit[which],
            FORGET,
            self._age,
            self._high[which],
        )

    def climb(self, iterations: int, pace: float = PACE) -> None:
        """Take a number of steps, the last of size ``LAST_PACE``."""
        for j in range(iterations):
            self.step(*schedule_of_pace(j / iterations, pace))
        self.settle()

    def settle(self) -> None:
        """Evaluate the mean of the prices, often better than each; then go to the best prices so far."""
        if self._mean is not None:
            for price, mean in zip((self.serve, self.slot, self.credit, self.entry), self._mean, strict=True):
                price[:] = mean
            self.step(0.0)
        self.restart()

    def restart(self) -> None:
        """Go back to the best prices so far and forget the momentum."""
        for kept, now in zip(self._best, (self.serve, self.slot, self.credit, self.entry), strict=True):
            now[:] = kept
        for memory in (*self._means, *self._squares):
            memory[:] = 0.0
        self._age = 0

    def prices(self) -> Prices:
        """Return the best prices so far as valid integers."""
        trace, capacity, lam, variant = self._problem
        serve, slot, credit, entry = self._best
        return rounded_prices(
            trace,
            capacity,
            lam,
            variant,
            serve,
            slot,
            float(entry[0]) if self._free else None,
            credit if self._covered else None,
        )

    def state(self) -> dict[str, Floats]:
        """Return what :meth:`resume` needs."""
        serve, slot, credit, entry = self._best
        return {"serve": serve, "slot": slot, "credit": credit, "entry": entry, "share": self.share}

    def resume(self, state: dict[str, Any]) -> None:
        """Take over the prices of :meth:`state`."""
        serve, slot, credit, entry = self._best
        for kept, name in ((serve, "serve"), (slot, "slot"), (credit, "credit"), (entry, "entry")):
            kept[:] = state[name]
        self.share[:] = state["share"]
        self.best = -np.inf
        self.restart()


def schedule_of_pace(done: float, first: float = PACE) -> tuple[float, float]:
    """Return the step and the rate of averaging when a part ``done`` of the iterations is over.

    The choices are averaged in the second half only, when the prices no longer move much.
    """
    return first * (LAST_PACE / first) ** done, 0.0 if done < 0.5 else 0.02
