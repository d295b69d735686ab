"""G6: the post's evict_score divides by zero where it matters; a total, exact order that extends it.

Statement
---------
The context-cache post evicts the segment with the highest ``1 / (w_a a + w_r r)`` first, a its accesses, r
"the inverse of turns since last access". With d = turns since the last access, r = 1/d.

1. *Undefined as written* for d = 0, which is every segment that the node before the boundary used; and for a
   segment without any access: there is no d, and without a recency the score is 1/0. (The post's default
   turn of last access, 0, gives such a segment d = turn: defined, but not in turn 0.)
2. *Total.* ``softhit.hierarchy.score`` has ``keep = w_a a + w_r / d`` with r = 0 for a segment without an
   access and keep = infinity for d = 0, score = 1/keep with 1/0 = infinity and 1/infinity = 0; ties by
   accesses (for d = 0), then by the turn of loading, then by id. For all weights >= 0 this is a strict total
   order of segments with distinct ids: the order of input does not matter.
3. *The same elsewhere.* Where the post's formula is defined the score has its value, and of two different
   values the higher leaves first.
4. *Monotone.* More accesses or a later last access never make a segment leave earlier.
5. *What the order is.* For 0 <= w_r <= w_a, w_a > 0, as with the post's 0.4 and 0.6: among segments not
   accessed this turn it is that of (accesses, last access): least frequently used first, ties by recency.
   One access outranks any recency. For w_r > w_a it does not: ``w_a + w_r/d < w_r`` from
   ``d > w_r / (w_r - w_a)`` on.
6. *Ageing.* For 0 < w_r <= w_a two segments that nobody accesses keep their order for ever; for
   w_r > w_a > 0 some pair changes it.

Examples
--------
>>> from softhit.hierarchy.score import evict_score
>>> evict_score(accesses=2, last_turn=4, turn=5), evict_score(accesses=3, last_turn=1, turn=5)
(Fraction(5, 8), Fraction(10, 19))
>>> evict_score(accesses=1, last_turn=5, turn=5), evict_score(accesses=0, last_turn=None, turn=5)
(Fraction(0, 1), inf)

References
----------
The context-cache post, "Priority-Weighted LRU". ``softhit.policies.priority_lru`` is the same order as a
policy; G7 is about what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any

from softhit.hierarchy.score import evict_score, eviction_order
from theory.as_written import RUNS, post_score
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.smt import unsat

__all__ = ["CLAIM", "SMT"]

Facts = tuple[int, int | None]  # accesses, turn of the last one
Weights = tuple[Fraction, Fraction]
Order = Callable[..., list[Any]]

TURN = 9
POST: Weights = (Fraction(3, 5), Fraction(2, 5))
BELOW: tuple[Weights, ...] = (POST, (Fraction(1), Fraction(1)), (Fraction(2, 7), Fraction(1, 9)))
ABOVE: tuple[Weights, ...] = ((Fraction(2, 5), Fraction(3, 5)), (Fraction(1, 3), Fraction(7, 2)))
EDGE: tuple[Weights, ...] = ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))
# 0 accesses and no last one; otherwise 1 to 4, the last one in turn 0 to 9
FACTS: list[Facts] = [(0, None), *product(range(1, 5), range(TURN + 1))]

SMT = {
    "reciprocal": """; the highest 1/keep is the lowest keep
(set-logic QF_NRA)
(declare-const x Real)
(declare-const y Real)
(assert (and (> x 0.0) (> y 0.0)))
(assert (not (= (> (/ 1.0 x) (/ 1.0 y)) (< x y))))
(check-sat)
""",
    "monotone": """; more accesses and a greater recency: no smaller keep
(set-logic QF_NRA)
(declare-const wa Real)
(declare-const wr Real)
(declare-const a1 Real)
(declare-const a2 Real)
(declare-const r1 Real)
(declare-const r2 Real)
(assert (and (>= wa 0.0) (>= wr 0.0) (>= a1 a2) (>= r1 r2)))
(assert (< (+ (* wa a1) (* wr r1)) (+ (* wa a2) (* wr r2))))
(check-sat)
""",
    "sharp": """; w_r > w_a: an old segment of one access more is worth less than one accessed a turn ago
(set-logic QF_NRA)
(declare-const wa Real)
(declare-const wr Real)
(declare-const a Real)
(declare-const d Real)
(assert (and (>= wa 0.0) (> wr wa) (> d 0.0) (> (* d (- wr wa)) wr)))
(assert (>= (+ (* wa (+ a 1.0)) (/ wr d)) (+ (* wa a) wr)))
(check-sat)
""",
}


def _outranks(most: str = "wa") -> str:
    return f"""; w_r <= w_a: one access more outranks any recency; r1 > 0 as the first one was accessed
