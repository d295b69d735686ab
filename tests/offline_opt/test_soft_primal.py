"""Occasions and the improvement of schedules item by item."""

from fractions import Fraction

import numpy as np
import pytest

from offline_opt import dp, instances
from offline_opt.soft.milp import relax
from offline_opt.soft.occasions import find_occasions, flags_of, schedule_of
from offline_opt.soft.primal import improve, round_point
from softhit import Schedule, Variant, cost, from_arrays, simulate, verify

VARIANTS = [
    Variant(order, availability, fill, aggregator, k)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
    for aggregator, k in (("best", 1), ("mean_topk", 2), ("coverage", 2))
]


def problems(kind, seed, per_variant=6, **size):
    rng = np.random.default_rng([seed, len(kind)])
    for variant in VARIANTS:
        for _ in range(per_variant):
            yield (*instances.random_instance(rng, kind, **size), variant)


@pytest.mark.parametrize("kind", ["soft", "scored", "sized"])
def test_a_schedule_survives_the_way_through_flags_and_never_costs_more(kind):
    cheaper = 0
    for problem in problems(kind, 1):
        trace, capacity, lam, variant = problem
        occasions = find_occasions(trace, capacity, variant)
        for policy in ("fifo", "lru"):
            schedule = simulate(policy, trace, capacity, lam, variant=variant)
            flags = flags_of(occasions, schedule)
            tidy = schedule_of(occasions, trace.n_steps, *flags)
            verify(tidy, trace, capacity, variant)
            before, after = cost(schedule, *problem), cost(tidy, *problem)
            assert after.fraction <= before.fraction
            cheaper += after.fraction < before.fraction
            for a, b in zip(flags, flags_of(occasions, tidy), strict=True):
                assert np.array_equal(a, b)
    assert cheaper > 10


def test_occasions_of_a_dense_schedule_cover_exactly_the_entries_it_can_use():
    for trace, capacity, _, variant in problems("sized", 2):
        occasions = find_occasions(trace, capacity, variant)
        first = {}
        for t, item in enumerate(trace.arrivals.tolist()):
            first.setdefault(item, t)
        expected = set()
        for t in range(trace.n_steps):
            for item in trace.row(t)[0].tolist():
                since = first.get(item, trace.n_steps) if variant.stream else 0
                usable = since < t or (since == t and not variant.serves_first)
                if usable and trace.weight[t] > 0 and trace.sizes[item] <= capacity:
                    expected.add((item, t))
        assert set(zip(occasions.item.tolist(), occasions.step.tolist(), strict=True)) == expected


@pytest.mark.parametrize("kind", ["soft", "scored", "sized"])
def test_improving_never_makes_a_schedule_worse_and_often_finds_the_optimum(kind):
    found = total = 0
    for problem in problems(kind, 3):
        trace, capacity, lam, variant = problem
        optimum = cost(dp.best_schedule(*problem), *problem).fraction
        empty = Schedule.from_events(trace.n_steps, [], [], [], [])
        best = Fraction(trace.total_weight)
        for start in (empty, simulate("lru", trace, capacity, lam, variant=variant)):
            better = cost(improve(start, *problem), *problem).fraction
            assert optimum <= better <= cost(start, *problem).fraction
            best = min(best, better)
        found += best == optimum
        total += 1
    assert found > 0.6 * total


def test_an_lp_point_rounds_to_a_valid_schedule_and_prices_guide():
    plain = guided = 0
    for problem in problems("soft", 4, per_variant=2, max_steps=40, max_items=14):
        trace, capacity, _, variant = problem
        relaxed = relax(*problem)
        occasions = find_occasions(trace, capacity, variant)
        rounded = round_point(occasions, relaxed.keep + relaxed.take, trace, capacity)
        assert relaxed.lower_bound <= cost(rounded, *problem).fraction
        empty = Schedule.from_events(trace.n_steps, [], [], [], [])
        plain += cost(improve(empty, *problem), *problem).fraction
        guided += cost(improve(empty, *problem, prices=relaxed.prices), *problem).fraction
    assert guided < plain


def test_no_item_alone_can_do_better_afterwards():
    # two items compete for one slot; each alone is optimal given the other
    trace = from_arrays([[0, 0], [0, 0], [0.5, 0.75]], arrivals=[0, 1, -1])
    stuck = improve(Schedule.from_events(3, [], [], [], []), trace, 1, 1)
    assert cost(stuck, trace, 1, 1).fraction == Fraction(5, 2)
    assert improve(stuck, trace, 1, 1) == stuck


@pytest.mark.parametrize(
    ("held", "entered", "fault"),
    [([False, True], [False, False], "stays that was not held"), ([True, True], [False, True], "stays")],
)
def test_flags_that_mean_no_schedule_are_refused(held, entered, fault):
    trace = from_arrays([[0.0], [0.5], [0.5]], arrivals=[0, 0, -1])
    occasions = find_occasions(trace, 1)
    assert len(occasions) == 2
    with pytest.raises(ValueError, match=fault):
        schedule_of(occasions, 3, held, entered)


def test_entering_where_nothing_arrives_is_refused():
    trace = from_arrays([[0.0], [0.5], [0.5]], arrivals=[0, -1, -1])
    with pytest.raises(ValueError, match="where it may not"):
        schedule_of(find_occasions(trace, 1), 3, [False, True], [False, True])
