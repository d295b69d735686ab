"""Agents on real LangGraph graphs whose derived texts must survive a kill at any write."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from softhit.errors import HierarchyError
from softhit.hierarchy.graph.attach import attach
from softhit.hierarchy.graph.hints import context_hint
from softhit.hierarchy.nodes import running
from softhit.hierarchy.segment import Segment
from tests.crash import raw
from tests.crash.opened import Opened, Setup, opened
from tests.crash.words import Made, digest, made, made_by_digest, text_of

__all__ = ["GRAPHS", "Agent"]

DOCUMENTS = {
    "doc/ledger": "ledger facts: what the ledger says of the first and of the second quarter",
    "doc/river": "river facts: the river follows the meadow and crosses the orchard",
    "doc/kettle": "kettle facts: a kettle rests on the threshold of the harbour",
}
THREADS = ("first", "second")


class State(TypedDict, total=False):
    """What the agents' nodes read and write."""

    topic: str
    rounds: int
    said: Annotated[list[str], add]


@dataclass
class Life:
    """The process that runs the nodes: which one it is, and what it has open."""

    number: int
    parts: Opened
    thread: str = THREADS[0]

    def derive(self, state: Any, id: str, k: int, **about: Any) -> None:
        """Derive the ``k``-th text of an id."""
        self.parts.allocator.view(state).derive(id, text_of(id, k, self.number), **about)

    def read(self, state: Any, id: str) -> str:
        """Which text of an id there is, "id k": in L1, else waiting for L2, else in L2, else in L3."""
        view = self.parts.allocator.view(state)
        now = running.get()
        assert now is not None
        if id in view:
            text = view.text(id)
        elif id in now.context["unsaved"]:
            text = self.parts.texts.get(now.context["unsaved"][id]["digest"])
        elif found := self.parts.cache.get([id]):
            text = found[id].text
        else:
            record = self.parts.documents.get(id)
            assert record is not None, id
            text = record.text
        one = made(text)
        return "none of ours" if one is None else f"{one.id} {one.k}"

    def store(self) -> None:
        """Bring to L3 what is due, where no thread does."""
        try:
            self.parts.writer.step()
        except HierarchyError:
            return


def line(life: Life) -> StateGraph:
    """Derive, supersede and invalidate, in a row and in a loop."""
    graph = StateGraph(State)

    @context_hint("facts about the {topic}")
    def gather(state: State) -> dict[str, Any]:
        life.derive(state, "finding", 1)
        life.derive(state, "long-note", 1)
        return {"said": ["gathered"]}

    def analyse(state: State) -> dict[str, Any]:
        life.derive(state, "summary", 1, fields=("topic",))
        life.store()
        return {"said": [life.read(state, "finding")]}

    @context_hint("facts about the {topic}")
    def revise(state: State) -> dict[str, Any]:
        k = 2 + state["rounds"]
        life.derive(state, "finding", k)
        life.derive(state, f"aside-{k}", 1)
        return {"said": [f"revised {k}"], "topic": "river", "rounds": state["rounds"] + 1}

    def report(state: State) -> dict[str, Any]:
        life.derive(state, "report", 1)
        life.store()
        return {"said": [life.read(state, "finding"), life.read(state, "summary")]}

    for node in (gather, analyse, revise, report):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "gather")
    graph.add_edge("gather", "analyse")
    graph.add_edge("analyse", "revise")
    graph.add_conditional_edges(
        "revise", lambda s: "revise" if s["rounds"] < 2 else "report", ["revise", "report"]
    )
    graph.add_edge("report", END)
    return graph


LINE = {"finding": 3, "long-note": 1, "summary": 1, "aside-2": 1, "aside-3": 1, "report": 1}


