"""Work functions: the exact offline optimum of a request sequence, as a function of the final cache.

``w(C)`` is the least cost of any schedule that serves the requests so far, from the full cache {0..K-1}, and
then holds C. Only sets of exactly K items are kept: with hard hits and unit sizes more items never serve
worse, and insertions are what costs, so dropping an item without replacing it never helps. Write d(C, C') for
the number of items of C that C' lacks. A request q with miss cost 1 does

    serve            w(C) += [q not in C]
    update, stream   w(C) = min(w(C), min over j not in C of w(C - q + j) + lambda)   for C with q
    update, pool     w(C) = min over C' of w(C') + lambda d(C, C')

in the order of the variant. Only differences matter: after each step the minimum is taken off (what was taken
off sums to OPT), and w is replaced by

    w~(C) = min over C' of w(C') + reach d(C, C'),

reach = 1 + lambda for serve_then_update with stream, reach = lambda otherwise.

**This never changes a later minimum.** It can only lower one, as w~ <= w. It does not, because a schedule A
that goes on from C can be imitated from any C' at an extra cost of at most reach d(C, C'). Let A also stand
for its cache and D for ours, D = C' at first; both hold K items, so where A has an item that D lacks, D has
one that A lacks (junk).

1. A replaces j by q. If D has j and lacks q, do the same. If D lacks both, load q in the place of junk: same
   price. If D has q already, do nothing (j may become junk). In each case d(A, D) does not grow and we pay no
   more than A; in the stream we may load q, since A just did.
2. A misses q and loads nothing: we miss it too or hit it. 3. A hits q and D lacks it. Load q in the place
of junk: d(A, D) falls by one. This costs at most reach, the miss
   and the load in serve_then_update and the load alone in update_then_serve, and it happens at most d(C, C')
   times, since d(A, D) starts there and never grows.

In the pool with serve_then_update, w is already lambda-Lipschitz after the update and w~ = w. Now if
w~(C) < w(C), let C' attain the minimum, so w~(C) = w(C') + reach d(C, C') and w~(C') = w(C') (the triangle
inequality). A continuation from C at w~(C) is no cheaper than its imitation from C' at w(C'). So later minima
under w~ are later minima under w, step after step.

In particular all differences are at most min(K, N-K) reach <= K (1 + lambda): the coarser clip that makes the
number of work functions finite.

Costs are integers in units of 1/denominator(lambda). A step of weight u costs u where it misses; reach is
then u + lambda for the largest u.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.jit import jit
from softhit.variant import Variant

__all__ = ["Rules", "advance", "make_rules"]


@dataclass(frozen=True, eq=False)
class Rules:
    """Tables of one (K, N, lambda, variant); configurations are the K-subsets in lexicographic order.

    Attributes
    ----------
    configurations : list of frozenset
    inside : uint8[N, C]
        Whether item q is in configuration c.
    source : int16[N, C, N-K]
        The configurations from which c is entered by loading q; -1 where c does not contain q.
    distance : int16[C, C]
        Number of items of one that the other lacks.
    miss, switch, reach : int
        In units of 1/``denominator``.
    serves_first, stream : bool
    """

    capacity: int
    n_items: int
    configurations: list[frozenset[int]]
    inside: NDArray[np.uint8]
    source: NDArray[np.int16]
    distance: NDArray[np.int16]
    miss: int
    switch: int
    reach: int
    denominator: int
    serves_first: bool
    stream: bool

    @property
    def tables(self) -> tuple[Any, ...]:
        """What the compiled functions take."""
        numbers = np.array(
            [self.miss, self.switch, self.reach, int(self.serves_first), int(self.stream)], np.int64
        )
        return self.inside, self.source, self.distance, numbers

    def start(self, held: frozenset[int]) -> NDArray[np.int64]:
        """Return the work function of the start in cache ``held``."""
        return np.array([self.reach * len(held - c) for c in self.configurations], np.int64)

    def moved(self, permutation: tuple[int, ...]) -> NDArray[np.int64]:
        """Return m with w'[c] = w[m[c]] for the work function w' after renaming item i to permutation[i]."""
        place = {c: k for k, c in enumerate(self.configurations)}
        result = np.empty(len(place), np.int64)
        for c, k in place.items():
            result[place[frozenset(permutation[i] for i in c)]] = k
        return result


def make_rules(
    capacity: int,
    n_items: int,
    switch_cost: Fraction,
    variant: Variant,
    heaviest: int = 1,
    reach: Fraction | None = None,
) -> Rules:
    """Build the tables for steps of weight at most ``heaviest``.

    ``reach`` replaces the proven constant, for tests that show that it matters.
    """
    sets = [frozenset(c) for c in itertools.combinations(range(n_items), capacity)]
    place = {c: k for k, c in enumerate(sets)}
    inside = np.array([[q in c for c in sets] for q in range(n_items)], np.uint8)
    source = np.full((n_items, len(sets), n_items - capacity), -1, np.int16)
    for q in range(n_items):
        for c, k in place.items():
            if q in c:
                others = [j for j in range(n_items) if j not in c]
                source[q, k] = [place[(c - {q}) | {j}] for j in others]
    distance = np.array([[len(a - b) for b in sets] for a in sets], np.int16)
    slow = variant.stream and variant.serves_first
    if reach is None:
        reach = switch_cost + heaviest if slow else switch_cost
    unit = switch_cost.denominator
    return Rules(
        capacity=capacity,
        n_items=n_items,
        configurations=sets,
        inside=inside,
        source=source,
        distance=distance,
        miss=unit,
        switch=switch_cost.numerator,
        reach=int(reach * unit),
        denominator=unit,
        serves_first=variant.serves_first,
        stream=variant.stream,
    )


@jit
def _nearest(w: Any, price: Any, distance: Any, out: Any) -> None:
    for c in range(len(w)):
        best = w[c]
        for b in range(len(w)):
            v = w[b] + price * distance[c, b]
            if v < best:
                best = v
        out[c] = best


@jit
def advance(w: Any, q: Any, weight: Any, tables: Any, spare: Any, out: Any) -> Any:
    """Serve one request: write the new normalised work function to ``out``, return what OPT rose by."""
    inside, source, distance, numbers = tables
    miss = numbers[0] * weight
    switch = numbers[1]
    serves_first = numbers[3] != 0
    n = len(w)
    for c in range(n):
        spare[c] = w[c]
        if serves_first and inside[q, c] == 0:
            spare[c] += miss
    if numbers[4] != 0:
        for c in range(n):
            if inside[q, c]:
                for x in range(source.shape[2]):
                    v = spare[source[q, c, x]] + switch
                    if v < spare[c]:
                        spare[c] = v
    else:
        _nearest(spare, switch, distance, out)
        spare[:] = out
    least = spare[0] + miss
    for c in range(n):
        if not serves_first and inside[q, c] == 0:
            spare[c] += miss
        if spare[c] < least:
            least = spare[c]
    for c in range(n):
        spare[c] -= least
    _nearest(spare, numbers[2], distance, out)
    return least
