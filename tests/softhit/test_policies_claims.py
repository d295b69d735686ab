"""What the baselines cost on the inputs that the claims speak of, to the last unit.

Hard hits, stream, free fill, serve_then_update, empty start, unless a test says otherwise.
"""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from softhit import Trace, Variant, cost, from_arrays, from_requests, policy_names, simulate, verify
from softhit.cost import miss_units_by_step
from softhit.policies import policy_info

LAMBDAS = [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)]
# Policies that say they admit every arrival that is not held.
ALWAYS = [name for name in policy_names() if policy_info(name).admission.startswith("always")]


def cycle(n_items: int, n_steps: int) -> Trace:
    return from_requests(np.arange(n_steps) % n_items, n_items=n_items)


def junk(n_steps: int) -> Trace:
    """Every query is answered by item 0, the first arrival; later arrivals are new and answer nothing."""
    return from_requests(np.zeros(n_steps, int), n_items=n_steps, arrivals=np.arange(n_steps))


def total(spec: str, trace: Trace, capacity: int, lam: Fraction, variant: Variant | None = None) -> Fraction:
    schedule = simulate(spec, trace, capacity, lam, variant=variant)
    return cost(schedule, trace, capacity, lam, variant).fraction


class TestCycling:
    @pytest.mark.parametrize("lam", LAMBDAS)
    @pytest.mark.parametrize("capacity", [1, 2, 3, 7, 16])
    @pytest.mark.parametrize("spec", ["fifo", "lru"])
    def test_fifo_and_lru_miss_every_request_of_the_cycle_over_one_item_too_many(
        self, spec: str, capacity: int, lam: Fraction
    ) -> None:
        for n_steps in (1, capacity, capacity + 1, 5 * capacity + 3, 400):
            trace = cycle(capacity + 1, n_steps)
            assert total(spec, trace, capacity, lam) == n_steps + lam * max(0, n_steps - capacity)

    @pytest.mark.parametrize("capacity", [1, 2, 3, 7, 16])
    def test_the_static_set_misses_the_fill_and_then_one_request_in_a_round(self, capacity: int) -> None:
        for n_steps in (capacity, capacity + 1, 2 * capacity + 1, 401):
            expected = capacity + ceil(Fraction(n_steps - capacity, capacity + 1))
            for spec in ("static_opt", "static_greedy"):
                assert total(spec, cycle(capacity + 1, n_steps), capacity, Fraction(7)) == expected

    @pytest.mark.parametrize("lam", LAMBDAS)
    @pytest.mark.parametrize("capacity", [1, 4, 12])
    def test_the_ratio_tends_to_k_plus_one_times_one_plus_lambda(self, capacity: int, lam: Fraction) -> None:
        # by the slope over whole rounds, in which no fill remains the limit is attained
        near, far = cycle(capacity + 1, 10 * (capacity + 1)), cycle(capacity + 1, 30 * (capacity + 1))
        gain = [total(s, far, capacity, lam) - total(s, near, capacity, lam) for s in ("lru", "static_opt")]
        assert gain[0] / gain[1] == (capacity + 1) * (1 + lam)

    @pytest.mark.parametrize("n_items", [1, 2, 5, 9])
    def test_fifo_jumps_from_no_hit_to_all_hits_when_the_cycle_fits(self, n_items: int) -> None:
        trace = cycle(n_items, 50 * n_items)
        for capacity in range(1, n_items + 3):
            hits = miss_units_by_step(simulate("fifo", trace, capacity), trace) == 0
            if capacity < n_items:
                assert not hits.any()
                static = miss_units_by_step(simulate("static_opt", trace, capacity), trace) == 0
                assert static[n_items:].mean() == capacity / n_items
            else:
                assert not hits[:n_items].any()
                assert hits[n_items:].all()


