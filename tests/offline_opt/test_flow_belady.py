"""Claim E1 against Belady: what the exact optimum is at lambda = 0 and in update_then_serve."""

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from offline_opt.belady import belady, forced_belady
from offline_opt.flow.ssp import solve_ssp
from softhit import InvalidInput, Trace, Variant, cost, from_arrays, from_requests

PAGING = Variant(order="update_then_serve", fill="charged")
POOL = Variant(order="update_then_serve", availability="pool", fill="charged")

paging_traces = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.integers(0, n - 1), max_size=60).map(lambda q: from_requests(np.array(q, np.int64)))
)


def farthest_first(requests: list[int], capacity: int, forced: bool) -> int:
    """Faults of Belady's rule by looking ahead afresh at every fault."""
    held: set[int] = set()
    faults = 0
    for t, item in enumerate(requests):
        if item in held:
            continue
        faults += 1
        rest = requests[t + 1 :]

        def distance(i: int, rest: list[int] = rest) -> int:
            return rest.index(i) if i in rest else len(rest)

        if len(held) < capacity:
            held = held | {item}
        elif forced:
            held = held - {max(held, key=distance)} | {item}
        else:
            held = held | {item}
            held = held - {max(held, key=distance)}
    return faults


class TestBelady:
    @given(trace=paging_traces, capacity=st.integers(1, 6))
    def test_with_bypassing_is_the_optimum_without_a_switching_cost(
        self, trace: Trace, capacity: int
    ) -> None:
        schedule = belady(trace, capacity)
        optimum = solve_ssp(trace, capacity, 0).objective
        assert cost(schedule, trace, capacity, 0).fraction == optimum
        assert optimum == farthest_first(trace.requests.tolist(), capacity, forced=False)

    @given(trace=paging_traces, capacity=st.integers(1, 6))
    def test_forced_gives_the_optimum_of_update_then_serve_up_to_a_half(
        self, trace: Trace, capacity: int
    ) -> None:
        schedule = forced_belady(trace, capacity)
        faults = schedule.n_insertions
        assert faults == farthest_first(trace.requests.tolist(), capacity, forced=True)
        assert solve_ssp(trace, capacity, 0, PAGING).objective == 0
        for lam in (Fraction(1, 1000), Fraction(1, 3), Fraction(1, 2)):
            for variant in (PAGING, POOL):
                assert solve_ssp(trace, capacity, lam, variant).objective == lam * faults
            assert cost(schedule, trace, capacity, lam, PAGING).fraction == lam * faults

    @given(trace=paging_traces, capacity=st.integers(1, 6))
    def test_with_bypassing_is_the_optimum_of_update_then_serve_at_one(
        self, trace: Trace, capacity: int
    ) -> None:
        for variant in (PAGING, POOL):
            optimum = solve_ssp(trace, capacity, 1, variant).objective
            assert cost(belady(trace, capacity), trace, capacity, 1, variant).fraction == optimum
            assert optimum == farthest_first(trace.requests.tolist(), capacity, forced=False)

    def test_forced_is_beaten_between_a_half_and_one(self) -> None:
        # so that the bound 1/2 in the claim is not idle: bypassing 2 costs 1, fetching 2 and 1 again 2 lambda
        trace = from_requests([1, 2, 1])
        lam = Fraction(3, 5)
        assert solve_ssp(trace, 1, lam, PAGING).objective == lam + 1
        assert lam * forced_belady(trace, 1).n_insertions == 3 * lam > lam + 1

    def test_bypasses_the_request_that_comes_back_last(self) -> None:
        trace = from_requests([1, 1, 2, 1, 2, 2, 2, 1])
        assert cost(belady(trace, 1), trace, 1, 0).units == 4 * 10_000
        assert cost(forced_belady(trace, 1), trace, 1, 0).units == 5 * 10_000

    def test_sweeps_its_heap_on_long_runs_of_hits(self) -> None:
        rng = np.random.default_rng(2)
        trace = from_requests(np.minimum(rng.geometric(0.15, 20_000) - 1, 40))
        optimum = solve_ssp(trace, 6, 0).objective
        assert cost(belady(trace, 6), trace, 6, 0).fraction == optimum
        assert Fraction(1, 10) < optimum / 20_000 < Fraction(9, 10)

    @pytest.mark.parametrize("rule", [belady, forced_belady])
    def test_works_at_the_edges(self, rule) -> None:
        assert rule(from_requests([]), 3).n_insertions == 0
        assert rule(from_requests([0, 1, 2, 0, 1, 2]), 10**12).n_insertions == 3

    @pytest.mark.parametrize("rule", [belady, forced_belady])
    @pytest.mark.parametrize(
        "trace",
        [
            from_requests([0, 1, 0], arrivals=[1, 1, 0]),
            from_requests([0, 1, 0], quality=[1, 0.5, 1]),
            from_requests([0, 1, 0], weight=[1, 2, 1]),
            from_requests([0, -1, 0]),
            from_arrays([[1.0, 0.5]], arrivals=[0]),
        ],
    )
    def test_is_refused_where_it_is_not_optimal(self, rule, trace: Trace) -> None:
        with pytest.raises(InvalidInput, match="Belady"):
            rule(trace, 1)
