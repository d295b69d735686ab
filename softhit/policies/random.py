"""Random: always admit, evict uniformly among the held items.

libcachesim and cachetools have the same rule with other random streams, so they agree in distribution only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel


def init(context: Context) -> State:
    """Return (held items in no order, [how many], sizes)."""
    slots = np.empty(min(context.capacity, context.n_items), np.int32)
    return slots, np.zeros(1, np.int64), context.sizes


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A hit changes nothing."""


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
    """Admit; evict drawn items until the new one fits."""
    slots, count, sizes = state
    m = 0
    while free < size:
        j = rng.integers(0, count[0])
        count[0] -= 1
        victim = slots[j]
        slots[j] = slots[count[0]]
        free += sizes[victim]
        out[m] = victim
        m += 1
    slots[count[0]] = item
    count[0] += 1
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("random", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL, "uniform eviction", admission="always", eviction="uniform among held", deterministic=False
)
