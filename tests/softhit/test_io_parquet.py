"""Trace and schedule files come back as they were; damaged, foreign, unwritable ones are refused."""

import errno
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from adversaries.strategies import instances, traces
from softhit import Schedule, Trace, from_arrays, from_embeddings, from_requests, simulate
from softhit.errors import InvalidInput
from softhit.io import parquet as module
from softhit.io import read_schedule, read_trace, schedule_metadata, write_schedule, write_trace
from softhit.io.jsonl import read_trace_jsonl, write_trace_jsonl

SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def folder(tmp_path):
    """A folder; the test fails if anything but what it lists in ``expected`` is left there."""
    yield tmp_path
    assert not [p.name for p in tmp_path.rglob("*") if p.name.endswith(".part")]


def same(a: Trace, b: Trace) -> bool:
    return a.hash == b.hash and json.dumps(a.metadata) == json.dumps(b.metadata)


def refused(call, *words: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("extension", ["parquet", "jsonl"])
@SHARED_FOLDER
@given(traces(max_size=3))
def test_every_trace_comes_back_with_its_hash(folder, extension, trace):
    path = folder / f"t.{extension}"
    write_trace(trace, path)
    assert same(read_trace(path), trace)


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_row_groups_of_any_size_hold_the_same_trace(folder, monkeypatch, rows):
    rng = np.random.default_rng(3)
    trace = from_arrays((rng.random((17, 6)) < 0.5) * 0.5, arrivals=rng.integers(-1, 6, 17), sizes=[3] * 6)
    monkeypatch.setattr(module, "_ROWS", rows)
    monkeypatch.setattr(module, "_ENTRIES", 5)
    write_trace(trace, folder / "t.parquet")
    assert pq.ParquetFile(folder / "t.parquet").num_row_groups >= 17 // max(rows, 3)
    assert same(read_trace(folder / "t.parquet"), trace)


@pytest.mark.parametrize(("n_steps", "n_items"), [(7, 3), (3, 11), (1, 1), (5, 5), (0, 0)])
def test_vectors_travel_with_the_trace(folder, n_steps, n_items):
    rng = np.random.default_rng(n_steps)
    unit = lambda n: (lambda v: v / np.linalg.norm(v, axis=1, keepdims=True))(rng.normal(size=(n, 4)))  # noqa: E731
    trace = from_embeddings(unit(n_steps), unit(n_items), rule="threshold(0)", keep_vectors=True)
    write_trace(trace, folder / "t.parquet")
    back = read_trace(folder / "t.parquet")
    assert back.hash == trace.hash
    assert back.query_vectors.shape[0] == n_steps
    assert np.array_equal(back.query_vectors.ravel(), trace.query_vectors.ravel())
    assert np.array_equal(back.item_vectors.ravel(), trace.item_vectors.ravel())


def test_item_vectors_without_a_step_are_refused(folder):
    trace = from_embeddings(np.zeros((0, 2)), np.eye(2), keep_vectors=True)
    refused(lambda: write_trace(trace, folder / "t.parquet"), "without steps")
    assert list(folder.iterdir()) == []


def test_a_reader_that_knows_only_parquet_finds_plain_columns(folder):
    trace = from_requests([2, 0, 2], quality=0.5, weight=[1, 0, 4])
    write_trace(trace, folder / "t.parquet")
    table = pq.read_table(folder / "t.parquet")
    assert table.to_pylist() == [
        {"items": [2], "quality": [5000], "arrivals": 2, "weight": 1},
        {"items": [0], "quality": [5000], "arrivals": 0, "weight": 0},
        {"items": [2], "quality": [5000], "arrivals": 2, "weight": 4},
    ]
    facts = table.schema.metadata
    assert facts[b"softhit.format_version"] == b"1"
    assert facts[b"softhit.n_items"] == b"3"
    assert facts[b"softhit.hash"].decode() == trace.hash


def test_a_file_made_by_another_writer_with_wider_integers_is_read(folder):
    trace = from_requests([1, 0, 1])
    write_trace(trace, folder / "t.parquet")
    table = pq.read_table(folder / "t.parquet")
    wide = pa.schema(
        [
            ("items", pa.list_(pa.int64())),
            ("quality", pa.list_(pa.int64())),
            ("arrivals", pa.int64()),
            ("weight", pa.int64()),
        ]
    )
    pq.write_table(table.cast(wide).replace_schema_metadata(table.schema.metadata), folder / "w.parquet")
    assert read_trace(folder / "w.parquet") == trace


@SHARED_FOLDER
@given(instances())
def test_every_schedule_comes_back(folder, instance):
    schedule = simulate("fifo", instance.trace, instance.capacity, variant=instance.variant)
    write_schedule(schedule, folder / "s.parquet", {"policy": "fifo"})
    assert read_schedule(folder / "s.parquet") == schedule
    assert schedule_metadata(folder / "s.parquet") == {"policy": "fifo"}


def test_a_schedule_file_lists_leaves_before_enters_in_each_step(folder):
    schedule = Schedule.from_events(4, [1, 3, 3], [5, 7, 8], [0, 1, 3], [5, 7, 9])
    write_schedule(schedule, folder / "s.parquet")
    rows = [(r["step"], r["enters"], r["item"]) for r in pq.read_table(folder / "s.parquet").to_pylist()]
    assert rows == [(0, True, 5), (1, False, 5), (1, True, 7), (3, False, 7), (3, False, 8), (3, True, 9)]


# ---- what is refused ------------------------------------------------------------------------------------


@pytest.fixture
def good(folder):
    trace = from_arrays(np.eye(5) * 0.7 + 0.1, arrivals=[0, 1, 2, 3, 4], sizes=[1, 2, 3, 4, 5])
    write_trace(trace, folder / "good.parquet")
    return folder / "good.parquet"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused_by_name(good, share):
    data = good.read_bytes()
    good.write_bytes(data[: int(len(data) * share)])
    refused(lambda: read_trace(good), "good.parquet")


def test_a_flipped_byte_is_noticed_or_harmless(good):
    data = good.read_bytes()
    trace = read_trace(good)
    noticed = harmless = 0
    places = range(0, len(data), max(1, len(data) // 150))
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        good.write_bytes(bytes(damaged))
        try:
            found = read_trace(good)
        except InvalidInput as error:
            noticed += "good.parquet" in str(error)
        else:
            harmless += found.hash == trace.hash
    assert noticed > 20
    assert noticed + harmless == len(places)


@pytest.mark.parametrize("text", [b"", b"PAR1", b"PAR1PAR1", b"hello world", b"PK\x03\x04" * 10])
def test_what_is_no_parquet_is_refused_by_name(folder, text):
    (folder / "x.parquet").write_bytes(text)
    refused(lambda: read_trace(folder / "x.parquet"), "x.parquet")
    refused(lambda: read_schedule(folder / "x.parquet"), "x.parquet")


def rewrite(path: Path, change=None, **facts: str | None) -> None:
    table = pq.read_table(path)
    metadata = {k.decode(): v.decode() for k, v in table.schema.metadata.items()}
    for key, value in facts.items():
        metadata.pop(f"softhit.{key}")
        if value is not None:
            metadata[f"softhit.{key}"] = value
    table = change(table) if change else table
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"format_version": "2"}, "format version 2; this softhit reads version 1"),
        ({"format_version": None}, "format version None"),
        ({"kind": "certificate"}, "not a softhit trace: it holds a certificate"),
        ({"kind": None}, "no softhit metadata"),
        ({"hash": "0" * 64}, "does not have the content that its hash states"),
        ({"hash": None}, "does not have the content that its hash states"),
        ({"n_items": "6"}, "5 sizes for 6 items"),
        ({"n_items": "4"}, "5 sizes for 4 items"),
        ({"n_items": "many"}, "states no valid n_items (got 'many')"),
        ({"n_steps": "6"}, "has 5 rows but states 6 steps"),
        ({"quality_scale": "100"}, "is not a valid trace: quality"),
        ({"quality_scale": None}, "states no valid quality_scale"),
        ({"sizes": "?"}, "damaged sizes"),
        ({"sizes": "AAAA"}, "damaged sizes"),
        ({"metadata": "{"}, "metadata that is not JSON"),
        ({"metadata": "[]"}, "not a JSON object"),
    ],
)
def test_wrong_facts_are_refused(good, facts, words):
    rewrite(good, **facts)
    refused(lambda: read_trace(good), "good.parquet", words)


