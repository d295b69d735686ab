"""Every event of a run is in its log, and of a boundary that was repeated the last attempt counts."""

import json
import logging
import math
import os
from pathlib import Path
from typing import Any

import pytest

from softhit import InvalidInput
from softhit.hierarchy.allocator import Start
from softhit.hierarchy.log import DecisionLog, read_log
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


class TestARun:
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
