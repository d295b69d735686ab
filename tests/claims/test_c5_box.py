"""Claim C5: in its box, the expected slope ratio of SOLAR against exact OPT is below 3.

The box: K in 1..32, lambda in [0, 10], cycles K < w <= 4K and piecewise-stationary requests with working sets
of K/2 <= w <= 4K items and segments of 10K to 50K steps; stream with e_t served best by itself,
serve_then_update, free fill. The value of a case (a trace, a lambda) is the expectation over the policy's
coins of ``(ALG(2T) - ALG(T)) / (OPT(2T) - OPT(T))``, T >= max(60K, 4000), at least four segments in T and in
(T, 2T].

Statistics. Runs with different seeds are independent, and a run's slope is a sum over thousands of steps, so
Student's t limits are used, one-sided, with error 10^-6 shared by three looks at 30, 120 and 480 runs.
(Limits for bounded variables, Hoeffding's or the empirical Bernstein bound, would be valid without the normal
approximation, but with slopes anywhere in [0, 2T / OPT] they decide nothing below 10^4 runs. docs/solar.md
shows how normal the slopes are.) A case passes if its upper limit is below 3, fails if its lower limit is
above 3, and is listed as undecided otherwise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from adversaries.families import make_trace
from offline_opt import solve
from softhit import Trace, cost, from_requests, simulate

BOUND = 3.0
ERROR = 1e-6
LOOKS = (30, 120, 480)
LEAST_INCREMENT = 200
MEMBERS = 6


@dataclass(frozen=True)
class Case:
    """One instance. ``segment = 0``: a cycle."""

    capacity: int
    w: int
    segment: int
    switch_cost: Fraction
    zipf: float = 0.0
    form: str = "hard"
    seed: int = 0

    def steps(self, scale: int) -> int:
        """T, a whole number of segments or rounds."""
        period = self.segment or self.w
        return period * max(4, math.ceil(max(60 * self.capacity, 4000) / period)) * scale

    def requests(self, steps: int) -> np.ndarray:
        if self.segment == 0:
            return np.arange(steps) % self.w
        rng = np.random.default_rng([self.seed, 17])
        share = 1 / np.arange(1, self.w + 1) ** self.zipf
        share /= share.sum()
        sets = (rng.choice(10 * self.capacity, self.w, replace=False) for _ in range(steps // self.segment))
        return np.concatenate([s[rng.choice(self.w, self.segment, p=share)] for s in sets])

    def trace(self, steps: int) -> Trace:
        """Hard; graded: each item serves its own query with its own quality; classes: items of equal meaning
        that arrive in turn; soft: neighbours on a ring serve with quality 1/2."""
        if self.form == "soft":
            common = {"form": "soft", "w": self.w}
            if self.segment == 0:
                return make_trace("cycling", self.capacity, steps, **common)
            return make_trace(
                "piecewise", self.capacity, steps, seed=self.seed, segment=self.segment, **common
            )
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
            items=(asked[:, None] * MEMBERS + np.arange(MEMBERS)).ravel(),
            quality=np.full(steps * MEMBERS, 10_000),
            arrivals=asked * MEMBERS + turn,
        )


@cache
def prepared(case: Case) -> tuple[Trace, Trace, float, float] | None:
    """(prefix of T steps, trace of 2T steps, OPT(2T) - OPT(T) or a lower bound of it, OPT(2T) / 2T)."""
    for scale in (1, 2, 4) if case.form != "soft" else (1,):
        half = case.steps(scale)
        trace = case.trace(2 * half)
        prefix = trace.prefix(half)
        method = "relaxation" if case.form == "soft" else "auto"
        first, both = (solve(t, case.capacity, case.switch_cost, method=method) for t in (prefix, trace))
        if case.form != "soft":
            assert first.kind == both.kind == "exact"
        increment = float(both.lower_bound) - float(first.cost)
        if increment >= LEAST_INCREMENT:
            return prefix, trace, increment, float(both.lower_bound) / (2 * half)
    return None


@dataclass(frozen=True)
class Verdict:
    state: str
    mean: float
    lower: float
    upper: float
    runs: int


def run(policy: str, case: Case, seed: int) -> float:
    """The slope ratio of one run; the same seed makes the same decisions on the prefix."""
    ready = prepared(case)
    assert ready is not None
    ends = [
        float(
            cost(
                simulate(policy, t, case.capacity, case.switch_cost, seed=seed),
                t,
                case.capacity,
                case.switch_cost,
            )
        )
        for t in ready[:2]
    ]
    return (ends[1] - ends[0]) / ready[2]


def judge(policy: str, case: Case, bound: float = BOUND) -> Verdict:
    """Look at 30 runs, then at 120 and 480 while undecided."""
    values: list[float] = []
    for runs in LOOKS:
        values += [run(policy, case, seed) for seed in range(len(values), runs)]
        mean, spread = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(runs)
        reach = float(stats.t.isf(ERROR / len(LOOKS), runs - 1)) * spread
        state = "below" if mean + reach < bound else "above" if mean - reach > bound else "undecided"
        if state != "undecided":
            break
    return Verdict(state, mean, mean - reach, mean + reach, runs)


class Ledger:
    """What a search met."""

    def __init__(self, policy: str, bound: float = BOUND) -> None:
        self.policy, self.bound = policy, bound
        self.seen: dict[Case, Verdict] = {}
        self.loads: list[float] = []

    def check(self, case: Case) -> None:
        ready = prepared(case)
        assert ready is not None, "OPT grows too little"
        self.loads.append(ready[3])
        verdict = self.seen[case] = judge(self.policy, case, self.bound)
        # one-sided: undecided cases are listed, not failed
        assert verdict.state != "above", (case, verdict)

    def report(self, tell: Callable[[str, str], None]) -> None:
        worst = max(self.seen, key=lambda c: self.seen[c].mean)
        v = self.seen[worst]
        tell(
            "cases", f"{len(self.seen)}, of these OPT <= 0.7 T in {np.mean(np.array(self.loads) <= 0.7):.0%}"
        )
        tell("worst", f"{v.mean:.3f} in [{v.lower:.3f}, {v.upper:.3f}] from {v.runs} runs at {worst}")
        for case, verdict in self.seen.items():
            if verdict.state == "undecided":
                tell(
                    "undecided", f"{verdict.mean:.3f} in [{verdict.lower:.3f}, {verdict.upper:.3f}] at {case}"
                )


TINY = Fraction(1, 10**6)
# a fixed threshold lambda + kappa jumps where it is a whole number: such lambda, from below and exactly
JUMPS = [j - k for j in range(1, 11) for k in (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(17, 20))]
LAMBDAS = st.one_of(
    st.just(Fraction(0)),
    st.integers(0, 20).map(lambda n: Fraction(n, 2)),
    st.sampled_from([x - TINY for x in JUMPS]),
    st.sampled_from(JUMPS),
    st.floats(0, 1).map(lambda x: Fraction(repr(x))),
    st.floats(0, 10).map(lambda x: Fraction(repr(x))),
)


@st.composite
def cases(draw: Any, forms: tuple[str, ...] = ("hard", "hard", "hard", "classes", "graded")) -> Case:
    capacity = draw(st.integers(1, 32) | st.sampled_from([1, 2, 3, 16, 31, 32]))
    switch_cost, form, seed = draw(LAMBDAS), draw(st.sampled_from(forms)), draw(st.integers(0, 10**6))
    if draw(st.integers(0, 3)) == 0:
        return Case(capacity, draw(st.integers(capacity + 1, 4 * capacity)), 0, switch_cost, 0.0, form, seed)
    near = st.integers(capacity + 1, math.ceil(1.3 * capacity))  # where OPT's foresight helps it most
    w = draw(st.integers((capacity + 1) // 2, 4 * capacity) | near)
    segment = capacity * draw(st.integers(10, 50) | st.just(50))
    zipf = draw(st.just(0.0) | st.floats(0.3, 1.3).map(lambda x: round(x, 2)))
    return Case(capacity, w, segment, switch_cost, zipf, form, seed)


def search(policy: str, examples: int, tell: Callable[[str, str], None]) -> Ledger:
    ledger = Ledger(policy)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases())
    @example(Case(32, 38, 1600, Fraction(0), seed=1))
    @example(Case(32, 36, 1600, Fraction(0), seed=500))
    @example(Case(32, 36, 1600, Fraction(1, 10), seed=2))
    @example(Case(32, 33, 0, Fraction(0)))
    @example(Case(32, 37, 1600, Fraction(0), 0.0, "classes", 3))
    @example(Case(3, 4, 150, Fraction(0), seed=4))
    @example(Case(1, 2, 50, Fraction(1, 4) - TINY, seed=5))
    def property_holds(case: Case) -> None:
        assume(prepared(case) is not None)
        ledger.check(case)

    try:
        property_holds()
    finally:
        ledger.report(tell)
    return ledger


def test_solar_stays_below_three_in_the_box(tell: Callable[[str, str], None]) -> None:
    ledger = search("solar", 60, tell)
    assert len(ledger.seen) >= 30
    assert np.mean(np.array(ledger.loads) <= 0.7) >= 0.5
    assert sum(v.state == "undecided" for v in ledger.seen.values()) <= len(ledger.seen) // 20


@pytest.mark.slow
def test_solar_stays_below_three_in_the_box_on_many_cases(tell: Callable[[str, str], None]) -> None:
    ledger = search("solar", 800, tell)
    assert len(ledger.seen) >= 400
    assert np.mean(np.array(ledger.loads) <= 0.7) >= 0.5


SOFT = [
    Case(4, 5, 200, Fraction(1), form="soft", seed=2),
    pytest.param(Case(2, 4, 100, Fraction(1, 2), form="soft", seed=1), marks=pytest.mark.slow),
    pytest.param(Case(4, 5, 0, Fraction(1), form="soft"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", SOFT, ids=str)
def test_soft_neighbours_stay_below_three_against_a_lower_bound_of_opt(
    case: Case, tell: Callable[[str, str], None]
) -> None:
    # OPT(2T) - OPT(T) >= certified lower bound at 2T - cost of a schedule at T
    ledger = Ledger("solar")
    ledger.check(case)
    ledger.report(tell)
    assert ledger.seen[case].state == "below"


# One change each, and a case of the box (the fixed threshold also beyond it) where the change shows.
MUTANTS = {
    "bare prior": ("solar(evidence=false)", Case(32, 38, 1600, Fraction(0), seed=1)),
    "posterior mean": ("solar_mean", Case(32, 33, 0, Fraction(0))),
    "fixed threshold": ("solar(xi_low=0.85, xi_high=0.85)", Case(32, 33, 0, Fraction(0))),
    "fixed threshold, K = 64": (
        "solar(xi_low=0.85, xi_high=0.85)",
        Case(64, 65, 0, Fraction(149, 1000)),
    ),
    "horizon 8K": ("solar(horizon=8)", Case(32, 32, 1600, Fraction(0), seed=1)),
    "the paper's wording": ("solar_paper", Case(32, 38, 1600, Fraction(0), seed=1)),
    "no gate": ("solar_eviction", Case(32, 128, 0, Fraction(10))),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_check_fails_for_each_mutant(name: str) -> None:
    policy, case = MUTANTS[name]
    with pytest.raises(AssertionError, match="above"):
        Ledger(policy).check(case)
    Ledger("solar").check(case)


def test_the_check_fails_for_a_bound_below_what_solar_reaches(tell: Callable[[str, str], None]) -> None:
    case = Case(32, 38, 1600, Fraction(0), seed=1)
    with pytest.raises(AssertionError, match="above"):
        Ledger("solar", bound=2.5).check(case)
    assert judge("solar", case, bound=judge("solar", case).mean).state == "undecided"


def test_uniform_requests_without_end_are_outside_the_box_for_a_reason() -> None:
    # claim C1 with tau = 1: one segment on K + 1 items; no online policy stays below H_K
    capacity, steps = 32, 300_000
    asked = np.random.default_rng(3).integers(0, capacity + 1, steps)
    trace = from_requests(asked)
    prefix = trace.prefix(steps // 2)
    low, high = (float(solve(t, capacity, 0).cost) for t in (prefix, trace))
    spent = [float(cost(simulate("solar", t, capacity, 0, seed=0), t, capacity, 0)) for t in (prefix, trace)]
    assert (spent[1] - spent[0]) / (high - low) > 3
