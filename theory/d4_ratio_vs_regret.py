"""D4: a constant ratio and sublinear regret do not exclude each other here: one policy has both.

What was claimed
----------------
Andrew et al. (2013) show for smoothed online convex optimisation that no algorithm, randomised or not, has a
constant competitive ratio and sublinear regret. The row asked to port this to the present problem.

What holds
----------
serve_then_update, ``pool``, K = 1, two items A and B, soft costs in [0, 1], lambda > 0 fixed; m = 1 +
lambda. Regret is the *whole* cost, switches included, less that of the better fixed content; the ratio is
that of the model, with an additive constant that may depend on lambda, not on the sequence. Both count the
same cost of the same run. There is a randomised policy with, for every sequence fixed beforehand,

    E[cost] <= L + 48 sqrt(m L) + 25 m,   L = min(cost of A, cost of B, (3 + 1/lambda) OPT + 3 lambda + 1).

So its regret after T steps is at most ``48 sqrt(m T) + 25 m``, and for every delta > 0 its ratio is at most
``3 + 1/lambda + delta``. No construction can port, then, as long as costs are bounded, lambda is fixed and
positive, and the additive constant is allowed.

Nothing here contradicts the paper: its problem is another one. We had its statement, not its proof, and do
not say which of its assumptions is the one that fails here. What is left of the conflict: a *deterministic*
policy has regret at least T/2 against an adversary that asks for what it does not hold (the tracker has the
ratio, not the regret), and the bound on the ratio, 3 + 1/lambda, is lost as lambda -> 0.

For metrical task systems in general, Daniely and Mansour (2019) combine a good ratio with sublinear regret;
this is the smallest case, with its constants. More items or slots need one expert per fixed content, log n
for log 3 and K lambda for lambda; that is not executed here.

Proof
-----
``proofs/D4.md``: follow one of three experts, A, B and a policy of ratio 3 + 1/lambda, by exponential weights
that seldom change the expert, at a rate that follows the best expert's loss, not the time.

Examples
--------
Fair coins, where the tracker's regret is linear, and blocks of 500, where a fixed content
pays half a block each:

>>> import numpy as np
>>> coins = families(10_000, seed=1)["fair coins"]
>>> one = mix(coins, 1.0)
>>> round((one.tracker - min(one.fixed)) / 10_000, 2), round((one.cost - min(one.fixed)) / 10_000, 2)
(0.17, 0.02)
>>> blocks = mix(families(10_000, seed=1)["long blocks"], 1.0)
>>> round(blocks.cost / blocks.best, 1), round(min(blocks.fixed) / blocks.best, 1)
(4.9, 263.2)

References
----------
L. Andrew, S. Barman, K. Ligett, M. Lin, A. Meyerson, A. Roytman, A. Wierman, "A tale of two metrics:
simultaneous bounds on competitiveness and regret", COLT 2013, PMLR 30:741-763. A. Daniely, Y. Mansour,
"Competitive ratio vs regret minimization: achieving the best of both worlds", ALT 2019. S. Geulen,
B. Voecking, M. Winkler, "Regret minimization for online buffering problems using the weighted majority
algorithm", COLT 2010 (shrinking dartboard).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from theory.claim import Check, Claim, Figure, Mutant, close, hold
from theory.dartboard import EXPERTS, mix, track
from theory.smt import unsat

__all__ = ["CLAIM", "families"]

Tasks = NDArray[np.float64]
LAMBDAS = (0.25, 1.0, 2.5, 10.0)


def _overshoot(lam: float, steps: int) -> Tasks:
    """Tasks that make the tracker pay as much as they can: just below its threshold, then one of cost 1."""
    tasks = np.zeros((steps, 2))
    at, saved, edge = 0, 0.0, 2 * lam * (1 - 1e-6)
    for t in range(steps):
        tasks[t, at] = 1.0 if saved >= edge else min(1.0, edge - saved)
        saved += tasks[t, at]
        if saved >= 2 * lam:
            at, saved = 1 - at, 0.0
    return tasks


def families(steps: int, seed: int = 0, lam: float = 1.0) -> Mapping[str, Tasks]:
    """Return sequences on which one expert or the other fails, and mixtures of them, by name."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, steps]))
    time = np.arange(steps)
    coin = rng.random(steps) < 0.5
    block = time // 500 % 2 == 0
    short = time // max(1, math.ceil(2 * lam)) % 2 == 0
    half = time < steps // 2
    rare = rng.random(steps) < 0.01

    def hard(in_a: NDArray[np.bool_]) -> Tasks:
        return np.stack([in_a, ~in_a], axis=1).astype(float)

    return {
        "fair coins": hard(coin),
        "long blocks": hard(block),
        "short blocks": hard(short),
        "coins, then blocks": np.where(half[:, None], hard(coin), hard(block)),
        "blocks, then coins": np.where(half[:, None], hard(block), hard(coin)),
        "overshoot": _overshoot(lam, steps),
        "soft": rng.random((steps, 2)),
        "rare": hard(coin) * rare[:, None],
        "both cost": np.maximum(hard(block), rare[:, None]),
        "one bad item": hard(np.ones(steps, bool)),
    }


