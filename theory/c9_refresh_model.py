"""C9: a model in which the constant 3 is a theorem: 2 + 1/lambda, where fresher content is never worse.

The refresh model
-----------------
A modification replaces the content by the current best, at price lambda > 0. Step t costs ``c(t, u)`` in
[0, 1] if the content was last refreshed at the end of step u < t (u = 0: before step 1), and *fresher is
never worse*: c(t, u) does not increase in u. The size of the content, K, plays no part; nor does the
number of steps.

Statement
---------
"Refresh when the cost since the last refresh reaches lambda" pays at most ``(2 + 1/lambda) OPT + lambda``
on every instance of any length, so at most 3 OPT + lambda for lambda >= 1. With steps of 0 or 1 the
factor is ``1 + ceil(lambda)/lambda``: 2 for whole lambda. No smaller factor holds for this policy.

Why
---
A *phase* lasts from one refresh of the policy to the next. It pays less than lambda before the phase's
last step, at most 1 there, and lambda. OPT either refreshes within the phase, or all through it has
content at most as fresh as the policy's, and pays at least what the policy pays for steps: lambda or
more, each way. What is left after the last refresh is less than lambda. Steps: ``proofs/C9.md``; all
sequences: ``proofs/C9.v``.

*Tight*: each phase has a step that costs nobody anything, then amounts of lambda - eps in all and a step
of 1, for all content refreshed before the end of the free step. The policy pays 2 lambda + 1 - eps a
phase, OPT refreshes after the free step and pays lambda. So 2 + 1/lambda is approached, also for lambda <
1, where it exceeds 3.

Outside
-------
Where items recur fresher is *not* always better. One slot that holds A; requests B, A; lambda = 1. The
policy misses B, refreshes to B, and misses A: its second phase. OPT keeps A and pays 0 in that phase, so
the argument ends there; no shorter trace does this. On B, A, B, A the policy pays 8, OPT 2: more than 3
OPT + lambda = 7, and no shorter trace exceeds that. On B, A, B, A, ... the ratio tends to 4; with K slots
FIFO, which is this policy on one slot for lambda <= 1, has the (K+1)(1+lambda) of B2; C1 says that no
policy escapes H_K.

The refresh model is probably what the paper's constant means: its "modification" then updates a store
towards the current data, and old versions do not come back into their own. In that reading "at most 3,
independent of K and T" is right for lambda >= 1, and this module proves it. It does not carry over to
caches whose items recur.

Examples
--------
>>> c = [[1], [1, 0], [1, 0, 0]]                     # c[t-1][u]; whoever refreshes after step 1 is safe
>>> refreshes(c, Fraction(1)), price(c, Fraction(1), [1]), optimum(c, Fraction(1))
([1], Fraction(2, 1), Fraction(2, 1))

References
----------
The constant: abstract of the SOLAR paper, whose proof is not in the text we have. The policy is the
classical one of rent-or-buy problems: Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching",
Algorithmica 3 (1988). The model as stated here is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import ceil

import numpy as np

from softhit import Variant, from_requests
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import optimum as cache_optimum
from theory.measure import paid
from theory.smt import unsat

__all__ = ["CLAIM", "fresher_is_no_worse", "optimum", "price", "recurring", "refreshes", "tight_instance"]

Costs = Sequence[Sequence[Fraction | int]]
"""``c[t-1][u]``: cost of step t = 1..T for content last refreshed at the end of step u = 0..t-1."""


def fresher_is_no_worse(c: Costs) -> bool:
    """Whether no step costs more with content that was refreshed later."""
    return all(row[u] >= row[u + 1] for row in c for u in range(len(row) - 1))


def refreshes(c: Costs, lam: Fraction, threshold: Fraction | None = None) -> list[int]:
    """Return the steps after which the policy refreshes: the cost since its last refresh reaches lambda."""
    limit = lam if threshold is None else threshold
    out: list[int] = []
    last, since = 0, Fraction(0)
    for t, row in enumerate(c, 1):
        since += row[last]
        if since >= limit:
            out.append(t)
            last, since = t, Fraction(0)
    return out


def price(c: Costs, lam: Fraction, after: Iterable[int]) -> Fraction:
    """Return what a schedule pays that refreshes after these steps.

    >>> price([[1], [1, 0]], Fraction(2), [1])
    Fraction(3, 1)
    """
    chosen = set(after)
    total, last = Fraction(0), 0
    for t, row in enumerate(c, 1):
        total += row[last]
        if t in chosen:
            total += lam
            last = t
    return total


def optimum(c: Costs, lam: Fraction) -> Fraction:
    """Return the least price of any schedule, by dynamic programming over the last refresh."""
    best = [Fraction(0)]
    for row in c:
        best = [paid + step for paid, step in zip(best, row, strict=True)]
        best.append(min(best) + lam)
    return min(best)


def factor(lam: Fraction) -> Fraction:
    """Return 2 + 1/lambda."""
    return 2 + 1 / lam


def hard_factor(lam: Fraction) -> Fraction:
    """Return 1 + ceil(lambda)/lambda, for steps of 0 or 1."""
    return 1 + ceil(lam) / lam


Factor = Callable[[Fraction], Fraction]


def _within(c: Costs, lam: Fraction, most: Fraction, times: Fraction, what: str) -> None:
    alg, best = price(c, lam, refreshes(c, lam, times * lam)), optimum(c, lam)
    hold(alg <= most * best + lam, f"{what}, lambda={lam}: {alg} above {most} * {best} + {lam}")


def every_hard_instance(most: Factor = hard_factor, times: Fraction = Fraction(1)) -> None:
    """All 5912 instances of 1 to 6 steps of 0 or 1: at most (1 + ceil(lambda)/lambda) OPT + lambda."""
    lambdas = [Fraction(n, 4) for n in (1, 2, 3, 4, 5, 6, 8, 9, 12, 14)]
    count = 0
    for steps in range(1, 7):
        # step t costs 1 to content refreshed before step ages[t-1], nothing to fresher content
        for ages in product(*(range(t + 1) for t in range(1, steps + 1))):
            c = [[int(u < age) for u in range(t)] for t, age in enumerate(ages, 1)]
            count += 1
            # ten prices; two of them in turn for the many instances of six steps
            for lam in lambdas[count % 5 :: 5] if steps == 6 else lambdas:
                _within(c, lam, most(lam), times, f"c = {c}")
    equal(count, 2 + 6 + 24 + 120 + 720 + 5040, "instances")


def random_instances(most: Factor = factor, times: Fraction = Fraction(1)) -> None:
    """Costs anywhere in [0, 1], up to 80 steps: at most (2 + 1/lambda) OPT + lambda."""
    rng = np.random.default_rng(9)
    for number in range(200):
        lam = Fraction(int(rng.integers(1, 40)), 8)
        steps = int(rng.integers(5, 81))
        shape = float(rng.choice([0.2, 1.0, 5.0]))
        c = []
        for t in range(1, steps + 1):
            values = np.sort(rng.beta(shape, 2 * shape, t))[::-1]
            # what was refreshed recently serves for nothing: only then is a refresh worth its price
            values[t - min(t, int(rng.integers(0, 12))) :] = 0
            c.append([Fraction(round(float(v) * 32), 32) for v in values])
        hold(fresher_is_no_worse(c), f"run {number}: not an instance of the model")
        _within(c, lam, most(lam), times, f"run {number}")


def optimum_by_enumeration(extra: int = 0) -> None:
    """The dynamic programme gives the least price of all 2^T schedules, T <= 8, monotone costs or not."""
    rng = np.random.default_rng(10)
    for number in range(60):
        steps = int(rng.integers(1, 9))
        c = [[int(x) for x in rng.integers(0, 4, t)] for t in range(1, steps + 1)]
        lam = Fraction(int(rng.integers(1, 10)), 2)
        ways = product((False, True), repeat=steps)
        least = min(price(c, lam, [t for t, yes in enumerate(way, 1) if yes]) for way in ways)
        equal(optimum(c, lam), least + extra, f"run {number}: optimum")


def tight_instance(amounts: Sequence[Fraction], phases: int) -> list[list[Fraction]]:
    """Return phases of a free step and then these costs, for content from before the end of the free step."""
    c: list[list[Fraction]] = []
    for _ in range(phases):
        free = len(c) + 1
        c.append([Fraction(0)] * free)
        for amount in amounts:
            t = len(c) + 1
            c.append([amount if u < free else Fraction(0) for u in range(t)])
    return c


def _pieces(total: Fraction) -> list[Fraction]:
    whole = [Fraction(1)] * int(total)
    return whole + [total - len(whole)] * (total > len(whole))


def tight(most: Factor = factor, hard: Factor = hard_factor, eps: Fraction = Fraction(1, 1000)) -> None:
    """A phase costs the policy 2 + (1-eps)/lambda times what it costs OPT; hard: 1 + ceil(lambda)/lambda."""
    for lam in map(Fraction, ("1/2", "1", "3/2", "2", "5")):
        families = (
            ("soft", [*_pieces(lam - eps), Fraction(1)], most(lam) - eps / lam),
            ("hard", [Fraction(1)] * ceil(lam), hard(lam)),
        )
        for kind, amounts, ratio in families:
            grown = []
            for phases in (10, 20):
                c = tight_instance(amounts, phases)
                hold(fresher_is_no_worse(c), f"{kind}, lambda={lam}: not an instance of the model")
                grown.append((price(c, lam, refreshes(c, lam)), optimum(c, lam)))
            (alg, best), (alg2, best2) = grown
            equal((alg2 - alg) / (best2 - best), ratio, f"{kind}, lambda={lam}: slope")


def _phase(most: str, fresher: str = "(<= a b)") -> str:
    """Return the script of one step of the phase argument, negated."""
    return f"""; C9, a step of a phase. since: the policy's step costs in it so far; has: what the schedule
