"""Failures of solvers in public trackers: each is met here, or by the test that this list names.

=====================  ============================================================  =====================
optimalwebcaching #6   a bound better than the optimum                               TestOptimalWebCaching6
networkx #4641         network simplex never returns with float costs                TestNetworkx, and
                                                                                     test_flow_network.py
networkx #7562         a negative cycle that is none, once a capacity is huge        TestNetworkx
or-tools #3947         flows read after a failed solve                               TestOrtools3947
cvxpy #3368            a suboptimal point called optimal                             TestCvxpy, TestWindows,
                                                                                     test_facade.py
cvxpy #3534            a limit without an incumbent counted as a solution            TestCvxpy, TestWindows,
                                                                                     test_facade.py
scipy #22812           an "optimal" point beyond its bounds                          TestCvxpy, TestWindows,
                                                                                     test_facade.py
=====================  ============================================================  =====================

``test_facade.py``: ``TestASolverThatIsWrong``, which is about branch and bound as a whole.
"""

import itertools
import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from offline_opt import instances
from offline_opt.facade import METHODS, Problem, solve
from offline_opt.flow.lp import solve_lp
from offline_opt.flow.network import build_network, solve_networkx, solve_ortools, to_networkx
from offline_opt.flow.ssp import solve_ssp
from offline_opt.result import Status
from offline_opt.soft import milp, windows
from offline_opt.soft.lagrangian import bracket
from softhit import (
    Infeasible,
    InvalidInput,
    InvalidSchedule,
    NotCertified,
    Variant,
    cost,
    from_arrays,
    from_requests,
    simulate,
)

VARIANTS = [
    Variant(order=order, availability=availability, fill=fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]


class TestOptimalWebCaching6:
    """``1 1 2 1 2 2 2 1``, one object: 4 hits if the cache may bypass a request, 3 if it may not."""

    ids = (1, 1, 2, 1, 2, 2, 2, 1)

    def hits_by_enumeration(self, may_bypass: bool) -> int:
        """Go through all ways to hold one object after each request."""
        best = 0
        for choice in itertools.product((False, True), repeat=len(self.ids)):
            held, hits = None, 0
            for requested, load in zip(self.ids, choice, strict=True):
                hits += requested == held
                held = requested if load or not may_bypass else held
            best = max(best, hits)
        return best

    def test_has_four_hits_with_bypassing_and_three_without(self):
        assert self.hits_by_enumeration(may_bypass=True) == 4
        assert self.hits_by_enumeration(may_bypass=False) == 3
        trace = from_requests(list(self.ids))
        for policy, hits in (("belady", 4), ("belady(bypass=false)", 3), ("lru", 3)):
            assert cost(simulate(policy, trace, 1, 0), trace, 1, 0).fraction == len(self.ids) - hits

    @pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
    @pytest.mark.parametrize("lam", [0, "1/2", 1, 3])
    def test_no_method_has_a_bound_better_than_the_optimum(self, variant, lam):
        trace = from_requests(list(self.ids))
        optimum = solve(trace, 1, lam, variant, method="dp").cost.fraction
        if lam == 0 and variant == Variant():
            assert len(self.ids) - optimum == self.hits_by_enumeration(may_bypass=True)
        for method in METHODS.values():
            if method.applies(Problem(trace, 1, Fraction(lam), variant)) is None:
                answer = solve(trace, 1, lam, variant, method=method.name)
                assert answer.lower_bound <= optimum <= answer.cost.fraction, method.name


class TestNetworkx:
    @pytest.mark.parametrize("lam", [0.1, 1e-9, 2.5, np.float64(1 / 3), np.float32(0.3), "1/7", 0])
    def test_is_handed_integers_whatever_the_switching_cost(self, monkeypatch, lam):
        seen = []
        honest = nx.network_simplex

        def watching(graph):
            seen.append(graph)
            return honest(graph)

        monkeypatch.setattr(nx, "network_simplex", watching)
        trace = from_requests([0, 1, 2, 0, 1, 0, 2, 1], quality=0.37, weight=[1, 2, 3, 1, 2, 3, 1, 2])
        answer = solve(trace, 2, lam, method="networkx")
        assert answer.cost.fraction == solve(trace, 2, lam, method="dp").cost.fraction
        (graph,) = seen
        numbers = [data[key] for *_, data in graph.edges(data=True) for key in ("weight", "capacity")]
        numbers += [demand for _, demand in graph.nodes(data="demand", default=0)]
        assert {type(number) for number in numbers} == {int}

    @pytest.mark.parametrize("fill", ["free", "charged"])
    @pytest.mark.parametrize("capacity", [10**4, 10**9, 2**63 - 1, 10**30])
    def test_sees_no_negative_cycle_in_a_huge_capacity(self, fill, capacity):
        trace = from_requests(np.random.default_rng(0).integers(0, 6, 60))
        variant = Variant(fill=fill)
        network = build_network(trace, capacity, 1, variant)
        assert network.amount == max(a.capacity for a in network.arcs) == trace.n_items
        nx.network_simplex(to_networkx(network))
        expected = solve(trace, 6, 1, variant, method="dp").cost.fraction
        for method in (solve_networkx, solve_ortools, solve_lp, solve_ssp):
            result = method(trace, capacity, 1, variant)
            assert result.objective == expected, method.__name__
            assert cost(result.schedule, trace, capacity, 1, variant).fraction == expected


class TestOrtools3947:
    @pytest.fixture
    def solver(self):
        return pytest.importorskip("ortools.graph.python.min_cost_flow").SimpleMinCostFlow

    def test_supplies_are_balanced(self, monkeypatch, solver):
        supplies = []

        class Watching(solver):
            def set_node_supply(self, node, supply):
                supplies.append(supply)
                super().set_node_supply(node, supply)

        monkeypatch.setattr("ortools.graph.python.min_cost_flow.SimpleMinCostFlow", Watching)
        for variant in VARIANTS:
            solve_ortools(from_requests([0, 1, 2, 0, 1, 2]), 2, 1, variant)
            assert sorted(supplies) == [-2, 2]
            supplies.clear()

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            ("NOT_SOLVED", NotCertified),
            ("FEASIBLE", NotCertified),
            ("INFEASIBLE", Infeasible),
            ("UNBALANCED", NotCertified),
            ("BAD_RESULT", NotCertified),
            ("BAD_COST_RANGE", InvalidInput),
            ("BAD_CAPACITY_RANGE", InvalidInput),
        ],
    )
    def test_no_flow_is_read_unless_the_status_is_optimal(self, monkeypatch, solver, status, error):
        class Failing(solver):
            def solve(self):
                return getattr(solver, status)

            def flows(self, arcs):
                raise AssertionError("flows were read although nothing was solved")

        monkeypatch.setattr("ortools.graph.python.min_cost_flow.SimpleMinCostFlow", Failing)
        with pytest.raises(error):
            solve_ortools(from_requests([0, 1, 0]), 1, 1)

    def test_an_unbalanced_problem_has_no_flow(self, monkeypatch, solver):
        class Unbalanced(solver):
            def set_node_supply(self, node, supply):
                super().set_node_supply(node, supply + 1)

        monkeypatch.setattr("ortools.graph.python.min_cost_flow.SimpleMinCostFlow", Unbalanced)
        with pytest.raises(NotCertified, match="status"):
            solve_ortools(from_requests([0, 1, 0]), 1, 1)


