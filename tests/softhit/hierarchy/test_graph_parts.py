"""Hints, successors, branch probabilities and digests of fields."""

import math
import operator
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import hypothesis.strategies as st
import pytest
from hypothesis import given
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from softhit.errors import InvalidInput
from softhit.hierarchy.branches import Branches, uniform
from softhit.hierarchy.graph import context_hint
from softhit.hierarchy.graph.digests import digest_of_value
from softhit.hierarchy.graph.hints import Hint, hint_of
from softhit.hierarchy.graph.successors import Successors, chances_ahead, successors_of


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def nothing(state: State) -> dict[str, Any]:
    return {}


class TestAHint:
    def test_depends_on_the_fields_of_its_placeholders_and_on_those_that_are_given(self) -> None:
        hint = Hint("{user.name} asked {questions[0]!r:>5} and {{no field}}", ["plan"])
        assert hint.fields == ("plan", "user", "questions")
        assert hint.declared == ("plan",)

    def test_is_filled_in_with_attributes_and_items(self) -> None:
        values = {"user": HumanMessage("x", name="Ann"), "questions": ["why?"], "n": None}
        assert Hint("{user.name} {questions[0]} {n}{n.x}{questions[7]} {{}}").fill(values) == "Ann why? {}"

    def test_holds_nothing_that_a_checkpoint_could_not(self) -> None:
        assert Hint("\ud800 {x}").fill({"x": "a\udfffb \U0001f600"}) == "\ufffd a\ufffdb \U0001f600"

    @pytest.mark.parametrize("text", ["{", "{0}", "{}", "{a b}", 7])
    def test_that_is_no_format_of_fields_is_refused(self, text: Any) -> None:
        with pytest.raises(InvalidInput, match="hint must be a"):
            context_hint(text)

    @pytest.mark.parametrize("fields", ["user", None, 5, [5]])
    def test_of_fields_that_are_no_names_is_refused(self, fields: Any) -> None:
        with pytest.raises(InvalidInput, match="sequence of names"):
            context_hint("x", fields=fields)

    def test_is_found_on_functions_methods_and_in_metadata(self) -> None:
        class Agent:
            @context_hint("method")
            def step(self, state: State) -> dict[str, Any]:
                return {}

        @context_hint("async")
        async def later(state: State) -> dict[str, Any]:
            return {}

        builder = StateGraph(State)
        builder.add_node("m", Agent().step)
        builder.add_node("f", context_hint("function")(lambda s: {}))
        builder.add_node("a", later)
        builder.add_node("d", nothing, metadata={"context_hint": "metadata", "context_fields": ["log"]})
        builder.add_node("none", nothing)
        found = {n: hint_of(spec.runnable, spec.metadata) for n, spec in builder.nodes.items()}
        texts = {n: h and h.text for n, h in found.items()}
        assert texts == {"m": "method", "f": "function", "a": "async", "d": "metadata", "none": None}


