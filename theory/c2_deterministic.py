"""C2: no deterministic policy beats max(K, (K+1)(1+lambda)/(1+ceil(lambda))), which is K+1 for whole lambda.

Statement
---------
Hard hits, unit sizes, ``stream`` with e_t = q_t, serve_then_update, free or charged fill. For every K >= 1,
every lambda >= 0 and every deterministic online policy the competitive ratio is at least

    B = max( K, (K+1)(1+lambda) / (1+ceil(lambda)) ).

More precisely: for every n there are requests over K+1 items, n blocks of ``tau = ceil(lambda) + 1`` equal
requests each, with ``ALG >= B OPT - B K - lambda K`` (free fill), ALG >= n (1 + lambda) - lambda K growing
without limit.

Why
---
The policy is known, so one can ask, tau times in a row, for an item that it lacks. Such a block costs it
at least 1 + lambda, as in C1: load after j >= 1 misses and pay j + lambda, or never load and pay tau. OPT
has two good schedules. *Static*: keep the K items that are asked for most; of n blocks at most n/(K+1)
miss, tau requests each. *Phases*: at the first request of a phase give up the item that opens the next one;
1 + lambda a phase, and a phase has K distinct items, so K blocks or more. Steps and checks:
``proofs/C2.md``; for all policies, as functions of the past, ``proofs/C2.v``.

The best deterministic policies have more: 2K + 1 - K/(1+lambda) on K+1 items in every case computed (K <= 3,
lambda whole), so B is not tight for lambda > 0, and tight at lambda = 0 there.

Examples
--------
>>> [str(bound(k, lam)) for k, lam in ((1, 0), (2, 1), (3, Fraction(1, 2)), (3, Fraction(5, 2)))]
['2', '3', '3', '7/2']

What the numbers are
--------------------
The adversary plays through a live `softhit.Session`, not on a trace made beforehand; OPT is the exact optimum
of the trace that results, by two methods. All comparisons are between fractions.

References
----------
Sleator and Tarjan, "Amortized efficiency of list update and paging rules", CACM 28 (1985): K without
switching costs, update_then_serve. The block form for all lambda is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from adversaries.exact import game_value
from softhit import Session, Trace, cost, from_requests, policy_names
from softhit.policies.registry import policy_info
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import optimum
from theory.missing_item import missing_item_optimum
from theory.smt import unsat

__all__ = ["CLAIM", "bound", "play"]

LAMBDAS = ("0", "1/3", "1", "5/2", "4")


def bound(k: int, lam: Fraction | int) -> Fraction:
    """Return max(K, (K+1)(1+lambda)/(1+ceil(lambda)))."""
    return max(Fraction(k), Fraction((k + 1) * (1 + lam)) / (1 + ceil(lam)))


def deterministic() -> list[str]:
    """Return the online policies of the registry, as it is now, that draw nothing; and a few settings."""
    names = [name for name in policy_names(clairvoyant=False) if policy_info(name).deterministic]
    return [*names, "gated_lru(theta=1)", "gated_lru(theta=5)", "lru(admit=miss)"]


@dataclass(frozen=True)
class Game:
    """What an adaptive game came to: the requests, and what the policy paid for the first n blocks, by n."""

    trace: Trace
    paid: Mapping[int, Fraction]


def play(spec: str, k: int, lam: Fraction, blocks: int, tau: int, seed: int = 0) -> Game:
    """Ask the live policy, ``tau`` times in a row, for the smallest item that it lacks; K+1 items.

    Examples
    --------
    >>> game = play("lru", 2, Fraction(1), blocks=4, tau=2)
    >>> game.trace.requests.tolist(), {n: str(x) for n, x in game.paid.items()}
    ([0, 0, 1, 1, 2, 2, 0, 0], {1: '1', 2: '2', 4: '6'})
    """
    session = Session(spec, n_items=k + 1, capacity=k, switch_cost=lam, seed=seed)
    asked: list[int] = []
    for _ in range(blocks):
        item = next(i for i in range(k + 1) if not session.holds(i))
        for _ in range(tau):
            session.step([item], [10_000], arrival=item)
            asked.append(item)
    trace, schedule = from_requests(asked, n_items=k + 1), session.schedule()
    stops = sorted({1, k, blocks // 2, blocks})
    prefixes = ((n, schedule.prefix(n * tau), trace.prefix(n * tau)) for n in stops)
    return Game(trace, {n: cost(held, seen, k, lam).fraction for n, held, seen in prefixes})


def _longer(lam: Fraction) -> int:
    return ceil(lam) + 1


def adversary(
    policies: Callable[[], Iterable[str]] = deterministic,
    tau: Callable[[Fraction], int] = _longer,
    wanted: Callable[[int, Fraction], Fraction] = bound,
    capacities: Iterable[int] = (1, 2, 4),
) -> None:
    """Every deterministic policy, live, pays at least B (OPT - K) - lambda K after n blocks, OPT exact."""
    for k in capacities:
        blocks = 6 * (k + 1)
        for lam in map(Fraction, LAMBDAS):
            for spec in policies():
                where = f"{spec}, K={k}, lambda={lam}"
                game = play(spec, k, lam, blocks, tau(lam))
                if lam == 1:
                    again = play(spec, k, lam, blocks, tau(lam), seed=1)
                    equal(again.trace.hash, game.trace.hash, f"{where}: requests under another seed")
                stops = [n * tau(lam) for n in game.paid]
                best = missing_item_optimum(game.trace, k, lam, "serve_then_update", stops)
                equal(optimum(game.trace, k, lam), best[-1], f"{where}: OPT by the network")
                for (n, paid), opt in zip(game.paid.items(), best, strict=True):
                    least = n * (1 + lam) - lam * k
                    hold(paid >= least, f"{where}: {paid} for {n} blocks, at least {least}")
                    goal = wanted(k, lam) * (opt - k) - lam * k
                    hold(paid >= goal, f"{where}: {paid} after {n} blocks, at least {goal} (OPT = {opt})")


def two_schedules(save: int = 0) -> None:
    """On any blocks over K+1 items OPT is at most K + tau n/(K+1), and at most K + (1+lambda)(n-1)/K."""
    for k in (1, 2, 3, 5):
        for lam in map(Fraction, LAMBDAS):
            tau = ceil(lam) + 1
            for spec in ("lru", "random", "lfu", "never"):
                blocks = 12 * (k + 1)
                game = play(spec, k, lam, blocks, tau, seed=k)
                stops = [tau * n for n in range(1, blocks + 1)]
                best = missing_item_optimum(game.trace, k, lam, "serve_then_update", stops)
                for n, opt in enumerate(best, 1):
                    where = f"K={k}, lambda={lam}, {n} blocks against {spec}: OPT = {opt}"
                    static = k + Fraction(tau * n, k + 1)
                    hold(opt <= static - save * k, f"{where}, static {static}")
                    phases = k + (1 + lam) * Fraction(n - 1, k)
                    hold(opt <= phases - save * k, f"{where}, by phases {phases}")


_HEAD = """(set-logic QF_NRA)
(declare-const lambda Real)
(declare-const K Real)
(declare-const n Real)
(declare-const tau Real)
(declare-const alg Real)
(declare-const opt Real)
(declare-const B Real)
(assert (>= lambda 0.0))
(assert (and (>= K 1.0) (>= n 0.0) (> tau 0.0)))
(assert (>= alg (- (* n (+ 1.0 lambda)) (* lambda K))))
"""


def _script(kind: str, factor: str) -> str:
    """Return: n blocks, the policy's least, one schedule of OPT's; and ALG < B (OPT - K) - lambda K."""
    if kind == "static":
        facts = f"(assert (= (* B tau) (* {factor} (+ 1.0 lambda))))\n"
        facts += "(assert (<= (* (+ K 1.0) (- opt K)) (* tau n)))\n"
    else:
        facts = f"(assert (= B {factor}))\n(assert (<= (* K (- opt K)) (* (+ 1.0 lambda) n)))\n"
    return (
        f"; C2, {kind} schedule: the policy pays at least B (OPT - K) - lambda K\n{_HEAD}{facts}"
        "(assert (< alg (- (* B (- opt K)) (* lambda K))))\n(check-sat)\n"
    )


SMT = {
    "static": _script("static", "(+ K 1.0)"),
    "phases": _script("phases", "K"),
    "whole": """; for whole lambda the bound is K + 1, otherwise below it
