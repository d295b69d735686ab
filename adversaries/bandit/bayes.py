"""The least expected regret that any policy can have when the good slot is drawn at random, exactly.

One of K slots, uniform, loses with probability 1/2 - gap, the others with 1/2. A policy's regret is gap
times the expected number of evictions of bad slots. What it saw enters only through (pulls, losses) of each
slot, so the minimum over all policies is a recursion on these counts; slots may be sorted, as they are
exchangeable. All numbers are integers: probabilities are multiplied by (2q)^T, where gap = p/q.
"""

from __future__ import annotations

from fractions import Fraction

from softhit.check import check_int
from softhit.errors import InvalidInput

__all__ = ["least_bayes_regret"]

State = tuple[tuple[int, int], ...]


def _states(k: int, pulls: int, smallest: tuple[int, int] = (0, 0)) -> list[State]:
    """All sorted tuples of k pairs (pulls, losses) with that many pulls in all, none below ``smallest``."""
    if k == 0:
        return [()] if pulls == 0 else []
    found = []
    for n in range(smallest[0], pulls // k + 1):
        for s in range(smallest[1] if n == smallest[0] else 0, n + 1):
            found += [((n, s), *rest) for rest in _states(k - 1, pulls - n, (n, s))]
    return found


def least_bayes_regret(k: int, rounds: int, gap: Fraction) -> Fraction:
    """Return the minimum over all policies of the regret, in expectation over the good slot too.

    Parameters
    ----------
    k, rounds : int
        Slots and rounds; there are about ``rounds^(2k) / (2k)! / k!`` states.
    gap : Fraction
        In [0, 1/2].

    Raises
    ------
    InvalidInput
        A gap outside [0, 1/2].

    Examples
    --------
    The first eviction is blind, half of the time a bad one; the second knows one loss.

    >>> least_bayes_regret(2, 1, Fraction(1, 4)), least_bayes_regret(2, 2, Fraction(1, 4))
    (Fraction(1, 8), Fraction(7, 32))
    """
    check_int("k", k, low=1)
    check_int("rounds", rounds, low=0)
    if not 0 <= gap <= Fraction(1, 2):
        raise InvalidInput(f"gap: from 0 to 1/2, got {gap}")
    p, q = gap.numerator, gap.denominator
    loss, gain = q - 2 * p, q + 2 * p
    powers = {base: [base**i for i in range(rounds + 1)] for base in (loss, gain, q, 2 * q)}

    later: dict[State, int] = dict.fromkeys(_states(k, rounds), 0)
    for t in range(rounds - 1, -1, -1):
        here: dict[State, int] = {}
        unit = powers[2 * q][rounds - t]
        for state in _states(k, t):
            weight = [powers[loss][s] * powers[gain][n - s] * powers[q][t - n] for n, s in state]
            total = sum(weight)
            best = -1
            for i, (n, s) in enumerate(state):
                if i and state[i - 1] == (n, s):
                    continue
                rest = state[:i] + state[i + 1 :]
                value = (total - weight[i]) * unit
                for seen in (s, s + 1):
                    value += later[tuple(sorted((*rest, (n + 1, seen))))]
                if best < 0 or value < best:
                    best = value
            here[state] = best
        later = here
    (evictions,) = later.values()
    return gap * Fraction(evictions, k * powers[2 * q][rounds])
