"""From a lasso to a trace whose ratio is measured from scratch: simulated, verified, and priced.

The trace has an even number of steps T, about as many as asked for, and T/2 is a whole number of cycles, of
periods of the policy and of OPT where these were seen. Reported is the slope ratio of its second half,

    (ALG(T) - ALG(T/2)) / (OPT(T) - OPT(T/2)),

exact where the policy draws no random numbers and OPT is exact; where OPT lies between two bounds it is the
largest that it can be. Of a policy that draws, ALG is a mean over fresh seeds, which no
part of the search has used, and the ratio comes with a one-sided limit: it exceeds the limit unless an event
of probability ``error`` has happened, by Student's t (OPT is a number here, and a cost of many rounds is
close to normal).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from scipy.stats import t as student

from adversaries.search.attack import Search
from adversaries.search.lasso import Lasso
from adversaries.search.objective import Objective
from softhit.check import check_int
from softhit.cost import added_cost
from softhit.simulate import simulate
from softhit.trace import Trace

__all__ = ["ERROR", "FINAL_SEEDS", "Finding", "choose_best", "measure"]

ERROR = 1e-6
FINAL_SEEDS = 1000
FIRST_CHOICE, FIRST_FINAL = 100_000, 200_000
"""Seeds from which on the best of a search are compared, and the winner is measured."""
CHOICE_SEEDS = 128


@dataclass(frozen=True)
class Finding:
    """A trace and what it does to a policy.

    Attributes
    ----------
    lasso : Lasso
    trace : Trace
    ratio : Fraction or None
        Of the second half; None: infinite.
    alg, opt : Fraction
        What the second half adds; ``alg`` is a mean over ``seeds``.
    exact : bool
        Whether ``opt`` is exact. Else OPT adds no more than that, and the true ratio is at least ``ratio``.
    low : float or None
        The one-sided limit, for a policy that draws random numbers.
    seeds : range
    repeats : bool
        The policy's and OPT's payments repeat, as far as was seen, and the ratio is that of their periods.
    """

    lasso: Lasso
    trace: Trace
    ratio: Fraction | None
    alg: Fraction
    opt: Fraction
    exact: bool
    low: float | None
    seeds: range
    repeats: bool


def choose_best(search: Search) -> Lasso:
    """Return the best lasso of a search; of a noisy one, the best on seeds that it has not used."""
    if not search.objective.random:
        return search.best[0]
    search.best  # noqa: B018  (raises if there is none)
    seeds = list(range(FIRST_CHOICE, FIRST_CHOICE + CHOICE_SEEDS))
    return max((lasso for lasso, _ in search.hall), key=lambda x: search.objective(x, seeds).rank)


def half_length(objective: Objective, lasso: Lasso, steps: int) -> int:
    """Return T/2: whole cycles and, where they were seen and fit, whole periods."""
    value = objective(lasso)
    half = max(1, steps // (2 * len(lasso.cycle)))
    periods = lcm(max(1, value.period), max(1, value.opt_period))
    if periods <= half:
        half -= half % periods
    return half * len(lasso.cycle)


def measure(
    objective: Objective,
    lasso: Lasso,
    steps: int = 2000,
    seeds: int = FINAL_SEEDS,
    metadata: dict[str, Any] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Finding:
    """Measure a lasso from scratch.

    Parameters
    ----------
    objective : Objective
        Names the policy, K, N, lambda and variant.
    lasso : Lasso
    steps : int
        About the length of the trace.
    seeds : int
        For a policy that draws random numbers.
    metadata : dict, optional
        Goes into the trace.

    Raises
    ------
    NotCertified
        There is no bound on OPT.

    Examples
    --------
    >>> found = measure(Objective("fifo", capacity=2, n_items=3), Lasso((), (0, 1, 2)), steps=60)
    >>> found.trace.n_steps, found.alg, found.opt, found.ratio
    (60, Fraction(60, 1), Fraction(10, 1), Fraction(6, 1))
    """
    half = half_length(objective, lasso, check_int("steps", steps, low=2))
    trace = lasso.trace(2 * half, objective.n_items, metadata, objective.near)
    opt, exact = objective.optimum_rise(np.asarray(trace.arrivals, np.int64), half)
    value = objective(lasso)
    if not objective.random:
        alg, low, used = _added(objective, trace, half, 0), None, range(1)
    else:
        used = range(FIRST_FINAL, FIRST_FINAL + check_int("seeds", seeds, low=2))
        alg, low = _mean(objective, trace, half, used, opt, tell)
    ratio = alg / opt if opt > 0 else None if alg > 0 else Fraction(0)
    repeats = value.period > 0 and value.opt_period > 0 and ratio == value.ratio
    return Finding(lasso, trace, ratio, alg, opt, exact, low, used, repeats)


def _added(objective: Objective, trace: Trace, half: int, seed: int) -> Fraction:
    k, lam, variant = objective.capacity, objective.switch_cost, objective.variant
    schedule = simulate(objective.policy, trace, k, lam, seed=seed, variant=variant)
    return added_cost(schedule, trace, trace.prefix(half), k, lam, variant)


def _mean(
    objective: Objective,
    trace: Trace,
    half: int,
    seeds: range,
    opt: Fraction,
    tell: Callable[[str], None] | None,
) -> tuple[Fraction, float | None]:
    """Return the mean of what the second half costs, and the limit of its ratio to OPT."""
    requests = np.asarray(trace.arrivals, np.int64)
    unit, added = objective.runner.unit, []
    for n, seed in enumerate(seeds):
        bills = objective.runner.bills(requests, seed)
        added.append(int(bills[-1] - bills[half]))
        if n < 3 and Fraction(added[-1], unit) != _added(objective, trace, half, seed):
            raise AssertionError("the fast runner and softhit.cost differ")
        if tell is not None:
            tell(f"measured on {n + 1} of {len(seeds)} fresh seeds")
    mean = Fraction(sum(added), unit * len(added))
    if opt == 0:
        return mean, None
    spread = float(np.std(np.array(added) / unit, ddof=1)) / len(added) ** 0.5
    return mean, (float(mean) - float(student.ppf(1 - ERROR, len(added) - 1)) * spread) / float(opt)