; has paid in it; stale: its content is no fresher than the policy's, so it did not refresh in this phase
(set-logic QF_LRA)
(declare-const lambda Real)
(declare-const since Real)
(declare-const has Real)
(declare-const a Real)
(declare-const b Real)
(declare-const stale Bool)
(declare-const refreshes Bool)
(assert (> lambda 0.0))
(assert (and (>= since 0.0) (< since lambda)))
(assert (and (<= 0.0 a) (<= a 1.0) (<= 0.0 b) (<= b 1.0)))
(assert (=> stale {fresher}))
(assert (ite stale (<= since has) (>= has lambda)))
(define-fun ends () Bool (>= (+ since a) lambda))
(define-fun pays () Real (+ has b (ite refreshes lambda 0.0)))
(define-fun good () Bool (ite ends
  (and (<= (+ since a lambda) {most}) (>= (+ has b) lambda))
  (ite (and stale (not refreshes)) (<= (+ since a) pays) (>= pays lambda))))
(assert (not good))
(check-sat)
"""


SMT = {
    "phase": _phase("(+ (* 2.0 lambda) 1.0)"),
    "sum": """; C9: p phases of at most 2 lambda + 1 against at least lambda, and less than lambda at the end
(set-logic QF_NRA)
(declare-const lambda Real)
(declare-const p Real)
(declare-const alg Real)
(declare-const opt Real)
(assert (and (> lambda 0.0) (>= p 0.0)))
(assert (<= alg (+ (* p (+ (* 2.0 lambda) 1.0)) lambda)))
(assert (>= opt (* p lambda)))
(assert (> (* lambda alg) (+ (* (+ (* 2.0 lambda) 1.0) opt) (* lambda lambda))))
(check-sat)
""",
    "three": """; C9: for lambda >= 1 the factor is at most 3
