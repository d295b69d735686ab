"""The request sequences and soft traces that the benchmarks share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softhit import Trace
from softhit.trace import DEFAULT_SCALE

__all__ = ["soft", "topics", "zipf"]


def zipf(n_steps: int, n_items: int = 10_000, exponent: float = 0.9, seed: int = 0) -> NDArray[np.int64]:
    """Return independent requests with Zipf popularity, int64[T]."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, n_items + 1) ** exponent
    return rng.choice(n_items, n_steps, p=weights / weights.sum())


def soft(n_steps: int, n_items: int, per_row: int = 15, seed: int = 0) -> Trace:
    """Return a trace whose queries are served by ``per_row`` neighbours on a ring, with graded quality.

    Queries drift: Zipf over items within ten segments, each with its own order of popularity. The arrival
    of a step is the item nearest to its query.
    """
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, n_items + 1) ** 0.9
    weights /= weights.sum()
    lengths = np.diff(np.linspace(0, n_steps, 11).astype(int))
    centre = np.concatenate([rng.permutation(n_items)[rng.choice(n_items, n, p=weights)] for n in lengths])
    offset = np.arange(per_row) - per_row // 2
    items = (centre[:, None] + offset) % n_items
    grade = np.maximum(0.05, 1 - np.abs(offset) / (per_row // 2 + 1))
    noise = rng.random((n_steps, per_row)) * 0.3
    quality = np.rint(np.clip(grade * (1 - noise), 0.01, 1) * DEFAULT_SCALE).astype(np.int32)
    order = np.argsort(items, axis=1)
    return Trace(
        n_items=n_items,
        indptr=np.arange(n_steps + 1, dtype=np.int64) * per_row,
        items=np.take_along_axis(items, order, 1).ravel().astype(np.int32),
        quality=np.take_along_axis(quality, order, 1).ravel(),
        arrivals=centre.astype(np.int32),
        metadata={"generator": "benchmark soft ring", "seed": seed},
    )


def topics(n_steps: int, n_items: int, per_topic: int = 20, seed: int = 0) -> Trace:
    """Return a trace of queries about topics; the items of the topic serve it, each more or less well.

    Topics are Zipf within ten segments, each with its own order of popularity. An item has a level of its own
    that varies from query to query (a logistic curve of a normal variable); qualities below 0.15 and one in
    ten of the others are left out, which leaves about 0.9 ``per_topic`` entries a row. The arrival of a step
    is one of the topic's items.
    """
    rng = np.random.default_rng(seed)
    n_topics = max(2, n_items // per_topic)
    topic = rng.integers(0, n_topics, n_items)
    members = np.argsort(topic, kind="stable")
    begin = np.searchsorted(topic[members], np.arange(n_topics + 1))
    level = rng.normal(size=n_items)
    weights = 1 / np.arange(1, n_topics + 1) ** 0.9
    weights /= weights.sum()
    lengths = np.diff(np.linspace(0, n_steps, 11).astype(int))
    asked = np.concatenate([rng.permutation(n_topics)[rng.choice(n_topics, n, p=weights)] for n in lengths])
    counts = np.diff(begin)[asked]
    step = np.repeat(np.arange(n_steps), counts)
    place = np.arange(len(step)) - np.repeat(np.cumsum(counts) - counts, counts)
    items = members[begin[asked[step]] + place]
    quality = 1 / (1 + np.exp(-(level[items] + 0.7 * rng.normal(size=len(items)))))
    kept = (quality > 0.15) & (rng.random(len(items)) < 0.9)
    indptr = np.zeros(n_steps + 1, np.int64)
    np.cumsum(np.bincount(step[kept], minlength=n_steps), out=indptr[1:])
    pick = (rng.random(n_steps) * counts).astype(np.int64)
    arrivals = np.where(counts > 0, members[np.minimum(begin[asked] + pick, n_items - 1)], -1)
    return Trace(
        n_items=n_items,
        indptr=indptr,
        items=items[kept].astype(np.int32),
        quality=np.rint(quality[kept] * DEFAULT_SCALE).astype(np.int32),
        arrivals=arrivals.astype(np.int32),
        metadata={"generator": "benchmark soft topics", "seed": seed},
    )
