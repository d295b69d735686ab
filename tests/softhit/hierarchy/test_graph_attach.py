"""What an allocator in a LangGraph graph sees and does, one way of LangGraph at a time."""

import asyncio
import operator
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel

from softhit.errors import InvalidInput, UnknownName
from softhit.hierarchy.branches import Branches
from softhit.hierarchy.graph import attach, context_hint, context_of, recursion_limit, share
from tests.softhit.hierarchy.stand_ins import Recorder, WordsL2, allocator


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    user: str
    question: str


LIBRARY = {"tea": "tea is a drink", "cups": "cups hold tea", "rust": "rust is a language"}


class Watched:
    """An allocator with what it was asked and what it decided."""

    def __init__(self, texts: dict[str, str] | None = None, **rules: Any) -> None:
        self.l2 = WordsL2(LIBRARY if texts is None else texts)
        self.events: list[dict[str, Any]] = []
        self.of = allocator(self.l2, log=Recorder(self.events), **rules)
        self.calls: list[tuple[Any, Any, Any, bool]] = []
        inner = self.of.boundary

        def boundary(
            context: Any,
            reports: Any,
            starting: Any,
            ahead: Any = (),
            fields: Any = None,
            ending: bool = False,
            **named: Any,
        ) -> Any:
            self.calls.append((list(starting), list(ahead), dict(fields or {}), ending))
            return inner(context, reports, starting, ahead, fields, ending, **named)

        self.of.boundary = boundary  # type: ignore[method-assign]

    def started(self) -> list[list[str]]:
        return [sorted({s.node for s in starting}) for starting, *_ in self.calls]

    def kinds(self, kind: str) -> list[str]:
        return [e["segment"] for e in self.events if e["kind"] == kind]


def log(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [name]}


def graph(*names: str, schema: Any = State, **nodes: Any) -> Any:
    """A chain of nodes in the given order."""
    builder = StateGraph(schema)
    for name in names:
        builder.add_node(name, nodes.get(name, log(name)))
    for u, v in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(u, v)
    return builder


class TestTheBoundary:
    def test_runs_once_before_each_step_and_once_after_the_last(self) -> None:
        one = Watched()
        builder = graph("a", "b", "c")
        builder.add_edge("a", "c")
        attach(builder, one.of).compile().invoke({"log": []})
        assert one.started() == [["a"], ["b", "c"], ["c"], []]
        assert [ending for *_, ending in one.calls] == [False, False, False, True]

    def test_runs_at_the_end_of_a_graph_that_names_no_end(self) -> None:
        one = Watched()
        builder = StateGraph(State)
        builder.add_node("a", lambda s: Command(update={"log": ["a"]}))
        builder.add_edge(START, "a")
        attach(builder, one.of).compile().invoke({"log": []})
        assert [ending for *_, ending in one.calls] == [False, True]

    def test_writes_what_nodes_derive_to_l2_at_the_end_although_no_node_reports_it(self) -> None:
        one = Watched()

        def a(state: State) -> dict[str, Any]:
            one.of.view(state).derive("note", "a finding")
            return {"log": ["a"]}

        attach(graph("a", a=a), one.of).compile().invoke({"log": []})
        assert one.l2.rows["note"][1] == "a finding"

    def test_also_takes_reports_that_a_node_returns_and_counts_none_twice(self) -> None:
        one = Watched()

        def a(state: State) -> dict[str, Any]:
            view = one.of.view(state)
            view.derive("note", "a finding")
            return {"log": ["a"], **view.update()}

        attach(graph("a", a=a), one.of).compile().invoke({"log": []})
        assert one.kinds("derive") == ["note"]

    def test_pins_what_the_output_of_a_node_names(self) -> None:
        topics = {"doc0": "tea", "doc1": "tea", "doc2": "rust"}
        texts = {id: f"{topic} {'word ' * 28}{id}" for id, topic in topics.items()}
        one = Watched(texts, high="0.7", low="0.3")
        asked = {"a": "tea", "c": "rust"}
        builder = graph("a", "b", "c", b=lambda s: {"log": ["see [ctx:doc1]"]})
        for name, hint in asked.items():
            builder.nodes[name].metadata = {"context_hint": hint}
        attach(builder, one.of).compile().invoke({"log": []})
        assert one.kinds("load")[:2] == ["doc0", "doc1"]
        assert "doc0" in one.kinds("evict")
        assert "doc1" not in one.kinds("evict")

    def test_does_not_count_references_that_a_node_only_hands_on(self) -> None:
        one = Watched()
        builder = graph(
            "a", "b", a=lambda s: {"question": "see [ctx:tea]"}, b=lambda s: dict(s) | {"log": []}
        )
        builder.nodes["a"].metadata = {"context_hint": "tea"}
        saver = InMemorySaver()
        app = attach(builder, one.of).compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "t"}}
        app.invoke({"log": []}, config)
        assert context_of(app, config)["l1"]["tea"]["accesses"] == 1

    def test_keeps_both_texts_that_parallel_branches_derive_under_one_id(self) -> None:
        one = Watched()

        def worker(state: Any) -> dict[str, Any]:
            one.of.view(state).derive("note", f"text {state['n']}")
            return {"log": []}

        builder = StateGraph(State)
        builder.add_node("worker", worker)
        builder.add_conditional_edges(
            START, lambda s: [Send("worker", {"n": i}) for i in range(3)], ["worker"]
        )
        attach(builder, one.of).compile().invoke({"log": []})
        assert sorted(text for id, (_, text) in one.l2.rows.items() if id.startswith("note")) == [
            "text 0", "text 1", "text 2",
        ]  # fmt: skip

    def test_ends_the_same_in_whichever_order_parallel_branches_finish(self) -> None:
        contexts = []
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
            one = Watched()
            done = [threading.Event() for _ in order]

            def worker(
                state: Any, one: Watched = one, done: Any = done, order: Any = order
            ) -> dict[str, Any]:
                n, before = state["n"], order[: order.index(state["n"])]
                assert all(done[earlier].wait(20) for earlier in before)
                view = one.of.view(state)
                view.text("tea")
                if n % 2:
                    view.invalidate("question")
                view.derive(f"note{n // 2}", f"text {n}", fields=["user"])
                view.derive("common", f"text {n // 2}")
                done[n].set()
                return {"log": [str(n)], "user": "me"} if n == 3 else {"log": [str(n)]}

            builder = StateGraph(State)
            builder.add_node("a", log("a"), metadata={"context_hint": "tea {question}"})
            builder.add_node("worker", worker)
            builder.add_edge(START, "a")
            builder.add_conditional_edges(
                "a", lambda s: [Send("worker", {"n": n}) for n in range(4)], ["worker"]
            )
            app = attach(builder, one.of).compile(checkpointer=InMemorySaver())
            config: Any = {"configurable": {"thread_id": "t"}}
            assert app.invoke({"log": [], "user": "you"}, config)["log"] == ["a", "0", "1", "2", "3"]
            contexts.append((context_of(app, config), one.events, one.l2.rows))
        assert contexts[0] == contexts[1] == contexts[2]
        assert "tea" in [e["segment"] for e in contexts[0][1] if e["kind"] == "invalidate"]

    def test_goes_on_when_the_counts_of_branches_cannot_be_reached(self) -> None:
        one, branches = Watched(), Branches(":memory:")
        branches.close()
        builder = StateGraph(State)
        builder.add_node("a", log("a"))
        builder.add_node("b", log("b"), metadata={"context_hint": "tea"})
        builder.add_edge(START, "a")
        builder.add_conditional_edges("a", lambda s: "b", ["b", END])
        assert attach(builder, one.of, branches=branches).compile().invoke({"log": []})["log"] == ["a", "b"]
        assert [(a.node, a.probability) for a in one.calls[0][1]] == [("b", Fraction(1, 2))]


