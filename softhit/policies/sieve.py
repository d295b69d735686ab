"""Sieve: always admit; a hand sweeps a queue and evicts the first item not touched since it last passed.

The queue keeps the order of entry, also for items that survive, and the hand stays where it evicted: new
items wait behind it. On hard hits this is the Sieve of libcachesim.

Source: Y. Zhang et al., "SIEVE is simpler than LRU", NSDI 2024.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import append, new_lists, unlink
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel


def init(context: Context) -> State:
    """Return (the queue, oldest first; bit of each item; the hand, at an item or at the sentinel; sizes)."""
    n = context.n_items
    return new_lists(n, 1), np.zeros(n, np.uint8), np.full(1, n, np.int32), context.sizes


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch sets the bit."""
    for j in range(n):
        state[1][got[j]] = 1


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
    """Admit; let the hand sweep from old to new and round again until the item fits."""
    queue, bit, hand, sizes = state
    end = len(queue) - 1
    m = 0
    while free < size:
        i = hand[0]
        while i == end or bit[i]:
            if i != end:
                bit[i] = 0
            i = queue[i, 1]
        hand[0] = queue[i, 1]
        unlink(queue, i)
        free += sizes[i]
        out[m] = i
        m += 1
    append(queue, end, item)
    bit[item] = 0
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("sieve", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL, "a hand sweeps a queue", admission="always", eviction="first not touched since the hand passed"
)