(set-logic QF_NRA)
(declare-const lambda Real)
(declare-const c Real)
(declare-const K Real)
(declare-const B Real)
(assert (and (>= lambda 0.0) (>= K 1.0) (<= lambda c) (< (- c 1.0) lambda)))
(assert (= (* B (+ 1.0 c)) (* (+ K 1.0) (+ 1.0 lambda))))
(assert (or (> B (+ K 1.0)) (and (= lambda c) (distinct B (+ K 1.0))) (and (< lambda c) (>= B (+ K 1.0)))))
(check-sat)
""",
}


def inequality(factor: str = "(+ K 1.0)", phases: str = "K") -> None:
    """For all real lambda, K, n: a least cost per block and either schedule of OPT's give the bound."""
    unsat("static", _script("static", factor))
    unsat("phases", _script("phases", phases))
    unsat("whole", SMT["whole"])


def games(most: int = 3, minus: int = 1, more: Fraction = Fraction(0)) -> None:
    """The best deterministic policies on K+1 items, as games: at least B; 2K+1-K/(1+lambda), lambda whole."""
    for k in range(1, most + 1):
        for lam in map(Fraction, ("0", "1/2", "1", "2") if k < 3 else ("0", "1")):
            value = game_value(k, k + 1, lam).value
            least = bound(k, lam) + more
            hold(value >= least, f"K={k}, lambda={lam}: the game has value {value}, at least {least}")
            if lam.denominator == 1:
                equal(value, 2 * k + 1 - minus * Fraction(k) / (1 + lam), f"value of K={k}, lambda={lam}")


