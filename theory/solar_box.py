"""The box of claim C5: its traces, exact increments of OPT, and whether an expected slope is below 3.

The value of a case (one trace, one lambda) is the expectation over the policy's coins of ``(ALG(2T) -
ALG(T)) / (OPT(2T) - OPT(T))``, T >= max(60K, 4000), at least four segments in T and in (T, 2T], where OPT
grows by 200 or more.

Statistics. Runs with different seeds are independent, and a run's slope is a sum over thousands of steps,
so Student's t limits are used, one-sided, with error 10^-6 shared by three looks at 30, 120 and 480 runs.
(Limits for bounded variables, Hoeffding's or the empirical Bernstein bound, would be valid without the
normal approximation, but with slopes anywhere in [0, 2T / OPT] they decide nothing below 10^4 runs.
docs/solar.md shows how normal the slopes are.) A case is below if its upper limit is below 3, above if
its lower limit is above 3, and undecided otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from adversaries.families import make_trace
from offline_opt import solve
from softhit import Trace, from_requests, simulate
from softhit.cost import added_cost
from softhit.errors import NotCertified

__all__ = ["BOUND", "Case", "Verdict", "draw", "growth", "judge", "limits", "slopes"]

BOUND = 3.0
ERROR = 1e-6
LOOKS = (30, 120, 480)
LEAST_INCREMENT = 200
MEMBERS = 6
FORMS = ("hard", "hard", "hard", "classes", "graded")
TINY = Fraction(1, 10**6)


@dataclass(frozen=True)
class Case:
    """One instance: a trace and lambda. ``segment = 0``: a cycle.

    Forms: ``hard``; ``graded``: each item serves its own query with its own quality; ``classes``: six items
    of equal meaning, which arrive in turn; ``soft``: neighbours on a ring serve with quality 1/2.

    Examples
    --------
    >>> case = Case(capacity=4, w=5, segment=200, switch_cost=Fraction(0))
    >>> case.steps(1), case.trace(400).n_steps
    (4000, 400)
    """

    capacity: int
    w: int
    segment: int
    switch_cost: Fraction
    zipf: float = 0.0
    form: str = "hard"
    seed: int = 0

    def steps(self, scale: int) -> int:
        """Return T, a whole number of segments or rounds."""
        period = self.segment or self.w
        return period * max(4, math.ceil(max(60 * self.capacity, 4000) / period)) * scale

    def requests(self, steps: int) -> NDArray[np.int64]:
        """Return the items asked for; every segment draws its working set afresh from 10K items."""
        if self.segment == 0:
            return np.arange(steps) % self.w
        rng = np.random.default_rng([self.seed, 17])
        share = 1 / np.arange(1, self.w + 1) ** self.zipf
        share /= share.sum()
        sets = (rng.choice(10 * self.capacity, self.w, replace=False) for _ in range(steps // self.segment))
        return np.concatenate([s[rng.choice(self.w, self.segment, p=share)] for s in sets])

    def trace(self, steps: int) -> Trace:
        """Return the trace of that many steps."""
        if self.form == "soft":
            ring: dict[str, Any] = {"form": "soft", "w": self.w}
            if self.segment == 0:
                return make_trace("cycling", self.capacity, steps, **ring)
            return make_trace("piecewise", self.capacity, steps, seed=self.seed, segment=self.segment, **ring)
        asked = self.requests(steps)
        if self.form == "hard":
            return from_requests(asked)
        n = int(asked.max()) + 1
        if self.form == "graded":
            return from_requests(asked, quality=np.random.default_rng(self.seed).uniform(0.3, 1, n)[asked])
        turn, count = np.empty(steps, np.int64), np.zeros(n, np.int64)
        for t, c in enumerate(asked):
            turn[t] = count[c] % MEMBERS
            count[c] += 1
        return Trace(
            n_items=n * MEMBERS,
            indptr=np.arange(steps + 1) * MEMBERS,
            items=(asked[:, None] * MEMBERS + np.arange(MEMBERS)).ravel().astype(np.int32),
            quality=np.full(steps * MEMBERS, 10_000, np.int32),
            arrivals=(asked * MEMBERS + turn).astype(np.int32),
        )


@lru_cache(maxsize=32)
def growth(case: Case) -> tuple[Trace, int, float, float] | None:
    """Return (trace of 2T steps, T, OPT(2T) - OPT(T) or for soft hits a lower bound of it, OPT(2T) / 2T).

    ``None`` where OPT grows by less than 200 even on a longer trace.
    """
    for scale in (1, 2, 4) if case.form != "soft" else (1,):
        half = case.steps(scale)
        trace = case.trace(2 * half)
        method = "relaxation" if case.form == "soft" else "auto"
        first, both = (
            solve(t, case.capacity, case.switch_cost, method=method) for t in (trace.prefix(half), trace)
        )
        if case.form != "soft" and not first.kind == both.kind == "exact":
            raise NotCertified(f"{case}: OPT only bracketed")
        if first.cost is None:
            raise NotCertified(f"{case}: no schedule")
        increment = float(both.lower_bound) - float(first.cost)
        if increment >= LEAST_INCREMENT:
            return trace, half, increment, float(both.lower_bound) / (2 * half)
    return None


def slopes(policy: str, case: Case, seeds: Iterable[int]) -> list[float]:
    """Return the slope of one run for each seed; an online policy's run on 2T steps begins with that on T."""
    ready = growth(case)
    if ready is None:
        raise NotCertified(f"{case}: OPT grows by less than {LEAST_INCREMENT}")
    trace, half, increment, _ = ready
    prefix, k, lam = trace.prefix(half), case.capacity, case.switch_cost
    out = []
    for seed in seeds:
        schedule = simulate(policy, trace, k, lam, seed=seed)
        out.append(float(added_cost(schedule, trace, prefix, k, lam)) / increment)
    return out


