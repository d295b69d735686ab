"""The sweep over events: the same optimum as successive shortest paths, and prices that prove it."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from offline_opt import instances
from offline_opt.dp import best_schedule
from offline_opt.flow import common, sweep
from offline_opt.flow.common import IN, OUT
from offline_opt.flow.network import solve_networkx, solve_ortools
from offline_opt.flow.search import DRIFT, WORK
from offline_opt.flow.ssp import solve_ssp
from offline_opt.flow.sweep import solve_sweep
from offline_opt.result import confirm
from offline_opt.soft.bound import lower_bound
from softhit import InvalidInput, NotCertified, Trace, Variant, cost, from_requests

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
        # 997/1000 is met by way of 0 and 1
        price = Fraction(1) if lam == "997/1000" else Fraction(lam)
        largest = 2 * int(narrow.events.gain.max()) * price.denominator + price.numerator
        widened = []
        widen = sweep._Sweep._widen
        monkeypatch.setattr(
            sweep._Sweep, "_widen", lambda self: (widened.append(int(self.total[0])), widen(self))
        )
        for limit in (0, largest + 5 * price.denominator):
            monkeypatch.setattr(common, "MAX_LABEL_32", limit)
            wide = swept(trace, 12, lam)
            assert wide.schedule == narrow.schedule
            assert np.array_equal(wide.potentials.line, narrow.potentials.line)
            assert np.array_equal(wide.potentials.held, narrow.potentials.held)
        assert widened[0] == 0
        assert any(0 < done < len(narrow.events) for done in widened)

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


FINE = [
    Fraction(x)
    for x in (
        "997/1000",
        "1/997",
        "333/1000",
        "1234567/1000003",
        "5/7",
        "0.6180339887498949",
        "31/10",
        "1999/999",
    )
]


@pytest.fixture
def repairs(monkeypatch) -> list[int]:
    """How many nodes each repair settled."""
    work: list[int] = []
    repair = sweep._Sweep.repair

    def counted(self, *arguments) -> bool:
        done = repair(self, *arguments)
        work.append(int(self.total[WORK]))
        return done

    monkeypatch.setattr(sweep._Sweep, "repair", counted)
    return work


def coarse_trace(rng: np.random.Generator, n_steps: int, n_items: int) -> Trace:
    """Hits of worth 0 to 3, most of them 1, so that a fine price is met by way of coarse ones."""
    requests = np.minimum(rng.geometric(1 / (1 + n_items / 2), n_steps) - 1, n_items - 1)
    if rng.random() < 0.5:
        requests = rng.integers(-1, n_items, n_steps)
    parts = {}
    if rng.random() < 0.3:
        parts["weight"] = rng.choice([0, 1, 1, 1, 2, 3], n_steps)
    if rng.random() < 0.3:
        other = rng.integers(-1, n_items, n_steps)
        parts["arrivals"] = np.where(rng.random(n_steps) < 0.6, requests, other)
    return from_requests(requests, n_items=n_items, **parts)


class TestFinePrice:
    @pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
    def test_gives_the_optimum_of_other_solvers_on_many_small_traces(self, variant: Variant, repairs) -> None:
        rng = np.random.default_rng(11)
        for turn in range(200):
            trace = coarse_trace(rng, int(rng.integers(20, 90)), int(rng.integers(3, 14)))
            capacity = int(rng.integers(1, 5))
            lam = FINE[turn % len(FINE)]
            result = swept(trace, capacity, lam, variant)
            expected = solve_ssp(trace, capacity, lam, variant).objective
            assert result.objective == result.lower_bound == expected
            if turn % 8 == 0:
                assert expected == solve_ortools(trace, capacity, lam, variant).objective
        assert len(repairs) > 100
        assert sum(work > 0 for work in repairs) > 20

    @pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
    def test_gives_the_optimum_over_all_sets_of_items(self, variant: Variant, repairs) -> None:
        rng = np.random.default_rng(12)
        for lam in FINE:
            trace = coarse_trace(rng, 40, 6)
            expected = cost(best_schedule(trace, 2, lam, variant), trace, 2, lam, variant).fraction
            assert swept(trace, 2, lam, variant).objective == expected
        assert len(repairs) > 4

    def test_gives_the_same_from_either_flow_and_from_prices_far_apart(self, monkeypatch, repairs) -> None:
        rng = np.random.default_rng(13)
        pairs = [(Fraction(0), Fraction(1)), (Fraction(1, 2), Fraction(1)), (Fraction(2, 3), Fraction(1))]
        for turn in range(30):
            trace = coarse_trace(rng, 400, 40)
            capacity = int(rng.integers(1, 12))
            lam = Fraction(int(rng.integers(668, 1000)), 1000)
            expected = solve_ssp(trace, capacity, lam, CHARGED).objective
            for pair in pairs:
                monkeypatch.setattr(sweep, "_coarse_prices", lambda events, price, pair=pair: pair)
                for sign in (1, -1):
                    gain = sweep._Solved.gain
                    with monkeypatch.context() as patch:
                        patch.setattr(sweep._Solved, "gain", lambda s, e, p, g=gain, f=sign: f * g(s, e, p))
                        assert swept(trace, capacity, lam).objective == expected, (turn, pair, sign)
        assert sum(work > 0 for work in repairs) > 100

    @given(price=st.fractions(0, 9, max_denominator=10**12), below=st.integers(0, 8))
    def test_is_a_whole_mixture_of_its_neighbours(self, price: Fraction, below: int) -> None:
        pairs = [(Fraction(below), Fraction(below + 1)), (Fraction(0), Fraction(1, 2))]
        for low, high in pairs:
            if not low <= price <= high:
                continue
            i, k = sweep._weights(low, high, price)
            assert min(i, k) >= 0
            assert i * low.numerator + k * high.numerator == price.numerator
            assert i * low.denominator + k * high.denominator == price.denominator

    def test_costs_less_than_the_sweep_at_that_price(self) -> None:
        rng = np.random.default_rng(0)
        odds = 1 / np.arange(1, 5001) ** 0.9
        trace = from_requests(rng.choice(5000, 40_000, p=odds / odds.sum()), n_items=5000)
        events, lam = swept(trace, 300, "997/1000").events, Fraction(997, 1000)
        mixed = sweep._sweep_all(events, lam, 300, math.inf, None)
        plain = sweep._Sweep(events, lam, 300)
        assert plain.run(math.inf, None)
        assert mixed is not None
        assert 3 * (mixed.spent + mixed.total[WORK]) < 2 * plain.total[WORK]
        # it begins with the flow of the nearer price
        assert 6 * mixed.total[WORK] < plain.total[WORK]

    def test_begins_with_the_flow_of_the_nearer_price(self) -> None:
        rng = np.random.default_rng(0)
        odds = 1 / np.arange(1, 301) ** 0.9
        events = swept(from_requests(rng.choice(300, 1000, p=odds / odds.sum())), 30, "997/1000").events
        mixed = sweep._sweep_all(events, Fraction(997, 1000), 30, math.inf, None)
        plain = sweep._Sweep(events, Fraction(997, 1000), 30)
        assert plain.run(math.inf, None)
        assert mixed is not None
        assert 2 * mixed.total[WORK] < plain.total[WORK]

    def test_is_not_met_by_way_of_coarse_ones_where_hits_are_of_many_worths(self, repairs) -> None:
        rng = np.random.default_rng(1)
        trace = from_requests(rng.integers(0, 60, 2000), quality=rng.random(2000))
        lam = Fraction(1, 7)
        assert swept(trace, 20, lam).objective == solve_ssp(trace, 20, lam, CHARGED).objective
        assert repairs == []
        assert swept(from_requests(trace.requests), 20, lam).method == "sweep"
        assert len(repairs) == 1

    def test_that_outgrows_32_bits_in_the_repair_changes_nothing(self, monkeypatch, repairs) -> None:
        trace = from_requests(np.random.default_rng(2).integers(0, 60, 3000))
        seen = []
        repair = sweep._Sweep.repair

        def watched(self, *arguments) -> bool:
            before, room = self.node.dtype, self.limit
            done = repair(self, *arguments)
            assert np.abs(self.node[:, 0].astype(np.int64)).max() <= common.MAX_LABEL_32 or before != np.int32
            seen.append((before, self.node.dtype, room, int(self.total[DRIFT])))
            return done

        monkeypatch.setattr(sweep._Sweep, "repair", watched)
        narrow = swept(trace, 20, "997/1000")
        _, _, room, drift = seen.pop()
        assert drift > 2
        needed = common.MAX_LABEL_32 - room
        # called after each step
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 1)
        for limit in (needed - 1, needed, needed + drift // 2, needed + drift):
            monkeypatch.setattr(common, "MAX_LABEL_32", limit)
            wide = swept(trace, 20, "997/1000")
            assert wide.schedule == narrow.schedule
            assert np.array_equal(wide.potentials.line, narrow.potentials.line)
        narrow_type, wide_type = np.int32, np.int64
        kinds = [(before, after) for before, after, _, _ in seen]
        assert kinds == [
            (wide_type, wide_type),
            (narrow_type, wide_type),
            (narrow_type, wide_type),
            (narrow_type, narrow_type),
        ]

    def test_without_room_in_64_bits_is_left_to_the_sweep_itself_or_to_paths(
        self, monkeypatch, repairs
    ) -> None:
        trace = from_requests(np.random.default_rng(2).integers(0, 60, 3000))
        expected = swept(trace, 20, "997/1000")
        assert len(repairs) == 1
        with monkeypatch.context() as patch:
            patch.setattr(sweep._Sweep, "start_between", lambda self, low, high: False)
            plain = swept(trace, 20, "997/1000")
        assert plain.method == "sweep"
        assert plain.objective == expected.objective
        assert len(repairs) == 1
        start = sweep._Sweep.start_between

        def cramped(self, low, high) -> bool:
            started = start(self, low, high)
            self._widen()
            self.limit = 0
            return started

        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 100)
        monkeypatch.setattr(sweep._Sweep, "start_between", cramped)
        given_up = solve_sweep(trace, 20, "997/1000", CHARGED, patience=math.inf)
        assert given_up.method == "ssp"
        assert given_up.objective == expected.objective

    def test_does_not_begin_where_labels_might_leave_64_bits(self) -> None:
        trace = from_requests(np.random.default_rng(2).integers(0, 60, 3000))
        events = swept(trace, 20, "997/1000").events
        low, high = sweep._Sweep(events, Fraction(0), 20), sweep._Sweep(events, Fraction(1), 20)
        assert low.run(math.inf, None)
        assert high.run(math.inf, None)
        fits = sweep._Sweep(events, Fraction(997, 1000), 20)
        assert fits.start_between(low.solved(), high.solved())
        labels = high.solved().labels.astype(np.int64)
        far = high.solved()._replace(labels=labels - (labels == labels.min()) * (1 << 50))
        assert not sweep._Sweep(events, Fraction(10**15 - 1, 10**15), 20).start_between(low.solved(), far)

    def test_beyond_patience_in_the_repair_is_left_to_successive_shortest_paths(self, monkeypatch) -> None:
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 100)
        trace = from_requests(np.random.default_rng(2).integers(0, 60, 3000))
        expected = swept(trace, 20, "997/1000").objective
        beyond = sweep._Sweep._beyond

        def impatient(self, patience, done) -> bool:
            return (self.spent > 0 and self.short.denominator == 1000) or beyond(self, patience, done)

        monkeypatch.setattr(sweep._Sweep, "_beyond", impatient)
        given_up = solve_sweep(trace, 20, "997/1000", CHARGED, patience=math.inf)
        assert given_up.method == "ssp"
        assert given_up.objective == expected

    def test_is_charged_for_all_passes_together(self, monkeypatch) -> None:
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 100)
        events = swept(from_requests(np.random.default_rng(2).integers(0, 60, 3000)), 20, 1).events
        first = sweep._Sweep(events, Fraction(1), 20)
        assert first.run(math.inf, None)
        work = int(first.total[WORK])
        patience = 2 * work / (20 * len(events))
        assert sweep._Sweep(events, Fraction(1), 20, spent=work // 2).run(patience, None)
        assert not sweep._Sweep(events, Fraction(1), 20, spent=2 * work).run(patience, None)

    def test_is_told_in_events_of_three_passes(self, monkeypatch) -> None:
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 100)
        trace = from_requests(np.random.default_rng(1).integers(0, 60, 3000))
        seen: list[tuple[int, int]] = []
        result = solve_sweep(
            trace, 20, "997/1000", progress=lambda *counts: seen.append(counts), patience=math.inf
        )
        m = len(result.events)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert {total for _, total in seen} == {3 * m}
        assert {done // m for done, _ in seen} == {0, 1, 2, 3}

    def test_in_many_calls_gives_what_one_call_gives(self, monkeypatch) -> None:
        trace = from_requests(np.random.default_rng(2).integers(0, 60, 3000))
        once = swept(trace, 20, "333/1000")
        monkeypatch.setattr(sweep, "_WORK_PER_CALL", 1)
        again = swept(trace, 20, "333/1000")
        assert again.schedule == once.schedule
        assert np.array_equal(again.potentials.line, once.potentials.line)


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

    def test_a_repair_left_undone_is_not_certified(self, trace, monkeypatch) -> None:
        monkeypatch.setattr(sweep._Sweep, "repair", lambda self, *arguments: True)
        with pytest.raises(NotCertified):
            swept(trace, 8, "997/1000")

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
    for lam in ("1/2", "997/1000", "1234567/1000003"):
        for capacity in (10, 100, 1000):
            assert swept(trace, capacity, lam).objective == solve_ssp(trace, capacity, lam, CHARGED).objective
