"""The demo agent: a LangGraph graph with parallel branches, a loop and a subgraph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from softhit.errors import MissingExtra
from softhit.hierarchy.graph.attach import attach, share
from softhit.hierarchy.graph.hints import context_hint

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langgraph.graph import StateGraph

    from softhit.hierarchy.allocator import ContextAllocator
    from softhit.hierarchy.branches import Branches
    from softhit.hierarchy.view import View

__all__ = ["AgentState", "build_agent", "name_of", "without_tags"]

_SYSTEM = (
    "You read passages of a text, each after its tag in square brackets. Answer from them only, in at most "
    "{lines} lines, each of them one statement followed by the tag of the passage that makes it."
)
_TAG = re.compile(r"\s*\[ctx:([^\]\s]+)\]")
_PLAIN = frozenset(("does", "that", "there", "they", "this", "what", "when", "where", "which"))
ENOUGH = 4
"""Different sources that findings must rest on, or the agent looks deeper once."""


class AgentState(TypedDict, total=False):
    """What the nodes hand on; :func:`attach` adds the channels of the context.

    ``number`` counts the questions. ``point`` is for one of the parallel branches. ``findings`` maps
    ``number.place`` to what was found. ``read`` maps a question to what the context held when its answer was
    written, ``done`` counts the answers.
    """

    question: str
    number: int
    place: int
    point: str
    points: list[str]
    focus: str
    rounds: int
    findings: Annotated[dict[str, str], or_]
    doubts: str
    answers: Annotated[dict[str, str], or_]
    read: Annotated[dict[str, list[str]], or_]
    done: int


def name_of(text: str, words: int = 4) -> str:
    """Return a short name made of the first long words of a text, for ids.

    >>> name_of("How does a with statement enter and exit a context manager?")
    'with-statement-enter-exit'
    """
    long = [word for word in re.findall(r"\w+", text.casefold()) if len(word) > 3 and word not in _PLAIN]
    return "-".join(long[:words]) or "nothing"


def without_tags(text: str) -> str:
    """Return a text whose tags are plain mentions, so that it can be quoted as a passage itself.

    >>> without_tags("It is closed. [ctx:with/5]")
    'It is closed (with/5).'
    """
    return re.sub(r"([.!?:]?)\s*\[ctx:([^\]\s]+)\]", lambda m: f" ({m[2]}){m[1]}", text)


def sources_of(texts: Mapping[str, str], number: int) -> set[str]:
    """Return the tags in the findings of one question.

    >>> sorted(sources_of({"1.0": "A. [ctx:a]", "1.1": "B. [ctx:b]", "2.0": "C. [ctx:c]"}, 1))
    ['a', 'b']
    """
    return {tag for key, text in texts.items() if key.startswith(f"{number}.") for tag in _TAG.findall(text)}


def build_agent(
    allocator: ContextAllocator, model: BaseChatModel, branches: Branches | None = None
) -> StateGraph[Any, Any, Any, Any]:
    """Return the agent's graph with the allocator attached, ready to be compiled.

    Parameters
    ----------
    allocator : ContextAllocator
    model : BaseChatModel
        Any chat model of LangChain; the demo gives :func:`~softhit_lab.hierarchy.standin.make_standin`.
    branches : Branches, optional
        Where the probabilities of conditional edges are learnt.

    Raises
    ------
    MissingExtra
        langgraph is not installed (extra ``hierarchy``).
    """
    try:
        from langgraph.graph import END, START, StateGraph
        from langgraph.types import Send
    except ImportError as error:
        raise MissingExtra("langgraph", "hierarchy") from error

    def ask(question: str, view: View, lines: int) -> str:
        prompt = f"Question: {question}\n\nPassages:\n{view.render()}"
        reply = model.invoke([("system", _SYSTEM.format(lines=lines)), ("human", prompt)])
        return str(reply.text)

    @context_hint("{question}")
    def plan(state: AgentState) -> dict[str, Any]:
        said = ask(state["question"], allocator.view(state), 3)
        points = _TAG.sub("", said).splitlines()
        found = {f"{state['number']}.plan": said}
        return {"points": points, "focus": points[0], "rounds": 0, "findings": found}

    def each_point(state: AgentState) -> list[Any]:  # of Send, a name the type hints could not find here

        number = state["number"]
        return [
            Send("gather", {"number": number, "place": i, "point": p}) for i, p in enumerate(state["points"])
        ]

    @context_hint("{point}")
    def gather(state: AgentState) -> dict[str, Any]:
        view = allocator.view(state)
        said = ask(state["point"], view, 2)
        note = f"{state['point']}\n{without_tags(said)}"
        view.derive(f"note/{name_of(state['point'])}", note, query=state["point"])
        return {"findings": {f"{state['number']}.{state['place']}": said}}

    @context_hint("{focus}")
    def compare(state: AgentState) -> dict[str, Any]:
        said = ask(state["question"], allocator.view(state), 2)
        return {"findings": {f"{state['number']}.compare{state['rounds']}": said}}

    def enough(state: AgentState) -> str:
        found = sources_of(state["findings"], state["number"])
        return "review" if state["rounds"] or len(found) >= ENOUGH else "deepen"

    @context_hint("{focus}, an example, a limit or an exception")
    def deepen(state: AgentState) -> dict[str, Any]:
        said = ask(state["focus"], allocator.view(state), 2)
        # a new focus: what was loaded for the old one is stale from here on
        found = {f"{state['number']}.deeper": said}
        return {"focus": state["points"][-1], "rounds": state["rounds"] + 1, "findings": found}

    def doubt(state: AgentState) -> dict[str, Any]:
        asked = f"Unless, except, only if, but not: {state['question']}"
        return {"doubts": ask(asked, allocator.view(state), 1)}

    @context_hint("{question}")
    def write(state: AgentState) -> dict[str, Any]:
        view = allocator.view(state)
        said = ask(state["question"], view, 3)
        text = f"{state['question']}\n{without_tags(said)}\nBut: {without_tags(state['doubts'])}"
        view.derive(f"answer/{name_of(state['question'])}", text, query=state["question"])
        read = [segment.id for segment in view.segments()]
        question = state["question"]
        return {"answers": {question: said}, "read": {question: read}, "done": state["number"]}

    inner = StateGraph(AgentState)
    inner.add_node("doubt", doubt)
    inner.add_edge(START, "doubt")
    inner.add_edge("doubt", END)

    graph = StateGraph(AgentState)
    for name, node in (
        ("plan", plan),
        ("gather", gather),
        ("compare", compare),
        ("deepen", deepen),
        ("write", write),
    ):
        graph.add_node(name, node)
    graph.add_node(
        "review", share(inner).compile(), metadata={"context_hint": "limits and exceptions: {question}"}
    )
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", each_point, ["gather"])
    graph.add_edge("gather", "compare")
    graph.add_conditional_edges("compare", enough, ["deepen", "review"])
    graph.add_edge("deepen", "compare")
    graph.add_edge("review", "write")
    graph.add_edge("write", END)
    return attach(graph, allocator, branches=branches, graph_name="demo")
