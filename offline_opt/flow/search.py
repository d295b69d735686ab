"""Searches from both ends in the residual network of the flow on events, and slots that move along a path.

The network is that of :mod:`offline_opt.flow.ssp`, with a flow of all K slots and node potentials. All
residual arcs cost at least 0 beside the potentials, but for one arc, which costs ``-excess`` < 0 and is left
out of the search. Two searches by Dijkstra's rule run in turns, one forward from the end of that arc, one
backward from its beginning, and stop as soon as their labels a + b reach the shortest length found, or the
excess. Then potentials fall by a - (distance) around the one and rise by b - (distance) around the other,
and if a path is shorter than the excess, a slot moves along it: afterwards no arc costs less than 0, the one
left out included, if it still has room.

A node far before both ends waits until the near ones are done, as ties are many and any shortest path will
do. Arcs may be left out for longer (see :mod:`offline_opt.flow.repair`): three bits of an event's state and
an offset of the number of slots that wait say which.

References
----------
.. [1] R. K. Ahuja, T. L. Magnanti, J. B. Orlin, Network Flows, 1993, section 9.11 (reoptimisation after a
   change of one arc), section 4.5 (bidirectional Dijkstra).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offline_opt.flow.common import ALL, ENTER, IN, LEAVE, OUT, bit_length
from softhit.jit import lean

__all__ = [
    "DRIFT",
    "EVENTS",
    "FORWARD",
    "LABEL",
    "LENGTH",
    "NEAR",
    "OFFSET",
    "SETTLED",
    "SKIP_IN",
    "SKIP_OUT",
    "SKIP_TURN",
    "TOP",
    "WORK",
    "next_label",
    "return_slot",
    "settle_forward",
]

# A node is four integers: potential, distance from the start, distance to the target, the two arcs by which
# it was reached. Line node j begins at 8j, item node j at 8j + 4.
FORWARD, _BACKWARD = 1, 2
# Those arcs, the forward one in the lowest three bits, the backward one in the next three.
_ALONG, _BACK, _INTO, _OUT_OF, _KEEP, _UNDO = 0, 1, 2, 3, 4, 5
# Of a search in one direction: its label, nodes on the stack, nodes settled, entries of the heap.
LABEL, TOP, SETTLED, _ENTRIES = 0, 1, 2, 3
# Of both: the shortest length known, and the node where its halves meet (-1: the arc that is to be added).
LENGTH, _MEETING = 0, 1
# Of the sweep: events done, nodes settled, sum of what potentials were changed by.
EVENTS, WORK, DRIFT = 0, 1, 2

# Nodes settled in one direction before it is the other's turn.
_TURN = 64
# Nodes more than this many times K events before p wait until the others of the same label are done.
NEAR = 8

# Left out of every search while the bit is set in the state of an event: taking back its entering or
# leaving, holding the item into it, holding it out of it.
SKIP_TURN, SKIP_IN, SKIP_OUT = 16, 32, 64
# The same for taking back that slots wait: their number is this much lower.
OFFSET = 1 << 30


def _settler(forward: bool) -> Any:
    """Compile the search for one direction; a flag looked up for every arc would double its time."""
    side = FORWARD if forward else _BACKWARD

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
        now, top, done, entries = at[LABEL], at[TOP], at[SETTLED], at[_ENTRIES]
        bound = found[LENGTH] - other
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
            held = s & (IN | OUT | SKIP_TURN)
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
                        if j == front or (not forward and waiting[j] <= 0):
                            continue
                        w = u + 8
                        d = base
                        how = _ALONG if forward else _BACK
                    else:
                        if j == 0 or (forward and waiting[j - 1] <= 0):
                            continue
                        w = u - 8
                        d = base
                        how = _BACK if forward else _ALONG
                else:
                    if arc == 0:
                        i = np.int64(link[2 * j])
                        if forward:
                            if s & (IN | SKIP_IN) != IN:
                                continue
                            d = base + reward[i & mask]
                            how = _UNDO
                        else:
                            if s & (IN | SKIP_IN) or i < 0:
                                continue
                            d = base - reward[i & mask]
                            how = _KEEP
                        w = 8 * i + 4
                    elif (arc == 1) == forward:
                        # the next event of the item
                        i = np.int64(link[2 * j + 1])
                        if forward:
                            if s & (OUT | SKIP_OUT) or i < 0 or i >= front:
                                continue
                            d = base - reward[j & mask]
                            how = _KEEP
                        else:
                            if s & (OUT | SKIP_OUT) != OUT:
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
                    found[LENGTH] = d + rest
                    found[_MEETING] = w
                    bound = d + rest - other
                    if now >= bound:
                        break
        at[TOP], at[SETTLED], at[_ENTRIES] = top, done, entries

    return settle


settle_forward, _settle_backward = _settler(True), _settler(False)


@lean
def next_label(
    side: Any, node: Any, at: Any, bound: Any, stack: Any, entry: Any, after: Any, heap: Any
) -> None:
    """Take the nodes of the least label from the heap to the stack; the label is ``bound`` if none is less.

    List b, which starts at ``heap[b]``, has the labels whose highest bit that differs from the current one
    is bit b - 1; list 0 the nodes of the current label that had to wait.
    """
    top = 0
    now = at[LABEL]
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
    at[TOP] = top
    at[LABEL] = now if top > 0 else bound


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
    side = FORWARD if forward else _BACKWARD
    now = at[LABEL]
    for x in range(at[SETTLED]):
        u = settled[x]
        change = now + node[u + side] + 1
        node[u] += -change if forward else change
        node[u + side] = infinity
    for x in range(at[_ENTRIES]):
        node[entry[x] + side] = infinity
    for x in range(at[TOP]):
        node[stack[x] + side] = infinity


@lean
def return_slot(
    start: Any,
    target: Any,
    excess: Any,
    front: Any,
    near: Any,
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
    heap: Any,
    settled: Any,
    at: Any,
    found: Any,
    infinity: Any,
    total: Any,
) -> Any:
    """Move a slot from ``start`` to ``target`` if a path is shorter than ``excess``; say whether one is.

    Either way an arc from target to start that costs ``-excess`` then costs at least 0, or has been used.
    Line node ``front`` ends the line; nodes more than ``near`` before both ends wait.
    """
    found[LENGTH], found[_MEETING] = excess, -1
    heap[:] = -1
    at[:] = 0
    at[:, TOP] = 1
    stack[0, 0], stack[1, 0] = start, target
    node[start + FORWARD] = 0
    node[target + _BACKWARD] = 0
    far = min(start, target) - near
    side = 0
    while at[0, LABEL] + at[1, LABEL] < found[LENGTH]:
        other = at[1 - side, LABEL]
        if side == 0:
            settle_forward(
                node,
                state,
                waiting,
                link,
                reward,
                mask,
                price,
                front,
                far,
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
                front,
                far,
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
        if at[side, TOP] == 0 and at[side, LABEL] + other < found[LENGTH]:
            next_label(
                side + 1,
                node,
                at[side],
                found[LENGTH] - other,
                stack[side],
                entry[side],
                after[side],
                heap[side],
            )
        side = 1 - side
    moved = found[_MEETING] >= 0
    if moved:
        _move_slot(node, state, waiting, link, found[_MEETING], start, target)
    for s in range(2):
        total[WORK] += at[s, SETTLED]
        total[DRIFT] += at[s, LABEL]
        _forget(s == 0, node, at[s], stack[s], entry[s], settled[s], infinity)
    return moved
