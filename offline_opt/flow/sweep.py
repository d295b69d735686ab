"""The exact optimum of hard hits with unit sizes, event by event: each step forward repairs an optimum.

The network is that of :mod:`offline_opt.flow.ssp`, with all K slots in it from the start. The sweep keeps an
optimal flow and node potentials that prove it for the events so far. A new event j of an item, after its
event p, adds one arc, which holds the item from p to j. If its reward does not exceed what the potentials
ask for it, nothing changes. Else a slot has to come back from line node j to item node p, by a path of the
residual network whose length d (in reduced costs, so d >= 0) is less than the excess v:

* mostly a slot waits all the way from p to j, and d = 0 at sight;
* else two searches by Dijkstra's rule run in turns, one forward from line node j, one backward from item
  node p, and stop as soon as their labels a + b reach the shortest length found, or v. Then potentials fall
  by a - (distance) around j and rise by b - (distance) around p, and the slot moves if d < v.

So K augmentations that cross all of time become many that stay near by: a search ends when the smaller of
its two sides is exhausted or when both meet. A node far before p waits until the near ones are done, as
ties are many and any shortest path will do. On traces with a skewed popularity the work is a small multiple
of K an event, against 2K for successive shortest paths; on traces where each event upsets what the last one
settled (noisy cycles) it is far more. The work is therefore counted, and if it exceeds ``patience`` times K
an event, successive shortest paths take over.

Every event ends with an optimal flow of K >= 1 slots, so the line falls by no more than one slot can
collect; but potentials are not counted from a fixed node, and what all searches add to them together is the
sum of excesses, at most the sum of rewards. Labels are kept in 32 bits until that sum no longer fits, then
in 64. If a stand-in replaces the price (see :mod:`offline_opt.flow.common`) one more search from the first
line node makes every label the length of a path, as translating it back requires.

References
----------
.. [1] R. K. Ahuja, T. L. Magnanti, J. B. Orlin, Network Flows, 1993, section 9.11 (reoptimisation after a
   change of one arc), section 4.5 (bidirectional Dijkstra).

Examples
--------
>>> from softhit import from_requests
>>> result = solve_sweep(from_requests([0, 1, 0, 2, 0, 1]), capacity=1, switch_cost=1)
>>> result.objective, result.lower_bound
(Fraction(4, 1), Fraction(4, 1))
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.flow import common
from offline_opt.flow.common import (
    ALL,
    ENTER,
    IN,
    LEAVE,
    OUT,
    Flow,
    FlowResult,
    Progress,
    bit_length,
    match,
    short_price,
    solve_on_events,
    translate,
)
from offline_opt.flow.dual import Potentials
from offline_opt.flow.events import Events
from offline_opt.flow.ssp import by_successive_paths
from softhit.errors import InvalidInput, NotCertified
from softhit.jit import jit, lean
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["solve_sweep"]

# A node is four integers: potential, distance from the start, distance to the target, the two arcs by which
# it was reached. Line node j begins at 8j, item node j at 8j + 4.
_FORWARD, _BACKWARD = 1, 2
# Those arcs, the forward one in the lowest three bits, the backward one in the next three.
_ALONG, _BACK, _INTO, _OUT_OF, _KEEP, _UNDO = 0, 1, 2, 3, 4, 5
# Of a search in one direction: its label, nodes on the stack, nodes settled, entries of the heap.
_LABEL, _TOP, _SETTLED, _ENTRIES = 0, 1, 2, 3
# Of both: the shortest length known, and the node where its halves meet (-1: the arc that is to be added).
_LENGTH, _MEETING = 0, 1
# Of the sweep: events done, nodes settled, sum of what potentials were changed by.
_EVENTS, _WORK, _DRIFT = 0, 1, 2

# Nodes settled in one direction before it is the other's turn.
_TURN = 64
# Nodes more than this many times K events before p wait until the others of the same label are done.
_NEAR = 8
# Nodes settled before Python has its turn, for progress and interrupts; also granted beyond all patience.
_WORK_PER_CALL = 2_000_000
# Successive shortest paths take over when more nodes than this times K are settled an event. Their searches
# cross all of time, and a node costs them three times as much once that is too long for a processor's cache.
_PATIENCE, _PATIENCE_IF_LONG, _LONG = 1.0, 2.5, 300_000


def _settler(forward: bool) -> Any:
    """Compile the search for one direction; a flag looked up for every arc would double its time."""
    side = _FORWARD if forward else _BACKWARD

    @lean
    def settle(
        node: Any,
        state: Any,
        waiting: Any,
        link: Any,
        reward: Any,
        mask: Any,
        price: Any,
        front: Any,
        near: Any,
        turn: Any,
        at: Any,
        other: Any,
        found: Any,
        stack: Any,
        entry: Any,
        after: Any,
        heap: Any,
        settled: Any,
    ) -> None:
        """Settle up to ``turn`` nodes at the present label; stop when the length is attained.

        ``other`` is the label of the other direction, ``front`` the event being added: it ends the line.
        A distance is d >= 0 (reached), -d - 1 (settled), or the largest integer (not reached).
        """
        now, top, done, entries = at[_LABEL], at[_TOP], at[_SETTLED], at[_ENTRIES]
        bound = found[_LENGTH] - other
        last = done + turn
        while top > 0 and done < last and now < bound:
            top -= 1
            u = np.int64(stack[top])
            if node[u + side] != now:
                continue
            node[u + side] = -now - 1
            settled[done] = u
            done += 1
            j = u >> 3
            s = state[j]
            held = s & (IN | OUT)
            base = now + node[u] if forward else now - node[u]
            for arc in range(3):
                # the last arc that finds a node is the first to be followed
                if u & 4 == 0:
                    if arc == 1:
                        if j == front:
                            continue
                        w = u + 4
                        if forward:
                            if held == IN:
                                d = base
                            elif s & ENTER:
                                # also where it enters already: a dead end that keeps the potential tight
                                d = base + price
                            else:
                                continue
                            how = _INTO
                        else:
                            if held == OUT:
                                d = base - price
                            elif s & LEAVE:
                                d = base
                            else:
                                continue
                            how = _OUT_OF
                    elif (arc == 0) == forward:
                        # the neighbour on the right
                        if j == front or (not forward and waiting[j] == 0):
                            continue
                        w = u + 8
                        d = base
                        how = _ALONG if forward else _BACK
                    else:
                        if j == 0 or (forward and waiting[j - 1] == 0):
                            continue
                        w = u - 8
                        d = base
                        how = _BACK if forward else _ALONG
                else:
                    if arc == 0:
                        i = np.int64(link[2 * j])
                        if forward:
                            if s & IN == 0:
                                continue
                            d = base + reward[i & mask]
                            how = _UNDO
                        else:
                            if s & IN or i < 0:
                                continue
                            d = base - reward[i & mask]
                            how = _KEEP
                        w = 8 * i + 4
                    elif (arc == 1) == forward:
                        # the next event of the item
                        i = np.int64(link[2 * j + 1])
                        if forward:
                            if s & OUT or i < 0 or i >= front:
                                continue
                            d = base - reward[j & mask]
                            how = _KEEP
                        else:
                            if s & OUT == 0:
                                continue
                            d = base + reward[j & mask]
                            how = _UNDO
                        w = 8 * i + 4
                    else:
                        w = u - 4
                        if forward:
                            if held == OUT:
                                d = base - price
                            elif s & LEAVE:
                                d = base
                            else:
                                continue
                            how = _OUT_OF
                        else:
                            if held == IN:
                                d = base
                            elif s & ENTER:
                                d = base + price
                            else:
                                continue
                            how = _INTO
                d = d - node[w] if forward else d + node[w]
                if d >= node[w + side] or d >= bound:
                    continue
                node[w + side] = d
                node[w + 3] = (node[w + 3] & 56) | how if forward else (node[w + 3] & 7) | (how << 3)
                if d == now and w >= near:
                    stack[top] = w
                    top += 1
                else:
                    b = bit_length(d ^ now)
                    entry[entries] = w
                    after[entries] = heap[b]
                    heap[b] = entries
                    entries += 1
                rest = np.int64(node[w + 3 - side])
                if rest < 0:
                    rest = -rest - 1
                if rest < bound + other - d:
                    found[_LENGTH] = d + rest
                    found[_MEETING] = w
                    bound = d + rest - other
                    if now >= bound:
                        break
        at[_TOP], at[_SETTLED], at[_ENTRIES] = top, done, entries

    return settle


_settle_forward, _settle_backward = _settler(True), _settler(False)


@lean
def _next_label(
    side: Any, node: Any, at: Any, bound: Any, stack: Any, entry: Any, after: Any, heap: Any
) -> None:
    """Take the nodes of the least label from the heap to the stack; the label is ``bound`` if none is less.

    List b, which starts at ``heap[b]``, has the labels whose highest bit that differs from the current one
    is bit b - 1; list 0 the nodes of the current label that had to wait.
    """
    top = 0
    now = at[_LABEL]
    for b in range(len(heap)):
        least = bound
        x = heap[b]
        while x >= 0:
            d = np.int64(node[entry[x] + side])
            if 0 <= d < least:
                least = d
            x = after[x]
        if least < bound:
            now = least
            x = heap[b]
            heap[b] = -1
            while x >= 0:
                y = after[x]
                d = np.int64(node[entry[x] + side])
                if d == now:
                    stack[top] = entry[x]
                    top += 1
                elif d > now:
                    c = bit_length(d ^ now)
                    after[x] = heap[c]
                    heap[c] = x
                x = y
            break
    at[_TOP] = top
    at[_LABEL] = now if top > 0 else bound


@lean
def _move_slot(node: Any, state: Any, waiting: Any, link: Any, meeting: Any, start: Any, target: Any) -> None:
    """Move one slot along the path found, from ``start`` through ``meeting`` to ``target``."""
    for forward in (True, False):
        u = np.int64(meeting)
        while u != (start if forward else target):
            j = u >> 3
            how = node[u + 3] & 7 if forward else node[u + 3] >> 3
            # one step away from the meeting: against the arc if it was found forward, else along it
            if how == _INTO:
                u += -4 if forward else 4
            elif how == _OUT_OF:
                u += 4 if forward else -4
            elif how == _ALONG:
                waiting[j - 1 if forward else j] += 1
                u += -8 if forward else 8
            elif how == _BACK:
                waiting[j if forward else j - 1] -= 1
                u += 8 if forward else -8
            else:
                # from event i to the next one, k: the item is held between them now, or no longer
                toward = (how == _KEEP) == forward
                i = np.int64(link[2 * j]) if toward else j
                k = j if toward else np.int64(link[2 * j + 1])
                if how == _KEEP:
                    state[i] |= OUT
                    state[k] |= IN
                else:
                    state[i] &= ALL - OUT
                    state[k] &= ALL - IN
                u = 8 * (i if toward else k) + 4


@lean
def _forget(forward: Any, node: Any, at: Any, stack: Any, entry: Any, settled: Any, infinity: Any) -> None:
    """Change the potentials by the distances of one direction, and prepare for the next search."""
    side = _FORWARD if forward else _BACKWARD
    now = at[_LABEL]
    for x in range(at[_SETTLED]):
        u = settled[x]
        change = now + node[u + side] + 1
        node[u] += -change if forward else change
        node[u + side] = infinity
    for x in range(at[_ENTRIES]):
        node[entry[x] + side] = infinity
    for x in range(at[_TOP]):
        node[stack[x] + side] = infinity


@lean
def _by_waiting(
    node: Any, state: Any, waiting: Any, link: Any, reward: Any, mask: Any, price: Any, p: Any, j: Any
) -> Any:
    """Hold the item from p to j with a slot that waits all that time, if one does and it costs nothing."""
    x = p
    while state[x] & (IN | OUT) != IN:
        if state[x] & (IN | OUT | ENTER) == ENTER and node[8 * x + 4] == node[8 * x] + price:
            break
        y = np.int64(link[2 * x])
        # it may have been worth holding since an earlier event
        if state[x] & IN or y < 0 or node[8 * y + 4] - reward[y & mask] != node[8 * x + 4]:
            return False
        x = y
    for i in range(j - 1, x - 1, -1):
        if waiting[i] == 0:
            return False
    for i in range(x, j):
        waiting[i] -= 1
    while x != j:
        state[x] |= OUT
        x = np.int64(link[2 * x + 1])
        state[x] |= IN
    return True


@jit
def _sweep(
    node: Any,
    state: Any,
    waiting: Any,
    link: Any,
    reward: Any,
    mask: Any,
    price: Any,
    capacity: Any,
    limit: Any,
    budget: Any,
    stack: Any,
    entry: Any,
    after: Any,
    settled: Any,
    infinity: Any,
    total: Any,
) -> None:
    """Add events from ``total[_EVENTS]`` on, until ``budget`` nodes are settled or drift passes ``limit``."""
    heap = np.empty((2, 64), np.int32)
    at = np.zeros((2, 4), np.int64)
    found = np.zeros(2, np.int64)
    work = np.int64(0)
    j = np.int64(total[_EVENTS])
    while j < len(state) - 1 and work < budget and total[_DRIFT] <= limit:
        work += 1
        level = np.int64(0)
        if j > 0:
            waiting[j - 1] = capacity
            level = np.int64(node[8 * j - 8])
        node[8 * j] = level
        p = np.int64(link[2 * j])
        if p < 0:
            node[8 * j + 4] = level + price
            j += 1
            continue
        for turn in range(2):
            # what being held at j is worth: as held since p, but within what the line offers here
            level = np.int64(node[8 * j])
            since = node[8 * p + 4] - reward[p & mask]
            value = since
            if state[j] & LEAVE and value < level:
                value = level
            if state[j] & ENTER and value > level + price:
                value = level + price
            node[8 * j + 4] = value
            if turn == 1 or value <= since:
                break
            if _by_waiting(node, state, waiting, link, reward, mask, price, p, j):
                work += (j - p) >> 4
                break
            start, target = 8 * j, 8 * p + 4
            found[_LENGTH], found[_MEETING] = value - since, -1
            heap[:] = -1
            at[:] = 0
            at[:, _TOP] = 1
            stack[0, 0], stack[1, 0] = start, target
            node[start + _FORWARD] = 0
            node[target + _BACKWARD] = 0
            near = target - 8 * _NEAR * capacity
            side = 0
            while at[0, _LABEL] + at[1, _LABEL] < found[_LENGTH]:
                other = at[1 - side, _LABEL]
                if side == 0:
                    _settle_forward(
                        node,
                        state,
                        waiting,
                        link,
                        reward,
                        mask,
                        price,
                        j,
                        near,
                        _TURN,
                        at[0],
                        other,
                        found,
                        stack[0],
                        entry[0],
                        after[0],
                        heap[0],
                        settled[0],
                    )
                else:
                    _settle_backward(
                        node,
                        state,
                        waiting,
                        link,
                        reward,
                        mask,
                        price,
                        j,
                        near,
                        _TURN,
                        at[1],
                        other,
                        found,
                        stack[1],
                        entry[1],
                        after[1],
                        heap[1],
                        settled[1],
                    )
                if at[side, _TOP] == 0 and at[side, _LABEL] + other < found[_LENGTH]:
                    _next_label(
                        side + 1,
                        node,
                        at[side],
                        found[_LENGTH] - other,
                        stack[side],
                        entry[side],
                        after[side],
                        heap[side],
                    )
                side = 1 - side
            if found[_MEETING] >= 0:
                _move_slot(node, state, waiting, link, found[_MEETING], start, target)
                state[p] |= OUT
                state[j] |= IN
            for s in range(2):
                work += at[s, _SETTLED]
                total[_DRIFT] += at[s, _LABEL]
                _forget(s == 0, node, at[s], stack[s], entry[s], settled[s], infinity)
        j += 1
    total[_WORK] += work
    total[_EVENTS] = j


@jit
def _label_by_paths(
    node: Any,
    state: Any,
    waiting: Any,
    link: Any,
    reward: Any,
    mask: Any,
    price: Any,
    stack: Any,
    entry: Any,
    after: Any,
    settled: Any,
) -> Any:
    """Make every potential the distance from the first line node; return how many nodes were reached."""
    m = len(state) - 1
    heap = np.full(64, -1, np.int32)
    at = np.zeros(4, np.int64)
    found = np.array([np.int64(1) << 62, -1])
    at[_TOP] = 1
    stack[0] = 0
    node[_FORWARD] = 0
    while at[_LABEL] < found[_LENGTH]:
        _settle_forward(
            node,
            state,
            waiting,
            link,
            reward,
            mask,
            price,
            m,
            0,
            len(settled),
            at,
            0,
            found,
            stack,
            entry,
            after,
            heap,
            settled,
        )
        _next_label(_FORWARD, node, at, found[_LENGTH], stack, entry, after, heap)
    for x in range(at[_SETTLED]):
        u = settled[x]
        node[u] += -node[u + _FORWARD] - 1
    return at[_SETTLED]


class _Sweep:
    """The network of one instance, and the optimum of the events so far."""

    def __init__(self, events: Events, price: Fraction, slots: int) -> None:
        m = len(events)
        if m >= 1 << 28:
            raise InvalidInput(f"the trace has {m} events, more than the solver can number")
        self.events, self.price, self.short = events, price, short_price(events, price)
        self.slots = slots
        self.insertion = self.short.numerator
        reward = events.reward * self.short.denominator
        # within this much drift every label fits 32 bits
        spread = self.insertion + 2 * int(events.gain.max()) * self.short.denominator
        self.limit = common.MAX_LABEL_32 - spread
        self.node = np.zeros((2 * (m + 1), 4), np.int32)
        self.state = np.zeros(m + 1, np.uint8)
        self.state[:-1] = ENTER * events.can_enter + LEAVE * events.can_leave
        self.waiting = np.zeros(m + 1, np.int32)
        self.link = np.stack([events.prev, events.next], axis=1).ravel()
        used = reward[events.next >= 0]
        self.mask = 0 if used.min() == used.max() else -1
        self.reward = used[:1] if self.mask == 0 else reward
        self.total = np.zeros(3, np.int64)
        # an arc is relaxed once per search, and a node has at most three arcs into it
        room = 3 * len(self.node)
        self.stack, self.entry, self.after = (np.empty((2, room), np.int32) for _ in range(3))
        self.settled = np.empty((2, len(self.node)), np.int32)
        if self.limit < 0:
            self._widen()
        else:
            self.reward = self.reward.astype(np.int32)
            self._clear()

    def _clear(self) -> None:
        self.infinity = int(np.iinfo(self.node.dtype).max)
        self.node[:, 1:3] = self.infinity

    def _widen(self) -> None:
        self.node, self.reward = self.node.astype(np.int64), self.reward.astype(np.int64)
        self.limit = 4 * common.MAX_LABEL_64
        self._clear()

    def run(self, patience: float, progress: Progress | None) -> bool:
        """Sweep over all events; return False if the work exceeds ``patience`` times K an event."""
        m = len(self.events)
        while self.total[_EVENTS] < m:
            if self.total[_DRIFT] > self.limit:
                self._widen()
            _sweep(
                self.node.reshape(-1),
                self.state,
                self.waiting,
                self.link,
                self.reward,
                self.mask,
                self.insertion,
                self.slots,
                self.limit,
                _WORK_PER_CALL,
                self.stack,
                self.entry,
                self.after,
                self.settled,
                self.infinity,
                self.total,
            )
            done, work = int(self.total[_EVENTS]), int(self.total[_WORK])
            if progress is not None:
                progress(done, m)
            # a tenth of what the whole sweep may cost is granted for a bad start
            if work > patience * self.slots * (done + m // 10) + _WORK_PER_CALL:
                return False
        return True

    def flow(self) -> Flow:
        """Return the optimum."""
        events, price = self.events, self.price
        self.waiting[len(events) - 1] = self.slots
        self.node[-2, 0] = self.node[-4, 0]
        if self.short != price:
            self._label_by_paths()
        kept = self.state[:-1] & (IN | OUT)
        start, end = np.flatnonzero(kept == OUT), np.flatnonzero(kept == IN)
        collected = int(events.reward[self.state[:-1] & OUT != 0].sum())
        return Flow(
            "sweep",
            (collected - price * len(start)) * events.unit,
            match(events, start, end),
            self._potentials(),
        )

    def _label_by_paths(self) -> None:
        if self.node.dtype != np.int64:
            self._widen()
        reached = _label_by_paths(
            self.node.reshape(-1),
            self.state,
            self.waiting,
            self.link,
            self.reward,
            self.mask,
            self.insertion,
            self.stack[0],
            self.entry[0],
            self.after[0],
            self.settled[0],
        )
        if reached != len(self.node) - 1:
            raise NotCertified("sweep: the search did not reach every node: a bug")

    def _potentials(self) -> Potentials:
        """Return the dual solution for the price asked for, counted from the first line node."""
        labels: NDArray[np.int64] = self.node[:, 0].astype(np.int64)
        line, held = labels[::2] - labels[0], labels[1:-1:2] - labels[0]
        if self.short == self.price:
            return Potentials(line, held, self.insertion, self.short.denominator)
        return Potentials(
            translate(line, self.short, self.price),
            translate(held, self.short, self.price),
            self.price.numerator,
            self.price.denominator,
        )


def solve_sweep(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    progress: Progress | None = None,
    patience: float | None = None,
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
        Called as ``progress(done, total)`` a few times a second, in events (in slots once successive
        shortest paths have taken over); an interrupt (Ctrl-C) is raised between calls.
    patience : float, optional
        Leave the instance to successive shortest paths when more than this many nodes times K are settled
        an event; ``math.inf``: never. Default: 1, for more than 300,000 events 2.5.

    Returns
    -------
    FlowResult
        ``objective == lower_bound``, both exact; ``method`` is ``"sweep"``, or ``"ssp"`` if that took over,
        and only then are there ``gains``.

    Raises
    ------
    InvalidInput
        The trace is not hard or not of unit sizes, or its numbers do not fit 64 bits.

    Notes
    -----
    docs/flow-at-scale.md has measurements. Memory is about 90 bytes an event.

    Examples
    --------
    >>> from softhit import cost, from_requests
    >>> trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
    >>> best = solve_sweep(trace, capacity=1, switch_cost=0)
    >>> float(cost(best.schedule, trace, 1, 0))
    4.0
    """

    def contested(events: Events, price: Fraction, slots: int) -> Flow:
        sweep = _Sweep(events, price, slots)
        limit = patience
        if limit is None:
            limit = _PATIENCE_IF_LONG if len(events) > _LONG else _PATIENCE
        if sweep.run(limit, progress):
            return sweep.flow()
        del sweep
        return by_successive_paths(events, price, slots, progress)

    return solve_on_events("sweep", contested, trace, capacity, switch_cost, variant)