def fan(life: Life) -> StateGraph:
    """Branches that run beside each other and derive texts of their own and of one shared id."""
    graph = StateGraph(State)

    def split(state: State) -> dict[str, Any]:
        life.derive(state, "plan", 1)
        return {"said": ["split"]}

    def work(task: dict[str, Any]) -> dict[str, Any]:
        life.derive(task, f"part-{task['part']}", 1)
        life.derive(task, "shared", 1 + task["part"])
        return {"said": [f"worked on {task['part']}"]}

    def join(state: State) -> dict[str, Any]:
        life.store()
        life.derive(state, "plan", 2)
        return {"said": [life.read(state, "part-1")]}

    def left(state: State) -> dict[str, Any]:
        life.derive(state, "both", 1)
        return {"said": ["left"]}

    def right(state: State) -> dict[str, Any]:
        life.derive(state, "both", 2)
        return {"said": ["right"], "topic": "river"}

    def meet(state: State) -> dict[str, Any]:
        life.store()
        return {"said": [life.read(state, "plan"), life.read(state, "both")]}

    for node in (split, work, join, left, right, meet):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", lambda s: [Send("work", {"part": n}) for n in range(3)], ["work"])
    graph.add_edge("work", "join")
    graph.add_edge("join", "left")
    graph.add_edge("join", "right")
    graph.add_edge(["left", "right"], "meet")
    graph.add_edge("meet", END)
    return graph


FAN = {"plan": 2, "part-0": 1, "part-1": 1, "part-2": 1, "shared": 3, "both": 2}
BESIDE = ("shared", "both")
"""Ids of which branches derive different texts at once: all are kept, under ids of their own."""


def many(life: Life) -> StateGraph:
    """More derived ids than L2 has room for."""
    graph = StateGraph(State)

    def again(state: State) -> dict[str, Any]:
        n = state["rounds"]
        life.derive(state, f"item-{n}", 1)
        if n % 2:
            life.derive(state, f"item-{n - 1}", 2)
        if n == 3:
            life.store()
        return {"rounds": n + 1, "said": [f"round {n}"]}

    def last(state: State) -> dict[str, Any]:
        return {"said": [life.read(state, "item-4"), life.read(state, "item-5")]}

    graph.add_node("again", again)
    graph.add_node("last", last)
    graph.add_edge(START, "again")
    graph.add_conditional_edges("again", lambda s: "again" if s["rounds"] < 6 else "last", ["again", "last"])
    graph.add_edge("last", END)
    return graph


MANY = {f"item-{n}": 2 - n % 2 for n in range(6)}


def twice(life: Life) -> StateGraph:
    """Two runs, one after the other: the second finds what the first derived, and supersedes it."""
    graph = StateGraph(State)
    first = life.thread == THREADS[0]

    @context_hint("finding text of life ledger")
    def gather(state: State) -> dict[str, Any]:
        life.derive(state, "finding", 1 if first else 2)
        return {"said": ["gathered"]}

    def conclude(state: State) -> dict[str, Any]:
        seen = life.read(state, "finding")
        life.derive(state, "conclusion", 1 if first else 2)
        if not first:
            life.store()
        return {"said": [seen]}

    graph.add_node("gather", gather)
    graph.add_node("conclude", conclude)
    graph.add_edge(START, "gather")
    graph.add_edge("gather", "conclude")
    graph.add_edge("conclude", END)
    return graph


TWICE = {"finding": 2, "conclusion": 2}


