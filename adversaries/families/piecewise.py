"""Piecewise-stationary requests: a working set holds for a segment, then another takes its place."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.families.registry import Count, Forces, Rows, count, family, form, near, reach, real
from adversaries.families.ring import hard_rows, ring_rows, soft_units
from softhit.check import fail
from softhit.errors import InvalidInput
from softhit.simulate import TRACE_ROLE, child_rng

__all__ = ["noise_floor", "piecewise"]


def _places(
    rng: np.random.Generator, steps: int, w: int, segment: int, items: int, shift: int, zipf: float
) -> NDArray[Any]:
    """Return the place on the ring of all items that each step asks for, int32[T]."""
    if w + shift > items:
        raise InvalidInput(
            f"items must be at least w + drift*w = {w + shift}, so that a new working set is new, got {items}"
        )
    segments = -(-steps // segment)
    # which place of the window is the most popular one changes with each segment
    turn = rng.integers(0, w, size=segments)
    if zipf == 0:
        rank = rng.integers(0, w, size=steps)
    else:
        mass = np.cumsum(np.arange(1, w + 1, dtype=np.float64) ** -zipf)
        rank = np.searchsorted(mass, rng.random(steps) * mass[-1], side="right")
        np.minimum(rank, w - 1, out=rank)
    at = np.arange(segments, dtype=np.int64)
    rank += np.repeat(turn, segment)[:steps]
    rank %= w
    rank += np.repeat(at * shift % items, segment)[:steps]
    rank %= items
    return rank


def _shift(drift: float, w: int) -> int:
    return 0 if drift == 0 else max(1, int(np.floor(drift * w + 0.5)))


def _make(
    seed: int,
    steps: int,
    w: int,
    segment: int,
    items: int,
    drift: float,
    zipf: float,
    form: str,
    near: float,
    reach: int,
    top: Fraction,
) -> tuple[tuple[Any, Any, Any], NDArray[np.int32]]:
    rng = child_rng(seed, TRACE_ROLE)
    ring = rng.permutation(items).astype(np.int32)
    place = _places(rng, steps, w, segment, items, _shift(drift, w), zipf)
    asked = ring[place]
    rows = hard_rows(asked, top) if form == "hard" else ring_rows(place, ring, soft_units(near, reach, top))
    return rows, asked


@family(
    "C5, C7: the families on which SOLAR's expected slope ratio stays below 3 (in the stated ranges)",
    w=count("W, the size of the working set"),
    segment=count("steps in a segment"),
    items=count("N, all items"),
    drift=real("share of the working set that is replaced at each change; 1: disjoint, 0: stationary"),
    zipf=real("exponent of the popularity within the working set; 0: uniform", high=10),
    form=form,
    near=near,
    reach=reach,
)
def piecewise(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    w: Count = "K",
    segment: Count = "20K",
    items: Count = "10K",
    drift: float = 1.0,
    zipf: float = 0.0,
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Draw requests from a working set of w items that changes every ``segment`` steps.

    All N items lie on a ring in a random order. The working set of segment j is the window of w places that
    starts at ``j * shift``, shift = drift*w rounded half up (at least 1 unless drift = 0): with drift = 1
    consecutive sets are disjoint, with less they overlap, and a set returns when the window has gone round.
    Requests are independent within a segment: uniform, or Zipf with ranks along the window from a random
    start. Each step's item also arrives.

    Guarantee (claims C5, C7; serve_then_update, stream, free fill, best)
    ---------------------------------------------------------------------
    This family forces no lower bound by itself; it is the stage of C5: for K <= 32, lambda <= 10,
    K/2 <= w <= 4K and 10K <= segment <= 50K the expected slope ratio of ``solar`` over its coins is below
    3 (empirical). It contains C1 in the limit: w = K+1, drift 0, lambda small. C7: with w <= K a segment
    costs bounded amounts to learn, and the ratio tends to that of the learning costs.

    Soft: a query for place p is served with quality 1 by its item and with ``near * (reach+1-d)/reach`` by
    the items at distance d in 1..reach on the ring of all N items (also those outside the working set).

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace does not depend on lambda.
    w, segment, items : count
        Defaults ``K``, ``20K``, ``10K``; items >= w + shift.
    drift : float
        In [0, 1]; default 1.
    zipf : float
        Default 0 (uniform).
    form, near, reach
        See above.

    Examples
    --------
    >>> trace = piecewise(capacity=4, steps=160, seed=1, segment="20K")
    >>> first, second = set(trace.requests[:80].tolist()), set(trace.requests[80:].tolist())
    >>> len(first), len(second), len(first & second)
    (4, 4, 0)
    """
    rows, asked = _make(seed, steps, w, segment, items, drift, zipf, form, near, reach, Fraction(1))
    inside = (
        capacity <= 32
        and switch_cost <= 10
        and capacity <= 2 * w <= 8 * capacity
        and 10 * capacity <= segment <= 50 * capacity
    )
    statement = (
        f"w = {w}, segment = {segment}, K = {capacity}: "
        + ("inside" if inside else "outside")
        + " the ranges in which C5 says that the expected slope ratio of solar is below 3"
    )
    return Rows(items, *rows, asked, Forces("C5", statement))


