"""Nothing dirty is lost, whichever write of LangGraph, SQLite, Qdrant or our own a SIGKILL comes at."""

import shutil
from collections.abc import Iterator

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite")
pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")

from tests.crash.__main__ import main
from tests.crash.faults import FAULTS, PLACES
from tests.crash.plan import points, spread
from tests.crash.runner import Harness, Point
from tests.crash.scenario import scenarios

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler (cc or gcc)"
)

# One of each graph, engine, document store, failure and way to run the write-back.
SOME = {
    "line, qdrant, sqlite, L3 flaky": 16,
    "fan, qdrant, folder, L2 flaky": 16,
    "full, qdrant, sqlite, L3 down": 16,
    "twice, edge, folder, L3 flaky": 12,
    "line, qdrant, sqlite, L3 flaky, thread": 12,
    "many, qdrant, sqlite, L3 flaky, cold": 12,
    "steps, qdrant, sqlite, L3 flaky, interleaved": 16,
    "documents, folder": 16,
    "vectors, qdrant": 16,
}


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with Harness(jobs=2, timeout=120.0) as harness:
        yield harness


class TestNothingIsLost:
    @pytest.mark.parametrize(("name", "number"), SOME.items())
    def test_at_points_all_over_a_run(self, harness, name, number):
        verdicts = list(harness.run(spread(harness.count(name), name, number)))
        wrong = {v.point.command: (v.call, *v.wrong) for v in verdicts if v.wrong}
        assert wrong == {}
        assert sum(v.outcome == "killed" for v in verdicts) >= 0.8 * number

    @pytest.mark.slow
    def test_at_points_of_every_scenario(self, harness):
        wrong, killed, accepted = {}, 0, 0
        for name in scenarios():
            if name.startswith(("toy ", "FAULT ")):
                continue
            for verdict in harness.run(list(points(harness.count(name), name, 14, whole=()))):
                killed += verdict.outcome == "killed"
                accepted += verdict.accepted
                if verdict.wrong:
                    wrong[verdict.point.command] = (verdict.call, *verdict.wrong)
        assert wrong == {}
        assert killed > 1500
        assert accepted > 3 * killed


class TestFaults:
    """The harness has to be able to fail: each of these loses something."""

    @pytest.mark.parametrize("name", [fault.name for fault in FAULTS if PLACES[fault.name]])
    def test_one_that_needs_a_kill_is_caught_at_a_write(self, harness, name):
        trace = harness.count(name)["trace"]
        near = [int(line.split()[0]) for line in trace if PLACES[name] in line]
        # here and there first: most of these windows are short
        for n in sorted(near, key=lambda n: (n * 7919) % 1009):
            verdict = next(harness.run([Point(name, "before", n)]))
            if verdict.wrong:
                print(f"{name}: caught before {verdict.call}: {verdict.wrong[0]}")
                return
        pytest.fail(f"{name} was not caught at any of {len(near)} writes")

    @pytest.mark.parametrize("name", [fault.name for fault in FAULTS if not PLACES[fault.name]])
    def test_one_that_loses_by_the_order_of_events_is_caught_without_a_kill(self, harness, name):
        with pytest.raises(RuntimeError, match=r"without a kill.*lost: "):
            harness.count(name)

    @pytest.mark.parametrize(
        "name",
        [
            "steps, qdrant, sqlite, fine, interleaved",
            "full, qdrant, sqlite, L3 down",
            "many, qdrant, sqlite, L2 flaky",
        ],
    )
    def test_what_these_are_put_into_loses_nothing(self, harness, name):
        assert harness.count(name)["calls"] > 100


class TestCommand:
    def test_one_point_is_repeated_by_its_command(self, capsys):
        assert main(["--only", "documents, sqlite", "--at", "20"]) == 0
        said = capsys.readouterr().out
        assert "1 points of 1 scenarios, 0 wrong" in said
        assert "langgraph" in said

    def test_it_fails_when_something_is_lost(self, capsys):
        assert main(["--only", "toy promise_then_commit", "-n", "10"]) == 1
        said = capsys.readouterr().out
        assert "python -m tests.crash --only 'toy promise_then_commit'" in said
        assert "is lost" in said

    def test_the_table_says_how_it_was_made(self, tmp_path):
        from theory import artefact

        file = tmp_path / "table.csv"
        assert main(["--only", "store of texts", "-n", "5", "-o", str(file)]) == 0
        (row,) = artefact.read(file)
        assert row["scenario"] == "store of texts"
        assert row["points"] == row["before"] + row["torn"] > 0
        command = "# command: python -m tests.crash --only 'store of texts' -n 5"
        assert command in file.read_text().splitlines()
