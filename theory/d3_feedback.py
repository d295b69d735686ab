"""D3: if every kept item shows its utility, regret O(sqrt(T log K)) is attained, not sqrt(KT).

Statement
---------
The eviction game with the feedback of a cache that sees what it serves: in each of T >= 1 rounds one of
K >= 2 slots is evicted, its loss l_t(I_t) in [0, 1] is *not* seen, those of all kept slots are. For every
loss matrix that is fixed beforehand, exponential weights (``adversaries/bandit/clique.py``), with
``eta = min(1/4, sqrt(log K / T)/2)`` and gamma = 2 eta, have

    E[sum_t l_t(I_t)] - min_k sum_t l_t(k)  <=  4 sqrt(T log K).

Even a policy that sees *all* losses has regret of that order: against fair coins every policy loses T/2, and
the best slot less by ``T/2 - E[min of K binomials]``, which is at least ``sqrt(T log K)/4`` on the grid
computed here (K <= 4096, log2 K <= T <= 10^6). With D2, feedback decides: for K >= 71,540 and T >= K the
guarantee above is *below* what D2 shows to be unavoidable when only the evicted slot is seen.

For stochastic losses the pseudo-regret of D1 is at most this regret in expectation, so the bound holds for
it. What it is worth at small K is another matter: there Thompson sampling, seeing less, has the smaller
regret (see the figure); the growth in K is what the feedback changes.

Proof
-----
``proofs/D3.md``.

Examples
--------
>>> import numpy as np
>>> losses = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
>>> round(expected_loss(losses, *rates(2, 4)) - float(losses.sum(axis=0).min()), 4)
0.9996

References
----------
N. Alon, N. Cesa-Bianchi, O. Dekel, T. Koren, "Online learning with feedback graphs: beyond bandits", COLT
2015 (the loopless clique is strongly observable and its independence number is 1). N. Cesa-Bianchi and
G. Lugosi, "Prediction, Learning, and Games" (2006), for the lower bound with full information.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from scipy.stats import t as student

from adversaries.bandit import one_good, play
from adversaries.bandit.clique import chances, expected_loss, play_matrix, play_means, rates
from theory.artefact import FOLDER, read, write
from theory.claim import Check, Claim, Figure, Mutant, close, equal, hold
from theory.smt import unsat

__all__ = ["CLAIM", "guarantee"]

FACTOR = 4.0
ERROR = 1e-8  # one-sided, of each of fewer than 100 limits
STORED = FOLDER / "d3_growth.csv"
SLOTS = (2, 4, 8, 16, 32, 64, 128, 256)
ROUNDS, RUNS = 30_000, 60
_SCALES = (0.5, 1.0, 2.0, 4.0)
Matrix = NDArray[np.float64]


def guarantee(k: int, rounds: int, factor: float = FACTOR) -> float:
    """Return 4 sqrt(T log K)."""
    return factor * math.sqrt(rounds * math.log(k))


def second_order(square: float = 1.0) -> None:
    """``exp(-x) <= 1 - x + x^2`` for x >= -1: on a grid, and by the signs of the difference's derivatives."""
    for i in range(-1000, 20_001):
        x = i / 1000
        hold(
            math.exp(-x) <= 1 - x + square * x * x + 1e-15, f"exp(-x) exceeds 1 - x + {square} x^2 at x = {x}"
        )


def second_order_signs(square: int = 1) -> None:
    """Of ``1 - x + x^2 - exp(-x)``: value and slope vanish at 0; concave, then convex; falling at -1."""
    import sympy

    x = sympy.symbols("x", real=True)
    g = 1 - x + square * x**2 - sympy.exp(-x)
    slope, bend = sympy.diff(g, x), sympy.diff(g, x, 2)
    equal((g.subs(x, 0), slope.subs(x, 0)), (0, 0), "value and slope at 0")
    equal(sympy.solve(bend, x), [-sympy.log(2)], "where the curvature changes sign")
    hold(bool(slope.subs(x, -1) < 0), "the difference rises at -1")
    hold(bool(bend.subs(x, 0) > 0), "the difference is not convex at 0")


