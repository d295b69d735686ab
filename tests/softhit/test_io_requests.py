"""Request logs of other tools: oracleGeneral, csv and id lists, in and out, real and broken ones."""

import random
import string

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adversaries import make_trace
from softhit import from_arrays, from_requests, simulate
from softhit.cost import miss_units_by_step
from softhit.errors import InvalidInput, UnknownName
from softhit.io import FORMATS, data_path, read_trace, write_trace
from softhit.io.formats import guess_format
from softhit.io.oracle_general import RECORD
from softhit.io.requests import dense_ids, next_access
from softhit.trace import Trace

SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
PLAIN = ["csv", "ids", "oracleGeneral"]


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    assert not [p.name for p in tmp_path.rglob("*") if p.name.endswith(".part")]


def refused(call, *words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert "\n" not in str(caught.value)


def by_first_appearance(requests: list[int]) -> list[int]:
    names: dict[int, int] = {}
    return [names.setdefault(r, len(names)) for r in requests]


@pytest.mark.parametrize("format", PLAIN)
@SHARED_FOLDER
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_requests_come_back_numbered_by_first_appearance(folder, format, requests):
    path = folder / f"t.{format}"
    write_trace(from_requests(requests), path)
    back = read_trace(path)
    assert back.requests.tolist() == by_first_appearance(requests)
    assert back.structure.requests
    assert back.n_items == len(set(requests))
    assert back.metadata["format"] == format


@pytest.mark.parametrize("format", PLAIN)
def test_a_second_round_trip_changes_nothing(folder, format):
    path = folder / f"t.{format}"
    write_trace(from_requests([5, 2, 5, 9]), path)
    once = read_trace(path)
    write_trace(once, path)
    first = path.read_bytes()
    assert read_trace(path) == once
    write_trace(read_trace(path), path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("format", ["csv", "oracleGeneral"])
def test_sizes_are_kept_on_request_and_unit_otherwise(folder, format):
    path = folder / f"t.{format}"
    base = from_requests([0, 1, 0, 2])
    sized = Trace(3, base.indptr, base.items, base.quality, base.arrivals, sizes=[7, 1, 512])
    write_trace(sized, path)
    assert read_trace(path, use_sizes=True) == sized
    assert read_trace(path) == base


def test_an_item_has_the_size_of_its_first_request_and_changes_are_counted(folder):
    (folder / "t.csv").write_text("1,0,2a,8,70\n1,0,2a,9,60\n1,1,2a,5,70\n1,1,2a,5,70\n1,2,2a,9,60\n")
    trace = read_trace(folder / "t.csv", use_sizes=True)
    assert trace.sizes.tolist() == [8, 9]
    assert trace.metadata["size_changes"] == 2


def test_next_access_is_the_next_request_of_the_same_item_by_definition():
    rng = random.Random(5)
    ids = [rng.randrange(5) for _ in range(200)]
    for t, found in enumerate(next_access(np.array(ids, np.int32)).tolist()):
        later = [u for u in range(t + 1, 200) if ids[u] == ids[t]]
        assert found == (later[0] + 1 if later else -1)


def test_words_are_ids_too_whatever_they_contain(folder):
    words = ["zeta", "a,b", '"quoted"', "naïve", "7", "07", "null", "NaN", "a b"]
    lines = [*words, *reversed(words)]
    (folder / "t.txt").write_text("\n".join(lines) + "\r\n  zeta \n", encoding="utf-8")
    trace = read_trace(folder / "t.txt")
    assert trace.requests.tolist() == [*range(9), *range(8, -1, -1), 0]


@given(st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=2), max_size=50))
def test_dense_ids_count_up_in_order_of_first_appearance(words):
    ids, n = dense_ids(words)
    assert n == len(set(words))
    assert [words.index(w) for w in words] == [ids.tolist().index(i) for i in ids.tolist()]
    assert list(dict.fromkeys(ids.tolist())) == list(range(n))


@pytest.mark.parametrize("format", PLAIN)
def test_a_limit_reads_the_first_requests_only(folder, format):
    path = folder / f"t.{format}"
    trace = make_trace("piecewise", capacity=5, steps=1000)
    write_trace(trace, path)
    assert read_trace(path, limit=7).requests.tolist() == by_first_appearance(trace.requests[:7].tolist())
    for limit in (-1, 2.5, "3", True, 10**30):  # -1 would have dropped the last one, or all, in silence
        refused(lambda: read_trace(path, limit=limit), "limit must be an integer in 0..")  # noqa: B023


# ---- through the other tool ------------------------------------------------------------------------------


def libcachesim_reader(path, format):
    other = pytest.importorskip("libcachesim")
    if format == "oracleGeneral":
        return other.TraceReader(str(path), other.TraceType.ORACLE_GENERAL_TRACE)
    fields = other.ReaderInitParam(has_header=True, delimiter=",", obj_id_is_num=True)
    fields.time_field, fields.obj_size_field, fields.obj_id_field = 2, 4, 5
    return other.TraceReader(str(path), other.TraceType.CSV_TRACE, fields)


