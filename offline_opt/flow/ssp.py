"""The exact optimum of hard hits with unit sizes, by successive shortest paths on the line of events.

The network is never built. Event j of :mod:`offline_opt.flow.events` stands for two nodes, a line node (a
free slot passing by) and an item node (a slot that holds the item); all arcs follow from the event's
neighbours on the line and its two links within the item:

    line j -> line j+1        cost 0     any number of slots
    line j -> item j          cost L     if the item can enter here
    item j -> line j          cost 0     if it can leave here
    item j -> item next(j)    cost -reward[j], one slot

K slots go from the first line node to the last. Each augmentation sends one more along a shortest path of
the residual network: the first in one pass, as the network has no cycles; the others by Dijkstra with node
potentials. As path lengths never decrease, the search stops early when a path gains nothing.

Labels are integers, kept in 32 bits where twice the length of the first path plus the largest price fits
there, else in 64. Nodes that are not settled yet wait in a radix heap: lists by the highest bit in which a
label differs from the current one. Its size does not depend on the range of the labels, and for small
ranges it is as fast as one bucket per label.

A switching cost with a long fraction (a float drawn at random, say) might overflow even that. Two schedules
with at most Z insertions trade places only at switching costs whose denominator is at most Z, so the cost
is then replaced by a short fraction in the same Farey interval of a higher order: every comparison of two
paths comes out the same, and afterwards potentials are translated back exactly.

Free fill. Let g be the number of items that can collect more than L. If g <= K all of them are held from
their first use to their last, nothing competes for slots, and with free fill the K largest collectors enter
for nothing. If g > K, every optimum of the charged fill holds each of these items at some time, hence makes
at least K insertions, and is optimal for the free fill too: ``OPT_free = OPT_charged - lambda K``, since
``OPT_free >= OPT_charged - lambda K`` always. So free fill needs no network of its own.

References
----------
.. [1] R. K. Ahuja, T. L. Magnanti, J. B. Orlin, Network Flows, 1993, section 9.7 (successive shortest
   paths), section 4.8 (radix heap).
.. [2] A. Bar-Noy, R. Bar-Yehuda, A. Freund, J. Naor, B. Schieber, A unified approach to approximating
   resource allocation and scheduling, J. ACM 48, 2001 (intervals on K machines as a flow).

Examples
--------
>>> from softhit import from_requests
>>> result = solve_ssp(from_requests([0, 1, 0, 2, 0, 1]), capacity=1, switch_cost=1)
>>> result.objective, result.lower_bound
(Fraction(4, 1), Fraction(4, 1))
"""

from __future__ import annotations

import math
import time
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

__all__ = ["FlowResult", "solve_ssp"]

# State of an event: held into it, held out of it, may enter, may leave.
IN, OUT, ENTER, LEAVE = 1, 2, 4, 8
ALL = IN | OUT | ENTER | LEAVE
# How a node was reached. A line node: from its left or right neighbour, or from its item node.
FROM_LEFT, FROM_RIGHT, FROM_ITEM = 0, 1, 2
# An item node: from its line node, or from the item's previous or next event.
FROM_LINE, FROM_PREV, FROM_NEXT = 3, 4, 5