def _short(lam: Fraction) -> int:
    return 1


def _too_much(k: int, lam: Fraction) -> Fraction:
    return Fraction(4 * (k + 1)) * (1 + lam)


def _draws() -> list[str]:
    return ["random"]


CLAIM = Claim(
    id="C2",
    title="no deterministic policy beats K+1",
    statement="Every deterministic policy has a ratio of at least max(K, (K+1)(1+lambda)/(1+ceil(lambda))).",
    variant="serve_then_update, stream, e_t = q_t, hard hits, unit sizes, any fill",
    source="ours; Sleator and Tarjan 1985 for paging",
    status="machine-checked",
    scope=(
        "all K >= 1, lambda >= 0 (rational in Coq, the inequalities real by SMT) and deterministic "
        "policies; the registry's, played live, beside it"
    ),
    breaks="randomised policies against requests fixed beforehand (C1: H_K); not tight for lambda > 0",
    checks=(
        Check("adversary", adversary),
        Check("two_schedules", two_schedules),
        Check("inequality", inequality, needs=("z3", "cvc5")),
        Check("games", games),
    ),
    mutants=(
        Mutant(
            "asks_once", "adversary", {"tau": _short, "capacities": (2,)}, "lambda = 1: never loading pays 1"
        ),
        Mutant(
            "a_policy_that_draws",
            "adversary",
            {"policies": _draws, "capacities": (2,)},
            "its requests depend on the seed",
        ),
        Mutant("four_times", "adversary", {"wanted": _too_much, "capacities": (2,)}, "LRU is not that bad"),
        Mutant("fill_for_nothing", "two_schedules", {"save": 1}, "the first K items miss once each"),
        Mutant("one_slot_more", "inequality", {"factor": "(+ K 2.0)"}, "K+2 does not follow"),
        Mutant("phases_of_more", "inequality", {"phases": "(+ K 1.0)"}, "K+1 does not follow from phases"),
        Mutant("games_twice", "games", {"minus": 2, "most": 1}, "the value is 2K+1-K/(1+lambda)"),
        Mutant("bound_above", "games", {"more": Fraction(1, 1000), "most": 2}, "tight at lambda = 0"),
    ),
    proofs=("C2.md", "C2.v"),
)