@dataclass(frozen=True)
class Agent:
    """One scenario: an agent's graph on one setup of stores.

    Attributes
    ----------
    ids : dict
        How many texts of each id a whole run derives.
    taken : int
        How many versions of "finding" and of "item-1" somebody else had in L3 before.
    cold : bool
        Start from an empty folder, so that a kill may come while the files are made.
    interleaved : bool
        A later text arrives in L2 just when L3 has taken an earlier one of the same id.
    """

    name: str
    build: Callable[[Life], StateGraph]
    ids: dict[str, int]
    setup: Setup
    threads: tuple[str, ...] = THREADS[:1]
    taken: int = 0
    cold: bool = False
    interleaved: bool = False
    spoil: Callable[[Opened], None] | None = field(default=None, compare=False)

    # --- what the harness calls

    def prepare(self, folder: Path) -> None:
        if self.cold:
            return
        parts = opened(folder, replace(self.setup, l2_fails=".", l3_fails="."))
        parts.saver.setup()
        for k in range(self.taken):
            for id in ("finding", "item-1"):
                parts.documents.upsert(id, f"somebody else's {id}, {k}", {}, k)
        for id, text in list(DOCUMENTS.items())[: self.setup.capacity // 2]:
            parts.documents.upsert(id, text, {}, 0)
            parts.cache.put(Segment(id, digest(text), len(text.split())), text, False)
        parts.close()

    def run(self, folder: Path) -> Any:
        """The first life: every thread to its end, or to the kill."""
        parts = self._open(folder)
        if self.setup.thread:
            parts.writer.start()
        for thread in self.threads:
            self._invoke(parts, 1, thread)
        parts.close()

    def resume(self, folder: Path) -> Any:
        """A later life: each thread from its last checkpoint; then L3 takes what is dirty."""
        parts = self._open(folder)
        if self.setup.thread:
            parts.writer.start()
        answers = [self._invoke(parts, 2, thread) for thread in self.threads]
        parts.mend()
        self._drain(parts)
        parts.close()
        return answers

    def accepted(self, folder: Path) -> dict[str, Any]:
        """Digests of derived texts that committed checkpoints hold, by id, oldest first."""
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            copy = Path(name)
            for file in (*folder.glob("checkpoints.sqlite*"), *folder.glob("texts.sqlite*")):
                shutil.copy(file, copy)
            kept = raw.texts(copy / "texts.sqlite")
            found: dict[str, dict[str, None]] = {}
            for _, channel, value in raw.checkpoints(copy / "checkpoints.sqlite"):
                for id, one in _derived(channel, value):
                    found.setdefault(id, {})[one] = None
        known = self._known
        unread = [one for texts in found.values() for one in texts if one not in kept]
        strange = [one for texts in found.values() for one in texts if one not in known]
        wrong = [
            f"a checkpoint refers to {known.get(one, one)}, which no store of texts has" for one in unread
        ]
        wrong += [f"a checkpoint refers to {one}, which nobody derived" for one in strange]
        return {"derived": sorted(one for texts in found.values() for one in texts), "wrong": wrong}

    def join(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        derived = sorted({*first["derived"], *second["derived"]})
        return {"derived": derived, "wrong": first["wrong"] + second["wrong"]}

    def check(self, folder: Path, accepted: dict[str, Any], answer: Any, left: Any) -> dict[str, Any]:
        """Judge by the files alone."""
        wrong = list(accepted["wrong"])
        records = raw.documents(folder / ("l3.sqlite" if self.setup.documents == "sqlite" else "l3"))
        stored = {id: self._stored(records, id, wrong) for id in self.ids}
        known = self._known
        for one in (known[d] for d in accepted["derived"] if d in known):
            later = [m for m in stored[one.id] if m.k > one.k and one.id not in BESIDE]
            if one not in stored[one.id] and not later:
                wrong.append(f"lost: {one} was accepted and is not in L3, nor is a later text of the agent")
        for id, most in self.ids.items():
            for k in range(1, most + 1) if id in BESIDE else (most,):
                if not any(m.k == k for m in stored[id]):
                    wrong.append(f"lost: text {k} of {id} is not in L3 after a whole run")
            if id not in BESIDE and (latest := _latest(records.get(id, {}))) != f"{id} {most}":
                wrong.append(f"the latest version of {id} in L3 is {latest}, not text {most}")
        wrong += self._rows(folder, records)
        names = sorted({f"{m.id} {m.k}" for texts in stored.values() for m in texts})
        if left is not None and answer != left["answer"]:
            wrong.append(f"the answer is {answer}, without a kill {left['answer']}")
        return {"wrong": wrong, "left": {"names": names}}

    # --- how

    @property
    def _known(self) -> dict[str, Made]:
        return made_by_digest(tuple(self.ids), max(self.ids.values()))

    def _open(self, folder: Path) -> Opened:
        parts = opened(folder, self.setup)
        if self.spoil is not None:
            self.spoil(parts)
        return parts

    def _graph(self, parts: Opened, number: int, thread: str) -> Any:
        builder = self.build(Life(number, parts, thread))
        return attach(builder, parts.allocator).compile(checkpointer=parts.saver)

    def _invoke(self, parts: Opened, number: int, thread: str) -> list[str]:
        graph = self._graph(parts, number, thread)
        config = {"configurable": {"thread_id": thread}, "recursion_limit": 100}
        # not `get_state().next`: it is empty too where all nodes of a step are done but the step is not
        begun = parts.saver.get_tuple(config) is not None
        given = None if begun else {"topic": "ledger", "rounds": 0}
        done = graph.invoke(given, config, durability=self.setup.durability)
        return sorted(done["said"])

    def _drain(self, parts: Opened) -> None:
        """Write back until nothing is dirty anywhere, by the means an application has."""
        values = [self._state(parts, thread) for thread in self.threads]
        contexts = [(one["context"], one["context_reports"]) for one in values if one]
        for _ in range(20):
            waits = False
            for n, (context, reports) in enumerate(contexts):
                if any(s["dirty"] for place in ("l1", "unsaved") for s in context[place].values()):
                    contexts[n] = parts.allocator.boundary(context, reports, [], ending=True)
                    waits = True
            if self.setup.thread:
                parts.writer.wake()
                parts.writer.drain(20.0)
            else:
                while parts.writer.step():
                    pass
            if not waits and not parts.cache.count(dirty=True):
                return

    @staticmethod
    def _state(parts: Opened, thread: str) -> dict[str, Any]:
        kept = parts.saver.get_tuple({"configurable": {"thread_id": thread}})
        return {} if kept is None else kept.checkpoint["channel_values"]

    def _stored(self, records: dict[str, dict[int, str]], id: str, wrong: list[str]) -> set[Made]:
        """The texts of one id in L3, byte for byte."""
        found = set()
        for key, versions in records.items():
            if key == id or key.startswith(f"{id}@"):
                for version, text in versions.items():
                    one = made(text)
                    if one is not None and one.id == id:
                        found.add(one)
                    elif not text.startswith("somebody else's"):
                        wrong.append(f"{key} version {version} in L3 is nobody's text: {text[:60]!r}")
        return found

    def _rows(self, folder: Path, records: dict[str, dict[int, str]]) -> list[str]:
        """What is wrong in L2."""
        rows = raw.vectors(folder / "l2", self.setup.engine)
        wrong = [f"{row['id']} is dirty in L2 after draining" for row in rows if row["dirty"]]
        if len(rows) > self.setup.capacity:
            wrong.append(f"L2 has {len(rows)} rows, more than its {self.setup.capacity}")
        for row in rows:
            versions = records.get(row["id"], {})
            if not row["dirty"] and versions.get(row["version"]) != row["text"]:
                wrong.append(
                    f"{row['id']} is clean in L2, but L3 has another text as version {row['version']}"
                )
        return wrong


@dataclass(frozen=True)
class Steps(Agent):
    """L2 and its write-back without a graph: each text that L2 has taken is noted in a file, and promised."""

    def run(self, folder: Path) -> Any:
        self._steps(folder, self._open(folder), 1)

    def resume(self, folder: Path) -> Any:
        self._steps(folder, self._open(folder), 2)

    def _steps(self, folder: Path, parts: Opened, life: int) -> None:
        if self.setup.thread:
            parts.writer.start()
        if self.interleaved:
            self._supersede_in_between(folder / "promised in between", parts, life)
        noted = folder / "promised"
        for n in range(len(_lines(noted)), len(STEPS)):
            id, k = STEPS[n]
            text = text_of(id, k, life) if id else ""
            if not id:
                self._store(parts)
            if self.interleaved and (id, k) == ("item-0", 2):
                id = text = ""  # what comes in between derives it
            while id:
                known = parts.cache.get([id]).get(id)
                version = 1 if known is None else known.segment.version + 1
                try:
                    parts.cache.put(Segment(id, digest(text), 20, "agent_derived", version=version), text)
                    break
                except HierarchyError:
                    # L2 is full of what L3 does not take: an application would wait until it is back
                    parts.documents.works |= self._store(parts) == 0
            with noted.open("a") as file:
                file.write(digest(text) + "\n")
        parts.mend()
        while parts.cache.count(dirty=True):
            parts.writer.drain(20.0) if self.setup.thread else parts.writer.step()
        parts.close()

    def _supersede_in_between(self, noted: Path, parts: Opened, life: int) -> None:
        """While L3 takes the first text of "item-0", let the agent hand L2 the second one."""
        store = parts.documents.upsert

        def upsert(key: str, *rest: Any, **named: Any) -> Any:
            record = store(key, *rest, **named)
            if record.text.startswith("item-0 text 1"):
                text = text_of("item-0", 2, life)
                segment = Segment("item-0", digest(text), 20, "agent_derived", version=record.version + 1)
                for _ in range(9):
                    with suppress(HierarchyError):
                        parts.cache.put(segment, text)
                        with noted.open("a") as file:
                            file.write(digest(text) + "\n")
                        break
            return record

        parts.documents.upsert = upsert  # type: ignore[method-assign]

    def _store(self, parts: Opened) -> int:
        try:
            return parts.writer.step()
        except HierarchyError:
            return 0

    def accepted(self, folder: Path) -> dict[str, Any]:
        noted = [line for file in folder.glob("promised*") for line in _lines(file)]
        return {"derived": sorted({line for line in noted if line in self._known}), "wrong": []}


STEPS = [
    ("finding", 1), ("long-note", 1), ("finding", 2), ("", 0), ("item-0", 1), ("item-1", 1), ("", 0),
    ("finding", 3), ("item-2", 1), ("item-3", 1), ("item-0", 2), ("item-4", 1), ("", 0), ("item-1", 2),
]  # fmt: skip
"""Texts that L2 takes one after the other; "" = a step of the write-back to L3."""
STEPPED = {"finding": 3, "long-note": 1, "item-0": 2, "item-1": 2, "item-2": 1, "item-3": 1, "item-4": 1}


def _lines(file: Path) -> list[str]:
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [line[:-1] for line in lines if line.endswith("\n")]


def _derived(channel: str, value: Any) -> Iterable[tuple[str, str]]:
    """(id, digest) of derived texts in the value of a channel."""
    if channel == "context_reports":
        for report in (value or {}).get("reports", {}).values():
            if report["kind"] == "derive":
                yield report["segment"]["id"], report["segment"]["digest"]
    elif channel == "context" and value:
        for place in ("l1", "unsaved", "staged"):
            for s in value.get(place, {}).values():
                if s["source"] == "agent_derived":
                    yield s["id"], s["digest"]


def _latest(versions: dict[int, str]) -> str:
    one = made(versions[max(versions)]) if versions else None
    return "nobody's" if one is None else f"{one.id} {one.k}"


SHAPES: dict[str, tuple[type[Agent], Callable[[Life], StateGraph], dict[str, int], dict[str, Any]]] = {
    "steps": (Steps, line, STEPPED, {}),
    "line": (Agent, line, LINE, {}),
    "fan": (Agent, fan, FAN, {}),
    "many": (Agent, many, MANY, {}),
    "full": (Agent, many, MANY, {"capacity": 3}),
    "twice": (Agent, twice, TWICE, {"threads": THREADS}),
}
FAILURES: dict[str, dict[str, str]] = {
    "fine": {},
    "L3 down": {"l3_fails": "f"},
    "L3 flaky": {"l3_fails": ".fa"},
    "L2 flaky": {"l2_fails": ".f.a."},
}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "": ({}, {}),
    "taken": ({}, {"taken": 2}),
    "cold": ({}, {"cold": True}),
    "interleaved": ({}, {"interleaved": True}),
    "thread": ({"thread": True, "durability": "async"}, {}),
}


def agent(shape: str, engine: str, documents: str, failure: str = "fine", variant: str = "") -> Agent:
    """Return one scenario; its name says all of it."""
    kind, build, ids, more = SHAPES[shape]
    stores, start = VARIANTS[variant]
    more = dict(more)
    capacity = more.pop("capacity", Setup.capacity)
    setup = Setup(engine, documents, capacity=capacity, **FAILURES[failure], **stores)
    name = ", ".join(filter(None, (shape, engine, documents, failure, variant)))
    return kind(name, build, ids, setup, **more, **start)


def _agents() -> list[Agent]:
    places = [(engine, documents) for engine in ("qdrant", "edge") for documents in ("sqlite", "folder")]
    found = [agent(shape, *place, failure) for shape in SHAPES for place in places for failure in FAILURES]
    for place in (places[0], places[3]):
        found += [
            agent(shape, *place, "L3 flaky", v) for shape in SHAPES for v in ("taken", "cold", "thread")
        ]
        found += [agent("steps", *place, failure, "interleaved") for failure in FAILURES]
    return found


GRAPHS: tuple[Agent, ...] = tuple(_agents())
