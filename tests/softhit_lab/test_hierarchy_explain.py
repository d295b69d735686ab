"""The log of a run told: turns, reasons, and one segment through all levels."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from softhit.hierarchy.log import read_log
from softhit_lab.cli import app
from softhit_lab.hierarchy.story import Tally, in_short, reason, tally, turns_of

INFINITY = "inf"  # as JSON has no number for it


def event(turn: int, kind: str, segment: str = "", tokens: int = 0, **facts: Any) -> dict[str, Any]:
    about = {"segment": segment, "tokens": tokens} if segment else {}
    return {"run": "r", "turn": turn, "n": 0, "kind": kind, **about, **facts}


# what a boundary writes, by hand: two turns, a batch in the second that evicts a dirty note
RUN = [
    event(1, "turn", nodes=["plan"], ending=False, used=300, budget=500, segments=2, staged=1),
    event(1, "miss", "with/5", 200, node="plan", why="not in L1", score=0.5),
    event(1, "miss", "big/1", 900, node="plan", why="not in L1", score=0.4),
    event(1, "skip", "big/1", 900, node="plan", why="too large for L1"),
    event(1, "load", "with/5", 200, node="plan", why="hint", score=0.5),
    event(1, "load", "note/x", 100, node="plan", why="derived"),
    event(1, "stage", "try/1", 50, node="gather", score=0.31, p=0.5),
    event(2, "turn", nodes=["gather", "gather"], ending=False, used=250, budget=500, segments=2, staged=0),
    event(2, "hit", "with/5", 200, node="gather"),
    event(2, "hit", "with/5", 200, node="gather"),
    event(2, "batch", before=300, coming=50, mark=300, after=200, reached=True),
    event(2, "write_back", "note/x", 100, version=1),
    event(2, "evict", "note/x", 100, score=INFINITY, why="priority_lru", accesses=0),
    event(2, "flush", "try/1", 50, node="gather", why="staged for gather"),
    event(2, "store", "note/x", version=1),
    event(3, "turn", nodes=[], ending=True, used=250, budget=500, segments=2, staged=0),
]


def put(folder: Path, name: str = "first", events: list[dict[str, Any]] | None = None) -> Path:
    path = folder / "runs" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(e) + "\n" for e in (RUN if events is None else events)))
    return path


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["hierarchy", *words])
    assert result.exit_code == code, result.output
    return result.output


class TestInShort:
    def test_a_turn_says_who_ran_who_starts_and_how_full_the_context_is(self) -> None:
        first, second, last = turns_of(RUN)
        assert first.title == "start → plan"
        assert first.fullness == "L1 300/500 tokens in 2 segments, 1 staged"
        assert second.title == "plan → gather ×2"
        assert last.title == "gather ×2 → end"

    def test_a_line_a_kind_with_scores_and_sums(self) -> None:
        first, second, _ = turns_of(RUN)
        assert in_short(first) == [
            ("skip", "big/1: too large for L1; for plan"),
            ("load", "200 tokens: with/5 (0.50)"),
            ("stage", "for gather, p = 0.50: try/1"),
        ]
        assert in_short(second) == [
            ("hit", "400 tokens: with/5"),
            ("batch", "300 tokens in L1 and 50 coming: down to 300 in all; 100 went"),
            ("write back", "to L2: note/x (version 1)"),
            ("evict", "100 tokens: note/x (∞)"),
            ("flush", "50 tokens: try/1"),
            ("store", "to L3: note/x (version 1)"),
        ]

    def test_a_failed_write_to_l3_says_so(self) -> None:
        failed = event(1, "store", "a", version=2, outcome="failed", error="no route to host")
        lines = in_short(turns_of([failed])[0])
        assert lines == [("store", "a: not written, tried again later; version 2; no route to host")]
        assert tally([failed]).stored == 0

    def test_a_batch_that_pins_hinder_says_so(self) -> None:
        assert reason(event(1, "batch", before=9, coming=0, mark=5, after=8, reached=False)).endswith(
            "1 went, what else there is is pinned or in use"
        )


class TestSums:
    def test_every_kind_is_counted_once(self) -> None:
        assert tally(RUN) == Tally(
            turns=3,
            loaded_tokens=350,
            hits=2,
            hit_tokens=400,
            misses=2,
            staged=1,
            flushed=1,
            batches=1,
            evicted=1,
            evicted_tokens=100,
            dirty_evicted=1,
            refused=1,
            written_back=1,
            stored=1,
        )

    def test_a_batch_that_could_evict_nothing_is_none(self) -> None:
        assert tally([event(1, "batch", before=9, coming=0, mark=5, after=9, reached=False)]).batches == 0


class TestTheVerb:
    def test_tells_a_run_turn_by_turn_with_reasons(self, tmp_path: Path) -> None:
        printed = call("explain", str(put(tmp_path)))
        assert printed.count("turn ") >= 3
        assert "priority_lru: score ∞, never used" in printed
        assert "whose turn comes with probability 0.50" in printed
        assert "a segment leaves L1" in printed  # what the kinds mean

    def test_tells_one_turn(self, tmp_path: Path) -> None:
        put(tmp_path)
        printed = call("explain", str(tmp_path), "--turn", "2")
        assert "plan → gather" in printed
        assert "start → plan" not in printed

    def test_follows_a_segment_through_the_levels_and_through_runs(self, tmp_path: Path) -> None:
        put(tmp_path, "first")
        put(tmp_path, "second", [event(1, "load", "note/x", 100, node="plan", why="hint", score=0.8)])
        printed = call("explain", str(tmp_path), "--segment", "note/x")
        places = [place for place in ("L1 ⇒ L2", "L2 ⇒ L3", "L2 → L1") if place in printed]
        assert places == ["L1 ⇒ L2", "L2 ⇒ L3", "L2 → L1"]
        assert "first 2" in printed
        assert "second 1" in printed
        assert "with/5" not in printed

    @pytest.mark.parametrize("width", ["80", "120"])
    def test_no_line_is_longer_than_the_terminal(
        self, width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", width)
        monkeypatch.setenv("FORCE_COLOR", "1")
        long = event(1, "load", "note/" + "very-long-name-" * 9, 100, node="plan", why="hint", score=0.8)
        result = CliRunner().invoke(app, ["hierarchy", "explain", str(put(tmp_path, events=[long, *RUN]))])
        assert result.exit_code == 0
        plain = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
        assert max(map(len, plain.splitlines())) <= int(width)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("absent.jsonl",), "'absent.jsonl' is neither the log of a run (.jsonl) nor a folder with runs"),
            ((".",), "'.' holds no log of a run: runs/*.jsonl"),
            (("d",), "'d' holds several runs, choose one with --run: first, second"),
            (("d", "--run", "secnd"), "unknown run 'secnd'; did you mean 'second'? Known: first, second"),
            (
                ("d", "--run", "first", "--turn", "9"),
                "turn must be one of the run's, 1 to 3, got 9",
            ),
            (
                ("d", "--segment", "note/y"),
                "no event of the run is about segment 'note/y'; did you mean 'note/x'?",
            ),
            (
                ("d/runs/first.jsonl", "--run", "x"),
                "run is for folders; 'd/runs/first.jsonl' is the log of one run",
            ),
            (("d/bad.jsonl",), "log 'd/bad.jsonl', line 1: not an event of a run: not an object"),
        ],
    )
    def test_what_is_not_there_is_one_line(
        self, words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(tmp_path / "d", "first")
        put(tmp_path / "d", "second")
        (tmp_path / "d" / "bad.jsonl").write_text("[1]\n")
        monkeypatch.chdir(tmp_path)
        assert call("explain", *words, code=2) == f"error: {says}\n"


def two_threads() -> list[dict[str, Any]]:
    """Ann's run is that of :data:`RUN`; bob has one turn of his own amid it, in which he finds her note."""
    own = [
        event(1, "turn", nodes=["read"], ending=False, used=100, budget=500, segments=1, staged=0),
        event(1, "load", "note/x", 100, node="read", why="hint", score=0.7),
    ]
    ann, bob = ([{**e, "thread": name} for e in some] for name, some in (("ann", RUN), ("bob", own)))
    return [*ann[:7], *bob, *ann[7:]]


