"""Both document stores keep one contract: all versions, compare-and-set, whole records or none."""

import errno
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from softhit.errors import InvalidInput, Unavailable, VersionConflict
from softhit.hierarchy import digest_of
from softhit.hierarchy.documents import (
    DocumentStore,
    FolderDocuments,
    Record,
    SqliteDocuments,
    make_documents,
)
from softhit.hierarchy.documents.folder import quoted
from softhit.hierarchy.documents.words import words_of

KINDS = ("memory", "sqlite", "folder")
WHERE = {"memory": ":memory:", "sqlite": "documents.sqlite", "folder": "documents"}
ANY_TEXT = st.text(st.characters())  # lone surrogates and NUL included

AWKWARD = (
    "a",
    "A",
    "..",
    ".",
    ".hidden",
    "../up",
    "/absolute/path",
    "a/../../b",
    "C:\\windows",
    "nul\0inside",
    "new\nline",
    "blank ",
    "trailing.",
    "per%cent",
    "per%25cent",
    "per%2525cent",
    "~tilde",
    "é",
    "e\u0301",
    "上下文",
    "x" * 5000,
    "x" * 4999,
    "X" * 5000,
    "1.md",
    "a.md",
    "notes/a.md",
    "a.versions",
    ".softhit",
)


def open_store(kind: str, folder: Path) -> DocumentStore:
    return make_documents(":memory:" if kind == "memory" else folder / WHERE[kind])


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DocumentStore]:
    documents = open_store(request.param, tmp_path)
    yield documents
    documents.close()


@pytest.fixture(params=KINDS[1:])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


