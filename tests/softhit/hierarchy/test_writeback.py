"""What is dirty in L2 reaches L3 whatever comes in between, and stays dirty, visibly, until it does."""

import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client")

from softhit.errors import CacheFull, InvalidInput, NotInL3Yet, Unavailable
from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.documents import DocumentStore, SqliteDocuments, make_documents
from softhit.hierarchy.semantic import SemanticCache
from softhit.hierarchy.vectors import make_vectors
from softhit.hierarchy.writeback import WriteBack
from softhit.io import HashedTfidf

EMBEDDER = HashedTfidf(32)


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Hooked:
    """Something whose calls go past a hook, before and after."""

    def __init__(self, inner: Any, hook: Callable[[str, str], None], names: set[str]) -> None:
        self.inner, self.hook, self.names = inner, hook, names

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name not in self.names:
            return method

        def call(*args: Any, **more: Any) -> Any:
            self.hook("before", name)
            result = method(*args, **more)
            self.hook("after", name)
            return result

        return call


class Shaky:
    """An L3 that fails as it is told to; keeps what it was asked for."""

    def __init__(self) -> None:
        self.inner = SqliteDocuments()
        self.name = "shaky"
        self.fail: Callable[[str], Exception | None] = lambda key: None
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def upsert(self, key: str, text: str, metadata: Any, expected: int, **more: Any) -> Any:
        self.asked.append(key)
        error = self.fail(key)
        if error is not None:
            raise error
        return self.inner.upsert(key, text, metadata, expected, **more)


def down(_: str) -> Exception:
    return Unavailable("L3 is away")


def up(_: str) -> None:
    return None


def put(cache: SemanticCache, id: str, text: str, version: int = 1) -> Segment:
    segment = Segment(id, digest_of(text), len(text.split()), source="agent_derived", version=version)
    return cache.put(segment, text)


@pytest.fixture
def cache() -> Iterator[SemanticCache]:
    one = SemanticCache(make_vectors(":memory:", 32), EMBEDDER, 1000, clock=itertools.count(1).__next__)
    yield one
    one.close()


@pytest.fixture
def l3() -> Shaky:
    return Shaky()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def events() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def writer(cache: SemanticCache, l3: Shaky, time: Time, events: list[dict[str, Any]]) -> WriteBack:
    return WriteBack(cache, l3, sleep=time.sleep, clock=time.clock, on_event=events.append)


def texts_of(documents: DocumentStore, key: str) -> list[str]:
    """All texts of a record, oldest first."""
    found = [documents.get(key, version) for version in range(1, documents.version(key) + 1)]
    return [record.text for record in found if record is not None]


