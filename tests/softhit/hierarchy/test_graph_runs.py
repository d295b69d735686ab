"""Runs over real stores: ended at any node and resumed, gone back to any checkpoint, and what they leave."""

import json
import operator
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph

from softhit.errors import HierarchyError
from softhit.hierarchy.graph import attach, context_of
from softhit.hierarchy.log import read_log
from softhit.hierarchy.workspace import Workspace
from tests.softhit.hierarchy.graph_agent import FACTS, build, open_place

ROOT = Path(__file__).resolve().parents[3]
LOG = [
    *["plan", "work 0", "work 1", "work 2", "write 1"],
    *["plan", "work 0", "work 1", "work 2", "write 2"],
]
PLACES = [f"{how}{node}" for node in ("plan", "work", "doubt", "write") for how in ("", "kill ")]


def agent(folder: Path, run: str, fail: str = "") -> int:
    """The agent in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("graph_agent.py")), str(folder), run, fail]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True).returncode


def derived(place: Workspace) -> dict[str, str]:
    """The latest text of what the agent derived, in L3."""
    found = [place.documents.get(key) for key in place.documents.keys()]  # noqa: SIM118
    return {one.key: one.text for one in found if one is not None and one.key not in FACTS}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a run leaves in L3 that nothing happens to."""
    folder = tmp_path_factory.mktemp("whole")
    assert agent(folder, "run") == 0
    with open_place(folder) as place:
        return derived(place)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    with open_place(tmp_path) as one:
        yield one


CONFIG: Any = {"configurable": {"thread_id": "run"}}


class TestARunThatFails:
    @pytest.mark.parametrize("fail", PLACES)
    def test_goes_on_in_a_new_process_and_leaves_what_a_whole_run_leaves(
        self, fail: str, tmp_path: Path, whole: dict[str, str]
    ) -> None:
        assert set(whole) == {"plan", "note/0", "note/1", "note/2", "doubt", "answer"}
        assert agent(tmp_path, "run", fail) != 0
        with open_place(tmp_path) as place:
            app = build(place, "run").compile(checkpointer=place.checkpointer())
            assert app.invoke(None, CONFIG)["log"] == LOG
            assert place.writer.drain(10)
            assert derived(place) == whole
            assert place.cache.count(dirty=True) == 0

    def test_counts_its_branches_once(self, tmp_path: Path) -> None:
        assert agent(tmp_path, "run", "write") != 0
        with open_place(tmp_path) as place:
            build(place, "run").compile(checkpointer=place.checkpointer()).invoke(None, CONFIG)
            assert place.branches.counts("agent", "another", "write") == (2, {"plan": 1})
            assert place.branches.counts("agent", "another", "plan") == (2, {"work": 2})
            assert place.branches.counts("agent", "run", "plan") == (0, {})


class TestGoingBack:
    def test_to_any_checkpoint_of_a_run_ends_as_the_run_did(self, place: Workspace) -> None:
        app = build(place, "run").compile(checkpointer=place.checkpointer())
        end = app.invoke({"log": [], "topic": "tea"}, CONFIG)
        assert end["log"] == LOG
        before = {k: v for k, v in context_of(app, CONFIG).items() if k in ("turn", "path")}
        points = [s.config for s in app.get_state_history(CONFIG) if s.next and s.next != ("__start__",)]
        assert len(points) == 8 * 3 + 2
        for point in points:
            assert app.invoke(None, point) == end
            context = context_of(app, CONFIG)
            assert {k: context[k] for k in before} == before
            used = sum(s["tokens"] for s in context["l1"].values())
            assert used <= context["budget"]
        # of each turn the log has one attempt, the last
        turns = [e["turn"] for e in read_log(place.log_path("run")) if e["kind"] == "turn"]  # type: ignore[arg-type]
        assert turns == list(range(1, before["turn"] + 1))

    def test_counts_the_branches_of_a_run_once(self, place: Workspace) -> None:
        app = build(place, "run").compile(checkpointer=place.checkpointer())
        app.invoke({"log": [], "topic": "tea"}, CONFIG)
        counts = [place.branches.counts("agent", "", node) for node in ("__start__", "plan", "write")]
        for state in list(app.get_state_history(CONFIG))[::7]:
            if state.next and state.next != ("__start__",):
                app.invoke(None, state.config)
        assert [place.branches.counts("agent", "", node) for node in ("__start__", "plan", "write")] == counts


