"""Static greedy (clairvoyant): a fixed set chosen by marginal gain, admitted as its items arrive.

The set never changes, so there are no replacements. An item of it serves from its first arrival on: after
that step in serve_then_update, from it in update_then_serve. K times, the item of largest marginal gain in
utility is added (ties to the smaller id), as long as it gains (with ``fill="charged"``: more than lambda).

Without a score the gain of a set is monotone and submodular, so with free fill it is at least 1 - 1/e of the
best set's; gains only shrink as the set grows, which is why stale ones need a new look at the top only. With
a score an addition can hurt and that order is a heuristic. The result is no optimum of anything: on hard hits
it chooses what ``static_opt`` does. Unit sizes. No peer.

Source: G. Nemhauser, L. Wolsey, M. Fisher, "An analysis of approximations for maximizing submodular set
functions I", Mathematical Programming 14 (1978); M. Minoux, "Accelerated greedy algorithms for maximizing
submodular set functions" (1978).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from softhit.check import fail
from softhit.jit import jit
from softhit.policies import static_opt
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel
from softhit.retrieval import aggregator_code, retrieve, utility
from softhit.trace import Trace


@jit
def _gain(
    entries: Any, step: Any, rows: Any, live: Any, served: Any, config: Any, got: Any, keep: Any
) -> Any:
    """Return what an item with these entries adds; with ``keep``, add it."""
    indptr, items, quality, ranks, weight = rows
    scored, k, aggregator, scale = config
    worth = np.empty(k, np.int32)
    total = np.int64(0)
    for x in entries:
        t = step[x]
        if weight[t] == 0:
            continue
        live[x] = 1
        n = retrieve(indptr[t], indptr[t + 1], items, quality, ranks, scored, live, k, got, worth)
        u = utility(worth, n, aggregator, scale)
        total += weight[t] * (u - served[t])
        if keep:
            served[t] = u
        else:
            live[x] = 0
    return total


def init(context: Context, trace: Trace) -> State:
    """Return (is the item in the greedy set?,)."""
    if trace.total_weight * context.utility_scale >= 2**63:
        fail("total weight", trace.total_weight, f"below 2**63 / {context.utility_scale}")
    step = np.repeat(np.arange(trace.n_steps), np.diff(trace.indptr))
    useful = np.flatnonzero(static_opt.serves_from(context, trace)[trace.items] <= step)
    order = useful[np.argsort(trace.items[useful], kind="stable")]
    ends = np.searchsorted(trace.items[order], np.arange(trace.n_items + 1))
    entries = [order[ends[i] : ends[i + 1]] for i in range(trace.n_items)]
    variant = context.variant
    # entries stand in for items, so that what is held may differ from step to step
    own = np.arange(len(trace.items))
    ranks = trace.quality if trace.ranks is None else trace.ranks
    rows = (trace.indptr, own, trace.quality, ranks, trace.weight)
    config = (trace.ranks is not None, variant.top_k, aggregator_code(variant), trace.quality_scale)
    live, served = np.zeros(len(own), np.uint8), np.zeros(trace.n_steps, np.int64)
    got = np.empty(variant.top_k, np.int64)

    def gain(i: int, keep: bool = False) -> int:
        return int(_gain(entries[i], step, rows, live, served, config, got, keep))

    heap = [(-gain(i), i) for i in range(trace.n_items)]
    heapq.heapify(heap)
    chosen = np.zeros(trace.n_items, np.uint8)
    room = context.capacity
    while heap and room:
        i = heap[0][1]
        fresh = (-gain(i), i)
        heapq.heapreplace(heap, fresh)
        if heap[0] != fresh:
            continue
        if not static_opt.pays(context, -fresh[0]):
            break
        heapq.heappop(heap)
        gain(i, keep=True)
        chosen[i] = 1
        room -= 1
    return (chosen,)


serve, decide = static_opt.serve, static_opt.decide


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("static_greedy", init, serve, decide, run, clairvoyant=True)
register_kernel(
    KERNEL, "clairvoyant: greedy fixed set", admission="if in the greedy fixed set", eviction="never"
)
