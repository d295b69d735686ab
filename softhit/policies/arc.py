"""ARC: always admit; two LRU lists, for items seen once and more often, whose shares follow the ghost hits.

T1 holds items seen once lately, T2 those seen again; B1 and B2 remember what each lost last. A miss that B1
remembers raises the target p of T1's length, one that B2 remembers lowers it, by the ratio of their lengths
(at least 1); T1 gives up the victim while it is longer than p. A touch of any held item moves it to T2. An
arrival that is not held counts as a reference, and where soft hits serve it, as the paper's miss.

On hard hits this is the ARC of libcachesim (p real-valued, as there). Unit sizes.

Source: N. Megiddo, D. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import TAG, first_of, move, new_lists
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

T1, T2, B1, B2 = 1, 2, 3, 4


def init(context: Context) -> State:
    """Return (four lists with each item's list as tag, their lengths, [p], [capacity])."""
    n = context.n_items
    capacity = np.array([min(context.capacity, 2**62)], np.int64)
    return new_lists(n, 5, tags=2), np.zeros(5, np.int64), np.zeros(1), capacity


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touched item becomes the most recent of T2."""
    for j in range(n - 1, -1, -1):
        move(state[0], state[1], got[j], T2)


@lean
def _replace(state: Any, in_b2: Any) -> Any:
    """Demote the least recent item of T1 or T2 to its ghost list and return it."""
    links, length, p, _ = state
    long = length[T1] > p[0] or (in_b2 and length[T1] == p[0])
    side = T1 if length[T2] == 0 or (length[T1] > 0 and long) else T2
    victim = first_of(links, length, side)
    move(links, length, victim, side + 2)
    return victim


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
    """Admit: into T2 if a ghost list remembers the item, else into T1."""
    links, length, p, limit = state
    c = limit[0]
    tag = links[item, TAG]
    if tag == B1:
        p[0] = min(p[0] + max(length[B2] / length[B1], 1.0), float(c))
    elif tag == B2:
        p[0] = max(p[0] - max(length[B1] / length[B2], 1.0), 0.0)
    m = 0
    if free < size:
        m = 1
        if tag == 0 and length[T1] + length[B1] >= c:
            if length[B1] > 0:
                move(links, length, first_of(links, length, B1), 0)
                out[0] = _replace(state, False)
            else:
                out[0] = first_of(links, length, T1)
                move(links, length, out[0], 0)
        else:
            if tag == 0 and length[T1] + length[T2] + length[B1] + length[B2] >= 2 * c:
                move(links, length, first_of(links, length, B2), 0)
            out[0] = _replace(state, tag == B2)
    move(links, length, item, T2 if tag else T1)
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("arc", init, serve, decide, run)
register_kernel(
    KERNEL,
    "adaptive replacement cache",
    admission="always",
    eviction="LRU of one of two lists, balanced by ghosts",
)