def replaced(column: str, values) -> object:
    return lambda t: t.set_column(t.column_names.index(column), column, values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns(["weight"]), "has no column 'weight'"),
        (replaced("arrivals", pa.array([0, 1, None, 3, 4])), "null values in column 'arrivals'"),
        (replaced("items", pa.array([[0], [1], None, [3], [4]])), "null values in column 'items'"),
        (replaced("items", pa.array([[0], [None], [2], [3], [4]], pa.list_(pa.int32()))), "null values"),
        (replaced("items", pa.array([[0]] * 5)), "rows of different lengths"),
        (replaced("quality", pa.array([["a"]] * 5)), "column 'quality' must be list<"),
        (replaced("weight", pa.array([1.5] * 5)), "column 'weight' must be int32"),
        (replaced("weight", pa.array([float("nan")] * 5)), "column 'weight' must be int32"),
        (replaced("weight", pa.array([2**40] * 5)), "column 'weight' must be int32"),
        (replaced("weight", pa.array([-1] * 5)), "weight must be integers >= 0"),
        (replaced("arrivals", pa.array([0, 1, 2, 3, 5])), "arrivals[4] must be an item id in 0..4"),
        (lambda t: t.slice(0, 4), "has 4 rows but states 5 steps"),
        (replaced("weight", pa.array([2] * 5)), "does not have the content that its hash states"),
    ],
)
def test_wrong_columns_are_refused(good, change, words):
    rewrite(good, change)
    refused(lambda: read_trace(good), "good.parquet", words)