class TestJunkArrivals:
    @pytest.mark.parametrize("lam", LAMBDAS)
    @pytest.mark.parametrize("capacity", [1, 2, 5, 20])
    @pytest.mark.parametrize("spec", ALWAYS)
    def test_admitting_every_arrival_pays_for_every_replacement(
        self, spec: str, capacity: int, lam: Fraction
    ) -> None:
        trace = junk(300)
        schedule = simulate(spec, trace, capacity, lam)
        assert schedule.n_insertions >= 300
        assert cost(schedule, trace, capacity, lam).fraction >= 1 + lam * (300 - capacity)

    @pytest.mark.parametrize("lam", LAMBDAS)
    @pytest.mark.parametrize("capacity", [1, 2, 5, 20])
    def test_fifo_pays_a_miss_too_for_each(self, capacity: int, lam: Fraction) -> None:
        for n_steps in (capacity + 1, 300):
            assert total("fifo", junk(n_steps), capacity, lam) == (n_steps - capacity) * (1 + lam)

    @pytest.mark.parametrize("spec", [*ALWAYS, "gated_lru"])
    def test_admission_on_a_miss_pays_the_one_miss(self, spec: str) -> None:
        assert total(f"{spec}(admit=miss)", junk(300), 4, Fraction(1)) == 1

    @pytest.mark.parametrize("spec", ["never", "gated_lru(theta=1/1000)", "static_opt", "belady"])
    def test_so_do_policies_that_hold_the_first_item(self, spec: str) -> None:
        assert total(spec, junk(300), 4, Fraction(1)) == 1


class TestGate:
    @pytest.mark.parametrize("lam", LAMBDAS)
    @pytest.mark.parametrize("theta", ["lam", "lam+2", "3*lam+1/7"])
    def test_switching_costs_no_more_than_missing_when_theta_is_at_least_lambda(
        self, theta: str, lam: Fraction
    ) -> None:
        gate = {"lam": lam, "lam+2": lam + 2, "3*lam+1/7": 3 * lam + Fraction(1, 7)}[theta]
        rng = np.random.default_rng(2)
        replaced = 0
        for number in range(12):
            soft = number % 2 == 0
            ids = rng.integers(0, 12, 400)
            quality = np.eye(12)[ids] if not soft else rng.random((400, 12)) * (rng.random((400, 12)) < 0.3)
            trace = from_arrays(quality, arrivals=ids, weight=rng.integers(0, 4, 400))
            schedule = simulate(f"gated_lru(theta={gate})", trace, 3, lam)
            paid = cost(schedule, trace, 3, lam)
            assert paid.switching <= paid.misses
            replaced += paid.paid
        assert replaced > 300

    def test_a_gate_below_lambda_may_pay_more_for_switches_than_for_misses(self) -> None:
        trace = cycle(4, 400)
        paid = cost(simulate("gated_lru(theta=1)", trace, 3, 2), trace, 3, 2)
        assert paid.switching > paid.misses


class TestEverySchedule:
    @pytest.mark.parametrize("spec", policy_names())
    def test_is_valid_and_costs_at_least_that_of_a_clairvoyant_at_no_switching_cost(self, spec: str) -> None:
        rng = np.random.default_rng(1)
        for capacity in (1, 3, 8):
            trace = from_requests(rng.zipf(1.3, 1500) % 20)
            schedule = simulate(spec, trace, capacity)
            verify(schedule, trace, capacity)
            verify(schedule, trace, capacity, Variant(availability="pool", order="update_then_serve"))
            assert total(spec, trace, capacity, Fraction(0)) >= total("belady", trace, capacity, Fraction(0))

    @pytest.mark.parametrize("spec", policy_names())
    def test_is_cost_free_where_everything_fits_but_the_first_misses(self, spec: str) -> None:
        trace = cycle(6, 300)
        schedule = simulate(spec, trace, 6, 1)
        assert cost(schedule, trace, 6, 1).fraction == 6
        assert cost(schedule, trace, 6, 1, Variant(fill="charged")).fraction == 12

    @pytest.mark.parametrize("spec", policy_names())
    def test_decides_alike_in_both_orders_unless_clairvoyant(self, spec: str) -> None:
        trace = from_requests(np.random.default_rng(3).integers(0, 9, 300))
        by = [
            simulate(spec, trace, 3, variant=Variant(order=o))
            for o in ("serve_then_update", "update_then_serve")
        ]
        assert spec in policy_names(clairvoyant=True) or by[0] == by[1]

    @pytest.mark.parametrize("spec", policy_names())
    def test_of_an_empty_trace_is_empty(self, spec: str) -> None:
        for n_items in (0, 3):
            trace = from_requests([], n_items=n_items)
            schedule = simulate(spec, trace, 2)
            assert schedule.n_insertions == 0
            assert cost(schedule, trace, 2, 1).fraction == 0
