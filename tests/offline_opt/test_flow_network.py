"""The drawn network: its arcs by hand, integers only, clear words when a library is missing or refuses."""

import sys
from fractions import Fraction
from types import ModuleType, SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from offline_opt.flow.lp import solve_lp
from offline_opt.flow.network import build_network, solve_networkx, solve_ortools, to_networkx
from offline_opt.flow.ssp import solve_ssp
from softhit import InvalidInput, MissingExtra, NotCertified, Variant, from_requests


def described(network) -> list[tuple]:
    return sorted(
        (a.kind, a.tail, a.head, a.capacity, a.cost) for a in network.arcs if a.kind not in ("wait", "leave")
    )


class TestArcs:
    def test_of_serve_then_update_hold_an_item_from_its_request_to_the_next(self) -> None:
        network = build_network(from_requests([0, 1, 0]), 2, "1/2", Variant(fill="charged"))
        assert described(network) == [
            ("enter", ("v", 1), ("h", 0, 1), 1, 1),
            ("keep", ("h", 0, 1), ("h", 0, 3), 1, -2),
        ]
        assert (network.source, network.sink, network.amount) == (("v", 0), ("v", 3), 2)
        assert network.unit == Fraction(1, 2)

    def test_of_update_then_serve_serve_inside_the_step(self) -> None:
        variant = Variant(order="update_then_serve", fill="charged")
        network = build_network(from_requests([0, 1, 0]), 2, "1/2", variant)
        assert [row for row in described(network) if row[1][1] in (0, 2)] == [
            ("enter", ("v", 0), ("h", 0, 0), 1, 1),
            ("enter", ("v", 2), ("h", 0, 2), 1, 1),
            ("keep", ("h", 0, 0), ("h", 0, 1), 1, -2),
            ("keep", ("h", 0, 1), ("h", 0, 2), 1, 0),
            ("keep", ("h", 0, 2), ("h", 0, 3), 1, -2),
        ]

    def test_of_the_free_fill_leave_a_source_of_their_own(self) -> None:
        network = build_network(from_requests([0, 1, 0]), 2, 3, Variant())
        assert [row for row in described(network) if row[1] == ("source",)] == [
            ("bypass", ("source",), ("v", 3), 2, 0),
            ("first", ("source",), ("h", 0, 1), 1, 0),
        ]

    def test_carry_integers_whatever_the_switching_cost(self) -> None:
        # with float costs the network simplex of networkx may never return (networkx #4641)
        for lam in (0.1, "1/3", 2.5, np.float64(0.7)):
            graph = to_networkx(build_network(from_requests([0, 1, 0, 1], quality=0.37), 1, lam))
            assert {type(data["weight"]) for *_, data in graph.edges(data=True)} == {int}
            assert {type(demand) for _, demand in graph.nodes(data="demand", default=0)} == {int}

    def test_form_no_cycle_but_in_and_out_of_one_item(self) -> None:
        rng = np.random.default_rng(1)
        graph = to_networkx(build_network(from_requests(rng.integers(0, 5, 40)), 2, 1))
        assert all(len(c) <= 2 for c in nx.strongly_connected_components(graph))


class TestALibrary:
    def test_that_is_missing_is_named_with_its_extra(self, monkeypatch) -> None:
        trace = from_requests([0, 0])
        for name in ("ortools", "ortools.graph", "ortools.graph.python", "cvxpy"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtra, match=r"softhit\[ortools\]"):
            solve_ortools(trace, 1, 1)
        with pytest.raises(MissingExtra, match=r"softhit\[cvxpy\]"):
            solve_lp(trace, 1, 1)
        assert solve_networkx(trace, 1, 1).objective == 1

    def test_that_cannot_take_the_numbers_says_so(self) -> None:
        trace = from_requests([0, 1, 0, 1, 2, 0, 1, 2])
        for lam in (Fraction(1, 3) + Fraction(1, 10**17 + 1), Fraction(1, 3) + Fraction(1, 10**20 + 1)):
            with pytest.raises(InvalidInput, match="exceed"):
                solve_ortools(trace, 1, lam)
            assert solve_networkx(trace, 1, lam).objective == solve_ssp(trace, 1, lam).objective

    @pytest.mark.parametrize(("status", "error"), [(3, NotCertified), (7, InvalidInput)])
    def test_that_did_not_solve_is_never_asked_for_flows(self, monkeypatch, status: int, error: type) -> None:
        # or-tools #3947: flows read after a failed solve are garbage
        class Refusing:
            OPTIMAL, INFEASIBLE, BAD_COST_RANGE, BAD_CAPACITY_RANGE = 1, 4, 7, 8

            def add_arcs_with_capacity_and_unit_cost(self, *arrays: object) -> None: ...
            def set_node_supply(self, node: int, supply: int) -> None: ...
            def solve(self) -> int:
                return status

            def flows(self, arcs: object) -> object:
                raise AssertionError("flows were read although nothing was solved")

        fake = ModuleType("ortools.graph.python")
        fake.min_cost_flow = SimpleNamespace(SimpleMinCostFlow=Refusing)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ortools.graph.python", fake)
        with pytest.raises(error):
            solve_ortools(from_requests([0, 1, 0]), 1, 1)
