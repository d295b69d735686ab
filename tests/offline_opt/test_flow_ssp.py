"""The solver of hard hits: its prices prove its schedules, its numbers fit, it stops when told to."""

import dataclasses
import itertools
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from offline_opt.flow import common, ssp
from offline_opt.flow.dual import Potentials, dual_bound
from offline_opt.flow.events import build_events
from offline_opt.flow.network import solve_networkx, solve_ortools
from offline_opt.flow.ssp import FlowResult, solve_ssp
from offline_opt.result import Prices
from softhit import InvalidInput, NotCertified, Trace, Variant, from_requests

CHARGED = Variant(fill="charged")
VARIANTS = [
    Variant(order=order, availability=availability, fill=fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]


def zipf(n_steps: int, n_items: int, seed: int = 0, **parts) -> Trace:
    rng = np.random.default_rng(seed)
    odds = 1 / np.arange(1, n_items + 1) ** 0.8
    return from_requests(rng.choice(n_items, n_steps, p=odds / odds.sum()), n_items=n_items, **parts)


def mixed(n_steps: int, n_items: int, seed: int) -> Trace:
    """Arrivals that differ from requests, qualities, weights, steps without a query."""
    rng = np.random.default_rng(seed)
    requests = rng.integers(-1, n_items, n_steps)
    return from_requests(
        requests,
        n_items=n_items,
        quality=rng.choice([1, 0.75, 0.3], n_steps),
        weight=rng.integers(0, 4, n_steps),
        arrivals=np.where(rng.random(n_steps) < 0.5, requests, rng.integers(-1, n_items, n_steps)),
    )


def bound_from_prices(prices: Prices, trace: Trace, capacity: int, variant: Variant) -> Fraction:
    """The bound in the docstring of Prices, item by item and step by step, without any event.

    For one item, ``out`` and ``held`` are the most it can have earned so far without and with a slot.
    """
    requests, arrivals = trace.requests, trace.arrivals
    quality = np.zeros(trace.n_steps, object)
    quality[requests >= 0] = trace.quality.tolist()
    earned = Fraction(0)
    beta = prices.slot.tolist()
    for item in range(trace.n_items):
        out, held = Fraction(0), Fraction(-(10**30))
        for t in range(trace.n_steps):
            worth = int(trace.weight[t]) * Fraction(quality[t], trace.quality_scale) / prices.unit
            gain = (worth if requests[t] == item else 0) - beta[t]
            may_enter = not variant.stream or arrivals[t] == item
            if variant.serves_first:
                held += gain
            out, held = max(out, held), max(held, out - prices.entry) if may_enter else held
            if not variant.serves_first:
                held += gain
        earned += max(out, held)
    fill = capacity * prices.entry if variant.free_fill else 0
    return trace.total_weight - prices.unit * (capacity * sum(beta) + fill + earned)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
class TestPrices:
    @pytest.mark.parametrize("lam", ["0", "1/2", "997/1000", "6", "0.3141592653589793"])
    def test_one_per_step_prove_the_optimum_by_item_programmes(self, variant: Variant, lam: str) -> None:
        for seed, capacity in ((1, 2), (2, 4), (3, 40)):
            trace = mixed(70, 12, seed)
            result = solve_ssp(trace, capacity, lam, variant)
            assert result.prices is not None
            assert min(result.prices.slot.tolist()) >= 0
            assert 0 <= result.prices.entry * result.prices.unit <= Fraction(lam)
            assert bound_from_prices(result.prices, trace, capacity, variant) == result.objective

    def test_that_are_wrong_prove_less_or_nothing(self, variant: Variant) -> None:
        trace, lam = mixed(60, 10, 5), Fraction(1, 2)
        result = solve_ssp(trace, 2, lam, variant)
        events, right = result.events, result.potentials
        assert dual_bound(events, right, 2, lam, variant) == result.objective
        rejected = lowered = 0
        for field in ("line", "held"):
            for j in range(len(getattr(right, field))):
                for change in (-1, 1):
                    values = getattr(right, field).copy()
                    values[j] += change
                    try:
                        bound = dual_bound(
                            events, dataclasses.replace(right, **{field: values}), 2, lam, variant
                        )
                    except NotCertified:
                        rejected += 1
                    else:
                        assert bound <= result.objective
                        lowered += bound < result.objective
        assert rejected > 20
        assert lowered > 5


class TestPotentials:
    def test_priced_above_the_switching_cost_are_rejected(self) -> None:
        trace = zipf(50, 8)
        result = solve_ssp(trace, 2, "1/2")
        with pytest.raises(NotCertified, match="above the switching cost"):
            dual_bound(result.events, result.potentials, 2, "1/3")

    def test_of_huge_size_are_summed_exactly(self) -> None:
        events = build_events(from_requests([0] * 40))
        events = dataclasses.replace(events, reward=events.reward * 0 + (1 << 59))
        m = len(events)
        nothing = Potentials(np.zeros(m + 1, np.int64), np.zeros(m, np.int64), 0, 1)
        surplus = (m - 1) << 59
        assert surplus > 1 << 64
        assert dual_bound(events, nothing, 1, 0) == 40 - surplus * events.unit


class TestNumbers:
    @given(
        seed=st.integers(0, 10**6), capacity=st.integers(1, 6), lam=st.fractions(0, 4, max_denominator=10**18)
    )
    def test_no_fraction_is_too_long(self, seed: int, capacity: int, lam: Fraction) -> None:
        trace = mixed(40, 8, seed)
        for variant in VARIANTS:
            expected = solve_networkx(trace, capacity, lam, variant).objective
            result = solve_ssp(trace, capacity, lam, variant)
            assert result.objective == result.lower_bound == expected

    def test_a_stand_in_for_a_long_fraction_lies_in_its_farey_interval(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(300):
            order = int(rng.integers(1, 40))
            price = Fraction(int(rng.integers(0, 10**9)), 10**8 + 7)
            short = common.stand_in(price, order)
            assert short.denominator <= 2 * order
            # a fraction of the sequence itself would turn a difference of two paths into a tie
            assert short == price or short.denominator > order
            low, high = sorted((short, price))
            for d in range(1, order + 1):
                n = low.numerator * d // low.denominator + 1
                assert Fraction(n, d) >= high, (price, order, short)

    def test_labels_of_the_stand_in_are_read_back_exactly(self) -> None:
        rng = np.random.default_rng(0)
        short, price = Fraction(355, 113), Fraction(3141592653589793, 10**15)
        alpha, beta = rng.integers(-(10**9), 10**9, 200), rng.integers(-56, 57, 200)
        labels = alpha * short.denominator + beta * short.numerator
        expected = [
            a * price.denominator + b * price.numerator
            for a, b in zip(alpha.tolist(), beta.tolist(), strict=True)
        ]
        assert common.translate(labels, short, price).tolist() == expected

    def test_wide_labels_give_the_same_flow_as_narrow_ones(self, monkeypatch) -> None:
        for lam in ("0", "1/2", "997/1000"):
            trace = zipf(3000, 150)
            narrow = solve_ssp(trace, 20, lam, CHARGED)
            assert ssp._Flow(narrow.events, Fraction(lam)).node.dtype == np.int32
            monkeypatch.setattr(common, "MAX_LABEL_32", 0)
            wide = solve_ssp(trace, 20, lam, CHARGED)
            assert ssp._Flow(wide.events, Fraction(lam)).node.dtype == np.int64
            monkeypatch.undo()
            assert narrow.gains == wide.gains
            assert narrow.schedule == wide.schedule
            assert np.array_equal(narrow.potentials.line, wide.potentials.line)

    def test_fine_qualities_and_costs_match_another_solver(self) -> None:
        rng = np.random.default_rng(4)
        trace = zipf(4000, 300, quality=rng.random(4000), weight=rng.integers(1, 1000, 4000))
        for lam in ("997/1000", "30.123"):
            assert solve_ssp(trace, 25, lam).objective == solve_ortools(trace, 25, lam).objective

    def test_what_64_bits_cannot_hold_is_refused(self) -> None:
        rng = np.random.default_rng(0)

        def heavy(bits: int) -> Trace:
            weight = rng.integers(2 ** (bits - 1), 2**bits, 20)
            return from_requests([0, 1] * 10, quality=rng.random(20), weight=weight, quality_scale=10**9)

        trace = heavy(23)
        for lam in (0, 10**6):
            assert solve_ssp(trace, 1, lam).objective == solve_networkx(trace, 1, lam).objective
        with pytest.raises(InvalidInput, match="too fine"):
            solve_ssp(trace, 1, "0.1234567890123456789")
        with pytest.raises(InvalidInput, match="too large"):
            solve_ssp(heavy(31), 1, 0)


class TestSlots:
    def test_gain_less_and_less_and_give_the_optimum_of_every_capacity(self) -> None:
        trace = zipf(600, 60)
        for lam in (0, Fraction(1, 2), 0.123456789012345):
            gains = solve_ssp(trace, 12, lam, CHARGED).gains
            assert all(a >= b > 0 for a, b in itertools.pairwise(gains))
            for k in (1, 5, 11):
                assert trace.n_steps - sum(gains[:k]) == solve_ssp(trace, k, lam, CHARGED).objective

    def test_beyond_what_helps_are_not_used(self) -> None:
        # 60 items appear one after the other, twice each: one slot suffices, whatever the capacity
        trace = from_requests(np.repeat(np.arange(60), 2))
        result = solve_ssp(trace, 5, "1/4", CHARGED)
        assert len(result.gains) == 1
        assert result.objective == 60 + Fraction(60, 4)

    def test_filled_for_free_save_exactly_their_price_if_all_are_used(self) -> None:
        trace = zipf(400, 50)
        for lam in (Fraction(1, 3), Fraction(2)):
            free, charged = solve_ssp(trace, 6, lam), solve_ssp(trace, 6, lam, CHARGED)
            assert free.objective == charged.objective - 6 * lam

    @settings(max_examples=20)
    @given(seed=st.integers(0, 10**6), capacity=st.integers(1, 9), lam=st.sampled_from([3, 5, 9, 40]))
    def test_too_dear_to_refill_keep_the_best_items(self, seed: int, capacity: int, lam: int) -> None:
        trace = mixed(60, 9, seed)
        for variant in VARIANTS:
            expected = solve_networkx(trace, capacity, lam, variant).objective
            assert solve_ssp(trace, capacity, lam, variant).objective == expected


class TestStopping:
    def test_progress_is_reported_up_to_the_capacity(self) -> None:
        seen: list[tuple[int, int]] = []
        solve_ssp(zipf(2000, 200), 30, "1/2", progress=lambda done, total: seen.append((done, total)))
        assert [done for done, _ in seen] == sorted({done for done, _ in seen})
        assert seen[-1] == (30, 30)
        assert len(seen) > 1

    def test_an_interrupt_passes_through(self) -> None:
        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            solve_ssp(zipf(2000, 200), 30, "1/2", progress=interrupt)


class TestEvents:
    def test_in_classical_paging_are_at_most_one_a_step(self) -> None:
        events = build_events(zipf(500, 40))
        assert len(events) <= 500
        assert np.all(np.diff(events.boundary) > 0)

    def test_of_one_boundary_leave_before_they_enter(self) -> None:
        for seed in range(20):
            for variant in VARIANTS:
                events = build_events(mixed(50, 8, seed), variant)
                same = np.flatnonzero(np.diff(events.boundary) == 0)
                assert np.all(events.can_leave[same] & ~events.can_enter[same])
                assert np.all(events.can_enter[same + 1] & ~events.can_leave[same + 1])

    def test_link_each_item_in_time_order(self) -> None:
        events = build_events(mixed(80, 8, 3), Variant(order="update_then_serve"))
        for item in np.unique(events.item).tolist():
            mine = np.flatnonzero(events.item == item)
            assert events.next[mine].tolist() == [*mine[1:].tolist(), -1]
            assert events.prev[mine].tolist() == [-1, *mine[:-1].tolist()]
            assert events.can_enter[mine[0]]
            assert events.can_leave[mine[-1]]

    @pytest.mark.parametrize("price", [0, 1, 2, 5])
    def test_dropped_for_a_price_change_no_optimum_at_that_price(self, price: int) -> None:
        # solve_ssp drops; the network of solve_networkx keeps every event
        for seed in range(6):
            trace = mixed(50, 6, seed)
            kept = build_events(trace, CHARGED)
            assert len(kept.worth(price)) <= len(kept)
            lam = price * kept.unit
            assert (
                solve_ssp(trace, 2, lam, CHARGED).objective
                == solve_networkx(trace, 2, lam, CHARGED).objective
            )


def test_the_result_holds_what_a_certificate_needs() -> None:
    result = solve_ssp(zipf(300, 40), 5, "1/2")
    assert isinstance(result, FlowResult)
    assert result.stop == "optimal"
    assert result.schedule is not None
    assert result.prices is not None
    assert result.prices.slot.shape == (300,)
