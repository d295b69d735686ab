"""Marking: always admit, evict uniformly among the items not touched in this phase.

An admission and a touch mark an item. When a victim is needed and every held item is marked, a new phase
begins: all marks are taken off. In classical paging (hard hits, unit sizes, every miss is loaded and costs
the same) it is 2 H_K competitive. No peer: libcachesim and cachetools have no such policy.

Source: A. Fiat, R. Karp, M. Luby, L. McGeoch, D. Sleator, N. Young, "Competitive paging algorithms",
J. Algorithms 12 (1991).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel


def init(context: Context) -> State:
    """Return (held items, the unmarked first; place of each or -1; [how many unmarked, how many], sizes)."""
    slots = np.empty(min(context.capacity, context.n_items) + 1, np.int32)
    return slots, np.full(context.n_items, -1, np.int32), np.zeros(2, np.int64), context.sizes


@lean
def _put(slots: Any, place: Any, j: Any, item: Any) -> None:
    slots[j] = item
    place[item] = j


@lean
def mark(slots: Any, place: Any, count: Any, item: Any) -> None:
    """Mark a held item: if it is unmarked, it changes places with the last unmarked one."""
    at = place[item]
    if at < count[0]:
        count[0] -= 1
        _put(slots, place, at, slots[count[0]])
        _put(slots, place, count[0], item)


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch marks."""
    slots, place, count, _ = state
    for j in range(n):
        mark(slots, place, count, got[j])


@jit
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
    """Admit, marked; evict drawn unmarked items until it fits."""
    slots, place, count, sizes = state
    m = 0
    while free < size:
        if count[0] == 0:
            count[0] = count[1]
        j = rng.integers(0, count[0])
        victim = slots[j]
        count[0] -= 1
        count[1] -= 1
        _put(slots, place, j, slots[count[0]])
        if count[0] < count[1]:
            _put(slots, place, count[0], slots[count[1]])
        place[victim] = -1
        free += sizes[victim]
        out[m] = victim
        m += 1
    _put(slots, place, count[1], item)
    count[1] += 1
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("marking", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL,
    "uniform among unmarked",
    admission="always",
    eviction="uniform among unmarked",
    deterministic=False,
)
