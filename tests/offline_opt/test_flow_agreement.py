"""Four solvers that share no code, and a dynamic programme over cache contents, find the same optimum."""

import itertools
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from offline_opt.flow.lp import solve_lp
from offline_opt.flow.network import solve_networkx, solve_ortools
from offline_opt.flow.ssp import solve_ssp
from offline_opt.result import MethodResult
from softhit import Trace, Variant, cost, from_arrays, from_requests

VARIANTS = [
    Variant(order=order, availability=availability, fill=fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]
SWITCH_COSTS = [
    Fraction(0),
    Fraction(1, 3),
    Fraction(1, 2),
    Fraction(997, 1000),
    Fraction(1),
    Fraction(5, 2),
    Fraction(20),
    Fraction("0.1234567890123456"),
]


def best_by_enumeration(trace: Trace, capacity: int, lam: Fraction, variant: Variant) -> Fraction:
    """The optimum over all schedules; state: contents, and insertions so far, counted up to K."""
    contents = [
        frozenset(c) for r in range(capacity + 1) for c in itertools.combinations(range(trace.n_items), r)
    ]
    states = {(frozenset[int](), 0): Fraction(0)}

    def update(t: int) -> None:
        nonlocal states
        following: dict[tuple[frozenset[int], int], Fraction] = {}
        for (held, used), spent in states.items():
            for after in contents:
                new = after - held
                if variant.stream and not new <= {int(trace.arrivals[t])}:
                    continue
                free = min(capacity - used, len(new)) if variant.free_fill else 0
                key = (after, used + free)
                total = spent + lam * (len(new) - free)
                if key not in following or total < following[key]:
                    following[key] = total
        states = following

    def serve(t: int) -> None:
        row = dict(zip(*(x.tolist() for x in trace.row(t)), strict=True))
        for held, used in states:
            worth = Fraction(max((row.get(i, 0) for i in held), default=0), trace.quality_scale)
            states[held, used] += int(trace.weight[t]) * (1 - worth)

    for t in range(trace.n_steps):
        if variant.serves_first:
            serve(t)
            update(t)
        else:
            update(t)
            serve(t)
    return min(states.values())


@st.composite
def hard_traces(draw: st.DrawFn, max_items: int = 4, max_steps: int = 8) -> Trace:
    n_items = draw(st.integers(1, max_items))
    n_steps = draw(st.integers(0, max_steps))

    def column(element: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(element, min_size=n_steps, max_size=n_steps))

    requests = np.array(column(st.integers(-1, n_items - 1)), np.int64)
    levels = draw(st.sampled_from([[10_000], [10_000, 5_000], [10_000, 7_001, 3_333, 1, 0]]))
    quality = np.array(column(st.sampled_from(levels)), np.float64) / 10_000
    weight = column(st.sampled_from([0, 1, 1, 2, 7])) if draw(st.booleans()) else None
    arrivals = column(st.integers(-1, n_items - 1)) if draw(st.booleans()) else requests
    return from_requests(
        requests, n_items=n_items, quality=quality, weight=weight, arrivals=np.array(arrivals)
    )


def assert_same_value(results: list[MethodResult], expected: Fraction) -> None:
    assert {r.method: r.objective for r in results} == dict.fromkeys([r.method for r in results], expected)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
class TestOptimum:
    @given(trace=hard_traces(), capacity=st.integers(1, 5), lam=st.sampled_from(SWITCH_COSTS))
    def test_of_every_solver_is_that_of_enumeration(
        self, variant: Variant, trace: Trace, capacity: int, lam: Fraction
    ) -> None:
        expected = best_by_enumeration(trace, capacity, lam, variant)
        results: list[MethodResult] = [solve_ssp(trace, capacity, lam, variant)]
        results.append(solve_networkx(trace, capacity, lam, variant))
        if lam.denominator < 10**10:
            results.append(solve_ortools(trace, capacity, lam, variant))
        assert_same_value(results, expected)
        assert results[0].lower_bound == expected
        for result in results:
            assert result.schedule is not None
            assert cost(result.schedule, trace, capacity, lam, variant).fraction == expected

    @settings(max_examples=15)
    @given(
        trace=hard_traces(max_items=8, max_steps=40),
        capacity=st.integers(1, 5),
        lam=st.sampled_from(SWITCH_COSTS),
    )
    def test_of_the_linear_programme_is_that_of_the_flow(
        self, variant: Variant, trace: Trace, capacity: int, lam: Fraction
    ) -> None:
        result = solve_lp(trace, capacity, lam, variant)
        assert result.objective == solve_ssp(trace, capacity, lam, variant).objective
        assert result.schedule is not None
        assert cost(result.schedule, trace, capacity, lam, variant).fraction == result.objective

    def test_of_every_solver_agrees_under_pressure(self, variant: Variant) -> None:
        rng = np.random.default_rng(7)
        n_steps, capacity = 1500, 8
        requests = np.minimum(rng.geometric(0.06, n_steps) - 1, 60)
        arrivals = np.where(rng.random(n_steps) < 0.3, rng.integers(0, 61, n_steps), requests)
        trace = from_requests(
            requests,
            n_items=61,
            quality=rng.choice([1, 0.75, 0.4], n_steps),
            weight=rng.integers(0, 4, n_steps),
            arrivals=arrivals,
        )
        lam = Fraction(7, 5)
        best = solve_ssp(trace, capacity, lam, variant)
        assert_same_value(
            [solve_ortools(trace, capacity, lam, variant), solve_lp(trace, capacity, lam, variant)],
            best.objective,
        )
        assert best.lower_bound == best.objective
        priced = cost(best.schedule, trace, capacity, lam, variant)
        assert priced.insertions > 10 * capacity
        assert Fraction(1, 10) < priced.misses / trace.total_weight < Fraction(9, 10)


NAMED = {
    # 1 enters at step 0 and hits at steps 1 and 3, past the 2; then 2 enters and hits at steps 5 and 6
    "eight requests, one slot": ([1, 1, 2, 1, 2, 2, 2, 1], 1, 0, Variant(), 4),
    # 0 hits at step 1; 1 replaces it for 1/2 and hits at step 3: two misses and one replacement
    "four requests, replacing pays": ([0, 0, 1, 1], 1, "1/2", Variant(), Fraction(5, 2)),
    # the same at a price of 2, more than the hit is worth: three misses
    "four requests, replacing does not pay": ([0, 0, 1, 1], 1, 2, Variant(), 3),
    # each needs the slot over the other's request: one hit, whichever enters
    "four requests, one slot": ([0, 1, 0, 1], 1, "1/2", Variant(), 3),
    "four requests, one slot, charged": ([0, 1, 0, 1], 1, "1/2", Variant(fill="charged"), Fraction(7, 2)),
    # both kept: two misses at first sight and two hits
    "four requests, two slots": ([0, 1, 0, 1], 2, "1/2", Variant(), 2),
    "nothing repeats": ([0, 1, 2, 3], 2, 1, Variant(), 4),
    "no steps": ([], 3, 1, Variant(), 0),
    "nothing can serve": ([-1, -1, -1], 1, 0, Variant(), 3),
    # 0 and 1 earn the same: one of them stays and hits twice
    "ties": ([0, 1, 0, 1, 0, 1], 1, 5, Variant(), 4),
    "more slots than items": ([0, 1, 2, 0, 1, 2], 9, 3, Variant(), 3),
    "more slots than items, charged": (
        [0, 1, 2, 0, 1, 2, 0],
        9,
        "3/2",
        Variant(fill="charged"),
        Fraction(13, 2),
    ),
    "pool fetches before the step, at a price": (
        [0, 1, 0, 1],
        1,
        "1/4",
        Variant(order="update_then_serve", availability="pool", fill="charged"),
        1,
    ),
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("solve", [solve_ssp, solve_networkx, solve_ortools, solve_lp])
def test_a_named_instance_has_the_cost_worked_out_by_hand(name: str, solve) -> None:
    requests, capacity, lam, variant, expected = NAMED[name]
    trace = from_requests(np.array(requests, np.int64), n_items=max([0, *requests]) + 1)
    result = solve(trace, capacity, lam, variant)
    assert result.objective == expected
    assert cost(result.schedule, trace, capacity, lam, variant).fraction == expected


@pytest.mark.parametrize("aggregator", ["mean_topk", "coverage"])
def test_with_one_item_a_row_the_other_aggregators_are_flows_too(aggregator: str) -> None:
    rng = np.random.default_rng(3)
    trace = from_requests(rng.integers(0, 4, 8), quality=rng.choice([1, 0.7], 8))
    for fill in ("free", "charged"):
        variant = Variant(aggregator=aggregator, top_k=3, fill=fill)
        scaled = 1 if aggregator == "coverage" else 3
        plain = Variant(fill=fill)
        # mean_topk divides what a hit earns by k: k times the misses beyond (1 - 1/k) of all, k times lambda
        expected = best_by_enumeration(trace, 2, scaled * Fraction(1, 5), plain)
        expected = (expected + (scaled - 1) * trace.total_weight) / scaled
        for solve in (solve_ssp, solve_networkx, solve_ortools, solve_lp):
            assert solve(trace, 2, "1/5", variant).objective == expected


@pytest.mark.parametrize("solve", [solve_ssp, solve_networkx, solve_ortools, solve_lp])
class TestTracesTheFlowIsNotFor:
    def test_soft_hits_are_refused(self, solve) -> None:
        with pytest.raises(ValueError, match="hard hits"):
            solve(from_arrays([[1.0, 0.5]], arrivals=[0]), 1, 1)

    def test_sizes_are_refused(self, solve) -> None:
        with pytest.raises(ValueError, match="size"):
            solve(from_arrays([[1.0, 0.0]], arrivals=[0], sizes=[2, 1]), 1, 1)

    @pytest.mark.parametrize("capacity", [0, -1, 2.0])
    def test_a_wrong_capacity_is_refused(self, solve, capacity) -> None:
        with pytest.raises(ValueError, match="capacity"):
            solve(from_requests([0, 0]), capacity, 1)

    def test_a_negative_switching_cost_is_refused(self, solve) -> None:
        with pytest.raises(ValueError, match="switch_cost"):
            solve(from_requests([0, 0]), 1, "-1/2")
