"""Clock (second chance): always admit; a queue in which a touched item is passed over once.

Each item has one bit, set by a touch and clear on entry. The hand is the head of the queue: an item whose
bit is set goes to the tail with the bit cleared, the first one without is evicted. On hard hits this is the
Clock of libcachesim with its defaults (one bit, clear on entry).

Source: F. Corbato, "A paging experiment with the Multics system" (1968).
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
    """Return (the queue, bit of each item, sizes)."""
    return new_lists(context.n_items, 1), np.zeros(context.n_items, np.uint8), context.sizes


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
    """Admit; evict the first item in the queue whose bit is clear, until the new one fits."""
    queue, bit, sizes = state
    end = len(queue) - 1
    m = 0
    while free < size:
        first = queue[end, 1]
        unlink(queue, first)
        if bit[first]:
            bit[first] = 0
            append(queue, end, first)
        else:
            free += sizes[first]
            out[m] = first
            m += 1
    append(queue, end, item)
    bit[item] = 0
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("clock", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL, "second chance", admission="always", eviction="oldest entry, a touched one passed over"
)