class TestSuccessors:
    def builder(self) -> Any:
        builder = StateGraph(State)
        for name in "abcd":
            builder.add_node(name, nothing)

        def go(state: State) -> Command[Literal["a", "__end__"]]:
            return Command(goto="a")

        builder.add_node("go", go)
        builder.add_edge(START, "a")
        builder.add_conditional_edges("a", lambda s: "x", {"x": "b", "y": END, "z": "go"})
        builder.add_edge("a", "b")
        builder.add_edge(["b", "c"], "d")
        builder.add_conditional_edges("d", lambda s: END)
        return builder

    def test_are_read_from_edges_joins_branches_and_destinations(self) -> None:
        found = successors_of(self.builder())
        assert found[START] == Successors(always=frozenset("a"))
        assert found["a"] == Successors(frozenset("b"), frozenset({"go"}), end=True)
        assert found["b"] == found["c"] == Successors(always=frozenset("d"))
        assert found["go"] == Successors(maybe=frozenset("a"), end=True)
        assert (found["a"].choices, found["b"].choices) == (2, 0)

    def test_of_a_branch_that_does_not_say_where_it_leads_are_all_nodes(self) -> None:
        anywhere = successors_of(self.builder())["d"]
        assert anywhere.maybe == {"a", "b", "c", "d", "go"}
        assert anywhere.end

    @given(st.data())
    def test_chances_are_those_of_all_walks_where_one_branch_is_taken_at_a_time(
        self, data: st.DataObject
    ) -> None:
        names = "abcdef"
        graph, share = {}, {}
        for node in names:
            targets = data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
            weights = data.draw(st.lists(st.integers(1, 5), min_size=len(targets), max_size=len(targets)))
            graph[node] = Successors(maybe=frozenset(targets))
            for target, weight in zip(targets, weights, strict=True):
                share[node, target] = Fraction(weight, sum(weights))
        depth = data.draw(st.integers(0, 3))
        ahead = chances_ahead(["a"], graph, lambda u, v, n: share[u, v], depth)
        visits: Counter[str] = Counter()
        walks: list[tuple[str, Fraction]] = [("a", Fraction(1))]
        for _ in range(depth):
            walks = [(v, p * share[u, v]) for u, p in walks for v in graph[u].maybe]
            for node, p in walks:
                visits[node] += p  # type: ignore[assignment]
        assert ahead == {node: min(Fraction(1), p) for node, p in visits.items()}  # type: ignore[type-var]
        assert all(p >= q for p, q in pairwise(ahead.values()))

    def test_chances_of_parallel_certain_paths_do_not_exceed_one(self) -> None:
        graph = {
            "a": Successors(always=frozenset("bc")),
            "b": Successors(always=frozenset("d")),
            "c": Successors(always=frozenset("d")),
        }
        assert chances_ahead(["a"], graph, uniform, 2) == {"b": 1, "c": 1, "d": 1}


