"""The cycle of largest ratio in a graph with two integer weights per edge, exactly.

Given edges u -> v that gain a >= 0 and cost b >= 0, find the cycle (reachable, as all vertices are) that
maximises sum(a) / sum(b). Parametric search: for a guess r = p/q look for a cycle with sum(q a - p b) > 0;
each one found is a better guess, and guesses are ratios of cycles, so the search ends. The proof that the
last guess is the maximum is a potential h >= 0 of the vertices with

    h(u) >= q a - p b + h(v)      for every edge,

which bounds sum(q a - p b) along every walk from u by h(u): the additive constant of the competitive ratio.

A worked example: two vertices, 0 -> 0 gaining 1 at cost 1, 0 -> 1 gaining 3 at cost 1, 1 -> 0 gaining 0 at
cost 1. The loop has ratio 1, the other cycle 3/2.

>>> import numpy as np
>>> to = np.array([[0, 1], [0, -1]], np.int32)
>>> gain, price = np.array([[1, 3], [0, 0]]), np.array([[1, 1], [1, 0]])
>>> best = largest_ratio(to, gain, price)
>>> best.ratio, best.cycles[0]
(Fraction(3, 2), [(0, 1), (1, 0)])
>>> best.potential.tolist()
[3, 0]
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from softhit.errors import InvalidInput
from softhit.jit import jit

__all__ = ["RatioCycle", "largest_ratio", "shortest_path"]


@dataclass(frozen=True, eq=False)
class RatioCycle:
    """Cycles of largest ratio and the proof that no other has a larger one.

    Attributes
    ----------
    ratio : Fraction or None
        None: some cycle gains at no cost, so no ratio bounds it; 0: no cycle gains.
    cycles : list of list of (vertex, action)
        One cycle of this ratio, then short ones of the same ratio; empty if no cycle gains.
    potential : int64[n] or None
        h of the module docstring, for ratio = p/q; None without a ratio.
    """

    ratio: Fraction | None
    cycles: list[list[tuple[int, int]]]
    potential: NDArray[np.int64] | None


@jit
def _sweep(to: Any, gain: Any, price: Any, p: Any, q: Any, value: Any, choice: Any) -> Any:
    """Raise values to the best single step, last vertex first; return how many rose."""
    rose = 0
    for u in range(len(to) - 1, -1, -1):
        for a in range(to.shape[1]):
            v = to[u, a]
            if v >= 0:
                x = q * gain[u, a] - p * price[u, a] + value[v]
                if x > value[u]:
                    value[u] = x
                    choice[u] = a
                    rose += 1
    return rose


@jit
def _best_chosen(to: Any, gain: Any, price: Any, choice: Any, mark: Any) -> Any:
    """Return (vertex, gain, price) of the cycle of largest ratio among the chosen edges; vertex -1: none."""
    mark[:] = -1
    at = -1
    most = np.int64(0)
    least = np.int64(1)
    for start in range(len(to)):
        u = start
        while u >= 0 and mark[u] < 0:
            mark[u] = start
            u = to[u, choice[u]] if choice[u] >= 0 else -1
        if u >= 0 and mark[u] == start:
            a = np.int64(0)
            b = np.int64(0)
            v = u
            while True:
                a += gain[v, choice[v]]
                b += price[v, choice[v]]
                v = to[v, choice[v]]
                if v == u:
                    break
            if at < 0 or a * least > most * b:
                at, most, least = u, a, b
    return at, most, least


def _chosen_cycle(to: NDArray[Any], choice: NDArray[Any], at: int) -> list[tuple[int, int]]:
    edges = [(at, int(choice[at]))]
    while (v := int(to[edges[-1]])) != at:
        edges.append((v, int(choice[v])))
    return edges


def _components(to: NDArray[Any], keep: NDArray[np.bool_]) -> NDArray[Any]:
    u, a = np.nonzero(keep)
    n = len(to)
    graph = csr_array((np.ones(len(u), np.int8), (u, to[u, a])), shape=(n, n))
    return connected_components(graph, connection="strong")[1]


@jit
def _search(to: Any, keep: Any, start: Any, end: Any, within: Any, came: Any, queue: Any) -> Any:
    """Breadth-first search along kept edges for a path of at most ``within`` edges; return its length or -1.

    ``came[v]`` becomes (vertex before v, action); vertices not reached keep action -1.
    """
    came[:, 1] = -1
    queue[0] = start
    done = 0
    count = 1
    layer = 1
    depth = 0
    while done < count and depth < within:
        depth += 1
        while done < layer:
            u = queue[done]
            done += 1
            for a in range(to.shape[1]):
                v = to[u, a]
                if keep[u, a] and v != start and came[v, 1] < 0:
                    came[v, 0] = u
                    came[v, 1] = a
                    if v == end:
                        return depth
                    queue[count] = v
                    count += 1
        layer = count
    return -1


def shortest_path(
    to: NDArray[Any], keep: NDArray[np.bool_], start: int, end: int, within: int | None = None
) -> list[tuple[int, int]] | None:
    """Return a shortest path of kept edges as (vertex, action) pairs, or None if none is short enough.

    >>> import numpy as np
    >>> to = np.array([[1, -1], [2, 0], [0, 0]], np.int32)
    >>> shortest_path(to, to >= 0, 0, 2)
    [(0, 0), (1, 0)]
    """
    if start == end:
        return []
    n = len(to)
    came, queue = np.empty((n, 2), np.int32), np.empty(n, np.int32)
    if _search(to, keep, start, end, n if within is None else within, came, queue) < 0:
        return None
    path: list[tuple[int, int]] = []
    while end != start:
        path.append((int(came[end, 0]), int(came[end, 1])))
        end = path[-1][0]
    return path[::-1]


def _tight_cycles(
    to: NDArray[Any], tight: NDArray[np.bool_], price: NDArray[Any], sources: int, within: int
) -> list[list[tuple[int, int]]]:
    """Return, for each of the first ``sources`` tight edges that cost something, a shortest cycle through it.

    Tight edges in one strong component lie on cycles of weight zero, and every such cycle with a positive
    price has the largest ratio. A cycle of price zero has none, so it must hold an edge with a price.
    """
    part = _components(to, tight)
    inner = tight & (part[:, None] == part[to])
    cycles = []
    for u, a in np.argwhere(inner & (price > 0))[:sources].tolist():
        back = shortest_path(to, inner, int(to[u, a]), u, within)
        if back is not None:
            cycles.append([(u, a), *back])
    return cycles


def largest_ratio(to: NDArray[Any], gain: NDArray[Any], price: NDArray[Any], sources: int = 50) -> RatioCycle:
    """Find the cycle that maximises sum(gain) / sum(price).

    Parameters
    ----------
    to : int32[n, A]
        Successors; -1: no edge.
    gain, price : int64[n, A]
        Non-negative.
    sources : int
        How many short cycles of largest ratio to look for besides the first.

    Raises
    ------
    InvalidInput
        Numbers too large for 64 bits, by a bound that is checked before they are computed.
    """
    exists = to >= 0
    free = exists & (price == 0)
    part = _components(to, free)
    inside = free & (gain > 0) & (part[:, None] == part[to])
    if inside.any():
        u = int(np.flatnonzero(inside.any(axis=1))[0])
        a = int(np.flatnonzero(inside[u])[0])
        same = free & (part[:, None] == part[to])
        back = shortest_path(to, same, int(to[u, a]), u)
        assert back is not None
        return RatioCycle(None, [[(u, a), *back]], None)

    n = len(to)
    most = int(max(gain.max(initial=0), 1)), int(max(price.max(initial=0), 1))
    value = np.zeros(n, np.int64)
    choice = np.full(n, -1, np.int32)
    mark = np.empty(n, np.int32)
    ratio = Fraction(0)
    found: list[tuple[int, int]] = []
    while True:
        p, q = ratio.numerator, ratio.denominator
        # a value is the sum over a path that repeats no vertex, and grows by one more such path in a sweep
        if 2 * n * (q * most[0] + p * most[1]) >= 2**62:
            raise InvalidInput(f"{n} vertices with weights up to {max(most)} at ratio {ratio} exceed 64 bits")
        rose = _sweep(to, gain, price, p, q, value, choice)
        if rose == 0:
            break
        at, a, b = _best_chosen(to, gain, price, choice, mark)
        if at >= 0:
            ratio = Fraction(int(a), int(b))
            found = _chosen_cycle(to, choice, at)
            value[:] = 0
            choice[:] = -1
    p, q = ratio.numerator, ratio.denominator
    slack = value[:, None] - (q * gain - p * price + value[to])
    if np.any(slack[exists] < 0):
        raise AssertionError("the potential does not prove the ratio")
    cycles = [found] if found else []
    if found:
        cycles += _tight_cycles(to, exists & (slack == 0), price, sources, len(found))
    return RatioCycle(ratio, cycles, value)
