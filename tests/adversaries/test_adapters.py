"""Adapters to other people's caches: contents request by request, and what these libraries were found to do.

A test is skipped where its library is not installed. Everything that may abort or hang runs in a process of
its own.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import offline_opt
from adversaries import make_trace
from adversaries.replay.adapter import Ask, Setup, Unsupported, adapter_info, adapter_names, make_adapter
from adversaries.replay.isolate import AdapterPolicy
from adversaries.replay.record import Replayed, replay
from softhit import MissingExtra, Trace, cost, from_arrays, from_embeddings, from_requests, simulate
from softhit.errors import InvalidInput, ReplayError
from softhit.io import write_trace

LIBRARIES = {
    "cachetools": "cachetools",
    "libcachesim": "libcachesim",
    "gptcache": "gptcache",
    "langchain-core": "langchain_core",
    "redisvl": "redisvl",
}


def needs(adapter: str) -> None:
    pytest.importorskip(LIBRARIES[adapter_info(adapter.partition("(")[0]).library])


def run(adapter: str, trace: Trace, capacity: int, timeout: float = 60.0) -> Replayed:
    needs(adapter)
    return replay(AdapterPolicy(adapter, timeout), trace, capacity, switch_cost=1)


def pressed(capacity: int, steps: int, seed: int = 0) -> Trace:
    """Requests of which a cache hits between a tenth and nine tenths."""
    return make_trace("piecewise", capacity, steps, seed=seed, w="2K", segment="50K", items="5K", zipf=0.8)


# ---- shared semantics ------------------------------------------------------------------------------------

SAME = [
    ("cachetools_lru", "lru", 12),
    ("cachetools_fifo", "fifo", 12),
    ("cachetools_lfu", "lfu", 12),
    ("libcachesim_lru", "lru", 12),
    ("libcachesim_fifo", "fifo", 12),
    ("libcachesim_lfu", "lfu", 12),
    ("libcachesim_arc", "arc", 12),
    ("libcachesim_clock", "clock", 12),
    ("libcachesim_sieve", "sieve", 12),
    ("libcachesim_twoq", "2q", 12),
    ("libcachesim_lruk(k=2)", "lru_k", 12),
    ("libcachesim_s3fifo", "s3fifo", 20),
    ("langchain", "fifo", 12),
]


@pytest.mark.parametrize(("adapter", "policy", "capacity"), SAME, ids=[s[0] for s in SAME])
def test_what_is_held_is_what_our_policy_holds_at_every_step(
    adapter: str, policy: str, capacity: int
) -> None:
    trace = pressed(capacity, 400 * capacity)
    ours = simulate(policy, trace, capacity)
    assert len(ours.leave_items) >= 100 * capacity
    theirs = run(adapter, trace, capacity)
    assert 0.1 < theirs.hits / trace.n_steps < 0.9
    assert theirs.schedule == ours
    assert theirs.answers is not None
    assert (theirs.answers.hits, theirs.answers.silent, theirs.answers.ghosts) == (theirs.hits, (), ())


def test_random_replacement_replaces_one_item_at_random_at_each_miss() -> None:
    trace = pressed(12, 3000)
    done = run("cachetools_rr", trace, 12)
    misses = trace.n_steps - done.hits
    assert len(done.schedule.enter_items) == misses
    assert len(done.schedule.leave_items) == misses - 12
    assert run("cachetools_rr", trace, 12).schedule == done.schedule
    assert done.schedule not in (simulate("fifo", trace, 12), simulate("lru", trace, 12))


def test_sizes_are_told_to_those_who_have_them() -> None:
    base = pressed(6, 1500)
    sizes = np.random.default_rng(0).integers(1, 4, base.n_items)
    trace = Trace(base.n_items, base.indptr, base.items, base.quality, base.arrivals, sizes=sizes)
    ours = simulate("lru", trace, 12)
    for adapter in ("cachetools_lru", "libcachesim_lru"):
        theirs = run(adapter, trace, 12).schedule
        # several may leave at one step: the order is not read
        assert np.array_equal(theirs.leave_ptr, ours.leave_ptr)
        assert [sorted(theirs.at(t)[0]) for t in range(1500)] == [sorted(ours.at(t)[0]) for t in range(1500)]
        assert theirs.enter_items.tolist() == ours.enter_items.tolist()
    for adapter in ("gptcache", "langchain"):
        with pytest.raises(Unsupported, match="has no sizes"):
            run(adapter, trace, 12)


def test_an_item_larger_than_the_cache_stays_out() -> None:
    base = from_requests([0, 1, 0, 1])
    trace = Trace(2, base.indptr, base.items, base.quality, base.arrivals, sizes=[9, 1])
    for adapter in ("cachetools_lru", "libcachesim_lru"):
        assert run(adapter, trace, 4).schedule.enter_items.tolist() == [1]


@pytest.mark.parametrize("adapter", ["cachetools_lru", "langchain"])
def test_a_step_without_a_query_only_stores(adapter: str) -> None:
    trace = from_requests([0, 1, 2, 0], weight=[0, 0, 0, 1])
    done = run(adapter, trace, 2)
    assert done.schedule.enter_items.tolist() == [0, 1, 2, 0]
    assert done.answers is not None
    assert done.answers.hits == done.hits == 0


@pytest.mark.parametrize("adapter", ["cachetools_lru", "libcachesim_lru", "langchain"])
def test_keys_cannot_express_a_query_that_several_items_serve(adapter: str) -> None:
    with pytest.raises(Unsupported, match="step 1"):
        run(adapter, from_arrays([[1.0, 0.0], [0.5, 1.0]], arrivals=[0, 1]), 2)


# ---- what is missing is named ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", adapter_names())
def test_without_its_library_an_adapter_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    info = adapter_info(name)
    monkeypatch.setitem(sys.modules, LIBRARIES[info.library], None)
    if info.library == "langchain-core":
        monkeypatch.setitem(sys.modules, "langchain_core.caches", None)
    with pytest.raises(MissingExtra, match=r"replay"):
        make_adapter(name)


def test_redis_that_is_not_there_is_said_to_be_unreachable() -> None:
    points = np.eye(3, dtype=np.float32)
    trace = from_embeddings(points, points, arrivals=np.arange(3), keep_vectors=True)
    with pytest.raises(Unsupported, match=r"redis://localhost:1' is not reachable"):
        run("redisvl(url=redis://localhost:1)", trace, 3)


def test_redis_holds_what_it_answers_with() -> None:
    """Only where SOFTHIT_REDIS names a server with vector search."""
    url = os.environ.get("SOFTHIT_REDIS")
    if not url:
        pytest.skip("no Redis with vector search: set SOFTHIT_REDIS to its address")
    trace = soft_trace(40)
    done = run(f"redisvl(url={url}, threshold=0.8)", trace, 40)
    assert done.answers is not None
    assert (done.answers.hits, done.answers.silent, done.answers.ghosts) == (done.hits, (), ())


# ---- LangChain -------------------------------------------------------------------------------------------

SEMANTIC = '''
from langchain_core.caches import BaseCache
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from adversaries.replay.adapters.langchain import vector_of


class Read(Embeddings):
    def embed_documents(self, texts): return [vector_of(text) for text in texts]
    def embed_query(self, text): return vector_of(text)


class Semantic(BaseCache):
    """First in, first out, over LangChain's own vector store."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.clear()

    def lookup(self, prompt, llm_string):
        found = self.vectors.similarity_search_with_score(prompt, k=1)
        return found[0][0].metadata["value"] if found and found[0][1] >= 0.8 else None

    def update(self, prompt, llm_string, return_val):
        self.vectors.add_texts([prompt], [{"value": return_val}], ids=[prompt])
        if len(self.vectors.store) > self.capacity:
            self.vectors.delete([next(iter(self.vectors.store))])

    def clear(self, **kwargs):
        self.vectors = InMemoryVectorStore(Read())


