"""What the flow solvers share: labels that fit, the uncontested case, stays, and the checked result.

A switching cost with a long fraction (a float drawn at random, say) might overflow even that. Two schedules
with at most Z insertions trade places only at switching costs whose denominator is at most Z, so the cost
is then replaced by a short fraction in the same Farey interval of a higher order: every comparison of two
paths comes out the same, and afterwards potentials are translated back exactly.

Free fill. Let g be the number of items that can collect more than L. If g <= K all of them are held from
their first use to their last, nothing competes for slots, and with free fill the K largest collectors enter
for nothing. If g > K, every optimum of the charged fill holds each of these items at some time, hence makes
at least K insertions, and is optimal for the free fill too: ``OPT_free = OPT_charged - lambda K``, since
``OPT_free >= OPT_charged - lambda K`` always. So free fill needs no network of its own.

Examples
--------
>>> stand_in(Fraction(1, 3), 10), stand_in(Fraction("0.3333333"), 10)
(Fraction(1, 3), Fraction(4, 13))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.flow.dual import Potentials, dual_bound, slot_prices
from offline_opt.flow.events import MAX_TOTAL, Events, build_events
from offline_opt.result import MethodResult, confirm
from softhit.check import check_int
from softhit.errors import InvalidInput, NotCertified
from softhit.exact import check_switch_cost
from softhit.jit import jit
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = [
    "ALL",
    "ENTER",
    "IN",
    "LEAVE",
    "MAX_LABEL_32",
    "MAX_LABEL_64",
    "OUT",
    "Flow",
    "FlowResult",
    "Progress",
    "Stays",
    "bit_length",
    "match",
    "short_price",
    "solve_on_events",
    "stand_in",
    "translate",
]

# State of an event: held into it, held out of it, may enter, may leave; all bits of a state.
IN, OUT, ENTER, LEAVE = 1, 2, 4, 8
ALL = 255

# Bounds on label sizes; intermediate values are sums of at most four labels.
MAX_LABEL_32 = (1 << 30) - 1
MAX_LABEL_64 = MAX_TOTAL

Progress = Callable[[int, int], object]

# Item, first boundary and last boundary of every stay.
Stays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class FlowResult(MethodResult):
    """A :class:`offline_opt.result.MethodResult` with the flow it comes from.

    Attributes
    ----------
    events : Events
    potentials : Potentials
        Dual solution on ``events``; :func:`offline_opt.flow.dual.dual_bound` recomputes the bound.
    gains : tuple of Fraction
        By how much each further slot lowers the cost under charged fill, non-increasing: the optimum for
        capacity k is ``base - sum(gains[:k])``. Only successive shortest paths tell; empty for other methods,
        and if K slots hold everything worth holding.
    """

    events: Events = None  # type: ignore[assignment]
    potentials: Potentials = None  # type: ignore[assignment]
    gains: tuple[Fraction, ...] = ()


@dataclass(frozen=True, eq=False)
class Flow:
    """What a solver found on contested events: what it saves under charged fill, stays, prices, gains."""

    method: str
    gain: Fraction
    stays: Stays
    potentials: Potentials
    gains: tuple[Fraction, ...] = ()


@jit
def bit_length(x: Any) -> Any:
    n = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if x >> shift:
            n += shift
            x >>= shift
    return n + 1 if x else n


def stand_in(price: Fraction, order: int) -> Fraction:
    """Return a short fraction with no fraction of denominator <= ``order`` between it and ``price``.

    >>> stand_in(Fraction(1, 3), 10), stand_in(Fraction("0.3333333"), 10)
    (Fraction(1, 3), Fraction(4, 13))
    """
    if price.denominator <= order:
        return price
    a, b = math.floor(price), 1
    c, d = a + 1, 1
    while b + d <= order:
        # price lies strictly between a/b and c/d, neighbours of some Farey sequence
        up = min(math.ceil((price * b - a) / (c - price * d)) - 1, (order - b) // d)
        a, b = a + up * c, b + up * d
        down = min(math.ceil((c - price * d) / (price * b - a)) - 1, (order - d) // b)
        c, d = c + down * a, d + down * b
        if up == 0 and down == 0:
            break
    return Fraction(a + c, b + d)


def translate(labels: NDArray[np.int64], short: Fraction, price: Fraction) -> NDArray[Any]:
    """Write labels ``alpha q' + beta p'`` for the price p'/q' as ``alpha q + beta p`` for p/q."""
    p, q = short.numerator, short.denominator
    beta = labels % q * pow(p, -1, q) % q if q > 1 else labels * 0
    beta = np.where(beta > q // 2, beta - q, beta)
    alpha = (labels - beta * p) // q
    result: NDArray[Any] = alpha.astype(object) * price.denominator + beta.astype(object) * price.numerator
    return result


def short_price(events: Events, price: Fraction) -> Fraction:
    """Return ``price``, or a stand-in for it if labels would not fit 64 bits.

    Raises
    ------
    InvalidInput
        Not even the stand-in fits.
    """
    total, short = int(events.gain.sum()), price
    if total * price.denominator + price.numerator >= MAX_LABEL_64:
        # labels and their differences count each insertion a bounded number of times
        short = stand_in(price, 16 * (int(np.count_nonzero(events.can_enter)) + 1))
    if total * short.denominator + short.numerator >= 2 * MAX_LABEL_64:
        raise InvalidInput(
            f"switch_cost is {price} rewards, too fine for these weights and qualities in 64 bits: "
            "round it, or use a smaller quality_scale"
        )
    return short


def match(events: Events, start: NDArray[Any], end: NDArray[Any]) -> Stays:
    """Pair the stays' starting and ending events; in time order within each item they alternate."""
    start = start[np.argsort(events.item[start], kind="stable")]
    end = end[np.argsort(events.item[end], kind="stable")]
    return events.item[start], events.boundary[start], events.boundary[end]


