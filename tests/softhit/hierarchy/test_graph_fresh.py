"""With room for everything, nodes see of what was derived exactly what no field has changed for since."""

from collections.abc import Callable
from typing import Any, TypedDict

import hypothesis.strategies as st
from hypothesis import example, given
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from softhit.hierarchy.graph import attach
from tests.softhit.hierarchy.stand_ins import WordsL2, allocator

FIELDS = ("day", "user")
IDS = ("x", "y", "z")


class State(TypedDict, total=False):
    day: int
    user: int


Fields = dict[str, int]
# what a node does: it derives texts that depend on fields, and changes fields
Node = list[tuple[str, list[str]] | Fields]
Turn = tuple[Fields, list[Node]]

changes = st.dictionaries(st.sampled_from(FIELDS), st.integers(0, 1), min_size=1)
derives = st.tuples(st.sampled_from(IDS), st.lists(st.sampled_from(FIELDS), unique=True))
nodes = st.lists(st.one_of(derives, changes), max_size=3)
turns = st.tuples(st.one_of(st.just({}), changes), st.lists(nodes, min_size=2, max_size=2))


class Player:
    """Plays turns in a graph, and compares at every node what it sees with what it should."""

    def __init__(self) -> None:
        self.of = allocator(WordsL2({}), budget=10_000)
        self.current: dict[str, tuple[str, Fields]] = {}
        self.todo: list[Node] = []
        self.made = 0

    def look(self, state: State) -> dict[str, Any]:
        view = self.of.view(state)
        self.current = {
            id: (text, then)
            for id, (text, then) in self.current.items()
            if all(state[name] == value for name, value in then.items())  # type: ignore[literal-required]
        }
        assert {s.id: view.peek(s.id) for s in view.segments()} == {
            id: text for id, (text, _) in self.current.items()
        }
        return {}

    def node(self, number: int) -> Callable[[State], dict[str, Any]]:
        def run(state: State) -> dict[str, Any]:
            self.look(state)
            view, out = self.of.view(state), {}
            for what in self.todo[number]:
                if isinstance(what, dict):
                    out.update(what)
                    continue
                id, names = what
                self.made += 1
                view.derive(id, f"text {self.made}", fields=names)
                self.current[id] = (f"text {self.made}", {name: state[name] for name in names})  # type: ignore[literal-required]
            return out

        return run

    def play(self, script: list[Turn]) -> None:
        builder = StateGraph(State)
        names = ["first", "second", "last"]
        for name, node in zip(names, [self.node(0), self.node(1), self.look], strict=True):
            builder.add_node(name, node)
        for u, v in zip([START, *names], [*names, END], strict=True):
            builder.add_edge(u, v)
        app = attach(builder, self.of).compile(checkpointer=InMemorySaver())
        start = {"day": 0, "user": 0}
        for given_now, self.todo in script:
            app.invoke({**start, **given_now}, {"configurable": {"thread_id": "t"}})
            start = {}


@given(st.lists(turns, min_size=1, max_size=4))
# it was dropped: the last value that a boundary had seen was of long before
@example([({}, [[("x", ["day"])], [{"day": 1}]]), ({"day": 0}, [[("x", ["day"])], []])])
def test_a_text_is_seen_until_a_field_it_depends_on_changes(script: list[Turn]) -> None:
    Player().play(script)