def _mixing(floor: str = "(* g 0.5)") -> str:
    """SMT-LIB: for 0 <= q <= 1, K >= 2: 1 - p is at least (1-g)(1-q), and at least g/2; negated."""
    return "\n".join(
        [
            "(set-logic QF_NRA)",
            *(f"(declare-const {name} Real)" for name in ("q", "g", "b", "p")),
            "(assert (and (<= 0 q) (<= q 1) (<= 0 g) (<= g 1) (< 0 b) (<= b 0.5)))",
            "(assert (= p (+ (* (- 1 g) q) (* g b))))",
            f"(assert (or (< (- 1 p) (* (- 1 g) (- 1 q))) (< (- 1 p) {floor})))",
            "(check-sat)",
            "",
        ]
    )


def _tuned(factor: str = "4") -> str:
    """SMT-LIB: S = sqrt(T log K), eta = S/(2T) <= 1/4: log K/eta + eta T/(1-2 eta) + 2 eta T <= 4 S; negated.

    L = log K, a = log K/eta, c = eta T/(1 - 2 eta).
    """
    return "\n".join(
        [
            "(set-logic QF_NRA)",
            *(f"(declare-const {name} Real)" for name in ("T", "L", "S", "e", "a", "c")),
            "(assert (and (< 0 T) (< 0 L) (< 0 S) (= (* S S) (* T L)) (= (* 2 e T) S) (<= e 0.25)))",
            "(assert (and (= (* a e) L) (= (* c (- 1 (* 2 e))) (* e T))))",
            f"(assert (> (+ a c (* 2 e T)) (* {factor} S)))",
            "(check-sat)",
            "",
        ]
    )


SMT = {"mixing": _mixing(), "tuned": _tuned()}


def mixing(floor: str = "(* g 0.5)") -> None:
    """The mixed chances keep 1 - p_i above (1 - gamma)(1 - q_i) and above gamma/2 = eta, for all reals."""
    unsat("D3-mixing", _mixing(floor))


def tuned(factor: str = "4") -> None:
    """The tuned bound is at most 4 sqrt(T log K) for all reals with eta <= 1/4."""
    unsat("D3-tuned", _tuned(factor))


def _weights(total: Matrix, eta: float, gamma: float) -> tuple[Matrix, Matrix]:
    q, p = np.empty_like(total), np.empty_like(total)
    chances(total, eta, gamma, q, p)
    return q, p


def estimates(divide: Callable[[Matrix], Matrix] = lambda p: 1 - p) -> None:
    """The estimates are unbiased, at most 1/eta, their second moment, weighted, at most 1/(1-gamma)."""
    rng = np.random.default_rng(3)
    for k, eta in itertools.product((2, 3, 5, 16), (0.01, 0.1, 0.25)):
        gamma = 2 * eta
        for _ in range(50):
            q, p = _weights(rng.exponential(1 / eta, k), eta, gamma)
            loss = rng.random(k)
            found = np.array([np.where(np.arange(k) == gone, 0, loss / divide(p)) for gone in range(k)])
            where = f"K={k}, eta={eta}"
            off = float(np.abs(p @ found - loss).max())
            close(off, 0, 1e-12, f"{where}: expected estimate minus loss")
            hold(float(found.max()) <= 1 / eta + 1e-9, f"{where}: estimate {found.max()}, above 1/eta")
            moment = float(p @ (found**2 @ (q * (1 - q))))
            hold(moment <= 1 / (1 - gamma) + 1e-12, f"{where}: second moment {moment}")


def pathwise(weight: float = 1.0) -> None:
    """On every path: estimated loss of q minus any slot's <= log K/eta + eta sum q(1-q) estimate^2."""
    rng = np.random.default_rng(4)
    worst = -math.inf
    for k, eta, case in itertools.product((2, 3, 8), (0.02, 0.1, 0.25), range(12)):
        total, paid, spread = np.zeros(k), 0.0, 0.0
        for t in range(120):
            q, p = _weights(total, eta, 2 * eta)
            gone = int(rng.choice(k, p=p))
            # against the leader, against fair coins, or one good slot
            loss = (np.arange(k) == q.argmax()) * 1.0 if case % 3 == 0 else rng.random(k).round()
            loss[0] *= case % 3 != 2 or t % 4 == 0
            found = np.where(np.arange(k) == gone, 0, loss / (1 - p))
            paid += float(q @ found)
            spread += float((q * (1 - q)) @ found**2)
            total += found
        room = math.log(k) / eta + weight * eta * spread - (paid - float(total.min()))
        worst = max(worst, -room)
        hold(room >= -1e-9, f"K={k}, eta={eta}: the inequality fails on a path by {-room:.6g}")


