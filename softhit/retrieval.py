"""Retrieval and utility: what a cache serves for one row, in one compiled place for everybody."""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit
from softhit.variant import AGGREGATORS, Variant

__all__ = ["aggregator_code", "retrieve", "utility", "utility_scale"]

BEST, MEAN, COVERAGE = 0, 1, 2


def aggregator_code(variant: Variant) -> int:
    """Return the integer by which compiled code knows the aggregator."""
    return AGGREGATORS.index(variant.aggregator)


def utility_scale(quality_scale: int, variant: Variant) -> int:
    """Return the units per 1.0 of a utility: ``quality_scale``, times k for ``mean_topk``."""
    return quality_scale * variant.top_k if variant.aggregator == "mean_topk" else quality_scale


@jit
def retrieve(
    a: Any, b: Any, items: Any, quality: Any, ranks: Any, scored: Any, held: Any, k: Any, got: Any, worth: Any
) -> Any:
    """Write the first k held items of the entries a:b, in rank order, into ``got`` and ``worth``.

    Ranked by score (``ranks``, if ``scored``) or quality, descending, then by item id, ascending; rows are
    ascending in item id, so a strict comparison keeps ties in order. Returns how many were found.
    """
    if k == 1:
        best: Any = np.int64(-1)
        key = np.int64(0)
        for x in range(a, b):
            if held[items[x]]:
                value = -np.int64(ranks[x]) if scored else np.int64(quality[x])
                if best < 0 or value > key:
                    best = x
                    key = value
        if best < 0:
            return 0
        got[0] = items[best]
        worth[0] = quality[best]
        return 1
    n = 0
    keys = np.empty(k, np.int64)
    for x in range(a, b):
        if not held[items[x]]:
            continue
        value = -np.int64(ranks[x]) if scored else np.int64(quality[x])
        if n == k and value <= keys[n - 1]:
            continue
        place = n if n < k else k - 1
        while place > 0 and keys[place - 1] < value:
            if place < k:
                keys[place] = keys[place - 1]
                got[place] = got[place - 1]
                worth[place] = worth[place - 1]
            place -= 1
        keys[place] = value
        got[place] = items[x]
        worth[place] = quality[x]
        if n < k:
            n += 1
    return n


@jit
def utility(worth: Any, n: Any, aggregator: Any, scale: Any) -> Any:
    """Return the utility of the n retrieved qualities, in units of :func:`utility_scale`, as int64."""
    if n == 0:
        return np.int64(0)
    if aggregator == 0:
        return np.int64(worth[0])
    if aggregator == 1:
        total = np.int64(0)
        for j in range(n):
            total += worth[j]
        return total
    # exact: digits of prod(scale - s) in base `scale`, so any k fits; the loss is rounded up
    digits = np.zeros(n + 1, np.int64)
    digits[0] = 1
    for j in range(n):
        carry = np.int64(0)
        for d in range(n + 1):
            value = digits[d] * (scale - worth[j]) + carry
            digits[d] = value % scale
            carry = value // scale
    below = False
    for d in range(n - 1):
        if digits[d] != 0:
            below = True
    loss = digits[n - 1] + digits[n] * scale
    if below:
        loss += 1
    return scale - loss
