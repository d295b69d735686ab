"""From a feasible flow and feasible potentials, near each other, to an optimal flow and its proof.

Given are K slots moving along the network of :mod:`offline_opt.flow.sweep` in any lawful way, and node
potentials with all constraints of :mod:`offline_opt.flow.dual`. If they do not prove each other optimal, some
residual arcs cost less than 0 beside the potentials: an item is held at a loss, or not held though it would
pay; an item enters or leaves where the potentials say it should not; slots wait while the line falls. What
these arcs cost, summed over the slots that could move, is the gap between the flow and the bound.

First all of them are left out of the network. Then they come back one by one, in time order: a search
(:func:`offline_opt.flow.search.return_slot`) either finds a cycle through the arc that costs less than 0 and
moves a slot around it, until the arc has no room left, or moves the potentials until the arc costs 0. An arc
that was never left out costs at least 0 at all times, so when all are back the flow is optimal.

The work is that of as many searches as there are such arcs, or slots that could move along them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offline_opt.flow.common import ALL, ENTER, IN, LEAVE, OUT
from offline_opt.flow.search import DRIFT, NEAR, OFFSET, SKIP_IN, SKIP_OUT, SKIP_TURN, WORK, return_slot
from softhit.jit import jit, lean

__all__ = ["leave_out", "repair"]

# Which arc of event j is left out: the one between its two nodes, to the item's next event, to the right.
_TURN, _HOLD, _WAIT = 0, 1, 2
_HELD = IN | OUT


@lean
def _excess(
    node: Any, state: Any, link: Any, reward: Any, mask: Any, price: Any, j: Any, kind: Any, slots: Any
) -> Any:
    """Return by how much the residual arc of this kind at event j costs less than 0, and its two ends."""
    line, held = np.int64(node[8 * j]), np.int64(node[8 * j + 4])
    s = state[j]
    if kind == _TURN:
        if s & _HELD == OUT:
            # it enters here: that can be taken back, from the item node to the line node
            return line + price - held, 8 * j + 4, 8 * j
        if s & _HELD == IN:
            return held - line, 8 * j, 8 * j + 4
        return np.int64(0), 0, 0
    if kind == _HOLD:
        i = np.int64(link[2 * j + 1])
        if i < 0:
            return np.int64(0), 0, 0
        excess = node[8 * i + 4] + reward[j & mask] - held
        if s & OUT:
            return -excess, 8 * i + 4, 8 * j + 4
        return excess, 8 * j + 4, 8 * i + 4
    if slots == 0:
        return np.int64(0), 0, 0
    return line - node[8 * j + 8], 8 * j + 8, 8 * j


@jit
def leave_out(
    node: Any, state: Any, waiting: Any, link: Any, reward: Any, mask: Any, price: Any, todo: Any
) -> Any:
    """Leave out all residual arcs that cost less than 0; list them in ``todo``, and return how many.

    -1: the potentials break a constraint, which no search would survive.
    """
    n = 0
    for j in range(len(state) - 1):
        line, held, s = np.int64(node[8 * j]), np.int64(node[8 * j + 4]), state[j]
        if (s & ENTER and held > line + price) or (s & LEAVE and line > held) or node[8 * j + 8] > line:
            return -1
        for kind in range(3):
            excess, _, _ = _excess(node, state, link, reward, mask, price, j, kind, waiting[j])
            if excess <= 0:
                continue
            todo[n] = 4 * j + kind
            n += 1
            if kind == _TURN:
                state[j] |= SKIP_TURN
            elif kind == _HOLD:
                state[j] |= SKIP_OUT
                state[link[2 * j + 1]] |= SKIP_IN
            else:
                waiting[j] -= OFFSET
    return n


@jit
def repair(
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
    todo: Any,
    done: Any,
) -> Any:
    """Bring arcs back from ``todo[done]`` on, until ``budget`` nodes are settled or drift passes ``limit``.

    Return how many are back.
    """
    heap = np.empty((2, 64), np.int32)
    at = np.zeros((2, 4), np.int64)
    found = np.zeros(2, np.int64)
    near = 8 * NEAR * capacity
    m = len(state) - 1
    budget += total[WORK]
    while done < len(todo) and total[WORK] < budget and total[DRIFT] <= limit:
        j, kind = np.int64(todo[done] >> 2), todo[done] & 3
        i = np.int64(link[2 * j + 1])
        slots = waiting[j] + OFFSET if kind == _WAIT else 0
        excess, tail, head = _excess(node, state, link, reward, mask, price, j, kind, slots)
        if excess > 0:
            total[WORK] += 1
            if return_slot(
                head,
                tail,
                excess,
                m,
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
                if kind == _HOLD:
                    state[j] ^= OUT
                    state[i] ^= IN
                elif kind == _WAIT:
                    waiting[j] -= 1
                # where it enters or leaves follows from where it is held; another slot may wait
                continue
        if kind == _TURN:
            state[j] &= ALL - SKIP_TURN
        elif kind == _HOLD:
            state[j] &= ALL - SKIP_OUT
            state[i] &= ALL - SKIP_IN
        else:
            waiting[j] += OFFSET
        done += 1
    return done