class TestACheckpoint:
    def test_holds_no_text_of_a_segment(self, place: Workspace, tmp_path: Path) -> None:
        app = build(place, "run").compile(checkpointer=place.checkpointer())
        app.invoke({"log": [], "topic": "tea"}, CONFIG)
        stored = b"".join(
            bytes(value)
            for table, column in (("checkpoints", "checkpoint"), ("writes", "value"))
            for (value,) in sqlite3.connect(tmp_path / "checkpoints.sqlite").execute(
                f"SELECT {column} FROM {table}"
            )
            if value
        )
        assert b"note/1" in stored
        for text in [*FACTS.values(), "note 1 after", "doubt in round", "answer 1 on"]:
            assert text[:20].encode() not in stored

    def test_holds_plain_data_only(self, place: Workspace) -> None:
        app = build(place, "run").compile(checkpointer=place.checkpointer())
        app.invoke({"log": [], "topic": "tea"}, CONFIG)
        context = context_of(app, CONFIG)
        assert json.loads(json.dumps(context)) == context


class TestASecondRun:
    def test_finds_what_the_first_one_derived(self, place: Workspace) -> None:
        app = build(place, "run").compile(checkpointer=place.checkpointer())
        app.invoke({"log": [], "topic": "tea"}, CONFIG)
        second = build(place, "second").compile(checkpointer=place.checkpointer())
        second.invoke(
            {"log": [], "topic": "answer on rust, plan about rust from"},
            {"configurable": {"thread_id": "second"}},
        )
        path = place.log_path("second")
        assert path is not None
        first_turn = [e for e in read_log(path) if e["turn"] == 1 and e["kind"] == "load"]
        assert {"answer", "plan"} & {e["segment"] for e in first_turn}

    def test_knows_which_branches_the_first_one_took(self, place: Workspace) -> None:
        app = build(place, "run").compile(checkpointer=place.checkpointer())
        app.invoke({"log": [], "topic": "tea"}, CONFIG)
        # write ran twice and was followed by plan once
        assert place.branches.chance("agent", "second", "write", "plan", 2) == Fraction(1 + 1, 2 + 2)
        assert place.branches.chance("agent", "second", "plan", "work", 1) == 1
        assert place.branches.chance("agent", "run", "write", "plan", 2) == Fraction(1, 2)
        assert place.branches.chance("agent", "second", "write", "nowhere", 2) == Fraction(1, 4)


class TestARunWithAWriterInTheBackground:
    def test_leaves_the_same_in_l3(self, tmp_path: Path, whole: dict[str, str]) -> None:
        with open_place(tmp_path, background=True) as place:
            app = build(place, "run").compile(checkpointer=place.checkpointer())
            assert app.invoke({"log": [], "topic": "tea"}, CONFIG)["log"] == LOG
            assert place.close(drain_seconds=20).complete
        with open_place(tmp_path) as place:
            assert derived(place) == whole

    def test_with_the_engine_in_process_too(self, tmp_path: Path, whole: dict[str, str]) -> None:
        with open_place(tmp_path, background=True, engine="edge") as place:
            app = build(place, "run").compile(checkpointer=place.checkpointer())
            assert app.invoke({"log": [], "topic": "tea"}, CONFIG)["log"] == LOG
            assert place.close(drain_seconds=20).complete
        with open_place(tmp_path, engine="edge") as place:
            assert derived(place) == whole


