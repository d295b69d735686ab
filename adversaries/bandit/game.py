"""The eviction game: each round evicts one of K slots, and only the utility lost with it is seen.

Slot j loses 1 with probability mu_j when it is evicted, independently each round, and stays in the game. The
pseudo-regret after T rounds is ``sum_t (mu_{I_t} - min mu) = sum_j (mu_j - min mu) N_j(T)``: the losses' own
noise is taken out, the randomness of the policy and of the losses that it saw is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversaries.bandit.rivals import lowest_posterior_mean, ucb1, uniform
from adversaries.bandit.thompson import thompson, thompson_plain
from softhit.check import check_choice, check_int, check_real
from softhit.errors import InvalidInput

__all__ = ["POLICIES", "Play", "one_good", "play"]

POLICIES: Mapping[str, Callable[..., None]] = {
    "thompson": thompson,
    "thompson_plain": thompson_plain,
    "uniform": uniform,
    "ucb1": ucb1,
    "lowest_posterior_mean": lowest_posterior_mean,
}


@dataclass(frozen=True)
class Play:
    """One run of a policy.

    Attributes
    ----------
    means : float64[K]
        The instance, in the order of the caller.
    marks : int64[M]
        Numbers of rounds.
    pulls : int64[M, K]
        How often each slot had been evicted by then.
    work : int64[3]
        Posterior draws that were made one by one: candidates below the level, hot slots, slots from above the
        level (see ``thompson.py``). The others were decided without being made.
    """

    means: NDArray[np.float64]
    marks: NDArray[np.int64]
    pulls: NDArray[np.int64]
    work: NDArray[np.int64]

    @property
    def regret(self) -> NDArray[np.float64]:
        """Pseudo-regret at each mark."""
        regret: NDArray[np.float64] = self.pulls @ (self.means - self.means.min())
        return regret


def one_good(k: int, gap: float) -> NDArray[np.float64]:
    """Return the means of one slot that loses with probability 1/2 - gap among K - 1 that lose with 1/2.

    >>> one_good(3, 0.125)
    array([0.375, 0.5  , 0.5  ])
    """
    means = np.full(check_int("k", k, low=1), 0.5)
    means[0] -= check_real("gap", gap, 0, 0.5)
    return means


def play(policy: str, means: ArrayLike, marks: int | Sequence[int], seed: int | Sequence[int] = 0) -> Play:
    """Let a policy play the game once; slots are shuffled first, so that no order of them is known.

    Parameters
    ----------
    policy : str
        A name in `POLICIES`.
    means : array_like of float, K values in [0, 1]
    marks : int or increasing sequence of int
        After how many rounds to count; the last one ends the game.
    seed : int or sequence of int

    Raises
    ------
    InvalidInput
        An unknown policy, means outside [0, 1], marks that do not increase.

    Examples
    --------
    >>> one = play("uniform", one_good(2, 0.25), [10, 1000])
    >>> one.pulls.sum(axis=1).tolist()
    [10, 1000]
    """
    check_choice("policy", policy, tuple(POLICIES))
    mu = np.array(means, dtype=np.float64)
    if mu.ndim != 1 or not len(mu) or not ((mu >= 0) & (mu <= 1)).all():
        raise InvalidInput(f"means: one row of probabilities, got {means!r}")
    ends = np.atleast_1d(np.asarray(marks, dtype=np.int64))
    if ends[0] < 1 or (np.diff(ends) <= 0).any():
        raise InvalidInput(f"marks: increasing numbers of rounds from 1 on, got {marks!r}")
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    order = rng.permutation(len(mu))
    shuffled = np.zeros((len(ends), len(mu)), np.int64)
    work = np.zeros(3, np.int64)
    run: Any = POLICIES[policy]
    run(rng, mu[order], ends, shuffled, work)
    pulls = np.empty_like(shuffled)
    pulls[:, order] = shuffled
    return Play(mu, ends, pulls, work)
