"""A trace checks all that it is given, cannot be changed, and is named by the hash of its canonical form."""

import copy
import hashlib
import pickle
import struct
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from softhit import InvalidInput, Trace, from_arrays, from_clusters, from_requests


def make(**changes: Any) -> Trace:
    """Three steps over four items; the second row has two entries, the third none."""
    parts: dict[str, Any] = {
        "n_items": 4,
        "indptr": [0, 1, 3, 3],
        "items": [2, 0, 3],
        "quality": [10_000, 5000, 1],
        "arrivals": [2, -1, 0],
        "weight": [1, 2, 0],
        "sizes": [1, 1, 2, 1],
    }
    return Trace(**{**parts, **changes})


class TestHash:
    def test_it_is_the_digest_of_the_documented_form(self) -> None:
        form = b"softhit-trace-1\n" + struct.pack("<5q", 4, 3, 3, 10_000, 0)
        form += struct.pack("<4q", 0, 1, 3, 3)
        form += struct.pack("<3i", 2, 0, 3) + struct.pack("<3i", 10_000, 5000, 1)
        form += struct.pack("<3i", 2, -1, 0) + struct.pack("<3i", 1, 2, 0) + struct.pack("<4q", 1, 1, 2, 1)
        assert make().hash == hashlib.sha256(form).hexdigest()

    def test_ranks_enter_after_quality(self) -> None:
        form = b"softhit-trace-1\n" + struct.pack("<5q", 4, 3, 3, 10_000, 1)
        form += struct.pack("<4q", 0, 1, 3, 3)
        form += (
            struct.pack("<3i", 2, 0, 3) + struct.pack("<3i", 10_000, 5000, 1) + struct.pack("<3i", 0, 1, 0)
        )
        form += struct.pack("<3i", 2, -1, 0) + struct.pack("<3i", 1, 2, 0) + struct.pack("<4q", 1, 1, 2, 1)
        assert make(ranks=[0, 1, 0]).hash == hashlib.sha256(form).hexdigest()

    def test_it_is_the_same_for_ever(self) -> None:
        # a change here orphans every stored certificate and result: raise the version in the form instead
        assert make().hash == LITERAL

    @pytest.mark.parametrize(
        "change",
        [
            {"n_items": 5, "sizes": [1, 1, 2, 1, 1]},
            {"indptr": [0, 1, 2, 3]},
            {"items": [1, 0, 3]},
            {"quality": [10_000, 5000, 2]},
            {"quality_scale": 20_000},
            {"arrivals": [2, -1, -1]},
            {"weight": [1, 2, 1]},
            {"sizes": [1, 1, 1, 1]},
            {"ranks": [0, 0, 1]},
        ],
    )
    def test_it_changes_with_every_part_of_the_instance(self, change: dict[str, Any]) -> None:
        assert make(**change).hash != make().hash
        assert make(**change) != make()

    def test_vectors_and_metadata_do_not_enter(self) -> None:
        plain, rich = make(), make(metadata={"source": "x"}, item_vectors=np.eye(4))
        assert plain == rich
        assert hash(plain) == hash(rich)
        assert plain != "trace"

    def test_types_of_the_input_do_not_enter(self) -> None:
        assert make(items=np.array([2, 0, 3], np.uint8), weight=np.array([1.0, 2.0, 0.0])) == make()


# sha256 of the form spelt out above
LITERAL = "e795b8e3f4e59044438dcef98253d515a999243e5c1d377abc1fee44dec6afcf"