class TestAStep:
    def test_brings_what_is_dirty_to_l3_and_marks_it_clean(self, cache, l3, writer, events) -> None:
        put(cache, "a", "the limit is 0.4")
        assert writer.step() == 1
        record = l3.get("a")
        assert (record.text, record.version) == ("the limit is 0.4", 1)
        assert record.metadata["source"] == "agent_derived"
        assert (cache.count(dirty=True), cache.count(dirty=False)) == (0, 1)
        assert events == [{"kind": "store", "segment": "a", "outcome": "stored", "version": 1}]
        assert writer.step() == 0
        assert l3.asked == ["a"]

    def test_ends_when_a_batch_is_clean(self, cache, l3) -> None:
        for i in range(10):
            put(cache, f"{i}", f"text {i}")
        writer = WriteBack(cache, l3, batch=4)
        assert [writer.step() for _ in range(4)] == [4, 4, 2, 0]

    def test_stores_a_version_whose_forerunners_were_replaced_before_they_were_stored(
        self, cache, l3, writer
    ):
        for text in ("one", "two", "three"):
            put(cache, "a", text)
        assert writer.step() == 1
        assert (l3.version("a"), texts_of(l3, "a")) == (3, ["three"])
        assert cache.get(["a"])["a"].segment.version == 3

    def test_numbers_a_version_after_what_l3_has_by_now(self, cache, l3, writer, events) -> None:
        for version in range(5):
            l3.inner.upsert("a", f"theirs {version}", {}, version)
        put(cache, "a", "ours")
        assert writer.step() == 1
        assert (l3.version("a"), l3.get("a").text, l3.get("a", 5).text) == (6, "ours", "theirs 4")
        assert cache.get(["a"])["a"].segment.version == 6
        assert [event["outcome"] for event in events] == ["conflict", "stored"]

    def test_stores_nothing_twice_where_l3_has_the_text_under_its_own_number(self, cache, l3, writer) -> None:
        l3.inner.upsert("a", "theirs", {}, 0)
        l3.inner.upsert("a", "ours", {}, 1)
        put(cache, "a", "ours")
        assert writer.step() == 1
        assert texts_of(l3, "a") == ["theirs", "ours"]
        assert cache.get(["a"])["a"].segment.version == 2

    def test_brings_back_a_record_that_was_deleted(self, cache, l3, writer) -> None:
        put(cache, "a", "one")
        writer.step()
        put(cache, "a", "two", version=2)
        l3.delete("a")
        assert writer.step() == 1
        assert (l3.version("a"), texts_of(l3, "a")) == (2, ["two"])

    def test_counts_no_row_whose_text_was_replaced_meanwhile(self, cache, l3, writer, events) -> None:
        put(cache, "a", "one")
        l3.fail = lambda key: void(put(cache, "a", "two"))
        assert writer.step() == 0
        assert events == [{"kind": "store", "segment": "a", "outcome": "superseded", "version": 1}]
        assert cache.count(dirty=True) == 1
        assert writer.step() == 1
        assert texts_of(l3, "a") == ["one", "two"]

    def test_does_not_store_what_was_replaced_while_it_was_renumbered(self, cache, l3, events) -> None:
        for version in range(3):
            l3.inner.upsert("a", f"theirs {version}", {}, version)
        put(cache, "a", "one")

        def replace(when: str, name: str) -> None:
            if (when, name) == ("before", "rebase"):
                put(cache, "a", "two")

        hooked: Any = Hooked(cache, replace, {"rebase"})
        assert WriteBack(hooked, l3, on_event=events.append).step() == 0
        assert [event["outcome"] for event in events] == ["superseded"]
        assert WriteBack(cache, l3).step() == 1
        assert texts_of(l3, "a") == ["theirs 0", "theirs 1", "theirs 2", "two"]

    def test_makes_room_in_a_full_l2(self, l3) -> None:
        cache = SemanticCache(make_vectors(":memory:", 32), EMBEDDER, 2)
        put(cache, "a", "one")
        put(cache, "b", "two")
        with pytest.raises(CacheFull):
            put(cache, "c", "three")
        cache.writer = WriteBack(cache, l3)
        put(cache, "c", "three")
        assert (cache.count(), sorted(l3.asked)) == (2, ["a", "b"])


# One scenario: what is in L3, what the agent wrote to L2 before, and what it writes in between.
SCENARIOS: dict[str, tuple[list[str], list[str]]] = {
    "a new record": ([], ["mine"]),
    "with replaced forerunners": ([], ["one", "two", "mine"]),
    "on top of others' versions": (["x", "y", "z"], ["mine"]),
    "which L3 has under another number": (["x", "mine"], ["mine"]),
    "which L3 has": (["mine"], ["mine"]),
}


class Between:
    """A write-back of one row in which something happens at the n-th moment before or after a call."""

    def __init__(self, scenario: str, moment: int, intruder: Callable[["Between"], None]) -> None:
        theirs, ours = SCENARIOS[scenario]
        self.cache = SemanticCache(make_vectors(":memory:", 32), EMBEDDER, 10)
        self.documents = SqliteDocuments()
        for version, text in enumerate(theirs):
            self.documents.upsert("a", text, {}, version)
        for text in ours:
            put(self.cache, "a", text)
        self.moments, self.moment, self.intruder = 0, moment, intruder
        self.broken = False
        self.time = Time()

    def hook(self, when: str, name: str) -> None:
        if self.broken and name in ("upsert", "get"):
            raise Unavailable("L3 is away")
        self.moments += 1
        if self.moments == self.moment:
            self.intruder(self)

    def writer(self) -> WriteBack:
        cache: Any = Hooked(self.cache, self.hook, {"dirty_rows", "rebase", "mark_clean"})
        documents: Any = Hooked(self.documents, self.hook, {"upsert", "get"})
        return WriteBack(cache, documents, clock=self.time.clock, sleep=self.time.sleep)

    def run(self) -> bool:
        """Write back until all is clean; say whether the moment came."""
        writer = self.writer()
        writer.step()
        came = self.moments >= self.moment
        self.moment = -1
        assert writer.drain(60)
        return came

    def check(self, text: str) -> None:
        """All is clean, and L2 and L3 have one and the same latest version of this text."""
        record = self.documents.get("a")
        row = self.cache.get(["a"])["a"]
        assert self.cache.count(dirty=True) == 0
        assert record is not None
        assert (record.text, record.version) == (row.text, row.segment.version) == (text, record.version)
        self.cache.close()


