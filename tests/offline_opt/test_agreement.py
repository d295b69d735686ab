"""All solvers that apply agree, exactly, on random small instances of every variant.

A default run compares at least 100 instances for each order x availability x fill and each sort of hits
(4,800 in all) by the fast solvers, and a sample by the slow ones; ``slow`` runs all on all, and on larger
ones. Instances in which the optimum serves less than 10 % or more than 90 % of the weight do not count.
"""

from fractions import Fraction

import numpy as np
import pytest

from offline_opt import dp, instances
from offline_opt.classes import contract, lift
from offline_opt.flow.lp import solve_lp
from offline_opt.flow.network import solve_networkx, solve_ortools
from offline_opt.flow.ssp import solve_ssp
from offline_opt.result import confirm
from offline_opt.soft.ascent import Ascent
from offline_opt.soft.bound import lower_bound
from offline_opt.soft.lp_cvxpy import lp_value
from offline_opt.soft.milp import branch_and_bound, relax
from offline_opt.soft.occasions import find_occasions
from offline_opt.soft.primal import improve
from softhit import Schedule, Variant, cost, floor_units, simulate
from softhit.retrieval import utility_scale

ORDERS = [
    (order, availability, fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]
# sort of hits: kind of instance, aggregator, k
SORTS = {
    "hard": ("hard", "best", 1),
    "classes": ("classes", "best", 1),
    "best": ("soft", "best", 1),
    "mean_topk": ("soft", "mean_topk", 2),
    "coverage": ("soft", "coverage", 2),
    "sized": ("sized", "best", 1),
}
# the retriever ranks by a score; fewer of these
SCORED = {
    "scored best": ("scored", "best", 1),
    "scored mean_topk": ("scored", "mean_topk", 2),
    "scored coverage": ("scored", "coverage", 3),
}


def with_pressure(rng, sort, order, size):
    """Draw until the optimum serves between 10 % and 90 % of the weight; return problem and optimum."""
    kind, aggregator, k = {**SORTS, **SCORED}[sort]
    while True:
        trace, capacity, lam = instances.random_instance(rng, kind, *size)
        v = Variant(*order, aggregator, k + int(rng.integers(0, 2)) if k > 1 else 1)
        best = dp.best_schedule(trace, capacity, lam, v)
        priced = cost(best, trace, capacity, lam, v)
        if trace.total_weight * 0.1 <= trace.total_weight - priced.misses <= trace.total_weight * 0.9:
            return (trace, capacity, lam, v), priced.fraction


def check_hard(problem, optimum, peers):
    flow = solve_ssp(*problem)
    assert flow.objective == flow.lower_bound == optimum
    assert confirm(flow, *problem).fraction == optimum
    assert lower_bound(*problem, flow.prices) == optimum
    if peers:
        for solver in (solve_networkx, solve_ortools, solve_lp):
            assert solver(*problem).objective == optimum, solver.__name__


def check_classes(problem, optimum):
    trace, capacity, lam, v = problem
    hard = contract(trace)
    flow = solve_ssp(hard, capacity, lam, v)
    assert flow.objective == optimum
    assert cost(lift(flow.schedule, trace, v), *problem).fraction == optimum


def check_bounds(problem, optimum):
    """Every bound that is shipped, on an instance whose optimum is known."""
    trace, capacity, lam, v = problem
    relaxed = relax(*problem)
    floor = Fraction(floor_units(trace, v), utility_scale(trace.quality_scale, v))
    assert relaxed.stop == "optimal"
    assert max(relaxed.lower_bound, floor) <= optimum
    # LB <= LP <= OPT for the prices of both makers, LB before it is rounded up to the grid of costs
    ascent = Ascent(*problem, find_occasions(trace, capacity, v))
    ascent.climb(20)
    slack = 1e-6 * max(1.0, relaxed.value)
    for prices in (relaxed.prices, ascent.prices()):
        assert float(lower_bound(*problem, prices)) <= relaxed.value + slack
    assert relaxed.value <= float(optimum) + slack
    empty = Schedule.from_events(trace.n_steps, [], [], [], [])
    lru = simulate("lru", trace, capacity, lam, variant=v)
    for start in (empty, lru):
        before = cost(start, *problem).fraction
        after = cost(improve(start, *problem), *problem).fraction
        assert optimum <= after <= before
    return relaxed.lower_bound == optimum


def check_milp(problem, optimum):
    """Exact; only the weak programmes of a noisy retriever with several places may run out of nodes."""
    trace, _, _, v = problem
    hard = v.top_k > 1 and trace.structure.scored
    out = branch_and_bound(*problem, max_nodes=500 if hard else None)
    assert out.rejected is None
    if hard and out.stop == "node limit":
        assert out.lower_bound <= optimum <= out.cost.fraction
    else:
        assert out.stop == "optimal"
        assert out.cost.fraction == out.lower_bound == optimum


def check_cell(sort, order, count, size, seed, every):
    rng = np.random.default_rng([seed, list({**SORTS, **SCORED}).index(sort), ORDERS.index(order)])
    tight = 0
    for number in range(count):
        problem, optimum = with_pressure(rng, sort, order, size)
        sampled = number % every == 0
        if sort == "hard":
            check_hard(problem, optimum, sampled)
        if sort == "classes":
            check_classes(problem, optimum)
        if "coverage" not in sort and (sampled or sort in ("best", "mean_topk")):
            check_milp(problem, optimum)
        tight += check_bounds(problem, optimum)
        if sampled:
            assert lp_value(*problem) <= optimum + 1e-6
    return tight


@pytest.mark.parametrize("order", ORDERS, ids="/".join)
@pytest.mark.parametrize("sort", SORTS)
def test_all_solvers_agree(sort, order):
    tight = check_cell(sort, order, count=100, size=(12, 6), seed=1, every=25)
    if sort in ("hard", "classes"):
        # totally unimodular: the LP is exact, and its prices prove the optimum
        assert tight == 100


@pytest.mark.parametrize("order", ORDERS, ids="/".join)
@pytest.mark.parametrize("sort", SCORED)
def test_all_solvers_agree_when_the_retriever_is_noisy(sort, order):
    check_cell(sort, order, count=25, size=(12, 6), seed=2, every=25)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids="/".join)
@pytest.mark.parametrize("sort", [*SORTS, *SCORED])
def test_all_solvers_agree_on_all_instances(sort, order):
    check_cell(sort, order, count=100, size=(12, 6), seed=3, every=1)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids="/".join)
@pytest.mark.parametrize("sort", [*SORTS, *SCORED])
def test_all_solvers_agree_on_larger_instances(sort, order):
    check_cell(sort, order, count=20, size=(40, 10), seed=4, every=5)