class TestHints:
    def test_are_filled_in_from_the_state_and_load_when_their_node_starts(self) -> None:
        one = Watched()

        @context_hint("{question}")
        def b(state: State) -> dict[str, Any]:
            return {"log": [one.of.view(state).text("cups")]}

        app = attach(graph("a", "b", a=lambda s: {"question": "cups"}, b=b), one.of).compile()
        assert app.invoke({"log": []})["log"] == ["cups hold tea"]
        assert one.calls[1][0][0].hint == "cups"
        assert one.calls[1][0][0].fields == ("question",)

    def test_are_filled_in_from_the_payload_of_a_packet_first(self) -> None:
        one = Watched()
        seen: list[list[str]] = []

        @context_hint("{question} {user}")
        def worker(state: Any) -> dict[str, Any]:
            seen.append([s.id for s in one.of.view(state).segments()])
            return {"log": []}

        builder = StateGraph(State)
        builder.add_node("worker", worker)
        builder.add_conditional_edges(
            START, lambda s: [Send("worker", {"question": q}) for q in ("rust", "cups")], ["worker"]
        )
        attach(builder, one.of).compile().invoke({"log": [], "question": "tea", "user": "me"})
        assert [s.hint for s in one.calls[0][0]] == ["rust me", "cups me"]
        assert seen[0] == seen[1]
        assert {"rust", "cups"} <= set(seen[0])

    def test_make_what_they_loaded_stale_when_their_field_changes(self) -> None:
        one = Watched()
        builder = graph("a", "b", "c", b=lambda s: {"user": "another"})
        builder.nodes["a"].metadata = {"context_hint": "tea", "context_fields": ["user"]}
        attach(builder, one.of).compile().invoke({"log": [], "user": "one"})
        assert sorted(one.kinds("invalidate")) == ["cups", "tea"]

    def test_leave_what_they_loaded_when_their_field_is_written_with_the_same_value(self) -> None:
        one = Watched()
        builder = graph("a", "b", "c", b=lambda s: {"user": "".join(["o", "ne"])})
        builder.nodes["a"].metadata = {"context_hint": "tea", "context_fields": ["user"]}
        attach(builder, one.of).compile().invoke({"log": [], "user": "one"})
        assert one.kinds("invalidate") == []

    def test_are_prefetched_for_nodes_one_and_two_ahead(self) -> None:
        one = Watched()
        builder = graph("a", "b", "c", "d")
        for name in "bcd":
            builder.nodes[name].metadata = {"context_hint": f"hint of {name}"}
        attach(builder, one.of).compile().invoke({"log": []})
        assert [(a.node, a.probability) for a in one.calls[0][1]] == [("b", 1), ("c", 1)]

    def test_name_the_nearest_field_when_one_does_not_exist(self) -> None:
        builder = graph("a", a=context_hint("tea", fields=["usr"])(log("a")))
        with pytest.raises(UnknownName, match="did you mean 'user'"):
            attach(builder, Watched().of)

    @pytest.mark.parametrize(
        ("hint", "why"),
        [
            ("tea {nosuch}", "the hint's {nosuch} has no value: 'nosuch' is no field of the state"),
            (
                "tea {usr}",
                "the hint's {usr} has no value: 'usr' is no field of the state; did you mean 'user'?",
            ),
            ("tea {user}", "the hint's {user} has no value"),
            ("tea {question.x}", "the hint's {question.x} has no value"),
        ],
    )
    def test_log_a_miss_for_what_has_no_value_and_ask_without_it(
        self, hint: str, why: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        one = Watched()
        builder = graph("a", "b")
        builder.nodes["a"].metadata = {"context_hint": hint}
        builder.add_conditional_edges("b", lambda s: "a" if s["log"].count("a") < 2 else END, ["a", END])
        attach(builder, one.of).compile().invoke({"log": [], "question": "?"})
        assert one.calls[0][0][0].hint == "tea"
        missed = [e for e in one.events if e["kind"] == "miss" and "segment" not in e]
        assert missed == [
            {"turn": turn, "kind": "miss", "node": "a", "why": why, "query": "tea"} for turn in (1, 3)
        ]
        # a field of the state may get its value later: only what cannot is worth a warning, and one is enough
        assert caplog.messages == ([f"node 'a': {why}"] if "is no field" in why else [])

    def test_miss_nothing_that_a_payload_holds(self, caplog: pytest.LogCaptureFixture) -> None:
        one = Watched()
        builder = StateGraph(State)
        builder.add_node("w", log("w"), metadata={"context_hint": "{n} {missing}"})
        builder.add_conditional_edges(START, lambda s: [Send("w", {"n": n}) for n in (1, 2)], ["w"])
        attach(builder, one.of).compile().invoke({"log": []})
        missed = [(e["query"], e["why"]) for e in one.events if e["kind"] == "miss" and "{" in e["why"]]
        assert missed == [(n, "the hint's {missing} has no value") for n in "12"]
        assert caplog.messages == []


OURS = ["context", "context_starting", "context_gates"]


class TestTheChannelsOfTheAllocator:
    @pytest.mark.parametrize("name", OURS)
    @pytest.mark.parametrize(
        "made",
        [
            lambda update: update,
            lambda update: Command(update=update),
            lambda update: Command(update=list(update.items())),
            lambda update: [Command(update={"log": []}), Command(update=update, goto="b")],
        ],
    )
    def test_are_not_written_by_nodes(self, name: str, made: Any) -> None:
        builder = graph("a", "b", a=lambda s: made({"log": ["a"], name: {}}))
        with pytest.raises(InvalidInput, match=f"node 'a' must not write '{name}'"):
            attach(builder, Watched().of).compile().invoke({"log": []})

    def test_are_not_written_by_nodes_of_a_subgraph_that_shares_them(self) -> None:
        inner = graph("in", **{"in": lambda s: {"context": {"revision": 99}}})
        builder = graph("sub", sub=share(inner).compile())
        with pytest.raises(InvalidInput, match=r"node 'sub\|in' must not write 'context'"):
            attach(builder, Watched().of).compile().invoke({"log": []})

    def test_are_not_written_by_a_command_of_a_subgraph(self) -> None:
        def leave(state: State) -> Any:
            return Command(graph=Command.PARENT, goto="b", update={"context": {"revision": 99}})

        builder = StateGraph(State)
        builder.add_node("sub", graph("in", **{"in": leave}).compile())
        builder.add_node("b", log("b"))
        builder.add_edge(START, "sub")
        with pytest.raises(InvalidInput, match="node 'sub' must not write 'context'"):
            attach(builder, Watched().of).compile().invoke({"log": []})

    def test_are_warned_of_where_a_subgraph_has_a_field_of_that_name(self) -> None:
        class Inner(TypedDict, total=False):
            context: dict[str, Any]

        one = Watched()
        inner = graph("in", schema=Inner, **{"in": lambda s: {"context": {"mine": 1}}})
        builder = graph("sub", sub=inner.compile())
        app = attach(builder, one.of).compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}}
        with pytest.warns(UserWarning, match="node 'sub' must not write 'context'"):
            app.invoke({"log": []}, config)
        assert context_of(app, config)["turn"] == 2

    def test_are_not_those_of_a_graph_around_that_has_fields_of_these_names(self) -> None:
        class Around(TypedDict, total=False):
            context: str
            context_gates: str

        def leave(state: State) -> Any:
            return Command(graph=Command.PARENT, goto="b", update={"context": "mine", "context_gates": "too"})

        builder = StateGraph(Around)
        builder.add_node("sub", attach(graph("in", **{"in": leave}), Watched().of).compile())
        builder.add_node("b", lambda s: {})
        builder.add_edge(START, "sub")
        out = builder.compile().invoke({})
        assert out == {"context": "mine", "context_gates": "too"}

    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_pass_when_they_are_only_handed_on(self, asynchronous: bool) -> None:
        one = Watched()
        inner = share(graph("in", **{"in": lambda s: {"log": []}})).compile()

        class Declared(TypedDict, total=False):
            log: Annotated[list[str], operator.add]
            context: dict[str, Any]

        def worker(state: Any) -> Any:
            one.of.view(state).derive(f"note/{state['n']}", f"text {state['n']}")
            return {**state, "log": []}

        def send(state: Any) -> list[Send]:
            return [Send("worker", {**state, "n": n}) for n in range(2)]

        def reports(state: Any) -> Any:
            view = one.of.view(state)
            view.derive("last", "text")
            return [Command(update=view.update()), Command(update={"log": [view.peek("note/1")]})]

        builder = StateGraph(Declared)
        builder.add_node("all", lambda s: {**s, "log": []})
        builder.add_node("worker", worker)
        builder.add_node("sub", inner)
        builder.add_node("call", lambda s: inner.invoke(s))
        builder.add_node("reports", reports)
        builder.add_edge(START, "all")
        builder.add_conditional_edges("all", send, ["worker"])
        for u, v in (("worker", "sub"), ("sub", "call"), ("call", "reports")):
            builder.add_edge(u, v)
        app = attach(builder, one.of).compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}}
        for turns in (6, 12):
            given: Any = {"log": []}
            out = asyncio.run(app.ainvoke(given, config)) if asynchronous else app.invoke(given, config)
            assert out["log"][-1] == "text 1"
            assert context_of(app, config)["turn"] == out["context"]["turn"]
            assert len(one.calls) == turns
        assert {"last", "note/0", "note/1"} <= set(one.l2.rows)


