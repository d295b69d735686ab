"""An agent over a real hierarchy, for tests that end its process; run with FOLDER RUN FAIL."""

import operator
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Send

from softhit.hierarchy.graph import attach, context_hint, share
from softhit.hierarchy.workspace import Workspace
from softhit.io.text import HashedTfidf

FACTS = {
    f"{topic}/{i}": f"{topic} fact {i}: the {topic} number {i} has {i * 7 + 3} parts and a story of its own."
    for topic in ("tea", "rust", "moon")
    for i in range(4)
}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    topic: str
    rounds: int
    doubts: int


class Inner(TypedDict, total=False):
    # not the log: what a subgraph hands on would be added to it once more
    rounds: int
    doubts: int


def open_place(folder: Path | str, **options: Any) -> Workspace:
    rules: dict[str, Any] = {"budget": 120, "capacity": 60, "background": False, "top_k": 2, **options}
    place = Workspace(folder, embedder=HashedTfidf(256), **rules)
    for key, text in FACTS.items():
        if not place.documents.version(key):
            place.documents.upsert(key, text, {"source": "document"}, 0)
    return place


def build(place: Workspace, run: str, fail: str = "") -> Any:
    """Plan, workers in parallel, a shared subgraph, a loop by a branch; ``fail`` names a node that fails."""
    from softhit.hierarchy.seeding import seed

    seed(place.cache, place.documents)
    allocator = place.allocator(run)

    def trip(name: str) -> None:
        if fail == name:
            raise RuntimeError(f"failed in {name}")
        if fail == f"kill {name}":
            os.kill(os.getpid(), signal.SIGKILL)

    @context_hint("{topic} fact")
    def plan(state: State) -> dict[str, Any]:
        view = allocator.view(state)
        view.derive("plan", f"plan about {state['topic']} from {len(view.segments())} facts")
        trip("plan")
        return {"log": ["plan"], "rounds": state.get("rounds", 0) + 1}

    @context_hint("{topic} number {n}")
    def work(state: Any) -> dict[str, Any]:
        view = allocator.view(state)
        view.derive(f"note/{state['n']}", f"note {state['n']} after {view.peek('plan')}")
        if state["n"] == 1:
            trip("work")
        return {"log": [f"work {state['n']}"]}

    def inside(state: Inner) -> dict[str, Any]:
        allocator.view(state).derive("doubt", f"doubt in round {state['rounds']}")
        trip("doubt")
        return {"doubts": state.get("doubts", 0) + 1}

    def write(state: State) -> dict[str, Any]:
        view = allocator.view(state)
        view.derive("answer", f"answer {state['rounds']} on {state['topic']}, {view.peek('plan')}")
        if state["rounds"] == 2:
            trip("write")
        return {"log": [f"write {state['rounds']}"], "topic": "rust"}

    def send(state: State) -> list[Send]:
        return [Send("work", {"n": n}) for n in range(3)]

    def again(state: State) -> str:
        return "plan" if state["rounds"] < 2 else "__end__"

    inner = StateGraph(Inner)
    inner.add_node("inside", inside)
    inner.add_edge(START, "inside")
    builder = StateGraph(State)
    for name, node in (("plan", plan), ("work", work), ("write", write)):
        builder.add_node(name, node)
    builder.add_node("doubt", share(inner).compile())
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", send, ["work"])
    builder.add_edge("work", "doubt")
    builder.add_edge("doubt", "write")
    builder.add_conditional_edges("write", again, ["plan", "__end__"])
    return attach(builder, allocator, branches=place.branches, graph_name="agent")


def main(arguments: Sequence[str]) -> None:
    folder, run, fail = arguments
    with open_place(folder) as place:
        app = build(place, run, fail).compile(checkpointer=place.checkpointer())
        config: Any = {"configurable": {"thread_id": run}}
        given = None if app.get_state(config).next else {"log": [], "topic": "tea"}
        app.invoke(given, config, durability="sync")


if __name__ == "__main__":
    main(sys.argv[1:])