class TestInput:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"n_items": -1}, r"n_items must be an integer in 0\.\."),
            ({"n_items": 4.0}, "n_items must be an integer"),
            ({"indptr": []}, "indptr must be a non-decreasing array that starts at 0"),
            ({"indptr": [1, 1, 3, 3]}, "indptr must be a non-decreasing array that starts at 0"),
            ({"indptr": [0, 2, 1, 3]}, "indptr must be a non-decreasing array that starts at 0"),
            ({"indptr": [0, 1, 3, 4]}, "items must have length 4, got 3"),
            ({"indptr": [[0, 1]]}, "indptr must be a one-dimensional array"),
            ({"items": [2, 0]}, "items must have length 3, got 2"),
            ({"items": [2, 0, 4]}, r"items\[2\] must be an item id in 0\.\.3, got 4"),
            ({"items": [-1, 0, 3]}, r"items\[0\] must be an item id in 0\.\.3, got -1"),
            ({"items": [2, 3, 0]}, "ascending and unique within each row; row 1 is not"),
            ({"items": [2, 3, 3]}, "ascending and unique within each row; row 1 is not"),
            ({"items": [2, 0.5, 3]}, "items must be an array of integers"),
            ({"items": [2, np.nan, 3]}, "items must be an array of integers"),
            ({"items": ["a", "b", "c"]}, "items must be an array of integers"),
            ({"items": [2, 0, 2**31]}, r"items must be an array of integers in -2147483648\.\.2147483647"),
            ({"quality": [10_001, 1, 1]}, r"quality\[0\] must be an integer in 0\.\.10000, got 10001"),
            ({"quality": [1, -1, 1]}, r"quality\[1\] must be an integer in 0\.\.10000, got -1"),
            ({"quality": [1, 0, 1]}, "quality must be > 0 for stored entries when there is no score"),
            ({"quality": [1, np.inf, 1]}, "quality must be an array of integers"),
            ({"quality_scale": 0}, "quality_scale must be an integer in 1"),
            ({"ranks": [0, -1, 0]}, "ranks must be integers >= 0, got -1"),
            ({"arrivals": [0, 1]}, "arrivals must have length 3, got 2"),
            ({"arrivals": [0, 1, 4]}, r"arrivals\[2\] must be an item id in 0\.\.3, or -1 for none, got 4"),
            ({"arrivals": [0, -2, 1]}, r"arrivals\[1\] must be an item id in 0\.\.3, or -1 for none, got -2"),
            ({"weight": [1, -1, 1]}, "weight must be integers >= 0, got -1"),
            ({"weight": [1, 0.5, 1]}, "weight must be an array of integers"),
            ({"sizes": [1, 1, 0, 1]}, "sizes must be integers in 1"),
            ({"sizes": [1, 1, 1]}, "sizes must have length 4, got 3"),
            ({"items": [[2], [0, 3]]}, "items must be a one-dimensional array of integers"),
            ({"item_vectors": [["a"]]}, "item_vectors must be a matrix of numbers"),
            ({"metadata": [1]}, r"metadata must be a mapping of facts, got \[1\]"),
            ({"item_vectors": np.eye(3)}, r"item_vectors must have shape \(4, d\), got \(3, 3\)"),
            ({"item_vectors": 2 * np.eye(4)}, "item_vectors must have rows of norm 1; row 0 has norm 2"),
            ({"query_vectors": np.full((3, 2), np.nan)}, "query_vectors must have rows of norm 1; row 0"),
        ],
    )
    def test_what_is_wrong_is_named_with_its_value(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            make(**change)

    def test_zero_quality_is_legal_with_a_score(self) -> None:
        assert make(quality=[1, 0, 1], ranks=[0, 0, 1]).structure.scored

    def test_defaults_are_no_arrival_weight_one_size_one(self) -> None:
        trace = Trace(n_items=2, indptr=[0, 1, 1], items=[1], quality=[3])
        assert trace.arrivals.tolist() == [-1, -1]
        assert trace.weight.tolist() == [1, 1]
        assert trace.sizes.tolist() == [1, 1]
        assert trace.quality_scale == 10_000

    def test_nothing_in_it_can_be_changed(self) -> None:
        items = np.array([2, 0, 3], np.int32)
        trace = make(items=items)
        items[0] = 1
        assert trace.items.tolist() == [2, 0, 3]
        for name in ("indptr", "items", "quality", "arrivals", "weight", "sizes"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(trace, name)[0] = 0
        with pytest.raises(AttributeError):
            trace.n_items = 5  # type: ignore[misc]

    @pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
    def test_nor_can_its_copies_be(self, again: Any) -> None:
        trace = make(ranks=[0, 0, 1], item_vectors=np.eye(4))
        twin = again(trace)
        assert twin == trace
        assert twin.structure.classes is None
        for name in ("indptr", "items", "quality", "ranks", "arrivals", "weight", "sizes", "item_vectors"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(twin, name)[0] = 0

    def test_metadata_are_a_copy(self) -> None:
        facts = {"parts": [1]}
        trace = make(metadata=facts)
        facts["parts"].append(2)
        trace.prefix(1).metadata["parts"].append(3)
        assert trace.metadata == {"parts": [1]}

    def test_an_empty_trace_is_legal(self) -> None:
        for trace in (Trace(0, [0], [], []), Trace(3, [0], [], [])):
            assert (trace.n_steps, trace.n_queries, trace.total_weight) == (0, 0, 0)
            assert trace.structure.hard
            assert len(trace.hash) == 64


class TestViews:
    def test_counts_and_rows(self) -> None:
        trace = make()
        assert (trace.n_steps, trace.n_queries, trace.total_weight) == (3, 2, 3)
        items, quality = trace.row(1)
        assert (items.tolist(), quality.tolist()) == ([0, 3], [5000, 1])
        assert "3 steps (2 queries), 4 items, 3 entries" in repr(trace)

    def test_a_prefix_keeps_items_and_says_so(self) -> None:
        assert make().prefix(1) == make(indptr=[0, 1], items=[2], quality=[10_000], arrivals=[2], weight=[1])
        assert make(ranks=[0, 1, 0]).prefix(2).ranks.tolist() == [0, 1, 0]
        assert make().prefix(0).n_steps == 0
        assert make().prefix(2).metadata["prefix"] == 2
        with pytest.raises(InvalidInput, match=r"n_steps must be an integer in 0\.\.3, got 4"):
            make().prefix(4)

    def test_requests_are_those_of_hard_traces(self) -> None:
        assert from_requests([3, -1, 1]).requests.tolist() == [3, -1, 1]
        with pytest.raises(InvalidInput, match="hard traces only"):
            make().requests  # noqa: B018


class TestStructure:
    def test_requests_are_hard_rows_of_the_arrival(self) -> None:
        assert from_requests([0, 1, 0]).structure.requests
        for trace in (
            from_requests([0, -1, 0]),
            from_requests([0, 1], arrivals=[0, 0]),
            from_requests([0, 1], arrivals=[0, -1]),
            make(),
        ):
            assert not trace.structure.requests
        assert from_requests([0, -1, 0]).structure.hard
        assert not make().structure.hard

    def test_sizes_and_scores_are_facts(self) -> None:
        assert not make().structure.unit_sizes
        assert make(sizes=None).structure.unit_sizes
        assert not make().structure.scored
        assert make(ranks=[0, 0, 0]).structure.scored
        assert make().structure.nonzeros == 3

    @settings(max_examples=200)
    @given(seed=st.integers(0, 10**6), clustered=st.booleans())
    def test_classes_are_found_exactly_where_rows_are_whole_classes(self, seed: int, clustered: bool) -> None:
        rng = np.random.default_rng(seed)
        n_steps, n = int(rng.integers(0, 8)), int(rng.integers(1, 7))
        if clustered:
            trace = from_clusters(rng.integers(-1, 3, n_steps), rng.integers(0, 3, n))
        else:
            levels = rng.choice([0.0, 0.0, 0.5, 1.0], (n_steps, n))
            trace = from_arrays(levels if rng.random() < 0.5 else np.ceil(levels))
        rows = [trace.row(t) for t in range(n_steps)]
        sets = [frozenset(items.tolist()) for items, _ in rows if len(items)]
        whole = all(a == b or not a & b for a in sets for b in sets)
        even = all(len(set(quality.tolist())) <= 1 for _, quality in rows)
        classes = trace.structure.classes
        assert (classes is not None) == (whole and even)
        if classes is not None:
            first = list(dict.fromkeys(sets))
            for i in range(trace.n_items):
                assert classes[i] == next((c for c, s in enumerate(first) if i in s), -1)
