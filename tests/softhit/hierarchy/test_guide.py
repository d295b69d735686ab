"""The order of eviction under every policy is a pure function of the state."""

import random
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from softhit import InvalidInput, Observation, Session, UnknownName, cost, policy_names
from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.guide import history_trace, make_guide
from softhit.hierarchy.score import evict_score
from softhit.policies import policy_info


def segment(id: str, tokens: int = 1, loaded: int = 0, last: int | None = None, accesses: int = 0) -> Any:
    return Segment(id, digest_of(id), tokens, loaded_turn=loaded, last_turn=last, accesses=accesses).to_json()


def ids(rows: list[Any]) -> list[str]:
    return [s["id"] for s in rows]


ROWS = [
    segment("old", loaded=1, last=6, accesses=5),
    segment("never", loaded=4),
    segment("late", loaded=5, last=5, accesses=1),
    segment("also", loaded=1, last=2, accesses=1),
]

# a request history over few ids; an id keeps its tokens, but for a new version now and then
histories = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from([1, 2]), st.just("load")), max_size=40
)


def online(sizes: bool) -> list[str]:
    return [n for n in policy_names(clairvoyant=False) if policy_info(n).sizes == sizes]


class TestDirectOrders:
    def test_lru_goes_by_the_last_use_and_to_be_loaded_is_one(self) -> None:
        assert ids(make_guide("lru").order(ROWS, 7, [])) == ["also", "never", "late", "old"]

    def test_fifo_goes_by_the_turn_of_loading_then_by_id(self) -> None:
        assert ids(make_guide("fifo").order(ROWS, 7, [])) == ["also", "old", "never", "late"]

    def test_priority_lru_goes_by_the_score(self) -> None:
        assert ids(make_guide("priority_lru").order(ROWS, 7, [])) == ["never", "also", "late", "old"]

    def test_the_weights_of_priority_lru_can_be_given(self) -> None:
        recency_only = make_guide("priority_lru", weights=(Fraction(0), Fraction(1)))
        assert ids(recency_only.order(ROWS, 7, [])) == ["never", "also", "late", "old"]
        accesses_only = make_guide("priority_lru", weights=(Fraction(1), Fraction(0)))
        assert ids(accesses_only.order(ROWS, 7, [])) == ["never", "also", "late", "old"]
        assert accesses_only.score(ROWS[0], 7) == 1 / 5
        assert recency_only.score(ROWS[0], 7) == float(evict_score(5, 6, 7, (Fraction(0), Fraction(1))))

    @pytest.mark.parametrize("policy", ["priority_lru", "lru", "fifo"])
    def test_they_need_no_history(self, policy: str) -> None:
        assert not make_guide(policy).uses_history


