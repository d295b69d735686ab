"""Rows of traces in which an item's neighbours, on a ring or in time, serve its queries less well."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.trace import DEFAULT_SCALE

__all__ = ["hard_rows", "ring_offsets", "ring_rows", "soft_units", "trail_rows", "weave"]

Table = tuple[Any, Any, Any]


def soft_units(near: float, reach: int, top: Fraction = Fraction(1)) -> NDArray[np.int32]:
    """Return the quality (units of 1/10000) at ring distance 0..reach, times ``top``.

    Distance 0 has quality 1, distance d in 1..reach has ``near * (reach + 1 - d) / reach``.

    >>> soft_units(0.5, 2).tolist(), soft_units(0.5, 1, Fraction(1, 2)).tolist()
    ([10000, 5000, 2500], [5000, 2500])
    """
    steps = np.arange(1, reach + 1)
    graded = np.r_[1.0, near * (reach + 1 - steps) / reach]
    units: NDArray[np.int32] = np.rint(graded * float(top) * DEFAULT_SCALE).astype(np.int32)
    return units


def ring_offsets(size: int, reach: int) -> NDArray[np.int64]:
    """Return the distinct offsets -reach..reach on a ring of ``size`` items (0 first, each item once).

    >>> ring_offsets(5, 1).tolist(), ring_offsets(4, 7).tolist(), ring_offsets(1, 1).tolist()
    ([0, -1, 1], [0, -1, 1, 2], [0])
    """
    left, right = min(reach, (size - 1) // 2), min(reach, size // 2)
    return np.array([0, *(-d for d in range(1, left + 1)), *range(1, right + 1)], np.int64)


def hard_rows(asked: NDArray[Any], top: Fraction = Fraction(1)) -> Table:
    """Return (indptr, items, quality) of rows in which the asked item alone serves, with quality ``top``."""
    units = int(soft_units(0, 1, top)[0])
    if units == 0:
        return np.zeros(len(asked) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)
    return np.arange(len(asked) + 1, dtype=np.int64), asked, np.full(len(asked), units, np.int32)


def ring_rows(place: NDArray[Any], ring: NDArray[np.int32], units: NDArray[np.int32]) -> Table:
    """Return (indptr, items, quality) for queries at places of a ring, served by near places too.

    Parameters
    ----------
    place : int[T]
        Place 0..R-1 that each step asks for.
    ring : int32[R]
        The item at each place.
    units : int32[reach + 1]
        Quality at each distance, from :func:`soft_units`.
    """
    size = len(ring)
    if size == 0:
        return hard_rows(np.zeros(0, np.int32))
    offsets = ring_offsets(size, len(units) - 1)
    offsets = offsets[units[np.abs(offsets)] > 0]
    width = len(offsets)
    # one table row per place, sorted by item once, then copied per query
    table = ring[(np.arange(size)[:, None] + offsets[None, :]) % size]
    order = np.argsort(table, axis=1)
    worth = units[np.abs(offsets)][order]
    table = np.take_along_axis(table, order, axis=1)
    indptr = np.arange(len(place) + 1, dtype=np.int64) * width
    return indptr, table[place].ravel(), worth[place].ravel()


def trail_rows(asked: NDArray[Any], before: NDArray[Any], units: NDArray[np.int32]) -> Table:
    """Return (indptr, items, quality) of rows served by the asked item and those just before it.

    Parameters
    ----------
    asked : int[T]
        Item that each step asks for.
    before : int[T]
        How many of the items asked - 1, asked - 2, ... may serve too.
    units : int32[reach + 1]
        Quality of asked, asked - 1, ..., from :func:`soft_units`.

    Examples
    --------
    >>> trail_rows(np.array([7, 8, 9]), np.array([0, 1, 2]), soft_units(0.5, 1))[1].tolist()
    [7, 7, 8, 8, 9]
    """
    counts = 1 + np.clip(before, 0, np.count_nonzero(units) - 1).astype(np.int64)
    indptr = np.zeros(len(asked) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    age = np.repeat(indptr[1:], counts) - 1 - np.arange(indptr[-1])
    return indptr, (np.repeat(asked, counts) - age).astype(np.int32), units[age]


def weave(mask: NDArray[np.bool_], ones: Table, others: Table) -> Table:
    """Return the rows of ``ones`` at the steps of ``mask`` and those of ``others`` elsewhere, in order.

    >>> mask = np.array([True, False, True])
    >>> weave(mask, hard_rows(np.array([4, 5])), hard_rows(np.array([9])))[1].tolist()
    [4, 9, 5]
    """
    counts = np.empty(len(mask), np.int64)
    counts[mask], counts[~mask] = np.diff(ones[0]), np.diff(others[0])
    indptr = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    inside = np.repeat(mask, counts)
    items, quality = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int32)
    for into, given in ((items, 1), (quality, 2)):
        into[inside], into[~inside] = ones[given], others[given]
    return indptr, items, quality
