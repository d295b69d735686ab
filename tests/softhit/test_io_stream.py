"""Requests chunk by chunk are the requests of the whole file, in memory that does not grow with the steps."""

import random
from pathlib import Path

import numpy as np
import pytest

import softhit.io.stream as stream
from softhit import Trace, from_arrays, from_requests
from softhit.errors import InvalidInput
from softhit.io import RequestWriter, convert_requests, read_trace, request_chunks, write_trace

EXTENSION = {"csv": "csv", "ids": "ids", "jsonl": "jsonl", "oracleGeneral": "bin", "parquet": "parquet"}


@pytest.fixture(params=[7, 1 << 18], autouse=True)
def _chunks_of_any_length(request, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK", request.param)


def some_requests(n: int = 500) -> list[int]:
    rng = random.Random(n)
    return [rng.randrange(40) for _ in range(n)]


def file(folder: Path, name: str, format: str) -> Path:
    return folder / f"{name}.{EXTENSION[format]}"


@pytest.mark.parametrize("target", stream.WRITABLE)
@pytest.mark.parametrize("source", [f for f in stream.READABLE if f != "parquet"])
def test_a_converted_file_is_what_reading_and_writing_the_trace_gives(tmp_path, source, target):
    write_trace(from_requests(some_requests()), file(tmp_path, "a", source))
    done = convert_requests(file(tmp_path, "a", source), file(tmp_path, "b", target))
    whole = read_trace(file(tmp_path, "a", source))
    write_trace(whole, file(tmp_path, "c", target))
    assert (done.n_steps, done.n_items, done.hash) == (500, 40, whole.hash)
    if target == "parquet":
        # row groups may differ; the reader checks the hash
        assert read_trace(file(tmp_path, "b", target)) == whole
        assert read_trace(file(tmp_path, "b", target)).metadata == whole.metadata
    else:
        assert file(tmp_path, "b", target).read_bytes() == file(tmp_path, "c", target).read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("format", ["csv", "jsonl", "oracleGeneral", "parquet"])
def test_sizes_and_items_that_nobody_asks_for_are_written_too(tmp_path, format):
    sizes = [3, 1, 2, 9]
    with RequestWriter(file(tmp_path, "a", format), n_items=4, sizes=sizes, metadata={"x": 1}) as out:
        for chunk in ([2, 0], [], np.array([0, 2], np.uint8)):
            out.write(chunk)
    base = from_requests([2, 0, 0, 2], n_items=4)
    whole = Trace(4, base.indptr, base.items, base.quality, base.arrivals, sizes=sizes, metadata={"x": 1})
    assert out.written == stream.Streamed(4, 4, whole.hash)
    write_trace(whole, file(tmp_path, "b", format))
    if format == "parquet":
        assert read_trace(file(tmp_path, "a", format)) == whole
    else:
        assert file(tmp_path, "a", format).read_bytes() == file(tmp_path, "b", format).read_bytes()


@pytest.mark.parametrize("format", stream.READABLE)
def test_chunks_have_the_length_asked_for_and_a_limit_ends_them(tmp_path, format):
    write_trace(from_requests(some_requests()), file(tmp_path, "a", format))
    whole = read_trace(file(tmp_path, "a", format)).requests.tolist()
    for size in (1, 30, 500, 501):
        chunks = list(request_chunks(file(tmp_path, "a", format), chunk_steps=size))
        assert [len(c) for c in chunks[:-1]] == [size] * (len(chunks) - 1)
        assert 1 <= len(chunks[-1]) <= size
        assert np.concatenate(chunks).tolist() == whole
    short = list(request_chunks(file(tmp_path, "a", format), chunk_steps=30, limit=100))
    assert np.concatenate(short).tolist() == whole[:100]
    assert list(request_chunks(file(tmp_path, "a", format), limit=0)) == []


@pytest.mark.parametrize(
    "trace",
    [
        from_arrays([[1.0, 0.0], [0.5, 1.0]], arrivals=[0, 1]),
        from_requests([0, 1], weight=[1, 2]),
        from_requests([0, 1], quality=[1.0, 0.5]),
        from_requests([0, 1], arrivals=[0, 0]),
        from_requests([0, 1], arrivals=[0, -1]),
    ],
)
def test_a_trace_file_of_more_than_requests_is_refused_at_the_step(tmp_path, trace):
    write_trace(trace, tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=r"'.*a\.parquet' is more than plain requests: step 1 "):
        list(request_chunks(tmp_path / "a.parquet"))


def test_a_scored_trace_file_is_refused(tmp_path):
    write_trace(from_arrays([[1.0]], score=[[0.5]], arrivals=[0]), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="ranked by a score"):
        list(request_chunks(tmp_path / "a.parquet"))


def test_on_an_error_the_old_file_stays_and_nothing_else_is_left(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), RequestWriter(target) as out:
        out.write([1 // (len(out._path.name) - 5)])
    for wrong in ([-1], [2**31 - 1], [0.5], [[1]], "x"):
        with pytest.raises(InvalidInput, match="item ids"), RequestWriter(target) as out:
            out.write(wrong)
    for options, what in (
        ({"n_items": 1}, "n_items must be above every item"),
        ({"sizes": [1]}, "sizes must be"),
        ({"sizes": [0, 1]}, "sizes must be"),
        ({"format": "ids", "sizes": [2, 1]}, "every size must be 1"),
        ({"format": "oracleGeneral", "sizes": [2**33, 1]}, "sizes below"),
        ({"format": "jsonl", "metadata": {"x": float("nan")}}, "JSON"),
    ):
        with pytest.raises(InvalidInput, match=what), RequestWriter(target, **options) as out:
            out.write([1])
    with pytest.raises(InvalidInput, match="at least one request"), RequestWriter(target):
        pass
    (tmp_path / "b.csv").write_text("1,0,2a,1,5\n1,0,2a,1,x\n")
    with pytest.raises(InvalidInput, match=r"b\.csv"):
        convert_requests(tmp_path / "b.csv", target)
    with pytest.raises(InvalidInput, match="format must be one of csv, ids, jsonl, oracleGeneral, parquet"):
        RequestWriter(tmp_path / "c.sht")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "b.csv"]
    assert target.read_text() == "old"
