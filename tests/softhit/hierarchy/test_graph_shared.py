"""Nodes of a subgraph that shares the context leave behind what the same nodes leave in the graph itself."""

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypedDict

import hypothesis.strategies as st
import pytest
from hypothesis import given
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from softhit.errors import UnknownName
from softhit.hierarchy.graph import attach, share
from tests.softhit.hierarchy.stand_ins import Recorder, WordsL2, allocator


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    day: str
    user: str


Action = tuple[Any, ...]
Program = list[tuple[str, list[Action]]]
Nodes = list[tuple[str, Any]]
IDS, FIELDS = ("x", "z"), ("day", "user")

actions = st.one_of(
    st.tuples(
        st.sampled_from(["derive", "repeat"]),
        st.sampled_from(IDS),
        st.sets(st.sampled_from(FIELDS)),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(["pin", "unpin", "text", "load"]), st.sampled_from(IDS)),
    st.tuples(st.sampled_from(["change", "invalidate"]), st.sampled_from(FIELDS)),
)
programs = st.lists(st.lists(actions, max_size=4), min_size=1, max_size=5).flatmap(
    lambda steps: st.permutations("abcde").map(lambda names: list(zip(names, steps, strict=False)))
)


class World:
    """An allocator with room for everything, and what nodes saw and left."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.l2 = WordsL2({"z": "old text of z"})
        self.of = allocator(self.l2, log=Recorder(self.events), budget=10_000)
        self.seen: list[dict[str, str]] = []

    def node(self, name: str, todo: Sequence[Action], pause: bool = False) -> Callable[[Any], dict[str, Any]]:
        def run(state: Any) -> dict[str, Any]:
            view, out = self.of.view(state), {}
            before = {s.id: view.peek(s.id) for s in view.segments()}
            for n, (verb, *what) in enumerate(todo):
                if verb in ("derive", "repeat"):
                    who = f"{name} {n}" if verb == "derive" else "anybody"
                    view.derive(what[0], f"{what[0]} by {who}", fields=sorted(what[1]), pinned=what[2])
                elif verb == "change":
                    # never back to what it was: between two boundaries that is no change
                    out[what[0]] = f"{name} {n}"
                elif verb == "invalidate":
                    view.invalidate(what[0])
                else:
                    with suppress(UnknownName):
                        getattr(view, verb)(what[0])
            if pause:
                interrupt("?")
            self.seen.append(before)
            return {"log": [name], **out}

        return run

    def left(self) -> dict[str, tuple[str, bool]]:
        found: dict[str, tuple[str, bool]] = {}

        def look(state: Any) -> dict[str, Any]:
            view = self.of.view(state)
            found.update({s.id: (view.peek(s.id), s.pinned) for s in view.segments()})
            return {}

        self.look = look
        return found


def chain(builder: Any, nodes: Nodes) -> Any:
    for name, node in nodes:
        builder.add_node(name, node)
    names = [name for name, _ in nodes]
    for u, v in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(u, v)
    return builder


def inside(nodes: Nodes) -> Any:
    return share(chain(StateGraph(State), nodes)).compile()


def flat(nodes: Nodes) -> Nodes:
    return nodes


def one(nodes: Nodes) -> Nodes:
    return [("sub", inside(nodes))]


def two(nodes: Nodes) -> Nodes:
    half = (len(nodes) + 1) // 2
    return [("sub", inside(nodes[:half])), *([("bus", inside(nodes[half:]))] if nodes[half:] else [])]


def last_deeper(nodes: Nodes) -> Nodes:
    half = len(nodes) // 2
    return one([*nodes[:half], *one(nodes[half:])])


def first_deeper(nodes: Nodes) -> Nodes:
    half = (len(nodes) + 1) // 2
    return one([*one(nodes[:half]), *nodes[half:]])


def called(nodes: Nodes) -> Nodes:
    inner = inside(nodes)

    def call(state: Any) -> Any:
        return inner.invoke({**state, "log": []})

    return [("sub", call)]


SHAPES = [one, two, last_deeper, first_deeper, called]


def outcome(
    program: Program, shape: Callable[[Nodes], Nodes], pause: int | None = None
) -> tuple[World, dict[str, tuple[str, bool]]]:
    world = World()
    left = world.left()
    nodes = [(name, world.node(name, todo, pause == n)) for n, (name, todo) in enumerate(program)]
    builder = chain(StateGraph(State), [*shape(nodes), ("look", world.look)])
    app = attach(builder, world.of).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    app.invoke({"day": "", "user": "", "log": []}, config)
    if pause is not None:
        app.invoke(Command(resume="on"), config)
    assert len(world.seen) == len(program)
    return world, left


def texts(left: dict[str, tuple[str, bool]]) -> dict[str, str]:
    return {id: text for id, (text, _) in left.items()}


class TestAChain:
    @pytest.mark.parametrize("shape", SHAPES)
    @given(program=programs)
    def test_leaves_what_it_leaves_in_the_graph_itself(
        self, shape: Callable[[Nodes], Nodes], program: Program
    ) -> None:
        (plain, there), (shared, here) = outcome(program, flat), outcome(program, shape)
        if not any(verb in ("change", "invalidate") for _, todo in program for verb, *_ in todo):
            assert here == there
            for saw, seen in zip(plain.seen, shared.seen, strict=True):
                assert {i: t for i, t in saw.items() if " by " in t} == {
                    i: t for i, t in seen.items() if " by " in t
                }
        # what depends on a changed field leaves at the latest at the boundary, with what is fresh of it
        assert texts(here).items() <= texts(there).items()

    @pytest.mark.parametrize("shape", SHAPES)
    @given(program=programs, at=st.integers(0, 4))
    def test_that_is_interrupted_and_resumed_leaves_the_same(
        self, shape: Callable[[Nodes], Nodes], program: Program, at: int
    ) -> None:
        _, whole = outcome(program, shape)
        _, resumed = outcome(program, shape, at % len(program))
        assert resumed == whole