@family(
    "C7, vacuity: every schedule pays at least floor*T, one that never switches at most T",
    floor=real("f: no item serves a query better than 1 - f"),
    w=count("W, the size of the working set"),
    segment=count("steps in a segment"),
    items=count("N, all items"),
    drift=real("share of the working set that is replaced at each change; 1: disjoint, 0: stationary"),
    zipf=real("exponent of the popularity within the working set; 0: uniform", high=10),
    form=form,
    near=near,
    reach=reach,
)
def noise_floor(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    floor: float = 0.5,
    w: Count = "K",
    segment: Count = "20K",
    items: Count = "10K",
    drift: float = 1.0,
    zipf: float = 0.0,
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Draw requests as :func:`piecewise` does, but let no item serve a query better than 1 - floor.

    Guarantee (claim C7 and vacuity; every variant with aggregator best)
    --------------------------------------------------------------------
    Every schedule pays at least ``floor * T``. So a policy that fills the cache and never switches
    (cost at most T) has ratio at most ``1/floor`` on every such trace, whatever the requests: "ratio
    <= 3" proves nothing from floor = 1/3 on, and only the ratio above the floor, (ALG-F)/(OPT-F), speaks.
    With w <= K and segments growing the ratio of every policy that learns a segment at bounded cost
    tends to 1.

    Soft: as in :func:`piecewise`, all qualities multiplied by 1 - floor.

    Parameters
    ----------
    floor : float
        In [0, 1]; 1 - floor is rounded to the quality grid. Default 0.5.
    others
        See :func:`piecewise`.

    Examples
    --------
    >>> from softhit import floor_units
    >>> trace = noise_floor(capacity=4, steps=100, floor=0.4)
    >>> int(trace.quality.max()), floor_units(trace) >= 0.4 * 100 * 10_000
    (6000, True)
    """
    top = 1 - Fraction(repr(floor))
    rows, asked = _make(seed, steps, w, segment, items, drift, zipf, form, near, reach, top)
    best = Fraction(int(soft_units(0, 1, top)[0]), 10_000)
    if best == 1 and floor > 0:
        fail("floor", floor, "0, or large enough to show on the quality grid of 1/10000")
    least = (1 - best) * steps
    ratio = f"its ratio is at most {1 / (1 - best)}" if best < 1 else "which says nothing at floor 0"
    statement = f"every schedule pays at least {least}, one that never switches at most {steps}: {ratio}"
    forces = Forces("C7", statement, variant="any order/any availability/any fill/best")
    return Rows(items, *rows, asked, forces)