class TestFieldsThatTextsDependOn:
    @pytest.mark.parametrize("verb", ["derive", "search", "load"])
    def test_are_fields_of_the_state(self, verb: str) -> None:
        one = Watched()

        def a(state: State) -> dict[str, Any]:
            view = one.of.view(state)
            given = {"derive": ("note", "text"), "search": ("tea",), "load": ("tea",)}[verb]
            getattr(view, verb)(*given, fields=["user"])
            getattr(view, verb)(*given, fields=["usr"])
            return {}

        message = "unknown state field 'usr'; did you mean 'user'. Known: log, question, user"
        with pytest.raises(UnknownName, match=message):
            attach(graph("a", a=a), one.of).compile().invoke({"log": []})

    def test_are_those_of_the_graph_around_in_a_subgraph(self) -> None:
        class Inner(TypedDict, total=False):
            log: Annotated[list[str], operator.add]

        one = Watched()

        def a(state: Inner) -> dict[str, Any]:
            one.of.view(state).derive("note", "text", fields=["user"])
            return {}

        builder = graph("plain", "shared", "end", end=lambda s: {"user": "another"})
        for name, made in (
            ("plain", graph("a", schema=Inner, a=a)),
            ("shared", share(graph("a", schema=Inner, a=a))),
        ):
            builder.nodes[name].runnable = made.compile()
        attach(builder, one.of).compile().invoke({"log": [], "user": "one"})
        assert one.kinds("invalidate") == ["note"]

    def test_that_l2_knows_from_other_graphs_pass(self) -> None:
        one = Watched()
        segment, text = one.l2.rows["tea"]
        one.l2.rows["tea"] = replace(segment, fields=("elsewhere",)), text

        def a(state: State) -> dict[str, Any]:
            return {"log": [found.text for found in one.of.view(state).search("drink", fields=["user"])]}

        out = attach(graph("a", a=a), one.of).compile().invoke({"log": []})
        assert out["log"] == ["tea is a drink"]


