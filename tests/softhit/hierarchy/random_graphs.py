"""Random graphs with every way LangGraph has to go from node to node, and what they do step by step."""

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import hypothesis.strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

NAMES = ("a", "b", "c", "d", "e")


def mix(left: int, right: int) -> int:
    """A reducer that tells every order of updates apart."""
    return (left * 31 + right) % 100_003


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    x: Annotated[int, mix]
    last: str


@dataclass(frozen=True)
class Way:
    """Where a node goes by a decision: targets, whether to one or several, by names or packets."""

    targets: tuple[str, ...]
    several: bool
    packets: bool
    mapped: bool


@dataclass(frozen=True)
class Node:
    edges: tuple[str, ...]
    branch: Way | None
    command: Way | None
    last: bool
    defer: bool


@dataclass(frozen=True)
class Graph:
    nodes: dict[str, Node]
    entry: tuple[str, ...]
    entry_branch: Way | None
    joins: tuple[tuple[tuple[str, ...], str], ...]
    limit: int
    ends: int

    @property
    def packets(self) -> bool:
        ways = [self.entry_branch, *(w for n in self.nodes.values() for w in (n.branch, n.command))]
        return any(way is not None and way.packets for way in ways)


@st.composite
def graphs(draw: st.DrawFn, packets: bool = True) -> Graph:
    """Chains, branches, joins, fan-outs, loops, commands; packets, or else deferred nodes."""
    names = NAMES[: draw(st.integers(2, len(NAMES)))]
    targets = st.lists(st.sampled_from([*names, END]), min_size=1, max_size=3, unique=True).map(tuple)

    def way(odds: int) -> Any:
        some = st.builds(
            Way, targets, st.booleans(), st.booleans() if packets else st.just(False), st.booleans()
        )
        return st.none() if odds == 0 else st.one_of(*[st.none()] * odds, some)

    nodes = {}
    for name in names:
        nodes[name] = Node(
            edges=draw(st.lists(st.sampled_from([*names, END]), max_size=2, unique=True).map(tuple)),
            branch=draw(way(1)),
            command=draw(way(2)),
            last=draw(st.booleans()) and draw(st.booleans()),
            defer=False if packets else draw(st.booleans()) and draw(st.booleans()),
        )
    joined = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True).map(tuple)
    return Graph(
        nodes=nodes,
        entry=draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True).map(tuple)),
        entry_branch=draw(way(2)),
        joins=tuple(draw(st.lists(st.tuples(joined, st.sampled_from(names)), max_size=2, unique=True))),
        limit=draw(st.integers(1, 9)),
        ends=draw(st.integers(3, 12)),
    )


def number(*parts: Any) -> int:
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16)


def choose(way: Way, seed: int, names: Sequence[str]) -> Any:
    """A decision that is a function of a number."""
    chosen = [t for i, t in enumerate(way.targets) if not way.several or seed >> i & 1]
    if not way.several:
        chosen = [way.targets[seed % len(way.targets)]]
    if way.packets:
        out: list[Any] = []
        for i, target in enumerate(chosen):
            if target == END or seed >> (8 + i) & 1:
                out.append(target)
            else:
                out += [Send(target, seed % 97 + j if j else {"n": seed % 89}) for j in range(1 + seed % 3)]
        return out
    return chosen if way.several else chosen[0]


def build(graph: Graph, allocator: Any = None) -> Any:
    """The builder; with an allocator its nodes also use the context."""
    builder = StateGraph(State)

    def make(name: str, node: Node) -> Any:
        def run(state: Any) -> Any:
            if allocator is not None:
                view = allocator.view(state)
                for segment in view.segments()[:2]:
                    view.text(segment.id)
                view.derive(f"note {name}", f"{name} wrote this at turn {view.turn}")
            if isinstance(state, dict) and "log" in state:
                seen: Any = (state["x"], len(state["log"]))
            else:
                seen = ("packet", state["n"] if isinstance(state, dict) else state)
            seed = number(name, seen)
            update = {"log": [f"{name}:{seen}"], "x": seed % 1000}
            if node.last:
                update["last"] = name
            if node.command is None or (isinstance(seen[1], int) and seen[1] > graph.ends):
                return update
            return Command(update=update, goto=choose(node.command, seed, list(graph.nodes)))

        return run

    def path(name: str, way: Way) -> Any:
        def decide(state: State) -> Any:
            if len(state.get("log", ())) > graph.ends:
                return END if END in way.targets or not way.mapped else []
            return choose(way, number(name, state.get("x", 0)), list(graph.nodes))

        return decide

    for name, node in graph.nodes.items():
        builder.add_node(name, make(name, node), defer=node.defer)
        for target in node.edges:
            builder.add_edge(name, target)
    for name in graph.entry:
        builder.add_edge(START, name)
    ways = {START: graph.entry_branch, **{name: node.branch for name, node in graph.nodes.items()}}
    for name, way in ways.items():
        if way is not None:
            builder.add_conditional_edges(name, path(name, way), list(way.targets) if way.mapped else None)
    for sources, target in graph.joins:
        builder.add_edge(list(sources), target)
    return builder


def observe(graph: Any, limit: int, given: dict[str, Any]) -> list[Any]:
    """What a graph streams, step by step, and the error it ends with.

    Updates of one step come in the order in which threads finish, so they are sorted.
    """
    seen: list[Any] = []
    step: list[str] = []
    try:
        for mode, chunk in graph.stream(given, {"recursion_limit": limit}, stream_mode=["updates", "values"]):
            if mode == "updates":
                step.append(repr(chunk))
            else:
                seen.append((sorted(step), chunk))
                step = []
    except Exception as error:
        seen.append(
            (sorted(step) if "recursion" in type(error).__name__.lower() else [], type(error).__name__)
        )
        step = []
    if step:
        seen.append(sorted(step))
    return seen
