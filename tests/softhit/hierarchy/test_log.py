"""Every event of a run is in its log, and of a boundary that was repeated the last attempt counts."""

import json
import logging
import math
import os
import re
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from softhit import InvalidInput, UnknownName
from softhit.hierarchy.allocator import Start
from softhit.hierarchy.log import DecisionLog, read_log, threads_of
from tests.softhit.hierarchy.stand_ins import Run, WordsL2, allocator, text_of


def boundary(turn: int, *segments: str, kind: str = "load") -> list[dict[str, Any]]:
    loads = [{"turn": turn, "kind": kind, "segment": s} for s in segments]
    return [{"turn": turn, "kind": "turn"}, *loads]


def loaded(path: Path, **how: Any) -> list[tuple[int, str]]:
    return [(e["turn"], e["segment"]) for e in read_log(path, **how) if e["kind"] == "load"]


class TestWriting:
    def test_is_one_json_object_a_line_with_run_turn_and_number(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "runs" / "a.jsonl", "a") as log:
            log.write(boundary(1, "x", "y"))
        lines = (tmp_path / "runs" / "a.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [(r["run"], r["turn"], r["n"], r["kind"]) for r in rows] == [
            ("a", 1, 0, "turn"),
            ("a", 1, 1, "load"),
            ("a", 1, 2, "load"),
        ]

    def test_is_seen_by_others_at_once(self, tmp_path: Path) -> None:
        log = DecisionLog(tmp_path / "log", "a")
        log.write(boundary(1, "x"))
        assert loaded(tmp_path / "log") == [(1, "x")]
        log.close()
        log.close()

    def test_appends_to_what_an_earlier_process_wrote(self, tmp_path: Path) -> None:
        for turn in (1, 2):
            with DecisionLog(tmp_path / "log", "a") as log:
                log.write(boundary(turn, f"x{turn}"))
        assert loaded(tmp_path / "log") == [(1, "x1"), (2, "x2")]

    def test_survives_text_that_is_not_unicode(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            log.write(boundary(1, "half \ud800 of a character", "日本"))
        assert [s for _, s in loaded(tmp_path / "log")] == ["half \ud800 of a character", "日本"]

    def test_keeps_to_json_where_a_score_is_infinite(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            log.write([{"turn": 1, "kind": "evict", "segment": "x", "score": math.inf}])
        line = (tmp_path / "log").read_text()
        assert json.loads(line, parse_constant=pytest.fail)["score"] == "inf"

    def test_of_nothing_writes_nothing(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            log.write([])
        assert (tmp_path / "log").read_bytes() == b""

    def test_also_goes_to_the_standard_logger(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG, "softhit.hierarchy"):
            DecisionLog(None, "a").write(boundary(1, "x"))
        assert [r.getMessage() for r in caplog.records] == ["a turn turn=1", "a load turn=1 segment=x"]
        assert all(r.levelno == logging.DEBUG for r in caplog.records)

    def test_refuses_an_event_of_no_kind_and_a_run_without_a_name(self) -> None:
        with pytest.raises(InvalidInput, match="kind of an event must be one of turn"):
            DecisionLog(None, "a").write([{"turn": 1, "kind": "explode"}])
        with pytest.raises(InvalidInput, match="run must be"):
            DecisionLog(None, "")


class TestReading:
    def test_passes_over_a_line_that_a_crash_cut_and_reads_what_follows(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        with DecisionLog(path, "a") as log:
            log.write(boundary(1, "x"))
            log.write(boundary(2, "y"))
        os.truncate(path, path.stat().st_size - 5)
        assert loaded(path) == [(1, "x")]
        with DecisionLog(path, "a") as log:
            log.write(boundary(2, "y"))
        assert loaded(path) == [(1, "x"), (2, "y")]

    def test_keeps_the_last_attempt_of_a_repeated_turn(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            for events in (boundary(1, "x"), boundary(2, "old"), boundary(2, "new"), boundary(3, "z")):
                log.write(events)
        assert loaded(tmp_path / "log") == [(1, "x"), (2, "new"), (3, "z")]
        assert (2, "old") in loaded(tmp_path / "log", attempts=True)

    def test_forgets_what_followed_when_a_run_goes_back(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            for turn in (1, 2, 3, 4, 2):
                log.write(boundary(turn, f"x{turn}"))
        assert loaded(tmp_path / "log") == [(1, "x1"), (2, "x2")]

    def test_keeps_the_writes_to_l3_which_happened(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            log.write(boundary(1, "x"))
            log.write(boundary(2, "y"))
            log.store({"segment": "y", "version": 1})
            log.write(boundary(2, "y"))
        kinds = [(e["turn"], e["kind"]) for e in read_log(tmp_path / "log")]
        assert kinds == [(1, "turn"), (1, "load"), (2, "store"), (2, "turn"), (2, "load")]

    def test_of_a_file_that_is_not_there_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_log(tmp_path / "none")

    def test_of_a_file_that_is_no_log_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_text('{"a": 1}\n')
        with pytest.raises(InvalidInput, match="line 1"):
            read_log(tmp_path / "log")


def of(thread: str, turn: int, *segments: str, kind: str = "load") -> list[dict[str, Any]]:
    return [{**event, "thread": thread} for event in boundary(turn, *segments, kind=kind)]


class TestThreads:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Ann and bob in turns; ann goes back to her first turn."""
        with DecisionLog(tmp_path / "log", "a") as log:
            for events in (
                of("ann", 1, "a1"), of("bob", 1, "b1"), of("ann", 2, "lost"), of("bob", 2, "b2"),
                of("bob", 3, "b3"), of("ann", 2, "a2"),
            ):  # fmt: skip
                log.write(events)
        return tmp_path / "log"

    def test_a_repeated_turn_replaces_only_its_own_thread(self, path: Path) -> None:
        assert loaded(path) == [(1, "a1"), (1, "b1"), (2, "b2"), (3, "b3"), (2, "a2")]
        assert (2, "lost") in loaded(path, attempts=True)
        assert threads_of(read_log(path)) == ["ann", "bob"]

    def test_one_can_be_read_alone(self, path: Path) -> None:
        assert loaded(path, thread="ann") == [(1, "a1"), (2, "a2")]
        assert loaded(path, thread="bob") == [(1, "b1"), (2, "b2"), (3, "b3")]
        assert loaded(path, thread="ann", attempts=True) == [(1, "a1"), (2, "lost"), (2, "a2")]

    def test_one_that_is_not_there_is_refused_with_those_there_are(self, path: Path) -> None:
        with pytest.raises(UnknownName, match=r"unknown thread 'an'; did you mean 'ann'\? Known: ann, bob"):
            read_log(path, thread="an")

    def test_none_in_an_old_log_is_told_as_such(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            log.write(boundary(1, "x"))
        assert "thread" not in (tmp_path / "log").read_text()
        assert loaded(tmp_path / "log", thread="") == loaded(tmp_path / "log") == [(1, "x")]
        with pytest.raises(InvalidInput, match="thread must be left out: no event of this log names one"):
            read_log(tmp_path / "log", thread="ann")

    def test_a_write_to_l3_is_of_the_thread_that_handed_this_version_over(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            for name, turn, version in (("ann", 5, 1), ("bob", 1, 2), ("ann", 6, 3)):
                events = of(name, turn, "shared", kind="write_back")
                log.write([{**e, "version": version} if "segment" in e else e for e in events])
            for version, outcome, more in (
                (1, "failed", {}), (1, "superseded", {}), (2, "stored", {}), (7, "conflict", {"was": 3}),
                (7, "stored", {}), (8, "stored", {}),
            ):  # fmt: skip
                log.store({"segment": "shared", "version": version, "outcome": outcome, **more})
        stores = [e for e in read_log(tmp_path / "log") if e["kind"] == "store"]
        assert [(e["version"], e["outcome"], e.get("thread")) for e in stores] == [
            (1, "failed", "ann"),
            (1, "superseded", "ann"),
            (2, "stored", "bob"),
            (7, "conflict", "ann"),
            (7, "stored", "ann"),
            (8, "stored", None),
        ]

    def test_a_write_to_l3_may_come_before_the_boundary_is_logged_that_it_is_of(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            log.write(of("ann", 3))
            log.write(of("bob", 8))
            log.store({"segment": "note", "version": 1})
            log.write([{"turn": 4, "kind": "write_back", "segment": "note", "version": 1, "thread": "ann"}])
        assert [(e["kind"], e["turn"]) for e in read_log(tmp_path / "log", thread="ann")] == [
            ("turn", 3),
            ("store", 4),
            ("write_back", 4),
        ]

    def test_a_write_to_l3_of_unknown_origin_is_told_to_those_whose_segment_it_is(
        self, tmp_path: Path
    ) -> None:
        for first in (True, False):
            # the second process does not know who handed over what the first left
            with DecisionLog(tmp_path / "log", "a") as log:
                if first:
                    log.write(of("ann", 4, "note", kind="write_back"))
                    log.write(of("bob", 1, "other"))
                else:
                    log.store({"segment": "note", "version": 2})
        told = [(e["kind"], e["turn"]) for e in read_log(tmp_path / "log", thread="ann")]
        assert told == [("turn", 4), ("write_back", 4), ("store", 4)]
        assert "store" not in [e["kind"] for e in read_log(tmp_path / "log", thread="bob")]

    def test_that_write_at_once_leave_whole_boundaries_each_in_its_order(self, tmp_path: Path) -> None:
        names = [f"t{i}" for i in range(8)]
        with DecisionLog(tmp_path / "log", "a") as log:

            def work(name: str) -> None:
                for turn in range(1, 41):
                    log.write(of(name, turn, f"{name}.{turn}", "x" * 3000, kind="write_back"))
                    log.store({"segment": f"{name}.{turn}"})

            workers = [Thread(target=work, args=(name,)) for name in names]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        events = read_log(tmp_path / "log")
        assert len(events) == 8 * 40 * 4
        starts = [i for i, e in enumerate(events) if e["kind"] == "turn"]
        for i in starts:
            whole = events[i : i + 3]
            assert {(e["thread"], e["turn"]) for e in whole} == {(events[i]["thread"], events[i]["turn"])}
            assert [e["n"] for e in whole] == [0, 1, 2]
        for name in names:
            mine = read_log(tmp_path / "log", thread=name)
            assert [e["turn"] for e in mine if e["kind"] == "turn"] == list(range(1, 41))
            assert [(e["segment"], e["turn"]) for e in mine if e["kind"] == "store"] == [
                (f"{name}.{turn}", turn) for turn in range(1, 41)
            ]


class TestARun:
    def test_names_its_thread_in_every_event_and_nothing_where_there_is_none(self, tmp_path: Path) -> None:
        with DecisionLog(tmp_path / "log", "a") as log:
            made = allocator(WordsL2({"a": text_of(30, "red", "a")}), log=log)
            for thread in ("ann", ""):
                made.boundary({}, {}, [Start("node", "red")], thread=thread)
        events = read_log(tmp_path / "log")
        assert [e.get("thread") for e in events] == ["ann"] * 3 + [None] * 3

    def test_can_be_followed_segment_by_segment(self, tmp_path: Path) -> None:
        log = DecisionLog(tmp_path / "log", "a")
        made = allocator(WordsL2({"a": text_of(30, "red", "a"), "b": text_of(60, "blue", "b")}), log=log)
        one = Run(made)
        context, reports = made.boundary({}, {}, [Start("node", "red")])
        one.context = context
        view = one.view()
        view.derive("note", "of the node")
        context, _ = made.boundary(context, view.update()["context_reports"], [Start("node", "blue")])
        made.boundary(context, reports, [], ending=True)
        log.close()
        told = [(e["turn"], e["kind"], e.get("segment")) for e in read_log(tmp_path / "log")]
        assert told == [
            (1, "turn", None),
            (1, "miss", "a"),
            (1, "load", "a"),
            (2, "turn", None),
            (2, "derive", "note"),
            (2, "miss", "b"),
            (2, "batch", None),
            (2, "evict", "a"),
            (2, "load", "note"),
            (2, "load", "b"),
            (3, "turn", None),
            (3, "write_back", "note"),
        ]

    def test_that_raises_is_logged_up_to_there(self, tmp_path: Path) -> None:
        log = DecisionLog(tmp_path / "log", "a")
        made = allocator(WordsL2(), log=log)
        one = Run(made)
        one.context, one.reports = made.boundary({}, {}, [Start("node")])
        for name in ("left", "right"):
            view = one.view(name)
            view.derive(f"by {name}", text_of(60, name), pinned=True)
            one.report(view)
        with pytest.raises(Exception, match="pinned segments have 120 tokens"):
            made.boundary(one.context, one.reports, [Start("node")])
        assert [e["kind"] for e in read_log(tmp_path / "log")] == ["turn", "turn", "derive", "derive"]


@pytest.mark.parametrize(
    ("fact", "says"),
    [
        ({"tokens": "7"}, "'tokens' must be a whole number, got '7'"),
        ({"score": "high"}, "'score' must be a number, got 'high'"),
        ({"thread": 3}, "'thread' must be a text, got 3"),
        ({"kind": "batch", "before": 1, "mark": 1}, "'coming' is missing"),
        ({"nodes": "n"}, "'nodes' must be a list of names, got 'n'"),
    ],
)
def test_an_event_that_is_none_says_what_is_wrong_with_it(
    tmp_path: Path, fact: dict[str, Any], says: str
) -> None:
    (tmp_path / "log").write_text(json.dumps({"turn": 1, "kind": "load", **fact}) + "\n")
    with pytest.raises(InvalidInput, match=f"line 1: not an event of a run: {re.escape(says)}"):
        read_log(tmp_path / "log")


def test_a_full_disk_is_said_once_and_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with DecisionLog(tmp_path / "log", "a") as log:
        log.write(boundary(1, "x"))
        with monkeypatch.context() as disk:
            disk.setattr(os, "write", full)
            for turn in (2, 3):
                log.write(boundary(turn, "y"))
        log.write(boundary(4, "z"))
    assert [r.getMessage().rpartition(": ")[2] for r in caplog.records] == [
        "[Errno 28] No space left on device"
    ]
    assert loaded(tmp_path / "log") == [(1, "x"), (4, "z")]


@pytest.mark.parametrize("line", ["[]", "{}", '{"turn": "1", "kind": "load"}', '{"turn": 1, "kind": 3}'])
def test_a_file_that_is_no_log_is_refused_by_the_number_of_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"turn": 1, "kind": "turn"}}\n{line}\n')
    with pytest.raises(InvalidInput, match="line 2: not an event of a run"):
        read_log(path)


def test_a_file_without_any_event_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("not json\n")
    with pytest.raises(InvalidInput, match="holds no event"):
        read_log(path)