@dataclass
class Record:
    log: Annotated[list[str], operator.add] = field(default_factory=list)
    question: str = ""


class Model(BaseModel):
    model_config = {"extra": "forbid"}
    log: Annotated[list[str], operator.add] = []
    question: str = ""


class Small(TypedDict):
    question: str


class TestEveryKindOfState:
    @pytest.mark.parametrize("schema", [State, Record, Model])
    def test_lets_a_node_see_its_context_and_leaves_the_output_as_it_is(self, schema: Any) -> None:
        one = Watched()

        def a(state: schema) -> dict[str, Any]:  # type: ignore[valid-type]
            return {"log": [one.of.view(state).text("tea")]}

        builder = graph("a", "b", schema=schema, a=a)
        builder.nodes["a"].metadata = {"context_hint": "tea"}
        plain = graph("a", "b", schema=schema, a=lambda s: {"log": ["tea is a drink"]}).compile()
        app = attach(builder, one.of).compile()
        start = {"log": ["start"], "question": "?"}
        assert app.invoke(start) == plain.invoke(start)
        for version in ("v1", "v2"):
            for mode in ("values", "updates"):
                streams = [
                    [repr(chunk) for chunk in one.stream(start, stream_mode=mode, version=version)]
                    for one in (app, plain)
                ]
                assert streams[0] == streams[1]

    def test_lets_nodes_with_an_input_schema_of_their_own_see_it_too(self) -> None:
        one = Watched()

        def a(state: Small) -> dict[str, Any]:
            assert "log" not in state
            return {"log": [one.of.view(state).text("tea")]}

        builder = graph("a", a=a)
        builder.nodes["a"].metadata = {"context_hint": "tea"}
        assert attach(builder, one.of).compile().invoke({"log": [], "question": ""})["log"] == [
            "tea is a drink"
        ]

    def test_shows_the_channel_in_the_output_when_it_is_declared(self) -> None:
        class Declared(TypedDict):
            log: Annotated[list[str], operator.add]
            context: dict[str, Any]

        out = attach(graph("a", schema=Declared), Watched().of).compile().invoke({"log": []})
        assert sorted(out) == ["context", "log"]
        assert out["context"]["turn"] == 2

    def test_lets_a_worker_with_a_payload_that_is_no_mapping_see_its_context(self) -> None:
        one = Watched()
        builder = StateGraph(State)
        builder.add_node("w", lambda n: {"log": [f"{n} {len(one.of.view(n).segments())}"]})
        builder.nodes["w"].metadata = {"context_hint": "tea"}
        builder.add_conditional_edges(START, lambda s: [Send("w", 7)], ["w"])
        assert attach(builder, one.of).compile().invoke({"log": []})["log"] == ["7 2"]


