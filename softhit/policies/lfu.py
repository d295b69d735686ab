"""Least frequently used: always admit, evict the item touched least often since it entered.

Counts live in the cache only: an item that returns starts from one. Ties go to the least recently touched.
On hard hits this is the LFU of libcachesim and of cachetools 8. All held items stand in one list ordered by
(count, last touch). A run of equal counts is a group, which knows its last member and the next group, so a
touch moves an item to the end of the next group in constant time.

Source: K. Shah, A. Mitra, D. Matani, "An O(1) algorithm for implementing the LFU cache eviction scheme"
(2010), for the groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import insert_after, new_lists, unlink
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

GROUP = 2  # a tag
LAST, COUNT, NEXT = 0, 1, 2


def init(context: Context) -> State:
    """Return (list with the group of each item as tag, groups, stack of unused groups, its height, sizes).

    Group 0 is the sentinel's: its count is 0 and the group after it is the lowest.
    """
    links = new_lists(context.n_items, 1, tags=2)
    groups = np.zeros((min(context.capacity, context.n_items) + 3, 4), np.int32)
    unused = np.arange(1, len(groups), dtype=np.int32)
    return links, groups, unused, np.array([len(unused)]), context.sizes


@lean
def _advance(state: Any, item: Any, g: Any) -> None:
    """Put ``item``, which is in no group, at the end of the group whose count is one more than that of g."""
    links, groups, unused, height, _ = state
    h = groups[g, NEXT]
    place = groups[g, LAST]
    if groups[h, COUNT] == groups[g, COUNT] + 1:
        place = groups[h, LAST]
    else:
        height[0] -= 1
        h = unused[height[0]]
        groups[h, COUNT] = groups[g, COUNT] + 1
        groups[h, NEXT] = groups[g, NEXT]
        groups[g, NEXT] = h
    insert_after(links, place, item)
    links[item, GROUP] = h
    groups[h, LAST] = item


@lean
def _close(state: Any, item: Any, g: Any) -> None:
    """Drop group g, of which ``item`` is the only member."""
    links, groups, unused, height, _ = state
    lower = links[links[item, 0], GROUP]
    groups[lower, NEXT] = groups[g, NEXT]
    unused[height[0]] = g
    height[0] += 1


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touched item moves to the end of the next group."""
    links, groups = state[0], state[1]
    for j in range(n - 1, -1, -1):
        item = got[j]
        g = links[item, GROUP]
        before = links[item, 0]
        if groups[g, LAST] != item:
            unlink(links, item)
            _advance(state, item, g)
        elif links[before, GROUP] == g:
            groups[g, LAST] = before
            unlink(links, item)
            _advance(state, item, g)
        elif groups[groups[g, NEXT], COUNT] != groups[g, COUNT] + 1:
            groups[g, COUNT] += 1
        else:
            _close(state, item, g)
            unlink(links, item)
            h = groups[g, NEXT]
            insert_after(links, groups[h, LAST], item)
            links[item, GROUP] = h
            groups[h, LAST] = item


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
    """Admit with a count of one; evict from the front until the item fits."""
    links, groups, sizes = state[0], state[1], state[4]
    front = len(links) - 1
    m = 0
    while free < size:
        victim = links[front, 1]
        g = links[victim, GROUP]
        if groups[g, LAST] == victim:
            _close(state, victim, g)
        unlink(links, victim)
        free += sizes[victim]
        out[m] = victim
        m += 1
    groups[0, LAST] = front
    _advance(state, item, 0)
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("lfu", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL, "least frequently used", admission="always", eviction="fewest touches in cache, then least recent"
)