class TestReplayedPolicies:
    def test_what_the_cache_of_the_policy_does_not_hold_leaves_first(self) -> None:
        # a cache of 3 tokens: a, b, c enter, d pushes a out under every policy that admits always
        history = [[x, 1, "load"] for x in "abcd"]
        rows = [segment(x) for x in "abcd"]
        assert ids(make_guide("lfu", capacity=3).order(rows, 9, history))[0] == "a"

    @given(histories, st.sampled_from(online(sizes=True)), st.integers(1, 5), st.integers(0, 2))
    def test_hold_what_a_live_session_holds(
        self, history: Any, policy: str, capacity: int, seed: int
    ) -> None:
        guide: Any = make_guide(policy, capacity=capacity, seed=seed)
        if not guide.uses_history:
            return
        trace, items = history_trace(history, padding=capacity + 1)
        session = Session(policy, trace.n_items, capacity, 1, sizes=trace.sizes, seed=seed)
        for entry in history:
            i = items.index((entry[0], entry[1]))
            session.step([i], [10_000], arrival=i, weight=entry[1])
        held = {items[i] for i in session.held}
        rows = [segment(id, tokens) for id, tokens in items]
        order = guide.order(rows, 9, history)
        inside = [(s["id"], s["tokens"]) in held for s in order]
        assert inside == sorted(inside)
        assert sum(inside) == len(held)

    @given(histories, st.sampled_from(online(sizes=True)), st.randoms())
    def test_order_alike_whatever_order_the_segments_come_in(
        self, history: Any, policy: str, rng: random.Random
    ) -> None:
        guide = make_guide(policy, capacity=3)
        rows = [segment(id, tokens) for id, tokens in history_trace(history)[1]]
        rows = list({s["id"]: s for s in rows}.values())
        mixed = list(rows)
        rng.shuffle(mixed)
        assert guide.order(mixed, 9, history) == guide.order(rows, 9, history)
        assert sorted(ids(guide.order(rows, 9, history))) == sorted(ids(rows))

    def test_solar_guides_too(self) -> None:
        history = [[x, 2, "load"] for x in "abcabcabdabe"]
        order = make_guide("solar", capacity=4, seed=1).order([segment(x, 2) for x in "abcde"], 9, history)
        assert sorted(ids(order)) == list("abcde")

    def test_a_users_own_class_may_guide(self) -> None:
        guide = make_guide("tests.softhit.hierarchy.test_guide:KeepsTheFirst", capacity=2)
        rows = [segment(x) for x in "abc"]
        assert ids(guide.order(rows, 9, [[x, 1, "load"] for x in "abc"])) == ["c", "a", "b"]

    def test_an_empty_history_is_legal(self) -> None:
        assert ids(make_guide("lfu", capacity=3).order([segment("b"), segment("a")], 9, [])) == ["a", "b"]


class TestTheHistoryAsATrace:
    def test_has_the_tokens_as_sizes_and_as_weights(self) -> None:
        trace, items = history_trace([["a", 3, "load"], ["b", 5, "hit"], ["a", 3, "touch"]])
        assert items == [("a", 3), ("b", 5)]
        assert trace.weight.tolist() == [3, 5, 3]
        assert trace.sizes.tolist() == [3, 5]
        # every request a miss at first, then a hit: an empty cache pays all tokens
        assert cost(make_empty(trace), trace, 8, 1).units / cost(make_empty(trace), trace, 8, 1).scale == 11

    def test_counts_a_new_version_of_another_size_as_another_item(self) -> None:
        assert history_trace([["a", 3, "load"], ["a", 4, "load"]])[1] == [("a", 3), ("a", 4)]

    @given(histories)
    def test_has_a_power_of_two_of_items(self, history: Any) -> None:
        trace, items = history_trace(history, padding=7)
        assert trace.n_items >= max(1, len(items))
        assert trace.n_items & (trace.n_items - 1) == 0
        assert np.all(trace.sizes[len(items) :] == 7)


class TestRefusals:
    @pytest.mark.parametrize("policy", online(sizes=False))
    def test_a_policy_for_unit_sizes_is_refused_and_sized_ones_are_named(self, policy: str) -> None:
        with pytest.raises(InvalidInput, match=r"sizes other than 1, such as .*lru"):
            make_guide(policy)

    @pytest.mark.parametrize("policy", ["belady", "static_opt"])
    def test_a_policy_that_sees_the_future_is_refused(self, policy: str) -> None:
        with pytest.raises(InvalidInput, match="future"):
            make_guide(policy)

    def test_an_unknown_policy_is_refused_with_the_nearest_name(self) -> None:
        with pytest.raises(UnknownName, match="sieve"):
            make_guide("seive")

    def test_an_object_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="policy must be the name"):
            make_guide(object())  # type: ignore[arg-type]


class KeepsTheFirst:
    """Admits while there is room and never evicts."""

    name = "keeps_the_first"

    def start(self, context: Any) -> None:
        self.sizes = context.sizes

    def decide(self, seen: Observation) -> Any:
        from softhit import Decision

        room = seen.arrival >= 0 and not seen.arrival_held and self.sizes[seen.arrival] <= seen.free
        return Decision(admit=(seen.arrival,)) if room else Decision()


def make_empty(trace: Any) -> Any:
    from softhit import Schedule

    return Schedule.from_events(trace.n_steps, [], [], [], [])
