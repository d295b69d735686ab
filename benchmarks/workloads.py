"""The request sequences and soft traces that the benchmarks share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softhit import Trace
from softhit.trace import DEFAULT_SCALE

__all__ = ["soft", "zipf"]


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
