"""First in, first out: always admit, evict what entered first.

A touch changes nothing. On hard hits this is the FIFO of libcachesim and of cachetools.

Source: L. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5
(1966).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel


def init(context: Context) -> State:
    """Return (next item of the queue, [head, tail], sizes)."""
    return np.full(context.n_items, -1, np.int32), np.full(2, -1, np.int32), context.sizes


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A hit changes nothing."""


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
    """Admit; evict from the head of the queue until the item fits."""
    follows, ends, sizes = state
    m = 0
    while free < size:
        victim = ends[0]
        ends[0] = follows[victim]
        free += sizes[victim]
        out[m] = victim
        m += 1
    if ends[0] < 0:
        ends[0] = item
    else:
        follows[ends[1]] = item
    ends[1] = item
    follows[item] = -1
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("fifo", init, serve, decide, run, sizes=True)
register_kernel(KERNEL, "first in, first out", admission="always", eviction="oldest entry")