def tracker(factor: Callable[[float], float] = lambda lam: 3 + 1 / lam) -> None:
    """The tracker pays at most (3 + 1/lambda) OPT + 3 lambda + 1: all short sequences, and the families."""
    kinds = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0], [1.0, 0.5]])
    for lam in (0.5, 1.0, 2.5):
        for chosen in itertools.product(range(4), repeat=6):
            paid, best = track(kinds[list(chosen)], lam)
            bound = factor(lam) * best + 3 * lam + 1
            hold(paid <= bound + 1e-9, f"lambda={lam}, tasks {chosen}: {paid}, bound {bound}")
    for lam in LAMBDAS:
        for name, tasks in families(20_000, 0, lam).items():
            paid, best = track(tasks, lam)
            bound = factor(lam) * best + 3 * lam + 1
            hold(
                paid <= bound + 1e-6, f"lambda={lam}, {name}: the tracker pays {paid:.6g}, bound {bound:.6g}"
            )


def lazily(stay: float = 1.0) -> None:
    """Keeping expert i with probability exp(-eta x_i) leaves the chances proportional to the weights."""
    rng = np.random.default_rng(6)
    for n, eta in itertools.product((2, 3, 7), (1.0, 0.25, 0.01)):
        weight = rng.random(n) + 0.01
        for _ in range(40):
            x = rng.random(n)
            later = weight * np.exp(-eta * x)
            p, q = weight / weight.sum(), later / later.sum()
            keep = np.exp(-stay * eta * x)
            after = p * keep + float(p @ (1 - keep)) * q
            close(float(np.abs(after - q).max()), 0, 1e-12, f"{n} experts, eta={eta}: chances after a step")
            leaves = float(p @ (1 - keep))
            hold(leaves <= eta * float(p @ x) + 1e-12, f"{n} experts, eta={eta}: leaves with {leaves}")
            weight = later


def _plain(tasks: Tasks, lam: float, stay: float = 1.0) -> float:
    """Expected cost of the mixture, by following every outcome of its coins."""
    lower = [0.0, 0.0]
    stands, step_loss, at = [0], [], 0
    for a, b in tasks:
        step_loss.append((a, b)[at])
        lower = [lower[0] + a, lower[1] + b]
        lower = [min(lower[0], lower[1] + lam), min(lower[1], lower[0] + lam)]
        if lower[at] >= lower[1 - at] + lam:
            at = 1 - at
            step_loss[-1] += lam
        stands.append(at)
    total = 0.0
    sums, phase, weight = [0.0] * 3, 0, [1.0] * 3
    chance = {(e, (0, 1, stands[0])[e]): 1 / 3 for e in range(3)}
    total += lam * sum(c for (_, p), c in chance.items() if p == 1)
    for t, task in enumerate(tasks):
        losses = (float(task[0]), float(task[1]), float(step_loss[t]))
        places = (0, 1, stands[t + 1])
        sums = [s + x for s, x in zip(sums, losses, strict=True)]
        fall = [math.exp(-(2.0**-phase) * x / (1 + lam)) for x in losses]
        later = [w * f for w, f in zip(weight, fall, strict=True)]
        keep = [f**stay for f in fall]
        over = min(sums) >= 4**phase * (1 + lam)
        after: dict[tuple[int, int], float] = {}
        for (e, place), c in chance.items():
            total += c * float(task[place])
            kept = 0.0 if over else keep[e]
            for f in range(3):
                p = (1 - kept) * (1 / 3 if over else later[f] / sum(later)) + (kept if e == f else 0.0)
                total += c * p * lam * (places[f] != place)
                after[f, places[f]] = after.get((f, places[f]), 0.0) + c * p
        chance = after
        weight, sums, phase = ([1.0] * 3, [0.0] * 3, phase + 1) if over else (later, sums, phase)
    return total


