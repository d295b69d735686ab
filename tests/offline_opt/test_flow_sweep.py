"""The sweep over events: the same optimum as successive shortest paths, and prices that prove it."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from offline_opt import instances
from offline_opt.flow import common, sweep
from offline_opt.flow.common import IN, OUT
from offline_opt.flow.network import solve_networkx, solve_ortools
from offline_opt.flow.ssp import solve_ssp
from offline_opt.flow.sweep import solve_sweep
from offline_opt.result import confirm
from offline_opt.soft.bound import lower_bound
from softhit import InvalidInput, NotCertified, Trace, Variant, from_requests

CHARGED = Variant(fill="charged")
VARIANTS = [
    Variant(order=order, availability=availability, fill=fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]
SWITCH_COSTS = [Fraction(x) for x in ("0", "1/3", "1/2", "997/1000", "1", "5/2", "20", "0.1234567890123456")]


def swept(trace: Trace, capacity: int, lam: object, variant: Variant = CHARGED):
    """Solve without the successive shortest paths to fall back on."""
    result = solve_sweep(trace, capacity, lam, variant, patience=math.inf)
    assert result.method == "sweep"
    return result


def random_trace(rng: np.random.Generator, n_steps: int, n_items: int) -> Trace:
    """Requests of several sorts, most of them full of ties; sometimes qualities, weights, junk arrivals."""
    sort = rng.integers(5)
    if sort == 0:
        requests = rng.integers(-1, n_items, n_steps)
    elif sort == 1:
        requests = np.arange(n_steps) % n_items
    elif sort == 2:
        noise = rng.random(n_steps) < 0.2
        requests = np.where(noise, rng.integers(0, n_items, n_steps), np.arange(n_steps) % n_items)
    elif sort == 3:
        requests = np.minimum(rng.geometric(1 / (1 + n_items / 2), n_steps) - 1, n_items - 1)
    else:
        requests = (np.arange(n_steps) // 7 + rng.geometric(1 / (1 + n_items / 2), n_steps)) % n_items
    parts = {}
    if rng.random() < 0.5:
        parts["quality"] = rng.choice([1, 0.75, 0.3, 0], n_steps)
        parts["weight"] = rng.integers(0, 4, n_steps)
    if rng.random() < 0.3:
        other = rng.integers(-1, n_items, n_steps)
        parts["arrivals"] = np.where(rng.random(n_steps) < 0.5, requests, other)
    return from_requests(requests, n_items=n_items, **parts)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
class TestOptimum:
    def test_is_that_of_successive_shortest_paths_on_many_small_traces(self, variant: Variant) -> None:
        rng = np.random.default_rng(1)
        contested = 0
        for _ in range(400):
            trace = random_trace(rng, int(rng.integers(0, 60)), int(rng.integers(1, 12)))
            capacity = int(rng.integers(1, trace.n_items + 2))
            lam = SWITCH_COSTS[rng.integers(len(SWITCH_COSTS))]
            result = swept(trace, capacity, lam, variant)
            assert (
                result.objective == result.lower_bound == solve_ssp(trace, capacity, lam, variant).objective
            )
            contested += len(result.events) > 0 and result.potentials.line[-1] < 0
        assert contested > 100

    def test_is_that_of_successive_shortest_paths_on_longer_traces(self, variant: Variant) -> None:
        rng = np.random.default_rng(2)
        for lam in SWITCH_COSTS:
            trace = random_trace(rng, 2500, 80)
            for capacity in (1, 7, 30):
                result = swept(trace, capacity, lam, variant)
                assert result.objective == solve_ssp(trace, capacity, lam, variant).objective

    @settings(max_examples=25)
    @given(
        seed=st.integers(0, 10**6), capacity=st.integers(1, 6), lam=st.fractions(0, 4, max_denominator=10**18)
    )
    def test_at_a_cost_of_any_length_is_that_of_another_solver(
        self, variant: Variant, seed: int, capacity: int, lam: Fraction
    ) -> None:
        trace = random_trace(np.random.default_rng(seed), 40, 8)
        result = swept(trace, capacity, lam, variant)
        expected = solve_networkx(trace, capacity, lam, variant).objective
        assert result.objective == result.lower_bound == expected

    def test_is_proved_by_prices_item_by_item(self, variant: Variant) -> None:
        rng = np.random.default_rng(3)
        for _ in range(20):
            trace, capacity, lam = instances.random_instance(rng, "hard", 9, 30)
            result = swept(trace, capacity, lam, variant)
            assert lower_bound(trace, capacity, lam, variant, result.prices) == result.objective
            assert confirm(result, trace, capacity, lam, variant).fraction == result.objective


class TestLabels:
    @pytest.fixture
    def trace(self) -> Trace:
        rng = np.random.default_rng(5)
        return from_requests(np.minimum(rng.geometric(0.02, 4000) - 1, 150), n_items=151)

    @pytest.mark.parametrize("lam", ["0", "1/2", "997/1000"])
    def test_that_outgrow_32_bits_on_the_way_change_nothing(self, trace, lam, monkeypatch) -> None:
        narrow = swept(trace, 12, lam)
        largest = 2 * int(narrow.events.gain.max()) * Fraction(lam).denominator + Fraction(lam).numerator
        widened = []
        widen = sweep._Sweep._widen
        monkeypatch.setattr(
            sweep._Sweep, "_widen", lambda self: (widened.append(int(self.total[0])), widen(self))
        )
        for limit in (0, largest + 5 * Fraction(lam).denominator):
            monkeypatch.setattr(common, "MAX_LABEL_32", limit)
            wide = swept(trace, 12, lam)
            assert wide.schedule == narrow.schedule
            assert np.array_equal(wide.potentials.line, narrow.potentials.line)
            assert np.array_equal(wide.potentials.held, narrow.potentials.held)
        assert widened[0] == 0
        assert 0 < widened[1] < len(narrow.events)

    def test_of_a_stand_in_price_are_lengths_of_paths(self, trace) -> None:
        lam = Fraction("0.31415926535897932384626")
        result = swept(trace, 12, lam)
        assert result.potentials.scale == lam.denominator
        assert result.objective == solve_ssp(trace, 12, lam, CHARGED).objective
        # the length of the whole line is what one more slot would gain
        more = solve_ssp(trace, 13, lam, CHARGED).gains[12]
        assert -int(result.potentials.line[-1]) * result.events.unit / lam.denominator == more

    def test_too_large_for_64_bits_are_refused(self) -> None:
        weight = np.random.default_rng(0).integers(2**22, 2**23, 20)
        heavy = from_requests(
            [0, 1] * 10, quality=np.linspace(0.1, 1, 20), weight=weight, quality_scale=10**9
        )
        assert swept(heavy, 1, 1).objective == solve_networkx(heavy, 1, 1, CHARGED).objective
        with pytest.raises(InvalidInput, match="too fine"):
            solve_sweep(heavy, 1, "0.1234567890123456789")

    def test_fine_qualities_and_costs_match_another_solver(self) -> None:
        rng = np.random.default_rng(4)
        requests = np.minimum(rng.geometric(0.01, 4000) - 1, 300)
        trace = from_requests(requests, quality=rng.random(4000), weight=rng.integers(1, 1000, 4000))
        for lam in ("997/1000", "30.123"):
            assert swept(trace, 25, lam).objective == solve_ortools(trace, 25, lam, CHARGED).objective


class TestWork:
    def test_stays_near_on_a_skewed_trace_however_long(self) -> None:
        rng = np.random.default_rng(0)
        odds = 1 / np.arange(1, 2001) ** 0.9
        requests = rng.choice(2000, 40_000, p=odds / odds.sum())
        per_event = []
        for n in (10_000, 40_000):
            events = swept(from_requests(requests[:n], n_items=2000), 50, "1/2").events
            state = sweep._Sweep(events, Fraction(1, 2), 50)
            assert state.run(math.inf, None)
            per_event.append(int(state.total[1]) / len(events))
        assert per_event[1] < 1.5 * per_event[0]
        assert per_event[1] < 2 * 50

    def test_beyond_patience_is_left_to_successive_shortest_paths(self, monkeypatch) -> None:
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 100)
        rng = np.random.default_rng(1)
        noise = rng.random(3000) < 0.05
        trace = from_requests(np.where(noise, rng.integers(0, 60, 3000), np.arange(3000) % 60))
        given_up = solve_sweep(trace, 30, "1/2", CHARGED, patience=0.1)
        assert given_up.method == "ssp"
        assert len(given_up.gains) > 0
        assert given_up.objective == swept(trace, 30, "1/2").objective

    def test_is_told_in_events_and_an_interrupt_passes_through(self, monkeypatch) -> None:
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 100)
        trace = from_requests(np.random.default_rng(1).integers(0, 60, 3000))
        seen: list[tuple[int, int]] = []
        result = solve_sweep(
            trace, 20, "1/2", progress=lambda *counts: seen.append(counts), patience=math.inf
        )
        assert len(seen) > 5
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert {total for _, total in seen} == {len(result.events)}

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            solve_sweep(trace, 20, "1/2", progress=interrupt)

    def test_in_many_calls_gives_what_one_call_gives(self, monkeypatch) -> None:
        trace = from_requests(np.random.default_rng(2).integers(0, 60, 3000))
        once = swept(trace, 20, "1/2")
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 1)
        again = swept(trace, 20, "1/2")
        assert again.schedule == once.schedule
        assert np.array_equal(again.potentials.line, once.potentials.line)


class TestMistakes:
    """What the check of every result is for."""

    @pytest.fixture
    def trace(self) -> Trace:
        return from_requests(np.random.default_rng(3).integers(0, 30, 600))

    def test_a_stay_too_few_is_not_certified(self, trace, monkeypatch) -> None:
        run = sweep._Sweep.run

        def forgetful(self, *arguments) -> bool:
            done = run(self, *arguments)
            start = int(np.flatnonzero(self.state & (IN | OUT) == OUT)[0])
            j = start
            while self.state[j] & OUT:
                self.state[j] ^= OUT
                j = int(self.events.next[j])
                self.state[j] ^= IN
            return done

        monkeypatch.setattr(sweep._Sweep, "run", forgetful)
        with pytest.raises(NotCertified):
            swept(trace, 8, "1/2")

    def test_a_price_off_by_one_is_not_certified(self, trace, monkeypatch) -> None:
        run = sweep._Sweep.run

        def careless(self, *arguments) -> bool:
            done = run(self, *arguments)
            self.node[len(self.node) // 2 :, 0] -= 1
            return done

        monkeypatch.setattr(sweep._Sweep, "run", careless)
        with pytest.raises(NotCertified):
            swept(trace, 8, "1/2")


@pytest.mark.slow
def test_a_hundred_thousand_steps_agree_with_successive_shortest_paths() -> None:
    rng = np.random.default_rng(0)
    odds = 1 / np.arange(1, 10_001) ** 0.9
    trace = from_requests(rng.choice(10_000, 100_000, p=odds / odds.sum()))
    for lam in ("1/2", "997/1000"):
        for capacity in (10, 100, 1000):
            assert swept(trace, capacity, lam).objective == solve_ssp(trace, capacity, lam, CHARGED).objective
