"""L2 never exceeds its size, never loses what L3 lacks, and serves what L3 says, by the present text."""

import dataclasses
import itertools
import threading
import uuid
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")

from softhit.errors import CacheFull, InvalidInput, NotInL3Yet, Unavailable
from softhit.hierarchy.documents import SqliteDocuments
from softhit.hierarchy.segment import Segment, digest_of
from softhit.hierarchy.semantic import Found, SemanticCache, metadata_of, segment_from, segment_of
from softhit.hierarchy.vectors import make_vectors
from softhit.hierarchy.writeback import WriteBack
from softhit.io import HashedTfidf
from tests.softhit.hierarchy.stand_in import serving

EMBEDDER = HashedTfidf(64)
TEXTS = [
    "refunds take five working days",
    "a dispute costs fifteen euros",
    "merchants of category nine need a deposit",
    "chargebacks above one percent are reviewed",
    "the weather in Lisbon is mild",
    "nothing \ud800 but a surrogate",
    "",
]


class Words:
    """Counts words: the project's own counter is tested elsewhere."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


def segment(id: str, text: str, version: int = 1, **more) -> Segment:
    return Segment(id, digest_of(text), len(text.split()), version=version, **more)


@pytest.fixture
def clock():
    return itertools.count(1).__next__


@pytest.fixture(params=["memory", "qdrant", "edge", "server"])
def opened(request, tmp_path, clock):
    """A function that opens a cache; on disk and on the server always the same one."""
    caches = []
    with serving() as (url, _):

        def open_cache(capacity: int = 10, embedder=EMBEDDER, **more) -> SemanticCache:
            for one in caches:
                one.close()
            where = {"memory": ":memory:", "server": url}.get(request.param, tmp_path / "l2")
            engine = "edge" if request.param == "edge" else "qdrant"
            vectors = make_vectors(where, embedder.dimension, engine=engine)
            more = {"clock": clock, "counter": Words()} | more
            try:
                cache = SemanticCache(vectors, embedder, capacity, **more)
            except BaseException:
                vectors.close()
                raise
            caches.append(cache)
            return cache

        open_cache.keeps = request.param != "memory"
        yield open_cache
        for one in caches:
            one.close()


@pytest.fixture
def documents():
    store = SqliteDocuments(":memory:")
    yield store
    store.close()


def stored_in(documents) -> dict[str, str]:
    return {key: documents.get(key).text for key in list(documents.keys())}


class Back:
    """A write-back in three lines, which can be told that L3 is down."""

    def __init__(self, cache: SemanticCache, documents: SqliteDocuments, most: int = 64) -> None:
        self.cache, self.documents, self.most, self.up, self.steps = cache, documents, most, True, 0

    def step(self, force: bool = False) -> int:
        self.steps += 1
        clean = 0
        for row in self.cache.dirty_rows(self.most) if self.up else []:
            found, version = self.documents.version(row.id), row.version
            if version <= found:
                version = found + 1
                assert self.cache.rebase(row.id, row.version, version)
            text = row.payload["text"]
            self.documents.upsert(row.id, text, metadata_of(row), expected=found, version=version)
            clean += self.cache.mark_clean(row.id, version, digest_of(text))
        return clean


class Down:
    """An L3 that cannot be reached, and says so in its own way."""

    def __init__(self, error=Unavailable):
        self.error = error

    def __getattr__(self, name):
        def fail(*_args, **_more):
            raise self.error("L3 is down")

        return fail


class Odd:
    """An embedder that has a bad day."""

    name, dimension = EMBEDDER.name, EMBEDDER.dimension

    def __init__(self):
        self.answer = EMBEDDER.embed

    def embed(self, texts):
        return self.answer(texts)


def _raise(texts):
    raise ConnectionError("no route to the model")


class TestAnEmbedderThatFails:
    @pytest.mark.parametrize(
        "answer",
        [
            _raise,
            lambda texts: None,
            lambda texts: [],
            lambda texts: np.full((1, 64), np.nan, np.float32),
            lambda texts: np.ones((1, 63), np.float32),
            lambda texts: [["x"] * 64],
        ],
    )
    def test_is_an_outage_that_changes_nothing(self, clock, answer):
        odd = Odd()
        cache = SemanticCache(make_vectors(":memory:", 64), odd, 5, clock=clock, counter=Words())
        cache.put(segment("a", TEXTS[0]), TEXTS[0])
        odd.answer = answer
        for call in (lambda: cache.search("refunds"), lambda: cache.put(segment("b", TEXTS[1]), TEXTS[1])):
            with pytest.raises(Unavailable, match=r"the embedder hashed_tfidf.* failed: "):
                call()
        odd.answer = EMBEDDER.embed
        assert [f.segment.id for f in cache.search(TEXTS[0], least=0.5)] == ["a"]
        assert cache.count() == 1
        cache.close()


class TestPut:
    def test_everything_a_segment_is_comes_back(self, opened):
        one = Segment(
            "a",
            digest_of(TEXTS[5]),
            7,
            source="tool_output",
            query="what \udfff",
            url="https://example.org/x",
            version=3,
            accesses=2,
            fields=("merchant_id", "date"),
            group="call 7",
            dirty=True,
            loaded_turn=4,
            last_turn=5,
        )
        cache = opened(agent_version="v7")
        stored = cache.put(one, TEXTS[5])
        assert stored == dataclasses.replace(one, dirty=False, accesses=0, loaded_turn=0, last_turn=None)
        assert cache.get(["a", "b", "a"]) == {"a": Found(stored, TEXTS[5], 1.0)}
        [row] = cache.dirty_rows()
        assert row.payload["agent_version"] == "v7"
        assert row.payload["accesses"] == 2
        record_like = metadata_of(row)
        assert record_like["fields"] == ["merchant_id", "date"]
        assert {"text", "digest", "version", "dirty", "token_count", "source_url", "source_type"} <= set(
            row.payload
        )

    def test_a_repeated_write_changes_nothing(self, opened):
        cache = opened()
        cache.put(segment("a", TEXTS[0]), TEXTS[0])
        cache.touch(["a"], 3)
        before = cache.vectors.fetch(["a"])["a"]
        assert cache.put(segment("a", TEXTS[0]), TEXTS[0]) == segment("a", TEXTS[0])
        assert cache.vectors.fetch(["a"])["a"] == before
        assert cache.mark_clean("a", 1)
        cache.put(segment("a", TEXTS[0]), TEXTS[0])
        assert cache.count(dirty=True) == 0

    def test_a_write_that_was_rebased_and_is_repeated_changes_nothing(self, opened):
        cache = opened()
        cache.put(segment("a", TEXTS[1], 4), TEXTS[1])
        first = cache.put(segment("a", TEXTS[0], 2), TEXTS[0])
        assert first.version == 5
        assert cache.put(segment("a", TEXTS[0], 2), TEXTS[0]).version == 5

    def test_another_text_takes_the_next_version_and_an_event_says_so(self, opened):
        events = []
        cache = opened(on_event=events.append)
        cache.put(segment("a", TEXTS[0], 2), TEXTS[0])
        assert cache.put(segment("a", TEXTS[1], 2), TEXTS[1]).version == 3
        assert cache.put(segment("a", TEXTS[2], 9), TEXTS[2]).version == 9
        assert [(e["kind"], e["segment"], e["version"], e["asked"]) for e in events] == [
            ("rebase", "a", 3, 2)
        ]

    def test_two_agents_texts_of_one_id_both_reach_l3(self, opened, documents):
        cache = opened()
        back = cache.writer = Back(cache, documents)
        cache.put(segment("answer", TEXTS[0]), TEXTS[0])
        # neither knows of the other's: each calls its own version 1
        assert cache.put(segment("answer", TEXTS[1]), TEXTS[1]).version == 2
        back.step()
        assert [documents.get("answer", v).text for v in (1, 2)] == [TEXTS[0], TEXTS[1]]

    def test_another_agents_text_waits_while_l3_cannot_take_the_one_that_is_here(self, opened, documents):
        cache = opened()
        back = cache.writer = Back(cache, documents)
        back.up = False
        cache.put(segment("answer", TEXTS[0]), TEXTS[0])
        with pytest.raises(NotInL3Yet, match="another text of 'answer' that is not in L3 yet"):
            cache.put(segment("answer", TEXTS[1]), TEXTS[1])
        assert cache.get(["answer"])["answer"].text == TEXTS[0]
        # whoever knows of it may replace it
        assert cache.put(segment("answer", TEXTS[2], 2), TEXTS[2]).version == 2

    def test_what_comes_from_l3_never_replaces_what_l3_lacks(self, opened):
        cache = opened()
        cache.put(segment("a", TEXTS[0], 1), TEXTS[0])
        assert cache.put(segment("a", TEXTS[1], 5), TEXTS[1], dirty=False).version == 1
        assert cache.get(["a"])["a"].text == TEXTS[0]
        assert cache.count(dirty=True) == 1
        # the same text there means that L3 does have it
        assert cache.put(segment("a", TEXTS[0], 5), TEXTS[0], dirty=False).version == 5
        assert cache.count(dirty=True) == 0

    @pytest.mark.parametrize("id", ["", 3, "half a pair \ud83d"])
    def test_an_id_that_no_checkpoint_could_hold_is_refused(self, opened, id):
        cache = opened()
        with pytest.raises(InvalidInput, match="id of the segment must be a text that"):
            cache.put(segment(id, TEXTS[0]), TEXTS[0])
        assert cache.count() == 0

    def test_a_text_that_is_not_the_segments_is_refused(self, opened):
        with pytest.raises(InvalidInput, match="not the one of its digest"):
            opened().put(segment("a", TEXTS[0]), TEXTS[1])

    def test_a_derived_text_is_found_by_its_own_words_not_by_the_original_ones(self, opened):
        cache = opened()
        cache.put(segment("a", TEXTS[0]), TEXTS[0], dirty=False)
        cache.put(segment("a", TEXTS[3], 2, source="agent_derived"), TEXTS[3])
        assert [f.text for f in cache.search("reviewed chargebacks above percent", least=0.3)] == [TEXTS[3]]
        assert cache.search("how many working days do refunds take", least=0.3) == []
        if opened.keeps:  # the next run
            assert [f.segment.version for f in opened().search("chargebacks", least=0.1)] == [2]

    def test_threads_that_write_the_same_rows_evict_no_more_than_they_must(self, opened):
        events = []
        cache = opened(capacity=8, on_event=events.append)
        failed: list[BaseException] = []

        def work(me: int) -> None:
            try:
                for n in range(12):
                    text = f"{me} says {n}"
                    cache.put(segment(f"{n}", text), text, dirty=False)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert cache.count() == 8
        assert {event["kind"] for event in events} == {"evict_l2"}


class TestSize:
    def test_the_coldest_clean_rows_leave_ties_by_id(self, opened):
        cache = opened(capacity=5, clock=lambda: 7)
        for id in "ecadb":
            cache.put(segment(id, id), id, dirty=id == "a")
        cache.touch(["b"])
        cache.put(segment("f", "f"), "f")
        assert set(cache.get("abcdef")) == set("abdef")
        cache.put(segment("g", "g"), "g")
        assert set(cache.get("abcdefg")) == set("abefg")

    def test_putting_an_item_again_evicts_nothing_least_of_all_itself(self, opened):
        cache = opened(capacity=3)
        for id in "abc":
            cache.put(segment(id, id), id, dirty=False)
        for text in ("a", "a again", "and a again"):
            cache.put(segment("a", text), text, dirty=False)
            cache.put(segment("a", text), text)
            assert set(cache.get("abc")) == set("abc")
        assert cache.evict() == []

    def test_a_new_row_is_not_evicted_for_itself(self, opened):
        cache = opened(capacity=2, clock=lambda: 0)
        for n in range(20):
            cache.put(segment(f"{n}", f"text {n}"), f"text {n}", dirty=False)
            assert f"{n}" in cache.get([f"{n}"])
            assert cache.count() <= 2

    def test_an_l2_of_dirty_rows_only_refuses_until_l3_took_them(self, opened, documents):
        cache = opened(capacity=3)
        for id in "abc":
            cache.put(segment(id, id), id)
        with pytest.raises(CacheFull, match=r"3 rows \(capacity 3\), of which 3 are not in L3 yet; 'd'"):
            cache.put(segment("d", "d"), "d")
        back = cache.writer = Back(cache, documents)
        back.up = False
        with pytest.raises(CacheFull):
            cache.put(segment("d", "d"), "d")
        assert back.steps == 1
        assert set(cache.get("abcd")) == set("abc")
        back.up = True
        cache.put(segment("d", "d"), "d")
        assert set(cache.get("abcd")) == set("bcd")
        assert stored_in(documents) == {"a": "a", "b": "b", "c": "c"}

    def test_an_l2_does_not_grow_over_thousands_of_derived_texts(self, opened, documents):
        cache = opened(capacity=6, documents=documents)
        cache.writer = Back(cache, documents, most=3)
        for n in range(80):
            cache.put(segment(f"{n}", f"derived {n}"), f"derived {n}")
            assert cache.count() <= 6
        cache.writer.step()
        cache.writer.step()
        assert stored_in(documents) == {f"{n}": f"derived {n}" for n in range(80)}

    def test_a_store_reopened_with_less_room_shrinks_as_far_as_it_is_clean(self, opened, documents):
        if not opened.keeps:
            pytest.skip("memory is not reopened")
        cache = opened(capacity=10)
        for n in range(10):
            cache.put(segment(f"{n}", f"text {n}"), f"text {n}", dirty=n < 6)
        cache.touch(["9"])
        cache = opened(capacity=7)
        assert set(cache.get(map(str, range(10)))) == set("0123459")
        cache = opened(capacity=3)
        assert set(cache.get(map(str, range(10)))) == set("012345")
        with pytest.raises(CacheFull, match=r"6 rows \(capacity 3\)"):
            cache.put(segment("new", "new"), "new")
        cache.put(segment("5", "five"), "five")  # what is there may change
        cache.writer = Back(cache, documents)  # setting it tries at once
        assert set(cache.get(map(str, range(10)))) == set("345")
        cache.put(segment("new", "new"), "new")
        assert cache.count() == 3
        assert documents.get("0").text == "text 0"

    def test_a_write_back_in_small_steps_is_asked_until_it_fits(self, opened, documents):
        if not opened.keeps:
            pytest.skip("memory is not reopened")
        cache = opened(capacity=6)
        for n in range(6):
            cache.put(segment(f"{n}", f"text {n}"), f"text {n}")
        cache = opened(capacity=2)
        cache.writer = Back(cache, documents, most=1)
        assert set(cache.get(map(str, range(6)))) == set("45")
        assert len(stored_in(documents)) == 4

    def test_evicting_below_the_capacity_tries_to_write_back_first(self, opened, documents):
        cache = opened(capacity=5)
        for n in range(5):
            cache.put(segment(f"{n}", f"text {n}"), f"text {n}", dirty=n < 3)
        assert cache.evict(3) == ["3", "4"]
        assert cache.evict(1) == []
        cache.writer = Back(cache, documents)
        assert cache.evict(1) == ["0", "1"]
        assert cache.evict(0) == ["2"]
        assert cache.count() == 0


class TestCoherence:
    def test_a_row_does_not_outlive_its_record(self, opened, documents):
        events = []
        cache = opened(documents=documents, on_event=events.append)
        for id, text in zip("abc", TEXTS, strict=False):
            documents.upsert(id, text, {}, expected=0)
            cache.put(segment(id, text), text, dirty=False)
        documents.delete("a")
        assert [f.segment.id for f in cache.search(TEXTS[0], limit=1, least=-1)] != ["a"]
        documents.delete("b")
        assert set(cache.get("abc")) == {"c"}
        assert cache.count() == 1
        assert [(e["kind"], e["segment"]) for e in events] == [("drop_l2", "a"), ("drop_l2", "b")]

    def test_dropped_rows_are_replaced_by_the_next_best_ones(self, opened, documents):
        cache = opened(documents=documents)
        for n in range(8):
            text = "refunds " * (8 - n) + f"days {n}"
            cache.put(segment(f"{n}", text), text, dirty=n >= 6)
        assert [f.segment.id for f in cache.search("refunds", limit=2, least=-1)] == ["6", "7"]

    def test_a_newer_record_is_served_and_found_by_its_own_words(self, opened, documents):
        cache = opened(documents=documents)
        for id, text in (("a", TEXTS[0]), ("b", TEXTS[1])):
            documents.upsert(id, text, {}, expected=0)
            cache.put(segment(id, text), text, dirty=False)
        cache.touch(["a"], 4)
        documents.upsert("a", TEXTS[4], {"source": "tool_output", "fields": ["city"]}, expected=1)
        assert cache.search("working days refunds", least=0.3) == []
        [found] = cache.search("mild weather", least=0.3)
        assert found.text == TEXTS[4]
        assert found.segment == segment("a", TEXTS[4], 2, source="tool_output", fields=("city",))
        assert cache.vectors.fetch(["a"])["a"].payload["accesses"] == 4
        assert cache.count(dirty=True) == 0

    def test_dirty_rows_are_not_compared(self, opened, documents):
        cache = opened(documents=documents)
        cache.put(segment("a", TEXTS[0]), TEXTS[0])
        assert [f.segment.id for f in cache.search(TEXTS[0])] == ["a"]

    @pytest.mark.parametrize("error", [Unavailable, RuntimeError, KeyError])
    def test_while_l3_is_down_l2_still_serves(self, opened, error):
        cache = opened(documents=Down(error))
        cache.put(segment("a", TEXTS[0]), TEXTS[0], dirty=False)
        assert [f.segment.id for f in cache.search(TEXTS[0])] == ["a"]
        assert set(cache.get(["a"])) == {"a"}
        with pytest.raises(error):
            cache.reconcile()
        assert cache.count() == 1

    def test_reconciling_treats_every_clean_row(self, opened, documents):
        cache = opened(documents=documents)
        for n, id in enumerate("abcd"):
            if id != "d":
                documents.upsert(id, TEXTS[n], {}, expected=0)
            cache.put(segment(id, TEXTS[n]), TEXTS[n], dirty=id == "d")
        documents.delete("a")
        documents.upsert("b", TEXTS[6], {}, expected=1)
        done = cache.reconcile()
        assert (done.dropped, done.refreshed) == (("a",), ("b",))
        assert {id: f.text for id, f in cache.get("abcd").items()} == {
            "b": TEXTS[6],
            "c": TEXTS[2],
            "d": TEXTS[3],
        }
        assert cache.reconcile().dropped == ()

    def test_forgetting_deletes_a_row_of_either_kind(self, opened):
        cache = opened()
        cache.put(segment("a", "a"), "a")
        cache.put(segment("b", "b"), "b", dirty=False)
        assert [cache.forget(id) for id in "abc"] == [True, True, False]
        assert cache.count() == 0

    def test_a_text_derived_anew_while_a_search_compares_is_not_overwritten(
        self, opened, documents, monkeypatch
    ):
        cache = opened(documents=documents)
        documents.upsert("a", TEXTS[0], {}, expected=0)
        cache.put(segment("a", TEXTS[0]), TEXTS[0], dirty=False)
        documents.upsert("a", TEXTS[4], {}, expected=1)
        real = documents.get

        def meanwhile(key):
            # the new row has the version of the one that was compared, 1, and another text
            monkeypatch.undo()
            assert cache.evict(0) == ["a"]
            cache.put(segment("a", TEXTS[1]), TEXTS[1])
            return real(key)

        monkeypatch.setattr(documents, "get", meanwhile)
        assert [found.text for found in cache.get(["a"]).values()] == [TEXTS[1]]
        row = cache.vectors.fetch(["a"])["a"]
        assert (row.version, row.dirty, row.payload["text"]) == (1, True, TEXTS[1])

    def test_metadata_that_make_no_sense_do_no_harm(self, documents):
        record = documents.upsert("a", "x", {"source": "rumour", "url": 7, "fields": "ab"}, expected=0)
        assert segment_from(record, 3) == Segment("a", digest_of("x"), 3)

    def test_names_of_fields_that_no_checkpoint_could_hold_are_left_out(self, documents):
        record = documents.upsert("a", "x", {"fields": ["day", "half a pair \ud83d"]}, expected=0)
        assert segment_from(record, 3).fields == ("day",)


class TestWriteBack:
    def test_a_write_that_lands_between_the_upsert_and_the_mark_stays_dirty(self, opened, documents):
        cache = opened()
        cache.put(segment("a", TEXTS[0]), TEXTS[0])
        [row] = cache.dirty_rows()
        documents.upsert("a", row.payload["text"], {}, expected=0)
        cache.put(segment("a", TEXTS[1], 2), TEXTS[1])  # now
        assert not cache.mark_clean("a", row.version)
        assert [r.payload["text"] for r in cache.dirty_rows()] == [TEXTS[1]]
        assert not cache.rebase("a", expected=1, version=7)
        with pytest.raises(InvalidInput, match="version must be an integer >= 3"):
            cache.rebase("a", expected=2, version=2)
        assert cache.rebase("a", expected=2, version=7)
        assert not cache.mark_clean("a", 7, digest_of(TEXTS[0]))
        assert cache.mark_clean("a", 7, digest_of(TEXTS[1]))
        assert cache.get(["a"])["a"].segment.version == 7

    def test_threads_fill_a_small_l2_while_the_real_write_back_runs_and_nothing_is_lost(
        self, opened, tmp_path
    ):
        documents = SqliteDocuments(tmp_path / "l3")
        cache = opened(capacity=3, documents=documents)
        writer = cache.writer = WriteBack(cache, documents, batch=2)
        writer.start()
        failed: list[BaseException] = []

        def work(me: int) -> None:
            try:
                for n in range(12):
                    text = f"{me} found {n}"
                    while True:
                        try:
                            cache.put(segment(f"{me}-{n}", text), text)
                            break
                        except CacheFull:  # all rows are under way in the other thread: stays in L1
                            writer.wake()
                    cache.search(text, limit=2, least=-1)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads)
        assert not failed
        assert writer.drain(60)
        writer.stop()
        assert cache.count() <= 3
        assert stored_in(documents) == {f"{me}-{n}": f"{me} found {n}" for me in range(3) for n in range(12)}
        documents.close()

    def test_dirty_rows_come_coldest_first(self, opened):
        cache = opened()
        for id in "cab":
            cache.put(segment(id, id), id)
        cache.touch(["c", "none"], 2)
        cache.touch(["a"], 0)
        assert [row.id for row in cache.dirty_rows()] == ["b", "a", "c"]
        assert [row.id for row in cache.dirty_rows(1)] == ["b"]


class TestEmbedder:
    def test_a_store_of_another_embedder_is_refused(self, opened):
        class Other(HashedTfidf):
            name = "other(64)"

        if not opened.keeps:
            pytest.skip("memory is not reopened")
        opened().put(segment("a", TEXTS[0]), TEXTS[0])
        with pytest.raises(InvalidInput, match=r"filled by the embedder hashed_tfidf\(64\), not other\(64\)"):
            opened(embedder=Other(64))
        assert opened().count() == 1

    def test_one_that_was_refitted_is_refused_though_its_name_is_the_same(self, opened):
        if not opened.keeps:
            pytest.skip("memory is not reopened")
        opened().put(segment("a", TEXTS[0]), TEXTS[0])
        fitted = EMBEDDER.fit([*TEXTS, "refunds", "refunds of days", "days"])
        assert fitted.name == EMBEDDER.name
        with pytest.raises(InvalidInput, match="was it refitted"):
            opened(embedder=fitted)

    def test_scores_are_cosines_of_the_texts(self, opened):
        cache = opened()
        for n, text in enumerate(TEXTS):
            cache.put(segment(f"{n}", text), text)
        query = "five euros for the weather"
        want = EMBEDDER.embed(TEXTS).astype(float) @ EMBEDDER.embed([query])[0].astype(float)
        order = sorted(range(len(TEXTS)), key=lambda n: (-round(want[n], 6), str(n)))
        found = cache.search(query, limit=20, least=-1)
        assert [int(f.segment.id) for f in found] == order
        assert np.allclose([f.score for f in found], want[order], atol=1e-6)
        few = cache.search(query, limit=2, least=0.05, exclude=[f"{order[0]}"])
        assert [int(f.segment.id) for f in few] == [n for n in order[1:3] if want[n] >= 0.05]
        assert cache.search(query, limit=0) == []


class Whole(RuleBasedStateMachine):
    """The cache and L3 against dictionaries, over reopening, with L3 going up and down."""

    kind = "memory"
    root = Path()

    @initialize(capacity=st.integers(1, 4))
    def begin(self, capacity):
        self.folder = self.root / uuid.uuid4().hex
        self.now = 0
        self.capacity = capacity
        self.rows: dict[str, dict] = {}
        self.records: dict[str, tuple[int, str]] = {}
        self.documents = SqliteDocuments(":memory:")
        self.up = True
        self.cache = None
        self.open()

    def open(self):
        if self.kind == "memory":
            vectors = self.cache.vectors if self.cache else make_vectors(":memory:", 64)
        else:
            if self.cache:
                self.cache.close()
            vectors = make_vectors(self.folder, 64, engine=self.kind)
        self.cache = SemanticCache(
            vectors, EMBEDDER, self.capacity, documents=self.documents, clock=self.tick, counter=Words()
        )
        self.most = self.cache.count()

    def tick(self):
        self.now += 1
        return self.now

    def teardown(self):
        if getattr(self, "cache", None):
            self.cache.close()
            self.documents.close()

    def colder(self, count):
        """Ids of the coldest clean rows of the model."""
        clean = [(r["accesses"], r["last"], id) for id, r in self.rows.items() if not r["dirty"]]
        return [id for *_, id in sorted(clean)[: max(count, 0)]]

    @rule(id=st.sampled_from("abcdef"), text=st.sampled_from(TEXTS), version=st.integers(1, 3))
    def put(self, id, text, version):
        row = self.rows.get(id)
        if row is None:
            victims = self.colder(len(self.rows) + 1 - self.capacity)
            if len(self.rows) - len(victims) >= self.capacity:
                with pytest.raises(CacheFull):
                    self.cache.put(segment(id, text, version), text)
                for victim in victims:  # on the way to the smaller capacity
                    del self.rows[victim]
                return
            for victim in victims:
                del self.rows[victim]
            row = self.rows[id] = {"version": version, "accesses": 0}
        elif row["text"] == text and row["version"] >= version:
            assert self.cache.put(segment(id, text, version), text).version == row["version"]
            return
        else:
            row["version"] = max(version, row["version"] + 1)
        assert self.cache.put(segment(id, text, version), text).version == row["version"]
        row.update(text=text, dirty=True, last=self.now)

    @rule(id=st.sampled_from("abcdef"), times=st.integers(0, 2))
    def touch(self, id, times):
        self.cache.touch([id], times)
        if id in self.rows:
            self.rows[id]["accesses"] += times
            self.rows[id]["last"] = self.now

    @rule()
    def write_back(self):
        for row in self.cache.dirty_rows(1):
            mine = self.rows[row.id]
            latest = self.records.get(row.id, (0, ""))[0]
            if row.version <= latest:
                assert self.cache.rebase(row.id, row.version, latest + 1)
                mine["version"] = latest + 1
            version, text = mine["version"], mine["text"]
            self.documents.upsert(row.id, text, metadata_of(row), expected=latest, version=version)
            self.records[row.id] = (version, text)
            assert not self.cache.mark_clean(row.id, version, digest_of(text + "."))
            assert self.cache.mark_clean(row.id, version, digest_of(text))
            mine["dirty"] = False

    @rule(id=st.sampled_from("abcdef"), text=st.sampled_from(TEXTS))
    def somebody_writes_l3(self, id, text):
        latest, held = self.records.get(id, (0, None))
        if held != text:
            self.documents.upsert(id, text, {}, expected=latest)
            self.records[id] = (latest + 1, text)

    @rule(id=st.sampled_from("abcdef"))
    def somebody_deletes_from_l3(self, id):
        self.documents.delete(id)
        self.records.pop(id, None)

    def settle(self, ids):
        """What serving these rows does to the model."""
        for id in ids:
            row = self.rows.get(id)
            if row is None or row["dirty"]:
                continue
            held = self.records.get(id)
            if held is None:
                del self.rows[id]
            elif held[0] != row["version"]:
                row.update(version=held[0], text=held[1])

    @rule()
    def reconcile(self):
        self.cache.reconcile()
        self.settle(list(self.rows))

    @rule(query=st.sampled_from(TEXTS))
    def search_all(self, query):
        found = self.cache.search(query, limit=20, least=-1)
        self.settle(list(self.rows))
        assert {f.segment.id: f.text for f in found} == {id: r["text"] for id, r in self.rows.items()}
        v = EMBEDDER.embed([query])[0].astype(float)
        want = {id: float(EMBEDDER.embed([r["text"]])[0].astype(float) @ v) for id, r in self.rows.items()}
        assert [f.segment.id for f in found] == sorted(want, key=lambda id: (-round(want[id], 6), id))

    @rule(least=st.none() | st.integers(0, 4))
    def evict(self, least):
        victims = self.colder(len(self.rows) - (self.capacity if least is None else least))
        assert self.cache.evict(least) == victims
        for victim in victims:
            del self.rows[victim]

    @rule(capacity=st.integers(1, 4))
    def reopen(self, capacity):
        self.capacity = capacity
        for victim in self.colder(len(self.rows) - capacity):
            del self.rows[victim]
        self.open()

    @invariant()
    def same(self):
        if not getattr(self, "cache", None):
            return
        rows = {row.id: row for row in self.cache.vectors.coldest(100, dirty=None)}
        seen = {
            id: {
                "version": row.version,
                "text": row.payload["text"],
                "dirty": row.dirty,
                "accesses": row.payload["accesses"],
                "last": row.payload["last_access"],
            }
            for id, row in rows.items()
        }
        assert seen == self.rows
        assert all(segment_of(row).digest == digest_of(row.payload["text"]) for row in rows.values())
        assert len(rows) <= max(self.capacity, self.most)


@pytest.mark.parametrize("kind", ["memory", "qdrant", "edge"])
def test_the_whole_is_what_dictionaries_say(kind, tmp_path):
    machine = type(f"Whole_{kind}", (Whole,), {"kind": kind, "root": tmp_path})
    examples = 40 if kind == "memory" else 12
    profile = settings(
        stateful_step_count=40, max_examples=examples, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(machine, settings=profile)