def expectation(stay: float = 1.0) -> None:
    """The expected cost computed in compiled code is that of following all coins in plain Python."""
    for lam in (0.25, 1.0, 3.0):
        for name, tasks in families(300, 2, lam).items():
            plain = _plain(tasks, lam, stay)
            close(mix(tasks, lam).cost, plain, 1e-7, f"lambda={lam}, {name}: expected cost")


def phases(constant: float = 12.0, steps: int = 100_000) -> None:
    """In phase r the cost is at most its best expert's loss + 12 * 2^r m; lambda more in r = 0."""
    for lam in LAMBDAS:
        for name, tasks in families(steps, 1, lam).items():
            for r, (cost, best, _) in enumerate(mix(tasks, lam).phases):
                bound = best + constant * 2**r * (1 + lam) + (lam if r == 0 else 0)
                hold(cost <= bound, f"lambda={lam}, {name}, phase {r}: {cost:.6g}, bound {bound:.6g}")


def both(experts: tuple[str, ...] = EXPERTS, steps: int = 400_000) -> None:
    """E[cost] <= L + 48 sqrt(m L) + 25 m, L the better fixed content or (3 + 1/lambda) OPT + 3 lambda + 1."""
    for lam in (0.25, 1.0, 2.5):
        m = 1 + lam
        for name, tasks in families(steps, 3, lam).items():
            found = mix(tasks, lam, experts)
            for what, level in (
                ("the better fixed content", min(found.fixed)),
                ("the ratio", (3 + 1 / lam) * found.best + 3 * lam + 1),
            ):
                bound = level + 48 * math.sqrt(m * level) + 25 * m
                where = f"lambda={lam}, {name}, T={steps}"
                hold(found.cost <= bound, f"{where}: cost {found.cost:.6g}, by {what} at most {bound:.6g}")


def deterministic(part: float = 0.5) -> None:
    """A deterministic policy pays in every step where what it holds costs 1; a fixed content half of that."""
    steps = 2_000

    def never(cost: float, state: float) -> tuple[bool, float]:
        return False, state

    def at_once(cost: float, state: float) -> tuple[bool, float]:
        return cost > 0, state

    def saves(cost: float, state: float, goal: float) -> tuple[bool, float]:
        return (state + cost >= goal, 0.0 if state + cost >= goal else state + cost)

    rules = {"never": never, "at once": at_once}
    rules |= {f"saves {goal}": partial(saves, goal=goal) for goal in (2.0, 5.0, 40.0)}
    for lam, (name, rule) in itertools.product(LAMBDAS, rules.items()):
        at, state, paid, fixed = 0, 0.0, 0.0, [0, 0]
        for _ in range(steps):
            fixed[at] += 1
            paid += 1
            moves, state = rule(1.0, state)
            paid += lam * moves
            at = 1 - at if moves else at
        regret = paid - min(fixed)
        hold(regret >= part * steps, f"lambda={lam}, {name}: regret {regret} after {steps} steps")


def _reals(*lines: str) -> str:
    names = sorted(
        {w for line in lines for w in line.replace("(", " ").replace(")", " ").split() if w.isalpha()}
    )
    names = [n for n in names if n not in ("assert", "and", "or", "not")]
    head = ["(set-logic QF_NRA)", *(f"(declare-const {n} Real)" for n in names)]
    return "\n".join([*head, *lines, "(check-sat)", ""])


def _rates(square: str = "3") -> str:
    """For 0 < h <= 1: (1 + h)(1 - h/2) >= 1 and (1 + h)^2 <= 1 + 3 h; negated."""
    return _reals(
        "(assert (and (< 0 h) (<= h 1)))",
        f"(assert (or (< (* (+ 1 h) (- 1 (/ h 2))) 1) (> (* (+ 1 h) (+ 1 h)) (+ 1 (* {square} h)))))",
    )


def _total(constant: str = "48") -> str:
    """g = 2^R, and the best expert lost L >= g^2 m / 4 before phase R: 24 g m <= 48 sqrt(m L); negated."""
    return _reals(
        "(assert (and (< 0 m) (< 0 g) (<= 0 s) (= (* s s) (* m l)) (>= (* 4 l) (* g g m))))",
        f"(assert (> (* 24 g m) (* {constant} s)))",
    )


def _split(constant: str = "576") -> str:
    """48 sqrt(m y) <= k y + 576 m/k for k > 0: a part of y and a constant; negated, j = 1/k."""
    return _reals(
        "(assert (and (< 0 m) (<= 0 y) (<= 0 s) (= (* s s) (* m y)) (< 0 k) (= (* k j) 1)))",
        f"(assert (> (* 48 s) (+ (* k y) (* {constant} m j))))",
    )


