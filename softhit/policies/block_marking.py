"""Block marking: every tau-th request of an item goes to marking, the others change nothing.

The requests of an item, hits and misses alike, are counted; every tau of them are a *block*, and only the end
of a block reaches :mod:`softhit.policies.marking`, which marks the item if it is held, and otherwise loads it
in place of an item drawn uniformly from the unmarked ones. ``tau=None`` means ``floor(lambda / 2) + 1``.
Counting requests, not misses, is what makes the proof work: where blocks end does not depend on the coins.

Model and guarantee (claim C6a; serve_then_update, ``stream`` with e_t = q_t, hard hits, weight 1, unit sizes,
free fill, empty start, oblivious adversary): with the default tau

    E[cost] <= c (OPT + lambda K) + tau K,     c = 2 (1 + lambda/tau) H_K + 1 < 6 H_K + 1,

so its competitive ratio is within a constant factor of the H_K that no online policy beats (claim C1).

Outside that model the rule is defined, and nothing is proved. A step requests the items that are touched, and
the arrival if it is not held; so an arrival that is not what was asked for counts, an arrival without a query
counts, a held arrival that serves nothing does not, and a soft hit counts for the items that were retrieved
and for the arrival that was not. Weights do not matter. Even empty places are filled by ends of blocks only.

Sources: the marking algorithm is that of A. Fiat et al., J. Algorithms 12 (1991); counting in blocks of about
lambda/2 requests and its analysis are this project's (proofs/C6.md). No peer: compared with a plain program.

>>> from softhit import from_requests, simulate
>>> trace = from_requests([0, 0, 1, 0, 1])       # lambda = 2, so tau = 2: items enter at their second request
>>> simulate("block_marking", trace, capacity=1, switch_cost=2).enter_items.tolist()
[0, 1]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softhit.check import check_int
from softhit.jit import jit, lean
from softhit.policies import marking
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.marking import decide as load
from softhit.policies.marking import mark
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

__all__ = ["init", "request"]

_LARGEST = 2**62  # no item is requested so often


def init(context: Context, tau: int | None = None) -> State:
    """Return marking's state, requests of each item since its last block, and [tau].

    Parameters
    ----------
    context : Context
    tau : int, optional
        Requests in a block, >= 1; default ``floor(lambda / 2) + 1``.
    """
    length = math.floor(context.switch_cost / 2) + 1 if tau is None else check_int("tau", tau, low=1)
    counts = np.zeros(context.n_items, np.int64)
    return *marking.init(context), counts, np.array([min(length, _LARGEST)], np.int64)


@lean
def _ends_block(state: Any, item: Any) -> Any:
    """Count a request of the item; return whether it is the last one of a block."""
    seen = state[4]
    seen[item] += 1
    if seen[item] < state[5][0]:
        return False
    seen[item] = 0
    return True


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch is a request; the last one of a block marks."""
    for j in range(n):
        if _ends_block(state, got[j]):
            mark(state[0], state[1], state[2], got[j])


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
    """A candidate is a request; the last one of a block is loaded as marking loads."""
    if not _ends_block(state, item):
        return -1
    marks = (state[0], state[1], state[2], state[3])
    return load(marks, rng, t, item, quality, utility, weight, size, free, out)


@lean
def request(state: Any, rng: Any, item: Any, capacity: Any, out: Any) -> Any:
    """Play one request on a cache of its own, unit sizes; return (was it held, insertions, evictions).

    ``capacity`` is at most the number of items. This is how another policy keeps a virtual copy.
    """
    if state[1][item] >= 0:
        if _ends_block(state, item):
            mark(state[0], state[1], state[2], item)
        return True, 0, 0
    free = capacity - state[2][1]
    m = decide(state, rng, 0, item, 0, 0, 1, 1, free, out)
    if m < 0:
        return False, 0, 0
    return False, 1, m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("block_marking", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL,
    "marking on every tau-th request of an item",
    admission="the item is requested for the tau-th time (None: floor(lambda/2) + 1)",
    eviction="uniform among unmarked",
    deterministic=False,
    tau=None,
)