@dataclass(frozen=True)
class Verdict:
    """What was decided, the mean slope, its one-sided limits, and from how many runs."""

    state: str
    mean: float
    lower: float
    upper: float
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} in [{self.lower:.3f}, {self.upper:.3f}] from {self.runs} runs"


def limits(values: list[float], error: float) -> tuple[float, float, float]:
    """Return the mean and its one-sided lower and upper limit, each with that error (Student)."""
    n = len(values)
    reach = float(stats.t.isf(error, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(values))
    return mean, mean - reach, mean + reach


def judge(policy: str, case: Case, bound: float = BOUND) -> Verdict:
    """Look at 30 runs, then at 120 and 480 while undecided."""
    values: list[float] = []
    for runs in LOOKS:
        values += slopes(policy, case, range(len(values), runs))
        mean, lower, upper = limits(values, ERROR / len(LOOKS))
        state = "below" if upper < bound else "above" if lower > bound else "undecided"
        if state != "undecided":
            break
    return Verdict(state, mean, lower, upper, len(values))


# a fixed threshold lambda + kappa jumps where it is a whole number: such lambda, from below and exactly
_JUMPS = [j - Fraction(k) for j in range(1, 11) for k in ("0", "1/4", "1/2", "17/20")]


def draw(rng: np.random.Generator) -> Case:
    """Return a case of the box: hard or soft with exact OPT, K near its ends more often, w near K too."""
    capacity = int(rng.choice([1, 2, 3, 16, 31, 32]) if rng.random() < 0.5 else rng.integers(1, 33))
    kind = int(rng.integers(6))
    if kind <= 1:
        switch_cost = Fraction(kind * int(rng.integers(0, 21)), 2)
    elif kind <= 3:
        switch_cost = _JUMPS[int(rng.integers(len(_JUMPS)))] - (TINY if kind == 2 else 0)
    else:
        switch_cost = Fraction(repr(float(rng.uniform(0, 1 if kind == 4 else 10))))
    form, seed = str(rng.choice(FORMS)), int(rng.integers(10**6))
    if rng.random() < 0.25:
        w = int(rng.integers(capacity + 1, 4 * capacity + 1))
        return Case(capacity, w, 0, switch_cost, 0.0, form, seed)
    # where OPT's foresight helps it most
    low, high = capacity + 1, math.ceil(1.3 * capacity)
    if rng.random() < 0.5:
        low, high = (capacity + 1) // 2, 4 * capacity
    w = int(rng.integers(low, max(low, high) + 1))
    segment = capacity * (50 if rng.random() < 0.5 else int(rng.integers(10, 51)))
    zipf = 0.0 if rng.random() < 0.5 else round(float(rng.uniform(0.3, 1.3)), 2)
    return Case(capacity, w, segment, switch_cost, zipf, form, seed)