class TestThreads:
    def test_are_told_one_after_another(self, tmp_path: Path) -> None:
        printed = call("explain", str(put(tmp_path, events=two_threads())))
        heads = [line for line in printed.splitlines() if line.startswith(("thread", "turn "))]
        assert [head.partition("  L1")[0].strip() for head in heads] == [
            "thread ann",
            "turn 1  start → plan",
            "turn 2  plan → gather ×2",
            "turn 3  gather ×2 → end",
            "thread bob",
            "turn 1  start → read",
        ]

    def test_one_is_told_alone_as_a_run_without_threads_is(self, tmp_path: Path) -> None:
        alone = call("explain", str(put(tmp_path)))
        path = str(put(tmp_path, events=two_threads()))
        assert call("explain", path, "--thread", "ann") == alone
        assert "thread" not in alone

    def test_a_turn_is_told_of_each_thread_that_has_it(self, tmp_path: Path) -> None:
        path = str(put(tmp_path, events=two_threads()))
        assert call("explain", path, "--turn", "1").count("turn 1  start") == 2
        assert "thread bob" not in call("explain", path, "--turn", "2")
        assert call("explain", path, "--turn", "4", code=2) == (
            "error: turn must be one of the run's, 1 to 3, got 4\n"
        )

    def test_a_segment_is_followed_from_one_to_the_other(self, tmp_path: Path) -> None:
        path = str(put(tmp_path, events=two_threads()))
        printed = call("explain", path, "--segment", "note/x")
        assert re.findall(r"first (ann|bob) (\d) ", printed) == [
            ("ann", "1"), ("bob", "1"), ("ann", "2"), ("ann", "2"), ("ann", "2"),
        ]  # fmt: skip
        assert "first 1" in call("explain", path, "--segment", "note/x", "--thread", "bob")

    def test_a_write_to_l3_that_is_nobodys_is_told_at_the_end(self, tmp_path: Path) -> None:
        path = str(put(tmp_path, events=[*two_threads(), event(3, "store", "old/note", version=1)]))
        printed = call("explain", path)
        assert printed.count("old/note") == 1
        assert printed.index("of no thread") < printed.index("old/note")

    def test_one_that_is_not_there_is_one_line(self, tmp_path: Path) -> None:
        path = str(put(tmp_path, events=two_threads()))
        says = "error: unknown thread 'bo'; did you mean 'bob'? Known: ann, bob\n"
        assert call("explain", path, "--thread", "bo", code=2) == says
        assert call("trace", path, "--thread", "bo", "-o", str(tmp_path / "t.parquet"), code=2) == says

    def test_of_one_graph_over_real_stores_are_told_apart(self, tmp_path: Path) -> None:
        """Ann and bob take turns at one graph, and ann goes back to an earlier checkpoint."""
        pytest.importorskip("langgraph")
        pytest.importorskip("qdrant_client")
        from tests.softhit.hierarchy.graph_agent import build, open_place

        topics = {"ann": "tea", "bob": "rust"}
        configs: Any = {name: {"configurable": {"thread_id": name}} for name in topics}
        with open_place(tmp_path) as place:
            graph = build(place, "shop").compile(checkpointer=place.checkpointer())
            turns = [
                graph.stream({"log": [], "topic": topic}, configs[name]) for name, topic in topics.items()
            ]
            for _ in zip(*turns, strict=True):
                pass
            assert place.writer.drain(10)
            before = read_log(place.log_path("shop") or "")
            points = [s.config for s in graph.get_state_history(configs["ann"]) if s.next == ("write",)]
            graph.invoke(None, points[-1])
            assert place.writer.drain(10)
        log = tmp_path / "runs" / "shop.jsonl"
        assert all(e["thread"] in topics for e in read_log(log, attempts=True))
        assert len(read_log(log, attempts=True)) > len(before)
        assert read_log(log, thread="bob") == [e for e in before if e["thread"] == "bob"]
        printed = call("explain", str(tmp_path), "--run", "shop")
        for name, topic in topics.items():
            mine = read_log(log, thread=name)
            last = mine[-1]["turn"]
            assert [e["turn"] for e in mine if e["kind"] == "turn"] == list(range(1, last + 1))
            facts = [e["segment"] for e in mine if e["kind"] == "load" and "/" in e["segment"]]
            assert facts[0].startswith(topic)
            assert {e["outcome"] for e in mine if e["kind"] == "store"} <= {"stored", "superseded"}
            told = printed.partition(f"thread {name}\n")[2].partition("\nthread ")[0]
            assert len(re.findall(r"^turn \d+ ", told, re.M)) == last
            alone = call("explain", str(log), "--thread", name)
            assert all(line in printed for line in alone.splitlines())
            assert "capacity 120" in call(
                "trace", str(log), "--thread", name, "-o", str(tmp_path / "t.parquet")
            )
        printed = call("explain", str(log), "--segment", "answer")
        assert set(re.findall(r"shop (\w+) \d+ ", printed)) == set(topics)

    def test_a_trace_is_of_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        events = [{**e, "thread": name} for name in ("ann", "bob") for e in TestAsATrace.EVENTS]
        put(tmp_path, events=events)
        printed = call("trace", ".", "-o", "t.parquet", code=2)
        assert printed == (
            "error: 'runs/first.jsonl' holds several threads, choose one with --thread: ann, bob\n"
        )
        assert not Path("t.parquet").exists()
        assert "capacity 40: 50 tokens" in call("trace", ".", "-o", "t.parquet", "--thread", "bob")


