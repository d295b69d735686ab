"""D2: in the eviction game every policy has regret at least (1/20) min(sqrt(KT), T) on some instance.

Statement
---------
The eviction game, bandit feedback: K >= 2 slots, T >= 1 rounds; a round evicts one slot and loses a
Bernoulli utility, of which only this slot's is seen. For every policy, randomised or not, some instance with
one good slot (loss probability 1/2 - eps, the others 1/2; ``eps = min(sqrt(K/T), 1)/4``) makes the
pseudo-regret at least

    eps (T - T/K - (T/2) sqrt(-(T/K) log(1 - 4 eps^2)))  >=  (1/20) min(sqrt(KT), T).

The *average* over the good slot's place already is that large. This is Theorem 5.1 of Auer, Cesa-Bianchi,
Freund and Schapire (2002), with losses for gains and for the pseudo-regret, which their regret is not below.
K = 1 has no regret.

Proof
-----
``proofs/D2.md``: against fair slots a slot is evicted T/K times on average; the losses tell a good slot from
a fair one only so well (Pinsker), so it is evicted little more often than that.

Examples
--------
>>> from fractions import Fraction
>>> round(float(chain(10, 10_000, Fraction(1, 127))), 2)  # gap just below sqrt(K/T)/4; sqrt(KT)/20 = 15.8
51.26
>>> float(least_bayes_regret(2, 10, Fraction(1, 9)))         # no policy undercuts it; sqrt(20)/20 = 0.22
0.457...

References
----------
P. Auer, N. Cesa-Bianchi, Y. Freund, R. E. Schapire, "The nonstochastic multiarmed bandit problem", SIAM
J. Comput. 32 (2002), 48-77. The exact Bayes regret and the checks are ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from adversaries.bandit.bayes import least_bayes_regret
from theory.claim import Check, Claim, Figure, Mutant, close, equal, hold
from theory.onesided import log_above, root_above, root_below
from theory.smt import unsat

__all__ = ["CLAIM", "chain", "hard_gap"]

CONSTANT = Fraction(1, 20)
QUARTER = Fraction(1, 4)
ROOT = Fraction(5364, 10_000)  # at least sqrt(log(4/3))
_SMALL = [(2, t) for t in (1, 2, 3, 4, 6, 9, 14, 20, 28)] + [(3, t) for t in (1, 2, 3, 5, 8, 12)]
_LARGE = [(2, 50), (3, 20), (4, 10)]
_TINY = [(2, 1), (2, 2), (2, 3), (2, 4), (3, 1), (3, 2), (3, 3)]


def hard_gap(k: int, rounds: int, factor: Fraction = QUARTER) -> Fraction:
    """Return a rational gap at most factor * min(sqrt(K/T), 1), and within 10^-9 of it relatively."""
    if rounds <= k:
        return factor
    # scaled by T, so that the root keeps its digits whatever K/T
    return factor * root_below(Fraction(k * rounds)) / rounds


def chain(k: int, rounds: int, gap: Fraction) -> Fraction:
    """Return a rational number at most ``gap (T - T/K - (T/2) sqrt(-(T/K) log(1 - 4 gap^2)))``."""
    share = Fraction(rounds, k)
    surprise = root_above(share * log_above(4 * gap * gap))
    return gap * (rounds - share - Fraction(rounds, 2) * surprise)


def _target(k: int, rounds: int, constant: Fraction) -> Fraction:
    return constant * (Fraction(rounds) if rounds <= k else root_above(Fraction(k * rounds)))


def _sizes() -> Iterator[tuple[int, int]]:
    """Every K and T up to 48, and powers of two with a neighbour, to K = 2^20 and T = 2^40."""
    yield from itertools.product(range(2, 49), range(1, 49))
    for i in range(1, 21):
        for j in range(41):
            yield 2**i, 2**j
            yield 2**i + 1, 2**j + 1


def grid(constant: Fraction = CONSTANT, factor: Fraction = QUARTER) -> None:
    """The chain gives at least (1/20) min(sqrt(KT), T), in rational numbers, all K and T of a grid."""
    for k, rounds in _sizes():
        got, want = chain(k, rounds, hard_gap(k, rounds, factor)), _target(k, rounds, constant)
        hold(got >= want, f"K={k}, T={rounds}: the chain gives {float(got):.6g}, below {float(want):.6g}")


def chord(slope_at: Fraction = QUARTER) -> None:
    """``-log(1-x) <= 4 log(4/3) x`` on [0, 1/4] (convex, equal at both ends), and 0.5364^2 >= log(4/3)."""
    import sympy

    x = sympy.symbols("x", nonnegative=True)
    curve = -sympy.log(1 - x)
    line = x * curve.subs(x, sympy.Rational(slope_at)) / sympy.Rational(slope_at)
    equal(
        sympy.simplify(sympy.diff(curve, x, 2) * (1 - x) ** 2),
        sympy.Integer(1),
        "(1-x)^2 times its curvature",
    )
    for end in (0, sympy.Rational(1, 4)):
        equal(sympy.simplify((curve - line).subs(x, end)), sympy.Integer(0), f"line minus curve at x = {end}")
    hold(log_above(QUARTER) <= ROOT**2, f"{ROOT}^2 is below log(4/3)")


def information(step: Fraction = Fraction(1, 2)) -> None:
    """kl(1/2, 1/2 - eps) = -log(1 - 4 eps^2)/2, identically."""
    import sympy

    e = sympy.symbols("e", positive=True)
    half = sympy.Rational(1, 2)
    # each part's derivative agrees, and both vanish at 0
    kl = half * sympy.log(half / (half - e)) + half * sympy.log(half / (half + e))
    closed = -sympy.Rational(step) * sympy.log(1 - 4 * e * e)
    equal(
        sympy.simplify(sympy.diff(kl - closed, e)), sympy.Integer(0), "derivative of kl minus the closed form"
    )
    equal(sympy.simplify((kl - closed).subs(e, 0)), sympy.Integer(0), "kl minus the closed form at 0")


def _final(case: str, constant: str = "20", root: str = "0.5364") -> str:
    """SMT-LIB: the last inequality, negated, for all real K >= 2 and T > 0, divided by T.

    b = 1/K. T >= K: a = sqrt(K/T), c = 1/a, eps = a/4, sqrt(KT) = T a. T <= K: d = sqrt(T/K), eps = 1/4.
    By the chord, ``sqrt(-(T/K) log(1-4 eps^2)) <= 4 eps sqrt(T/K) r`` where r^2 >= log(4/3).
    """
    facts = ["(declare-const b Real)", "(assert (and (< 0 b) (<= b 0.5)))"]
    if case == "many":
        facts += ["(declare-const a Real)", "(declare-const c Real)"]
        facts += ["(assert (and (< 0 a) (<= a 1) (= (* a c) 1)))"]
        eps, ratio, target = "(/ a 4)", "c", f"(/ a {constant})"
    else:
        facts += ["(declare-const d Real)", "(assert (and (< 0 d) (<= d 1)))"]
        eps, ratio, target = "0.25", "d", f"(/ 1 {constant})"
    bound = f"(* {eps} (- 1 b (* 2 {eps} {ratio} {root})))"
    return "\n".join(["(set-logic QF_NRA)", *facts, f"(assert (< {bound} {target}))", "(check-sat)", ""])


SMT = {"final-many-rounds": _final("many"), "final-few-rounds": _final("few")}


def final(constant: str = "20") -> None:
    """With the chord, eps = min(sqrt(K/T), 1)/4 gives 1/20 min(sqrt(KT), T) for all real K >= 2, T > 0."""
    for case in ("many", "few"):
        unsat(f"D2-final-{case}-rounds", _final(case, constant))


Policy = dict[tuple[tuple[int, int], ...], list[Fraction]]


def _random_policy(k: int, rounds: int, seed: int) -> Policy:
    """Probabilities of each slot after every history of (slot, loss), some of them zero."""
    rng = np.random.default_rng([k, rounds, seed])
    policy: Policy = {}
    for t in range(rounds):
        for history in itertools.product(itertools.product(range(k), (0, 1)), repeat=t):
            weight = rng.integers(0, 4, k) if seed else np.eye(k, dtype=int)[rng.integers(k)]
            weight[rng.integers(k)] += 1
            policy[history] = [Fraction(int(w), int(weight.sum())) for w in weight]
    return policy


def _law(
    policy: Policy, k: int, rounds: int, gap: Fraction, good: int
) -> dict[tuple[tuple[int, int], ...], Fraction]:
    """Probability of each history; ``good = -1``: all slots are fair."""
    law: dict[tuple[tuple[int, int], ...], Fraction] = {(): Fraction(1)}
    for _ in range(rounds):
        longer: dict[tuple[tuple[int, int], ...], Fraction] = {}
        for history, chance in law.items():
            for slot in range(k):
                loss = Fraction(1, 2) - (gap if slot == good else 0)
                for seen, of in ((1, loss), (0, 1 - loss)):
                    if p := chance * policy[history][slot] * of:
                        longer[*history, (slot, seen)] = p
        law = longer
    return law


def histories(half: Fraction = Fraction(1, 2)) -> None:
    """Divergence, Pinsker, and the average over places, on all histories of random policies, exactly."""
    for (k, rounds), seed in itertools.product(_TINY, range(4)):
        gap = Fraction(1 + seed, 10)
        policy = _random_policy(k, rounds, seed)
        where = f"K={k}, T={rounds}, gap={gap}, policy {seed}"

        def evictions(law: dict[tuple[tuple[int, int], ...], Fraction], slot: int) -> Fraction:
            return sum((p * sum(s == slot for s, _ in h) for h, p in law.items()), Fraction(0))

        fair = _law(policy, k, rounds, gap, -1)
        equal(sum(fair.values()), Fraction(1), f"{where}: total probability")
        equal(sum(evictions(fair, slot) for slot in range(k)), Fraction(rounds), f"{where}: evictions")
        regret, root_sum = Fraction(0), 0.0
        for slot in range(k):
            law = _law(policy, k, rounds, gap, slot)
            n0, n1 = evictions(fair, slot), evictions(law, slot)
            kl = math.fsum(float(p) * math.log(p / law[h]) for h, p in fair.items())
            nats = -float(half) * math.log(1 - 4 * gap * gap)
            close(kl, float(n0) * nats, 1e-12, f"{where}: divergence of the histories, good slot {slot}")
            distance = sum((abs(p - law.get(h, Fraction(0))) for h, p in fair.items()), Fraction(0)) / 2
            hold(n1 - n0 <= rounds * distance, f"{where}: {n1} - {n0} evictions, distance {distance}")
            hold(float(distance) <= math.sqrt(kl / 2) + 1e-12, f"{where}: Pinsker, {distance} and {kl}")
            regret += gap * (rounds - n1)
            root_sum += math.sqrt(n0)
        hold(root_sum / k <= math.sqrt(rounds / k) + 1e-12, f"{where}: the mean root is {root_sum / k}")
        bound = chain(k, rounds, gap)
        hold(regret / k >= bound, f"{where}: average regret {regret / k}, the chain says {float(bound)}")


def _bayes(sizes: list[tuple[int, int]], constant: Fraction) -> None:
    for k, rounds in sizes:
        # a short fraction keeps the integers short; any gap of the family will do
        gap = hard_gap(k, rounds).limit_denominator(40)
        best = least_bayes_regret(k, rounds, gap)
        where = f"K={k}, T={rounds}, gap={gap}: the best policy's regret {float(best):.6g}"
        uniform = gap * rounds * Fraction(k - 1, k)
        hold(best >= chain(k, rounds, gap), f"{where}, the chain says {float(chain(k, rounds, gap)):.6g}")
        hold(
            best >= _target(k, rounds, constant), f"{where}, below {float(_target(k, rounds, constant)):.6g}"
        )
        hold(best <= uniform, f"{where} exceeds that of uniform eviction, {uniform}")
        hold(rounds == 1 or best < uniform, f"{where}: learning from losses gains nothing")


def bayes(constant: Fraction = CONSTANT) -> None:
    """The exact least regret against a random good slot respects both: K = 2, T <= 28; K = 3, T <= 12."""
    _bayes(_SMALL, constant)


def bayes_large(constant: Fraction = CONSTANT) -> None:
    """The same for K = 2, T = 50; K = 3, T = 20; K = 4, T = 10."""
    _bayes(_LARGE, constant)


def _rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for k, horizons in ((2, (1, 2, 4, 8, 16, 28)), (3, (1, 2, 4, 8, 12))):
        for rounds in horizons:
            gap = hard_gap(k, rounds).limit_denominator(40)
            scale = math.sqrt(k * rounds)
            for what, value in (
                ("least regret of any policy", least_bayes_regret(k, rounds, gap)),
                ("bound of the chain", chain(k, rounds, gap)),
                ("uniform eviction", gap * rounds * Fraction(k - 1, k)),
            ):
                rows.append({"K": k, "rounds": rounds, "what": what, "regret": float(value) / scale})
    return rows


CLAIM = Claim(
    id="D2",
    title="every policy has regret of order sqrt(KT)",
    statement="With bandit feedback every policy has regret >= min(sqrt(KT), T)/20 on some instance, K >= 2.",
    variant="eviction game, only the evicted slot's loss is seen; pseudo-regret",
    source="Auer, Cesa-Bianchi, Freund, Schapire 2002, Theorem 5.1, turned to losses",
    status="proved",
    scope="all K >= 2, T >= 1; exact least Bayes regret: K = 2 to T = 50, K = 3 to T = 20, K = 4, T = 10",
    breaks="where kept slots show their losses too: D3; K = 1 has no regret",
    checks=(
        Check("information", information, needs=("sympy",)),
        Check("histories", histories),
        Check("chord", chord, needs=("sympy",)),
        Check("final", final, needs=("z3", "cvc5")),
        Check("grid", grid),
        Check("bayes", bayes),
        Check("bayes_large", bayes_large, slow=True),
    ),
    mutants=(
        Mutant("one_seventeenth", "grid", {"constant": Fraction(1, 17)}, "K = 2 allows 0.0579, not 0.0588"),
        Mutant("wide_gap", "grid", {"factor": Fraction(2, 5)}, "so good a slot may be found"),
        Mutant("seventeen", "final", {"constant": "17"}, "the same, for all real parameters"),
        Mutant(
            "other_chord",
            "chord",
            {"slope_at": Fraction(1, 8)},
            "the chord to 1/8 is below the curve at 1/4",
        ),
        Mutant("twice_the_information", "information", {"step": Fraction(1)}, "kl is half the logarithm"),
        Mutant("whole_logarithm", "histories", {"half": Fraction(1)}, "the divergence is half of it"),
        Mutant("one_fifth", "bayes", {"constant": Fraction(1, 5)}, "uniform eviction alone does better"),
        Mutant("one_fifth_large", "bayes_large", {"constant": Fraction(1, 5)}, "so it does at T = 50"),
    ),
    proofs=("D2.md",),
    figure=Figure(
        "Least regret of any policy against a random good slot, exact",
        _rows,
        x="rounds",
        y="regret",
        by="what",
        panel="K",
        references={"1/20": lambda t: 0.05},
        x_label="T",
        y_label="regret / sqrt(KT)",
        x_log=True,
    ),
)