(set-logic QF_NRA)
(declare-const wa Real)
(declare-const wr Real)
(declare-const a1 Real)
(declare-const a2 Real)
(declare-const r1 Real)
(declare-const r2 Real)
(assert (and (> wa 0.0) (>= wr 0.0) (<= wr {most})))
(assert (>= a1 (+ a2 1.0)))
(assert (and (> r1 0.0) (<= r1 1.0) (>= r2 0.0) (<= r2 1.0)))
(assert (<= (+ (* wa a1) (* wr r1)) (+ (* wa a2) (* wr r2))))
(check-sat)
"""


SMT["outranks"] = _outranks()


def _segment(id_: str, facts: Facts, loaded: int = 0) -> dict[str, Any]:
    return {"id": id_, "accesses": facts[0], "last_turn": facts[1], "loaded_turn": loaded}


def _first(one: Facts, two: Facts, weights: Weights, order: Order, turn: int = TURN) -> int:
    """Which of two leaves first, whatever their ids: 0, 1, or -1 if only the ids tell."""
    named = [next(s["id"] for s in order(pair, turn, weights)) for pair in _both(one, two)]
    if named == ["a", "d"]:
        return 0
    return 1 if named == ["b", "c"] else -1


def _both(one: Facts, two: Facts) -> Iterator[list[dict[str, Any]]]:
    yield [_segment("a", one), _segment("b", two)]
    yield [_segment("d", one), _segment("c", two)]


def undefined(score: Callable[[int, int, int], Fraction] = post_score) -> None:
    """As written a segment accessed in this turn has no score, whatever its accesses."""
    for accesses, turn in product(range(4), range(5)):
        try:
            value = score(accesses, turn, turn)
        except ZeroDivisionError:
            continue
        hold(False, f"{accesses} accesses, the last in turn {turn} of {turn}: the formula gives {value}")
    walk = RUNS["one-over-zero"].walk()
    hold(walk.bad is not None, "no boundary as written has to score a segment of this turn")
    equal(len(walk.moves), 5, "steps to the first boundary that cannot score a segment")


def total(order: Order = eviction_order, score: Callable[..., Any] = evict_score) -> None:
    """Every segment has a score, and the order does not depend on the order of input."""
    rows = [_segment(f"s{n}", facts, loaded) for n, (facts, loaded) in enumerate(product(FACTS, (2, 0)))]
    for weights in (*BELOW, *ABOVE, *EDGE):
        for facts in FACTS:
            hold(score(*facts, TURN, weights) >= 0, f"{facts} has no score")
        names = [s["id"] for s in order(rows, TURN, weights)]
        equal(len(set(names)), len(rows), "segments in the order")
        for other in (rows[::-1], rows[7:] + rows[:7], sorted(rows, key=lambda s: str(s["id"])[::-1])):
            equal([s["id"] for s in order(other, TURN, weights)], names, f"order of the same rows, {weights}")
    few = [_segment("p", (2, 9)), _segment("q", (2, 9)), _segment("r", (2, 9), 1), _segment("s", (0, None))]
    orders = {tuple(s["id"] for s in order(list(rows), TURN, POST)) for rows in permutations(few)}
    equal(orders, {("s", "p", "q", "r")}, "the order of four segments in any order")


def same_where_defined(order: Order = eviction_order, score: Callable[..., Any] = evict_score) -> None:
    """Where the post's formula has a value ours is the same, and the order is that of the values."""
    defined = [facts for facts in FACTS if facts[1] is not None and facts[1] < TURN]
    for weights in (*BELOW, *ABOVE):
        values = {}
        for accesses, last in defined:
            assert last is not None
            values[accesses, last] = 1 / (weights[0] * accesses + weights[1] * Fraction(1, TURN - last))
            equal(score(accesses, last, TURN, weights), values[accesses, last], f"score of {accesses, last}")
        for one, two in product(defined, repeat=2):
            difference = values[one] - values[two]  # type: ignore[index]
            want = -1 if difference == 0 else int(difference < 0)
            equal(_first(one, two, weights, order), want, f"which of {one} and {two} leaves first, {weights}")
    for accesses, last in defined:
        assert last is not None
        equal(score(accesses, last, TURN), post_score(accesses, last, TURN), f"score of {accesses, last}")


def monotone(order: Order = eviction_order) -> None:
    """An access more, or a later last access, never makes a segment leave earlier than another one."""
    for weights in (*BELOW, *ABOVE, *EDGE):
        for one, two in product(FACTS, repeat=2):
            more, later = one[0] >= two[0], (-1 if one[1] is None else one[1]) >= (two[1] or -1)
            if more and later:
                hold(_first(one, two, weights, order) != 0, f"{one} leaves before {two}, {weights}")


