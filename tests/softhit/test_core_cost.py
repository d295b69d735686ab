"""Costs are exact: they equal a naive computation in fractions, in every variant."""

import math
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from softhit import (
    Cost,
    InvalidInput,
    InvalidSchedule,
    Schedule,
    Trace,
    Variant,
    as_fraction,
    cost,
    floor_units,
    from_arrays,
    from_requests,
)
from softhit.cost import miss_units_by_step, price
from softhit.retrieval import utility_scale

VARIANTS = [
    Variant(order=order, availability=availability, fill=fill, aggregator=aggregator, top_k=k)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
    for aggregator, k in (("best", 1), ("mean_topk", 1), ("mean_topk", 3), ("coverage", 2), ("coverage", 4))
]


def random_trace(
    rng: np.random.Generator, scored: bool = False, sized: bool = False, scale: int = 7
) -> Trace:
    n_steps, n = int(rng.integers(0, 14)), int(rng.integers(1, 7))
    quality = np.where(rng.random((n_steps, n)) < 0.6, rng.integers(0, scale + 1, (n_steps, n)) / scale, 0)
    retrievable = (quality > 0) | (rng.random((n_steps, n)) < 0.2)
    return from_arrays(
        quality,
        score=np.where(retrievable, rng.integers(-1, 2, (n_steps, n)), -np.inf) if scored else None,
        arrivals=rng.integers(-1, n, n_steps),
        weight=rng.integers(0, 4, n_steps),
        sizes=rng.integers(1, 4, n) if sized else None,
        quality_scale=scale,
    )


def random_schedule(rng: np.random.Generator, trace: Trace, capacity: int, variant: Variant) -> Schedule:
    """Leave and enter at random, keeping to the rules."""
    held: set[int] = set()
    events: list[list[int]] = [[], [], [], []]
    for t in range(trace.n_steps):
        for i in sorted(held):
            if rng.random() < 0.3:
                held.remove(i)
                events[0].append(t)
                events[1].append(i)
        allowed = [int(trace.arrivals[t])] if variant.stream else rng.permutation(trace.n_items).tolist()
        for i in allowed:
            used = sum(int(trace.sizes[j]) for j in held)
            if i >= 0 and i not in held and used + trace.sizes[i] <= capacity and rng.random() < 0.7:
                held.add(i)
                events[2].append(t)
                events[3].append(i)
    return Schedule.from_events(trace.n_steps, *events)


def naive_utility(row: list[tuple[Fraction, Any]], variant: Variant, scale: int) -> Fraction:
    """From (quality, rank key) of held entries: sort, take k, aggregate."""
    first = [q for q, _ in sorted(row, key=lambda entry: entry[1])[: variant.top_k]]
    if variant.aggregator == "best":
        return first[0] if first else Fraction(0)
    if variant.aggregator == "mean_topk":
        return sum(first, Fraction(0)) / variant.top_k
    lost = math.prod((1 - q for q in first), start=Fraction(1))
    return Fraction(math.floor((1 - lost) * scale), scale)


def naive_row(trace: Trace, t: int, held: set[int]) -> list[tuple[Fraction, Any]]:
    a, b = int(trace.indptr[t]), int(trace.indptr[t + 1])
    row = []
    for x in range(a, b):
        item, quality = int(trace.items[x]), Fraction(int(trace.quality[x]), trace.quality_scale)
        if item in held:
            row.append((quality, (-quality if trace.ranks is None else int(trace.ranks[x]), item)))
    return row