class TestSubgraphs:
    def inner(self, one: Watched) -> Any:
        def first(state: State) -> dict[str, Any]:
            view = one.of.view(state)
            view.derive("found", view.text("tea") + " indeed")
            return {"log": ["first"]}

        def second(state: State) -> dict[str, Any]:
            return {"log": [str("found" in one.of.view(state)), str(interrupt("well?"))]}

        return graph("first", "second", first=first, second=second)

    @pytest.mark.parametrize("shared", [True, False])
    def test_see_the_context_and_report_once_what_they_derive(self, shared: bool) -> None:
        one = Watched()
        inner = graph("first", first=self.inner(one).nodes["first"].runnable)
        if shared:
            share(inner)
        builder = graph("sub", sub=inner.compile())
        builder.nodes["sub"].metadata = {"context_hint": "tea"}
        attach(builder, one.of).compile().invoke({"log": []})
        assert one.kinds("derive") == ["found"]
        assert one.l2.rows["found"][1] == "tea is a drink indeed"

    def test_that_share_the_context_report_what_they_did_before_an_interrupt(self) -> None:
        one = Watched()
        builder = graph("sub", sub=share(self.inner(one)).compile())
        builder.nodes["sub"].metadata = {"context_hint": "tea"}
        app = attach(builder, one.of).compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}}
        app.invoke({"log": []}, config)
        assert "found" not in one.l2.rows
        app.invoke(Command(resume="yes"), config)
        assert app.get_state(config).values["log"] == ["first", "True", "yes"]
        assert one.kinds("derive") == ["found"]
        assert "found" in one.l2.rows

    @pytest.mark.parametrize("known", [True, False], ids=["field of both", "field of the outer graph"])
    @pytest.mark.parametrize("changed", [True, False])
    def test_that_share_the_context_derive_what_a_branch_beside_them_makes_stale(
        self, changed: bool, known: bool
    ) -> None:
        class Less(TypedDict, total=False):
            log: Annotated[list[str], operator.add]

        one, saw = Watched(), []

        def derive(state: Any) -> dict[str, Any]:
            one.of.view(state).derive("note", "about ann", fields=["user"])
            return {"log": ["derived"]}

        def change(state: State) -> dict[str, Any]:
            return {"user": "bob"} if changed else {}

        def look(state: State) -> dict[str, Any]:
            saw.extend(segment.id for segment in one.of.view(state).segments())
            return {}

        inner = StateGraph(State if known else Less, output_schema=Less)
        inner.add_node("derive", derive)
        inner.add_edge(START, "derive")
        share(inner)
        builder = StateGraph(State)
        builder.add_node("sub", inner.compile())
        builder.add_node("change", change)
        builder.add_node("look", look)
        builder.add_edge(START, "sub")
        builder.add_edge(START, "change")
        builder.add_edge(["sub", "change"], "look")
        attach(builder, one.of).compile().invoke({"user": "ann", "log": []})
        assert saw == ([] if changed else ["note"])

    def test_that_share_the_context_and_change_a_field_make_stale_what_they_derived_before(self) -> None:
        one, saw = Watched(), []

        def derive(state: State) -> dict[str, Any]:
            one.of.view(state).derive("note", f"about {state['user']}", fields=["user"])
            return {"user": "bob"}

        def back(state: State) -> dict[str, Any]:
            one.of.view(state).derive("other", f"about {state['user']}", fields=["user"])
            return {"user": "ann"}

        def look(state: State) -> dict[str, Any]:
            saw.extend(one.of.view(state).text(s.id) for s in one.of.view(state).segments())
            return {}

        inner = share(graph("derive", "back", derive=derive, back=back))
        builder = graph("sub", "look", sub=inner.compile(), look=look)
        attach(builder, one.of).compile().invoke({"user": "ann", "log": []})
        assert sorted(one.kinds("derive")) == ["note", "other"]
        # around it the field is what it was
        assert "about bob" not in saw

    @pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "b", "a")], ids="".join)
    def test_that_share_the_context_run_in_their_order_whatever_their_names(
        self, names: tuple[str, str, str]
    ) -> None:
        one, saw = Watched(), []

        def step(name: str) -> Callable[[Any], dict[str, Any]]:
            def node(state: Any) -> dict[str, Any]:
                view = one.of.view(state)
                before = [view.text("note")] if "note" in view else []
                saw.append(before)
                view.derive("note", " ".join([*before, name]), pinned=name == names[0])
                view.derive(f"own/{name}", name)
                if name == names[1]:
                    view.unpin("note")
                    view.pin(f"own/{names[0]}")
                return {}

            return node

        def look(state: State) -> dict[str, Any]:
            view = one.of.view(state)
            saw.append([f"{s.id} {view.text(s.id)}" + " pinned" * s.pinned for s in view.segments()])
            return {}

        inner = share(graph(*names, **{name: step(name) for name in names}))
        builder = graph("sub", "look", sub=inner.compile(), look=look)
        attach(builder, one.of).compile().invoke({"log": []})
        x, y, z = names
        assert saw[:3] == [[], [x], [f"{x} {y}"]]
        assert sorted(saw[3]) == sorted(
            [f"note {x} {y} {z}", f"own/{x} {x} pinned", f"own/{y} {y}", f"own/{z} {z}"]
        )

    def test_that_share_the_context_keep_both_of_parallel_branches_and_what_is_written_over_the_first(
        self,
    ) -> None:
        one, saw = Watched(), []

        def step(name: str) -> Callable[[Any], dict[str, Any]]:
            def node(state: Any) -> dict[str, Any]:
                view = one.of.view(state)
                view.derive("note", view.peek("note") + name if "note" in view else name)
                return {}

            return node

        def look(state: State) -> dict[str, Any]:
            saw.extend(f"{s.id} {one.of.view(state).text(s.id)}" for s in one.of.view(state).segments())
            return {}

        inner = StateGraph(State)
        for name in "abz":
            inner.add_node(name, step(name))
        inner.add_edge(START, "b")
        inner.add_edge(START, "z")
        inner.add_edge(["b", "z"], "a")
        builder = graph("sub", "look", sub=share(inner).compile(), look=look)
        attach(builder, one.of).compile().invoke({"log": []})
        assert saw == ["note ba", "note@sub|z z"]

    def test_lead_by_a_command_for_the_graph_around_them_through_the_boundary(self) -> None:
        one = Watched()
        inner = graph(
            "in", **{"in": lambda s: Command(graph=Command.PARENT, goto="b", update={"log": ["in"]})}
        )
        builder = StateGraph(State)
        builder.add_node("sub", inner.compile())
        builder.add_node("b", log("b"))
        builder.add_edge(START, "sub")
        out = attach(builder, one.of).compile().invoke({"log": []})
        assert out["log"] == ["in", "b"]
        assert one.started() == [["sub"], ["b"], []]

    def test_with_an_allocator_of_their_own_write_back_where_they_leave_by_a_command(self) -> None:
        one = Watched()

        def a(state: State) -> Any:
            one.of.view(state).derive("note", "a finding")
            return Command(graph=Command.PARENT, goto="after", update={"log": ["a"]})

        builder = StateGraph(State)
        builder.add_node("sub", attach(graph("a", a=a), one.of).compile())
        builder.add_node("after", log("after"))
        builder.add_edge(START, "sub")
        assert builder.compile().invoke({"log": []})["log"] == ["a", "after"]
        assert "note" in one.l2.rows

    def test_are_found_by_the_graph_and_their_state_too(self) -> None:
        one = Watched()
        builder = graph("sub", sub=share(self.inner(one)).compile())
        builder.nodes["sub"].metadata = {"context_hint": "tea"}
        app = attach(builder, one.of).compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}}
        app.invoke({"log": []}, config)
        assert [name for name, _ in app.get_subgraphs()] == ["sub"]
        task = app.get_state(config, subgraphs=True).tasks[0]
        assert task.state.next == ("second",)


