"""The crash harness tells programs that keep a promise from programs that break it, and names the write."""

import shutil
from collections.abc import Iterator

import pytest

from tests.crash.plan import every
from tests.crash.runner import Harness, Point

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler (cc or gcc)"
)


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with Harness(jobs=1, timeout=1.0) as harness:
        yield harness


class TestPrograms:
    @pytest.mark.parametrize("toy", ["commit_then_promise", "files_renamed"])
    def test_one_that_keeps_its_promise_passes_at_every_write(self, harness, toy):
        points = every(harness.count(f"toy {toy}"), f"toy {toy}", ["before", "after", "torn"], 2)
        verdicts = list(harness.run(points))
        assert {v.outcome for v in verdicts} == {"killed"}
        assert [v for v in verdicts if v.wrong] == []
        assert max(v.accepted for v in verdicts) >= 3

    @pytest.mark.parametrize("toy", ["promise_then_commit", "promise_in_the_middle", "files_in_place"])
    def test_one_that_breaks_it_is_caught(self, harness, toy):
        points = every(harness.count(f"toy {toy}"), f"toy {toy}", ["before"])
        assert any("is lost" in text for v in harness.run(points) for text in v.wrong)

    def test_one_that_waits_for_a_lock_of_the_dead_is_a_failure_of_its_point(self, harness):
        assert harness.count("toy waits_for_ever")["trace"] == [
            "1 open lock",
            "2 open record-0",
            "3 unlink lock",
        ]
        first, second, third = sorted(
            harness.run([Point("toy waits_for_ever", "before", n) for n in (1, 2, 3)]),
            key=lambda v: v.point.n,
        )
        assert first.wrong == ()
        assert "hung" in second.wrong[0]
        assert "hung" in third.wrong[0]


class TestPoints:
    def test_the_kill_comes_at_the_call_that_the_count_names(self, harness):
        trace = harness.count("toy files_renamed")["trace"]
        assert "3 rename record-0" in trace
        verdicts = list(harness.run(every({"calls": len(trace)}, "toy files_renamed", ["before"])))
        assert sorted(v.call for v in verdicts) == sorted(trace)

    def test_after_the_rename_the_file_is_there_and_before_it_is_not(self, harness):
        # The first record is promised by the sixth call: so far nothing is.
        kept = [next(harness.run([Point("toy files_renamed", mode, 3)])) for mode in ("before", "after")]
        assert [v.accepted for v in kept] == [0, 0]

    def test_a_torn_write_leaves_half(self, harness):
        # In place: call 9 of those with data is the second version of the first record.
        torn = [next(harness.run([Point("toy files_in_place", "torn", n)])) for n in range(1, 13)]
        assert any(v.wrong for v in torn)

    def test_beyond_the_last_call_the_program_ends(self, harness):
        assert next(harness.run([Point("toy files_renamed", "before", 17)])).outcome == "ended"

    def test_a_second_kill_in_the_resumed_life_is_one_point(self, harness):
        verdict = next(harness.run([Point("toy waits_for_ever", "before", 1, again=1)]))
        assert verdict.again == "2 open record-0"
        assert "hung" in verdict.wrong[0]
