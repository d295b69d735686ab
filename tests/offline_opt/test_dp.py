"""The dynamic programme against the list of all schedules, written in fractions and sharing nothing."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from offline_opt import dp, instances
from softhit import InvalidInput, Schedule, Variant, cost, from_arrays, from_requests

SERVED = [("best", 1), ("mean_topk", 2), ("mean_topk", 3), ("coverage", 2), ("coverage", 1)]
ORDERS = [
    (order, availability, fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]


def served(trace, step, cache, variant):
    """Utility of one step, from the definition."""
    a, b = int(trace.indptr[step]), int(trace.indptr[step + 1])
    found = []
    for x in range(a, b):
        item = int(trace.items[x])
        if item in cache:
            place = int(trace.ranks[x]) if trace.ranks is not None else -int(trace.quality[x])
            found.append((place, item, Fraction(int(trace.quality[x]), trace.quality_scale)))
    worth = [s for _, _, s in sorted(found)[: variant.top_k]]
    if variant.aggregator == "best":
        return worth[0] if worth else Fraction(0)
    if variant.aggregator == "mean_topk":
        return sum(worth, Fraction(0)) / variant.top_k
    missed = Fraction(1)
    for s in worth:
        missed *= 1 - s
    return Fraction((1 - missed) * trace.quality_scale // 1, trace.quality_scale)


def cheapest(trace, capacity, lam, variant):
    """The cost of the best of all sequences of cache contents."""
    sizes = [int(z) for z in trace.sizes]
    contents = [
        frozenset(c)
        for r in range(trace.n_items + 1)
        for c in itertools.combinations(range(trace.n_items), r)
        if sum(sizes[i] for i in c) <= capacity
    ]
    best = [Fraction(trace.total_weight)]

    def walk(step, cache, missed, inserted):
        paid = max(0, inserted - capacity) if variant.fill == "free" else inserted
        if missed + lam * paid >= best[0]:
            return
        if step == trace.n_steps:
            best[0] = missed + lam * paid
            return
        weight = int(trace.weight[step])
        here = weight * (1 - served(trace, step, cache, variant)) if weight else Fraction(0)
        for after in contents:
            new = after - cache
            if variant.availability == "stream" and not new <= {int(trace.arrivals[step])}:
                continue
            if variant.order == "update_then_serve":
                here = weight * (1 - served(trace, step, after, variant)) if weight else Fraction(0)
            walk(step + 1, after, missed + here, inserted + sum(sizes[i] for i in new))

    walk(0, frozenset(), Fraction(0), 0)
    return best[0]


@pytest.mark.parametrize("order", ORDERS, ids="/".join)
@pytest.mark.parametrize("kind", ["hard", "soft", "scored", "sized"])
def test_it_finds_the_cheapest_of_all_schedules(kind, order):
    rng = np.random.default_rng([ORDERS.index(order), len(kind)])
    below = 0
    for number in range(25):
        v = Variant(*order, *SERVED[number % len(SERVED)])
        trace, capacity, lam = instances.random_instance(rng, kind, max_steps=5, max_items=3)
        # so few items get one slot; several at a time are what a ranking and an aggregator are about
        capacity += number % 2
        found = cost(dp.best_schedule(trace, capacity, lam, v), trace, capacity, lam, v).fraction
        assert found == cheapest(trace, capacity, lam, v)
        below += found < trace.total_weight
    assert below > 0


def test_items_that_cannot_help_do_not_count_towards_the_limit():
    # 40 items, of which three serve something and one of these never arrives
    quality = np.zeros((6, 40))
    quality[2:, [3, 17, 29]] = 0.5, 0.75, 1.0
    trace = from_arrays(quality, arrivals=[3, 17, -1, 5, 6, 7])
    assert dp.too_large(trace, 2, Variant()) is None
    best = dp.best_schedule(trace, 1, 0, Variant())
    # item 17 from step 1 on: steps 0 and 1 cost 1 each, the other four 1/4
    assert cost(best, trace, 1, 0).fraction == 3


def test_each_limit_is_an_error_that_names_it():
    wide = from_arrays(np.ones((2, 13)) / 2, arrivals=[0, 1])
    with pytest.raises(InvalidInput, match="13 items can matter, at most 12"):
        dp.best_schedule(wide, 2, 1, Variant(availability="pool"))
    small = from_requests([0, 1, 0, 1])
    with pytest.raises(InvalidInput, match="states, at most"):
        dp.best_schedule(small, 10**6, 1)
    charged = Variant(fill="charged")
    best = dp.best_schedule(small, 10**6, "1/2", charged)
    assert cost(best, small, 10**6, "1/2", charged).fraction == 3
    long = from_requests(np.arange(120_000) % 11)
    with pytest.raises(InvalidInput, match="120000 steps, at most"):
        dp.best_schedule(long, 5, 1)


def test_costs_beyond_64_bits_are_refused():
    with pytest.raises(InvalidInput, match="64 bits"):
        dp.best_schedule(from_requests([0, 1, 0]), 1, Fraction(1, 10**19))


@pytest.mark.parametrize("lam", [0, 1, "1/3", 0.1])
def test_an_empty_trace_has_an_empty_schedule(lam):
    empty = from_requests([])
    assert dp.best_schedule(empty, 3, lam) == Schedule.from_events(0, [], [], [], [])


def test_it_moves_nothing_without_a_reason():
    trace = from_requests([0, 1, 2, 3], n_items=4)
    assert dp.best_schedule(trace, 2, 0).n_insertions == 0
