"""Two contents at distance lambda: a policy that mixes both fixed contents and one that follows the optimum.

A task is a pair (cost if A is held, cost if B is) in [0, 1]; a step is served, then the policy may move,
for lambda. The experts are *A*, *B* and the *tracker*, the work-function policy of `track`. The mixture
follows one expert at a time, chosen by exponential weights such that it is seldom changed (shrinking
dartboard: Geulen, Voecking and Winkler 2010), at a rate that is halved each time the best expert's loss has
quadrupled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_real
from softhit.errors import InvalidInput
from softhit.jit import jit

__all__ = ["EXPERTS", "Mixed", "mix", "track"]

EXPERTS = ("A", "B", "tracker")


@jit
def _track(tasks: Any, lam: Any, place: Any, paid: Any) -> Any:
    """Write where the tracker stands in each step and what it pays in it; return the optimum."""
    at = 0
    a = 0.0
    b = 0.0
    for t in range(len(tasks)):
        place[t] = at
        paid[t] = tasks[t, at]
        a += tasks[t, 0]
        b += tasks[t, 1]
        a, b = min(a, b + lam), min(b, a + lam)
        here, there = (a, b) if at == 0 else (b, a)
        if here >= there + lam:
            at = 1 - at
            paid[t] += lam
    place[len(tasks)] = at
    return min(a, b)


def track(tasks: NDArray[np.float64], lam: float) -> tuple[float, float]:
    """Return (what the tracker pays, what the best schedule pays, which may start anywhere).

    The tracker starts in A and moves after a step in which the best schedule that ends where it stands has
    come to pay lambda more than the best one that ends elsewhere.

    >>> track(np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 5), 2.0)      # moves after steps 2 and 7
    (10.0, 2.0)
    """
    place, paid = np.zeros(len(tasks) + 1, np.int64), np.zeros(len(tasks))
    best = float(_track(tasks, lam, place, paid))
    return float(paid.sum()), best


@jit
def _mix(tasks: Any, place: Any, loss: Any, use: Any, lam: Any, phases: Any) -> Any:
    """Return how many phases there are; write [expected cost, best expert's loss, steps] of each."""
    n = len(use)
    top = 1.0 + lam
    weight, next_weight = np.ones(n), np.ones(n)
    chance, keep = np.full(n, 1.0 / n), np.ones(n)
    within = np.zeros(n)
    # the first expert is drawn before the first step, from A
    spent = 0.0
    for i in range(n):
        if place[0, use[i]] == 1:
            spent += lam * chance[i]
    r = 0
    eta = 1.0
    for t in range(len(tasks)):
        mass = 0.0
        for i in range(n):
            within[i] += loss[t, use[i]]
            keep[i] = math.exp(-eta * loss[t, use[i]] / top)
            next_weight[i] = weight[i] * keep[i]
            mass += next_weight[i]
        over = within.min() >= 4.0**r * top
        for i in range(n):
            e = use[i]
            spent += chance[i] * tasks[t, place[t, e]]
            stay = 0.0 if over else keep[i]
            for j in range(n):
                drawn = 1.0 / n if over else next_weight[j] / mass
                moves = (1.0 - stay) * drawn + (stay if i == j else 0.0)
                if place[t + 1, use[j]] != place[t, e]:
                    spent += lam * chance[i] * moves
        phases[r, 0] = spent
        phases[r, 1] = within.min()
        phases[r, 2] += 1.0
        if over:
            r += 1
            eta = 0.5 * eta
            spent = 0.0
            within[:] = 0.0
            weight[:] = 1.0
            chance[:] = 1.0 / n
        else:
            for i in range(n):
                weight[i] = next_weight[i] / mass
                chance[i] = weight[i]
    return r + 1


@dataclass(frozen=True)
class Mixed:
    """What the mixture and its experts pay.

    Attributes
    ----------
    cost : float
        Expected over the policy's coins; no sampling.
    fixed : tuple of float
        Cost of holding A for ever, and B, without a first move.
    tracker, best : float
        Cost of the tracker, and of the best schedule.
    phases : float64[R, 3]
        Per phase: expected cost, the best expert's loss, steps.
    """

    cost: float
    fixed: tuple[float, float]
    tracker: float
    best: float
    phases: NDArray[np.float64]


def mix(tasks: NDArray[np.float64], lam: float, experts: tuple[str, ...] = EXPERTS) -> Mixed:
    """Return what the mixture of the named experts pays on a sequence of tasks [T, 2].

    >>> one = mix(np.tile([1.0, 0.0], (1000, 1)), 1.0)
    >>> one.fixed, one.best, one.cost < 10
    ((1000.0, 0.0), 0.0, True)
    """
    check_real("lam", lam, 0, 1e9)
    if tasks.ndim != 2 or tasks.shape[1] != 2 or not len(tasks) or not ((tasks >= 0) & (tasks <= 1)).all():
        raise InvalidInput(f"tasks: rows of two costs in [0, 1], got an array of shape {tasks.shape}")
    use = np.array([EXPERTS.index(name) for name in experts], np.int64)
    place, loss = np.zeros((len(tasks) + 1, 3), np.int64), np.zeros((len(tasks), 3))
    place[:, 1] = 1
    loss[:, :2] = tasks
    where, paid = np.zeros(len(tasks) + 1, np.int64), np.zeros(len(tasks))
    best = float(_track(tasks, lam, where, paid))
    place[:, 2], loss[:, 2] = where, paid
    phases = np.zeros((64, 3))
    count = int(_mix(tasks, place, loss, use, lam, phases))
    a, b = map(float, tasks.sum(axis=0))
    kept = phases[:count][phases[:count, 2] > 0]
    return Mixed(float(kept[:, 0].sum()), (a, b), float(paid.sum()), best, kept)
