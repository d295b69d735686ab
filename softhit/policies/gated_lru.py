"""Gated LRU: admit an item once the misses that it could have answered have cost theta; evict as LRU does.

Each item has a counter. A step at which the item arrives and is not held adds the step's miss cost
``w (1 - u)`` to it, exactly, in integer units. The item is admitted when its counter has reached theta, and
the counter starts again from zero; while it fits without an eviction it is admitted at once. With theta at
least lambda the replacements cost at most what the misses cost (claim A1). ``theta=None`` means lambda + 1;
theta = 0 is LRU. No peer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.exact import as_fraction
from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import append, new_lists, unlink
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel


def init(context: Context, theta: Any = None) -> State:
    """Return (list, least recent first; what each item still lacks; [theta, units of 1], sizes)."""
    gate = context.switch_cost + 1 if theta is None else as_fraction("theta", theta, low=0)
    # a counter is an integer, so reaching theta is reaching the next integer
    units = min(-(-gate.numerator * context.utility_scale // gate.denominator), 2**62)
    scales = np.array([units, context.utility_scale], np.int64)
    return new_lists(context.n_items, 1), np.full(context.n_items, units, np.int64), scales, context.sizes


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
    """Count the miss; admit if the item fits or has reached theta, evicting the least recent."""
    links, lacks, scales, sizes = state
    lacks[item] -= weight * (scales[1] - utility)
    if free < size and lacks[item] > 0:
        return -1
    lacks[item] = scales[0]
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


KERNEL = Kernel("gated_lru", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL,
    "LRU behind a counter of misses per item",
    admission="misses of the item have cost theta (None: lambda + 1)",
    eviction="least recently touched",
    theta=None,
)