class Killed(BaseException):
    """The end of a process in a test."""


def every_moment(scenario: str, intruder: Callable[[Between], None]) -> Iterator[Between]:
    """Yield one finished run for each moment at which the intruder came."""
    for moment in itertools.count(1):
        between = Between(scenario, moment, intruder)
        try:
            came = between.run()
        except Killed:
            came = True
        if not came:
            assert moment > 5
            return
        yield between


@pytest.mark.parametrize("scenario", SCENARIOS)
class TestWhatHappensInBetween:
    def test_a_write_that_lands_at_any_moment_is_not_lost(self, scenario: str) -> None:
        for between in every_moment(scenario, lambda b: void(put(b.cache, "a", "newer"))):
            between.check("newer")

    def test_two_writes_that_end_at_the_same_text_are_one(self, scenario: str) -> None:
        def there_and_back(between: Between) -> None:
            put(between.cache, "a", "newer")
            put(between.cache, "a", "mine", version=between.cache.get(["a"])["a"].segment.version + 1)

        for between in every_moment(scenario, there_and_back):
            between.check("mine")

    def test_what_others_write_to_l3_at_any_moment_is_kept_beside_ours(self, scenario: str) -> None:
        def theirs(between: Between) -> None:
            between.documents.upsert("a", "their latest", {}, between.documents.version("a"))

        for between in every_moment(scenario, theirs):
            texts = texts_of(between.documents, "a")
            assert "mine" in texts
            assert "their latest" in texts
            assert between.cache.count(dirty=True) == 0
            between.cache.close()

    def test_a_record_that_is_deleted_at_any_moment_before_the_write_is_written_again(self, scenario) -> None:
        seen = set()
        for between in every_moment(scenario, lambda b: void(b.documents.delete("a"))):
            seen.add(tuple(texts_of(between.documents, "a")))
            assert between.cache.count(dirty=True) == 0
            between.cache.close()
        # gone only where the deletion came after the write
        assert seen >= {("mine",), ()}

    def test_an_l3_that_goes_away_at_any_moment_gets_it_when_it_is_back(self, scenario: str) -> None:
        for between in every_moment_away(scenario):
            between.check("mine")

    def test_a_process_that_is_killed_at_any_moment_is_continued_by_the_next(self, scenario: str) -> None:
        def kill(_: Between) -> None:
            raise Killed

        for between in every_moment(scenario, kill):
            between.moment = -1
            assert between.writer().drain(60)
            between.check("mine")
            assert texts_of(between.documents, "a").count("mine") == 1

    def test_another_write_back_at_any_moment_does_no_harm(self, scenario: str) -> None:
        """As in two processes on one server: here without the first one's knowledge."""

        def another(between: Between) -> None:
            WriteBack(between.cache, between.documents).drain(60)

        for between in every_moment(scenario, another):
            between.check("mine")
            assert texts_of(between.documents, "a").count("mine") == 1

    def test_another_write_back_and_a_write_at_any_moment_lose_nothing(self, scenario: str) -> None:
        def both(between: Between) -> None:
            WriteBack(between.cache, between.documents).drain(60)
            put(between.cache, "a", "newer")

        for between in every_moment(scenario, both):
            between.check("newer")

    def test_a_row_stored_evicted_and_begun_again_in_between_is_not_taken_for_the_old_one(
        self, scenario
    ) -> None:
        def again(between: Between) -> None:
            WriteBack(between.cache, between.documents).drain(60)
            between.cache.evict(0)
            put(between.cache, "a", "newer")

        for between in every_moment(scenario, again):
            between.check("newer")


def void(_: object) -> None:
    return None


def every_moment_away(scenario: str) -> Iterator[Between]:
    def away(between: Between) -> None:
        between.broken = True

    for moment in itertools.count(1):
        between = Between(scenario, moment, away)
        writer = between.writer()
        writer.step()
        if between.moments < moment:
            return
        between.moment = -1
        if between.cache.count(dirty=True):
            assert writer.failures or writer.outage or not between.broken
            assert not writer.drain(5)
            assert "a" in writer.failures
        between.broken = False
        assert writer.drain(60)
        assert not writer.failures
        yield between


