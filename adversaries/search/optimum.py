"""What a cycle of requests costs the offline optimum in the long run, exactly and fast.

The work function of :mod:`adversaries.exact.work` (the least cost of ending in each set of K items) goes
through the prefix and then through the cycle, round after round. It is cut off at its minimum plus ``reach
min(K, N-K)``, which never changes a later minimum (the argument there covers every function between the one
with the nearest sets taken off and the full one). So it takes finitely many values, and the round at which a
value comes back ends the computation: from then on, OPT rises by the same amount in the same number of rounds
for ever. The start is a full cache, which moves OPT by a constant and its slope not at all.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.exact.work import make_rules
from softhit.jit import jit
from softhit.variant import Variant

__all__ = ["MAX_SETS", "OptimumSlope"]

MAX_SETS = 1000
"""C(N, K) at most, for tables of that size squared are made."""
MAX_ROUNDS = 256


@jit
def _slope(
    prefix: Any,
    cycle: Any,
    inside: Any,
    source: Any,
    distance: Any,
    numbers: Any,
    w: Any,
    spare: Any,
    seen: Any,
) -> Any:
    """Return (rise, rounds in which it comes, round at which they begin); rounds = 0: none came back."""
    miss, switch, cut = numbers[0], numbers[1], numbers[2]
    serves_first, stream = numbers[3] != 0, numbers[4] != 0
    n = len(w)
    rises = np.zeros(len(seen) + 1, np.int64)
    total = np.int64(0)
    done = -1
    while True:
        part = prefix if done < 0 else cycle
        for x in range(len(part)):
            q = part[x]
            for c in range(n):
                spare[c] = w[c]
                if serves_first and inside[q, c] == 0:
                    spare[c] += miss
            if stream:
                # sources of sets with q are sets without q, so the order does not matter
                for c in range(n):
                    if inside[q, c]:
                        for y in range(source.shape[2]):
                            v = spare[source[q, c, y]] + switch
                            if v < spare[c]:
                                spare[c] = v
            else:
                for c in range(n):
                    best = spare[c]
                    for b in range(n):
                        v = spare[b] + switch * distance[c, b]
                        if v < best:
                            best = v
                    w[c] = best
                for c in range(n):
                    spare[c] = w[c]
            least = np.int64(2**62)
            for c in range(n):
                if not serves_first and inside[q, c] == 0:
                    spare[c] += miss
                if spare[c] < least:
                    least = spare[c]
            total += least
            for c in range(n):
                w[c] = min(spare[c] - least, cut)
        done += 1
        rises[done] = total
        for r in range(done - 1, -1, -1):
            same = True
            for c in range(n):
                if seen[r, c] != w[c]:
                    same = False
                    break
            if same:
                return total - rises[r], done - r, r
        if done == len(seen):
            return total, 0, 0
        for c in range(n):
            seen[done, c] = w[c]


class OptimumSlope:
    """OPT's rise per round of a cycle, for one K, N, lambda and variant; hard hits, weights 1.

    Parameters
    ----------
    capacity, n_items : int
        C(N, K) <= :data:`MAX_SETS`; see :meth:`fits`.
    switch_cost : Fraction
    variant : Variant

    Examples
    --------
    >>> slope = OptimumSlope(2, 3, Fraction(1), Variant())
    >>> slope(np.array([], np.int64), np.array([0, 1, 2]))   # one miss a round: (rise, rounds, begins)
    (Fraction(1, 1), 1, 1)
    """

    def __init__(self, capacity: int, n_items: int, switch_cost: Fraction, variant: Variant) -> None:
        rules = make_rules(capacity, n_items, switch_cost, variant)
        self.denominator = rules.denominator
        cut = rules.reach * min(capacity, n_items - capacity)
        self._start = np.minimum(rules.start(frozenset(range(capacity))), cut)
        numbers = [rules.miss, rules.switch, cut, int(rules.serves_first), int(rules.stream)]
        self._tables = rules.inside, rules.source, rules.distance, np.array(numbers, np.int64)
        n = len(self._start)
        self._w, self._spare = np.empty(n, np.int64), np.empty(n, np.int64)
        self._seen = np.empty((MAX_ROUNDS, n), np.int64)

    @staticmethod
    def fits(capacity: int, n_items: int) -> bool:
        """Whether the tables are small enough."""
        return comb(n_items, capacity) <= MAX_SETS

    def __call__(
        self, prefix: NDArray[np.int64], cycle: NDArray[np.int64]
    ) -> tuple[Fraction, int, int] | None:
        """Return (rise, rounds, begins): after ``begins`` rounds OPT rises by ``rise`` every ``rounds``.

        None: no work function came back within :data:`MAX_ROUNDS` rounds.
        """
        self._w[:] = self._start
        rise, rounds, begins = _slope(prefix, cycle, *self._tables, self._w, self._spare, self._seen)
        if rounds == 0:
            return None
        return Fraction(int(rise), self.denominator), int(rounds), int(begins)
