"""LRU-K: always admit, evict the item whose K-th last reference is longest ago; K is 2.

A touch and an admission are references. An item with fewer than k of them has an infinite distance and goes
first; among those, the least recently referenced. Ties (several touched at one step) go to the smaller id.
The k here is a parameter of the policy, not the capacity.

The paper keeps the references of evicted items for a while: ``retain`` is that period in steps, counted from
an item's last reference; an item that returns within it keeps its references. The default, 0, forgets at
eviction. On hard hits, with k = 2 and retain = 0, this is the LRUK of libcachesim (which takes items
with fewer than k references in order of entry; with k = 2 that is the order of their last reference).
There is no correlated reference period. Keys only grow, so the heap is put right at evictions alone.

Source: E. O'Neil, P. O'Neil, G. Weikum, "The LRU-K page replacement algorithm for database disk buffering",
SIGMOD 1993.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_int
from softhit.jit import jit, lean
from softhit.policies.heap import pop, push, sink
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

# Keys of items with fewer than k references are below all others.
FEW = -(2**40)


def init(context: Context, k: int = 2, retain: int = 0) -> State:
    """Return (references, newest first, per item; heap; place; key; [size of the heap, retain]; sizes)."""
    n = context.n_items
    past = np.full((n, check_int("k", k, low=1, high=64)), -1, np.int32)
    heap = np.empty(min(context.capacity, n) + 1, np.int32)
    numbers = np.array([0, check_int("retain", retain, low=0)], np.int64)
    return past, heap, np.zeros(n, np.int32), np.zeros(n, np.int64), numbers, context.sizes


@lean
def _refer(past: Any, item: Any, t: Any) -> None:
    for j in range(past.shape[1] - 1, 0, -1):
        past[item, j] = past[item, j - 1]
    past[item, 0] = t


@lean
def _key(past: Any, item: Any) -> Any:
    oldest = np.int64(past[item, past.shape[1] - 1])
    return oldest if oldest >= 0 else FEW + past[item, 0]


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch is a reference."""
    for j in range(n):
        _refer(state[0], got[j], t)


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
    """Admit; evict the smallest key until the item fits."""
    past, heap, place, key, numbers, sizes = state
    inside = numbers[0]
    m = 0
    while free < size:
        victim = heap[0]
        true_key = _key(past, victim)
        if key[victim] != true_key:
            key[victim] = true_key
            sink(heap, place, key, inside, victim)
            continue
        pop(heap, place, key, inside)
        inside -= 1
        free += sizes[victim]
        out[m] = victim
        m += 1
    if past[item, 0] < 0 or t - past[item, 0] > numbers[1]:
        past[item, :] = -1
    _refer(past, item, t)
    key[item] = _key(past, item)
    push(heap, place, key, inside, item)
    numbers[0] = inside + 1
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("lru_k", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL,
    "K-th last reference",
    admission="always",
    eviction="K-th last reference longest ago",
    k=2,
    retain=0,
)
