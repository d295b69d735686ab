"""Conversation: bursts of turns on one topic, returns after heavy-tailed absences, summaries."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.families.registry import Count, Forces, Rows, count, family, form, grid, near, real
from softhit.simulate import TRACE_ROLE, child_rng
from softhit.trace import DEFAULT_SCALE

__all__ = ["conversation", "topics_of_bursts"]


def topics_of_bursts(rng: np.random.Generator, bursts: int, new: float, tail: float) -> NDArray[np.int64]:
    """Return the topic of each burst, numbered in order of appearance.

    With probability ``new`` a burst opens a topic. Else it takes up the topic of the burst g before it,
    P(g >= x) = x^-tail for x = 1, 2, ...; where there was none yet it opens a topic too.

    >>> topics_of_bursts(np.random.default_rng(1), 8, 0.3, 1.0).tolist()
    [0, 0, 1, 0, 0, 0, 0, 0]
    """
    opens = rng.random(bursts) < new
    back = np.floor(np.minimum((1 - rng.random(bursts)) ** (-1 / tail), 2.0**40)).astype(np.int64)
    topics = np.empty(bursts, np.int64)
    found = 0
    for j, (fresh, g) in enumerate(zip(opens.tolist(), back.tolist(), strict=True)):
        if fresh or g > j:
            topics[j] = found
            found += 1
        else:
            topics[j] = topics[j - g]
    return topics


def _bursts(rng: np.random.Generator, steps: int, mean: int) -> NDArray[np.int64]:
    """Return geometric lengths that sum to ``steps``; the last one is cut."""
    lengths = np.zeros(0, np.int64)
    while lengths.sum() < steps:
        lengths = np.concatenate([lengths, rng.geometric(1 / mean, 16 + steps // mean)])
    ends = np.minimum(np.cumsum(lengths), steps)
    cut = np.diff(ends, prepend=0)
    return cut[: np.count_nonzero(cut)]


@family(
    "nothing: a workload to measure on, with bursts, returns, silent arrivals and derived items",
    burst=count("mean turns of a burst, which is geometric"),
    new=real("how likely a burst opens a new topic"),
    tail=real("exponent of the return law; small: longer absences", low=0.25, high=10),
    asks=real("how likely a turn asks; else it says something new"),
    derived=real("how likely a burst ends in a summary, an item derived from the topic's others"),
    form=form,
    near=near,
)
def conversation(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    burst: Count = 8,
    new: float = 0.2,
    tail: float = 1.0,
    asks: float = 0.5,
    derived: float = 0.5,
    form: str = "hard",
    near: float = 0.5,
) -> Rows:
    """Take turns in bursts on one topic each; say new things, ask for old ones, sum up, leave and come back.

    A turn that says something brings a new item and no query (weight 0). A turn that asks (weight 1) wants a
    uniform one of the topic's items so far, which alone is the right answer and arrives again, as it would be
    fetched from a store. The last turn of a burst may be a summary: a new item, without a query, derived from
    the topic's others. The first turn of a topic says something. A burst opens a new topic or takes up the
    topic of the burst g before it, P(g >= x) = x^-tail, so that absences have a heavy tail.

    Guarantee
    ---------
    None: this family forces nothing, and a ratio on it says nothing about the worst case. Claim C5 does not
    cover it. Items that arrive with weight 0 are the case in which a policy that counts misses has nothing
    to count.

    Soft: the latest summary of the topic, if made after the item that is asked for, answers too, with
    quality ``near``.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on T, the seed and the parameters below only.
    burst : count
        Default 8.
    new, tail, asks, derived : float
        Defaults 0.2, 1, 0.5, 0.5.
    form, near
        See above; ``near`` is rounded to the quality grid.

    Examples
    --------
    >>> trace = conversation(capacity=8, steps=1000, seed=3)
    >>> trace.n_queries + trace.n_items == trace.n_steps, trace.structure.hard
    (True, True)
    """
    rng = child_rng(seed, TRACE_ROLE)
    lengths = _bursts(rng, steps, burst)
    of_burst = topics_of_bursts(rng, len(lengths), new, tail)
    topic = np.repeat(of_burst, lengths)
    last = np.zeros(steps, bool)
    last[np.cumsum(lengths) - 1] = True
    # the steps of a topic in a row, topics one after the other
    order = np.argsort(topic, kind="stable")
    start = np.searchsorted(topic[order], np.arange(int(of_burst.max(initial=-1)) + 1))
    opening = np.zeros(steps, bool)
    opening[order[start]] = True
    summary = last & ~opening & (rng.random(steps) < derived)
    query = ~opening & ~summary & (rng.random(steps) < asks)

    item = np.cumsum(~query) - 1
    # per topic: its items in order, how many there are before each step, the latest summary before it
    by_topic = item[order][~query[order]]
    count_to = np.cumsum(~query[order])
    base = (count_to[start] - 1)[topic[order]]
    before = np.empty(steps, np.int64)
    before[order] = count_to - base
    base_of = np.empty(steps, np.int64)
    base_of[order] = base
    pick = np.minimum((rng.random(steps) * before).astype(np.int64), before - 1)[query]
    asked = by_topic[base_of[query] + pick]
    latest = np.empty(steps, np.int64)
    latest[order] = np.maximum.accumulate(np.where(summary[order], np.arange(steps), -1))
    at = latest[query]
    made: Any = order[at]
    # a summary found further up may be another topic's
    covers = (at >= 0) & (topic[made] == topic[query]) & (item[made] > asked)
    units = int(grid(near) * DEFAULT_SCALE)
    covers &= form == "soft" and units > 0

    counts = np.zeros(steps, np.int64)
    counts[query] = 1 + covers
    indptr = np.zeros(steps + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    items = np.empty(indptr[-1], np.int32)
    quality = np.full(indptr[-1], DEFAULT_SCALE, np.int32)
    head = indptr[:-1][query]
    items[head] = asked
    items[head[covers] + 1] = item[made[covers]]
    quality[head[covers] + 1] = units
    arrivals = item.copy()
    arrivals[query] = asked
    says = int(np.count_nonzero(~query))
    statement = (
        f"forces nothing; {len(start)} topics in {len(lengths)} bursts, {steps - says} queries, "
        f"{says} items, {int(np.count_nonzero(summary))} of them summaries"
    )
    return Rows(
        says,
        indptr,
        items,
        quality,
        arrivals.astype(np.int32),
        Forces("", statement),
        weight=query.astype(np.int32),
    )