class TestThreadsAtTheSameTime:
    @pytest.mark.parametrize("engine", ["qdrant", "edge"])
    def test_bring_all_they_derive_to_l3(
        self, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # on a machine that is busy L3 may take its time
        monkeypatch.setattr("softhit.hierarchy.writeback._PATIENCE", 60)
        if engine == "edge":
            pytest.importorskip("qdrant_edge")
        with Workspace(tmp_path / "memory", budget=40, engine=engine) as place:
            allocator = place.allocator("run")

            def note(state: Any) -> dict[str, Any]:
                view = allocator.view(state)
                view.derive(f"own/{state['who']}", f"note {state['turn']} of {state['who']}")
                view.derive("shared", f"shared {state['turn']} of {state['who']}")
                return {}

            def look(state: Any) -> dict[str, Any]:
                view = allocator.view(state)
                assert view.text(f"own/{state['who']}") == f"note {state['turn']} of {state['who']}"
                return {}

            class Turn(TypedDict):
                who: str
                turn: int

            builder = StateGraph(Turn)
            builder.add_node("note", note)
            builder.add_node("look", look)
            builder.add_edge(START, "note")
            builder.add_edge("note", "look")
            app = attach(builder, allocator).compile(checkpointer=place.checkpointer())

            def work(who: str) -> None:
                for turn in range(4):
                    app.invoke({"who": who, "turn": turn}, {"configurable": {"thread_id": who}})

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(work, "abcdefgh"))
            assert place.drain(30)
            for who in "abcdefgh":
                record = place.documents.get(f"own/{who}")
                assert record is not None
                assert record.text == f"note 3 of {who}"
            versions = range(1, place.documents.version("shared") + 1)
            kept = [place.documents.get("shared", version) for version in versions]
            last = {record.text for record in kept if record is not None}
            assert {f"shared 3 of {who}" for who in "abcdefgh"} <= last


class TestAnAsynchronousRun:
    def test_goes_on_from_its_checkpoint(self, place: Workspace) -> None:
        import asyncio

        async def run() -> Any:
            async with place.async_checkpointer() as saver:
                builder = build(place, "run", "write")
                with pytest.raises(RuntimeError):
                    await builder.compile(checkpointer=saver).ainvoke({"log": [], "topic": "tea"}, CONFIG)
                return await build(place, "run").compile(checkpointer=saver).ainvoke(None, CONFIG)

        assert asyncio.run(run())["log"] == LOG


class TestPinsAboveTheBudget:
    @pytest.mark.parametrize("grown", [False, True])
    def test_let_a_run_go_on_with_a_larger_one(self, tmp_path: Path, grown: bool) -> None:
        class State(TypedDict, total=False):
            log: Annotated[list[str], operator.add]

        def opened(budget: int) -> tuple[Workspace, Any, Any]:
            place = Workspace(tmp_path, budget=budget, counter=lambda text: len(text.split()))
            allocator = place.allocator("run")

            def node(name: str) -> Any:
                def step(state: State) -> dict[str, Any]:
                    view = allocator.view(state)
                    if "again" in state["log"]:
                        pass
                    elif name == "plan":
                        view.derive("x", "six words " * 3)
                    elif name == "left":
                        view.pin("x")
                    elif name == "right" and grown:
                        view.derive("x", "eleven words " * 11)
                    elif name == "right":
                        view.derive("y", "six words " * 3, pinned=True)
                    return {"log": [name]}

                return step

            builder = StateGraph(State)
            for name in ("plan", "left", "right", "join"):
                builder.add_node(name, node(name))
            builder.add_edge(START, "plan")
            builder.add_edge("plan", "left")
            builder.add_edge("plan", "right")
            builder.add_edge(["left", "right"], "join")
            return place, allocator, attach(builder, allocator).compile(checkpointer=place.checkpointer())

        out = "" if grown else ": resume the run with a larger budget, and unpin some"
        place, allocator, app = opened(10)
        with place, pytest.raises(HierarchyError, match="more than the whole budget of 10" + out):
            app.invoke({"log": []}, CONFIG, durability="sync")
        place, allocator, app = opened(30)
        with place:
            done = app.invoke(None, CONFIG, durability="sync")
            assert done["log"] == ["plan", "left", "right", "join"]
            view = allocator.view({"context": context_of(app, CONFIG)})
            view.unpin("x")
            app.update_state(CONFIG, view.update(), as_node="context")
        place, allocator, app = opened(10)
        with place:
            app.invoke({"log": ["again"]}, CONFIG, durability="sync")
            assert list(context_of(app, CONFIG)["l1"]) == ([] if grown else ["y"])
            assert place.drain(10)
            assert derived(place).keys() == ({"x"} if grown else {"x", "y"})