@pytest.fixture
def pressed():
    """Requests with pressure: about half of them hit a cache of 20."""
    return make_trace("piecewise", capacity=20, steps=30_000, w="2K", segment="50K", items="5K", zipf=0.8)


@pytest.mark.parametrize("format", ["csv", "oracleGeneral"])
def test_libcachesim_reads_the_same_requests(folder, pressed, format):
    path = folder / f"t.{format}"
    write_trace(pressed, path)
    seen = [(r.obj_id, r.obj_size, r.clock_time) for r in libcachesim_reader(path, format)]
    assert [i for i, _, _ in seen] == (pressed.requests + 1).tolist()
    assert {s for _, s, _ in seen} == {1}
    assert [t for _, _, t in seen] == list(range(pressed.n_steps))


@pytest.mark.parametrize("format", ["csv", "oracleGeneral"])
def test_libcachesim_fifo_misses_what_our_fifo_misses(folder, pressed, format):
    other = pytest.importorskip("libcachesim")
    path = folder / f"t.{format}"
    write_trace(pressed, path)
    ratio, _ = other.FIFO(20).process_trace(libcachesim_reader(path, format))
    misses = int(np.count_nonzero(miss_units_by_step(simulate("fifo", pressed, 20), pressed)))
    assert 0.1 < misses / pressed.n_steps < 0.9
    assert round(ratio * pressed.n_steps) == misses


def test_libcachesim_belady_understands_our_next_access(folder, pressed):
    other = pytest.importorskip("libcachesim")
    path = folder / "t.oracleGeneral"
    write_trace(pressed, path)
    ratio, _ = other.Belady(20).process_trace(libcachesim_reader(path, "oracleGeneral"))
    # Belady without bypassing, by its definition
    requests = pressed.requests.tolist()
    following: list[float] = [float("inf")] * len(requests)
    last: dict[int, int] = {}
    for t in range(len(requests) - 1, -1, -1):
        following[t] = last.get(requests[t], float("inf"))
        last[requests[t]] = t
    held: dict[int, float] = {}
    misses = 0
    for t, item in enumerate(requests):
        if item not in held:
            misses += 1
            if len(held) == 20:
                del held[max(held, key=held.__getitem__)]
        held[item] = following[t]
    assert round(ratio * len(requests)) == misses


def test_what_libcachesim_converts_is_what_we_write(folder, pressed):
    other = pytest.importorskip("libcachesim")
    write_trace(pressed, folder / "t.csv")
    write_trace(pressed, folder / "t.oracleGeneral")
    made = folder / "made.oracleGeneral"
    other.Util.convert_to_oracleGeneral(libcachesim_reader(folder / "t.csv", "csv")._reader, str(made))
    theirs, ours = np.fromfile(made, RECORD), np.fromfile(folder / "t.oracleGeneral", RECORD)
    for name in ("id", "size", "next"):
        assert np.array_equal(theirs[name], ours[name]), name
    assert read_trace(made) == read_trace(folder / "t.oracleGeneral")


# ---- real files ------------------------------------------------------------------------------------------


def test_the_real_log_reads_alike_in_both_formats_and_writes_back_exactly(folder, data_dir):
    binary = data_dir / "block-io" / "cloudPhysicsIO.oracleGeneral.bin"
    if not binary.is_file():
        pytest.skip(f"data set not found: {binary}")
    trace = read_trace(binary, use_sizes=True)
    assert trace.n_steps == 113_872
    assert read_trace(binary.with_name("cloudPhysicsIO.csv"), use_sizes=True) == trace
    write_trace(trace, folder / "t.oracleGeneral")
    before, after = np.fromfile(binary, RECORD), np.fromfile(folder / "t.oracleGeneral", RECORD)
    assert np.array_equal(before["next"], after["next"])
    assert np.array_equal(before["size"], after["size"])
    assert trace.n_items == len(np.unique(before["id"]))
    assert trace.metadata == {
        "source": binary.name,
        "format": "oracleGeneral",
        "size_changes": 0,
    }


# ---- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", PLAIN)
@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (from_arrays([[0.5, 1.0]], arrivals=[0]), "each step must ask for one item"),
        (from_requests([0, 1], arrivals=[1, 0]), "which also arrives"),
        (from_requests([0, -1], arrivals=[0, -1]), "each step must ask for one item"),
        (from_requests([0, 1], quality=0.5), "every quality must be 1"),
        (from_requests([0, 1], weight=[1, 2]), "every weight must be 1"),
        (from_requests([], arrivals=[]), "at least one step"),
    ],
)
def test_a_trace_that_is_more_than_requests_is_refused_not_flattened(folder, format, trace, words):
    refused(lambda: write_trace(trace, folder / f"t.{format}"), words, "use parquet or jsonl")
    assert list(folder.iterdir()) == []


