"""Drift: topics are clusters on the sphere whose means rotate, so that what is held grows stale."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.families.registry import Count, Forces, Rows, count, family, form, real
from softhit.build import COSINE_GRID, CosineClipped, QualityRule, Threshold
from softhit.simulate import TRACE_ROLE, child_rng
from softhit.trace import DEFAULT_SCALE

__all__ = ["drift", "von_mises_fisher"]

Floats = NDArray[np.float64]

_BLOCK = 1 << 25


def von_mises_fisher(rng: np.random.Generator, means: Floats, kappa: float) -> Floats:
    """Draw one unit vector around each mean, with density proportional to exp(kappa <mean, x>).

    Parameters
    ----------
    means : float[n, d]
        Unit vectors, d >= 2.
    kappa : float
        Concentration >= 0; 0 is the uniform law.

    References
    ----------
    A. Wood, "Simulation of the von Mises Fisher distribution", Communications in Statistics 23 (1994).
    """
    n, d = means.shape
    # the cosine to the mean, by rejection from an envelope in the form of a Beta law
    b = (d - 1) / (2 * kappa + math.sqrt(4 * kappa * kappa + (d - 1) ** 2))
    top = (1 - b) / (1 + b)
    # log(1 - top^2), with 1 - top = 2b/(1+b), which keeps its digits when top is near 1
    limit = kappa * top + (d - 1) * (math.log(4 * b) - 2 * math.log1p(b))
    cosine = np.empty(n)
    left = np.arange(n)
    while len(left):
        beta = rng.beta((d - 1) / 2, (d - 1) / 2, len(left))
        # 1 - cosine, likewise
        short = 2 * b * beta / (1 - (1 - b) * beta)
        accept = kappa * (1 - short) + (d - 1) * np.log1p(-top * (1 - short)) - limit
        good = accept >= np.log1p(-rng.random(len(left)))
        cosine[left[good]] = 1 - short[good]
        left = left[~good]
    side = rng.standard_normal((n, d))
    side -= np.einsum("ij,ij->i", side, means)[:, None] * means
    side *= np.sqrt(np.maximum(0, 1 - cosine**2) / np.einsum("ij,ij->i", side, side))[:, None]
    side += cosine[:, None] * means
    side /= np.sqrt(np.einsum("ij,ij->i", side, side))[:, None]
    return side


def _rows(queries: Any, things: Any, born: Any, asked_from: Any, rule: QualityRule, floor: float) -> Any:
    """Return (step, item, units) of all pairs of positive quality; items appear at step ``born``.

    ``asked_from`` cuts the steps into epochs, and no item of a later epoch can be in a row.
    """
    steps: list[Any] = []
    whats: list[Any] = []
    worths: list[Any] = []
    for low_epoch, high_epoch in itertools.pairwise(asked_from.tolist()):
        known = np.flatnonzero(born < high_epoch)
        columns = np.ascontiguousarray(things[known].T)
        height = max(1, _BLOCK // max(1, 4 * len(known)))
        for low in range(low_epoch, high_epoch, height):
            block = queries[low : min(low + height, high_epoch)]
            # single precision finds the candidates, double precision says what they are worth
            step, what = np.divmod(np.flatnonzero((block @ columns).ravel() >= floor - 1e-4), len(known))
            step, what = step + low, known[what]
            there = born[what] <= step
            step, what = step[there], what[there]
            exact = np.einsum("ij,ij->i", queries[step].astype(np.float64), things[what].astype(np.float64))
            units = np.rint(rule(np.rint(exact * COSINE_GRID) / COSINE_GRID) * DEFAULT_SCALE).astype(np.int32)
            keep = units > 0
            steps.append(step[keep])
            whats.append(what[keep].astype(np.int32))
            worths.append(units[keep])
    none = np.zeros(0, np.int32)
    return tuple(
        np.concatenate([*parts, none.astype(kind)])
        for parts, kind in ((steps, np.int64), (whats, np.int32), (worths, np.int32))
    )


def _best(n_steps: int, step: Any, units: Any, of: Any) -> Any:
    """Return the best quality per step among the entries ``of``, in units."""
    best = np.zeros(n_steps, np.int32)
    np.maximum.at(best, step[of], units[of])
    return best


@family(
    "no theorem: what `never` pays on the trace, and how far the first epoch's items have decayed by its end",
    topics=count("clusters; each has one current item"),
    epochs=count("how often each topic's item is replaced by a new one, plus one"),
    angle=real("degrees by which each mean rotates from the first step to the last", high=3600),
    dim=count("dimension of the vectors", low=2, high=4096),
    kappa=real("concentration of the clusters; 0: uniform on the sphere", high=1e6),
    floor=real("cosine below which an item does not serve"),
    form=form,
)
def drift(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    topics: Count = "K",
    epochs: Count = 4,
    angle: float = 90.0,
    dim: Count = 16,
    kappa: float = 100.0,
    floor: float = 0.7,
    form: str = "hard",
) -> Rows:
    """Ask uniform topics; a query is a von Mises-Fisher draw around the topic's mean, which rotates.

    The mean of each topic rotates steadily in a random plane, by ``angle`` in all. The trace has ``epochs``
    parts; in each, every topic has one item, a draw around its mean at the start of the part. The item of
    the topic and part arrives at each of its steps. Rows hold all items that have arrived (also of other
    topics) whose quality is positive; the trace carries the query and item vectors.

    Guarantee (serve_then_update, stream, free fill, best)
    ------------------------------------------------------
    No competitive ratio is forced. In expectation the cosine of a query to an item drawn phi before is
    ``A^2 cos(phi)`` with ``A = I_{d/2}(kappa)/I_{d/2-1}(kappa)``, so each single item that is kept decays.
    What a cache makes of that is computed per trace: the exact cost of ``never``, which holds the first K
    items for ever, and the mean quality in the last part of the best item of the first part (no cache that
    stopped replacing in the first part can serve better there) and of the best item of all.

    Hard: the rule is ``threshold(floor)``: an item serves fully or not at all. Several may serve one query.

    Soft: the rule is ``cosine_clipped(floor)``: quality is the cosine, or 0 below ``floor``.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda; the trace depends on T, the seed and the parameters below only. The work is proportional
        to T times N = topics * epochs.
    topics, epochs, dim : count
        Defaults ``K``, 4, 16.
    angle, kappa, floor : float
        Defaults 90 (degrees), 100, 0.7.

    Examples
    --------
    >>> trace = drift(capacity=4, steps=400, seed=1, form="soft")
    >>> trace.n_items, trace.query_vectors.shape, float(trace.quality.min()) >= 0.7 * 10_000
    (16, (400, 16), True)
    """
    rng = child_rng(seed, TRACE_ROLE)
    plane = rng.standard_normal((2, topics, dim))
    first = plane[0] / np.linalg.norm(plane[0], axis=1)[:, None]
    second = plane[1] - np.einsum("ij,ij->i", plane[1], first)[:, None] * first
    second /= np.linalg.norm(second, axis=1)[:, None]
    turn = math.radians(angle) / max(1, steps)
    cuts = np.array([steps * e // epochs for e in range(epochs + 1)])

    def means(topic: Any, at: Any) -> Any:
        return np.cos(turn * at)[:, None] * first[topic] + np.sin(turn * at)[:, None] * second[topic]

    of_item = np.tile(np.arange(topics), epochs)
    things = von_mises_fisher(rng, means(of_item, np.repeat(cuts[:-1], topics)), kappa).astype(np.float32)
    asked = rng.integers(0, topics, steps)
    queries = von_mises_fisher(rng, means(asked, np.arange(steps)), kappa).astype(np.float32)
    part = np.repeat(np.arange(epochs), np.diff(cuts))
    arrivals = (part * topics + asked).astype(np.int32)
    # the step at which each item arrives for the first time; an item that never does is in no row
    born = np.full(topics * epochs, steps, np.int64)
    born[arrivals[::-1]] = np.arange(steps)[::-1]
    rule: QualityRule = Threshold(floor) if form == "hard" else CosineClipped(floor)
    step, item, units = _rows(queries, things, born, cuts, rule, floor)
    order = np.argsort(step * max(1, topics * epochs) + item)
    step, item, units = step[order], item[order], units[order]
    indptr = np.zeros(steps + 1, np.int64)
    np.cumsum(np.bincount(step, minlength=steps), out=indptr[1:])

    kept = np.zeros(topics * epochs, bool)
    kept[np.argsort(born, kind="stable")[:capacity]] = True
    served = _best(steps, step, units, kept[item] & (born[item] < step))
    price = steps - Fraction(int(served.sum(dtype=np.int64)), DEFAULT_SCALE)
    statement = f"forces no ratio; {rule.name}: never pays {price} on {steps} steps"
    late = slice(int(cuts[-2]), steps)
    if cuts[-2] < steps:
        old, new = (
            float(_best(steps, step, units, born[item] < limit)[late].mean()) / DEFAULT_SCALE
            for limit in (cuts[1], steps)
        )
        statement += (
            f"; in the last of {epochs} parts the best item of the first has mean quality {old:.4f}, "
            f"the best of all {new:.4f}"
        )
    return Rows(
        topics * epochs,
        indptr,
        item,
        units,
        arrivals,
        Forces("", statement, exact={"never": str(price)}),
        query_vectors=queries,
        item_vectors=things,
    )