class TestALostUpdate:
    def test_is_what_an_unconditional_mark_makes_of_the_same_moments(self) -> None:
        """The fault as it is usually written: these tests would see it."""

        class Careless(SemanticCache):
            def mark_clean(self, id: str, version: int, digest: str | None = None) -> bool:
                return self.vectors.patch(id, {"dirty": 0})

        lost = 0
        for moment in range(1, 7):
            between = Between("a new record", moment, lambda b: void(put(b.cache, "a", "newer")))
            between.cache.__class__ = Careless
            between.run()
            record = between.documents.get("a")
            lost += record is not None and record.text == "mine"
        assert lost > 0


class TestFailure:
    def test_is_visible_and_the_row_stays_dirty(self, cache, l3, writer, events, caplog) -> None:
        put(cache, "a", "one")
        l3.fail = down
        with caplog.at_level(logging.WARNING, "softhit.hierarchy"):
            assert writer.step() == 0
        assert cache.count(dirty=True) == 1
        assert "L3 is away" in caplog.text
        failure = writer.failures["a"]
        assert (failure.attempts, failure.error, failure.version) == (1, "L3 is away", 1)
        assert [(e["outcome"], e["segment"], e["error"]) for e in events] == [("failed", "a", "L3 is away")]
        assert not writer.drain(3)
        assert cache.count(dirty=True) == 1
        assert cache.evict(0) == []

    def test_is_told_in_one_line_and_not_at_each_of_many_attempts(self, cache, l3, writer, caplog) -> None:
        put(cache, "a", "one")
        l3.fail = down
        with caplog.at_level(logging.WARNING, "softhit.hierarchy"):
            for _ in range(9):
                writer.step(force=True)
        told = [r.getMessage() for r in caplog.records]
        assert len(told) == 4
        assert re.fullmatch(
            r"write-back failed: segment 'a', version 1, attempt 1: L3 is away; next try in 0\.\d s", told[0]
        )
        assert [line.split(", ")[2].partition(":")[0] for line in told] == [
            f"attempt {n}" for n in (1, 2, 4, 8)
        ]

    def test_that_is_final_says_so(self, cache, l3, writer, caplog) -> None:
        put(cache, "a", "one")

        def refuse(*given: Any) -> None:
            raise InvalidInput("no such key")

        l3.fail = refuse
        with caplog.at_level(logging.WARNING, "softhit.hierarchy"):
            writer.step()
        assert caplog.messages == [
            "write-back refused: segment 'a', version 1, attempt 1: no such key; not tried again as it is"
        ]

    def test_is_forgotten_after_success(self, cache, l3, writer) -> None:
        put(cache, "a", "one")
        l3.fail = down
        writer.step()
        l3.fail = up
        assert writer.drain(10)
        assert (dict(writer.failures), l3.get("a").text) == ({}, "one")

    def test_is_forgotten_when_the_row_is_gone(self, cache, l3, writer) -> None:
        put(cache, "a", "one")
        l3.fail = down
        writer.step()
        cache.forget("a")
        writer.step()
        assert dict(writer.failures) == {}

    def test_of_one_row_holds_up_no_other(self, cache, l3, writer) -> None:
        for i in range(20):
            put(cache, f"{i:02}", f"text {i}")
        l3.fail = lambda key: Unavailable("too long for it") if key in ("00", "07") else None
        assert writer.step() == 18
        assert writer.failures.keys() == {"00", "07"}
        assert writer.outage is None

    def test_of_many_rows_holds_up_no_other(self, cache, l3) -> None:
        for i in range(80):
            put(cache, f"{i:02}", f"text {i}")
        l3.fail = lambda key: None if key == "79" else InvalidInput("L3 does not take this")
        writer = WriteBack(cache, l3, batch=1)
        assert writer.step() == 1
        assert l3.get("79").text == "text 79"
        assert len(writer.failures) == 79

    def test_of_a_kind_nobody_expected_is_a_failure_too(self, cache, l3, writer) -> None:
        put(cache, "a", "one")
        l3.fail = lambda key: KeyError("somebody's bug")
        assert writer.step() == 0
        assert "KeyError" in writer.failures["a"].error
        assert cache.count(dirty=True) == 1

    def test_of_l2_is_an_outage_and_no_crash(self, cache, l3, writer, time, monkeypatch) -> None:
        put(cache, "a", "one")
        with monkeypatch.context() as patch:

            def broken(*_: object) -> object:
                raise Unavailable("L2 is away")

            patch.setattr(cache, "dirty_rows", broken)
            assert writer.step() == 0
            assert writer.outage.error == "L2 is away"
        assert writer.drain(10)
        assert writer.outage is None

    def test_of_who_is_told_about_events_stops_nothing(self, cache, l3) -> None:
        def fails(_: dict[str, Any]) -> None:
            raise RuntimeError("no disk for logs")

        put(cache, "a", "one")
        assert WriteBack(cache, l3, on_event=fails).step() == 1