class TestInterrupts:
    def run(self, one: Watched, **options: Any) -> tuple[Any, Any]:
        app = attach(graph("a", "b", "c"), one.of).compile(checkpointer=InMemorySaver(), **options)
        config: Any = {"configurable": {"thread_id": "t"}}
        app.invoke({"log": []}, config)
        return app, config

    @pytest.mark.parametrize("options", [{"interrupt_before": ["b"]}, {"interrupt_after": ["a"]}])
    def test_before_and_after_a_node_stop_and_go_on(self, options: Any) -> None:
        app, config = self.run(Watched(), **options)
        assert app.get_state(config).values == {"log": ["a"]}
        assert app.invoke(None, config)["log"] == ["a", "b", "c"]

    def test_before_everything_stop_at_the_users_nodes_only(self) -> None:
        app, config = self.run(Watched(), interrupt_before="*")
        stops = [app.get_state(config).next]
        while app.get_state(config).next:
            app.invoke(None, config)
            stops.append(app.get_state(config).next)
        assert stops == [("a",), ("b",), ("c",), ()]

    def test_before_a_node_let_the_state_be_updated_and_go_on_to_it(self) -> None:
        app, config = self.run(Watched(), interrupt_before=["b"])
        app.update_state(config, {"log": ["human"]})
        assert app.get_state(config).next == ("b",)
        assert app.invoke(None, config)["log"] == ["a", "human", "b", "c"]

    def test_before_a_node_let_a_branch_be_decided_again_as_its_node(self) -> None:
        builder = StateGraph(State)
        for name in "abc":
            builder.add_node(name, log(name))
        builder.add_edge(START, "a")
        builder.add_conditional_edges("a", lambda s: s["question"], ["b", "c"])
        app = attach(builder, Watched().of).compile(checkpointer=InMemorySaver(), interrupt_before=["b", "c"])
        config: Any = {"configurable": {"thread_id": "t"}}
        app.invoke({"log": [], "question": "b"}, config)
        app.update_state(config, {"question": "c"}, as_node="a")
        app.invoke(None, config)
        assert app.get_state(config).next == ("c",)
        assert app.invoke(None, config)["log"] == ["a", "c"]

    def test_inside_a_node_count_once_what_it_reports(self) -> None:
        one = Watched()

        def b(state: State) -> dict[str, Any]:
            one.of.view(state).derive("note", "before the question")
            return {"log": [interrupt("?")]}

        app = attach(graph("a", "b", b=b), one.of).compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}}
        app.invoke({"log": []}, config)
        assert app.invoke(Command(resume="yes"), config)["log"] == ["a", "yes"]
        assert one.kinds("derive") == ["note"]

    def test_left_unanswered_do_not_run_old_tasks_with_a_new_input(self) -> None:
        one = Watched()
        fail = [True]

        def boundary(*args: Any, **kwargs: Any) -> Any:
            if fail[0]:
                raise RuntimeError("killed at the boundary")
            return inner(*args, **kwargs)

        inner, one.of.boundary = one.of.boundary, boundary  # type: ignore[method-assign]
        builder = StateGraph(State)
        builder.add_node("a", log("a"))
        builder.add_node("b", log("b"))
        builder.add_conditional_edges(START, lambda s: s["question"], ["a", "b"])
        app = attach(builder, one.of).compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}}
        with pytest.raises(RuntimeError):
            app.invoke({"log": [], "question": "a"}, config)
        fail[0] = False
        assert app.invoke({"log": [], "question": "b"}, config)["log"] == ["b"]


