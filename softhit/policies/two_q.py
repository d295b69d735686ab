"""2Q: always admit; a first visit goes into a FIFO, a return after leaving it into an LRU list.

A1in (FIFO) holds at most a share ``kin`` of the cache once it is full, A1out remembers a share ``kout`` of
what left A1in last, Am (LRU) holds what A1out remembered when it came back. A touch in A1in changes nothing.
The victim comes from A1in if that is over its share or Am is empty, else from Am.

On hard hits this is the TwoQ of libcachesim, which needs a capacity of at least 4; both shares are rounded
down, here to at least one item. Where the paper's text leaves it open, the returning item leaves A1out before
the victim enters it. Unit sizes.

Source: T. Johnson, D. Shasha, "2Q: a low overhead high performance buffer management replacement algorithm",
VLDB 1994 (full version).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_real
from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import TAG, first_of, move, new_lists
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

A1IN, A1OUT, AM = 1, 2, 3


def init(context: Context, kin: float = 0.25, kout: float = 0.5) -> State:
    """Return (three lists with each item's list as tag, their lengths, their limits)."""
    size = min(context.capacity, 2**31)
    limits = np.zeros(3, np.int64)
    limits[A1IN] = max(1, int(size * check_real("kin", kin, 0, 1)))
    limits[A1OUT] = max(1, int(size * check_real("kout", kout, 0, 64)))
    return new_lists(context.n_items, 4, tags=2), np.zeros(4, np.int64), limits


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch in Am makes the item its most recent."""
    links, length, _ = state
    for j in range(n - 1, -1, -1):
        if links[got[j], TAG] == AM:
            move(links, length, got[j], AM)


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
    """Admit: into Am if A1out remembers the item, else into A1in."""
    links, length, limits = state
    known = links[item, TAG] == A1OUT
    if known:
        move(links, length, item, 0)
    m = 0
    if free < size:
        m = 1
        if length[AM] > 0 and length[A1IN] <= limits[A1IN]:
            out[0] = first_of(links, length, AM)
            move(links, length, out[0], 0)
        else:
            if length[A1OUT] >= limits[A1OUT]:
                move(links, length, first_of(links, length, A1OUT), 0)
            out[0] = first_of(links, length, A1IN)
            move(links, length, out[0], A1OUT)
    move(links, length, item, AM if known else A1IN)
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("2q", init, serve, decide, run)
register_kernel(
    KERNEL,
    "a FIFO for first visits, an LRU list for returns",
    admission="always",
    eviction="oldest of the FIFO, or least recent of the LRU list",
    kin=0.25,
    kout=0.5,
)