def naive_cost(
    schedule: Schedule, trace: Trace, capacity: int, lam: Fraction, variant: Variant
) -> tuple[list[Fraction], Fraction]:
    """The miss cost of each step, and the switching cost."""
    held: set[int] = set()
    misses = []
    inserted = 0
    for t in range(trace.n_steps):
        leaves, enters = schedule.at(t)
        if variant.order == "update_then_serve":
            held = (held - set(leaves)) | set(enters)
        u = naive_utility(naive_row(trace, t, held), variant, trace.quality_scale)
        misses.append(int(trace.weight[t]) * (1 - u) if trace.weight[t] else Fraction(0))
        if variant.order == "serve_then_update":
            held = (held - set(leaves)) | set(enters)
        inserted += sum(int(trace.sizes[i]) for i in enters)
    return misses, lam * (max(0, inserted - capacity) if variant.fill == "free" else inserted)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    scored=st.booleans(),
    sized=st.booleans(),
    lam=st.sampled_from(["0", "1/3", "0.7", "2"]),
)
def test_the_cost_is_that_of_a_naive_program_in_every_variant(
    seed: int, scored: bool, sized: bool, lam: str
) -> None:
    rng = np.random.default_rng(seed)
    trace = random_trace(rng, scored, sized)
    capacity = int(rng.integers(1, 7))
    for variant in VARIANTS:
        schedule = random_schedule(rng, trace, capacity, variant)
        misses, switching = naive_cost(schedule, trace, capacity, Fraction(lam), variant)
        paid = cost(schedule, trace, capacity, lam, variant)
        assert paid.misses == sum(misses)
        assert paid.switching == switching
        assert paid.fraction == paid.misses + paid.switching
        full = utility_scale(trace.quality_scale, variant)
        by_step = miss_units_by_step(schedule, trace, variant)
        assert [Fraction(int(u), full) for u in by_step] == misses


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), scored=st.booleans())
def test_the_floor_is_reached_by_holding_whatever_has_arrived(seed: int, scored: bool) -> None:
    rng = np.random.default_rng(seed)
    trace = random_trace(rng, scored)
    for variant in VARIANTS:
        total = Fraction(0)
        for t in range(trace.n_steps):
            until = t if variant.order == "serve_then_update" else t + 1
            seen = {int(e) for e in trace.arrivals[:until] if e >= 0}
            # the cache starts empty, so in serve_then_update nothing at all can serve the first step
            held = seen if variant.stream else set(range(trace.n_items if until else 0))
            # the best k by quality, whatever the retriever ranks by
            row = [(q, -q) for q, _ in naive_row(trace, t, held)]
            total += int(trace.weight[t]) * (1 - naive_utility(row, variant, trace.quality_scale))
        floor = Fraction(floor_units(trace, variant), utility_scale(trace.quality_scale, variant))
        assert floor == total
        schedule = random_schedule(rng, trace, 4, variant)
        assert floor <= cost(schedule, trace, 4, 0, variant).fraction


def test_coverage_is_rounded_down_exactly_however_many_factors() -> None:
    # 1 - (1 - s)^k for values whose products leave 64 bits
    for scale, s, k in (
        (10_000, 3333, 6),
        (10**9, 1, 5),
        (10**9, 333_333_333, 7),
        (3, 1, 40),
        (10_000, 10_000, 3),
    ):
        trace = Trace(
            n_items=k,
            indptr=[0, 0, k],
            items=np.arange(k),
            quality=np.full(k, s),
            quality_scale=scale,
        )
        schedule = Schedule.from_events(2, [], [], [0] * k, list(range(k)))
        variant = Variant(aggregator="coverage", top_k=k, availability="pool")
        served = math.floor((1 - (1 - Fraction(s, scale)) ** k) * scale)
        assert miss_units_by_step(schedule, trace, variant).tolist() == [scale, scale - served]


def test_coverage_on_the_grid_of_0_and_1_counts_an_item_that_answers_nothing_as_nothing() -> None:
    for served in (0, 1):
        trace = Trace(
            n_items=2,
            indptr=[0, 0, 2],
            items=[0, 1],
            quality=[0, served],
            ranks=[0, 1],
            quality_scale=1,
        )
        schedule = Schedule.from_events(2, [], [], [0, 0], [0, 1])
        variant = Variant(aggregator="coverage", top_k=2, availability="pool")
        assert miss_units_by_step(schedule, trace, variant).tolist() == [1, 1 - served]


