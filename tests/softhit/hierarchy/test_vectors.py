"""Both engines keep exactly what a dictionary would, in exact order, for one owner, also after a kill -9."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import uuid
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")

from softhit.errors import InvalidInput, MissingExtra, PathInUse, Unavailable
from softhit.hierarchy.vectors import Row, Vectors, make_vectors, qdrant
from softhit.hierarchy.vectors.common import pack, point_id, unpack
from softhit.hierarchy.vectors.lock import FolderLock
from tests.softhit.hierarchy.stand_in import serving

LOCAL = ["qdrant", "edge"]
KINDS = ["memory", "qdrant", "edge", "server"]
# Small integers: many pairs have mathematically equal cosines, of equal and of different vectors.
POOL = np.array(
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [2, 0, 0, 0], [-1, 0, 0, 3]],
    np.float32,
)


def payload(id: str, version: int = 1, dirty: int = 0, accesses: int = 0, last: int = 0, text: str = "x"):
    numbers = {"version": version, "dirty": dirty, "accesses": accesses, "last_access": last}
    return {"id": id, "text": text, "digest": text[:1], **numbers, "fields": ["user"], "group": None}


@contextmanager
def opener(kind: str, folder: Path):
    """Yield a function that opens the same store again and again."""
    if kind == "server":
        with serving() as (url, _):
            yield lambda **more: make_vectors(url, more.pop("dimension", 4), **more)
    elif kind == "memory":
        yield lambda **more: make_vectors(":memory:", more.pop("dimension", 4), **more)
    else:
        yield lambda **more: make_vectors(folder, more.pop("dimension", 4), engine=kind, **more)


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    with opener(request.param, tmp_path / "l2") as open_store:
        vectors = open_store()
        yield vectors
        vectors.close()


def nearest_of(model, query, limit, least, exclude):
    """What `nearest` must be, from the vectors as they were given."""
    scored = []
    for id, (vector, _) in model.items():
        if id not in exclude:
            a, b = vector.astype(float), query.astype(float)
            score = round(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), 6)
            if score >= least:
                scored.append((-score, id))
    return [(id, -score) for score, id in sorted(scored)[:limit]]


def coldest_of(model, limit, dirty):
    keys = [
        (p["accesses"], p["last_access"], id)
        for id, (_, p) in model.items()
        if dirty is None or p["dirty"] == dirty
    ]
    return [id for *_, id in sorted(keys)[:limit]]


IDS = st.sampled_from(["a", "b", "c", "d", "é\ud800", "B", "ab"])
SMALL = st.integers(0, 2)
VERSIONS = st.none() | st.integers(1, 4)


class Against(RuleBasedStateMachine):
    """A store and a dictionary."""

    kind = "memory"
    root = Path()
    steps = 0

    @initialize()
    def begin(self):
        self.model: dict[str, tuple[np.ndarray, dict]] = {}
        self.context = opener(self.kind, self.root / uuid.uuid4().hex)
        self.open_store = self.context.__enter__()
        self.store = self.open_store()

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.context.__exit__(None, None, None)

    @rule(
        id=IDS,
        vector=st.integers(0, 6),
        expected=VERSIONS,
        dirty=SMALL,
        a=SMALL,
        n=SMALL,
        digest=st.none() | st.sampled_from("abcd"),
    )
    def upsert(self, id, vector, expected, dirty, a, n, digest):
        new = payload(id, (expected or 0) + 1, dirty % 2, a, n, text=f"{id} {n}")
        present = self.model[id][1] if id in self.model else None
        done = self.store.upsert(id, POOL[vector], new, expected, digest=digest)
        same = present is None or digest in (None, present["digest"])
        assert done == (same and (present and present["version"]) == expected)
        if done:
            self.model[id] = (POOL[vector], new)

    @rule(
        id=IDS,
        expected=VERSIONS,
        digest=st.none() | st.sampled_from("abcd"),
        changes=st.fixed_dictionaries(
            {},
            optional={
                "version": st.integers(1, 4),
                "dirty": st.integers(0, 1),
                "accesses": SMALL,
                "last_access": SMALL,
                "group": st.sampled_from(["", "g", "\udfff"]),
            },
        ),
    )
    def patch(self, id, expected, digest, changes):
        hit = (
            id in self.model
            and expected in (None, self.model[id][1]["version"])
            and digest in (None, self.model[id][1]["digest"])
        )
        assert self.store.patch(id, changes, expected, digest=digest) == hit
        if hit:
            self.model[id][1].update(changes)

    @rule(rows=st.lists(st.tuples(IDS, st.integers(1, 4)), max_size=4), clean_only=st.booleans())
    def delete(self, rows, clean_only):
        rows = list(dict(rows).items())
        gone = [
            id
            for id, version in rows
            if id in self.model
            and self.model[id][1]["version"] == version
            and not (clean_only and self.model[id][1]["dirty"])
        ]
        given = [Row(id, {"version": version, "dirty": 0}) for id, version in rows]
        assert self.store.delete(given, clean_only) == len(gone)
        for id in gone:
            del self.model[id]

    @rule()
    def reopen(self):
        if self.kind != "memory":
            self.store.close()
            self.store = self.open_store()

    @rule(query=st.integers(0, 6), limit=st.integers(0, 8), least=st.sampled_from([-1, 0.1, 0.8]))
    def nearest(self, query, limit, least):
        for exclude in [(), ("a", "none")]:
            found = self.store.nearest(POOL[query], limit, least, exclude)
            want = nearest_of(self.model, POOL[query], limit, least, exclude)
            assert [(row.id, round(score, 6)) for row, score in found] == want
            assert all(row.payload == self.model[row.id][1] for row, _ in found)

    @rule(limit=st.integers(0, 8), dirty=st.sampled_from([None, True, False]))
    def coldest(self, limit, dirty):
        rows = self.store.coldest(limit, dirty)
        assert [row.id for row in rows] == coldest_of(self.model, limit, dirty)
        assert all(row.payload == self.model[row.id][1] for row in rows)

    @invariant()
    def same_rows(self):
        if hasattr(self, "store"):
            rows = self.store.fetch([*self.model, "absent"])
            assert {id: row.payload for id, row in rows.items()} == {
                id: p for id, (_, p) in self.model.items()
            }
            for dirty in (None, True, False):
                want = sum(dirty is None or p["dirty"] == dirty for _, p in self.model.values())
                assert self.store.count(dirty) == want


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_a_dictionary_with_conditions(kind, tmp_path):
    machine = type(f"Against_{kind}", (Against,), {"kind": kind, "root": tmp_path})
    profile = settings(stateful_step_count=30, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_state_machine_as_test(machine, settings=profile)


class TestOrder:
    def test_the_coldest_rows_are_exact_where_hundreds_tie_at_the_cut(self, store):
        rng = np.random.default_rng(0)
        model = {}
        for n in rng.permutation(330).tolist():
            id = f"s{n:03}"
            # 300 rows tie in both keys, the others do not
            p = payload(id, accesses=1 + n // 310, last=5 if n < 300 else n)
            model[id] = (POOL[0], p)
            assert store.upsert(id, POOL[0], p, None)
        for limit in (1, 7, 299, 300, 301, 330, 400):
            assert [row.id for row in store.coldest(limit)] == coldest_of(model, limit, False)

    def test_nearest_rows_are_exact_where_hundreds_tie_at_the_cut(self, store):
        rng = np.random.default_rng(1)
        model = {}
        for n in rng.permutation(300).tolist():
            id = f"s{n:03}"
            vector = POOL[0] if n % 3 else (POOL[3] if n % 2 else POOL[1])
            model[id] = (vector, payload(id))
            store.upsert(id, vector, payload(id), None)
        for limit in (1, 5, 199, 201, 250, 300, 301):
            found = store.nearest(POOL[0], limit, -1)
            assert [row.id for row, _ in found] == [id for id, _ in nearest_of(model, POOL[0], limit, -1, ())]

    def test_equal_vectors_are_ordered_by_id_in_a_high_dimension(self, tmp_path):
        # an engine's own scores of equal vectors differ in the last bit from place to place
        vector = np.random.default_rng(2).standard_normal(515).astype(np.float32)
        for kind in LOCAL:
            store = make_vectors(tmp_path / kind, 515, engine=kind)
            for n in np.random.default_rng(3).permutation(40).tolist():
                store.upsert(f"{n:02}", vector, payload(f"{n:02}"), None)
            other = vector + np.random.default_rng(4).standard_normal(515).astype(np.float32) * 0.1
            found = store.nearest(other, 10)
            assert [row.id for row, _ in found] == [f"{n:02}" for n in range(10)]
            assert len({score for _, score in found}) == 1
            store.close()

    def test_cosines_agree_with_numpy_for_random_vectors(self, tmp_path):
        rng = np.random.default_rng(5)
        vectors = rng.standard_normal((200, 33)).astype(np.float32)
        queries = rng.standard_normal((20, 33))
        cosine = queries @ vectors.T.astype(float)
        cosine /= np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(vectors.astype(float), axis=1)
        for kind in LOCAL:
            store = make_vectors(tmp_path / kind, 33, engine=kind)
            for n, vector in enumerate(vectors):
                store.upsert(str(n), vector, payload(str(n)), None)
            for query, row in zip(queries, cosine, strict=True):
                found = store.nearest(query.astype(np.float32), 12)
                best = np.argsort(-row)[:12]
                assert [int(r.id) for r, _ in found] == list(best)
                assert np.allclose([score for _, score in found], row[best], atol=1e-6)
            store.close()


class TestContent:
    @pytest.mark.parametrize(
        "text",
        ["", "日本語", "\ud800 alone", "\ud83d\ude00 is not \U0001f600", "utf-8-hex:00", "a\x00b", "\n" * 3],
    )
    def test_any_text_comes_back_as_it_was(self, store, text):
        assert store.upsert(text, POOL[0], payload(text, text=text), None)
        assert store.patch(text, {"group": text})
        row = store.fetch([text])[text]
        assert (row.id, row.payload["text"], row.payload["group"]) == (text, text, text)

    def test_packed_text_is_plain_wherever_it_can_be(self):
        assert pack({"a": ["é", 1, None]}) == {"a": ["é", 1, None]}
        value = {"a\ud800": ["\ud83d\ude00", {"b": "utf-8-hex:zz"}]}
        assert unpack(pack(value)) == value
        str(pack(value)).encode()

    def test_a_points_id_is_a_uuid5_of_the_segments_id(self):
        space = uuid.UUID("6b0f6f0e-5a0c-5d3c-9a64-0f1d8f1a4f53")
        assert point_id("tool:weather/é") == str(uuid.uuid5(space, "tool:weather/é"))

    def test_what_breaks_the_rows_form_is_refused(self, store):
        for wrong in (
            {"version": 0},
            {"dirty": True},
            {"dirty": 2},
            {"accesses": -1},
            {"last_access": 2**60},
            {"text": None},
            {"id": "b"},
            {"more": {1, 2}},
            {"more": float("nan")},
        ):
            with pytest.raises(InvalidInput):
                store.upsert("a", POOL[0], payload("a") | wrong, None)
        for missing in ("version", "dirty", "accesses", "last_access"):
            left = payload("a")
            del left[missing]
            with pytest.raises(InvalidInput, match=missing):
                store.upsert("a", POOL[0], left, None)
        for vector in (POOL[0][:3], POOL[0] * 0, POOL[0] * np.nan, POOL, "abcd"):
            with pytest.raises(InvalidInput, match="vector must be a vector of 4 finite numbers"):
                store.upsert("a", vector, payload("a"), None)
        for changes in ({"id": "b"}, {"group": None}, {"version": None}):
            with pytest.raises(InvalidInput, match="other than 'id' with a value"):
                store.patch("a", changes)
        assert store.count() == 0

    def test_empty_questions_have_empty_answers(self, store):
        assert store.fetch([]) == {}
        assert store.delete([]) == 0
        assert store.coldest(0) == store.coldest(5) == []
        assert store.nearest(POOL[0], 0) == store.nearest(POOL[0], 5) == []
        assert not store.patch("a", {})
        assert isinstance(store, Vectors)


class TestOpening:
    @pytest.mark.parametrize("written", ["", '{"collections": {'])
    def test_a_folder_whose_maker_was_killed_at_its_first_write_can_be_opened(self, written, tmp_path):
        (tmp_path / "meta.json").write_text(written)
        store = make_vectors(tmp_path, 3)
        assert store.count() == 0
        store.close()

    def test_a_broken_index_of_collections_that_exist_is_not_thrown_away(self, tmp_path):
        make_vectors(tmp_path, 3).close()
        (tmp_path / "meta.json").write_text("{")
        with pytest.raises(Unavailable, match="open"):
            make_vectors(tmp_path, 3)
        assert (tmp_path / "meta.json").read_text() == "{"

    @pytest.mark.parametrize("kind", ["qdrant", "edge", "server"])
    @pytest.mark.parametrize("rows", [0, 1])
    def test_a_collection_of_another_dimension_is_refused_by_name(self, kind, rows, tmp_path):
        with opener(kind, tmp_path) as open_store:
            first = open_store()
            if rows:
                first.upsert("a", POOL[0], payload("a"), None)
            first.close()
            with pytest.raises(InvalidInput, match="has vectors of dimension 4, not 5") as caught:
                open_store(dimension=5)
            assert "segments" in str(caught.value)
            again = open_store()  # the failure left nothing locked
            other = None if kind != "server" else open_store(dimension=5, collection="other")
            assert again.count() == rows
            again.close()
            if other is not None:
                other.close()

    def test_a_folder_of_one_engine_is_not_an_empty_one_of_the_other(self, tmp_path):
        for first, second in (LOCAL, LOCAL[::-1]):
            folder = tmp_path / first
            make_vectors(folder, 4, engine=first).close()
            with pytest.raises(InvalidInput, match=f"a store of the engine '{first}'"):
                make_vectors(folder, 4, engine=second)
            make_vectors(folder, 4, engine=first).close()

    @pytest.mark.parametrize("kind", LOCAL)
    def test_collections_do_not_see_each_other(self, kind, tmp_path):
        one = make_vectors(tmp_path, 4, engine=kind, collection="one")
        one.upsert("a", POOL[0], payload("a"), None)
        one.close()
        two = make_vectors(tmp_path, 3, engine=kind, collection="two")
        assert two.count() == 0
        two.close()

    def test_names_that_mean_nothing_are_refused(self, tmp_path):
        with pytest.raises(InvalidInput, match="engine must be one of qdrant, edge"):
            make_vectors(tmp_path, 4, engine="edg")
        for where in (":memory:", "http://localhost:1"):
            with pytest.raises(InvalidInput, match="a folder for the engine 'edge'"):
                make_vectors(where, 4, engine="edge")
        with pytest.raises(InvalidInput, match="collection must be"):
            make_vectors(tmp_path, 4, engine="edge", collection="../other")
        with pytest.raises(InvalidInput, match="dimension must be an integer >= 1"):
            make_vectors(tmp_path, 0)

    @pytest.mark.parametrize(("engine", "module"), [("qdrant", "qdrant_client"), ("edge", "qdrant_edge")])
    def test_a_missing_library_names_its_extra(self, engine, module, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=r"softhit\[hierarchy\]"):
            make_vectors(tmp_path, 4, engine=engine)

    def test_after_closing_every_call_says_so(self, store):
        store.close()
        store.close()
        for call in (
            lambda: store.count(),
            lambda: store.fetch(["a"]),
            lambda: store.coldest(1),
            lambda: store.nearest(POOL[0], 1),
            lambda: store.upsert("a", POOL[0], payload("a"), None),
            lambda: store.patch("a", {"dirty": 0}),
            lambda: store.delete([Row("a", payload("a"))]),
        ):
            with pytest.raises(Unavailable, match="is closed"):
                call()


class TestServer:
    def test_one_that_nobody_runs_is_unavailable(self):
        start = time.monotonic()
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9") as caught:
            make_vectors("http://127.0.0.1:9", 4)
        assert caught.value.__cause__ is not None
        assert time.monotonic() - start < 20

    def test_one_that_fails_is_unavailable_until_it_answers_again(self):
        with serving() as (url, stand_in):
            store = make_vectors(url, 4)
            store.upsert("a", POOL[0], payload("a"), None)
            stand_in.failing = True
            for call in (
                lambda: store.count(),
                lambda: store.upsert("b", POOL[0], payload("b"), None),
                lambda: store.patch("a", {"dirty": 1}),
                lambda: store.nearest(POOL[0], 1),
            ):
                with pytest.raises(Unavailable) as caught:
                    call()
                assert caught.value.__cause__ is not None
            stand_in.failing = False
            assert store.count() == 1
            store.close()

    def test_one_too_old_for_conditional_writes_is_refused(self):
        with serving("1.16.3") as (url, _), pytest.raises(InvalidInput, match=r"1\.16\.3.*1\.17 or later"):
            make_vectors(url, 4)

    def test_the_key_is_sent_and_the_indexes_are_made(self):
        with serving() as (url, stand_in), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a key without TLS
            make_vectors(url, 4, api_key="secret").close()
            assert stand_in.keys == {"secret"}
            assert stand_in.indexed == {"segments": {"accesses", "last_access", "version", "dirty"}}

    def test_of_clients_that_race_for_a_version_exactly_one_is_told_that_it_won(self):
        with serving() as (url, _):
            clients = [make_vectors(url, 4) for _ in range(4)]
            clients[0].upsert("a", POOL[0], payload("a", text="0"), None)
            wins: list[tuple[int, int]] = []

            def play(me: int) -> None:
                for version in range(1, 9):
                    new = payload("a", version + 1, text=f"{me}")
                    if clients[me].upsert("a", POOL[me], new, expected=version):
                        wins.append((version, me))
                    while clients[me].fetch(["a"])["a"].version == version:
                        pass

            threads = [threading.Thread(target=play, args=(me,)) for me in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            versions = [version for version, _ in wins]
            # told that it won: never two; none only if the winner was overtaken before it read back
            assert len(versions) == len(set(versions))
            final = clients[0].fetch(["a"])["a"]
            assert final.version == 9
            assert (8, int(final.payload["text"])) in wins
            for client in clients:
                client.close()


OWNER = """
import sys, time
sys.path.insert(0, {root!r})
import numpy as np
from softhit.hierarchy.vectors import Row, make_vectors