(set-logic QF_NRA)
(declare-const lambda Real)
(declare-const factor Real)
(assert (>= lambda 1.0))
(assert (= (* factor lambda) (+ (* 2.0 lambda) 1.0)))
(assert (> factor 3.0))
(check-sat)
""",
}


def phase(most: str = "(+ (* 2.0 lambda) 1.0)", fresher: str = "(<= a b)") -> None:
    """For all real lambda > 0: each phase costs the policy at most 2 lambda + 1, and any schedule lambda."""
    unsat("phase", _phase(most, fresher))
    unsat("sum", SMT["sum"])
    unsat("three", SMT["three"])


def recurring(asked: Sequence[int], start: int = -1) -> list[list[int]]:
    """Return the costs of one slot where items recur: a refresh takes in the item just asked for.

    >>> recurring([1, 0], start=0)                # B, A on a slot that holds A: fresher is worse at step 2
    [[1], [0, 1]]
    """
    content = [start, *asked]
    return [[int(content[u] != asked[t - 1]) for u in range(t)] for t in range(1, len(asked) + 1)]


def _sequences(steps: int) -> Iterator[tuple[int, ...]]:
    """Return all requests up to renaming; the slot holds item 0 at first, new items come in order."""

    def grow(done: tuple[int, ...], top: int) -> Iterator[tuple[int, ...]]:
        if len(done) == steps:
            yield done
            return
        for item in range(top + 2):
            yield from grow((*done, item), max(top, item))

    return grow((), 0)


def _idle_phases(c: Costs, lam: Fraction) -> list[tuple[int, int]]:
    """Return the complete phases (first, last step) in which some optimal schedule pays nothing."""
    ends = [0, *refreshes(c, lam)]
    steps, best = len(c), optimum(c, lam)
    found = set()
    for way in product((False, True), repeat=steps):
        after = [t for t, yes in enumerate(way, 1) if yes]
        if price(c, lam, after) == best:
            for begin, end in pairwise(ends):
                spent = price(c[:end], lam, [t for t in after if t <= end])
                if spent == price(c[:begin], lam, [t for t in after if t <= begin]):
                    found.add((begin + 1, end))
    return sorted(found)


def _smallest(lam: Fraction, longest: int) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return the first trace with an idle phase, and the first that breaks the bound of the refresh model."""
    idle: tuple[int, ...] | None = None
    for steps in range(1, longest + 1):
        for asked in _sequences(steps):
            c = recurring(asked, start=0)
            if idle is None and _idle_phases(c, lam):
                idle = asked
            if price(c, lam, refreshes(c, lam)) > factor(lam) * optimum(c, lam) + lam:
                return idle, asked
    return idle, None


