"""The exact optimum of hard hits with unit sizes, event by event: each step forward repairs an optimum.

The network is that of :mod:`offline_opt.flow.ssp`, with all K slots in it from the start. The sweep keeps an
optimal flow and node potentials that prove it for the events so far. A new event j of an item, after its
event p, adds one arc, which holds the item from p to j. If its reward does not exceed what the potentials
ask for it, nothing changes. Else a slot has to come back from line node j to item node p, by a path of the
residual network whose length d (in reduced costs, so d >= 0) is less than the excess v:

* mostly a slot waits all the way from p to j, and d = 0 at sight;
* else two searches meet, as :mod:`offline_opt.flow.search` tells, and the slot moves if d < v.

So K augmentations that cross all of time become many that stay near by: a search ends when the smaller of
its two sides is exhausted or when both meet. On traces with a skewed popularity the work is a small multiple
of K an event, against 2K for successive shortest paths; on traces where each event upsets what the last one
settled (noisy cycles) it is far more. The work is therefore counted, and if it exceeds ``patience`` times K
an event, successive shortest paths take over.

A fine price. Searches are short where paths tie, and at a price like 997/1000 few do. But the constraints of
the dual are linear in potentials and price together, so the potentials of two coarser prices, mixed as the
prices are, are lawful for every price between. With neighbouring fractions a/b < c/d (c b - a d = 1) the
weights are whole: p/q = (i a + k c)/(i b + k d), and i times the potentials of the one in units of 1/b plus
k times those of the other in units of 1/d are potentials in units of 1/q. One of the two flows is nearly
optimal in between. So a fine price is solved at 0 and 1/2, or at the whole numbers around it, and
:mod:`offline_opt.flow.repair` settles the difference.

Every event ends with an optimal flow of K >= 1 slots, so the line falls by no more than one slot can
collect; but potentials are not counted from a fixed node, and what all searches add to them together is the
sum of excesses, at most the sum of rewards. Labels are kept in 32 bits until that sum no longer fits, then
in 64. Nothing but that count bounds the labels of a repair, and one that left 64 bits is not begun, or left
to successive shortest paths. If a stand-in replaces the price (see :mod:`offline_opt.flow.common`) one more
search from the first line node makes every label the length of a path, as translating it back requires.

References
----------
.. [1] R. K. Ahuja, T. L. Magnanti, J. B. Orlin, Network Flows, 1993, section 9.11 (reoptimisation after a
   change of one arc).
.. [2] R. L. Graham, D. E. Knuth, O. Patashnik, Concrete Mathematics, 1994, section 4.5 (neighbouring
   fractions, and why the weights are whole).

Examples
--------
>>> from softhit import from_requests
>>> result = solve_sweep(from_requests([0, 1, 0, 2, 0, 1]), capacity=1, switch_cost=1)
>>> result.objective, result.lower_bound
(Fraction(4, 1), Fraction(4, 1))
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offline_opt.flow import common
from offline_opt.flow.common import (
    ENTER,
    IN,
    LEAVE,
    OUT,
    Flow,
    FlowResult,
    Progress,
    match,
    short_price,
    solve_on_events,
    translate,
)
from offline_opt.flow.dual import Potentials
from offline_opt.flow.events import Events
from offline_opt.flow.repair import leave_out, repair
from offline_opt.flow.search import (
    DRIFT,
    EVENTS,
    FORWARD,
    LABEL,
    LENGTH,
    NEAR,
    SETTLED,
    TOP,
    WORK,
    next_label,
    return_slot,
    settle_forward,
)
from offline_opt.flow.ssp import by_successive_paths
from softhit.errors import InvalidInput, NotCertified
from softhit.jit import jit, lean
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["solve_sweep"]

# Nodes settled before Python has its turn, for progress and interrupts; also granted beyond all patience.
_WORK_PER_CALL = 2_000_000
# Successive shortest paths take over when more nodes than this times K are settled an event. Their searches
# cross all of time, and a node costs them three times as much once that is too long for a processor's cache.
_PATIENCE, _PATIENCE_IF_LONG, _LONG = 1.0, 2.5, 300_000
# A price is fine if its denominator is larger than the first; coarse prices pay if rewards average less than
# the second, else there are few ties at any price.
_FINE, _LARGE = 4, 4


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
    """Add events from ``total[EVENTS]`` on, until ``budget`` nodes are settled or drift passes ``limit``."""
    heap = np.empty((2, 64), np.int32)
    at = np.zeros((2, 4), np.int64)
    found = np.zeros(2, np.int64)
    near = 8 * NEAR * capacity
    budget += total[WORK]
    j = np.int64(total[EVENTS])
    while j < len(state) - 1 and total[WORK] < budget and total[DRIFT] <= limit:
        total[WORK] += 1
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
                total[WORK] += (j - p) >> 4
                break
            if return_slot(
                8 * j,
                8 * p + 4,
                value - since,
                j,
                near,
                node,
                state,
                waiting,
                link,
                reward,
                mask,
                price,
                stack,
                entry,
                after,
                heap,
                settled,
                at,
                found,
                infinity,
                total,
            ):
                state[p] |= OUT
                state[j] |= IN
        j += 1
    total[EVENTS] = j


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
    at[TOP] = 1
    stack[0] = 0
    node[FORWARD] = 0
    while at[LABEL] < found[LENGTH]:
        settle_forward(
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
        next_label(FORWARD, node, at, found[LENGTH], stack, entry, after, heap)
    for x in range(at[SETTLED]):
        u = settled[x]
        node[u] += -node[u + FORWARD] - 1
    return at[SETTLED]


class _Solved(NamedTuple):
    """The optimum at one price: potentials in units of 1/denominator, state and waiting slots."""

    price: Fraction
    labels: NDArray[Any]
    state: NDArray[np.uint8]
    waiting: NDArray[np.int32]

    def span(self) -> int:
        """Return how far potentials lie from that of the first line node, at most."""
        first = int(self.labels[0])
        return max(int(self.labels.max()) - first, first - int(self.labels.min()))

    def gain(self, events: Events, price: Fraction) -> Fraction:
        """Return what this flow gains at another price."""
        state = self.state[:-1]
        entries = int(np.count_nonzero(state & (IN | OUT) == OUT))
        return int(events.reward[state & OUT != 0].sum()) - price * entries


def _coarse_prices(events: Events, price: Fraction) -> tuple[Fraction, Fraction] | None:
    """Return neighbouring fractions around a fine price, if the optimum is easier to find there."""
    used = np.count_nonzero(events.reward)
    if price.denominator <= _FINE or int(events.reward.sum()) > _LARGE * used:
        return None
    if 2 * price < 1:
        return Fraction(0), Fraction(1, 2)
    below = price.numerator // price.denominator
    return Fraction(below), Fraction(below + 1)


def _weights(low: Fraction, high: Fraction, price: Fraction) -> tuple[int, int]:
    """Return i, k >= 0 such that ``price`` is i times ``low`` and k times ``high``, above and below the line.

    >>> _weights(Fraction(0), Fraction(1, 2), Fraction(333, 1000))
    (334, 333)
    """
    p, q = price.numerator, price.denominator
    return high.numerator * q - high.denominator * p, p * low.denominator - q * low.numerator


class _Sweep:
    """The network of one instance, and the optimum of the events so far.

    ``spent`` nodes have been settled for it before.
    """

    def __init__(self, events: Events, price: Fraction, slots: int, spent: int = 0) -> None:
        m = len(events)
        if m >= 1 << 28:
            raise InvalidInput(f"the trace has {m} events, more than the solver can number")
        self.events, self.price, self.short = events, price, short_price(events, price)
        self.slots, self.spent = slots, spent
        self.insertion = self.short.numerator
        reward = events.reward * self.short.denominator
        # within this much drift every label fits 32 bits
        self.spread = self.insertion + 2 * int(events.gain.max()) * self.short.denominator
        self.limit = common.MAX_LABEL_32 - self.spread
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
        while self.total[EVENTS] < m:
            if self.total[DRIFT] > self.limit:
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
            done = int(self.total[EVENTS])
            if progress is not None:
                progress(done, m)
            if self._beyond(patience, done):
                return False
        # the last line node ends the line
        self.waiting[m - 1] = self.slots
        self.node[-2, 0] = self.node[-4, 0]
        return True

    def _beyond(self, patience: float, done: int) -> bool:
        """Tell whether the work exceeds ``patience`` times K an event, here or with what was spent before.

        A tenth of what the whole sweep may cost is granted for a bad start.
        """
        m, work = len(self.events), int(self.total[WORK])
        each, grant = patience * self.slots, m // 10
        return (
            work > each * (done + grant) + _WORK_PER_CALL
            or self.spent + work > each * (m + grant) + _WORK_PER_CALL
        )

    def solved(self) -> _Solved:
        """Return the optimum after a run, without the arrays of the search."""
        return _Solved(self.price, self.node[:, 0].copy(), self.state, self.waiting)

    def start_between(self, low: _Solved, high: _Solved) -> bool:
        """Start from two optima at neighbouring fractions; return False if labels might not fit 64 bits."""
        weights = _weights(low.price, high.price, self.short)
        largest = sum(w * x.span() for w, x in zip(weights, (low, high), strict=True))
        if largest + self.spread > common.MAX_LABEL_64:
            return False
        if largest > self.limit and self.node.dtype != np.int64:
            self._widen()
        wide = self.node.dtype == np.int64
        self.limit = (common.MAX_LABEL_64 if wide else common.MAX_LABEL_32) - self.spread - largest
        labels = np.zeros(len(self.node), np.int64)
        for weight, x in zip(weights, (low, high), strict=True):
            labels += weight * (x.labels.astype(np.int64) - int(x.labels[0]))
        self.node[:, 0] = labels
        best = low if low.gain(self.events, self.short) > high.gain(self.events, self.short) else high
        self.state[:], self.waiting[:] = best.state, best.waiting
        self.total[EVENTS] = len(self.events)
        return True

    def repair(self, patience: float, progress: Progress | None) -> bool:
        """Make what it started from optimal; return False beyond ``patience``, or 64 bits."""
        m = len(self.events)
        network = (self.state, self.waiting, self.link)
        todo = np.empty(3 * m, np.int64)
        n = leave_out(self.node.reshape(-1), *network, self.reward, self.mask, self.insertion, todo)
        if n < 0:
            raise NotCertified("sweep: the potentials to start from are not lawful: a bug")
        todo = todo[:n].copy()
        done = 0
        while done < n:
            if self.total[DRIFT] > self.limit:
                if self.node.dtype == np.int64:
                    return False
                added = common.MAX_LABEL_64 - common.MAX_LABEL_32
                limit = self.limit + added
                self._widen()
                self.limit = limit
            done = repair(
                self.node.reshape(-1),
                *network,
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
                todo,
                done,
            )
            if progress is not None:
                progress(m * done // n, m)
            if self._beyond(patience, m):
                return False
        return True

    def flow(self) -> Flow:
        """Return the optimum."""
        events, price = self.events, self.price
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


def _sweep_all(
    events: Events, price: Fraction, slots: int, patience: float, progress: Progress | None
) -> _Sweep | None:
    """Return the network with an optimal flow, or None if finding it takes more than ``patience``."""
    coarse = _coarse_prices(events, short_price(events, price))
    if coarse is not None:
        spent, solved = 0, []
        for part, rough in enumerate(coarse):
            sweep = _Sweep(events, rough, slots, spent)
            if not sweep.run(patience, _part(progress, part)):
                return None
            spent += int(sweep.total[WORK])
            solved.append(sweep.solved())
            del sweep
        sweep = _Sweep(events, price, slots, spent)
        started = sweep.start_between(*solved)
        del solved
        if started:
            return sweep if sweep.repair(patience, _part(progress, 2)) else None
    sweep = _Sweep(events, price, slots)
    return sweep if sweep.run(patience, progress) else None


def _part(progress: Progress | None, part: int) -> Progress | None:
    """Return what tells the progress of one of three equal parts."""
    if progress is None:
        return None
    return lambda done, total: progress(part * total + done, 3 * total)


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
        Called as ``progress(done, total)`` a few times a second, in events (of three passes if the price is
        fine; in slots once successive shortest paths have taken over); an interrupt (Ctrl-C) is raised
        between calls.
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
    docs/flow-at-scale.md has measurements. Memory is about 110 bytes an event, 150 at a fine price.

    Examples
    --------
    >>> from softhit import cost, from_requests
    >>> trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
    >>> best = solve_sweep(trace, capacity=1, switch_cost=0)
    >>> float(cost(best.schedule, trace, 1, 0))
    4.0
    """

    def contested(events: Events, price: Fraction, slots: int) -> Flow:
        limit = patience
        if limit is None:
            limit = _PATIENCE_IF_LONG if len(events) > _LONG else _PATIENCE
        sweep = _sweep_all(events, price, slots, limit, progress)
        if sweep is not None:
            return sweep.flow()
        return by_successive_paths(events, price, slots, progress)

    return solve_on_events("sweep", contested, trace, capacity, switch_cost, variant)