class TestCvxpy:
    """The method ``lp``, whose answers come through cvxpy: what is wrong is refused or not called proved."""

    trace = from_requests([0, 1, 2, 0, 1, 2, 0, 1, 2])

    def answered(self, monkeypatch, change):
        """Let cvxpy's answer be ``change(status, values)``."""
        cvxpy = pytest.importorskip("cvxpy")
        honest = cvxpy.Problem.solve

        def wrong(problem, **options):
            honest(problem, **options)
            status, point = change(problem.status, {v.id: v.value for v in problem.variables()})
            problem._status = status
            for variable in problem.variables():
                variable.save_value(point[variable.id])

        monkeypatch.setattr(cvxpy.Problem, "solve", wrong)
        return solve(self.trace, 1, "1/2", method="lp")

    def test_an_honest_answer_is_the_optimum_but_not_certified(self, monkeypatch):
        answer = self.answered(monkeypatch, lambda status, point: (status, point))
        assert answer.cost.fraction == solve(self.trace, 1, "1/2").cost.fraction
        assert (answer.kind, answer.status.certified) == ("exact (solver)", False)

    def test_a_suboptimal_vertex_is_priced_as_what_it_is_and_not_certified(self, monkeypatch):
        nothing = lambda status, point: (status, {k: np.zeros_like(v) for k, v in point.items()})  # noqa: E731
        answer = self.answered(monkeypatch, nothing)
        assert answer.cost.fraction == 9 > solve(self.trace, 1, "1/2").cost.fraction
        assert not answer.status.certified
        assert answer.lower_bound <= solve(self.trace, 1, "1/2").cost.fraction

    @pytest.mark.parametrize("status", ["user_limit", "optimal_inaccurate", "infeasible", "solver_error"])
    def test_another_status_than_optimal_is_no_solution(self, monkeypatch, status):
        with pytest.raises(NotCertified, match=status):
            self.answered(monkeypatch, lambda _, point: (status, {k: v * 0 for k, v in point.items()}))

    @pytest.mark.parametrize("value", [0.3, 1.7, math.nan])
    def test_a_point_that_is_no_vertex_is_refused(self, monkeypatch, value):
        with pytest.raises(NotCertified, match="no vertex"):
            self.answered(monkeypatch, lambda s, point: (s, {k: v * 0 + value for k, v in point.items()}))

    def test_a_point_beyond_the_capacity_is_refused(self, monkeypatch):
        with pytest.raises(InvalidSchedule):
            self.answered(monkeypatch, lambda s, point: (s, {k: v * 0 + 1 for k, v in point.items()}))


