"""Builders store what their input says, rounded once; the one for embeddings never makes the whole matrix."""

import tracemalloc
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings

from softhit import (
    CosineClipped,
    InvalidInput,
    Rescaled,
    Threshold,
    Trace,
    UnknownName,
    from_arrays,
    from_clusters,
    from_embeddings,
    from_requests,
    quality_rule,
)


def dense(trace: Trace) -> np.ndarray:
    grid = np.zeros((trace.n_steps, trace.n_items), int)
    for t in range(trace.n_steps):
        items, quality = trace.row(t)
        grid[t, items] = quality
    return grid


def order_of(trace: Trace, t: int) -> list[int]:
    """The items of a row as the retriever ranks them."""
    a, b = trace.indptr[t], trace.indptr[t + 1]
    keys = -trace.quality[a:b] if trace.ranks is None else trace.ranks[a:b]
    return trace.items[a:b][np.lexsort((trace.items[a:b], keys))].tolist()


class TestRequests:
    def test_each_step_is_served_by_its_item_alone(self) -> None:
        trace = from_requests([2, 0, -1, 2], quality=[1, 0.5, 1, 0.00004])
        assert dense(trace).tolist() == [[0, 0, 10_000], [5000, 0, 0], [0, 0, 0], [0, 0, 0]]
        assert trace.arrivals.tolist() == [2, 0, -1, 2]
        assert trace.requests.tolist() == [2, 0, -1, -1]

    def test_arrivals_may_be_others(self) -> None:
        trace = from_requests([0, 0], arrivals=[5, -1])
        assert trace.n_items == 6
        assert trace.arrivals.tolist() == [5, -1]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"requests": [0, -2]}, "requests must be item ids >= 0, or -1 for none, got -2"),
            ({"requests": [[0]]}, "requests must be a one-dimensional array"),
            ({"requests": [0.5]}, "requests must be a one-dimensional array of item ids"),
            ({"n_items": 1}, "n_items must be an integer >= 2, got 1"),
            ({"quality": 1.5}, r"quality\[0\] must be a number in \[0, 1\], got 1.5"),
            ({"quality": [1, np.nan]}, r"quality\[1\] must be a number in \[0, 1\], got nan"),
            ({"quality": [1]}, "quality must have length 2, got 1"),
            ({"quality": "high"}, "quality must be numbers"),
            ({"weight": [1]}, "weight must have length 2, got 1"),
            ({"arrivals": "requests"}, "arrivals must be one of request, got 'requests'"),
            ({"arrivals": None}, "arrivals must be 'request' or an array of item ids, got None"),
            ({"arrivals": [0, None]}, "arrivals must be 'request' or an array of item ids"),
            ({"requests": [0, [1]]}, "requests must be a one-dimensional array of item ids"),
            ({"quality_scale": 0.5}, "quality_scale must be an integer in 1"),
            ({"quality_scale": 3 * 10**9}, "quality_scale must be an integer in 1"),
        ],
    )
    def test_what_is_wrong_is_named(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            from_requests(**{"requests": [0, 1], **change})


class TestArrays:
    @settings(max_examples=60)
    @given(seed=st.integers(0, 10**6))
    def test_sparse_and_dense_input_build_one_trace(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n_steps, n = int(rng.integers(0, 6)), int(rng.integers(0, 6))
        quality = np.where(rng.random((n_steps, n)) < 0.5, rng.random((n_steps, n)), 0)
        extra = {"arrivals": rng.integers(-1, n, n_steps), "weight": rng.integers(0, 3, n_steps)}
        trace = from_arrays(quality, **extra)
        assert trace == from_arrays(scipy.sparse.csr_array(quality), **extra)
        assert np.array_equal(dense(trace), np.rint(quality * 10_000))

    @settings(max_examples=60)
    @given(seed=st.integers(0, 10**6))
    def test_the_retriever_ranks_by_score_then_by_id(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        quality = np.where(rng.random((4, 6)) < 0.5, rng.random((4, 6)), 0)
        score = np.where((quality > 0) | (rng.random((4, 6)) < 0.4), rng.integers(-2, 2, (4, 6)), -np.inf)
        trace = from_arrays(quality, score=score)
        for t in range(4):
            expected = sorted(np.flatnonzero(score[t] > -np.inf).tolist(), key=lambda i: (-score[t, i], i))
            assert order_of(trace, t) == expected
        kept = np.where(score > -np.inf, score, 0)
        stored = scipy.sparse.coo_array((kept[score > -np.inf], np.nonzero(score > -np.inf)), shape=(4, 6))
        assert from_arrays(quality, score=stored) == trace

    @pytest.mark.parametrize(
        ("quality", "extra", "message"),
        [
            ([[1.0, np.nan]], {}, r"quality\[0, 1\] must be a number in \[0, 1\], got nan"),
            ([[1.0, np.inf]], {}, r"quality\[0, 1\] must be a number in \[0, 1\], got inf"),
            ([[0.0, 1.01]], {}, r"quality\[0, 1\] must be a number in \[0, 1\], got 1.01"),
            ([[0.0, -0.1]], {}, r"quality\[0, 1\] must be a number in \[0, 1\], got -0.1"),
            ([[1.0, 0.5], [1.0]], {}, "quality must be a matrix of numbers"),
            ([["high"]], {}, "quality must be a matrix of numbers"),
            ([[1j]], {}, "quality must be a matrix of numbers"),
            ([[1.0]], {"score": [["high"]]}, "score must be a matrix of numbers"),
            ([1.0], {}, r"quality must be a matrix of shape \(T, N\)"),
            ([[1.0]], {"score": [[1.0, 2.0]]}, r"score must be a matrix of shape \(1, 1\)"),
            ([[1.0]], {"score": [[np.nan]]}, "score must be finite numbers"),
            (
                [[1.0, 0.5]],
                {"score": [[-np.inf, 1.0]]},
                r"score must be given where quality is > 0.*\(0, 0\)",
            ),
            ([[1.0]], {"arrivals": [1]}, r"arrivals\[0\] must be an item id in 0\.\.0"),
            ([[1.0]], {"sizes": [0]}, "sizes must be integers in 1"),
        ],
    )
    def test_what_is_wrong_is_named(self, quality: Any, extra: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            from_arrays(quality, **extra)

    def test_duplicate_sparse_entries_are_refused(self) -> None:
        twice = scipy.sparse.coo_array(([0.5, 0.5], ([0, 0], [0, 0])), shape=(1, 1))
        with pytest.raises(InvalidInput, match="duplicate entries"):
            from_arrays(twice)


class TestClusters:
    def test_items_serve_the_queries_of_their_cluster(self) -> None:
        trace = from_clusters([1, -1, 0, 7], [1, 0, 1], quality=0.25)
        assert dense(trace).tolist() == [[2500, 0, 2500], [0, 0, 0], [0, 2500, 0], [0, 0, 0]]
        assert trace.structure.classes.tolist() == [0, 1, 0]
        assert from_clusters([0], [0], quality=0).structure.nonzeros == 0

    def test_what_is_wrong_is_named(self) -> None:
        with pytest.raises(
            InvalidInput, match="query_clusters must be a one-dimensional array of integers >= -1"
        ):
            from_clusters([-2], [0])
        with pytest.raises(
            InvalidInput, match="item_clusters must be a one-dimensional array of integers >= 0"
        ):
            from_clusters([0], [-1])
        with pytest.raises(InvalidInput, match="quality must be a finite number >= 0 and <= 1, got 2"):
            from_clusters([0], [0], quality=2)


def halves(rng: np.random.Generator, rows: int, width: int = 16) -> np.ndarray:
    """Unit vectors whose products are exact in any order of summation: entries 0 or +-1/2, four of them."""
    vectors = np.zeros((rows, width), np.float32)
    for row in vectors:
        row[rng.choice(width, 4, replace=False)] = rng.choice([-0.5, 0.5], 4)
    return vectors


class TestEmbeddings:
    @settings(max_examples=40)
    @given(
        seed=st.integers(0, 10**6),
        rule=st.sampled_from(["cosine_clipped", "cosine_clipped(0.5)", "threshold(0.25)", "rescaled(0,0.5)"]),
        arrived=st.booleans(),
        top_m=st.sampled_from([None, 1, 3, 100]),
        block=st.sampled_from([1, 300, 1 << 20]),
    )
    def test_blocks_give_what_the_whole_matrix_gives_and_ties_go_to_the_smaller_id(
        self, seed: int, rule: str, arrived: bool, top_m: int | None, block: int
    ) -> None:
        rng = np.random.default_rng(seed)
        queries, items = halves(rng, 12, 6), halves(rng, 9, 6)
        arrivals, weight = rng.integers(-1, 9, 12), rng.integers(0, 2, 12)
        trace = from_embeddings(
            queries,
            items,
            arrivals=arrivals,
            weight=weight,
            rule=rule,
            top_m=top_m,
            candidates="arrived" if arrived else "all",
            block_bytes=block,
        )
        cosine = queries.astype(float) @ items.T.astype(float)
        expected = np.zeros((12, 9))
        for t in range(12):
            if weight[t] == 0:
                continue
            able = [i for i in range(9) if not arrived or i in arrivals[: t + 1]]
            able.sort(key=lambda i: (-cosine[t, i], i))
            for i in able[:top_m]:
                expected[t, i] = quality_rule(rule)(cosine[t, i]) * 10_000
        assert np.array_equal(dense(trace), np.rint(expected))

    @settings(max_examples=40)
    @given(seed=st.integers(0, 10**6), top_m=st.sampled_from([None, 1, 2]))
    def test_with_relevance_similarity_is_what_the_retriever_ranks_by(
        self, seed: int, top_m: int | None
    ) -> None:
        rng = np.random.default_rng(seed)
        queries, items = halves(rng, 7, 6), halves(rng, 8, 6)
        truth = np.where(rng.random((7, 8)) < 0.3, rng.integers(1, 5, (7, 8)) / 4, 0)
        trace = from_embeddings(queries, items, relevance=scipy.sparse.csr_array(truth), top_m=top_m)
        cosine = queries.astype(float) @ items.T.astype(float)
        for t in range(7):
            ranked = sorted(range(8), key=lambda i: (-cosine[t, i], i))
            stored = set(ranked[:top_m]) | set(np.flatnonzero(truth[t]).tolist())
            assert order_of(trace, t) == [i for i in ranked if i in stored]
        assert np.array_equal(dense(trace), truth * 10_000)

    def test_general_vectors_agree_with_the_dense_computation_to_the_grid(self) -> None:
        rng = np.random.default_rng(0)
        queries, items = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in rng.normal(size=(2, 60, 24)))
        trace = from_embeddings(queries, items, block_bytes=1000)
        exact = np.clip(queries @ items.T, 0, 1) * 10_000
        assert np.abs(dense(trace) - exact).max() < 0.51

    @pytest.mark.parametrize("width", [3, 50, 384])
    def test_equal_vectors_tie_and_blocks_do_not_matter_whatever_the_numbers(self, width: int) -> None:
        # the last bits of a matrix product depend on where in the matrix it stands
        rng = np.random.default_rng(width)
        items = rng.normal(size=(33, width))
        items /= np.linalg.norm(items, axis=1, keepdims=True)
        items = np.concatenate([items, items[::-1]]).astype(np.float32)
        queries = items[rng.integers(0, 66, 13)] + rng.normal(size=(13, width), scale=0.1)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        queries[5] = items[7]
        nothing = scipy.sparse.csr_array((13, 66))
        for extra in ({"relevance": nothing}, {"relevance": nothing, "top_m": 7}, {"top_m": 7}, {}):
            blocks = [from_embeddings(queries, items, block_bytes=b, **extra) for b in (1, 1600, 1 << 20)]
            assert blocks[0] == blocks[1] == blocks[2]
        ranks = from_embeddings(queries, items, relevance=nothing).ranks
        assert ranks is not None
        table = ranks.reshape(13, 66)
        assert np.array_equal(table, table[:, ::-1])
        assert from_embeddings(queries, items, rule="threshold(1)").row(5)[0].tolist() == [7, 58]

    def test_rows_without_a_query_are_not_looked_at(self) -> None:
        vectors = np.array([[1, 0], [np.nan, 0]])
        trace = from_embeddings(vectors, np.eye(2), weight=[1, 0])
        assert dense(trace).tolist() == [[10_000, 0], [0, 0]]

    def test_vectors_are_kept_on_request(self) -> None:
        trace = from_embeddings(np.eye(2), np.eye(2), keep_vectors=True)
        assert trace.query_vectors is not None
        assert trace.query_vectors.dtype == np.float32
        assert from_embeddings(np.eye(2), np.eye(2)).item_vectors is None

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"item_vectors": np.eye(3)}, "must be matrices of equal width"),
            ({"item_vectors": [["a"]]}, "item_vectors must be a matrix of numbers"),
            ({"item_vectors": np.ones((2, 2))}, "item_vectors must have rows of norm 1; row 0 has norm"),
            ({"query_vectors": np.full((2, 2), np.nan)}, "query_vectors must have rows of norm 1; row 0"),
            ({"rule": "cosine"}, "unknown quality rule 'cosine'"),
            ({"top_m": 0}, "top_m must be an integer >= 1, got 0"),
            ({"candidates": "past"}, "candidates must be one of all, arrived, got 'past'"),
            ({"candidates": "arrived"}, "candidates='arrived' needs arrivals"),
            ({"candidates": "arrived", "arrivals": [0, 2]}, "arrivals must be 2 item ids below 2"),
            ({"candidates": "arrived", "arrivals": [0]}, "arrivals must be 2 item ids below 2"),
            ({"weight": [1]}, "weight must have length 2"),
            ({"relevance": np.eye(3)}, r"relevance must be a matrix of shape \(2, 2\)"),
        ],
    )
    def test_what_is_wrong_is_named(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            from_embeddings(**{"query_vectors": np.eye(2), "item_vectors": np.eye(2), **change})

    @pytest.mark.parametrize(
        ("n_steps", "n_items", "width", "block"),
        [
            (4000, 1500, 16, 1 << 20),
            pytest.param(100_000, 5000, 384, 1 << 26, marks=pytest.mark.slow),
        ],
    )
    def test_the_whole_matrix_never_exists(self, n_steps: int, n_items: int, width: int, block: int) -> None:
        rng = np.random.default_rng(1)
        queries, items = rng.normal(size=(n_steps, width)), rng.normal(size=(n_items, width))
        queries, items = (
            (v / np.linalg.norm(v, axis=1)[:, None]).astype(np.float32) for v in (queries, items)
        )
        tracemalloc.start()
        trace = from_embeddings(queries, items, top_m=10, block_bytes=block)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert trace.structure.nonzeros == 10 * n_steps
        # a few arrays of a block's size, and the result with its sorting at some 100 bytes an entry
        assert peak < 8 * block + 150 * trace.structure.nonzeros
        assert peak < n_steps * n_items * 4


class TestRules:
    def test_rules_are_read_as_they_are_written(self) -> None:
        for rule in (CosineClipped(), CosineClipped(0.5), Threshold(-0.25), Rescaled(0.1, 0.9)):
            assert quality_rule(rule.name) == rule
        assert quality_rule(" cosine_clipped ") == CosineClipped(0.0)

    @pytest.mark.parametrize(
        ("text", "error", "message"),
        [
            ("treshold(0.5)", UnknownName, "did you mean 'threshold'"),
            ("threshold", InvalidInput, "threshold"),
            ("threshold(x)", InvalidInput, "threshold"),
            ("threshold(2)", InvalidInput, "threshold must be a finite number >= -1 and <= 1, got 2"),
            ("threshold(nan)", InvalidInput, "threshold must be a finite number"),
            ("cosine_clipped(-0.1)", InvalidInput, "floor must be"),
            ("rescaled(0.5,0.5)", InvalidInput, "high must be above low = 0.5, got 0.5"),
            ("rescaled(0.5)", InvalidInput, "rescaled"),
        ],
    )
    def test_bad_rules_are_refused(self, text: str, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            quality_rule(text)