class TestUpsert:
    @pytest.mark.parametrize("key", ["", 3, "half a pair \ud83d"])
    def test_refuses_a_key_that_no_checkpoint_could_hold(self, store: DocumentStore, key: Any) -> None:
        with pytest.raises(InvalidInput, match="key must be a text that"):
            store.upsert(key, "text", {}, 0)
        assert list(store.keys()) == []

    def test_counts_versions_from_one_and_keeps_all(self, store: DocumentStore) -> None:
        for version in range(1, 13):
            made = store.upsert("k", f"text {version}", {"n": version}, expected=version - 1)
            assert made == Record("k", version, f"text {version}", {"n": version})
        assert store.version("k") == 12
        assert store.get("k") == Record("k", 12, "text 12", {"n": 12})
        assert [store.get("k", v) for v in (1, 9, 13, 0)] == [
            Record("k", 1, "text 1", {"n": 1}),
            Record("k", 9, "text 9", {"n": 9}),
            None,
            None,
        ]

    @pytest.mark.parametrize("expected", [0, 1, 3, 4, 100, 2**63 - 3])
    def test_on_another_version_says_which_one_is_there(self, store: DocumentStore, expected: int) -> None:
        store.upsert("k", "1", {}, 0)
        store.upsert("k", "2", {}, 1)
        with pytest.raises(VersionConflict) as error:
            store.upsert("k", "mine", {}, expected)
        assert (error.value.key, error.value.expected, error.value.found) == ("k", expected, 2)
        assert store.get("k") == Record("k", 2, "2", {})
        assert store.get("k", 3) is None

    def test_repeated_after_an_interruption_returns_what_is_there(self, store: DocumentStore) -> None:
        first = store.upsert("k", "text", {"by": "me"}, 0)
        assert store.upsert("k", "text", {"by": "somebody else"}, 0) == first
        assert store.version("k") == 1

    def test_of_an_older_text_is_no_repetition(self, store: DocumentStore) -> None:
        store.upsert("k", "1", {}, 0)
        store.upsert("k", "2", {}, 1)
        with pytest.raises(VersionConflict):
            store.upsert("k", "1", {}, 0)

    def test_of_the_same_text_on_top_is_a_new_version(self, store: DocumentStore) -> None:
        store.upsert("k", "same", {}, 0)
        assert store.upsert("k", "same", {}, 1).version == 2

    def test_returns_metadata_as_they_will_be_read(self, store: DocumentStore) -> None:
        made = store.upsert("k", "t", {"fields": ("a", "b"), "none": None, "x": 0.1, "é": "\ud83d"}, 0)
        assert made.metadata == {"fields": ["a", "b"], "none": None, "x": 0.1, "é": "\ud83d"}
        assert store.get("k") == made

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "\n",
            "---\n",
            "---\nsofthit: {}\n---\n",
            "\r\nmixed\rends\n\n",
            "\ufeffmark",
            "nul\0",
            "lone \ud83d",
            "👍" * 70_000,
        ],
    )
    def test_keeps_a_text_byte_for_byte(self, store: DocumentStore, text: str) -> None:
        store.upsert("k", text, {}, 0)
        found = store.get("k")
        assert found is not None
        assert found.text == text
        assert found.digest == digest_of(text)

    def test_may_leave_a_gap_between_versions(self, store: DocumentStore) -> None:
        assert store.upsert("k", "3", {}, 0, version=3) == Record("k", 3, "3", {})
        assert store.upsert("k", "3", {}, 0, version=3) == Record("k", 3, "3", {})
        assert store.upsert("k", "4", {}, 3) == Record("k", 4, "4", {})
        assert store.upsert("k", "9", {}, 4, version=9) == Record("k", 9, "9", {})
        assert [v for v in range(12) if store.get("k", v)] == [3, 4, 9]
        assert store.version("k") == 9
        assert store.get("k", 3) == Record("k", 3, "3", {})
        for expected, version in ((0, 1), (0, 10), (3, 9), (4, 8), (5, 9), (8, 9), (8, 10), (10, 11)):
            with pytest.raises(VersionConflict) as error:
                store.upsert("k", "other", {}, expected, version=version)
            assert error.value.found == 9

    @pytest.mark.parametrize("version", [0, 2, 1, -1, 3.5, True])
    def test_makes_no_version_that_is_not_later(self, store: DocumentStore, version: object) -> None:
        store.upsert("k", "2", {}, 0, version=2)
        with pytest.raises(InvalidInput, match="version must be"):
            store.upsert("k", "x", {}, 2, version=version)  # type: ignore[arg-type]

    def test_keeps_awkward_keys_apart(self, store: DocumentStore) -> None:
        for key in AWKWARD:
            store.upsert(key, f"text of {key!r}", {}, 0)
        assert list(store.keys()) == sorted(AWKWARD)
        for key in AWKWARD:
            assert store.get(key) == Record(key, 1, f"text of {key!r}", {})
            assert store.delete(key)
        assert list(store.keys()) == []


class TestArguments:
    @pytest.mark.parametrize("key", ["", None, 3, b"k"])
    def test_a_key_is_a_string_that_is_not_empty(self, store: DocumentStore, key: object) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.get(key),  # type: ignore[arg-type]
            lambda: store.version(key),  # type: ignore[arg-type]
            lambda: store.upsert(key, "", {}, 0),  # type: ignore[arg-type]
            lambda: store.delete(key),  # type: ignore[arg-type]
        ]
        for call in calls:
            with pytest.raises(InvalidInput, match="key must be"):
                call()

    @pytest.mark.parametrize("expected", [-1, 1.0, None, True, 2**63])
    def test_an_expected_version_is_an_integer(self, store: DocumentStore, expected: object) -> None:
        with pytest.raises(InvalidInput, match="expected must be"):
            store.upsert("k", "", {}, expected)  # type: ignore[arg-type]

    @pytest.mark.parametrize("metadata", [None, [], {1: "a"}, {"a": float("nan")}, {"a": b""}, {"a": {1, 2}}])
    def test_metadata_are_plain_data(self, store: DocumentStore, metadata: object) -> None:
        with pytest.raises(InvalidInput, match="metadata must be"):
            store.upsert("k", "", metadata, 0)  # type: ignore[arg-type]
        assert store.version("k") == 0

    def test_a_text_is_a_string(self, store: DocumentStore) -> None:
        with pytest.raises(InvalidInput, match="text must be"):
            store.upsert("k", b"", {}, 0)  # type: ignore[arg-type]

    def test_a_search_is_for_words_and_a_number(self, store: DocumentStore) -> None:
        with pytest.raises(InvalidInput, match="words must be"):
            store.search(None)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="limit must be"):
            store.search("a", -1)