def soft(seed=0):
    rng = np.random.default_rng(seed)
    quality = rng.integers(1, 1001, (60, 25)) / 1000 * (rng.random((60, 25)) < 0.3)
    return from_arrays(quality, rng.integers(0, 25, 60))


WRONG = {
    "everything held": lambda p: milp.Answer("optimal", np.ones(len(p.objective)), 0.0, 0.0),
    "everything kept that nobody took": lambda p: milp.Answer(
        "optimal", np.arange(len(p.objective)) % 2 == 0.0, 0.0, 0.0
    ),
    "fractions": lambda p: milp.Answer(
        "optimal", np.random.default_rng(1).random(len(p.objective)), 0.0, 0.0
    ),
    "zeros": lambda p: milp.Answer("optimal", np.zeros(len(p.objective)), 0.0, 0.0),
    "values that are missing": lambda p: milp.Answer("optimal", np.full(len(p.objective), np.nan), 0.0, 0.0),
    "too short": lambda p: milp.Answer("optimal", np.ones(2), 0.0, 0.0),
    "a limit without an incumbent": lambda p: milp.Answer("time limit", None, math.nan, 5.0),
}


def sized():
    trace = soft()
    rows = [np.bincount(items, quality / 10_000, 25) for items, quality in map(trace.row, range(60))]
    return from_arrays(np.array(rows), trace.arrivals, sizes=[1 + i % 3 for i in range(25)])


class TestWindows:
    """Branch and bound on windows inside the Lagrangian bracket."""

    @pytest.mark.parametrize("make", [soft, sized])
    def test_a_wrong_answer_does_not_break_or_worsen_the_bracket(self, monkeypatch, make):
        trace = make()
        right = bracket(trace, 5, 1, iterations=200)
        monkeypatch.setattr(windows, "run_highs", lambda *_, **__: milp.Answer("error", None, 0.0, 0.0))
        without = bracket(trace, 5, 1, iterations=200)
        for what, wrong in WRONG.items():
            asked = []

            def backend(programme, wrong=wrong, asked=asked, **rest):
                asked.append(programme)
                return wrong(programme)

            monkeypatch.setattr(windows, "run_highs", backend)
            found = bracket(trace, 5, 1, iterations=200)
            assert asked, what
            assert right.cost.fraction <= found.cost.fraction <= without.cost.fraction, what
            assert found.lower_bound == without.lower_bound, what
            assert cost(found.schedule, trace, 5, 1) == found.cost, what


class TestRelaxation:
    """The lower bound of the facade rests on prices that HiGHS suggests; whatever they are, it holds."""

    @pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 50.0, -3.0, 1e12])
    @pytest.mark.parametrize("name", ["lp_gap", "webcaching_6", "four_requests"])
    def test_wrong_duals_give_a_weaker_bound_and_never_a_wrong_one(self, monkeypatch, scale, name):
        honest = milp.run_highs
        rng = np.random.default_rng(7)

        def wrong(programme, relaxed, **rest):
            answer = honest(programme, relaxed, **rest)
            if not relaxed:
                return answer
            rows, columns = len(programme.row_low), len(programme.objective)
            return milp.Answer(
                "optimal",
                answer.point,
                answer.objective,
                answer.bound,
                scale * rng.normal(size=rows),
                scale * rng.normal(size=columns),
            )

        monkeypatch.setattr(milp, "run_highs", wrong)
        instance = instances.get(name)
        answer = solve(*instance.problem, method="relaxation")
        assert answer.lower_bound <= instance.optimum <= answer.cost.fraction

    def test_no_duals_at_all_leave_the_floor(self, monkeypatch):
        monkeypatch.setattr(
            milp, "run_highs", lambda *_, **__: milp.Answer("time limit", None, math.nan, -math.inf)
        )
        trace = soft()
        answer = solve(trace, 3, 1, method="milp")
        assert answer.status == Status("time", True, True)
        assert answer.kind == "band"
        assert Problem(trace, 3, Fraction(1), Variant()).floor <= answer.lower_bound < answer.cost.fraction
