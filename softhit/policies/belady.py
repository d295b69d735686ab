"""Belady with bypassing (clairvoyant): of held items and the arrival, keep those requested again soonest.

Hard hits, unit sizes. In a full cache the arrival competes with the held items: the one requested again
latest, or never, stays out. With e_t = q_t, equal weights and qualities, serve_then_update and lambda = 0
this is an optimal schedule (claim E1). ``bypass=False`` always admits; then it is the Belady of libcachesim,
hit for hit, and in update_then_serve it has the fewest insertions.

Source: L. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5
(1966).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.errors import InvalidInput
from softhit.jit import jit, lean
from softhit.policies.heap import pop, push, rise
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel
from softhit.trace import Trace


@jit
def _next_requests(asked: Any, follows: Any, upcoming: Any) -> None:
    for t in range(len(asked) - 1, -1, -1):
        if asked[t] >= 0:
            follows[t] = upcoming[asked[t]]
            upcoming[asked[t]] = t


def init(context: Context, trace: Trace, bypass: bool = True) -> State:
    """Return (request of each step, step of its next request, next request of each item, heap of held...).

    Requests without weight do not count.
    """
    if not isinstance(bypass, bool):
        raise InvalidInput(f"bypass must be true or false, got {bypass!r}")
    if not trace.structure.hard:
        raise InvalidInput("policy belady is defined for hard traces only (at most one entry per row)")
    n, never = trace.n_items, trace.n_steps
    asked = np.where(trace.weight > 0, trace.requests, -1).astype(np.int32)
    follows, upcoming = np.full(trace.n_steps, never, np.int32), np.full(n, never, np.int32)
    _next_requests(asked, follows, upcoming)
    heap = np.empty(min(context.capacity, n) + 1, np.int32)
    # the heap has the smallest key in front, so keys are negated steps; [items in the heap, bypass]
    return asked, follows, heap, np.full(n, -1, np.int32), -upcoming, np.array([0, bypass], np.int64)


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """The request is over: its item's next one is another."""
    asked, follows, heap, place, key, _ = state
    item = asked[t]
    if item >= 0:
        key[item] = -follows[t]
        if place[item] >= 0:
            rise(heap, place, key, item)


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
    """Admit, unless the arrival is requested again no sooner than every held item."""
    _, _, heap, place, key, numbers = state
    m = 0
    if free < size:
        if numbers[1] and key[item] <= key[heap[0]]:
            return -1
        out[0] = pop(heap, place, key, numbers[0])
        place[out[0]] = -1
        numbers[0] -= 1
        m = 1
    push(heap, place, key, numbers[0], item)
    numbers[0] += 1
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("belady", init, serve, decide, run, clairvoyant=True)
register_kernel(
    KERNEL,
    "clairvoyant: next request soonest",
    admission="if requested again before some held item",
    eviction="requested again latest",
    bypass=True,
)