def _schedule(events: Events, stays: Stays) -> Schedule:
    item, first, last = stays
    n_steps = events.n_steps
    if events.serves_first:
        first, last = first - 1, last - 1
    return Schedule.from_intervals(n_steps, item, first, np.minimum(last, n_steps))


def _uncontested(
    events: Events, capacity: int, price: Fraction, free: bool
) -> tuple[Fraction, Stays, Events, Potentials]:
    """Hold what is worth holding from its first use to its last; at most ``capacity`` items are."""
    gain = events.gain
    best = np.lexsort((np.arange(len(gain)), -gain))[:capacity]
    mu = price
    if free:
        mu = min(price, Fraction(int(gain[best[-1]]) if len(best) == capacity else 0))
    chosen = np.zeros(len(gain), bool)
    chosen[best] = gain[best] > (0 if free else min(int(price), MAX_TOTAL))
    mine = chosen[events.item]
    stays = match(events, np.flatnonzero(mine & (events.prev < 0)), np.flatnonzero(mine & (events.next < 0)))
    worth = events.worth(mu)
    exact = int(gain.sum()) * mu.denominator + mu.numerator < MAX_LABEL_64
    reward = worth.reward.astype(np.int64 if exact else object) * mu.denominator
    # an item repays its insertion event by event; what it collects beyond that is surplus
    order = np.argsort(worth.item, kind="stable")
    before = np.cumsum(reward[order]) - reward[order]
    first = np.searchsorted(worth.item[order], worth.item[order])
    held = np.empty_like(reward)
    held[order] = np.maximum(mu.numerator - (before - before[first]), 0)
    line = np.zeros(len(worth) + 1, reward.dtype)
    paid = Fraction(0) if free else price * len(stays[0])
    objective = events.base - (int(gain[chosen].sum()) - paid) * events.unit
    return objective, stays, worth, Potentials(line, held, mu.numerator, mu.denominator)


def solve_on_events(
    method: str,
    contested: Callable[[Events, Fraction, int], Flow],
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None,
) -> FlowResult:
    """Return the optimum, proved and priced; ``contested(events, price, slots)`` finds it if slots are short.

    Parameters and errors are those of :func:`offline_opt.flow.ssp.solve_ssp`.
    """
    variant = variant or Variant()
    slots = check_int("capacity", capacity, low=1)
    lam = check_switch_cost(switch_cost)
    events = build_events(trace, variant)
    price = lam / events.unit
    gains: tuple[Fraction, ...] = ()
    if np.count_nonzero(events.gain > min(int(price), MAX_TOTAL)) <= slots:
        objective, stays, worth, potentials = _uncontested(events, slots, price, variant.free_fill)
    else:
        worth = events.worth(price)
        flow = contested(worth, price, slots)
        method, stays, potentials, gains = flow.method, flow.stays, flow.potentials, flow.gains
        objective = events.base - flow.gain - (lam * slots if variant.free_fill else 0)
    result = FlowResult(
        method=method,
        schedule=_schedule(events, stays),
        objective=objective,
        lower_bound=dual_bound(worth, potentials, slots, lam, variant),
        prices=slot_prices(worth, potentials),
        events=worth,
        potentials=potentials,
        gains=gains,
    )
    confirm(result, trace, slots, lam, variant)
    if result.lower_bound != objective:
        raise NotCertified(f"{method}: value {objective}, but its prices prove {result.lower_bound} only")
    return result