SMT = {"rates": _rates(), "total": _total(), "split": _split()}


def algebra(square: str = "3", total: str = "48", split: str = "576") -> None:
    """The three inequalities between the rate, the phases and the constants, for all real parameters."""
    unsat("D4-rates", _rates(square))
    unsat("D4-total", _total(total))
    unsat("D4-split", _split(split))


def hedge(slope: float = 0.5) -> None:
    """``1 - exp(-h) >= h - h^2/2`` and ``exp(-h x) <= 1 - (1 - exp(-h)) x`` on [0, 1], on a grid."""
    for i in range(1, 1001):
        h = i / 1000
        hold(1 - math.exp(-h) >= h - slope * h * h, f"1 - exp(-h) is below h - {slope} h^2 at h = {h}")
        for x in (0.0, 0.1, 0.5, 0.9, 1.0):
            chord = 1 - (1 - math.exp(-h)) * x
            hold(math.exp(-h * x) <= chord + 1e-15, f"exp(-h x) is above its chord at h={h}, x={x}")


def _rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for steps in (100, 1_000, 10_000, 100_000, 1_000_000):
        coins, blocks = (families(steps, 5)[name] for name in ("fair coins", "long blocks"))
        names = {"the mixture": EXPERTS, "both fixed contents mixed": ("A", "B"), "the tracker": ("tracker",)}
        for who, experts in names.items():
            one, other = mix(coins, 1.0, experts), mix(blocks, 1.0, experts)
            regret, ratio = (one.cost - min(one.fixed)) / steps, other.cost / max(other.best, 1.0)
            for measure, value in (("regret / T, fair coins", regret), ("cost / OPT, blocks of 500", ratio)):
                rows.append({"rounds": steps, "policy": who, "measure": measure, "value": value})
    return rows


CLAIM = Claim(
    id="D4",
    title="ratio and regret do not conflict here",
    statement=(
        "That a constant ratio and sublinear regret exclude each other: refuted here. One policy has ratio "
        "<= 3 + 1/lambda + d, all d > 0, and regret O(sqrt((1+lambda) T))."
    ),
    variant="serve_then_update, pool, K = 1, N = 2, soft costs in [0, 1], lambda > 0, oblivious sequence",
    source="the conflict: Andrew et al. 2013, another problem; both at once: Daniely and Mansour 2019",
    status="refuted",
    scope="that the conflict carries over is refuted, by proof, for all lambda > 0 and T; K = 1, N = 2",
    breaks="deterministic policies: regret >= T/2; the bound on the ratio is lost as lambda -> 0",
    checks=(
        Check("tracker", tracker),
        Check("lazily", lazily),
        Check("hedge", hedge),
        Check("algebra", algebra, needs=("z3", "cvc5")),
        Check("expectation", expectation),
        Check("phases", phases),
        Check("both", both),
        Check("deterministic", deterministic),
    ),
    mutants=(
        Mutant(
            "no_overshoot", "tracker", {"factor": lambda lam: 3.0}, "the last task before a move may cost 1"
        ),
        Mutant("leaves_too_often", "lazily", {"stay": 2.0}, "then the chances are not the weights'"),
        Mutant("third", "hedge", {"slope": 0.3}, "the series ends at h^2/2"),
        Mutant("two_rates", "algebra", {"square": "2"}, "h^2 is not nothing"),
        Mutant("total_47", "algebra", {"total": "47"}, "attained where L = g^2 m/4"),
        Mutant("split_575", "algebra", {"split": "575"}, "attained where both terms agree"),
        Mutant("changes_more_often", "expectation", {"stay": 1.1}, "each change of the expert costs lambda"),
        Mutant("cheap_phases", "phases", {"constant": 0.5}, "learning costs something in each phase"),
        Mutant("no_tracker", "both", {"experts": ("A", "B")}, "no ratio: long blocks"),
        Mutant("only_tracker", "both", {"experts": ("tracker",)}, "linear regret: fair coins"),
        Mutant(
            "more_than_half", "deterministic", {"part": 1.1}, "one that never moves pays T, B costs nothing"
        ),
    ),
    proofs=("D4.md",),
    figure=Figure(
        "Each expert alone fails at one measure; the mixture at none (lambda = 1)",
        _rows,
        x="rounds",
        y="value",
        by="policy",
        panel="measure",
        share_y=False,
        x_label="T",
        y_label="",
        x_log=True,
    ),
)
