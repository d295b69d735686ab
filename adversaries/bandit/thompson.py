"""Thompson sampling: evict the slot whose posterior draw is lowest, found without making every draw.

All posteriors but one stay the same from a round to the next. A level x cuts them: draws below x come from
candidates (``posterior.py``), which arm j has with probability p_j. Poisson points of rate ``-log(1 - p_j)``
say which arms have one, and a tree of rates finds them: a round costs the number of candidates, not of arms.
Arms with large p_j are *hot* and drawn plainly. If no draw lies below x, the others are drawn from above x.

The law of the evicted slot is exactly that of the lowest of K independent draws, up to rounding of doubles,
for any level that is fixed before the round; the level follows what past rounds cost, so it changes the speed
and nothing else. ``thompson_plain`` is the definition: K draws, the lowest wins.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adversaries.bandit.posterior import draw_beta, fits, tangent
from softhit.jit import jit, lean

__all__ = ["arrange", "lowest_below", "thompson", "thompson_plain"]

HOT = 0.4
_FEW = 4  # so few arms are all drawn
# The level moves by this part of a posterior's spread, towards one draw from above it a round: there one
# candidate more costs about what it saves.
_STEP = 0.06
_LOOK = 64  # rounds between two looks at the level, at least


@lean
def _set(
    j: Any, losses: Any, others: Any, x: Any, rate: Any, slope: Any, hot: Any, place: Any, n_hot: Any
) -> Any:
    """Put arm j into the tree or among the hot ones; return how many are hot."""
    p, g = tangent(losses[j], others[j], x)
    slope[j] = g
    value = 0.0
    if p < HOT:
        value = -math.log1p(-p)
        if place[j] >= 0:
            n_hot -= 1
            last = hot[n_hot]
            hot[place[j]] = last
            place[last] = place[j]
            place[j] = -1
    elif place[j] < 0:
        hot[n_hot] = j
        place[j] = n_hot
        n_hot += 1
    node = len(rate) // 2 + j
    rate[node] = value
    while node > 1:
        node >>= 1
        rate[node] = rate[2 * node] + rate[2 * node + 1]
    return n_hot


@jit
def arrange(losses: Any, others: Any, x: Any) -> Any:
    """Return (rate, slope, hot, place, seen, number of hot arms) for the level x."""
    k = len(losses)
    half = 1
    while half < k:
        half *= 2
    rate, slope = np.zeros(2 * half), np.zeros(k)
    hot, place, seen = np.zeros(k, np.int64), np.full(k, -1, np.int64), np.full(k, -1, np.int64)
    n_hot = 0
    for j in range(k):
        n_hot = _set(j, losses, others, x, rate, slope, hot, place, n_hot)
    return rate, slope, hot, place, seen, n_hot


@lean
def lowest_below(
    rng: Any, losses: Any, others: Any, x: Any, rate: Any, slope: Any,
    hot: Any, place: Any, n_hot: Any, seen: Any, stamp: Any, work: Any,
) -> Any:  # fmt: skip
    """Return the arm with the lowest draw; ``work`` counts [candidates, hot draws, draws from above]."""
    winner = -1
    best = 2.0
    for i in range(n_hot):
        j = hot[i]
        z = draw_beta(rng, losses[j], others[j])
        if z < best:
            best = z
            winner = j
    work[1] += n_hot
    half = len(rate) // 2
    total = rate[1]
    point = rng.standard_exponential()
    while point < total:
        rest = point
        node = 1
        while node < half:
            node *= 2
            if rest >= rate[node]:
                rest -= rate[node]
                node += 1
        j = node - half
        point += rng.standard_exponential()
        # rounding may lead beside the last positive rate
        if rate[node] <= 0.0 or seen[j] == stamp:
            continue
        seen[j] = stamp
        work[0] += 1
        z = x - rng.standard_exponential() / slope[j]
        if z < best and fits(rng, losses[j], others[j], x, slope[j], z):
            best = z
            winner = j
    if best >= x:
        for j in range(len(losses)):
            if place[j] < 0:
                z = draw_beta(rng, losses[j], others[j])
                while z < x:
                    z = draw_beta(rng, losses[j], others[j])
                    work[2] += 1
                work[2] += 1
                if z < best:
                    best = z
                    winner = j
    return winner


@jit
def thompson_plain(rng: Any, means: Any, marks: Any, pulls: Any, work: Any) -> None:
    """Play by K draws a round: the definition, kept to test against."""
    k = len(means)
    losses, others = np.zeros(k), np.zeros(k)
    count = np.zeros(k, np.int64)
    t = 0
    for m in range(len(marks)):
        while t < marks[m]:
            winner = 0
            best = 2.0
            for j in range(k):
                z = draw_beta(rng, losses[j], others[j])
                if z < best:
                    best = z
                    winner = j
            work[1] += k
            if rng.random() < means[winner]:
                losses[winner] += 1.0
            else:
                others[winner] += 1.0
            count[winner] += 1
            t += 1
        for j in range(k):
            pulls[m, j] = count[j]


@jit
def thompson(rng: Any, means: Any, marks: Any, pulls: Any, work: Any) -> None:
    """Play up to the last mark; write the pulls of each arm at each mark.

    Parameters
    ----------
    rng : numpy.random.Generator
    means : float64[K]
        Probability that an eviction of the slot loses 1.
    marks : int64[M]
        Rounds, increasing.
    pulls : int64[M, K], output
    work : int64[3], output
        Candidates, plain draws of hot arms, draws from above the level.
    """
    k = len(means)
    if k <= _FEW:
        thompson_plain(rng, means, marks, pulls, work)
        return
    losses, others = np.zeros(k), np.zeros(k)
    count = np.zeros(k, np.int64)
    x = 1.0 / (1.0 + k)
    rate, slope, hot, place, seen, n_hot = arrange(losses, others, x)
    before = 0
    since = 0
    next_look = _LOOK
    t = 0
    for m in range(len(marks)):
        while t < marks[m]:
            j = lowest_below(rng, losses, others, x, rate, slope, hot, place, n_hot, seen, t, work)
            if rng.random() < means[j]:
                losses[j] += 1.0
            else:
                others[j] += 1.0
            count[j] += 1
            t += 1
            n_hot = _set(j, losses, others, x, rate, slope, hot, place, n_hot)
            if t >= next_look:
                next_look = t + max(2 * k, _LOOK)
                above = (work[2] - before) / (t - since)
                before = work[2]
                since = t
                # the winner is where the level belongs; its spread is the unit in which to move it
                a = losses[j] + 1.0
                b = others[j] + 1.0
                spread = math.sqrt(a * b / (a + b + 1.0)) / (a + b)
                x += _STEP * min(above - 1.0, 4.0) * spread
                x = min(max(x, 1e-9), 1.0 - 1e-9)
                for i in range(k):
                    n_hot = _set(i, losses, others, x, rate, slope, hot, place, n_hot)
        for j in range(k):
            pulls[m, j] = count[j]
