"""Retrieval and utility: what a cache serves for one row, in one compiled place for everybody."""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.jit import jit, lean
from softhit.variant import AGGREGATORS, Variant

__all__ = ["aggregator_code", "retrieve", "utility", "utility_scale"]

BEST, MEAN, COVERAGE = 0, 1, 2


def aggregator_code(variant: Variant) -> int:
    """Return the integer by which compiled code knows the aggregator."""
    return AGGREGATORS.index(variant.aggregator)


def utility_scale(quality_scale: int, variant: Variant) -> int:
    """Return the units per 1.0 of a utility: ``quality_scale``, times k for ``mean_topk``."""
    return quality_scale * variant.top_k if variant.aggregator == "mean_topk" else quality_scale


@lean
def _key(x: Any, quality: Any, ranks: Any, scored: Any) -> Any:
    return -np.int64(ranks[x]) if scored else np.int64(quality[x])


@lean
def retrieve(
    a: Any, b: Any, items: Any, quality: Any, ranks: Any, scored: Any, held: Any, k: Any, got: Any, worth: Any
) -> Any:
    """Write the first k held items of the entries a:b, in rank order, into ``got`` and ``worth``.

    Ranked by score (``ranks``, if ``scored``) or quality, descending, then by item id, ascending; rows are
    ascending in item id, so a strict comparison keeps ties in order. Returns how many were found.
    """
    n = np.int64(0)
    # until the end ``got`` holds places in the row, so that keys can be looked up again
    for x in range(a, b):
        if not held[items[x]]:
            continue
        key = _key(x, quality, ranks, scored)
        if n == k:
            if key <= _key(a + got[n - 1], quality, ranks, scored):
                continue
            place = n - 1
        else:
            place = n
            n += 1
        while place > 0 and _key(a + got[place - 1], quality, ranks, scored) < key:
            got[place] = got[place - 1]
            place -= 1
        got[place] = x - a
    for j in range(n):
        worth[j] = quality[a + got[j]]
        got[j] = items[a + got[j]]
    return n


@jit
def _coverage(worth: Any, n: Any, scale: Any) -> Any:
    """Return 1 - prod(1 - s), rounded down to the grid, exactly: the loss is rounded up."""
    # digits of prod(scale - s) in base scale, so that any k fits
    digits = np.zeros(n + 1, np.int64)
    digits[0] = 1
    for j in range(n):
        carry = np.int64(0)
        for d in range(n):
            value = digits[d] * (scale - worth[j]) + carry
            digits[d] = value % scale
            carry = value // scale
        # the top digit keeps everything: with scale 1 all others are 0
        digits[n] = digits[n] * (scale - worth[j]) + carry
    loss = digits[n - 1] + digits[n] * scale
    for d in range(n - 1):
        if digits[d] != 0:
            return scale - loss - 1
    return scale - loss


@lean
def utility(worth: Any, n: Any, aggregator: Any, scale: Any) -> Any:
    """Return the utility of the n retrieved qualities, in units of :func:`utility_scale`, as int64."""
    if n == 0:
        return np.int64(0)
    if aggregator == BEST:
        return np.int64(worth[0])
    if aggregator == MEAN:
        total = np.int64(0)
        for j in range(n):
            total += worth[j]
        return total
    return np.int64(_coverage(worth, n, scale))