def outside(
    idle: tuple[int, ...] = (1, 0), broken: tuple[int, ...] = (1, 0, 1, 0), model: Costs | None = None
) -> None:
    """Where items recur: the smallest trace on which OPT pays 0 in a phase; the smallest above the bound."""
    lam = Fraction(1)
    c = model or recurring(idle, start=0)
    hold(not fresher_is_no_worse(c), f"requests {idle}: fresher is never worse")
    first, second = _smallest(lam, len(broken))
    equal(first, idle, "smallest trace with a phase in which OPT pays nothing")
    equal(_idle_phases(c, lam), [(2, 2)], f"phases of {idle} in which OPT pays nothing")
    equal(second, broken, "smallest trace above 3 OPT + lambda")
    c = recurring(broken, start=0)
    equal(
        (price(c, lam, refreshes(c, lam)), optimum(c, lam)), (Fraction(8), Fraction(2)), "policy, OPT there"
    )


def same_as_a_cache(policy: str = "fifo") -> None:
    """One slot, lambda <= 1, charged fill: FIFO is this policy, and both optima agree with softhit's."""
    rng = np.random.default_rng(11)
    charged = Variant(fill="charged")
    for number in range(25):
        asked = rng.integers(0, int(rng.integers(2, 5)), int(rng.integers(1, 25))).tolist()
        lam = Fraction(int(rng.integers(1, 5)), 4)
        c, trace = recurring(asked), from_requests(asked)
        where = f"run {number}, lambda={lam}"
        equal(paid(policy, trace, 1, lam, charged), price(c, lam, refreshes(c, lam)), f"{where}: {policy}")
        equal(cache_optimum(trace, 1, lam, charged), optimum(c, lam), f"{where}: OPT")
    lam = Fraction(1)
    ends = [recurring([0, 1] * half) for half in (50, 100)]
    (alg, best), (alg2, best2) = ((price(c, lam, refreshes(c, lam)), optimum(c, lam)) for c in ends)
    equal((alg2 - alg) / (best2 - best), Fraction(4), "slope on A, B, A, B, ..., lambda = 1")


def _two(lam: Fraction) -> Fraction:
    return Fraction(2)


def _less(lam: Fraction) -> Fraction:
    return factor(lam) - Fraction(1, 2)


CLAIM = Claim(
    id="C9",
    title="the refresh model: 2 + 1/lambda",
    statement="If fresher is never worse, refreshing at cost lambda pays <= (2 + 1/lambda) OPT + lambda.",
    variant="refresh model (not a cache of items): c(t, u) in [0, 1], non-increasing in the last refresh u",
    source="probably the intended reading of the SOLAR paper's constant 3; model, proof and tightness ours",
    status="machine-checked",
    scope=(
        "all lambda > 0 (rational in Coq, a phase for reals by SMT), lengths, contents; at most 3 for "
        "lambda >= 1; 0/1 steps: 1 + ceil(lambda)/lambda"
    ),
    breaks="where items recur fresher can be worse: on B, A, B, A, ... (one slot, lambda = 1) the ratio is 4",
    checks=(
        Check("every_hard_instance", every_hard_instance),
        Check("random_instances", random_instances),
        Check("optimum", optimum_by_enumeration),
        Check("tight", tight),
        Check("phase", phase, needs=("z3", "cvc5")),
        Check("outside", outside),
        Check("same_as_a_cache", same_as_a_cache),
    ),
    mutants=(
        Mutant("waits_twice", "every_hard_instance", {"times": Fraction(2)}, "threshold 2 lambda pays 3"),
        Mutant("hard_two", "every_hard_instance", {"most": _two}, "lambda = 1/4: the factor is 5"),
        Mutant("waits_long", "random_instances", {"times": Fraction(12)}, "a threshold of 12 lambda"),
        Mutant("one_more", "optimum", {"extra": 1}, "the optimum is the optimum"),
        Mutant("half_less", "tight", {"most": _less}, "2 + 1/lambda is approached"),
        Mutant("hard_factor_two", "tight", {"hard": _two}, "only for whole lambda"),
        Mutant("phase_for_less", "phase", {"most": "(+ (* 2.0 lambda) 0.5)"}, "the last step may cost 1"),
        Mutant("fresher_may_be_worse", "phase", {"fresher": "true"}, "the assumption is used"),
        Mutant("nothing_recurs", "outside", {"model": [[1], [1, 1]]}, "new items only: the model holds"),
        Mutant("a_longer_trace", "outside", {"idle": (1, 2, 0)}, "not the smallest"),
        Mutant("never_loads", "same_as_a_cache", {"policy": "never"}, "FIFO loads"),
    ),
    proofs=("C9.md", "C9.v"),
)
