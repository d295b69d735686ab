"""Least recently used: always admit, evict what has not been touched for longest.

An admission and a touch both make an item the most recent; of several items touched at one step the one
ranked first is the most recent. On hard hits this is the LRU of libcachesim and cachetools.

Source: R. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9 (1970).
"""

from __future__ import annotations

from typing import Any

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import append, new_lists, unlink
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel


def init(context: Context) -> State:
    """Return (one list, least recent first; sizes)."""
    return new_lists(context.n_items, 1), context.sizes


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touched item becomes the most recent."""
    links = state[0]
    recent = len(links) - 1
    for j in range(n - 1, -1, -1):
        unlink(links, got[j])
        append(links, recent, got[j])


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
    """Admit; evict the least recent until the item fits."""
    links, sizes = state
    recent = len(links) - 1
    m = 0
    while free < size:
        victim = links[recent, 1]
        unlink(links, victim)
        free += sizes[victim]
        out[m] = victim
        m += 1
    append(links, recent, item)
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("lru", init, serve, decide, run, sizes=True)
register_kernel(KERNEL, "least recently used", admission="always", eviction="least recently touched")
