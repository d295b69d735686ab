"""The value of a lasso: the slope ratio of a policy to the exact optimum along its cycle.

The rule, for a deterministic policy. Let a_1, ..., a_R be what it pays in R rounds of the cycle after the
prefix. If from round R/2 on these numbers repeat with a period p <= R/4 (the least such p counts), the
policy's slope is their mean over one period. If not, R is doubled, until the requests exceed ``most_steps``;
then it is the mean over the second half. A policy with states that are not seen may go on to do something
else later, so this is a measurement of R rounds, not a theorem; :mod:`adversaries.exact` proves slopes of
machines.

Of a policy that draws random numbers (one that says so, or, if it is not in the registry, one that pays
differently for the same requests when asked again or with another seed) the slope is the mean, over a number
of seeds, of what it pays per round in the second half of a run of at least ``steps`` requests.

OPT's slope is exact (:mod:`adversaries.search.optimum`). Where there are too many items for that, or hits are
soft, OPT's is taken over the second half of a run, from two optima; of those that are only bracketed, from
the bounds that make the ratio smaller.

If OPT does not rise and the policy pays, the ratio is infinite (None); for that the policy must still pay
per round after eight times as many rounds, so one that only learns slowly does not count. If neither pays:
0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.search.lasso import Lasso, ring_trace
from adversaries.search.optimum import OptimumSlope
from adversaries.search.runner import make_runner
from offline_opt import OptResult, solve
from offline_opt.dp import too_large
from softhit.build import from_requests
from softhit.check import check_int, fail
from softhit.errors import NotCertified
from softhit.exact import as_fraction, check_switch_cost
from softhit.jit import lean
from softhit.policies import CompiledPolicy, Policy, make_policy, policy_info, policy_names
from softhit.variant import Variant

__all__ = ["Objective", "Value", "is_random"]

MOST_STEPS = 4096
MIN_STEPS, MIN_ROUNDS = 96, 8
RANDOM_STEPS = 1000
"""Requests in one run of a policy that draws random numbers, at least."""


@dataclass(frozen=True)
class Value:
    """What a lasso is worth.

    Attributes
    ----------
    ratio : Fraction or None
        None: infinite.
    alg, opt : Fraction
        Per round of the cycle.
    period : int
        Rounds after which the policy's payments repeat; 0: not seen to repeat.
    opt_period : int
        The same for OPT; 0: measured, not exact.
    settled : int
        Rounds after which both repeat, as far as was seen.
    """

    ratio: Fraction | None
    alg: Fraction
    opt: Fraction
    period: int
    opt_period: int
    settled: int

    @property
    def rank(self) -> tuple[bool, Fraction]:
        """Orders values; infinite comes last."""
        return self.ratio is None, Fraction(0) if self.ratio is None else self.ratio

    @property
    def text(self) -> str:
        """The ratio for people: a short fraction, or a decimal; ``inf`` where it is infinite."""
        if self.ratio is None:
            return "inf"
        return str(self.ratio) if self.ratio.denominator < 100 else f"{float(self.ratio):.4f}"


@lean
def _period(bills: Any, first: Any, length: Any, rounds: Any) -> Any:
    """Return (the least period of the payments in the last half, the round from which it holds)."""
    for p in range(1, rounds // 4 + 1):
        i = rounds - p - 1
        while i >= 0:
            now = bills[first + (i + 1) * length] - bills[first + i * length]
            later = bills[first + (i + p + 1) * length] - bills[first + (i + p) * length]
            if now != later:
                break
            i -= 1
        if i < rounds // 2:
            return p, i + 1
    return 0, 0


def _registered(policy: Policy) -> bool:
    return isinstance(policy, CompiledPolicy) and policy.kernel.name in policy_names()


def is_random(policy: Policy | str) -> bool:
    """Whether a policy says that it draws random numbers: the registry, or its own ``deterministic``."""
    made = make_policy(policy) if isinstance(policy, str) else policy
    if isinstance(made, CompiledPolicy) and _registered(made):
        return not policy_info(made.kernel.name).deterministic
    return not getattr(made, "deterministic", True)


class Objective:
    """Values lassos for one policy, K, N, lambda and variant.

    Parameters
    ----------
    policy : Policy or str
    capacity, n_items : int
        N > K.
    switch_cost : number or str
    variant : Variant, optional
        ``aggregator="best"``: requests are hard hits.
    seeds : sequence of int, optional
        For a policy that draws random numbers; others have one.
    steps : int
        Requests in one run of a policy that draws random numbers, at least.
    near : number or str, optional
        Soft hits: the items lie on a ring, and the neighbours of a query's item serve it too, with this
        quality.

    Examples
    --------
    >>> value = Objective("lru", capacity=2, n_items=3)(Lasso((), (0, 1, 2)))
    >>> value.ratio, value.alg, value.opt
    (Fraction(6, 1), Fraction(6, 1), Fraction(1, 1))
    """

    def __init__(
        self,
        policy: Policy | str,
        capacity: int,
        n_items: int,
        switch_cost: Any = 1,
        variant: Variant | None = None,
        seeds: range | list[int] = range(4),
        steps: int = RANDOM_STEPS,
        near: Any = None,
    ) -> None:
        self.variant = variant or Variant()
        if self.variant.aggregator != "best" or self.variant.top_k != 1:
            fail("aggregator", self.variant.aggregator, "'best': search plays requests that one item serves")
        self.capacity = check_int("capacity", capacity, low=1)
        self.n_items = check_int("n_items", n_items, low=self.capacity + 1, high=10**6)
        self.switch_cost = check_switch_cost(switch_cost)
        self.policy = make_policy(policy) if isinstance(policy, str) else policy
        self.random = is_random(self.policy)
        self.steps = check_int("steps", steps, low=MIN_STEPS)
        self.near = None if near is None else as_fraction("near", near, low=0)
        if self.near == 0:
            self.near = None
        self.runner = make_runner(
            self.policy, self.capacity, self.n_items, self.switch_cost, self.variant, self.near
        )
        if not self.random and not _registered(self.policy):
            self.random = self._varies()
        self.seeds = list(seeds) if self.random else [0]
        self._slope = None
        if self.near is None and OptimumSlope.fits(self.capacity, self.n_items):
            self._slope = OptimumSlope(self.capacity, self.n_items, self.switch_cost, self.variant)

    def _varies(self) -> bool:
        """Whether a policy that is not known pays something else under another seed, or a second time."""
        requests = np.random.default_rng(0).integers(0, self.n_items, 40 * self.n_items)
        first = self.runner.bills(requests, 0)
        return any(not np.array_equal(first, self.runner.bills(requests, seed)) for seed in (0, 1, 2))

    def __call__(self, lasso: Lasso, seeds: list[int] | None = None) -> Value:
        """Return the value; ``seeds`` in place of the objective's own."""
        prefix, cycle = np.array(lasso.prefix, np.int64), np.array(lasso.cycle, np.int64)
        rise = None if self._slope is None else self._slope(prefix, cycle)
        least = self.steps if self.random else MIN_STEPS
        rounds = max(MIN_ROUNDS, -(-least // len(cycle)))
        rounds += rounds % 2
        alg, period, settled, rounds = self._paid(prefix, cycle, rounds, seeds)
        if rise is not None:
            increment, opt_period, begins = rise
            opt, settled = increment / opt_period, max(settled, begins)
        else:
            opt, opt_period = self._rise(prefix, cycle, rounds), 0
        if opt > 0:
            return Value(alg / opt, alg, opt, period, opt_period, settled)
        if alg > 0:
            alg, period, _, _ = self._paid(prefix, cycle, 8 * rounds, seeds)
        return Value(None if alg > 0 else Fraction(0), alg, opt, period, opt_period, settled)

    def _paid(
        self, prefix: NDArray[np.int64], cycle: NDArray[np.int64], rounds: int, seeds: list[int] | None
    ) -> tuple[Fraction, int, int, int]:
        """Return (what a round costs the policy, its period, when it begins, rounds played)."""
        start, length, unit = len(prefix), len(cycle), self.runner.unit
        while True:
            requests = np.concatenate([prefix, np.tile(cycle, rounds)])
            half = start + (rounds // 2) * length
            if self.random:
                chosen = self.seeds if seeds is None else seeds
                total = 0
                for seed in chosen:
                    bills = self.runner.bills(requests, seed)
                    total += int(bills[-1] - bills[half])
                return Fraction(total, unit * len(chosen) * (rounds // 2)), 0, rounds // 2, rounds
            bills = self.runner.bills(requests, 0)
            period, begins = (int(x) for x in _period(bills, start, length, rounds))
            if period:
                paid = int(bills[-1] - bills[-1 - period * length])
                return Fraction(paid, unit * period), period, begins, rounds
            if 2 * rounds * length > MOST_STEPS:
                paid = int(bills[-1] - bills[half])
                return Fraction(paid, unit * (rounds // 2)), 0, rounds // 2, rounds
            rounds *= 2

    def _rise(self, prefix: NDArray[np.int64], cycle: NDArray[np.int64], rounds: int) -> Fraction:
        half = rounds // 2
        requests = np.concatenate([prefix, np.tile(cycle, rounds)])
        rise, _ = self.optimum_rise(requests, len(prefix) + half * len(cycle))
        return rise / (rounds - half)

    def optimum_rise(self, requests: NDArray[np.int64], mark: int) -> tuple[Fraction, bool]:
        """Return what the steps from ``mark`` on add to OPT, at most, and whether that is exact.

        Where OPT is only known between two bounds, it is the upper one of the whole less the lower, proved
        one of the steps before, so that a ratio to it is not exaggerated.
        """
        found = [self._optimum(requests[:n]) for n in (mark, len(requests))]
        if found[1].cost is None:
            raise NotCertified(f"no schedule was found for {len(requests)} steps")
        exact = all(answer.kind == "exact" for answer in found)
        return found[1].cost.fraction - found[0].lower_bound, exact

    def _optimum(self, requests: NDArray[np.int64]) -> OptResult:
        method = "auto"
        if self.near is None:
            trace = from_requests(requests, n_items=self.n_items)
        else:
            trace = ring_trace(requests, self.n_items, self.near)
            if too_large(trace, self.capacity, self.variant) is None:
                method = "dp"
        return solve(trace, self.capacity, self.switch_cost, self.variant, method=method)