def lexicographic(order: Order = eviction_order, weights: Sequence[Weights] = BELOW) -> None:
    """With 0 < w_r <= w_a the order among segments with d >= 1 is that of (accesses, last access)."""
    older = [facts for facts in FACTS if facts[1] is None or facts[1] < TURN]
    for pair in weights:
        for one, two in product(older, repeat=2):
            keys = [(accesses, -1 if last is None else last) for accesses, last in (one, two)]
            want = -1 if keys[0] == keys[1] else int(keys[0] > keys[1])
            equal(_first(one, two, pair, order), want, f"which of {one} and {two} leaves first, {pair}")
    for w_a, w_r in ABOVE:
        old, turn = int(w_r / (w_r - w_a)) + 1, 100
        first = _first((2, turn - old), (1, turn - 1), (w_a, w_r), order, turn)
        equal(first, 0, f"two accesses {old} turns ago against one just before, weights {w_a}, {w_r}")


def ageing(order: Order = eviction_order, weights: Sequence[Weights] = BELOW) -> None:
    """With 0 < w_r <= w_a no pair that nobody accesses changes its order; with w_r > w_a one does."""
    older = [facts for facts in FACTS if facts[1] is None or facts[1] < TURN]

    def changes(pair: Weights) -> Iterator[tuple[Facts, Facts, int]]:
        for one, two in product(older, repeat=2):
            now = _first(one, two, pair, order)
            for later in (1, 2, 5, 40):
                if _first(one, two, pair, order, TURN + later) != now:
                    yield one, two, later

    for pair in weights:
        changed = next(changes(pair), None)
        hold(changed is None, f"weights {pair}: the order changes, {changed}")
    for pair in ABOVE:
        hold(next(changes(pair), None) is not None, f"weights {pair}: no order of a pair changes")


def smt(most: str = "wa") -> None:
    """For all real weights: reciprocals reverse the order, keep is monotone, an access outranks recency."""
    for name in ("reciprocal", "monotone", "sharp"):
        unsat(name, SMT[name])
    unsat("outranks", _outranks(most))


def _by_score_only(rows: Sequence[Any], turn: int, weights: Weights) -> list[Any]:
    return sorted(rows, key=lambda s: evict_score(s["accesses"], s["last_turn"], turn, weights), reverse=True)


def _one_turn_more(rows: Sequence[Any], turn: int, weights: Weights) -> list[Any]:
    return eviction_order(rows, turn + 1, weights)


def _lru(rows: Sequence[Any], turn: int, weights: Weights) -> list[Any]:
    del turn, weights
    return sorted(rows, key=lambda s: (-1 if s["last_turn"] is None else s["last_turn"], s["id"]))


def _new_ones_last(rows: Sequence[Any], turn: int, weights: Weights) -> list[Any]:
    used: list[Any] = [{**s, "last_turn": turn if s["last_turn"] is None else s["last_turn"]} for s in rows]
    return eviction_order(used, turn, weights)


CLAIM = Claim(
    id="G6",
    title="evict_score, total",
    statement=(
        "As written evict_score is 1/0 for a segment accessed in this turn or never; ours is a total exact "
        "order, the post's wherever that is defined; for w_r <= w_a it is LFU in the window, ties by LRU."
    ),
    variant="L1's eviction order; weights >= 0, accesses and turns whole",
    source="the context-cache post's formula; the total order and what it amounts to are ours",
    status="machine-checked",
    scope=(
        "all real weights by SMT; that the code has this order: every pair of up to 4 accesses in turns 0 to "
        "9, seven pairs of weights, exact"
    ),
    breaks="(5) and (6) for w_r > w_a, and for segments accessed this very turn, which leave last",
    checks=(
        Check("undefined", undefined),
        Check("total", total),
        Check("same_where_defined", same_where_defined),
        Check("monotone", monotone),
        Check("lexicographic", lexicographic),
        Check("ageing", ageing),
        Check("smt", smt, needs=("z3", "cvc5")),
    ),
    mutants=(
        Mutant(
            "one_more_turn",
            "undefined",
            {"score": lambda a, last, turn: post_score(a, last, turn + 1)},
            "1/(d+1) has no gap, but is not the formula",
        ),
        Mutant("score_only", "total", {"order": _by_score_only}, "ties fall as the input does"),
        Mutant("turn_later", "same_where_defined", {"order": _one_turn_more}, "1/(d+1) is another order"),
        Mutant(
            "new_ones_last", "monotone", {"order": _new_ones_last}, "never accessed taken as just accessed"
        ),
        Mutant("lru", "lexicographic", {"order": _lru}, "an access outranks recency"),
        Mutant("heavy_recency", "lexicographic", {"weights": ABOVE}, "w_r > w_a"),
        Mutant("heavy_recency_ages", "ageing", {"weights": ABOVE}, "w_r > w_a"),
        Mutant("twice", "smt", {"most": "(* 2.0 wa)"}, "w_r = 2 w_a outranks an access"),
    ),
    proofs=("G6.md",),
)
