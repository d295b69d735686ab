"""vCache-style files: what is an item, what serves it, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from softhit import from_embeddings, from_requests
from softhit.errors import InvalidInput
from softhit.io import read_trace, write_trace
from softhit.io import vcache as module


@pytest.fixture
def write(tmp_path):
    def write(**columns):
        path = tmp_path / "v.parquet"
        table = {
            "prompt": ["a", "b", "a again", "c"],
            "emb": [[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 2.0]],
            "ID_Set": [7, 3, 7, 9],
            **columns,
        }
        pq.write_table(pa.table({k: v for k, v in table.items() if v is not None}), path)
        return path

    return write


def test_requests_with_equal_answers_are_one_item(write):
    trace = read_trace(write(), format="vcache")
    assert trace.requests.tolist() == [0, 1, 0, 2]
    assert trace.structure.requests
    assert read_trace(write(ID_Set=["x", "y", "x", "z"]), format="vcache") == trace


def test_with_similarity_each_row_is_an_item_that_serves_later_ones(write):
    trace = read_trace(write(), format="vcache", quality="similarity")
    assert trace.arrivals.tolist() == [0, 1, 2, 3]
    rows = [dict(zip(*(x.tolist() for x in trace.row(t)), strict=True)) for t in range(4)]
    assert rows == [
        {0: 10_000},
        {0: 8000, 1: 10_000},
        {0: 6000, 1: 9600, 2: 10_000},
        {1: 6000, 2: 8000, 3: 10_000},
    ]


def test_a_similar_row_of_another_set_ranks_before_the_right_one(write):
    trace = read_trace(write(), format="vcache", quality="answers_by_similarity")
    a, b = trace.indptr[2], trace.indptr[3]
    assert trace.items[a:b].tolist() == [0, 1, 2]
    assert trace.quality[a:b].tolist() == [10_000, 0, 10_000]
    assert trace.ranks[a:b].tolist() == [2, 1, 0]
    # nothing later is a candidate
    assert all(trace.row(t)[0].max() <= t for t in range(4))


def test_requests_come_back_and_their_vectors_separate_the_items(tmp_path):
    requests = [4, 1, 4, 2, 1]
    write_trace(from_requests(requests), tmp_path / "v.parquet", format="vcache")
    back = read_trace(tmp_path / "v.parquet", format="vcache")
    assert back.requests.tolist() == [0, 1, 0, 2, 1]
    hits = read_trace(tmp_path / "v.parquet", format="vcache", quality="similarity", rule="threshold(0.9)")
    assert [trace_row.tolist() for trace_row in (hits.row(t)[0] for t in range(5))] == [
        [0],
        [1],
        [0, 2],
        [3],
        [1, 4],
    ]


def test_the_vectors_of_the_trace_are_used_if_it_has_any(tmp_path):
    trace = from_embeddings(
        np.eye(2)[[1, 0]], np.eye(2), arrivals=[1, 0], rule="threshold(1)", keep_vectors=True
    )
    write_trace(trace, tmp_path / "v.parquet", format="vcache")
    assert pq.read_table(tmp_path / "v.parquet").column("embedding").to_pylist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"ID_Set": None}, {}, "no column 'id_set' (columns: prompt, emb)"),
        ({"ID_Set": [1, None, 2, 3]}, {}, "null values in column 'ID_Set'"),
        ({"emb": None}, {"quality": "similarity"}, "float list columns: none"),
        ({"emb2": [[1.0]] * 4}, {"quality": "similarity"}, "float list columns: emb, emb2"),
        ({}, {"quality": "similarity", "embedding": "embed"}, "no column 'embed' of float lists; it has emb"),
        ({"emb": [[1.0], [1.0, 2.0], [1.0], [1.0]]}, {"quality": "similarity"}, "equal length"),
        ({"emb": [[1.0], None, [1.0], [1.0]]}, {"quality": "similarity"}, "one vector of equal length"),
        (
            {"emb": [[1.0], [0.0], [1.0], [1.0]]},
            {"quality": "similarity"},
            "row 1 of column 'emb' is the zero",
        ),
        ({"emb": [[1.0], [float("nan")], [1.0], [1.0]]}, {"quality": "similarity"}, "no finite number"),
        ({}, {"limit": 0}, "is empty"),
        ({}, {"quality": "answer"}, "did you mean 'answers'"),
    ],
)
def test_wrong_files_are_refused_by_name(write, columns, options, words):
    with pytest.raises(InvalidInput) as caught:
        read_trace(write(**columns), format="vcache", **options)
    assert words in str(caught.value)
    assert "quality" in options or "v.parquet" in str(caught.value)


def test_too_many_pairs_are_refused_before_they_fill_the_memory(write, monkeypatch):
    monkeypatch.setattr(module, "_MOST_PAIRS", 5)
    with pytest.raises(InvalidInput, match="has 6 pairs of equal answers, more than 5; give limit="):
        read_trace(write(), format="vcache", quality="answers_by_similarity")
    assert read_trace(write(), format="vcache", quality="answers_by_similarity", limit=2).n_steps == 2


def test_what_is_no_parquet_is_refused_by_name(tmp_path):
    (tmp_path / "v.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InvalidInput, match=r"v\.parquet' is not a Parquet file"):
        read_trace(tmp_path / "v.parquet", format="vcache")
