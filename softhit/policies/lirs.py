"""LIRS: always admit; items with a short reuse distance keep the cache, the rest pass through a queue.

Stack S orders items by last reference: the LIR items (low inter-reference recency), resident HIR items, and
HIR items that left the cache. Queue Q holds the resident HIR items; its head is the next victim. An HIR item
referenced while in S has a shorter reuse distance than the LIR item at the bottom of S and changes places
with it: the latter goes to the end of Q. The bottom of S is always LIR (pruning). An HIR item referenced
outside S goes to the top of S and the end of Q. Q gets a share ``hir`` of the cache (1 %, at least one item);
S holds at most 2K items: beyond that, the item that left the cache first is forgotten (the paper has no
bound).

Differs from the LIRS of libcachesim 0.3.5, whose Q hit outside S also demotes a LIR item, so that its counts
of both kinds drift apart from what it holds; the tests compare with a plain transcription of the paper.
Unit sizes.

Source: S. Jiang, X. Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to improve
buffer cache performance", SIGMETRICS 2002.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_real
from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import append, new_lists, unlink
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

# How an item stands: not known, LIR, resident HIR, HIR that left the cache but is still in S.
NONE, LIR, HIR, GONE = 0, 1, 2, 3
# Numbers: items in S, LIR items, the limits of both.
IN_S, LIRS, MAX_S, MAX_LIR = 0, 1, 2, 3


def init(context: Context, hir: float = 0.01) -> State:
    """Return (S, bottom first; Q and, second list, what left, oldest first; status; in S?; numbers)."""
    n, size = context.n_items, min(context.capacity, 2**31)
    share = max(1, int(size * check_real("hir", hir, 0, 1)))
    numbers = np.array([0, 0, 2 * size, size - share], np.int64)
    return new_lists(n, 1), new_lists(n, 2), np.zeros(n, np.uint8), np.zeros(n, np.uint8), numbers


@lean
def _to_top(state: Any, item: Any) -> None:
    """Put ``item`` on top of S."""
    stack, _, _, inside, numbers = state
    if inside[item]:
        unlink(stack, item)
    else:
        inside[item] = 1
        numbers[IN_S] += 1
    append(stack, len(stack) - 1, item)


@lean
def _drop(state: Any, item: Any) -> None:
    """Take ``item`` out of S; one that left the cache is forgotten."""
    stack, queue, status, inside, numbers = state
    unlink(stack, item)
    inside[item] = 0
    numbers[IN_S] -= 1
    if status[item] == GONE:
        unlink(queue, item)
        status[item] = NONE


@lean
def _prune(state: Any) -> None:
    stack, status = state[0], state[2]
    end = len(stack) - 1
    while stack[end, 1] != end and status[stack[end, 1]] != LIR:
        _drop(state, stack[end, 1])


@lean
def _promote(state: Any, item: Any) -> None:
    """Make ``item``, on top of S and not in Q, a LIR; demote the bottom of S if there are too many."""
    stack, queue, status, _, numbers = state
    status[item] = LIR
    numbers[LIRS] += 1
    if numbers[LIRS] > numbers[MAX_LIR]:
        _prune(state)
        bottom = stack[len(stack) - 1, 1]
        status[bottom] = HIR
        numbers[LIRS] -= 1
        append(queue, len(queue) - 2, bottom)
        _prune(state)


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch is a reference to an item that is held."""
    queue, status, inside = state[1], state[2], state[3]
    for j in range(n - 1, -1, -1):
        item = got[j]
        known = inside[item]
        _to_top(state, item)
        if status[item] == LIR:
            _prune(state)
            continue
        unlink(queue, item)
        if known:
            _promote(state, item)
        else:
            append(queue, len(queue) - 2, item)


@lean
def decide(
    state: Any,
    rng: Any,
    t: Any,
    item: Any,
    quality: Any,
    utility: Any,
    weight: Any,
    size: Any,
    free: Any,
    out: Any,
) -> Any:
    """Admit; evict the head of Q."""
    _, queue, status, inside, numbers = state
    m = 0
    if free < size:
        victim = queue[len(queue) - 2, 1]
        unlink(queue, victim)
        status[victim] = NONE
        if inside[victim]:
            status[victim] = GONE
            append(queue, len(queue) - 1, victim)
        out[0] = victim
        m = 1
    known = status[item] == GONE
    if known:
        unlink(queue, item)
    _to_top(state, item)
    if known or (m == 0 and numbers[LIRS] < numbers[MAX_LIR]):
        _promote(state, item)
    else:
        status[item] = HIR
        append(queue, len(queue) - 2, item)
    while numbers[IN_S] > numbers[MAX_S]:
        _drop(state, queue[len(queue) - 1, 1])
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("lirs", init, serve, decide, run)
register_kernel(
    KERNEL,
    "low inter-reference recency set",
    admission="always, most through a small queue",
    eviction="head of the queue of items with a long reuse distance",
    hir=0.01,
)
