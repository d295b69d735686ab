"""Near-duplicates: the first item of a topic answers, later ones only compete with it for the retriever."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from adversaries.families.registry import Count, Forces, Rows, count, family, form, grid, real
from softhit.simulate import TRACE_ROLE, child_rng
from softhit.trace import DEFAULT_SCALE

__all__ = ["expected_answers", "near_duplicates"]


def expected_answers(held: int, topics: int, noise: float) -> float:
    """Return Q(held): the expected share of queries answered rightly by a pool that holds all its arrivals.

    ``E[1{m>0} / (1 + (m-1) noise)]``, m ~ Bin(held, 1/topics): the model of claim F1.

    >>> round(expected_answers(1, 500, 0.05), 6), expected_answers(3, 1, 0.5)
    (0.002, 0.5)
    """
    # it takes as long to import as all families together
    from scipy import stats

    m = np.arange(1, held + 1)
    return float(np.sum(stats.binom.pmf(m, held, 1 / topics) / (1 + (m - 1) * noise)))


def _ranks(score: Any, row: Any, indptr: Any) -> Any:
    """Return the place of each entry in its row, by falling score."""
    order = np.lexsort((-score, row))
    ranks = np.empty(len(score), np.int32)
    ranks[order] = np.arange(len(score)) - indptr[row]
    return ranks


@family(
    "F1: a pool that holds all it saw answers the share Q(n), which falls with n beyond its maximum",
    topics=count("M, topics of arrivals and queries"),
    pool=count("n, arrivals before the first query"),
    noise=real("w: 0, the right item always ranks first; 1, it has no lead over a near-duplicate"),
    form=form,
    near=real("quality of a near-duplicate", soft=True),
)
def near_duplicates(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    topics: Count = "K/5+1",
    pool: Count = "K",
    noise: float = 0.5,
    form: str = "hard",
    near: float = 0.5,
) -> Rows:
    """Let n items of uniform topics arrive without queries, then ask uniform topics without arrivals.

    The first item of a topic answers its queries with quality 1, the later ones with quality 0. All items of
    the topic are retrievable; scores have Gumbel noise of scale sigma, fresh at each query, and the right
    item is ahead by delta, with ``noise = exp(-delta/sigma)``.

    Guarantee (claim F1; serve_then_update, stream, free fill, best of one)
    -----------------------------------------------------------------------
    While items arrive no query touches anything, so FIFO, LRU and LFU all hold the last K of n. Their exact
    cost on the trace is in its metadata: ``lambda*max(0, n-K)`` and the misses. In expectation over the
    trace they answer the share

        (1 - 1/M)^max(0, n-K) Q(min(n, K)),   Q(n) = E[1{m>0} / (1 + (m-1) noise)],  m ~ Bin(n, 1/M)

    of the queries: Q rises, then falls in the items held (F1), since near-duplicates outrank the right item,
    and the first factor falls with what was thrown out. The optimum holds right items only, of the K topics
    asked for most; it is exact too. With M <= K it answers every query for a topic that has arrived, so
    nothing but the admission of near-duplicates separates the two.

    Soft: near-duplicates have quality ``near``. A query costs 1 - near where one of them is on top, and the
    expected quality is ``(1-near) x the share above + near (1 - (1-1/M)^min(n,K))``. The optimum is the same.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on T, the seed and the parameters below only.
    topics, pool : count
        Defaults ``K/5+1``, ``K``; ``pool`` is cut at T. N = pool.
    noise : float
        In [0, 1]; default 0.5.
    form, near
        See above; ``near`` is rounded to the quality grid.

    Examples
    --------
    >>> trace = near_duplicates(capacity=20, steps=1000)
    >>> sorted(set(trace.metadata["forces"]["exact"])), int(trace.weight.sum())
    (['fifo', 'lfu', 'lru'], 980)
    """
    rng = child_rng(seed, TRACE_ROLE)
    n = min(pool, steps)
    queries = steps - n
    topic = rng.integers(0, topics, n)
    asked = rng.integers(0, topics, queries)
    by_topic = np.argsort(topic, kind="stable")
    sizes = np.bincount(topic, minlength=topics)
    start = np.cumsum(sizes) - sizes
    counts = sizes[asked]
    below = np.zeros(queries + 1, np.int64)
    np.cumsum(counts, out=below[1:])
    row = np.repeat(np.arange(queries), counts)
    place = np.arange(below[-1]) - below[row]
    items = by_topic[start[asked[row]] + place].astype(np.int32)
    right = place == 0
    lead = -math.log(noise) if noise > 0 else math.inf
    score = rng.gumbel(size=len(items))
    score[right] += lead
    ranks = _ranks(score, row, below)
    wrong = grid(near) if form == "soft" else Fraction(0)
    quality = np.where(right, DEFAULT_SCALE, int(wrong * DEFAULT_SCALE)).astype(np.int32)

    # what the cache of the last K arrivals returns
    held = items >= n - capacity
    some = np.flatnonzero(counts)
    best = np.minimum.reduceat(np.where(held, ranks, n), below[some]) if len(some) else np.zeros(0, np.int32)
    first = below[some]
    answered = int(np.count_nonzero(held[first] & (ranks[first] == best)))
    misled = int(np.count_nonzero(best < n)) - answered
    price = queries - answered - misled * wrong + switch_cost * (n - min(n, capacity))
    wanted = np.sort(np.bincount(asked, minlength=topics)[sizes > 0])[::-1]
    optimum = queries - int(wanted[:capacity].sum())
    share = expected_answers(min(n, capacity), topics, noise) * (1 - 1 / topics) ** max(0, n - capacity)
    statement = (
        f"n = {n} arrivals of {topics} topics, K = {capacity}: fifo, lru and lfu answer {answered} of "
        f"{queries} queries rightly (expected share {share:.4f}), cost {price}; the optimum is {optimum}"
    )
    exact = dict.fromkeys(("fifo", "lru", "lfu"), str(price))
    return Rows(
        n,
        np.concatenate([np.zeros(n, np.int64), below]),
        items,
        quality,
        np.concatenate([np.arange(n), np.full(queries, -1)]).astype(np.int32),
        Forces("F1", statement, exact=exact, optimum=str(optimum)),
        weight=np.concatenate([np.zeros(n), np.ones(queries)]).astype(np.int32),
        ranks=ranks,
    )
