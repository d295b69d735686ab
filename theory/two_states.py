"""Two configurations at distance lambda: work functions, the bank that switches, exact ratios on a grid.

A task is a pair (cost in A, cost in B) of numbers >= 0; moving costs lambda. Costs are counted in steps of
lambda / u, so that everything is an integer. ``update_then_serve`` is the classical metrical task system on
two states; in ``serve_then_update`` the policy is served before it moves. OPT may always move (``pool``)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from adversaries.exact.cycle import largest_ratio
from softhit.errors import InvalidInput

__all__ = ["bank", "bank_ratio", "work"]

Task = tuple[int, int]


def work(tasks: Iterable[Task], move: int, start: Task = (0, 0)) -> Task:
    """Return what the best schedule ending in A, and the best one ending in B, has paid.

    >>> work([(5, 0), (0, 5)], move=3)
    (3, 5)
    """
    a, b = start
    for in_a, in_b in tasks:
        a, b = a + in_a, b + in_b
        a, b = min(a, b + move), min(b, a + move)
    return a, b


def bank(tasks: Iterable[Task], move: int, threshold: int, serves_first: bool = False) -> int:
    """Return what the policy pays that saves up cost differences, clipped at 0, and moves at the threshold.

    It starts in A. With ``serves_first`` it pays the task where it stood.

    >>> bank([(2, 0), (2, 0), (2, 0)], move=3, threshold=6)   # moves at the third, before it pays
    7
    """
    at, saved, total = 0, 0, 0
    for task in tasks:
        here, there = task[at], task[1 - at]
        saved = max(0, saved + here - there)
        if saved >= threshold:
            total += move + (here if serves_first else there)
            at, saved = 1 - at, 0
        else:
            total += here
    return total


def bank_ratio(steps: int, low: int, high: int, unit: int = 1, serves_first: bool = False) -> Fraction:
    """Return what an opponent forces who also chooses, within [low, high], the threshold of every move.

    Everything in steps of lambda / ``steps``; a task costs ``unit`` steps in one of the two states. With
    low = high this is the exact ratio of the bank policy. Positions are pairs (D, saved), where D is the work
    of the policy's state less that of the other one; the largest ratio of a cycle among them is the answer.

    >>> print(bank_ratio(4, 8, 8))     # threshold 2 lambda, tasks of lambda / 4
    11/4
    """
    if not 0 < low <= high:
        raise InvalidInput(f"thresholds must satisfy 0 < low <= high, got {low} and {high}")
    number: dict[tuple[int, int], int] = {(0, 0): 0}
    edges: list[list[tuple[int, int, int]]] = []
    queue = [(0, 0)]
    for d, saved in queue:
        rows = []
        for here, there in ((unit, 0), (0, unit)):
            mine, other = work([(here, there)], steps, (d, 0))
            rises = min(mine, other) - min(d, 0)
            now = max(0, saved + here - there)
            options = []
            if now < high:
                options.append((here, (mine - other, now)))
            if now >= low:
                options.append((steps + (here if serves_first else there), (other - mine, 0)))
            for pays, after in options:
                if after not in number:
                    number[after] = len(number)
                    queue.append(after)
                rows.append((number[after], pays, rises))
        edges.append(rows)
    to = np.full((len(edges), max(map(len, edges))), -1, np.int32)
    pay, rise = np.zeros(to.shape, np.int64), np.zeros(to.shape, np.int64)
    for u, rows in enumerate(edges):
        for a, (v, pays, rises) in enumerate(rows):
            to[u, a], pay[u, a], rise[u, a] = v, pays, rises
    best = largest_ratio(to, pay, rise)
    if best.ratio is None:
        raise InvalidInput(f"thresholds {low} and {high} have no finite ratio")
    return best.ratio