def test_a_schedule_is_no_trace_and_a_trace_no_schedule(folder, good):
    write_schedule(Schedule.from_events(2, [], [], [0], [0]), folder / "s.parquet")
    refused(lambda: read_trace(folder / "s.parquet"), "not a softhit trace: it holds a schedule")
    refused(lambda: read_schedule(good), "not a softhit schedule: it holds a trace")


@pytest.mark.parametrize(
    ("change", "facts", "words"),
    [
        (lambda t: t.take([1, 0]), {}, "must be sorted by step"),
        (None, {"n_steps": "1"}, "is not a valid schedule"),
        (None, {"n_steps": "-1"}, "is not a valid schedule"),
        (None, {"format_version": "7"}, "format version 7"),
        (replaced("item", pa.array([0, None])), {}, "null values"),
        (replaced("enters", pa.array(["yes", "perhaps"])), {}, "column 'enters' must be bool"),
    ],
)
def test_wrong_schedules_are_refused(folder, change, facts, words):
    path = folder / "s.parquet"
    write_schedule(Schedule.from_events(3, [2], [0], [0], [0]), path)
    rewrite(path, change, **facts)
    refused(lambda: read_schedule(path), "s.parquet", words)


@pytest.mark.parametrize("extension", ["parquet", "jsonl", "csv", "ids", "oracleGeneral"])
def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left(folder, extension):
    trace = from_requests([0, 1, 0])
    (folder / "file").write_text("mine")
    (folder / f"d.{extension}").mkdir()
    before = sorted(p.name for p in folder.rglob("*"))
    for place, words in (
        (folder / "file" / f"t.{extension}", "is not a folder"),
        (folder / "absent" / f"t.{extension}", "does not exist"),
        (folder / f"d.{extension}", "it is a folder"),
    ):
        refused(lambda place=place: write_trace(trace, place), "cannot write", place.name, words)
    assert sorted(p.name for p in folder.rglob("*")) == before
    assert (folder / "file").read_text() == "mine"


def test_a_full_disk_leaves_the_old_file_as_it_was(good, monkeypatch):
    before = good.read_bytes()

    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    refused(lambda: write_trace(from_requests([0, 1]), good), "good.parquet", "No space left on device")
    assert good.read_bytes() == before
    assert [p.name for p in good.parent.iterdir()] == ["good.parquet"]


