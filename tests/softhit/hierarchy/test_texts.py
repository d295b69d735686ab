"""Every text whose digest was returned can be read, by anyone, after anything but its collection."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softhit.errors import InvalidInput, Unavailable
from softhit.hierarchy import digest_of
from softhit.hierarchy.texts import Texts

ANY_TEXT = st.text(st.characters())  # lone surrogates and NUL included


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "texts.sqlite"


class TestPut:
    @given(st.lists(ANY_TEXT))
    def test_what_was_put_is_returned_by_its_digest(self, texts: list[str]) -> None:
        with Texts() as store:
            digests = [store.put(text) for text in texts]
            assert [store.get(digest) for digest in digests] == texts
            assert digests == [digest_of(text) for text in texts]
            assert len(store) == len(set(texts))

    @given(st.lists(ANY_TEXT))
    def test_many_at_once_are_as_many_one_by_one(self, texts: list[str]) -> None:
        with Texts() as one, Texts() as other:
            assert one.put_many(texts) == [other.put(text) for text in texts]
            assert len(one) == len(other)

    def test_twice_stores_it_once(self, path: Path) -> None:
        with Texts(path) as store:
            assert store.put("a") == store.put("a")
            assert len(store) == 1

    def test_what_is_there_is_not_written_again(self, path: Path) -> None:
        with Texts(path, timeout=0) as store:
            digest = store.put("a")
            blocker = sqlite3.connect(path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            assert store.put("a") == digest
            with pytest.raises(Unavailable):
                store.put("b")
            blocker.close()

    @pytest.mark.parametrize("wrong", [None, b"bytes", 3])
    def test_only_strings_are_texts(self, wrong: object) -> None:
        with Texts() as store, pytest.raises(InvalidInput, match="text must be a string"):
            store.put(wrong)  # type: ignore[arg-type]

    def test_a_mebibyte_comes_back(self, path: Path) -> None:
        text = "añ👍" * 150_000
        with Texts(path) as store:
            assert store.get(store.put(text)) == text


class TestGet:
    def test_an_unknown_digest_is_named(self) -> None:
        with Texts() as store, pytest.raises(InvalidInput, match="cafe"):
            store.get("cafe")

    def test_contains_says_what_is_there(self) -> None:
        with Texts() as store:
            digest = store.put("a")
            assert digest in store
            assert digest_of("b") not in store
            assert 3 not in store


class TestCollect:
    @given(st.sets(ANY_TEXT), st.sets(ANY_TEXT))
    def test_leaves_exactly_what_is_to_be_kept(self, stored: set[str], kept: set[str]) -> None:
        with Texts() as store:
            store.put_many(stored)
            assert store.collect([digest_of(text) for text in kept]) == len(stored - kept)
            for text in stored:
                assert (digest_of(text) in store) == (text in kept)

    def test_may_be_repeated(self, path: Path) -> None:
        with Texts(path) as store:
            store.put_many(["a", "b"])
            keep = {digest_of("a")}
            assert [store.collect(keep), store.collect(keep), store.collect([])] == [1, 0, 1]

    def test_a_single_string_is_no_collection(self) -> None:
        with Texts() as store, pytest.raises(InvalidInput, match="keep"):
            store.collect(store.put("a"))


class TestSharing:
    def test_two_objects_on_one_file_see_each_others_texts(self, path: Path) -> None:
        with Texts(path) as one, Texts(path) as other:
            assert other.get(one.put("a")) == "a"
            assert one.get(other.put("b")) == "b"

    def test_many_threads_may_put_and_get_at_once(self, path: Path) -> None:
        wrong: list[object] = []

        def work(store: Texts, k: int) -> None:
            try:
                for i in range(40):
                    text = f"{i % 7}-{k % 3}"
                    if store.get(store.put(text)) != text:
                        wrong.append(text)
            except Exception as error:
                wrong.append(error)

        with Texts(path) as one, Texts(path) as other:
            threads = [threading.Thread(target=work, args=((one, other)[k % 2], k)) for k in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wrong == []
            assert len(one) == 21

    def test_a_write_that_waits_for_a_lock_does_not_hold_up_reading(self, path: Path) -> None:
        with Texts(path, timeout=30) as store:
            digest = store.put("a")
            blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            blocker.execute("BEGIN IMMEDIATE")
            waiting = threading.Thread(target=store.put, args=("b",))
            waiting.start()
            deadline = time.monotonic() + 0.2
            while time.monotonic() < deadline:
                assert store.get(digest) == "a"
            assert waiting.is_alive()
            blocker.execute("ROLLBACK")
            waiting.join()
            assert digest_of("b") in store
            blocker.close()


class TestFailure:
    def test_a_file_that_is_no_database_is_refused(self, path: Path) -> None:
        path.write_text("these are notes, and no database " * 100)
        with pytest.raises(InvalidInput, match="SQLite"):
            Texts(path)

    def test_a_folder_in_its_place_is_unavailable(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable):
            Texts(tmp_path)

    def test_a_file_in_place_of_its_folder_is_unavailable(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("x")
        with pytest.raises(Unavailable):
            Texts(tmp_path / "a" / "b.sqlite")

    @pytest.mark.parametrize("wrong", [None, "", 3])
    def test_what_is_no_path_is_refused(self, wrong: object) -> None:
        with pytest.raises(InvalidInput, match="path"):
            Texts(wrong)  # type: ignore[arg-type]

    def test_a_full_disk_is_unavailable_and_leaves_what_was_there(self, path: Path) -> None:
        with Texts(path) as store:
            digest = store.put("a")
            with store._database.write() as connection:
                connection.execute("PRAGMA max_page_count = 4")
            with pytest.raises(Unavailable, match="full"):
                store.put("b" * 100_000)
            assert store.get(digest) == "a"
            assert digest_of("b" * 100_000) not in store
            with store._database.write() as connection:
                connection.execute("PRAGMA max_page_count = 1000")
            assert store.get(store.put("b" * 100_000)) == "b" * 100_000

    def test_a_closed_store_says_so_and_closes_twice(self, path: Path) -> None:
        store = Texts(path)
        store.close()
        store.close()
        with pytest.raises(Unavailable, match="closed"):
            store.put("a")
        with pytest.raises(Unavailable, match="closed"):
            store.get("a")


WRITER = """
import sys
from softhit.hierarchy.texts import Texts
store = Texts(sys.argv[1])
for i in range(10 ** 9):
    print(store.put(f"text {i} " * 200), flush=True)
