"""How lassos are made at random and changed; none of it knows a workload family or a policy."""

from __future__ import annotations

import random
from collections.abc import Callable

from adversaries.search.lasso import Lasso

__all__ = ["OPERATORS", "changed", "plain", "random_lasso"]

Pair = tuple[list[int], list[int]]
Operator = Callable[[random.Random, list[int], list[int], int, Lasso], Pair]


def plain(lasso: Lasso) -> bool:
    """Whether the cycle, with immediate repeats struck out, scans some items in turn and nothing else.

    Such are the cycles of the named families: a scan of W items, each asked for tau times.

    >>> plain(Lasso((), (0, 0, 1, 2, 2, 0, 1, 2))), plain(Lasso((), (0, 1, 0, 2)))
    (True, False)
    """
    cycle = lasso.cycle
    heads = tuple(i for n, i in enumerate(cycle) if i != cycle[n - 1]) or cycle[:1]
    scan = Lasso((), heads).short().cycle
    return len(scan) == len(set(scan))


def random_lasso(rng: random.Random, n_items: int, longest: int) -> Lasso:
    """Draw a lasso: lengths uniform, requests uniform and independent; plain cycles are drawn again."""
    while True:
        n = rng.randint(min(2 * n_items, longest), longest)
        cut = rng.randint(0, n // 3)
        requests = [rng.randrange(n_items) for _ in range(n)]
        lasso = Lasso(tuple(requests[:cut]), tuple(requests[cut:]))
        if longest < 4 or not plain(lasso):
            return lasso


def _block(rng: random.Random, length: int) -> tuple[int, int]:
    """Return a non-empty range of positions, short ones more often."""
    width = min(length, 1 + int(rng.expovariate(0.4)))
    start = rng.randrange(length - width + 1)
    return start, start + width


def _set(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    where = prefix if prefix and rng.random() < 0.25 else cycle
    where[rng.randrange(len(where))] = rng.randrange(n)
    return prefix, cycle


def _insert(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    where = prefix if rng.random() < 0.2 else cycle
    where.insert(rng.randrange(len(where) + 1), rng.randrange(n))
    return prefix, cycle


def _delete(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    where = prefix if prefix and rng.random() < 0.4 else cycle
    a, b = _block(rng, len(where))
    del where[a:b]
    return prefix, cycle


def _swap(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    i, j = rng.randrange(len(cycle)), rng.randrange(len(cycle))
    cycle[i], cycle[j] = cycle[j], cycle[i]
    return prefix, cycle


def _repeat(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    a, b = _block(rng, len(cycle))
    return prefix, cycle[:b] + cycle[a:b] + cycle[b:]


def _splice(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    """Copy a block over another place of the cycle."""
    a, b = _block(rng, len(cycle))
    at = rng.randrange(len(cycle))
    return prefix, cycle[:at] + cycle[a:b] + cycle[at + (b - a) * rng.randrange(2) :]


def _reverse(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    a, b = _block(rng, len(cycle))
    cycle[a:b] = cycle[a:b][::-1]
    return prefix, cycle


def _rotate(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    at = rng.randrange(len(cycle))
    return (prefix + cycle[:at] if rng.random() < 0.3 else prefix), cycle[at:] + cycle[:at]


def _renumber(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    """Exchange two items in a part of the cycle."""
    x, y = rng.randrange(n), rng.randrange(n)
    a = rng.randrange(len(cycle))
    turn = {x: y, y: x}
    return prefix, cycle[:a] + [turn.get(i, i) for i in cycle[a:]]


def _double(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    """Go through the cycle twice, the second time with one request changed."""
    again = list(cycle)
    again[rng.randrange(len(again))] = rng.randrange(n)
    return prefix, cycle + again


def _permuted(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    """Go through the cycle twice, the second time with its items permuted."""
    names = list(range(n))
    rng.shuffle(names)
    return prefix, cycle + [names[i] for i in cycle]


def _halve(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    half = (len(cycle) + 1) // 2
    return prefix, cycle[:half] if rng.random() < 0.5 else cycle[half - 1 :]


def _cross(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    """Begin as this one and end as another one."""
    a, b = rng.randrange(len(cycle) + 1), rng.randrange(len(other.cycle) + 1)
    if rng.random() < 0.3:
        prefix = list(other.prefix)
    return prefix, cycle[:a] + list(other.cycle[b:])


def _forget(rng: random.Random, prefix: list[int], cycle: list[int], n: int, other: Lasso) -> Pair:
    return [], cycle


OPERATORS: dict[str, Operator] = {
    "set": _set,
    "insert": _insert,
    "delete": _delete,
    "swap": _swap,
    "repeat": _repeat,
    "splice": _splice,
    "reverse": _reverse,
    "rotate": _rotate,
    "renumber": _renumber,
    "double": _double,
    "permuted": _permuted,
    "halve": _halve,
    "cross": _cross,
    "forget": _forget,
}
"""The changes by name."""


def changed(
    rng: random.Random, lasso: Lasso, other: Lasso, operator: str, n_items: int, longest: int
) -> Lasso | None:
    """Return the lasso after one change; None if nothing, or nothing short enough, came of it."""
    prefix, cycle = OPERATORS[operator](rng, list(lasso.prefix), list(lasso.cycle), n_items, other)
    if not cycle or len(prefix) + len(cycle) > longest:
        return None
    made = Lasso(tuple(prefix), tuple(cycle))
    return None if made == lasso else made
