"""Reduce a lasso to one that a person can read, while it stays as bad for the policy as was asked.

The result is 1-minimal: deleting any one request of the prefix or the cycle, or asking for one item wherever
another was asked for, makes its ratio fall below the threshold. (Shortening the cycle or the prefix is
deleting; blocks are tried first only because that is faster.) The items are then numbered in the order of
their first request and the cycle is turned, in both cases only if the ratio stays: a policy may depend on
names, and what it does along a cycle on where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from adversaries.search.lasso import Lasso
from adversaries.search.objective import Objective
from softhit.errors import InvalidInput

__all__ = ["at_least", "is_minimal", "shrink", "smaller"]


def smaller(lasso: Lasso) -> Iterator[Lasso]:
    """Yield every lasso that is one step smaller: one request less, or one item less.

    >>> [str(x) for x in smaller(Lasso((0,), (1, 0)))]
    ['(1 0)*', '0 (0)*', '0 (1)*', '0 (0 0)*', '1 (1 1)*']
    """
    prefix, cycle = lasso.prefix, lasso.cycle
    for i in range(len(prefix)):
        yield Lasso(prefix[:i] + prefix[i + 1 :], cycle)
    for i in range(len(cycle)):
        if len(cycle) > 1:
            yield Lasso(prefix, cycle[:i] + cycle[i + 1 :])
    items = sorted(lasso.items)
    for a in items:
        for b in items:
            if a != b:
                yield Lasso(
                    tuple(a if i == b else i for i in prefix), tuple(a if i == b else i for i in cycle)
                )


def _blocks(lasso: Lasso) -> Iterator[Lasso]:
    """Yield lassos with a block of two requests or more left out, long blocks first."""
    prefix, cycle = lasso.prefix, lasso.cycle
    if prefix:
        yield Lasso((), cycle)
    width = max(len(prefix), len(cycle)) // 2
    while width > 1:
        for i in range(0, len(prefix) - width + 1, width):
            yield Lasso(prefix[:i] + prefix[i + width :], cycle)
        for i in range(0, len(cycle) - width + 1, width):
            if len(cycle) > width:
                yield Lasso(prefix, cycle[:i] + cycle[i + width :])
        width //= 2


def _first(candidates: Iterator[Lasso], keeps: Callable[[Lasso], bool]) -> Lasso | None:
    return next((x for x in candidates if keeps(x)), None)


def _canonical(lasso: Lasso, keeps: Callable[[Lasso], bool]) -> Lasso:
    """Return the first in order of all turns of the cycle, renumbered, that keep the ratio and the length."""
    cycle, prefix = lasso.cycle, lasso.prefix
    turns = [lasso]
    if not prefix:
        turns += [Lasso((), cycle[i:] + cycle[:i]) for i in range(1, len(cycle))]
    candidates = sorted({turn.renumbered() for turn in turns})
    return _first(iter(candidates), keeps) or lasso


def shrink(
    lasso: Lasso, keeps: Callable[[Lasso], bool], watch: Callable[[Lasso], None] | None = None
) -> Lasso:
    """Return a 1-minimal lasso for which ``keeps`` still holds.

    Parameters
    ----------
    lasso : Lasso
    keeps : callable
        Whether a lasso is bad enough; pure.
    watch : callable, optional
        Called with every smaller lasso that is kept.

    Raises
    ------
    InvalidInput
        The lasso itself is not bad enough.

    Examples
    --------
    >>> objective = Objective("fifo", capacity=2, n_items=3)
    >>> bad = Lasso((2, 2, 0), (0, 1, 1, 2, 0, 1, 2, 0, 1, 2))
    >>> print(shrink(bad, at_least(objective, Fraction(6))))
    (0 1 2)*
    """
    if not keeps(lasso):
        raise InvalidInput("the trace does not reach the ratio that is to be kept")
    now = lasso
    while True:
        short = now.short()
        if short != now and keeps(short):
            now = short
        found = _first(_blocks(now), keeps) or _first(smaller(now), keeps)
        if found is None:
            final = _canonical(now, keeps)
            # a policy that depends on names may allow more under other names
            if final == now or is_minimal(final, keeps):
                return final
            found = _first(smaller(final), keeps)
            assert found is not None
        now = found
        if watch is not None:
            watch(now)


def is_minimal(lasso: Lasso, keeps: Callable[[Lasso], bool]) -> bool:
    """Whether nothing one step smaller keeps the ratio."""
    return _first(smaller(lasso), keeps) is None


def at_least(
    objective: Objective, ratio: Fraction | None, seeds: list[int] | None = None
) -> Callable[[Lasso], bool]:
    """Return the test whether a lasso's ratio is at least ``ratio`` (None: infinite)."""
    known: dict[Lasso, bool] = {}
    goal = (ratio is None, Fraction(0) if ratio is None else ratio)

    def keeps(lasso: Lasso) -> bool:
        if lasso not in known:
            known[lasso] = objective(lasso, seeds).rank >= goal
        return known[lasso]

    return keeps