def held(cache):
    return [document["metadata"]["value"][0] for document in cache.vectors.store.values()]


ready = Semantic(4)
'''


def soft_trace(steps: int, seed: int = 0, dimension: int = 4) -> Trace:
    points = np.random.default_rng(seed).standard_normal((steps, dimension)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return from_embeddings(
        points,
        points,
        arrivals=np.arange(steps),
        rule="threshold(0.8)",
        candidates="arrived",
        keep_vectors=True,
    )


@pytest.fixture
def users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "semantic_for_test.py").write_text(SEMANTIC)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("users_module")
@pytest.mark.parametrize("cache", ["Semantic", "ready"])
def test_any_base_cache_of_a_user_is_driven_with_the_vectors_of_the_trace(cache: str) -> None:
    trace = soft_trace(200)
    spec = f"langchain(cache=semantic_for_test:{cache}, held=semantic_for_test:held, vectors=true)"
    done = run(spec, trace, 4)
    # by the rule itself: a query is served by what is held, first in, first out; no query is near the limit
    held: list[int] = []
    hits = 0
    for t, vector in enumerate(trace.query_vectors):
        if any(trace.item_vectors[i] @ vector >= 0.8 for i in held):
            hits += 1
        else:
            held = [*held, t][-4:]
    assert 20 < hits < 180
    assert done.hits == hits
    assert done.answers is not None
    assert (done.answers.hits, done.answers.silent, done.answers.ghosts) == (hits, (), ())


@pytest.mark.usefixtures("users_module")
def test_a_base_cache_whose_store_cannot_be_read_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="has no dict _cache"):
        run("langchain(cache=semantic_for_test:Semantic, vectors=true)", soft_trace(5), 4)
    with pytest.raises(InvalidInput, match="module:object"):
        run("langchain(cache=semantic_for_test)", soft_trace(5), 4)


# ---- the walk and the script of findings -----------------------------------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples"


def shown(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_walk_compares_five_caches_on_a_log_of_ones_own(tmp_path: Path) -> None:
    for library in ("cachetools", "libcachesim", "langchain_core"):
        pytest.importorskip(library)
    trace = pressed(20, 1000)
    write_trace(trace, tmp_path / "mine.csv")
    printed = shown("compare_caches.py", str(tmp_path / "mine.csv"), "20", "2")
    ratios = {m[1]: float(m[2]) for m in re.finditer(r"(\w+)  cost .*  ratio ([\d.]+)", printed)}
    assert len(ratios) == 5
    best = offline_opt.solve(trace, 20, 2)
    assert best.kind == "exact"
    for name, policy in (("cachetools_lru", "lru"), ("langchain", "fifo"), ("libcachesim_sieve", "sieve")):
        paid = cost(simulate(policy, trace, 20), trace, 20, 2)
        assert ratios[name] == pytest.approx(float(paid.fraction / best.cost.fraction), abs=6e-4)


def test_every_finding_of_the_script_is_seen_on_the_versions_of_the_constraints() -> None:
    pytest.importorskip("libcachesim")
    pytest.importorskip("gptcache")
    printed = shown("library_findings.py")
    assert "not seen" not in printed
    assert printed.count(": seen") == 6


# ---- findings: GPTCache ----------------------------------------------------------------------------------


def gptcache_answers(spec: str, capacity: int, items: list[int]) -> list[int]:
    adapter = make_adapter(spec)
    adapter.open(Setup(capacity, max(items) + 1))
    try:
        return [adapter.step(Ask(t, i, 1, i, 1.0)) or 0 for t, i in enumerate(items)]
    finally:
        adapter.close()


def test_gptcache_is_our_lru_while_it_deletes_at_once() -> None:
    """At capacity 8, one marked row of nine is above a tenth: vectors leave with their rows."""
    trace = pressed(8, 500)
    done = run("gptcache(clean=1)", trace, 8)
    assert done.schedule == simulate("lru", trace, 8)
    assert done.answers is not None
    assert (done.answers.hits, done.answers.silent) == (done.hits, ())


def test_gptcache_misses_a_prompt_that_it_stored_one_request_ago() -> None:
    """The vector of a marked row equals that of the live row of the same prompt, and comes first."""
    needs("gptcache")
    items = [*range(20), 20, 0, 0]
    assert gptcache_answers("gptcache(clean=1)", 20, items)[-2:] == [-1, -1]
    assert gptcache_answers("gptcache(clean=1, top_k=5)", 20, items)[-2:] == [-1, 0]
    # marked rows are deleted at once if a tenth of the capacity or more goes at a time
    assert gptcache_answers("gptcache(clean=3)", 20, items)[-2:] == [-1, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "requests"), [([], 14), (["20", "1"], 22)])
def test_a_search_from_random_vectors_finds_false_misses_of_gptcache_and_shrinks_them(
    words: list[str], requests: int
) -> None:
    needs("gptcache")
    printed = shown("gptcache_shadowing.py", *words)
    assert "is answered with none; entry" in printed
    assert "from the index: no false miss" in printed
    # 9 or 20 fill the cache, one evicts, one asks: fewer than 11 or 22 cannot do it
    shrunk = int(re.search(r"no request of the (\d+) left", printed)[1])
    assert shrunk <= requests


@pytest.mark.parametrize("capacity", [1, 4])
def test_gptcache_never_returns_from_an_eviction_of_none(capacity: int) -> None:
    """A fifth of a capacity below 5, rounded down, is none; it evicts that many until there is room."""
    with pytest.raises(ReplayError) as caught:
        run("gptcache", from_requests(range(capacity + 1)), capacity, timeout=8.0)
    assert (caught.value.kind, caught.value.step) == ("timeout", capacity)


def test_gptcache_returns_at_capacity_5_or_if_told_how_many() -> None:
    assert run("gptcache", from_requests(range(6)), 5).schedule.leave_items.tolist() == [0]
    assert run("gptcache(clean=1)", from_requests(range(5)), 4).schedule.leave_items.tolist() == [0]


def test_gptcache_installs_nothing_while_it_is_replayed() -> None:
    needs("gptcache")
    before = shutil.which("pip")
    adapter = make_adapter("gptcache")
    adapter.open(Setup(5, 5))
    try:
        assert shutil.which("pip") != before
        assert subprocess.run("pip install -q nothing", shell=True, capture_output=True).returncode == 1
    finally:
        adapter.close()
    assert shutil.which("pip") == before


# ---- findings: LangChain ---------------------------------------------------------------------------------


def test_langchain_in_memory_cache_evicts_another_entry_when_one_is_updated() -> None:
    caches = pytest.importorskip("langchain_core.caches")
    outputs = pytest.importorskip("langchain_core.outputs")
    cache = caches.InMemoryCache(maxsize=2)
    for prompt in ("a", "b", "b"):
        cache.update(prompt, "", [outputs.Generation(text=prompt)])
    assert cache.lookup("b", "")
    # there was room for both; the second update of b made room for nothing
    assert cache.lookup("a", "") is None


# ---- findings: libcachesim -------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 9])
def test_libcachesim_s3fifo_aborts_below_capacity_10(capacity: int) -> None:
    with pytest.raises(ReplayError, match="SIGABRT") as caught:
        run("libcachesim_s3fifo", from_requests([0, 1]), capacity)
    assert (caught.value.kind, caught.value.step) == ("exit", -1)


SHUT = [
    ("s3fifo", 10),
    ("s3fifo", 19),
    ("clock2qplus", 19),
    ("twoq", 3),
    ("slru", 3),
    ("wtinylfu", 20),
    ("clockpro", 1),
]
OPEN = [("s3fifo", 20), ("clock2qplus", 20), ("twoq", 4), ("slru", 4), ("clockpro", 2)]


@pytest.mark.parametrize(("algorithm", "capacity"), SHUT)
def test_libcachesim_keeps_objects_of_size_1_out_of_small_caches(algorithm: str, capacity: int) -> None:
    trace = from_requests([0, 0, 0, 1, 1, 2, 2, 3] * 10)
    shut = run(f"libcachesim_{algorithm}", trace, capacity)
    assert shut.hits == len(shut.schedule.enter_items) == 0


@pytest.mark.parametrize(("algorithm", "capacity"), OPEN)
def test_libcachesim_lets_them_in_from_the_next_capacity_on(algorithm: str, capacity: int) -> None:
    trace = from_requests([0, 0, 0, 1, 1, 2, 2, 3] * 10)
    assert run(f"libcachesim_{algorithm}", trace, capacity).hits > 0


@pytest.mark.parametrize(
    ("capacity", "options"),
    [(2, "unit=1000, small_size_ratio=0.6"), (9, "small_size_ratio=0.25"), (12, "unit=1000")],
)
def test_libcachesim_s3fifo_works_if_its_small_queue_is_larger_than_one_object(
    capacity: int, options: str
) -> None:
    trace = pressed(capacity, 1000)
    assert 100 < run(f"libcachesim_s3fifo({options})", trace, capacity).hits < 900


def test_libcachesim_clockpro_uses_half_of_its_capacity() -> None:
    done = run("libcachesim_clockpro", from_requests(range(30)), 20)
    changes = np.diff(done.schedule.enter_ptr) - np.diff(done.schedule.leave_ptr)
    assert np.cumsum(changes).max() == 10


def test_libcachesim_lirs_finds_more_than_it_counts() -> None:
    with pytest.raises(Unsupported, match=r"counts \d+ objects but finds \d+"):
        run("libcachesim_lirs", pressed(5, 1000), 5)


PROGRAM = """
import sys
import libcachesim as lcs
fields = lcs.ReaderInitParam(has_header=True, delimiter=",")
fields.time_field, fields.obj_size_field, fields.obj_id_field = 2, 4, 5
def reader():
    return lcs.TraceReader(sys.argv[1], lcs.TraceType.CSV_TRACE, fields)
print("\\nresult", lcs.Belady(10).process_trace(reader())[0], lcs.LRU(10).process_trace(reader())[0],
      len({r.obj_id for r in reader()}))
"""


def libcachesim_on(file: Path) -> tuple[float, float, int]:
    pytest.importorskip("libcachesim")
    words = [sys.executable, "-c", PROGRAM, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    line = next(x for x in done.stdout.splitlines() if x.startswith("result"))
    _, belady, lru, ids = line.split()
    return float(belady), float(lru), int(ids)


def test_libcachesim_belady_on_csv_sees_no_future(tmp_path: Path) -> None:
    """A csv has no next access, and nothing is said about that."""
    trace = from_requests(np.random.default_rng(1).integers(0, 40, 4000))
    write_trace(trace, tmp_path / "t.csv")
    belady, lru, ids = libcachesim_on(tmp_path / "t.csv")
    assert ids == 40
    # uniform requests: whoever does not see the future misses three in four, and so does it
    assert belady == pytest.approx(3 / 4, abs=0.03)
    assert lru == pytest.approx(3 / 4, abs=0.03)
    ours = simulate("belady(bypass=false)", trace, 10)
    assert len(ours.enter_items) / 4000 < 0.55


def test_libcachesim_takes_all_words_for_one_object_by_default(tmp_path: Path) -> None:
    rows = [f"1,{t},2a,1,prompt-{t % 40}" for t in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(["version,time,op,size,lbn", *rows]) + "\n")
    _, lru, ids = libcachesim_on(tmp_path / "t.csv")
    assert ids == 1
    assert lru == pytest.approx(1 / 400)