class TestSearch:
    def test_finds_what_shares_most_words_then_by_key(self, store: DocumentStore) -> None:
        store.upsert("c", "red apple", {}, 0)
        store.upsert("b", "a RED, red car", {}, 0)
        store.upsert("a", "blue sky", {}, 0)
        store.upsert("d", "the apple is red; a car", {}, 0)
        assert [r.key for r in store.search("red car apple")] == ["d", "b", "c"]
        assert [r.key for r in store.search("red car apple", 2)] == ["d", "b"]
        assert (
            store.search("red", 0) == store.search("nothing") == store.search("") == store.search("?!") == []
        )

    def test_sees_latest_versions_only(self, store: DocumentStore) -> None:
        store.upsert("k", "old words", {}, 0)
        store.upsert("k", "new text", {"n": 2}, 1)
        assert store.search("old words") == []
        assert store.search("new") == [Record("k", 2, "new text", {"n": 2})]

    def test_forgets_what_is_deleted(self, store: DocumentStore) -> None:
        store.upsert("k", "word", {}, 0)
        store.delete("k")
        assert store.search("word") == []

    def test_finds_words_of_scripts_without_blanks(self, store: DocumentStore) -> None:
        store.upsert("zh", "上下文窗口是一级缓存", {}, 0)
        store.upsert("ar", "نافذة السياق", {}, 0)
        assert [r.key for r in store.search("缓存")] == ["zh"]
        assert [r.key for r in store.search("السياق")] == ["ar"]

    def test_takes_any_number_of_words(self, store: DocumentStore) -> None:
        store.upsert("k", "w1999 w7", {}, 0)
        assert [r.key for r in store.search(" ".join(f"w{i}" for i in range(2000)))] == ["k"]


class TestDelete:
    def test_says_whether_there_was_one_and_starts_again_at_one(self, store: DocumentStore) -> None:
        assert not store.delete("k")
        store.upsert("k", "1", {}, 0)
        store.upsert("k", "2", {}, 1)
        assert store.delete("k")
        assert not store.delete("k")
        assert (store.version("k"), store.get("k"), store.get("k", 1)) == (0, None, None)
        assert store.upsert("k", "again", {}, 0).version == 1


class TestClosing:
    def test_a_closed_store_says_so_and_closes_twice(self, store: DocumentStore) -> None:
        store.upsert("k", "1", {}, 0)
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get("k"),
            lambda: store.version("k"),
            lambda: store.upsert("k", "2", {}, 1),
            lambda: store.delete("k"),
            lambda: store.search("1"),
            lambda: list(store.keys()),
        ]
        for call in calls:
            with pytest.raises(Unavailable, match="closed"):
                call()

    def test_all_is_there_when_opened_again(self, kind: str, tmp_path: Path) -> None:
        store = open_store(kind, tmp_path)
        store.upsert("k", "1", {"a": 1}, 0)
        store.upsert("k", "2", {}, 1)
        store.close()
        again = open_store(kind, tmp_path)
        assert [again.get("k", 1), again.get("k")] == [Record("k", 1, "1", {"a": 1}), Record("k", 2, "2", {})]
        assert list(again.keys()) == ["k"]
        again.close()