def test_id_lists_refuse_to_lose_sizes(folder):
    base = from_requests([0, 1])
    sized = Trace(2, base.indptr, base.items, base.quality, base.arrivals, sizes=[1, 2])
    refused(lambda: write_trace(sized, folder / "t.ids"), "every size must be 1")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.bin", b"", "is empty"),
        ("t.bin", b"x" * 25, "cut off: 25 bytes"),
        ("t.oracleGeneral", b"x" * 23, "cut off"),
        ("t.csv", b"", "is empty"),
        ("t.csv", b"version,time,op,size,lbn\n", "no request, only a header"),
        ("t.csv", b"time,id\n1,2\n", "must have the columns version,time,op,size,lbn"),
        ("t.csv", b"1,2,3\n", "must have the columns"),
        ("t.csv", b"\x00\x01\x02\x03", "must have the columns"),
        ("t.csv", b"1,0,2a,1,5\n1,0,2a,1,x\n", "no request"),
        ("t.csv", b"1,0,2a,1,5\n1,0,2a,1\n", "no request"),
        ("t.csv", b"1,0,2a,1,5\n1,0,2a,1,\n", "line 2: lbn is missing"),
        ("t.csv", b"version,time,op,size,lbn\n1,0,2a,1,5\n1,,2a,1,5\n", "line 3: time is missing"),
        ("t.csv", b"1,0,2a,1,5\n1,nan,2a,1,6\n", "line 2"),
        ("t.csv", b"1,inf,2a,1,5\n1,inf,2a,1,6\n", "line 1"),
        (
            "t.csv",
            b"1,9,2a,1,5\n1,9,2a,1,5\n1,8,2a,1,6\n",
            "line 3: time must not run backwards, it goes from 9 to 8",
        ),
        ("t.csv", b"1,0,2a,1,5\n\n1,0,2a,1,6\n", "t.csv"),
        ("t.ids", b"", "is empty"),
        ("t.txt", b"a\n\nb\n", "line 2: the line is blank"),
        ("t.txt", b"a\n   \nb\n", "line 2: the line is blank"),
        ("t.txt", b"a\n\xff\xfe\n", "no list of ids"),
    ],
)
def test_a_broken_file_is_refused_by_name_and_place(folder, name, content, words):
    (folder / name).write_bytes(content)
    refused(lambda: read_trace(folder / name), name, words)


def test_a_size_of_zero_is_refused_only_if_sizes_are_used(folder):
    (folder / "t.csv").write_text("1,0,2a,4,5\n1,0,2a,0,6\n")
    assert read_trace(folder / "t.csv").n_items == 2
    refused(
        lambda: read_trace(folder / "t.csv", use_sizes=True), "line 2: size must be >= 1 to be used, got 0"
    )
    np.zeros(2, RECORD).tofile(folder / "t.bin")
    refused(lambda: read_trace(folder / "t.bin", use_sizes=True), "record 1 has size 0")


# ---- one door --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "format"), [(e, f.name) for f in FORMATS.values() for e in f.extensions])
def test_the_extension_says_the_format_in_any_case(name, format):
    assert guess_format("x" + name).name == format
    assert guess_format("x" + name.upper()).name == format


def test_parquet_is_known_by_content_whatever_its_name(folder):
    trace = from_requests([0, 1])
    write_trace(trace, folder / "t.dat", format="parquet")
    assert read_trace(folder / "t.dat") == trace


def test_unknown_formats_extensions_and_options_are_refused_with_the_list(folder):
    (folder / "t.xyz").write_text("1\n")
    refused(
        lambda: read_trace(folder / "t.xyz"),
        "extension '.xyz'",
        "parquet .parquet, jsonl",
        "ids .ids .txt, vcache, locomo",
    )
    refused(lambda: write_trace(from_requests([0]), folder / "t"), "no extension")
    with pytest.raises(UnknownName, match=r"unknown format 'parket'; did you mean 'parquet'\?"):
        read_trace(folder / "t.xyz", format="parket")
    assert read_trace(folder / "t.xyz", format="IDS").n_steps == 1
    refused(lambda: read_trace(folder / "t.xyz", format="ids", use_sizes=True), "does not take that option")
    refused(lambda: write_trace(from_requests([0]), folder / "t.json"), "can be read, not written")


def test_a_file_that_is_not_there_or_is_a_folder_is_named(folder):
    refused(lambda: read_trace(folder / "none.parquet"), "none.parquet", "No such file")
    refused(lambda: read_trace(folder), "it is a folder")


def test_the_data_folder_is_found_through_the_environment(folder, monkeypatch):
    monkeypatch.setenv("SOFTHIT_DATA", str(folder))
    assert data_path("a", "b.bin") == folder / "a" / "b.bin"
    monkeypatch.setenv("SOFTHIT_DATA", str(folder / "absent"))
    refused(lambda: data_path("a"), "absent", "SOFTHIT_DATA")