"""


class TestKill:
    def test_every_digest_that_a_killed_process_returned_can_be_read(self, path: Path) -> None:
        for round in range(3):
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
            )
            assert writer.stdout is not None
            seen = [writer.stdout.readline().strip() for _ in range(20 + 13 * round)]
            os.kill(writer.pid, signal.SIGKILL)
            seen += [line.strip() for line in writer.stdout if line.endswith("\n")]
            writer.stdout.close()
            assert writer.wait() == -signal.SIGKILL
            with Texts(path) as store:
                assert len(seen) >= 20
                for i, digest in enumerate(seen):
                    assert store.get(digest) == f"text {i} " * 200
                # and what was under way is there whole or not at all
                with store._database.read() as connection:
                    rows = connection.execute("SELECT digest, text FROM texts").fetchall()
                assert all(digest_of(bytes(text).decode()) == digest for digest, text in rows)


OPENER = """
import sys
from softhit.hierarchy.texts import Texts
sys.stdin.readline()
print(Texts(sys.argv[1]).put("a"))
"""


class TestOpening:
    def test_several_processes_may_create_the_file_at_once(self, path: Path) -> None:
        command = [sys.executable, "-c", OPENER, str(path)]
        pipe = subprocess.PIPE
        several = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
        for one in several:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        assert [one.communicate()[0].strip() for one in several] == [digest_of("a")] * 4