class TestAsATrace:
    # three turns: a is missed and loaded, hit, then evicted for b
    EVENTS = (
        event(1, "turn", nodes=["n"], used=30, budget=40, segments=1, staged=0),
        event(1, "miss", "a", 30, version=1, node="n", why="not in L1"),
        event(1, "load", "a", 30, version=1, node="n", why="hint", score=0.9),
        event(2, "turn", nodes=["n"], used=30, budget=40, segments=1, staged=0),
        event(2, "hit", "a", 30, version=1, node="n"),
        event(3, "turn", nodes=["n"], used=20, budget=40, segments=1, staged=0),
        event(3, "miss", "b", 20, version=1, node="n", why="not in L1"),
        event(3, "batch", before=30, coming=20, mark=26, after=0, reached=True),
        event(3, "evict", "a", 30, version=1, why="lru", score=1.0, accesses=0),
        event(3, "load", "b", 20, version=1, node="n", why="hint", score=0.8),
    )

    def test_a_run_becomes_a_trace_and_a_schedule_that_other_verbs_take(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        put(tmp_path, events=list(self.EVENTS))
        printed = call("trace", ".", "-o", "t.parquet", "--schedule", "s.parquet")
        assert "capacity 40: 50 tokens were needed and not in L1; at lambda = 1" in printed
        for words in (
            ["verify", "s.parquet", "t.parquet"],
            ["run", "t.parquet", "-p", "lru,context_l1:lru", "-K", "40"],
            ["opt", "t.parquet", "-K", "40"],
        ):
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output

    @pytest.mark.parametrize(
        ("output", "schedule", "says"),
        [
            ("runs/first.jsonl", None, "output must be another file than the log of a run"),
            ("x/../runs/first.jsonl", None, "output must be another file than the log of a run"),
            ("link.jsonl", None, "output must be another file than the log of a run"),
            ("runs/second.jsonl", None, "output must be another file than the log of a run"),
            ("t.parquet", "runs/first.jsonl", "schedule must be another file than the log of a run"),
            ("s.parquet", "s.parquet", "schedule must be another file than output"),
            ("s.parquet", "x/../s.parquet", "schedule must be another file than output"),
        ],
    )
    def test_replaces_neither_a_log_nor_one_file_by_the_other(
        self,
        output: str,
        schedule: str | None,
        says: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        logs = [put(tmp_path, name, list(self.EVENTS)) for name in ("first", "second")]
        Path("link.jsonl").symlink_to(logs[0])
        Path("x").mkdir()
        before = {path: path.read_bytes() for path in logs}
        words = [".", "--run", "first", "-o", output]
        printed = call("trace", *words, *(["--schedule", schedule] if schedule else []), code=2)
        assert printed.startswith(f"error: {says}, got ")
        assert printed.count("\n") == 1
        assert {path: path.read_bytes() for path in logs} == before
        assert list(tmp_path.rglob("*.parquet")) == []

    def test_a_trace_that_was_written_before_is_replaced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        put(tmp_path, events=list(self.EVENTS))
        for _ in range(2):
            call("trace", ".", "-o", "t.jsonl", "--schedule", "s.jsonl")

    def test_a_log_that_does_not_add_up_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        put(tmp_path, events=[e for e in self.EVENTS if e["kind"] != "evict"])
        assert "turn 3" in call("trace", ".", "-o", "t.parquet", code=2)
        assert not Path("t.parquet").exists()