class TestPolicies:
    def test_retries_write_the_reports_of_the_attempt_that_ends_well(self) -> None:
        one = Watched()
        tries: list[int] = []

        def a(state: State) -> dict[str, Any]:
            tries.append(1)
            one.of.view(state).derive(f"note{len(tries)}", "text")
            if len(tries) < 3:
                raise ConnectionError("try again")
            return {"log": ["a"]}

        builder = StateGraph(State)
        builder.add_node(
            "a", a, retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False)
        )
        builder.add_edge(START, "a")
        attach(builder, one.of).compile().invoke({"log": []})
        assert one.kinds("derive") == ["note3"]

    @pytest.mark.parametrize("changed", [True, False])
    def test_a_text_derived_while_another_branch_changes_its_field_is_stale(self, changed: bool) -> None:
        one, saw = Watched(), []

        def derive(state: State) -> dict[str, Any]:
            one.of.view(state).derive("note", f"about {state['user']}", fields=["user"])
            return {}

        def change(state: State) -> dict[str, Any]:
            return {"user": "bob"} if changed else {}

        def look(state: State) -> dict[str, Any]:
            saw.extend(segment.id for segment in one.of.view(state).segments())
            return {}

        builder = StateGraph(State)
        for node in (derive, change, look):
            builder.add_node(node.__name__, node)
        builder.add_edge(START, "derive")
        builder.add_edge(START, "change")
        builder.add_edge(["derive", "change"], "look")
        attach(builder, one.of).compile().invoke({"user": "ann"})
        assert saw == ([] if changed else ["note"])

    def test_a_node_runs_each_time_although_it_was_to_be_cached(self) -> None:
        # what is kept of a node would hold reports of another turn: texts were lost by it
        one, ran = Watched(), []

        def a(state: State) -> dict[str, Any]:
            ran.append(1)
            one.of.view(state).derive(f"note-{len(ran)}", f"text {len(ran)}")
            return {}

        builder = StateGraph(State)
        builder.add_node("a", a, cache_policy=CachePolicy(key_func=lambda state: "k"))
        builder.add_edge(START, "a")
        with pytest.warns(UserWarning, match="node 'a' will not be cached"):
            attach(builder, one.of)
        app = builder.compile(cache=InMemoryCache(), checkpointer=InMemorySaver())
        for n in (1, 2):
            config = {"configurable": {"thread_id": str(n)}}
            app.invoke({"question": "?"}, config)
            assert f"note-{n}" in context_of(app, config)["l1"]
        assert len(ran) == 2

    def test_defaults_for_nodes_are_for_the_users_nodes_only(self) -> None:
        one = Watched()

        def a(state: State) -> Any:
            raise ValueError("always")

        def handle(state: State) -> Any:
            return Command(update={"log": ["handled"]}, goto="b")

        builder = StateGraph(State)
        builder.set_node_defaults(error_handler=handle, cache_policy=CachePolicy())
        builder.add_node("a", a)
        builder.add_node("b", log("b"))
        builder.add_edge(START, "a")
        with pytest.warns(UserWarning, match="will not be cached"):
            attach(builder, one.of)
        app = builder.compile(cache=InMemoryCache())
        assert app.invoke({"log": []})["log"] == ["handled", "b"]
        assert one.started() == [["a"], ["b"], []]
        one.calls.clear()
        app.invoke({"log": []})
        assert one.started() == [["a"], ["b"], []]

    def test_an_error_handler_of_one_node_goes_on_through_the_boundary(self) -> None:
        one = Watched()

        def a(state: State) -> Any:
            raise ValueError("always")

        builder = StateGraph(State)
        builder.add_node("a", a, error_handler=lambda s: Command(update={"log": ["handled"]}, goto="b"))
        builder.add_node("b", log("b"))
        builder.add_edge(START, "a")
        assert attach(builder, one.of).compile().invoke({"log": []})["log"] == ["handled", "b"]
        assert one.started() == [["a"], ["b"], []]


