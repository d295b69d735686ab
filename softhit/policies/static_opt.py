"""Static optimum (clairvoyant, hard hits): the best fixed set in hindsight, admitted as its items arrive.

The set never changes, so there are no replacements. An item of it serves from its first arrival on: after
that step in serve_then_update, from it in update_then_serve. Items gain independently of each other, so the
K items of largest gain are the best set (ties to the smaller id); with ``fill="charged"`` only those that
gain more than lambda. Best among sets that enter on arrival, in ``pool`` too, since policies admit arrivals
only. Unit sizes. No peer; for soft hits see ``static_greedy``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel
from softhit.trace import Trace


def serves_from(context: Context, trace: Trace) -> NDArray[np.int64]:
    """Return the first step that each item could serve if admitted at its first arrival, int64[N]."""
    first = np.full(trace.n_items, trace.n_steps, np.int64)
    seen = np.flatnonzero(trace.arrivals >= 0)[::-1]
    first[trace.arrivals[seen]] = seen
    return first + int(context.variant.serves_first)


def pays(context: Context, gain: int) -> bool:
    """Whether an item that gains ``gain`` units of utility is worth its insertion."""
    price = 0 if context.variant.free_fill else context.switch_cost
    return gain > price * context.utility_scale


def init(context: Context, trace: Trace) -> State:
    """Return (is the item in the best fixed set?,)."""
    if not trace.structure.hard:
        raise InvalidInput("policy static_opt is defined for hard traces only; static_greedy takes soft ones")
    rows = np.flatnonzero(np.diff(trace.indptr))
    useful = serves_from(context, trace)[trace.items] <= rows
    rows, items = rows[useful], trace.items[useful]
    worth = trace.weight[rows].astype(np.int64) * trace.quality[useful]
    # two halves, so that no sum leaves int64
    high, low = np.zeros(trace.n_items, np.int64), np.zeros(trace.n_items, np.int64)
    np.add.at(high, items, worth >> 31)
    np.add.at(low, items, worth & 0x7FFFFFFF)
    gains = [(h << 31) + x for h, x in zip(high.tolist(), low.tolist(), strict=True)]
    best = sorted(range(trace.n_items), key=lambda i: (-gains[i], i))[: context.capacity]
    chosen = np.zeros(trace.n_items, np.uint8)
    chosen[[i for i in best if pays(context, gains[i])]] = 1
    return (chosen,)


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
    """Admit the items of the set."""
    return 0 if state[0][item] and free >= size else -1


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("static_opt", init, serve, decide, run, clairvoyant=True)
register_kernel(
    KERNEL, "clairvoyant: best fixed set, hard hits", admission="if in the best fixed set", eviction="never"
)
