"""The memory hierarchy in a graph of your own: the second run finds what the first one wrote."""

import sys
import tempfile
from pathlib import Path
from typing import TypedDict

try:
    from langgraph.graph import END, START, StateGraph

    from softhit.hierarchy import Workspace, attach, context_hint, context_of, seed
    from softhit_lab.hierarchy.standin import make_standin
except ImportError as error:
    sys.exit(f"{error}; pip install 'softhit[hierarchy]'")

DOCUMENTS = {
    "returns": "Customers may return goods within 30 days. The refund is paid within a week.",
    "shipping": "Goods are shipped within two days. Express shipping costs 9 euros.",
    "warranty": "The warranty lasts two years. Batteries have a warranty of six months.",
    "opening": "The shop is open from nine to six. It is closed on Sundays.",
}

# a real model is one line: model = init_chat_model("openai:gpt-5"), or any other chat model of LangChain
model = make_standin()


class State(TypedDict, total=False):
    question: str
    facts: str
    answer: str


def build(allocator, name):
    """A plain LangGraph graph; what is new are the hints, the views, and the last line."""

    def ask(question, view):
        # the tags in what a model answers say what it used; most models give them if they are asked to
        task = "Answer in at most 1 line, with the tag of each passage that you use, such as [ctx:ID]."
        return model.invoke(f"{task}\nQuestion: {question}\n\n{view.render()}").text

    @context_hint("{question}")
    def research(state: State):
        return {"facts": ask(state["question"], allocator.view(state))}

    @context_hint("{question}")
    def reply(state: State):
        view = allocator.view(state)
        answer = ask(state["question"], view)
        # new knowledge: in L1 at once, in L2 when it leaves or the run ends, in L3 after that
        view.derive(f"answer/{name}", f"{state['question']} {answer}", query=state["question"])
        return {"answer": answer}

    builder = StateGraph(State)
    builder.add_node("research", research)
    builder.add_node("reply", reply)
    builder.add_edge(START, "research")
    builder.add_edge("research", "reply")
    builder.add_edge("reply", END)
    return attach(builder, allocator)


def run(folder, name, question):
    """Open the memory, run the graph once, and say what its context held at the end."""
    # url="http://localhost:6333" instead of a folder: a Qdrant server; documents=...: an L3 of your own
    with Workspace(folder, budget=200) as memory:
        for key, text in DOCUMENTS.items():
            if memory.documents.version(key) == 0:
                memory.documents.upsert(key, text, {"source": "document"}, expected=0)
        seed(memory.cache, memory.documents)
        graph = build(memory.allocator(name), name).compile(checkpointer=memory.checkpointer())
        config = {"configurable": {"thread_id": name}}
        done = graph.invoke({"question": question}, config, durability="sync")
        held = context_of(graph, config)["l1"].values()
        print(f"{name}: {question}\n{done['answer']}")
        print(f"  in L1: {', '.join(s['id'] + ' (' + s['source'] + ')' for s in held)}")


with tempfile.TemporaryDirectory() as scratch:
    place = Path(scratch) / "memory"
    run(place, "monday", "How long is the warranty of batteries?")
    run(place, "tuesday", "Do batteries have a warranty?")