class TestRefusedRows:
    @pytest.fixture
    def refused(self, cache, l3, writer):
        put(cache, "a", "one")
        l3.fail = lambda key: InvalidInput("L3 does not take this")
        writer.step()
        return writer

    def test_are_reported_and_stay_dirty(self, cache, refused, events) -> None:
        assert refused.failures["a"].due == float("inf")
        assert [(e["outcome"], e["error"]) for e in events] == [("refused", "L3 does not take this")]
        assert cache.count(dirty=True) == 1

    def test_do_not_spin(self, l3, refused, time) -> None:
        time.now += 1e9
        assert [refused.step() for _ in range(5)] == [0] * 5
        assert not refused.drain()
        assert (l3.asked, time.slept) == (["a"], [])

    def test_are_tried_again_with_a_new_version(self, cache, l3, refused) -> None:
        l3.fail = up
        put(cache, "a", "two")
        assert refused.drain()
        assert texts_of(l3, "a") == ["two"]

    def test_are_tried_again_by_force_and_by_the_next_process(self, cache, l3, refused) -> None:
        l3.fail = up
        assert refused.step() == 0
        assert refused.step(force=True) == 1
        put(cache, "b", "one")
        l3.fail = lambda key: InvalidInput("L3 does not take this")
        refused.step()
        l3.fail = up
        assert WriteBack(cache, l3).step() == 1


def attempts(seed: int, until: float, **settings: float) -> list[float]:
    """Seconds at which a row that always fails is tried."""
    cache = SemanticCache(make_vectors(":memory:", 32), EMBEDDER, 10)
    put(cache, "a", "one")
    l3, time = Shaky(), Time()
    times: list[float] = []

    def fail(_: str) -> Exception:
        times.append(time.now - 1000)
        return OSError("disk full")

    l3.fail = fail
    writer = WriteBack(cache, l3, sleep=time.sleep, clock=time.clock, seed=seed, **settings)
    assert not writer.drain(until)
    cache.close()
    return times


class TestBackOff:
    def test_doubles_up_to_the_longest_delay_with_jitter_of_at_most_a_half(self) -> None:
        times = attempts(0, 60, base_delay=0.1, max_delay=5)
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert len(gaps) > 12
        for n, gap in enumerate(gaps):
            delay = min(5, 0.1 * 2**n)
            assert delay / 2 - 1e-9 <= gap < delay + 0.0011

    def test_is_the_same_for_the_same_seed_only(self) -> None:
        assert attempts(1, 20) == attempts(1, 20)
        assert attempts(1, 20) != attempts(2, 20)

    def test_tries_nothing_before_it_is_due(self, cache, l3, writer, time) -> None:
        put(cache, "a", "one")
        l3.fail = down
        writer.step()
        due = writer.failures["a"].due
        assert time.now + 0.05 <= due < time.now + 0.1
        l3.fail = up
        time.now = due - 1e-6
        assert writer.step() == 0
        time.now = due
        assert writer.step() == 1

    def test_is_passed_over_by_force(self, cache, l3, writer) -> None:
        put(cache, "a", "one")
        l3.fail = down
        writer.step()
        l3.fail = up
        assert writer.step(force=True) == 1

    def test_of_ten_thousand_failures_has_no_overflow(self) -> None:
        writer = WriteBack(None, Shaky())  # type: ignore[arg-type]
        assert 15 <= writer._delay("a", 10_000) < 30


