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

import time
from fractions import Fraction
from typing import Any

import numpy as np

from offline_opt.flow import common
from offline_opt.flow.common import (
    ALL,
    ENTER,
    IN,
    LEAVE,
    MAX_LABEL_64,
    OUT,
    Flow,
    FlowResult,
    Progress,
    Stays,
    bit_length,
    match,
    short_price,
    solve_on_events,
    translate,
)
from offline_opt.flow.dual import Potentials
from offline_opt.flow.events import Events
from softhit.errors import InvalidInput, NotCertified
from softhit.jit import jit
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["FlowResult", "by_successive_paths", "solve_ssp"]

# How a node was reached. A line node: from its left or right neighbour, or from its item node.
FROM_LEFT, FROM_RIGHT, FROM_ITEM = 0, 1, 2
# An item node: from its line node, or from the item's previous or next event.
FROM_LINE, FROM_PREV, FROM_NEXT = 3, 4, 5

# Return to Python about this often, so that an interrupt is served.
_SECONDS_PER_CALL = 0.2


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
                            b = bit_length(d ^ now)
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
                            c = bit_length(d ^ now)
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


class _Flow:
    """The residual network of one instance: renumbered, scaled, and ready to augment."""

    def __init__(self, events: Events, price: Fraction) -> None:
        m = len(events)
        self.events, self.price, self.short = events, price, short_price(events, price)
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
        if largest > 2 * MAX_LABEL_64:
            raise InvalidInput(
                "weights and qualities are too large for 64-bit labels: use a smaller quality_scale"
            )
        kind: type[np.signedinteger[Any]] = np.int32 if largest <= common.MAX_LABEL_32 else np.int64
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

    def run(self, capacity: int, progress: Progress | None) -> None:
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
            self.lengths if self.short == self.price else translate(self.lengths, self.short, self.price)
        )
        return tuple(-int(length) * unit for length in lengths)

    def stays(self) -> Stays:
        """Return item, first boundary and last boundary of every stay."""
        kept = self.state[:-1] & (IN | OUT)
        return match(self.events, np.flatnonzero(kept == OUT), np.flatnonzero(kept == IN))

    def potentials(self) -> Potentials:
        """Return the dual solution for the price asked for, counted from the first line node."""
        line = self.node[:, 0, 1].astype(np.int64)
        held = self.node[:-1, 1, 1].astype(np.int64) - line[0]
        line -= line[0]
        if self.short == self.price:
            return Potentials(line, held, self.insertion, self.short.denominator)
        return Potentials(
            translate(line, self.short, self.price),
            translate(held, self.short, self.price),
            self.price.numerator,
            self.price.denominator,
        )


def by_successive_paths(events: Events, price: Fraction, slots: int, progress: Progress | None) -> Flow:
    """Solve contested events; ``progress`` counts slots."""
    flow = _Flow(events, price)
    flow.run(slots, progress)
    gains = flow.gains()
    return Flow("ssp", sum(gains, Fraction(0)), flow.stays(), flow.potentials(), gains)


def solve_ssp(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    progress: Progress | None = None,
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
    :func:`offline_opt.flow.sweep.solve_sweep` is faster on most traces, but tells no gains of single slots.

    Examples
    --------
    >>> from softhit import cost, from_requests
    >>> trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
    >>> best = solve_ssp(trace, capacity=1, switch_cost=0)
    >>> float(cost(best.schedule, trace, 1, 0))
    4.0
    """

    def contested(events: Events, price: Fraction, slots: int) -> Flow:
        return by_successive_paths(events, price, slots, progress)

    return solve_on_events("ssp", contested, trace, capacity, switch_cost, variant)