class TestAsynchronousNodes:
    def test_see_and_report_their_context(self) -> None:
        one = Watched()

        @context_hint("tea")
        async def a(state: State) -> dict[str, Any]:
            await asyncio.sleep(0)
            view = one.of.view(state)
            view.derive("note", view.text("tea"))
            return {"log": ["a"]}

        app = attach(graph("a", "b", a=a), one.of).compile()
        assert asyncio.run(app.ainvoke({"log": []}))["log"] == ["a", "b"]
        assert "note" in one.l2.rows

    def test_are_refused_by_a_synchronous_call_as_without_an_allocator(self) -> None:
        async def a(state: State) -> dict[str, Any]:
            return {"log": ["a"]}

        with pytest.raises(TypeError, match="No synchronous function"):
            attach(graph("a", a=a), Watched().of).compile().invoke({"log": []})


class TestErrors:
    @pytest.mark.parametrize("name", ["context", "gate__a"])
    def test_name_a_node_that_has_a_name_of_the_allocator(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=f"node '{name}' must have another name"):
            attach(graph(name), Watched().of)

    def test_tell_to_attach_once(self) -> None:
        builder = attach(graph("a"), Watched().of)
        with pytest.raises(InvalidInput, match="attach it once"):
            attach(builder, Watched().of)

    def test_tell_to_attach_before_compiling(self) -> None:
        builder = graph("a")
        builder.compile()
        with pytest.raises(InvalidInput, match="not compiled yet"):
            attach(builder, Watched().of)

    def test_tell_when_the_graph_changed_after_it_was_attached(self) -> None:
        builder = attach(graph("a", "b"), Watched().of)
        builder.add_edge("a", "a")
        with pytest.raises(InvalidInput, match="stay as it is"):
            builder.compile()

    def test_name_a_field_of_the_state_that_has_a_name_of_the_allocator(self) -> None:
        class Clash(TypedDict):
            log: Annotated[list[str], operator.add]
            context: list[str]

        with pytest.raises(InvalidInput, match="declares 'context' as list"):
            attach(graph("a", schema=Clash), Watched().of)

    def test_name_a_subgraph_that_has_an_allocator_of_its_own(self) -> None:
        one = Watched()
        with pytest.raises(InvalidInput, match=r"call share\(\)"):
            attach(graph("sub", sub=attach(graph("a"), one.of).compile()), one.of)

    def test_refuse_a_state_that_is_not_made_of_fields(self) -> None:
        builder = graph("a", schema=Annotated[list[str], operator.add])
        with pytest.raises(InvalidInput, match="state_schema must be made of fields"):
            attach(builder, Watched().of)

    def test_name_the_extra_when_langgraph_is_not_installed(self) -> None:
        code = (
            "import sys; sys.modules['langgraph'] = None; sys.modules['langgraph.graph'] = None\n"
            "import softhit.hierarchy.graph as g\n"
            "try: g.attach(object(), object())\n"
            "except ImportError as error: print(type(error).__name__, error)"
        )
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert out.startswith("MissingExtra langgraph is not installed")
        assert "softhit[hierarchy]" in out


class TestTheRecursionLimit:
    def test_of_an_attached_graph_allows_as_many_steps(self) -> None:
        from langgraph.errors import GraphRecursionError

        names = "abcde"
        for limit in range(1, 8):
            outcomes = []
            for app, most in (
                (graph(*names).compile(), limit),
                (attach(graph(*names), Watched().of).compile(), recursion_limit(limit)),
            ):
                try:
                    outcomes.append(app.invoke({"log": []}, {"recursion_limit": most}))
                except GraphRecursionError:
                    outcomes.append(None)
            assert outcomes[0] == outcomes[1]

    def test_by_default_is_far_away(self) -> None:
        from langgraph._internal._config import DEFAULT_RECURSION_LIMIT

        assert int(DEFAULT_RECURSION_LIMIT) >= 10_000


class TestADrawing:
    def test_shows_the_gates(self) -> None:
        drawn = attach(graph("a", "b"), Watched().of).compile().get_graph().draw_mermaid()
        assert "gate__b" in drawn
        assert "context" in drawn