class TestAnOutage:
    @pytest.fixture
    def out(self, cache, l3, writer):
        for i in range(100):
            put(cache, f"{i:02}", f"text {i}")
        l3.fail = down
        writer.step()
        return writer

    def test_is_noted_after_three_rows_and_then_one_row_is_tried_each_time(
        self, cache, l3, out, time
    ) -> None:
        assert len(l3.asked) == 3
        assert out.outage.error == "L3 is away"
        assert out.step() == 0
        assert len(l3.asked) == 3
        for n in range(1, 6):
            time.now = out.outage.due
            out.step()
            assert len(l3.asked) == 3 + n
            assert out.outage.attempts == 1 + n
        assert cache.count(dirty=True) == 100

    def test_ends_with_the_first_success_and_all_are_written_at_once(
        self, cache, l3, out, time, events
    ) -> None:
        for _ in range(8):
            time.now = out.outage.due
            out.step()
        l3.fail = up
        time.now = out.outage.due
        while out.step():
            pass
        assert cache.count(dirty=True) == 0
        assert (out.outage, dict(out.failures)) == (None, {})
        assert [e["outcome"] for e in events].count("back") == 1

    def test_costs_a_forced_step_one_attempt(self, l3, out) -> None:
        assert out.step(force=True) == 0
        assert len(l3.asked) == 4

    def test_ends_by_a_forced_step_when_l3_is_back(self, cache, l3, out) -> None:
        l3.fail = up
        assert out.step() == 0
        assert out.step(force=True) == 32
        assert out.drain(1)
        assert cache.count(dirty=True) == 0


class Hanging(Shaky):
    """An L3 that hangs in a write until it is let go."""

    def __init__(self, key: str = "") -> None:
        super().__init__()
        self.key = key
        self.entered, self.go = threading.Event(), threading.Event()

    def upsert(self, key: str, *args: Any, **more: Any) -> Any:
        if self.key in ("", key):
            self.entered.set()
            assert self.go.wait(60)
        return super().upsert(key, *args, **more)