def test_weights_of_many_bits_are_summed_exactly() -> None:
    heavy, n = 2**31 - 1, 40
    trace = from_requests([0] * n, weight=[heavy] * n, quality=1 / 3, quality_scale=10**9)
    unit = Fraction(10**9 - 333_333_333, 10**9)
    keep = Schedule.from_events(n, [], [], [0], [0])
    assert cost(keep, trace, 1, 0).fraction == heavy * (1 + (n - 1) * unit)
    # a step's cost that would leave 64 bits is refused, not wrapped around
    deep = Variant(aggregator="mean_topk", top_k=5)
    with pytest.raises(InvalidInput, match="weight must be below"):
        cost(keep, trace, 1, 0, deep)
    with pytest.raises(InvalidInput, match="weight must be below"):
        floor_units(trace, deep)


def test_free_fill_pays_for_what_exceeds_the_capacity_only_and_an_emptied_slot_is_not_free_again() -> None:
    trace = from_requests([0, 1, 2, 0])
    schedule = Schedule.from_events(4, [1, 2, 3], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 0])
    assert cost(schedule, trace, 3, 10).switching == 10
    assert cost(schedule, trace, 3, 10, Variant(fill="charged")).switching == 40
    assert cost(schedule, trace, 9, 10).switching == 0


def test_sizes_are_what_an_insertion_costs() -> None:
    trace = from_arrays(np.eye(3), arrivals=[0, 1, 2], sizes=[2, 1, 3])
    schedule = Schedule.from_events(3, [2, 2], [0, 1], [0, 1, 2], [0, 1, 2])
    assert cost(schedule, trace, 4, "1/2").switching == Fraction(6 - 4, 2)
    assert cost(schedule, trace, 4, "1/2", Variant(fill="charged")).paid == 6
    # a full slot of space is not enough for the next size up
    with pytest.raises(InvalidSchedule, match="holds more than its capacity"):
        cost(schedule, trace, 2, 1)


def test_an_empty_trace_costs_nothing() -> None:
    trace = from_requests([])
    assert cost(Schedule.from_events(0, [], [], [], []), trace, 1, 5) == Cost(0, 10_000, 0, 0, 0, 0)
    assert floor_units(trace) == 0


def test_zero_is_a_switching_cost_and_none_is_not() -> None:
    trace = from_requests([0, 1])
    schedule = Schedule.from_events(2, [1], [0], [0, 1], [0, 1])
    assert cost(schedule, trace, 1, 0).fraction == 2
    assert cost(schedule, trace, 1, 0.1).fraction == Fraction(21, 10)
    for bad in (None, -1, -0.5, "-1/3", math.nan, math.inf, "x", True, [1], "1/0"):
        with pytest.raises(InvalidInput, match="switch_cost must be"):
            cost(schedule, trace, 1, bad)


@pytest.mark.parametrize("capacity", [0, -1, 1.0, "1", None, True, 2.5])
def test_the_capacity_is_an_integer_from_one(capacity: Any) -> None:
    trace = from_requests([0, 1])
    with pytest.raises(InvalidInput, match="capacity must be an integer >= 1"):
        cost(Schedule.from_events(2, [], [], [], []), trace, capacity, 1)


def test_a_capacity_above_the_number_of_items_is_legal() -> None:
    trace = from_requests([0, 1, 0, 1])
    schedule = Schedule.from_events(4, [], [], [0, 1], [0, 1])
    assert cost(schedule, trace, 10**30, 1).fraction == 2


def test_a_float_stands_for_its_shortest_decimal() -> None:
    assert as_fraction("x", 0.1) == Fraction(1, 10)
    assert as_fraction("x", 1e3) == 1000
    assert as_fraction("x", "1e3") == 1000
    assert as_fraction("x", np.float32(0.5)) == Fraction(1, 2)
    assert as_fraction("x", np.int64(3)) == 3
    with pytest.raises(InvalidInput, match=r"x must be .*>= 0, got -1"):
        as_fraction("x", -1, low=0)


def test_a_cost_has_one_scale_for_its_parts() -> None:
    paid = price(15_000, 10_000, 7, 3, "1/3", Variant())
    assert paid == Cost(
        units=85_000, scale=30_000, miss_units=45_000, switch_units=40_000, insertions=7, paid=4
    )
    assert float(paid) == pytest.approx(1.5 + 4 / 3)
