"""A cold L2 is filled from L3: with records that stand for the others, once, and never beyond its size."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")

from softhit.errors import InvalidInput, Unavailable
from softhit.hierarchy.documents import FolderDocuments, SqliteDocuments
from softhit.hierarchy.seeding import Seeded, representatives, seed
from softhit.hierarchy.segment import Segment, digest_of
from softhit.hierarchy.semantic import SemanticCache
from softhit.hierarchy.vectors import make_vectors
from softhit.io import HashedTfidf

EMBEDDER = HashedTfidf(128)


class Words:
    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


@pytest.fixture(params=["qdrant", "edge"])
def open_cache(request, tmp_path):
    caches = []

    def one(capacity: int) -> SemanticCache:
        for cache in caches:
            cache.close()
        vectors = make_vectors(tmp_path / "l2", 128, engine=request.param)
        caches.append(SemanticCache(vectors, EMBEDDER, capacity))
        return caches[-1]

    yield one
    for cache in caches:
        cache.close()


@pytest.fixture(params=[SqliteDocuments, FolderDocuments])
def documents(request, tmp_path):
    store = request.param(tmp_path / "l3")
    for n in range(30):
        topic = ["refunds and their days", "disputes cost money", "the weather in Lisbon"][n % 3]
        store.upsert(f"d{n:02}", f"{topic}, note {n}", {"source": "document", "url": f"u{n}"}, expected=0)
    yield store
    store.close()


class TestSeed:
    def test_all_records_lie_in_l2_clean_and_searchable(self, open_cache, documents):
        cache = open_cache(100)
        seen = []
        done = seed(cache, documents, counter=Words(), progress=lambda *at: seen.append(at))
        assert done == Seeded(loaded=30, present=0, no_room=0)
        assert seen == [(n, 30) for n in range(1, 31)]
        assert (cache.count(), cache.count(dirty=True)) == (30, 0)
        [found] = cache.search("the weather in Lisbon, note 11", limit=1)
        text = "the weather in Lisbon, note 11"
        assert found.segment == Segment("d11", digest_of(text), 6, url="u11")
        assert found.text == text

    def test_run_again_it_writes_nothing(self, open_cache, documents):
        seed(open_cache(100), documents, counter=Words())
        cache = open_cache(100)
        before = cache.vectors.coldest(100)
        assert seed(cache, documents, counter=Words()) == Seeded(loaded=0, present=30, no_room=0)
        assert cache.vectors.coldest(100) == before

    @pytest.mark.parametrize("choose", ["representative", "first"])
    def test_interrupted_anywhere_it_ends_as_if_it_had_not_been(self, choose, open_cache, documents):
        class Stopped(Exception):
            pass

        for last in (1, 3, 7):

            def stop(done, _, last=last):
                if done == last:
                    raise Stopped

            with pytest.raises(Stopped):
                seed(open_cache(12), documents, choose=choose, counter=Words(), progress=stop)
        assert seed(open_cache(12), documents, choose=choose, counter=Words()) == Seeded(5, 7, 18)
        kept = {row.id for row in open_cache(12).vectors.coldest(100)}
        texts = [documents.get(f"d{n:02}").text for n in range(30)]
        want = range(12) if choose == "first" else representatives(EMBEDDER.embed(texts), 12)
        assert kept == {f"d{n:02}" for n in want}

    def test_few_representatives_cover_every_topic(self, open_cache, documents):
        cache = open_cache(3)
        assert seed(cache, documents, counter=Words()) == Seeded(loaded=3, present=0, no_room=27)
        for topic in ("refunds and their days", "disputes cost money", "the weather in Lisbon"):
            [found] = cache.search(topic, limit=1, least=0.5)
            assert found.text.startswith(topic)

    def test_nothing_in_l2_is_evicted_or_overwritten_for_it(self, open_cache, documents):
        cache = open_cache(5)
        for id, dirty in (("own", False), ("d01", True), ("d02", False)):
            cache.put(Segment(id, digest_of(id), 1, version=1), id, dirty=dirty)
        done = seed(cache, documents, choose="first", counter=Words())
        # of d00 .. d04, two were there and two had room; 25 more L2 cannot hold
        assert done == Seeded(loaded=2, present=2, no_room=26)
        assert {id: f.text for id, f in cache.get(["own", "d01", "d02"]).items()} == {
            "own": "own",
            "d01": "d01",
            "d02": "d02",
        }

    def test_newer_records_replace_older_clean_rows(self, open_cache, documents):
        cache = open_cache(100)
        seed(cache, documents, counter=Words())
        documents.upsert("d03", "a new text", {}, expected=1)
        assert seed(cache, documents, counter=Words()) == Seeded(loaded=1, present=29, no_room=0)
        assert cache.get(["d03"])["d03"].text == "a new text"

    def test_keys_may_be_named(self, open_cache, documents):
        cache = open_cache(100)
        chosen = ["d07", "absent", "d01", "d07"]
        assert seed(cache, documents, choose=chosen, counter=Words()).loaded == 2
        assert seed(cache, documents, choose=["d09", "d08"], limit=1, counter=Words()).loaded == 1
        assert {row.id for row in cache.vectors.coldest(9)} == {"d01", "d07", "d09"}
        assert seed(cache, documents, limit=0, counter=Words()) == Seeded(0, 0, 0)

    @pytest.mark.parametrize("choose", ["representative", "first", [f"d{n:02}" for n in range(30)]])
    def test_what_is_left_out_is_counted_where_l2_is_too_small_for_it(self, open_cache, documents, choose):
        def again(limit: int | None) -> Seeded:
            return seed(cache, documents, choose=choose, limit=limit, counter=Words())

        cache = open_cache(4)
        assert again(3) == Seeded(loaded=3, present=0, no_room=0)
        assert again(6) == Seeded(loaded=1, present=3, no_room=2)
        assert again(None) == Seeded(loaded=0, present=4, no_room=26)

    def test_what_l2_has_though_it_was_not_chosen_is_not_left_out(self, open_cache, documents):
        cache = open_cache(2)
        cache.put(Segment("d09", digest_of("x"), 1), "x", dirty=True)
        assert seed(cache, documents, choose="first", counter=Words()) == Seeded(1, 1, 28)
        named = ["d00", "d01", "absent", "d09"]
        assert seed(cache, documents, choose=named, counter=Words()) == Seeded(0, 2, 1)

    def test_what_means_nothing_is_refused(self, open_cache, documents):
        cache = open_cache(5)
        with pytest.raises(InvalidInput, match="did you mean 'representative'"):
            seed(cache, documents, choose="representativ")
        with pytest.raises(InvalidInput, match="limit"):
            seed(cache, documents, limit=-1)

    @pytest.mark.parametrize(
        "choose", [5, None, ["d01", 5], ["d01", ["d02"]], ["d01", ""], ["d01", "\ud83d"]]
    )
    def test_keys_that_are_none_are_refused_before_anything_is_loaded(self, open_cache, documents, choose):
        cache = open_cache(5)
        with pytest.raises(InvalidInput, match="choose must be "):
            seed(cache, documents, choose=choose, counter=Words())
        assert cache.count() == 0

    @pytest.mark.parametrize("choose", ["representative", "first"])
    @pytest.mark.parametrize("limit", [None, 2])
    def test_files_with_names_that_are_no_utf8_are_left_out(
        self, open_cache, tmp_path, caplog, choose, limit
    ):
        (tmp_path / "yours").mkdir()
        for name in (b"a.md", b"\xff.md", b"b.md", b"z.md"):
            (tmp_path / "yours" / os.fsdecode(name)).write_text(f"the file {name!r}")
        cache = open_cache(5)
        documents = FolderDocuments(tmp_path / "yours")
        assert list(documents.keys()) == ["a.md", "b.md", "z.md", "\udcff.md"]
        done = seed(cache, documents, choose=choose, limit=limit, counter=Words())
        assert (done.loaded, cache.count()) == (limit or 3, limit or 3)
        assert "1 of 4 records left out: no UTF-8 in keys such as '\\udcff.md'" in caplog.text

    def test_an_unreachable_store_is_an_error_and_the_job_can_be_repeated(self, open_cache, documents):
        cache = open_cache(50)

        def close(done, _):
            if done == 4:
                cache.close()

        with pytest.raises(Unavailable):
            seed(cache, documents, counter=Words(), progress=close)
        done = seed(open_cache(50), documents, counter=Words())
        assert (done.loaded, done.present) == (26, 4)

    def test_an_empty_l3_is_no_work(self, open_cache, tmp_path):
        empty = SqliteDocuments(tmp_path / "empty")
        assert seed(open_cache(5), empty, counter=Words()) == Seeded(0, 0, 0)
        empty.close()


class TestRepresentatives:
    @given(
        st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=8),
        st.integers(1, 4),
    )
    def test_no_row_is_farther_than_twice_the_least_possible(self, rows, count):
        points = np.array(rows, np.float32)
        chosen = representatives(points, count)
        assert len(chosen) == len(set(chosen)) == min(count, len(rows))
        distance = np.linalg.norm(points[:, None].astype(float) - points[None].astype(float), axis=2)
        radius = distance[:, chosen].min(axis=1).max()
        least = min(
            distance[:, list(some)].min(axis=1).max()
            for some in itertools.combinations(range(len(rows)), min(count, len(rows)))
        )
        assert radius <= 2 * least + 1e-9

    def test_a_smaller_choice_is_the_beginning_of_a_larger_one(self):
        points = np.random.default_rng(0).standard_normal((50, 7)).astype(np.float32)
        whole = representatives(points, 50)
        assert sorted(whole) == list(range(50))
        assert all(representatives(points, n) == whole[:n] for n in range(50))
        assert representatives(points[:0], 3) == []
