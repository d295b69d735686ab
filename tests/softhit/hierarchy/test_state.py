"""The state of the allocator is plain data, and its reducer is the maximum of a total order."""

import json
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.state import (
    empty_context,
    merge_context,
    read_context,
    segments_of,
    used_tokens,
)

# few revisions and few contents, so that both kinds of tie occur
contexts = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"revision": st.integers(0, 3), "turn": st.integers(0, 1)}),
)


def states(*revisions: int) -> list[dict[str, Any]]:
    return [{**empty_context(10), "revision": revision} for revision in revisions]


class TestMergingContexts:
    @given(contexts, contexts)
    def test_is_commutative(self, a: Any, b: Any) -> None:
        assert merge_context(a, b) == merge_context(b, a)

    @given(contexts, contexts, contexts)
    def test_is_associative(self, a: Any, b: Any, c: Any) -> None:
        assert merge_context(merge_context(a, b), c) == merge_context(a, merge_context(b, c))

    @given(contexts)
    def test_is_idempotent(self, a: Any) -> None:
        assert merge_context(a, a) == a

    @given(st.lists(contexts, min_size=1, max_size=6), st.randoms())
    def test_does_not_depend_on_order_or_repetition(self, values: list[Any], rng: Any) -> None:
        def fold(items: list[Any]) -> Any:
            out: dict[str, Any] = {}
            for item in items:
                out = merge_context(out, item)
            return out

        mixed = values + rng.choices(values, k=3)
        rng.shuffle(mixed)
        assert fold(mixed) == fold(values)

    def test_keeps_the_later_boundary(self) -> None:
        old, new = states(3, 4)
        assert merge_context(old, new) is not old
        assert merge_context(old, new)["revision"] == 4
        assert merge_context(new, old)["revision"] == 4

    def test_takes_an_empty_channel_for_no_boundary_at_all(self) -> None:
        (first,) = states(0)
        assert merge_context({}, first) == first
        assert merge_context(None, first) == first
        assert merge_context(first, None) == first

    def test_does_not_change_its_arguments(self) -> None:
        a, b = states(1, 2)
        merge_context(a, b)["turn"] = 99
        assert a["turn"] == b["turn"] == 0


class TestTheState:
    def test_is_json_and_survives_a_round_trip(self) -> None:
        segment = Segment("a", digest_of("x"), 3, fields=("user",), group="g", last_turn=4)
        context = {**empty_context(10), "l1": {"a": segment.to_json()}}
        back = json.loads(json.dumps(context))
        assert back == context
        assert segments_of(back) == [segment]
        assert used_tokens(back) == 3

    def test_of_an_older_version_gets_what_it_lacks(self) -> None:
        context = read_context({"revision": 2, "turn": 2}, budget=7)
        assert context["turn"] == 2
        assert context["unsaved"] == {}
        assert context["budget"] == 7

    def test_is_read_from_an_empty_channel_as_the_empty_state(self) -> None:
        assert read_context({}, 7) == read_context(None, 7) == empty_context(7)