# Bounds on label sizes; intermediate values are sums of at most four labels.
_MAX_LABEL_32 = (1 << 30) - 1
_MAX_LABEL_64 = MAX_TOTAL
# Return to Python about this often, so that an interrupt is served.
_SECONDS_PER_CALL = 0.2


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
        capacity k is ``base - sum(gains[:k])``. Empty if K slots hold everything worth holding.
    """

    events: Events = None  # type: ignore[assignment]
    potentials: Potentials = None  # type: ignore[assignment]
    gains: tuple[Fraction, ...] = ()


@jit
def _first_path(
    following: Any, reward: Any, enter: Any, leave: Any, price: Any, line: Any, held: Any, parent: Any
) -> Any:
    """Shortest paths from the first line node while nothing flows; return the length of the whole line."""
    m = len(following)
    held[:] = np.int64(1) << 62
    line[0] = 0
    for j in range(m):
        if j > 0:
            line[j] = line[j - 1]
        parent[2 * j] = FROM_LEFT
        parent[2 * j + 1] = FROM_PREV
        if leave[j] and held[j] < line[j]:
            line[j] = held[j]
            parent[2 * j] = FROM_ITEM
        if enter[j] and line[j] + price < held[j]:
            held[j] = line[j] + price
            parent[2 * j + 1] = FROM_LINE
        if following[j] >= 0:
            held[following[j]] = held[j] - reward[j]
    line[m] = line[m - 1]
    parent[2 * m] = FROM_LEFT
    return line[m]


@jit
def _bit_length(x: Any) -> Any:
    n = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if x >> shift:
            n += shift
            x >>= shift
    return n + 1 if x else n


@jit
def _send_one_slot(parent: Any, state: Any, waiting: Any, link: Any) -> None:
    """Move one slot along the shortest path, from the last line node back to the first."""
    u = 4 * (len(state) - 1)
    while u != 0:
        j = u >> 2
        how = parent[u >> 1]
        if how == FROM_LEFT:
            waiting[j - 1] += 1
            u -= 4
        elif how == FROM_RIGHT:
            waiting[j] -= 1
            u += 4
        elif how == FROM_ITEM:
            u += 2
        elif how == FROM_LINE:
            u -= 2
        elif how == FROM_PREV:
            i = link[2 * j]
            state[j] |= IN
            state[i] |= OUT
            u = 4 * i + 2
        else:
            i = link[2 * j + 1]
            state[j] &= ALL - OUT
            state[i] &= ALL - IN
            u = 4 * i + 2


@jit
def _augment(
    node: Any,
    parent: Any,
    state: Any,
    waiting: Any,
    link: Any,
    reward: Any,
    mask: Any,
    price: Any,
    capacity: Any,
    rounds: Any,
    done: Any,
    lengths: Any,
    heap: Any,
    entry: Any,
    after: Any,
    stack: Any,
    infinity: Any,
) -> Any:
    """Send up to ``rounds`` more slots; return how many have been sent and whether another would gain.

    One long function, because a call with array arguments costs more than the work of a step; -1 is
    returned for the number if no path was found, which the line makes impossible.

    ``node`` holds (distance, potential) of line node j at 4j and of item node j at 4j + 2; a distance is
    ``infinity`` (not reached), d >= 0 (reached) or -d - 1 (settled). ``waiting[j]`` slots pass from line
    node j to j + 1; ``link`` holds (previous, next) event; ``reward[j & mask]`` is the reward of event j.
    Nodes whose label is the current one wait on ``stack``, the others in lists with nodes ``entry`` and
    links ``after``: list b, which starts at ``heap[b]``, has the labels whose highest bit that differs from
    the current label is bit b - 1.
    """
    last = len(node) - 4
    gaining = True
    for _ in range(rounds):
        length = node[last + 1] - node[1]
        if length >= 0:
            gaining = False
            break
        _send_one_slot(parent, state, waiting, link)
        lengths[done] = length
        done += 1
        if done == capacity:
            break
        # a path of length 0 along the line always exists, so nothing beyond is of use
        limit = -length
        now = np.int64(0)
        entries = 0
        heap[:] = -1
        node[0] = 0
        stack[0] = 0
        waiting_here = 1
        reached = False
        while not reached:
            while waiting_here > 0:
                waiting_here -= 1
                u = np.int64(stack[waiting_here])
                if node[u] != now:
                    continue
                node[u] = -now - 1
                base = now + node[u + 1]
                j = u >> 2
                s = state[j]
                for arc in range(3):
                    if u & 2 == 0:
                        if arc == 0:
                            if j == 0 or waiting[j - 1] == 0:
                                continue
                            w = u - 4
                            d = base
                            how = FROM_RIGHT
                        elif arc == 1:
                            if s & (IN | OUT) == IN:
                                d = base
                            elif s & ENTER:
                                # also where it enters already: a dead end that keeps the potential tight
                                d = base + price
                            else:
                                continue
                            w = u + 2
                            how = FROM_LINE
                        else:
                            # last, to be taken from the stack first: running along the line is cheap
                            w = u + 4
                            d = base
                            how = FROM_LEFT
                    else:
                        if arc == 0:
                            if s & IN == 0:
                                continue
                            i = link[2 * j]
                            w = 4 * i + 2
                            d = base + reward[i & mask]
                            how = FROM_NEXT
                        elif arc == 1:
                            i = link[2 * j + 1]
                            if s & OUT or i < 0:
                                continue
                            w = 4 * i + 2
                            d = base - reward[j & mask]
                            how = FROM_PREV
                        else:
                            if s & (IN | OUT) == OUT:
                                d = base - price
                            elif s & LEAVE:
                                d = base
                            else:
                                continue
                            w = u - 2
                            how = FROM_ITEM
                    d -= node[w + 1]
                    if d < node[w] and d <= limit:
                        node[w] = d
                        parent[w >> 1] = how
                        if w == last:
                            limit = d
                            reached = d == now
                        if d == now:
                            stack[waiting_here] = w
                            waiting_here += 1
                        else:
                            entry[entries] = w
                            b = _bit_length(d ^ now)
                            after[entries] = heap[b]
                            heap[b] = entries
                            entries += 1
                if reached:
                    break
            if reached:
                break
            # the next label is the least one of the first list that is not empty
            b = 1
            while waiting_here == 0 and b < len(heap):
                x = heap[b]
                least = infinity
                while x >= 0:
                    d = node[entry[x]]
                    if 0 <= d < least:
                        least = d
                    x = after[x]
                x = heap[b]
                heap[b] = -1
                if least < infinity:
                    now = np.int64(least)
                    while x >= 0:
                        y = after[x]
                        d = node[entry[x]]
                        if d == now:
                            stack[waiting_here] = entry[x]
                            waiting_here += 1
                        elif d > now:
                            c = _bit_length(d ^ now)
                            after[x] = heap[c]
                            heap[c] = x
                        x = y
                b += 1
            if waiting_here == 0:
                return -1, False
            reached = node[last] == now
        for at in range(0, len(node), 2):
            d = node[at]
            if d < 0:
                node[at + 1] -= now + d + 1
            node[at] = infinity
    if done < capacity and node[last + 1] - node[1] >= 0:
        gaining = False
    return done, gaining


def _stand_in(price: Fraction, order: int) -> Fraction:
    """Return a short fraction with no fraction of denominator <= ``order`` between it and ``price``.

    >>> _stand_in(Fraction(1, 3), 10), _stand_in(Fraction("0.3333333"), 10)
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


