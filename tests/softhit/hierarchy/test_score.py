"""The score orders every segment, and as the context-cache post does wherever its formula is defined."""

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.score import WEIGHTS, evict_score, eviction_order, keep_value

weights = st.tuples(
    st.fractions(0, 2, max_denominator=7),
    st.fractions(0, 2, max_denominator=7),
)
# (accesses, last turn, loaded turn): never accessed goes with no access
facts = st.one_of(
    st.tuples(st.just(0), st.none(), st.integers(0, 3)),
    st.tuples(st.integers(1, 4), st.integers(0, 9), st.integers(0, 3)),
)
TURN = 9


def segment(accesses: int, last: int | None, loaded: int = 0, id: str = "a") -> Any:
    return Segment(id, digest_of(id), 1, accesses=accesses, last_turn=last, loaded_turn=loaded).to_json()


def named(rows: list[Any]) -> list[Any]:
    return [segment(a, last, loaded, f"{i:03}") for i, (a, last, loaded) in enumerate(rows)]


def post(accesses: int, last: int, turn: int, w: tuple[Fraction, Fraction]) -> Fraction:
    """The formula as written: one over accesses times w_a plus recency times w_r."""
    return Fraction(1) / (Fraction(accesses) * w[0] + Fraction(1, turn - last) * w[1])


class TestTheScore:
    @given(st.integers(1, 50), st.integers(0, 50), st.integers(1, 50))
    def test_is_the_formula_of_the_post_where_that_is_defined(self, a: int, last: int, age: int) -> None:
        assert evict_score(a, last, last + age) == post(a, last, last + age, WEIGHTS)

    def test_of_a_segment_never_accessed_is_the_highest(self) -> None:
        assert evict_score(0, None, 5) == math.inf
        assert keep_value(0, None, 5) == 0

    def test_of_a_segment_accessed_in_this_turn_is_the_lowest(self) -> None:
        assert evict_score(1, 5, 5) == 0
        assert keep_value(1, 5, 5) == math.inf

    def test_is_defined_when_both_weights_are_zero(self) -> None:
        zero = (Fraction(0), Fraction(0))
        assert evict_score(3, 1, 5, zero) == math.inf

    @given(facts, weights)
    def test_is_a_number_or_infinity_for_every_segment(self, row: Any, w: Any) -> None:
        score = evict_score(row[0], row[1], TURN, w)
        assert score == math.inf or (isinstance(score, Fraction) and score >= 0)


class TestTheOrder:
    @given(st.lists(facts, max_size=12), weights)
    def test_is_that_of_the_exact_scores_with_the_ties_as_documented(self, rows: Any, w: Any) -> None:
        segments = named(rows)

        def documented(s: Any) -> Any:
            score = evict_score(s["accesses"], s["last_turn"], TURN, w)
            # among those accessed in this turn the one with fewer accesses leaves first
            now = s["accesses"] if s["last_turn"] is not None and s["last_turn"] >= TURN else 0
            return (-score, s["last_turn"] == TURN, now, s["loaded_turn"], s["id"])

        assert eviction_order(segments, TURN, w) == sorted(segments, key=documented)

    @given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 8)), max_size=12), weights)
    def test_is_that_of_the_post_wherever_its_formula_is_defined(self, rows: Any, w: Any) -> None:
        defined = [r for r in rows if w[0] * r[0] + w[1] * Fraction(1, TURN - r[1]) > 0]
        ordered = eviction_order(
            [segment(a, last, 0, f"{i:03}") for i, (a, last) in enumerate(defined)], TURN, w
        )
        scores = [post(s["accesses"], s["last_turn"], TURN, w) for s in ordered]
        assert scores == sorted(scores, reverse=True)

    @given(st.lists(facts, max_size=8), st.randoms())
    def test_does_not_depend_on_the_order_it_is_given(self, rows: Any, rng: random.Random) -> None:
        segments = named(rows)
        mixed = list(segments)
        rng.shuffle(mixed)
        assert eviction_order(mixed, TURN) == eviction_order(segments, TURN)

    def test_is_total_and_transitive_on_every_small_case(self) -> None:
        rows = [(0, None, loaded) for loaded in (0, 1)]
        rows += [(a, last, 0) for a in (1, 2) for last in (6, 8, 9)]
        segments = named(rows)

        def before(a: Any, b: Any) -> bool:
            return bool(eviction_order([a, b], TURN)[0] is a)

        for a, b in itertools.permutations(segments, 2):
            assert before(a, b) != before(b, a)
        for a, b, c in itertools.permutations(segments, 3):
            assert not (before(a, b) and before(b, c)) or before(a, c)

    def test_with_the_weights_of_the_post_counts_accesses_before_recency(self) -> None:
        often_but_long_ago = segment(2, 0, id="often")
        once_but_just_now = segment(1, TURN - 1, id="recent")
        assert [s["id"] for s in eviction_order([often_but_long_ago, once_but_just_now], TURN)] == [
            "recent",
            "often",
        ]

    def test_tells_ages_apart_that_floating_point_does_not(self) -> None:
        turn = 10**17
        older, newer = segment(1, 0, id="a"), segment(1, 1, id="b")
        assert 1 / turn == 1 / (turn - 1)
        assert [s["id"] for s in eviction_order([newer, older], turn)] == ["a", "b"]