class TestTheThread:
    def test_writes_what_is_dirty_at_its_start_and_what_comes_later(self, cache, l3) -> None:
        put(cache, "a", "one")
        with WriteBack(cache, l3) as writer:
            assert writer.drain(60)
            put(cache, "b", "two")
            writer.wake()
            assert writer.drain(60)
        assert (l3.get("a").text, l3.get("b").text) == ("one", "two")

    def test_looks_again_and_again_though_nobody_wakes_it(self, cache, l3, monkeypatch) -> None:
        looked = threading.Semaphore(0)
        arrived = threading.Event()
        look = cache.dirty_rows

        def looking(limit: int) -> object:
            looked.release()
            return look(limit)

        monkeypatch.setattr(cache, "dirty_rows", looking)
        with WriteBack(cache, l3, poll=0.01, on_event=lambda event: arrived.set()):
            assert all(looked.acquire(timeout=20) for _ in range(5))
            put(cache, "a", "one")
            assert arrived.wait(20)

    def test_finds_what_an_earlier_process_left_dirty(self, tmp_path: Path) -> None:
        for round in range(2):
            cache = SemanticCache(make_vectors(tmp_path / "l2", 32), EMBEDDER, 10)
            documents = make_documents(tmp_path / "l3.sqlite")
            if round == 0:
                put(cache, "a", "one")
            else:
                with WriteBack(cache, documents) as writer:
                    assert writer.drain(60)
                assert texts_of(documents, "a") == ["one"]
            cache.close()
            documents.close()

    def test_holds_up_no_retrieval_and_no_write_while_l3_hangs(self, cache) -> None:
        l3 = Hanging()
        cache.documents = l3
        put(cache, "a", "the limit is 0.4")
        with WriteBack(cache, l3) as writer:
            assert l3.entered.wait(60)
            # the thread is inside L3's write now, and stays there
            assert [found.segment.id for found in cache.search("what is the limit")] == ["a"]
            assert cache.get(["a"])["a"].text == "the limit is 0.4"
            put(cache, "b", "two")
            cache.touch(["a"])
            assert not writer.drain(0.05)
            assert not l3.go.is_set()
            l3.go.set()
            assert writer.drain(60)
        assert (l3.get("a").text, l3.get("b").text) == ("the limit is 0.4", "two")

    def test_leaves_other_rows_to_others_while_it_hangs_at_one(self, cache) -> None:
        l3 = Hanging("a")
        put(cache, "a", "one")
        with WriteBack(cache, l3) as writer:
            assert l3.entered.wait(60)
            put(cache, "b", "two")
            put(cache, "c", "three")
            assert l3.asked == []
            while cache.count(dirty=True) > 1:
                writer.step()
            assert sorted(l3.asked) == ["b", "c"]
            l3.go.set()
            assert writer.drain(60)
        assert sorted(l3.asked) == ["a", "b", "c"]

    def test_is_waited_for_by_whoever_needs_its_row_out_of_the_way(self, cache) -> None:
        l3 = Hanging("a")
        cache.put(Segment("a", digest_of("one"), 1), "one")
        with WriteBack(cache, l3) as writer:
            cache.writer = writer
            assert l3.entered.wait(60)
            threading.Timer(0.1, l3.go.set).start()
            # neither text knows of the other; the first one gets to L3 in the meantime
            assert cache.put(Segment("a", digest_of("two"), 1), "two").version == 2
            assert writer.drain(60)
        assert texts_of(l3, "a") == ["one", "two"]

    def test_is_waited_for_a_moment_only_and_once(self, cache, monkeypatch) -> None:
        monkeypatch.setattr("softhit.hierarchy.writeback._PATIENCE", 0.05)
        l3 = Hanging("a")
        cache.put(Segment("a", digest_of("one"), 1), "one")
        with WriteBack(cache, l3) as writer:
            cache.writer = writer
            assert l3.entered.wait(60)
            with pytest.raises(NotInL3Yet):
                cache.put(Segment("a", digest_of("two"), 1), "two")
            # forever, as it seems
            monkeypatch.setattr("softhit.hierarchy.writeback._PATIENCE", 1e9)
            with pytest.raises(NotInL3Yet):
                cache.put(Segment("a", digest_of("two"), 1), "two")
            l3.go.set()
            assert writer.drain(60)
        assert texts_of(l3, "a") == ["one"]

    def test_stops_though_l3_hangs_and_says_so(self, cache) -> None:
        l3 = Hanging()
        put(cache, "a", "one")
        writer = WriteBack(cache, l3)
        writer.start()
        assert l3.entered.wait(60)
        assert not writer.stop(timeout=0.05)
        l3.go.set()
        assert writer.stop(60)
        assert writer.stop()

    def test_writes_nothing_after_it_was_stopped_until_it_is_started_again(self, cache, l3) -> None:
        writer = WriteBack(cache, l3, poll=0.01)
        writer.start()
        writer.start()
        assert writer.stop(60)
        put(cache, "a", "one")
        writer.wake()
        assert l3.asked == []
        writer.start()
        assert writer.drain(60)
        assert writer.stop(60)

    def test_outlives_whatever_happens_in_it(self, cache, l3, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = WriteBack(cache, l3, base_delay=0.001, max_delay=0.01, poll=0.01)
        hit = threading.Event()
        real = writer._due_rows

        def broken(*args: Any) -> Any:
            if not hit.is_set():
                hit.set()
                raise ZeroDivisionError("a fault of ours")
            return real(*args)

        monkeypatch.setattr(writer, "_due_rows", broken)
        put(cache, "a", "one")
        with writer:
            assert hit.wait(60)
            assert writer.drain(60)

    def test_and_an_agent_that_never_pauses_lose_nothing(self, cache, l3) -> None:
        flip = itertools.cycle([None, None, Unavailable("now and then")])
        l3.fail = lambda key: next(flip)
        with WriteBack(cache, l3, base_delay=0.0005, max_delay=0.002) as writer:
            for i in range(150):
                put(cache, f"{i % 5}", f"text {i}")
            assert writer.drain(60)
        for k in range(5):
            record, row = l3.get(f"{k}"), cache.get([f"{k}"])[f"{k}"]
            assert (record.text, record.version) == (row.text, row.segment.version) == (f"text {145 + k}", 30)


class TestArguments:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("batch", 0), ("base_delay", -1), ("max_delay", 0.01), ("seed", -1), ("poll", 0), ("batch", 1.5)],
    )
    def test_that_make_no_sense_are_refused_by_name(self, cache, l3, name: str, value: float) -> None:
        with pytest.raises(InvalidInput, match=name):
            WriteBack(cache, l3, **{name: value})

    def test_a_timeout_is_not_negative(self, writer) -> None:
        with pytest.raises(InvalidInput, match="timeout"):
            writer.drain(-1)