class Rows:
    """The same counts by a plain list of what every run did at every turn."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[int, tuple[set[str], set[tuple[str, str]]]]] = {}

    def record(self, run: str, turn: int, ran: set[str], moves: set[tuple[str, str]]) -> None:
        turns = self.runs.setdefault(run, {})
        for later in [t for t in turns if t >= turn]:
            del turns[later]
        turns[turn] = ran, moves

    def counts(self, run: str, source: str) -> tuple[int, dict[str, int]]:
        turns = [turn for other, all in self.runs.items() if other != run for turn in all.values()]
        moves = Counter(v for _, moves in turns for u, v in moves if u == source)
        return sum(source in ran for ran, _ in turns), dict(moves)


nodes = st.sampled_from("abc")
moves = st.sets(st.tuples(nodes, nodes), max_size=3)


class TestBranches:
    @given(
        st.lists(
            st.tuples(st.sampled_from(["r", "s", "t"]), st.integers(0, 4), st.sets(nodes, min_size=1), moves)
        )
    )
    def test_count_each_turn_of_a_run_once_whatever_is_recorded_again(self, records: Any) -> None:
        rows = Rows()
        with Branches(":memory:") as branches:
            for run, turn, ran, made in records:
                branches.record("graph", run, turn, ran, made)
                branches.record("other graph", run, turn, {"a"}, {("a", "b")})
                rows.record(run, turn, ran, made)
            for run in ("r", "new"):
                for source in "abc":
                    assert branches.counts("graph", run, source) == rows.counts(run, source)

    def test_give_chances_smoothed_after_laplace(self) -> None:
        with Branches(":memory:") as branches:
            for turn, target in enumerate("bbbc"):
                branches.record("g", "first", turn, ["a"], [("a", target)])
            chances = [branches.chance("g", "second", "a", target, 3) for target in "bcd"]
        assert chances == [Fraction(4, 7), Fraction(2, 7), Fraction(1, 7)]

    def test_of_one_moment_are_read_once_for_each_node(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        counts = Branches.counts
        with Branches(":memory:") as branches:
            branches.record("g", "first", 0, ["a", "b"], [("a", "b"), ("b", "c")])
            monkeypatch.setattr(Branches, "counts", lambda *words: asked.append(words[3]) or counts(*words))
            chance = branches.chances("g", "second")
            moves = [("a", "b", 2), ("a", "c", 2), ("b", "c", 3), ("a", "b", 2)]
            found = [chance(*move) for move in moves]
            assert asked == ["a", "b"]
            assert found == [branches.chance("g", "second", *move) for move in moves]

    def test_are_uniform_without_other_runs(self) -> None:
        with Branches(":memory:") as branches:
            branches.record("g", "own", 0, ["a"], [("a", "b")])
            assert branches.chance("g", "own", "a", "b", 4) == uniform("a", "b", 4) == Fraction(1, 4)

    @pytest.mark.parametrize("name", [None, 5, "", "half a pair \ud83d"])
    def test_refuse_names_that_the_file_cannot_hold(self, name: Any) -> None:
        with Branches(":memory:") as branches:
            with pytest.raises(InvalidInput, match="graph must be a text that"):
                branches.record(name, "run", 0, ["a"], [])
            with pytest.raises(InvalidInput, match="run must be a text that"):
                branches.record("graph", name, 0, ["a"], [])

    def test_forget_the_earliest_runs(self, tmp_path: Path) -> None:
        with Branches(tmp_path / "branches.sqlite", keep=2) as branches:
            for run, target in (("1", "b"), ("2", "c"), ("3", "d")):
                branches.record("g", run, 0, ["a"], [("a", target)])
            assert branches.counts("g", "new", "a") == (2, {"c": 1, "d": 1})
        with Branches(tmp_path / "branches.sqlite") as branches:
            assert branches.counts("g", "new", "a") == (2, {"c": 1, "d": 1})


@dataclass
class Point:
    x: int
    y: frozenset[str]


class Model(BaseModel):
    x: int
    y: list[str]


VALUES: list[Any] = [
    None, 0, "", "0", [], {}, {"a": 1}, {"a": [1, 2]}, {"a": (1, 3)}, {1: 2, "b": 3}, {"x", "y", "z"},
    frozenset({"x", "y"}), Point(1, frozenset({"p", "q"})), Point(2, frozenset({"p", "q"})), b"bytes",
    Model(x=1, y=["a"]), Model(x=1, y=["b"]), HumanMessage("hello", id="1"), HumanMessage("hallo", id="1"),
    {1, 2}, Path("/a"), 1.5, True, [HumanMessage("hello", id="1")], {1: "a"}, {"1": "a"}, {True: "a"},
    {None: 1}, {(1, 2): 1}, {(1, 2): 2}, {"\0keys": []}, {1: {2: 3}}, {1: {"2": 3}}, {1}, {"set": [1]},
    complex(1, 2), complex(2, 1), [complex(1, 2)],
]  # fmt: skip


class TestADigest:
    def test_tells_different_values_apart(self) -> None:
        digests = [digest_of_value(value) for value in VALUES]
        assert len(set(digests)) == len(VALUES)

    def test_is_the_same_in_another_process(self) -> None:
        code = (
            "from tests.softhit.hierarchy.test_graph_parts import VALUES, digest_of_value\n"
            "print([digest_of_value(value) for value in VALUES])"
        )
        root = Path(__file__).resolve().parents[3]
        out = subprocess.run(
            [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
        ).stdout
        assert out.strip() == repr([digest_of_value(value) for value in VALUES])

    def test_does_not_depend_on_the_order_of_keys(self) -> None:
        assert digest_of_value({"a": 1, "b": [2]}) == digest_of_value({"b": [2], "a": 1})

    def test_exists_of_anything_and_differs(self) -> None:
        class Odd:
            def __init__(self, x: int) -> None:
                self.x = x

            def model_dump(self) -> Any:
                raise RuntimeError("not today")

        def deep(end: int) -> Any:
            value: Any = [end]
            for _ in range(5000):
                value = [value]
            return value

        circle: list[Any] = []
        circle.append(circle)
        values = [
            lambda: 1,
            lambda: 2,
            Odd(1),
            Odd(2),
            deep(1),
            deep(2),
            circle,
            10**5000,
            "\ud800",
            math.nan,
        ]
        digests = [digest_of_value(value) for value in values]
        assert len(set(digests)) == len(values)
        assert digests == [digest_of_value(value) for value in values]