def exact(divide: float = 1.0, factor: float = FACTOR) -> None:
    """Exact expected regret: on *all* 0/1 matrices of K = 2, T <= 5; K = 3, T <= 3; and on two with T = 18.

    On the tiny ones the bound is T itself; at T = 18 it is 14.1.
    """
    steady = np.tile([1.0, 0.0], (18, 1))
    turning = np.vstack([steady[:6], 1 - steady[:12]])
    for name, losses in (("steady", steady), ("turning", turning)):
        regret = expected_loss(losses, *rates(2, 18)) - float(losses.sum(axis=0).min())
        bound = guarantee(2, 18, factor) / divide
        hold(regret <= bound, f"{name}, T=18: regret {regret:.6g}, bound {bound:.6g}")
    for k, rounds in ((2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (3, 1), (3, 2), (3, 3)):
        for eta in {rates(k, rounds)[0], 0.05, 0.2}:
            # what the proof gives before eta is chosen; no more than T, which anybody attains
            bound = min(rounds, math.log(k) / eta + eta * rounds / (1 - 2 * eta) + 2 * eta * rounds)
            bound = min(bound, rounds) / divide
            for bits in itertools.product((0.0, 1.0), repeat=k * rounds):
                losses = np.array(bits).reshape(rounds, k)
                regret = expected_loss(losses, eta, 2 * eta) - float(losses.sum(axis=0).min())
                hold(regret <= bound + 1e-12, f"K={k}, T={rounds}, eta={eta}: regret {regret} on {bits}")


def _matrices(k: int, rounds: int, seed: int) -> Mapping[str, Matrix]:
    """Loss matrices that hurt in different ways; none of them looks at the policy's coins."""
    rng = np.random.default_rng([k, rounds, seed])
    coins = (rng.random((rounds, k)) < 0.5).astype(float)
    steady, turning, rotating = coins.copy(), coins.copy(), np.ones((rounds, k))
    gap = min(0.5, math.sqrt(math.log(k) / rounds))
    steady[:, 0] = rng.random(rounds) < 0.5 - gap
    turning[: rounds // 2, 0] = rng.random(rounds // 2) < 0.1
    turning[rounds // 2 :, 0] = 1
    turning[rounds // 2 :, 1] = rng.random(rounds - rounds // 2) < 0.1
    rotating[np.arange(rounds), (np.arange(rounds) * 7 // 3) % k] = 0
    return {"coins": coins, "one good slot": steady, "a leader that turns": turning, "rotating": rotating}


def _measured(sizes: Sequence[tuple[int, int]], factor: float, eta_times: float) -> None:
    for k, rounds in sizes:
        runs = max(120, 3_000 // k)  # few slots vary most: what is evicted is unseen half of the time
        eta = min(0.25, rates(k, rounds)[0] * eta_times)
        bound = guarantee(k, rounds, factor)
        for name, losses in _matrices(k, rounds, 0).items():
            paid = [
                play_matrix(np.random.default_rng([k, rounds, run]), losses, eta, 2 * eta)
                for run in range(runs)
            ]
            spread = float(np.std(paid, ddof=1)) / math.sqrt(runs)
            regret = float(np.mean(paid)) - float(losses.sum(axis=0).min())
            high = regret + float(student.ppf(1 - ERROR, runs - 1)) * spread
            hold(high <= bound, f"{name}, K={k}, T={rounds}: regret below {high:.1f} only, bound {bound:.1f}")


def adversarial(factor: float = FACTOR, eta_times: float = 1.0) -> None:
    """Upper limits (Student, error 10^-8) of regret on four kinds of matrices are below 4 sqrt(T log K)."""
    _measured([(2, 4_000), (8, 4_000), (32, 4_000)], factor, eta_times)


def adversarial_large(factor: float = FACTOR, eta_times: float = 1.0) -> None:
    """The same for K = 2 to 128 at T = 20,000."""
    _measured([(k, 20_000) for k in (2, 8, 32, 128)], factor, eta_times)


def coins(constant: float = 0.25) -> None:
    """Against fair coins the best slot is ahead of T/2 by at least sqrt(T log K)/4, whatever is seen."""
    for k in (2, 3, 4, 8, 16, 64, 256, 1024, 4096):
        for rounds in (1, 2, 4, 7, 12, 30, 100, 1000, 10_000, 1_000_000):
            if 2**rounds < k:
                continue
            # E[min] = sum over m >= 1 of P(every slot loses at least m)
            reach = math.ceil(40 * math.sqrt(rounds))
            low, high = max(0, rounds // 2 - reach), min(rounds, rounds // 2 + reach)
            least = low + float((binom.sf(np.arange(low, high), rounds, 0.5) ** k).sum())
            ahead, want = rounds / 2 - least, constant * math.sqrt(rounds * math.log(k))
            hold(ahead >= want, f"K={k}, T={rounds}: ahead by {ahead:.6g}, below {want:.6g}")


def separation(first: int = 71_540) -> None:
    """4 sqrt(T log K) < sqrt(KT)/20 exactly from K = 71,540 on, whatever T."""

    def below(k: int) -> bool:
        return Fraction(6400) * Fraction(math.log(k)) < k

    hold(below(first) and not below(first - 1), f"K={first} is not the first with 6400 log K < K")
    # K/log K increases from e on, so that it stays
    hold(all(below(first * 2**i) for i in range(40)), "the inequality returns")


def _regrets(k: int, rounds: int, runs: int) -> list[dict[str, Any]]:
    """Mean regret of both, with its standard error, per gap: 1/2 to 4 times either scale, up to 0.4."""
    eta, gamma = rates(k, rounds)
    gaps = {c * math.sqrt(x / rounds) for c in _SCALES for x in (k, max(1.0, math.log(k)))}
    rows = []
    for gap in sorted(g for g in gaps if g <= 0.4):
        means = one_good(k, gap)
        for name in ("bandit", "clique"):
            found = np.empty(runs)
            for run in range(runs):
                if name == "bandit":
                    found[run] = play("thompson", means, rounds, [11, k, rounds, run]).regret[0]
                else:
                    one = np.zeros(1)
                    rng = np.random.default_rng([12, k, rounds, run])
                    play_means(rng, means, np.array([rounds]), eta, gamma, one)
                    found[run] = one[0]
            error = float(found.std(ddof=1)) / math.sqrt(runs)
            rows.append(
                {"feedback": name, "slots": k, "rounds": rounds, "runs": runs, "gap": round(gap, 9)}
                | {"regret": round(float(found.mean()), 4), "error": round(error, 4)}
            )
    return rows


def _worst(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Keep the gap with the largest mean, per feedback and K."""
    keys = sorted({(r["feedback"], r["slots"], r["rounds"]) for r in rows})
    found = []
    for key in keys:
        row = max(
            (r for r in rows if (r["feedback"], r["slots"], r["rounds"]) == key), key=lambda r: r["regret"]
        )
        scale = math.sqrt(row["rounds"])
        who = {"bandit": "only the evicted slot (Thompson)", "clique": "all kept slots (exponential weights)"}
        found.append(
            {"slots": row["slots"], "seen": who[row["feedback"]], "feedback": row["feedback"]}
            | {"regret": row["regret"] / scale, "rounds": row["rounds"], "gap": row["gap"]}
            | {"low": (row["regret"] - 1.96 * row["error"]) / scale}
            | {"high": (row["regret"] + 1.96 * row["error"]) / scale}
        )
    return found


def _growth(rows: Sequence[Mapping[str, Any]], least: float, most: float) -> None:
    """Between the smallest and the largest K, one regret grows and the other one hardly."""
    worst = _worst(rows)
    ks = sorted({r["slots"] for r in worst})
    by = {(r["feedback"], r["slots"]): r["regret"] for r in worst}
    bandit, clique = (by[name, ks[-1]] / by[name, ks[0]] for name in ("bandit", "clique"))
    hold(
        bandit >= least, f"seen only when evicted: regret grows {bandit:.2f}-fold from K={ks[0]} to {ks[-1]}"
    )
    hold(clique <= most, f"seen when kept: regret grows {clique:.2f}-fold from K={ks[0]} to {ks[-1]}")


def growth(least: float = 4.0, most: float = 2.5) -> None:
    """T = 3000, from K = 4 to 64: the regret grows more than 4-fold one way, less than 2.5-fold the other."""
    rows = [row for k in (4, 64) for row in _regrets(k, 3_000, 24)]
    _growth(rows, least, most)


def stored_growth(least: float = 20.0, most: float = 4.5) -> None:
    """Stored, T = 30,000, from K = 2 to 256: more than 20-fold one way, less than 4.5-fold the other."""
    _growth(read(STORED), least, most)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the stored table."""
    parser = argparse.ArgumentParser(prog="python -m theory.d3_feedback", description=main.__doc__)
    parser.add_argument("-o", "--output", type=Path, default=STORED)
    chosen = parser.parse_args(arguments)
    rows = []
    for k in SLOTS:
        rows += _regrets(k, ROUNDS, RUNS)
        print(f"K={k} done", file=sys.stderr, flush=True)
    write(chosen.output, rows, f"python -m theory.d3_feedback -o {chosen.output.name}", seed=11)
    return 0


CLAIM = Claim(
    id="D3",
    title="the feedback matters",
    statement="If all kept slots show their losses, regret <= 4 sqrt(T log K) is attained; K >= 2, T >= 1.",
    variant="eviction game, kept slots show their losses; regret against the best slot, oblivious losses",
    source="loopless clique of Alon, Cesa-Bianchi, Dekel, Koren 2015; constants and proof here are ours",
    status="proved",
    scope="all K >= 2, T >= 1, all loss matrices in [0, 1]; least possible order on the grid of `coins`",
    breaks="bandit feedback: D2; up to K = 16 Thompson sampling, seeing less, had the smaller regret",
    checks=(
        Check("second_order", second_order),
        Check("second_order_signs", second_order_signs, needs=("sympy",)),
        Check("estimates", estimates),
        Check("pathwise", pathwise),
        Check("mixing", mixing, needs=("z3", "cvc5")),
        Check("tuned", tuned, needs=("z3", "cvc5")),
        Check("exact", exact),
        Check("adversarial", adversarial),
        Check("adversarial_large", adversarial_large, slow=True),
        Check("coins", coins),
        Check("separation", separation),
        Check("growth", growth),
        Check("stored_growth", stored_growth),
    ),
    mutants=(
        Mutant("half_square", "second_order", {"square": 0.5}, "exp(-x) is above 1 - x + x^2/2 for x < 0"),
        Mutant("square_twice", "second_order_signs", {"square": 2}, "the curvature changes sign elsewhere"),
        Mutant(
            "bandit_estimate", "estimates", {"divide": lambda p: p}, "kept slots are seen with chance 1 - p"
        ),
        Mutant("half_the_variance", "pathwise", {"weight": 0.4}, "the second-order term is needed"),
        Mutant("floor_gamma", "mixing", {"floor": "g"}, "with K = 2 only gamma/2 is left"),
        Mutant("three_and_a_half", "tuned", {"factor": "3.5"}, "eta = 1/4 needs all of 4"),
        Mutant("a_tenth", "exact", {"divide": 10.0}, "some matrix costs more"),
        Mutant(
            "a_quarter", "adversarial", {"factor": 1.0}, "a leader that turns costs more than sqrt(T log K)"
        ),
        Mutant("slow_learner", "adversarial", {"eta_times": 0.05}, "a smaller eta forgets too late"),
        Mutant("a_quarter_large", "adversarial_large", {"factor": 1.0}, "the same at T = 20,000"),
        Mutant("half_ahead", "coins", {"constant": 0.5}, "two slots are ahead by 0.34 sqrt(T log 2)"),
        Mutant("earlier", "separation", {"first": 71_539}, "one slot less is too few"),
        Mutant("no_growth", "growth", {"most": 1.2}, "the logarithm grows, too"),
        Mutant("all_growth", "stored_growth", {"least": 60.0}, "it is 40-fold, not more"),
    ),
    proofs=("D3.md",),
    figure=Figure(
        "Largest mean regret over the gaps tried, T = 30,000",
        lambda: _worst(read(STORED)),
        x="slots",
        y="regret",
        by="seen",
        low="low",
        high="high",
        references={
            "bound 4 sqrt(log K)": lambda k: 4 * math.sqrt(math.log(k)),
            "lower bound D2, sqrt(K)/20": lambda k: math.sqrt(k) / 20,
        },
        x_label="K",
        y_label="regret / sqrt(T)",
        x_log=True,
        y_log=True,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