def test_a_disk_that_cannot_be_written_is_the_error_that_is_told(good, monkeypatch):
    # on such a disk removing what was never made fails as well
    def refuse(*_args, **_kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("softhit.io.files.os.open", refuse)
    monkeypatch.setattr("softhit.io.files.Path.unlink", refuse)
    refused(lambda: write_trace(from_requests([0, 1]), good), "cannot write", "good.parquet", "Read-only")


def test_an_interrupt_leaves_the_old_file_as_it_was(good, monkeypatch):
    before = good.read_bytes()

    def stop(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_table", stop)
    with pytest.raises(KeyboardInterrupt):
        write_trace(from_requests([0, 1]), good)
    assert good.read_bytes() == before
    assert [p.name for p in good.parent.iterdir()] == ["good.parquet"]


@pytest.mark.parametrize("extension", ["parquet", "jsonl"])
@pytest.mark.parametrize("value", [{1, 2}, float("nan"), np.int64(3)])
def test_metadata_that_is_not_json_is_refused_before_anything_is_written(folder, extension, value):
    trace = from_requests([0], metadata={"x": value})
    refused(lambda: write_trace(trace, folder / f"t.{extension}"), "metadata must be JSON-able")
    assert list(folder.iterdir()) == []


# ---- JSON lines -----------------------------------------------------------------------------------------


def lines_of(folder: Path) -> list[dict]:
    write_trace_jsonl(from_requests([1, 0], metadata={"n": 1}), folder / "t.jsonl")
    return [json.loads(line) for line in (folder / "t.jsonl").read_text().splitlines()]


def test_json_lines_are_one_header_and_one_line_per_step(folder):
    header, *rows = lines_of(folder)
    assert header["softhit"] == "trace"
    assert (header["n_items"], header["n_steps"], header["quality_scale"]) == (2, 2, 10_000)
    assert rows == [
        {"items": [1], "quality": [10_000], "arrival": 1, "weight": 1},
        {"items": [0], "quality": [10_000], "arrival": 0, "weight": 1},
    ]


def test_json_lines_written_by_hand_need_no_hash_and_no_defaults(folder):
    (folder / "t.jsonl").write_text(
        '{"softhit":"trace","format_version":1,"n_items":2,"n_steps":2,"quality_scale":4}\n'
        '{"items":[0,1],"quality":[4,1]}\n{"items":[],"quality":[],"arrival":1,"weight":0}\n'
    )
    trace = read_trace_jsonl(folder / "t.jsonl")
    assert trace.arrivals.tolist() == [-1, 1]
    assert trace.weight.tolist() == [1, 0]
    assert trace.row(0)[1].tolist() == [4, 1]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda ls: [], "empty"),
        (lambda ls: ["no json", *ls[1:]], "not a softhit trace"),
        (lambda ls: [ls[1], ls[1]], "its first line is not the header"),
        (
            lambda ls: [ls[0].replace('"format_version": 1', '"format_version": 3'), *ls[1:]],
            "format version 3",
        ),
        (lambda ls: ls[:-1], "has 1 steps but states 2: is it cut off?"),
        (lambda ls: [*ls[:-1], ls[-1][:20]], "damaged at line 3"),
        (lambda ls: [*ls[:-1], '{"quality": [1]}'], "line 3: a step must have items and quality"),
        (lambda ls: [*ls[:-1], "[1]"], "line 3"),
        (lambda ls: [*ls[:-1], '{"items": [0], "quality": []}'], "line 3: items and quality differ"),
        (lambda ls: [*ls[:-1], '{"items": [0], "quality": [NaN]}'], "not a valid trace: quality"),
        (lambda ls: [*ls[:-1], '{"items": ["a"], "quality": [1]}'], "not a valid trace: items"),
        (lambda ls: [*ls[:-1], ls[-1].replace("10000", "9999")], "hash"),
        (
            lambda ls: [ls[0].replace('"n_items": 2', '"n_items": -2'), *ls[1:]],
            "n_items must be an integer >= 0",
        ),
        (lambda ls: [ls[0].replace('"n_items": 2', '"n_items": 1'), *ls[1:]], "not a valid trace: items[0]"),
        # neither a terabyte of default sizes, nor what Python's own limits raise
        (lambda ls: [ls[0].replace('"n_items": 2', f'"n_items": {10**12}'), *ls[1:]], "n_items must be"),
        (lambda ls: ["[" * 100_000, *ls[1:]], "not a softhit trace"),
        (lambda ls: [*ls[:-1], '{"items": [' + "9" * 5000], "damaged at line 3"),
    ],
)
def test_wrong_json_lines_are_refused(folder, edit, words):
    lines_of(folder)
    path = folder / "t.jsonl"
    path.write_text("".join(line + "\n" for line in edit(path.read_text().splitlines())))
    refused(lambda: read_trace(path), "t.jsonl", words)
