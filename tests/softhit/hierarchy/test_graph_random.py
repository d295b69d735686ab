"""A graph with an allocator does what the same graph does without one, step by step."""

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings

from softhit.hierarchy.graph import attach, recursion_limit
from tests.softhit.hierarchy.random_graphs import Graph, build, graphs, observe
from tests.softhit.hierarchy.stand_ins import WordsL2, allocator

MANY = 4 * settings().max_examples
START = {"log": [], "x": 1}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    # a packet to nobody is only warned of, in both graphs
    logging.getLogger("langgraph").setLevel(logging.ERROR)


def both(graph: Graph, more: int = 0) -> tuple[list[Any], list[Any]]:
    plain = build(graph).compile()
    one = allocator(WordsL2({"doc": "some words"}))
    attached = attach(build(graph, one), one).compile()
    return observe(plain, graph.limit, START), observe(attached, recursion_limit(graph.limit) + more, START)


class TestAnAttachedGraph:
    @settings(max_examples=MANY)
    @given(graphs())
    def test_streams_and_ends_as_the_plain_one_with_branches_joins_loops_commands_and_packets(
        self, graph: Graph
    ) -> None:
        plain, attached = both(graph)
        assert attached == plain

    @settings(max_examples=MANY // 2)
    @given(graphs(packets=False))
    def test_streams_and_ends_as_the_plain_one_with_deferred_nodes(self, graph: Graph) -> None:
        # a deferred start takes a boundary more, so a limit cannot be met exactly: the longer run goes on
        plain, attached = both(graph, more=2 * graph.limit)
        if plain[-1][1] == "GraphRecursionError":
            plain = plain[:-1]
            attached = attached[: len(plain)]
        assert attached == plain

    @settings(max_examples=30)
    @given(graphs())
    def test_gives_the_same_result_asynchronously(self, graph: Graph) -> None:
        plain = build(graph).compile()
        one = allocator(WordsL2({"doc": "some words"}))
        attached = attach(build(graph, one), one).compile()

        async def run(app: Any, limit: int) -> object:
            try:
                return await app.ainvoke(START, {"recursion_limit": limit})
            except Exception as error:
                return type(error).__name__

        first = asyncio.run(run(plain, graph.limit))
        assert asyncio.run(run(attached, recursion_limit(graph.limit))) == first
