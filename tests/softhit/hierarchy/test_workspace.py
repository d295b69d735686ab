"""A folder with a whole hierarchy: opened, closed, opened again, and by two at once."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from softhit.errors import InvalidInput, PathInUse, SofthitError, Unavailable, UnknownName
from softhit.hierarchy import Segment, acontext_of, attach, context_hint, context_of, digest_of
from softhit.hierarchy.documents import Record, SqliteDocuments
from softhit.hierarchy.log import read_log
from softhit.hierarchy.nodes import Start
from softhit.hierarchy.workspace import Workspace


def words(text: str) -> int:
    return len(text.split())


def opened(folder: Path | str, **options: Any) -> Workspace:
    return Workspace(
        folder, **{"budget": 100, "capacity": 20, "counter": words, "background": False, **options}
    )


def put(place: Workspace, id: str, text: str) -> None:
    place.cache.put(Segment(id, digest_of(text), words(text), source="agent_derived"), text)


class AwayDocuments(SqliteDocuments):
    """L3 that cannot be reached while ``away``."""

    away = True

    def upsert(
        self, key: str, text: str, metadata: Mapping[str, Any], expected: int, *, version: int | None = None
    ) -> Record:
        if self.away:
            raise Unavailable("L3 is away")
        return super().upsert(key, text, metadata, expected, version=version)


class TestAWorkspace:
    @pytest.mark.parametrize(
        "url", ["localhost:6333", "notaurl", "", ":memory:", "ftp://host", "http://", "https://[", Path("x")]
    )
    def test_an_address_that_is_none_is_refused_and_makes_no_folder(
        self, url: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidInput, match=r"^url must be the address of a Qdrant server, http://"):
            opened(tmp_path / "d", url=url)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("engine", ["qdrant", "edge"])
    def test_holds_what_was_put_into_it_when_it_is_opened_again(self, tmp_path: Path, engine: str) -> None:
        with opened(tmp_path, engine=engine) as place:
            put(place, "a", "one finding")
        assert sorted(p.name for p in tmp_path.iterdir() if "-" not in p.name) == [
            "branches.sqlite", "l2", "l3.sqlite", "texts.sqlite",
        ]  # fmt: skip
        with opened(tmp_path, engine=engine) as place:
            assert place.cache.get(["a"])["a"].text == "one finding"
            found = place.documents.get("a")
            assert found is not None
            assert found.text == "one finding"

    def test_in_memory_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with opened(":memory:") as place:
            put(place, "a", "one finding")
            place.allocator("run").boundary({}, {}, [Start("node")])
            assert place.log_path("run") is None
            place.checkpointer().setup()
        assert list(tmp_path.iterdir()) == []

    def test_reports_what_l3_does_not_have_when_it_is_closed_and_writes_it_later(
        self, tmp_path: Path
    ) -> None:
        away = AwayDocuments(tmp_path / "elsewhere.sqlite")
        place = opened(tmp_path / "place", documents=away)
        put(place, "a", "one finding")
        closed = place.close(drain_seconds=0)
        assert (closed.dirty, closed.dirty_count, closed.complete) == (("a",), 1, False)
        assert place.close() is closed
        away.away = False
        place = opened(tmp_path / "place", documents=away)
        assert place.close().complete
        # a store that was handed over stays open
        assert away.version("a") == 1
        away.close()

    def test_writes_back_by_itself_when_a_thread_is_wanted(self, tmp_path: Path) -> None:
        stored = threading.Event()

        class Telling(SqliteDocuments):
            def upsert(self, *args: Any, **kwargs: Any) -> Record:
                record = super().upsert(*args, **kwargs)
                stored.set()
                return record

        documents = Telling(tmp_path / "l3.sqlite")
        with opened(tmp_path / "place", documents=documents, background=True) as place:
            put(place, "a", "one finding")
            place.writer.wake()
            assert stored.wait(20)
        documents.close()

    def test_cannot_be_opened_twice(self, tmp_path: Path) -> None:
        with opened(tmp_path), pytest.raises(PathInUse):
            opened(tmp_path)
        opened(tmp_path).close()

    def test_cannot_be_opened_by_two_processes(self, tmp_path: Path) -> None:
        code = (
            "import sys; from softhit.hierarchy.workspace import Workspace\n"
            "try: Workspace(sys.argv[1], counter=len)\n"
            "except Exception as error: print(type(error).__name__)"
        )
        with opened(tmp_path):
            done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
        assert done.stdout.strip() == "PathInUse"

    def test_is_closed_again_when_it_cannot_be_opened_wholly(self, tmp_path: Path) -> None:
        (tmp_path / "texts.sqlite").write_bytes(b"not a database, but longer than a header of one" * 10)
        with pytest.raises(InvalidInput, match="SQLite database"):
            opened(tmp_path)
        (tmp_path / "texts.sqlite").unlink()
        opened(tmp_path).close()

    def test_checks_the_rules_of_its_allocators_when_it_is_opened(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="low must be at most high"):
            opened(tmp_path, low="0.9", high="0.8")
        opened(tmp_path).close()

    def test_keeps_a_log_for_each_run(self, tmp_path: Path) -> None:
        with opened(tmp_path) as place:
            for run in ("first run", "second"):
                place.allocator(run).boundary({}, {}, [Start(f"node of {run}")])
            put(place, "a", "one finding")
        paths = sorted((tmp_path / "runs").iterdir())
        assert [p.name for p in paths] == ["first run.jsonl", "second.jsonl"]
        assert read_log(paths[0])[0]["nodes"] == ["node of first run"]
        assert [e["segment"] for e in read_log(paths[1]) if e["kind"] == "store"] == ["a"]

    @pytest.mark.parametrize("run", ["", "..", "a/b", ".", " a", "a\0", 7])
    def test_refuses_names_of_runs_that_are_no_names_of_files(self, tmp_path: Path, run: Any) -> None:
        with opened(":memory:") as place, pytest.raises(InvalidInput, match="run must be a name"):
            place.allocator(run)

    @pytest.mark.parametrize("use", [lambda place: place.allocator("run"), lambda place: place.drain()])
    def test_that_is_closed_gives_no_allocator_and_writes_nothing(self, use: Any) -> None:
        place = opened(":memory:")
        place.close()
        with pytest.raises(InvalidInput, match="was closed"):
            use(place)

    def test_that_is_closed_says_so_wherever_it_is_used(self, tmp_path: Path) -> None:
        with opened(tmp_path) as place:
            app = graph_of(place, "run").compile(checkpointer=place.checkpointer())
        config: Any = {"configurable": {"thread_id": "t"}}
        for use in (
            lambda: app.invoke({"question": "tea"}, config),
            lambda: app.get_state(config),
            lambda: context_of(app, config),
            lambda: place.documents.get("a"),
            lambda: place.texts.put("a"),
            lambda: place.cache.search("a"),
        ):
            with pytest.raises(SofthitError, match="closed"):
                use()

    def test_drains_when_it_is_told_to(self, tmp_path: Path) -> None:
        away = AwayDocuments(":memory:")
        with opened(tmp_path, documents=away) as place:
            put(place, "a", "one finding")
            assert not place.drain(timeout=0)
            away.away = False
            assert place.drain()
            assert away.version("a") == 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"top": 3},
                "unknown parameter of Workspace, 'top'; did you mean 'top_k'. Known: agent_version,",
            ),
            ({"budgt": 3}, "did you mean 'budget'"),
            ({"log": None}, "unknown parameter of Workspace, 'log'"),
            ({"documents": object()}, "documents must be a path, or a store with all methods of"),
            ({"documents": ""}, "documents must be a path"),
        ],
    )
    def test_names_the_parameter_that_is_wrong(self, options: Any, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            opened(":memory:", **options)

    @pytest.mark.parametrize("folder", [None, 3, "", "a\0b", b"bytes"])
    def test_is_in_a_folder_or_in_memory(self, folder: Any) -> None:
        with pytest.raises(InvalidInput, match="folder must be a folder, a path where none is yet, or"):
            opened(folder)

    def test_is_in_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        with pytest.raises(InvalidInput, match="folder must be a folder"):
            opened(tmp_path / "file")

    @pytest.mark.parametrize("name", ["x" * 300, "file/below", "half a pair \ud83d"])
    def test_says_which_folder_cannot_be_made(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        with pytest.raises(Unavailable, match=r"folder '.*' cannot be made: "):
            opened(tmp_path / name)

    def test_of_a_run_with_a_name_too_long_for_a_file_is_said_at_once(self) -> None:
        with opened(":memory:") as place:
            place.allocator("x" * 240)
            with pytest.raises(InvalidInput, match="run must be a name of at most 240 bytes"):
                place.allocator("x" * 241)

    def test_names_the_rule_of_an_allocator_that_is_wrong(self) -> None:
        with opened(":memory:") as place, pytest.raises(UnknownName, match="did you mean 'lookahead'"):
            place.allocator("run", look_ahead=1)


class State(TypedDict, total=False):
    question: str
    answer: str


def graph_of(place: Workspace, run: str) -> Any:
    allocator = place.allocator(run)

    @context_hint("{question}")
    def reply(state: State) -> dict[str, Any]:
        view = allocator.view(state)
        view.derive("answer", f"on {state['question']}")
        return {"answer": view.render()}

    builder = StateGraph(State)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    builder.add_edge("reply", END)
    return attach(builder, allocator)


class TestInAnEventLoop:
    config: Any = {"configurable": {"thread_id": "t"}}  # noqa: RUF012

    def test_the_async_checkpointer_keeps_a_run_and_its_context(self, tmp_path: Path) -> None:
        async def main(place: Workspace) -> Any:
            async with place.async_checkpointer() as saver:
                app = graph_of(place, "run").compile(checkpointer=saver)
                assert await acontext_of(app, self.config) == {}
                await app.ainvoke({"question": "tea"}, self.config)
                with pytest.raises(InvalidInput, match=r"await acontext_of\(graph, config\)"):
                    context_of(app, self.config)
                return await acontext_of(app, self.config)

        with opened(tmp_path) as place:
            context = asyncio.run(main(place))
            assert list(context["l1"]) == ["answer"]
            app = graph_of(place, "run").compile(checkpointer=place.checkpointer())
            assert context_of(app, self.config) == context
            assert place.drain()
        with pytest.raises(InvalidInput, match="graph must be a graph compiled with a checkpointer"):
            asyncio.run(acontext_of(object(), self.config))

    @pytest.mark.parametrize(
        "verb", ["ainvoke", "aget_state", "acontext_of", "history", "aput", "aput_writes", "adelete_thread"]
    )
    def test_the_other_one_names_it(self, verb: str) -> None:
        async def main(place: Workspace) -> None:
            app = graph_of(place, "run").compile(checkpointer=place.checkpointer())
            if verb == "ainvoke":
                await app.ainvoke({"question": "tea"}, self.config)
            elif verb == "aget_state":
                await app.aget_state(self.config)
            elif verb == "acontext_of":
                await acontext_of(app, self.config)
            elif verb == "history":
                _ = [one async for one in app.aget_state_history(self.config)]
            else:
                given = {"aput": (self.config, {}, {}, {}), "aput_writes": (self.config, [], "task")}
                await getattr(app.checkpointer, verb)(*given.get(verb, ("t",)))

        with (
            opened(":memory:") as place,
            pytest.raises(NotImplementedError, match=r"async with memory\.async_checkpointer") as raised,
        ):
            asyncio.run(main(place))
        assert isinstance(raised.value, SofthitError)
