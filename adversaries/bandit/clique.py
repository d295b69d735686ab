"""The game in which every kept slot shows its loss: exponential weights on the loopless clique.

In round t slot I_t ~ p is evicted and loses l_t(I_t), unseen; all the other losses are seen. With q
proportional to ``exp(-eta L_i)``, L_i the sum of the estimates ``l_t(i) 1[I_t != i] / (1 - p_i)``, the slot
is drawn from ``p = (1 - gamma) q + gamma/K``. The estimates are unbiased, and at most 1/eta if gamma = 2 eta.

Losses are those of an oblivious adversary: a matrix, or drawn anew each round.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_int
from softhit.jit import jit, lean

__all__ = ["chances", "expected_loss", "play_matrix", "play_means", "rates"]


def rates(k: int, rounds: int) -> tuple[float, float]:
    """Return (eta, gamma) of the proof: ``eta = min(1/4, sqrt(log K / T)/2)``, gamma = 2 eta.

    >>> rates(1, 100), rates(2, 1)
    ((0.0, 0.0), (0.25, 0.5))
    """
    check_int("k", k, low=1)
    check_int("rounds", rounds, low=1)
    eta = min(0.25, 0.5 * math.sqrt(math.log(k) / rounds))
    return eta, 2 * eta


@lean
def chances(total: Any, eta: Any, gamma: Any, q: Any, p: Any) -> None:
    """Write exponential weights q of the estimated losses ``total``, and what they are mixed to, p."""
    k = len(total)
    least = total[0]
    for i in range(1, k):
        least = min(least, total[i])
    mass = 0.0
    for i in range(k):
        q[i] = math.exp(-eta * (total[i] - least))
        mass += q[i]
    for i in range(k):
        q[i] /= mass
        p[i] = (1.0 - gamma) * q[i] + gamma / k


@lean
def _evicted(rng: Any, p: Any) -> Any:
    u = rng.random()
    for i in range(len(p) - 1):
        u -= p[i]
        if u < 0.0:
            return i
    return len(p) - 1


@jit
def play_means(rng: Any, means: Any, marks: Any, eta: Any, gamma: Any, regret: Any) -> None:
    """Play against Bernoulli losses; write ``sum_t p_t . (means - min means)`` at each mark."""
    k = len(means)
    total, q, p = np.zeros(k), np.zeros(k), np.zeros(k)
    best = means.min()
    paid = 0.0
    t = 0
    for m in range(len(marks)):
        while t < marks[m]:
            chances(total, eta, gamma, q, p)
            gone = _evicted(rng, p)
            for i in range(k):
                paid += p[i] * (means[i] - best)
                if i != gone and rng.random() < means[i]:
                    total[i] += 1.0 / (1.0 - p[i])
            t += 1
        regret[m] = paid


@jit
def play_matrix(rng: Any, losses: Any, eta: Any, gamma: Any) -> Any:
    """Play against a loss matrix [T, K]; return ``sum_t p_t . l_t``, the loss expected given the past."""
    rounds, k = losses.shape
    total, q, p = np.zeros(k), np.zeros(k), np.zeros(k)
    paid = 0.0
    for t in range(rounds):
        chances(total, eta, gamma, q, p)
        gone = _evicted(rng, p)
        for i in range(k):
            paid += p[i] * losses[t, i]
            if i != gone:
                total[i] += losses[t, i] / (1.0 - p[i])
    return paid


@jit
def _expected_loss(losses: Any, eta: Any, gamma: Any) -> Any:
    rounds, k = losses.shape
    total, q, p = np.zeros(k), np.zeros(k), np.zeros(k)
    answer = 0.0
    for code in range(k**rounds):
        total[:] = 0.0
        chance = 1.0
        paid = 0.0
        rest = code
        for t in range(rounds):
            chances(total, eta, gamma, q, p)
            gone = rest % k
            rest //= k
            chance *= p[gone]
            paid += losses[t, gone]
            for i in range(k):
                if i != gone:
                    total[i] += losses[t, i] / (1.0 - p[i])
        answer += chance * paid
    return answer


def expected_loss(losses: NDArray[np.float64], eta: float, gamma: float) -> float:
    """Return the expected total loss on a matrix [T, K], by all K^T sequences of evictions.

    Examples
    --------
    One round is uniform:

    >>> expected_loss(np.array([[1.0, 0.0]]), 0.25, 0.5)
    0.5
    """
    return float(_expected_loss(np.ascontiguousarray(losses, dtype=np.float64), eta, gamma))
