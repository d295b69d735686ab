"""Rivals of Thompson sampling: uniform, UCB1 turned to losses, and the lowest posterior mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softhit.jit import jit

__all__ = ["lowest_posterior_mean", "ucb1", "uniform"]


@jit
def uniform(rng: Any, means: Any, marks: Any, pulls: Any, work: Any) -> None:
    """Evict a slot drawn uniformly; the expected regret after T rounds is T times the mean gap."""
    k = len(means)
    count = np.zeros(k, np.int64)
    t = 0
    for m in range(len(marks)):
        while t < marks[m]:
            count[rng.integers(0, k)] += 1
            t += 1
        for j in range(k):
            pulls[m, j] = count[j]


@jit
def ucb1(rng: Any, means: Any, marks: Any, pulls: Any, work: Any) -> None:
    """UCB1 (Auer, Cesa-Bianchi and Fischer 2002) on the gains 1 - loss.

    Every slot once, in order; then, n rounds having passed, the lowest
    ``mean loss of j - sqrt(2 log n / n_j)``, the first such slot on a tie.
    """
    k = len(means)
    losses = np.zeros(k)
    count = np.zeros(k, np.int64)
    t = 0
    for m in range(len(marks)):
        while t < marks[m]:
            winner = t
            if t >= k:
                reach = 2.0 * math.log(t)
                best = np.inf
                for j in range(k):
                    index = losses[j] / count[j] - math.sqrt(reach / count[j])
                    if index < best:
                        best = index
                        winner = j
            if rng.random() < means[winner]:
                losses[winner] += 1.0
            count[winner] += 1
            t += 1
        for j in range(k):
            pulls[m, j] = count[j]


@jit
def lowest_posterior_mean(rng: Any, means: Any, marks: Any, pulls: Any, work: Any) -> None:
    """Greedy: the lowest posterior mean (1 + losses)/(2 + n_j), the first one on a tie; never explores."""
    k = len(means)
    losses = np.zeros(k)
    count = np.zeros(k, np.int64)
    t = 0
    for m in range(len(marks)):
        while t < marks[m]:
            winner = 0
            best = np.inf
            for j in range(k):
                mean = (1.0 + losses[j]) / (2.0 + count[j])
                if mean < best:
                    best = mean
                    winner = j
            if rng.random() < means[winner]:
                losses[winner] += 1.0
            count[winner] += 1
            t += 1
        for j in range(k):
            pulls[m, j] = count[j]