def payload(id, version=1, dirty=0, accesses=0):
    return {{"id": id, "text": f"{{id}} {{version}}", "version": version, "dirty": dirty,
             "accesses": accesses, "last_access": 0}}

vectors = make_vectors({folder!r}, 4, engine={kind!r})
print("open", flush=True)
"""


@contextmanager
def owner(kind: str, folder: Path, code: str):
    """Run code in a process of its own that has the store open."""
    root = str(Path(__file__).resolve().parents[3])
    text = OWNER.format(root=root, folder=str(folder), kind=kind) + textwrap.dedent(code)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", LOCAL)
class TestOneOwner:
    def test_a_second_process_is_refused_until_the_first_is_dead(self, kind, tmp_path):
        with owner(kind, tmp_path, "time.sleep(600)") as process:
            with pytest.raises(PathInUse, match=f"another process .number {process.pid}.") as caught:
                make_vectors(tmp_path, 4, engine=kind)
            assert str(tmp_path) in str(caught.value)
            assert "use another path" in str(caught.value)
            process.send_signal(signal.SIGKILL)
            process.wait()
            make_vectors(tmp_path, 4, engine=kind).close()

    def test_a_second_store_in_the_same_process_is_refused_too(self, kind, tmp_path):
        first = make_vectors(tmp_path, 4, engine=kind)
        with pytest.raises(PathInUse, match="this process itself"):
            make_vectors(tmp_path, 4, engine=kind)
        assert first.count() == 0
        first.close()
        make_vectors(tmp_path, 4, engine=kind).close()

    def test_a_store_that_was_dropped_without_closing_frees_its_folder(self, kind, tmp_path):
        store = make_vectors(tmp_path, 4, engine=kind)
        store.upsert("a", POOL[0], payload("a"), None)
        del store
        again = make_vectors(tmp_path, 4, engine=kind)
        assert again.count() == 1
        again.close()

    def test_what_was_acknowledged_survives_a_kill(self, kind, tmp_path):
        code = """
        rng = np.random.default_rng(7)
        version = {}
        for n in range(10**9):
            id = f"s{rng.integers(40)}"
            what = rng.integers(4)
            present = version.get(id)
            vector = np.eye(4, dtype=np.float32)[rng.integers(4)]
            new = (present or 0) + 1
            if what < 2 or present is None:
                assert vectors.upsert(id, vector, payload(id, new, dirty=int(what == 1)), present)
                version[id] = new
                print("put", id, new, int(what == 1), flush=True)
            elif what == 2:
                assert vectors.patch(id, {"accesses": n, "dirty": 0}, present)
                print("patch", id, n, 0, flush=True)
            else:
                assert vectors.delete([Row(id, payload(id, present))], clean_only=False) == 1
                del version[id]
                print("delete", id, 0, 0, flush=True)
        """
        for kill_after in (1, 20, 333):
            folder = tmp_path / str(kill_after)
            model = {}
            with owner(kind, folder, code) as process:
                lines = [process.stdout.readline() for _ in range(kill_after)]
                process.send_signal(signal.SIGKILL)
                lines += process.stdout.readlines()
            if not lines[-1].endswith("\n"):
                lines.pop()
            for what, id, number, dirty in (line.split() for line in lines):
                if what == "delete":
                    del model[id]
                elif what == "put":
                    model[id] = [int(number), int(dirty), 0]
                else:
                    model[id][1:] = [0, int(number)]
            store = make_vectors(folder, 4, engine=kind)
            rows = {row.id: row for row in store.coldest(10**6, dirty=None)}
            found = {id: [r.version, int(r.dirty), r.payload["accesses"]] for id, r in rows.items()}
            # the call that was under way at the kill is not in the list; it concerns one row at most
            differing = {id for id in found.keys() | model.keys() if found.get(id) != model.get(id)}
            assert len(differing) <= 1, (kill_after, differing)
            assert all(row.payload["text"] == f"{row.id} {row.version}" for row in rows.values())
            store.close()


class TestLock:
    def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(self, tmp_path):
        code = f"""
        from softhit.hierarchy.vectors.lock import FolderLock
        import os
        lock = FolderLock({str(tmp_path / "folder")!r})
        ready, say = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(say, b"!")  # os.fork has run what is to run in a child
            time.sleep(600)
        os.read(ready, 1)
        print(child, flush=True)
        time.sleep(600)
        """
        with owner("edge", tmp_path / "other", code) as process:
            child = int(process.stdout.readline())
            with pytest.raises(PathInUse):
                FolderLock(tmp_path / "folder")
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.kill(child, 0)  # it lives
            try:
                FolderLock(tmp_path / "folder").release()
            finally:
                os.kill(child, signal.SIGKILL)

    def test_releasing_twice_frees_nobody_elses(self, tmp_path):
        first = FolderLock(tmp_path)
        first.release()
        second = FolderLock(tmp_path)
        first.release()
        with pytest.raises(PathInUse):
            FolderLock(tmp_path)
        second.release()

    def test_the_clients_own_lock_is_respected(self, tmp_path):
        from qdrant_client import QdrantClient

        other = QdrantClient(path=str(tmp_path))
        with pytest.raises(PathInUse, match="in use by another process"):
            make_vectors(tmp_path, 4)
        other.close()
        make_vectors(tmp_path, 4).close()

    def test_a_folder_that_cannot_be_made_is_unavailable(self, tmp_path):
        (tmp_path / "file").write_text("")
        for kind in LOCAL:
            with pytest.raises(Unavailable, match="failed to open its folder"):
                make_vectors(tmp_path / "file" / "l2", 4, engine=kind)


class TestDisk:
    def test_local_mode_logs_its_writes_also_in_a_file_made_without_it(self, tmp_path):
        file = tmp_path / "collection" / "segments" / "storage.sqlite"
        store = make_vectors(tmp_path, 4)
        store.upsert("a", POOL[0], payload("a"), None)
        store.close()
        with contextlib.closing(sqlite3.connect(file)) as database:
            # as the client makes it by itself
            assert database.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        store = make_vectors(tmp_path, 4)
        with contextlib.closing(sqlite3.connect(file)) as database:
            assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        own = store._client._client.collections["segments"].storage.storage
        assert own.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert store.count() == 1
        store.close()


class TestMemory:
    @pytest.mark.parametrize("kind", ["memory", "qdrant"])
    def test_local_mode_forgets_deleted_rows_and_keeps_the_others(self, kind, tmp_path, monkeypatch):
        monkeypatch.setattr(qdrant, "_DEAD", 50)
        with opener(kind, tmp_path) as open_store:
            store = open_store()
            store.upsert("kept", POOL[6], payload("kept", text="\ud800"), None)
            for n in range(120):
                rows = [Row(f"{n - 1}", payload(f"{n - 1}"))]
                store.upsert(f"{n}", POOL[n % 6], payload(f"{n}"), None)
                assert store.delete(rows) == (n > 0)
            slots = len(store._client._client.collections["segments"].ids)
            assert slots < 60
            assert {row.id for row in store.coldest(10, None)} == {"kept", "119"}
            assert store.nearest(POOL[6], 1)[0][0].payload == payload("kept", text="\ud800")
            store.close()

    def test_threads_may_share_a_store(self, store):
        failed: list[BaseException] = []

        def work(me: int) -> None:
            try:
                for n in range(25):
                    id = f"{me}-{n}"
                    assert store.upsert(id, POOL[me], payload(id), None)
                    assert store.patch(id, {"accesses": n}, 1)
                    assert store.nearest(POOL[me], 1)
                    store.coldest(3)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert store.count() == 100