def _translate(labels: NDArray[np.int64], short: Fraction, price: Fraction) -> NDArray[Any]:
    """Write labels ``alpha q' + beta p'`` for the price p'/q' as ``alpha q + beta p`` for p/q."""
    p, q = short.numerator, short.denominator
    beta = labels % q * pow(p, -1, q) % q if q > 1 else labels * 0
    beta = np.where(beta > q // 2, beta - q, beta)
    alpha = (labels - beta * p) // q
    result: NDArray[Any] = alpha.astype(object) * price.denominator + beta.astype(object) * price.numerator
    return result


class _Flow:
    """The residual network of one instance: renumbered, scaled, and ready to augment."""

    def __init__(self, events: Events, price: Fraction) -> None:
        m = len(events)
        self.events, self.price, self.short = events, price, price
        total = int(events.gain.sum())
        if total * price.denominator + price.numerator >= _MAX_LABEL_64:
            # labels and their differences count each insertion a bounded number of times
            self.short = _stand_in(price, 16 * (int(np.count_nonzero(events.can_enter)) + 1))
        if total * self.short.denominator + self.short.numerator >= 2 * _MAX_LABEL_64:
            raise InvalidInput(
                f"switch_cost is {price} rewards, too fine for these weights and qualities in 64 bits: "
                "round it, or use a smaller quality_scale"
            )
        reward = events.reward * self.short.denominator
        self.insertion = self.short.numerator
        line, held = np.empty(m + 1, np.int64), np.empty(m, np.int64)
        self.parent = np.zeros(2 * (m + 1), np.uint8)
        first = _first_path(
            events.next, reward, events.can_enter, events.can_leave, self.insertion, line, held, self.parent
        )
        span = -int(first)
        # every potential lies in [-2 span, max(insertion, largest gain)], every label in [0, span]
        largest = 2 * span + self.insertion + int(events.gain.max()) * self.short.denominator
        if largest > 2 * _MAX_LABEL_64:
            raise InvalidInput(
                "weights and qualities are too large for 64-bit labels: use a smaller quality_scale"
            )
        kind: type[np.signedinteger[Any]] = np.int32 if largest <= _MAX_LABEL_32 else np.int64
        self.infinity = int(np.iinfo(kind).max) // 2 + 1
        self.node = np.full((m + 1, 2, 2), self.infinity, kind)
        self.node[:, 0, 1] = line
        self.node[:-1, 1, 1] = held
        self.node[-1, 1, 1] = 0
        self.state = np.zeros(m + 1, np.uint8)
        self.state[:-1] = ENTER * events.can_enter + LEAVE * events.can_leave
        self.waiting = np.zeros(m + 1, np.int32)
        self.link = np.stack([events.prev, events.next], axis=1).ravel()
        used = reward[events.next >= 0]
        self.mask = 0 if used.min() == used.max() else -1
        self.reward = (used[:1] if self.mask == 0 else reward).astype(kind)

    def run(self, capacity: int, progress: Callable[[int, int], object] | None) -> None:
        """Send up to ``capacity`` slots."""
        # an arc is relaxed once per search, and a node has at most three arcs into it
        room = 3 * len(self.parent)
        heap = np.empty(64, np.int32)
        entry, after, stack = (np.empty(room, np.int32) for _ in range(3))
        self.lengths = np.zeros(capacity, np.int64)
        done, rounds, gaining = 0, 1, True
        while done < capacity and gaining:
            begin, before = time.monotonic(), done
            done, gaining = _augment(
                self.node.reshape(-1),
                self.parent,
                self.state,
                self.waiting,
                self.link,
                self.reward,
                self.mask,
                self.insertion,
                capacity,
                rounds,
                done,
                self.lengths,
                heap,
                entry,
                after,
                stack,
                self.infinity,
            )
            if done < 0:
                raise NotCertified("ssp: the search found no path: a bug")
            seconds = time.monotonic() - begin
            rounds = max(1, min(2 * rounds, int((done - before) * _SECONDS_PER_CALL / max(seconds, 1e-6))))
            if progress is not None:
                progress(done if gaining else capacity, capacity)
        self.lengths = self.lengths[:done]

    def gains(self) -> tuple[Fraction, ...]:
        """Return what each slot sent gained, in cost."""
        unit = self.events.unit / self.price.denominator
        lengths = (
            self.lengths if self.short == self.price else _translate(self.lengths, self.short, self.price)
        )
        return tuple(-int(length) * unit for length in lengths)

    def stays(self) -> Stays:
        """Return item, first boundary and last boundary of every stay."""
        kept = self.state[:-1] & (IN | OUT)
        return _match(self.events, np.flatnonzero(kept == OUT), np.flatnonzero(kept == IN))

    def potentials(self) -> Potentials:
        """Return the dual solution for the price asked for, counted from the first line node."""
        line = self.node[:, 0, 1].astype(np.int64)
        held = self.node[:-1, 1, 1].astype(np.int64) - line[0]
        line -= line[0]
        if self.short == self.price:
            return Potentials(line, held, self.insertion, self.short.denominator)
        return Potentials(
            _translate(line, self.short, self.price),
            _translate(held, self.short, self.price),
            self.price.numerator,
            self.price.denominator,
        )


def _match(events: Events, start: NDArray[Any], end: NDArray[Any]) -> Stays:
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
    stays = _match(events, np.flatnonzero(mine & (events.prev < 0)), np.flatnonzero(mine & (events.next < 0)))
    worth = events.worth(mu)
    exact = int(gain.sum()) * mu.denominator + mu.numerator < _MAX_LABEL_64
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


def solve_ssp(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> FlowResult:
    """Return an optimal schedule of a hard trace with unit sizes, and prices that prove it optimal.

    Parameters
    ----------
    trace : Trace
        Hard (at most one item serves a step), unit sizes; any quality, weight, arrivals.
    capacity : int
        K >= 1.
    switch_cost : int, float, Fraction or str
        lambda >= 0.
    variant : Variant, optional
        Any order, availability and fill.
    progress : callable, optional
        Called as ``progress(done, capacity)`` a few times a second; an interrupt (Ctrl-C) is raised
        between calls.

    Returns
    -------
    FlowResult
        ``objective == lower_bound``, both exact.

    Raises
    ------
    InvalidInput
        The trace is not hard or not of unit sizes, or its numbers do not fit 64 bits.

    Notes
    -----
    Time is about K searches of at most 2M nodes each, M <= 2T events; memory about 100 bytes an event.

    Examples
    --------
    >>> from softhit import cost, from_requests
    >>> trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
    >>> best = solve_ssp(trace, capacity=1, switch_cost=0)
    >>> float(cost(best.schedule, trace, 1, 0))
    4.0
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
        flow = _Flow(worth, price)
        flow.run(slots, progress)
        stays, potentials, gains = flow.stays(), flow.potentials(), flow.gains()
        objective = events.base - sum(gains) - (lam * slots if variant.free_fill else 0)
    result = FlowResult(
        method="ssp",
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
        raise NotCertified(f"ssp: value {objective}, but its prices prove {result.lower_bound} only")
    return result