class Model(RuleBasedStateMachine):
    """A store against a dict from keys to versions to (text, metadata); reopened now and then."""

    kind = ""
    KEYS = st.sampled_from(["a", "A", "a/b", "..", "é", "y" * 300])

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = open_store(self.kind, Path(self.folder.name))
        self.model: dict[str, dict[int, tuple[str, dict[str, object]]]] = {}

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(
        key=KEYS,
        text=st.one_of(ANY_TEXT, st.sampled_from(["red", "red car"])),
        metadata=st.dictionaries(ANY_TEXT, st.one_of(st.integers(), ANY_TEXT), max_size=2),
        off=st.sampled_from([0, 0, 0, -1, 1, 2]),
        more=st.sampled_from([1, 1, 1, 2, 3]),
    )
    def upsert(self, key: str, text: str, metadata: dict[str, object], off: int, more: int) -> None:
        versions = self.model.get(key, {})
        latest = max(versions, default=0)
        expected = max(0, latest + off)
        new = expected + more
        if expected == latest:
            self.model.setdefault(key, {})[new] = (text, metadata)
            assert self.store.upsert(key, text, metadata, expected, version=new) == Record(
                key, new, text, metadata
            )
        elif new == latest and versions[latest][0] == text:
            assert self.store.upsert(key, text, metadata, expected, version=new) == Record(
                key, new, *versions[latest]
            )
        else:
            with pytest.raises(VersionConflict) as error:
                self.store.upsert(key, text, metadata, expected, version=new)
            assert error.value.found == latest

    @rule(key=KEYS)
    def repeat(self, key: str) -> None:
        versions = self.model.get(key, {})
        if versions:
            latest = max(versions)
            again = self.store.upsert(key, versions[latest][0], {}, latest - 1)
            assert again == Record(key, latest, *versions[latest])

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        assert self.store.delete(key) == (key in self.model)
        self.model.pop(key, None)

    @rule(words=st.lists(st.sampled_from(["red", "car", "é", "0"]), max_size=3), limit=st.integers(0, 4))
    def search(self, words: list[str], limit: int) -> None:
        wanted = words_of(" ".join(words))
        ranked = sorted(
            (-len(wanted & words_of(versions[max(versions)][0])), key)
            for key, versions in self.model.items()
            if wanted & words_of(versions[max(versions)][0])
        )
        assert [r.key for r in self.store.search(" ".join(words), limit)] == [k for _, k in ranked][:limit]

    @rule()
    def reopen(self) -> None:
        if self.kind != "memory":
            self.store.close()
            self.store = open_store(self.kind, Path(self.folder.name))

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert list(self.store.keys()) == sorted(self.model)
        for key, versions in self.model.items():
            latest = max(versions)
            assert self.store.version(key) == latest
            assert self.store.get(key) == Record(key, latest, *versions[latest])
            for n in range(1, latest + 1):
                held = Record(key, n, *versions[n]) if n in versions else None
                assert self.store.get(key, n) == held


def machine(kind: str) -> type:
    case = type(f"Model_{kind}", (Model,), {"kind": kind}).TestCase
    case.settings = settings(max_examples=settings().max_examples, stateful_step_count=20)
    return case


TestTheSqliteStoreIsADict = machine("sqlite")
TestTheMemoryStoreIsADict = machine("memory")
TestTheFolderIsADict = machine("folder")


# What two processes do at once: each tries to write on top of what it read, and says which versions it won.
RACER = """
import sys
from softhit.errors import VersionConflict
from softhit.hierarchy.documents import make_documents
where, me, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = make_documents(where)
print("ready", flush=True)
sys.stdin.readline()
lost = 0
for i in range(rounds):
    while True:
        version = store.version("k")
        try:
            new = version + 1 + (me == "bob") * (i % 3)  # one of them leaves gaps
            made = store.upsert("k", f"{me} {i}", {"by": me}, version, version=new)
        except VersionConflict as error:
            assert error.found > version
            lost += 1
            continue
        print("won", made.version, i, flush=True)
        break
print("lost", lost, flush=True)
"""


