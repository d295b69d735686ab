"""S3-FIFO: always admit; a small FIFO for first visits, a main FIFO with reinsertion, a ghost FIFO.

A new item enters the small queue (a tenth of the cache), or main if the ghost queue remembers it. At the head
of the small queue an item touched at least ``threshold`` times moves to main, another one is evicted and
remembered. At the head of main a touched item goes round again with one touch less (counts stop at 3). Main
gives up the victim when it is over its share. Until the first eviction what the small queue has no room for
enters main.

On hard hits this is the S3FIFO of libcachesim with its defaults, for capacities from 20 (below, it aborts or
admits nothing; here the small and the ghost queue hold at least one item). Unit sizes.

Source: J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_int, check_real
from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import TAG, first_of, move, new_lists
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

TOUCHES = 3
SMALL, MAIN, GHOST = 1, 2, 3


def init(context: Context, small: float = 0.1, ghost: float = 0.9, threshold: int = 2) -> State:
    """Return (queues with each item's queue and touches, lengths, [threshold, limits...], [was full])."""
    size = min(context.capacity, 2**31)
    limits = np.zeros(4, np.int64)
    limits[0] = check_int("threshold", threshold, low=1, high=3)
    limits[SMALL] = max(1, int(size * check_real("small", small, 0, 1)))
    limits[MAIN] = size - limits[SMALL]
    limits[GHOST] = max(1, int(size * check_real("ghost", ghost, 0, 64)))
    return new_lists(context.n_items, 4, tags=2), np.zeros(4, np.int64), limits, np.zeros(1, np.uint8)


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch is counted, up to 3."""
    links = state[0]
    for j in range(n):
        if links[got[j], TOUCHES] < 3:
            links[got[j], TOUCHES] += 1


@lean
def _evict(links: Any, length: Any, limits: Any) -> Any:
    """Evict one item and return it."""
    if length[MAIN] <= limits[MAIN]:
        while length[SMALL] > 0:
            first = first_of(links, length, SMALL)
            if links[first, TOUCHES] < limits[0]:
                if length[GHOST] >= limits[GHOST]:
                    move(links, length, first_of(links, length, GHOST), 0)
                move(links, length, first, GHOST)
                return first
            move(links, length, first, MAIN)
            links[first, TOUCHES] = 0
    while True:
        first = first_of(links, length, MAIN)
        touches = links[first, TOUCHES]
        if touches == 0:
            move(links, length, first, 0)
            return first
        move(links, length, first, MAIN)
        links[first, TOUCHES] = touches - 1


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
    """Admit: into main if the ghost queue remembers the item, else into the small queue."""
    links, length, limits, full = state
    known = links[item, TAG] == GHOST
    if known:
        move(links, length, item, 0)
    m = 0
    if free < size:
        full[0] = 1
        out[0] = _evict(links, length, limits)
        m = 1
    filling = not full[0] and length[SMALL] >= limits[SMALL]
    move(links, length, item, MAIN if known or filling else SMALL)
    links[item, TOUCHES] = 0
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("s3fifo", init, serve, decide, run)
register_kernel(
    KERNEL,
    "small, main and ghost FIFO",
    admission="always",
    eviction="untouched head of the small queue, or of main with reinsertion",
    small=0.1,
    ghost=0.9,
    threshold=2,
)