class TestTwoProcesses:
    def test_that_write_the_same_version_exactly_one_wins(self, kind: str, tmp_path: Path) -> None:
        where, rounds = str(tmp_path / WHERE[kind]), 150
        racers = {
            me: subprocess.Popen(
                [sys.executable, "-c", RACER, where, me, str(rounds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for me in ("ann", "bob")
        }
        for racer in racers.values():
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers.values():
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        won: dict[int, str] = {}
        lost = 0
        for me, racer in racers.items():
            for line in racer.communicate(timeout=120)[0].splitlines():
                word, number, *rest = line.split()
                if word == "lost":
                    lost += int(number)
                else:
                    assert int(number) not in won
                    won[int(number)] = f"{me} {rest[0]}"
            assert racer.returncode == 0
        store = open_store(kind, tmp_path)
        assert len(won) == 2 * rounds
        assert store.version("k") == max(won) == 2 * rounds + sum(i % 3 for i in range(rounds))
        for version, text in won.items():
            assert store.get("k", version) == Record("k", version, text, {"by": text[:3]})
        assert lost > 0, "the two never met: this run shows nothing"
        store.close()

    def test_of_threads_with_stores_of_their_own_one_wins_too(self, kind: str, tmp_path: Path) -> None:
        won: list[int] = []
        found: list[bool] = []
        barrier = threading.Barrier(4)

        def work(me: int) -> None:
            store = open_store(kind, tmp_path)
            for version in range(25):
                barrier.wait()
                try:
                    won.append(store.upsert("k", f"{me}", {}, version).version)
                except VersionConflict as error:
                    found.append(error.found == version + 1)
                barrier.wait()
            store.close()

        threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == list(range(1, 26))
        assert all(found)

    def test_a_record_that_is_deleted_meanwhile_never_has_a_gap(self, kind: str, tmp_path: Path) -> None:
        """Versions stay 1..n for everybody while others write and delete."""
        stop = threading.Event()
        wrong: list[object] = []

        def write(me: int) -> None:
            store = open_store(kind, tmp_path)
            while not stop.is_set():
                version = store.version("k")
                try:
                    store.upsert("k", f"{me}", {}, version)
                except VersionConflict:
                    pass
                except Exception as error:
                    wrong.append(error)
            store.close()

        threads = [threading.Thread(target=write, args=(me,)) for me in range(2)]
        for thread in threads:
            thread.start()
        store = open_store(kind, tmp_path)
        try:
            for _ in range(10):
                while store.version("k") < 2 and not wrong:
                    time.sleep(0.0005)
                store.delete("k")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        latest = store.version("k")
        assert all(store.get("k", v) is not None for v in range(1, latest + 1))
        assert wrong == []
        store.close()


KILLED = """
import sys
from softhit.hierarchy.documents import make_documents
store = make_documents(sys.argv[1])
sys.stdin.readline()
for i in range(10 ** 9):
    key = f"k{i % 3}"
    made = store.upsert(key, f"{i} " * 100_000, {"i": i}, store.version(key))
    print(key, made.version, made.metadata["i"], flush=True)
"""


class TestKill:
    def test_in_the_middle_of_writes_leaves_whole_versions_only(self, kind: str, tmp_path: Path) -> None:
        rng = random.Random(417)
        for _ in range(6):
            writer = subprocess.Popen(
                [sys.executable, "-c", KILLED, str(tmp_path / WHERE[kind])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
            said = [writer.stdout.readline() for _ in range(rng.randrange(1, 8))]
            # anywhere inside the next write
            time.sleep(rng.random() * 0.02)
            os.kill(writer.pid, signal.SIGKILL)
            said += [line for line in writer.stdout if line.endswith("\n")]
            writer.communicate()
            assert writer.returncode == -signal.SIGKILL
            store = open_store(kind, tmp_path)
            for line in said:
                key, version, i = line.split()
                assert store.get(key, int(version)) == Record(
                    key, int(version), f"{i} " * 100_000, {"i": int(i)}
                )
            total = 0
            for key in list(store.keys()):
                latest = store.version(key)
                total += latest
                for version in range(1, latest + 1):
                    found = store.get(key, version)
                    assert found is not None
                    assert found.text == f"{found.metadata['i']} " * 100_000
                assert store.get(key, latest + 1) is None
            assert total >= len(said)
            for key in list(store.keys()):
                store.delete(key)
            store.close()

    def test_what_a_killed_writer_left_of_a_file_is_swept_later(self, tmp_path: Path) -> None:
        store = FolderDocuments(tmp_path)
        store.upsert("k", "1", {}, 0)
        old, new = tmp_path / ".softhit" / "new-0", tmp_path / ".softhit" / "new-1"
        old.write_text("half")
        new.write_text("half")
        os.utime(old, (time.time() - 7200,) * 2)
        FolderDocuments(tmp_path)
        assert (old.exists(), new.exists()) == (False, True)
        assert list(store.keys()) == ["k"]


class TestFailure:
    def test_a_lock_held_too_long_is_unavailable_and_reading_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "d.sqlite"
        store = SqliteDocuments(path, timeout=0)
        store.upsert("k", "1", {}, 0)
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            store.upsert("k", "2", {}, 1)
        assert store.get("k") == Record("k", 1, "1", {})
        assert store.search("1") == [Record("k", 1, "1", {})]
        blocker.close()
        assert store.upsert("k", "2", {}, 1).version == 2
        store.close()

    def test_a_full_sqlite_file_is_unavailable_and_keeps_what_it_had(self, tmp_path: Path) -> None:
        store = SqliteDocuments(tmp_path / "d.sqlite")
        store.upsert("k", "1", {}, 0)
        with store._database.write() as connection:
            connection.execute("PRAGMA max_page_count = 12")
        with pytest.raises(Unavailable, match="full"):
            store.upsert("k", "x" * 200_000, {}, 1)
        assert store.get("k") == Record("k", 1, "1", {})
        with store._database.write() as connection:
            connection.execute("PRAGMA max_page_count = 1000")
        assert store.upsert("k", "x" * 200_000, {}, 1).version == 2
        store.close()

    def test_a_file_that_may_not_grow_is_unavailable_and_leaves_no_half(self, tmp_path: Path) -> None:
        script = """
import resource, sys
from softhit.errors import Unavailable
from softhit.hierarchy.documents import FolderDocuments
store = FolderDocuments(sys.argv[1])
store.upsert("k", "1", {}, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    store.upsert("k", "x" * 100_000, {}, 1)
except Unavailable as error:
    print(store.version("k"), type(error.__cause__).__name__)
"""
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
        assert done.stdout.split() == ["1", "OSError"], done.stderr
        store = FolderDocuments(tmp_path)
        assert store.get("k") == Record("k", 1, "1", {})
        assert list((tmp_path / ".softhit").iterdir()) == []
        assert store.upsert("k", "2", {}, 1).version == 2

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EPERM, errno.EIO])
    @pytest.mark.parametrize("call", ["link", "fsync", "mkdir", "listdir"])
    def test_whatever_the_system_refuses_is_unavailable(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, code: int
    ) -> None:
        store = FolderDocuments(tmp_path)

        def refuse(*_: object, **__: object) -> object:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            with pytest.raises(Unavailable, match=os.strerror(code)):
                store.upsert("k", "1", {}, 0)
        # the write may have happened before the refusal; repeating it is right in either case
        assert store.upsert("k", "1", {}, 0) == Record("k", 1, "1", {})

    def test_a_folder_that_is_gone_is_unavailable_or_empty_but_no_crash(self, tmp_path: Path) -> None:
        store = FolderDocuments(tmp_path / "d")
        store.upsert("k", "1", {}, 0)
        (tmp_path / "d").rename(tmp_path / "moved")
        assert store.version("k") == 0
        with pytest.raises(Unavailable):
            list(store.keys())
        with pytest.raises(Unavailable):
            store.upsert("k", "1", {}, 0)

    def test_a_damaged_version_is_unavailable_not_a_wrong_text(self, tmp_path: Path) -> None:
        store = FolderDocuments(tmp_path)
        store.upsert("k", "the whole text", {}, 0)
        file = tmp_path / "k.versions" / "1.md"
        for damaged in (file.read_bytes()[:-3], b"", b"---\nsofthit: {}\n---\n", file.read_bytes()[4:]):
            file.write_bytes(damaged)
            with pytest.raises(Unavailable, match=r"k\.versions/1\.md is damaged"):
                store.get("k")


class TestTheFolder:
    @pytest.mark.parametrize("call", ["mkdir", "link"])
    def test_a_record_begun_again_during_a_write_is_not_taken_for_the_old_one(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str
    ) -> None:
        store, other = FolderDocuments(tmp_path), FolderDocuments(tmp_path)
        for version in range(3):
            store.upsert("k", f"{version}", {}, version)
        real = getattr(os, call)

        def first_begin_again(*args: object, **more: object) -> object:
            monkeypatch.setattr(os, call, real)
            other.delete("k")
            other.upsert("k", "new", {}, 0)
            return real(*args, **more)

        monkeypatch.setattr(os, call, first_begin_again)
        with pytest.raises(VersionConflict) as error:
            store.upsert("k", "late", {}, 3)
        assert error.value.found == 1
        assert [store.get("k", v) for v in (1, 4)] == [Record("k", 1, "new", {}), None]

    def test_is_for_people_to_read(self, tmp_path: Path) -> None:
        FolderDocuments(tmp_path).upsert("limits", "# Limits\n\n0.25\n", {"source": "document"}, 0)
        lines = (tmp_path / "limits.versions" / "1.md").read_text().splitlines()
        assert lines[0] == lines[2] == "---"
        assert lines[3:] == ["# Limits", "", "0.25"]
        assert json.loads(lines[1].removeprefix("softhit: "))["metadata"] == {"source": "document"}

    def test_no_key_leaves_it(self, tmp_path: Path) -> None:
        outside = tmp_path / "secret.md"
        outside.write_text("secret")
        root = tmp_path / "root"
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "b.md").write_text("secret")
        store = FolderDocuments(root)
        (root / "link.md").symlink_to(outside)
        (root / "linked").symlink_to(tmp_path / "elsewhere")
        before = sorted(tmp_path.rglob("*"))
        reaching = (
            "../secret.md",
            str(outside),
            "./../secret.md",
            "a/../../secret.md",
            "link.md",
            "linked/b.md",
        )
        for key in reaching:
            assert (store.get(key), store.version(key), store.delete(key)) == (None, 0, False)
        assert list(store.keys()) == []
        assert [p for p in sorted(tmp_path.rglob("*")) if ".softhit" not in p.parts] == before
        for key in reaching:
            store.upsert(key, "mine", {}, 0)
        new = set(tmp_path.rglob("*")) - set(before)
        assert len({p for p in new if p.name == "1.md"}) == len(reaching)
        assert all(p.is_relative_to(root) for p in new)
        assert outside.read_text() == "secret"

    @given(ANY_TEXT.filter(bool), ANY_TEXT.filter(bool))
    def test_names_of_two_keys_differ_where_case_and_composition_do_not_count(self, a: str, b: str) -> None:
        names = {unicodedata.normalize("NFD", quoted(key)).casefold() for key in {a, b, a.swapcase()}}
        assert len(names) == len({a, b, a.swapcase()})
        assert all(len(n) <= 200 and "/" not in n and "\0" not in n and n[0] != "." for n in names)

    def test_names_of_awkward_keys_differ(self) -> None:
        assert len({quoted(key).casefold() for key in AWKWARD}) == len(AWKWARD)


class TestAFolderOfTheUsers:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "notes").mkdir()
        (tmp_path / "limits.md").write_bytes(b"# Limits\r\n0.25\n")
        (tmp_path / "notes" / "Merchants.txt").write_text("merchant m-417", encoding="utf-8")
        (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
        (tmp_path / "picture.png").write_bytes(b"\x89PNG")
        (tmp_path / ".hidden.md").write_text("hidden")
        return tmp_path

    def test_is_read_as_first_versions(self, root: Path) -> None:
        store = FolderDocuments(root)
        assert list(store.keys()) == ["latin.txt", "limits.md", "notes/Merchants.txt"]
        assert store.get("limits.md") == Record(
            "limits.md", 1, "# Limits\r\n0.25\n", {"source": "document", "url": "limits.md"}
        )
        assert store.get("limits.md", 1) == store.get("limits.md")
        assert store.get("limits.md", 2) is None
        assert [r.key for r in store.search("merchant m")] == ["notes/Merchants.txt"]
        assert store.get("latin.txt").text == "caf\ufffd"  # type: ignore[union-attr]
        assert store.version(".hidden.md") == store.version("picture.png") == store.version("notes") == 0

    def test_is_not_written_to_when_a_later_version_comes(self, root: Path) -> None:
        store = FolderDocuments(root)
        files = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
        with pytest.raises(VersionConflict):
            store.upsert("limits.md", "0.40", {}, 0)
        assert store.upsert("limits.md", "0.40", {}, 1).version == 2
        assert store.get("limits.md") == Record("limits.md", 2, "0.40", {})
        assert store.get("limits.md", 1).text == "# Limits\r\n0.25\n"  # type: ignore[union-attr]
        assert {p: p.read_bytes() for p in files} == files
        assert list(store.keys()) == ["latin.txt", "limits.md", "notes/Merchants.txt"]

    def test_repeating_the_users_own_text_is_no_conflict(self, root: Path) -> None:
        assert FolderDocuments(root).upsert("notes/Merchants.txt", "merchant m-417", {}, 0).version == 1

    def test_deleting_deletes_the_users_file_too(self, root: Path) -> None:
        store = FolderDocuments(root)
        store.upsert("limits.md", "0.40", {}, 1)
        assert store.delete("limits.md")
        assert not (root / "limits.md").exists()
        assert (store.version("limits.md"), store.delete("limits.md")) == (0, False)


class TestMakeDocuments:
    def test_knows_a_store_by_where_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "existing").mkdir()
        assert isinstance(make_documents(":memory:"), SqliteDocuments)
        for name in ("a.sqlite", "a.sqlite3", "a.db"):
            store = make_documents(str(tmp_path / name))
            assert isinstance(store, SqliteDocuments)
            store.close()
        assert isinstance(make_documents(tmp_path / "existing"), FolderDocuments)
        assert isinstance(make_documents(tmp_path / "new"), FolderDocuments)
        (tmp_path / "a.sqlite").rename(tmp_path / "without-suffix")
        assert isinstance(make_documents(tmp_path / "without-suffix"), SqliteDocuments)
        assert not (tmp_path / "without-suffix").is_dir()

    def test_returns_a_store_as_it_is(self) -> None:
        store = SqliteDocuments()
        assert make_documents(store) is store
        assert isinstance(store, DocumentStore)

    def test_refuses_what_is_no_place(self, tmp_path: Path) -> None:
        for wrong in ("", None, 3):
            with pytest.raises(InvalidInput, match="where must be"):
                make_documents(wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize("suffix", ["", ".sqlite"])
    def test_says_which_place_there_cannot_be(self, suffix: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        for name in ("x" * 300, "file/below"):
            with pytest.raises(Unavailable, match=f"^documents .*{name}"):
                make_documents(tmp_path / f"{name}{suffix}")
        for name in ("a\0b", "half a pair \ud83d"):
            with pytest.raises(InvalidInput, match="path must be a path that"):
                make_documents(tmp_path / f"{name}{suffix}")

    def test_refuses_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("notes " * 1000)
        with pytest.raises(InvalidInput, match="SQLite"):
            make_documents(tmp_path / "a.txt")
        with pytest.raises(InvalidInput, match="folder"):
            FolderDocuments(tmp_path / "a.txt")

    def test_names_say_what_and_where(self, tmp_path: Path) -> None:
        assert str(tmp_path / "d") in make_documents(tmp_path / "d").name
        assert str(tmp_path / "d.db") in make_documents(tmp_path / "d.db").name
