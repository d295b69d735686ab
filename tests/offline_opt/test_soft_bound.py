"""The bound from prices is a bound: whatever the prices are, and against a programme written another way."""

from fractions import Fraction

import numpy as np
import pytest

from offline_opt import instances
from offline_opt.dp import best_schedule
from offline_opt.result import Prices
from offline_opt.soft.bound import cost_grid, lower_bound, round_up, rounded_prices
from offline_opt.soft.lp_cvxpy import lp_value
from offline_opt.soft.milp import relax
from softhit import InvalidInput, Schedule, Variant, cost, floor_units, from_arrays, from_requests
from softhit.retrieval import utility_scale

VARIANTS = [
    Variant(order, availability, fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]
SERVED = [("best", 1), ("mean_topk", 2), ("coverage", 2)]


def random_prices(rng, trace, lam, variant):
    """Prices of all sizes, most of them small, some zero; no thought behind them."""
    scale = utility_scale(trace.quality_scale, variant) * lam.denominator
    n = trace.n_steps
    high = max(1, int(scale * rng.choice([0.05, 0.3, 1.0])))
    credit = None
    if variant.aggregator == "coverage":
        credit = (rng.random(n) * trace.weight * scale).astype(np.int64)
    return Prices(
        slot=rng.integers(0, high, n) * (rng.random(n) < 0.5),
        serve=rng.integers(0, high, n) * (rng.random(n) < 0.5),
        entry=int(rng.integers(0, int(lam * scale) + 1)),
        unit=Fraction(1, scale),
        credit=credit,
    )


def bound_step_by_step(trace, capacity, variant, prices):
    """The same bound from a programme over all steps: in or out at each of them, any time, no compression."""
    unit = Fraction(prices.unit)
    full = utility_scale(trace.quality_scale, variant)
    slot = [unit * int(p) for p in prices.slot]
    serve = [unit * int(p) for p in (np.zeros(trace.n_steps) if prices.serve is None else prices.serve)]
    entry = unit * prices.entry
    weight = [int(w) for w in trace.weight]
    credit = (
        [Fraction(w) for w in weight] if prices.credit is None else [unit * int(c) for c in prices.credit]
    )
    total = sum(credit) - variant.top_k * sum(serve) - capacity * sum(slot)
    if variant.free_fill:
        total -= capacity * entry
    for item in range(trace.n_items):
        size = int(trace.sizes[item])
        if size > capacity:
            continue
        out, inside = Fraction(0), None
        for t in range(trace.n_steps):
            # the update just before step t is served, if there is one
            source = t - 1 if variant.serves_first else t
            may = source >= 0 and (not variant.stream or trace.arrivals[source] == item)
            enter = out - size * entry if may else None
            out = out if inside is None else max(out, inside)
            inside = max((v for v in (inside, enter) if v is not None), default=None)
            if inside is not None:
                items, units = trace.row(t)
                quality = dict(zip(items.tolist(), units.tolist(), strict=True)).get(item, 0)
                inside += max(Fraction(0), credit[t] * quality / full - serve[t]) - size * slot[t]
        total -= out if inside is None else max(out, inside)
    return total


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
@pytest.mark.parametrize("kind", ["soft", "scored", "sized", "hard"])
def test_any_prices_give_the_bound_of_a_plain_programme_and_it_holds(kind, variant):
    rng = np.random.default_rng([len(kind), VARIANTS.index(variant)])
    positive = 0
    for number in range(30):
        aggregator, k = SERVED[number % 3]
        v = Variant(variant.order, variant.availability, variant.fill, aggregator, k)
        trace, capacity, lam = instances.random_instance(rng, kind)
        optimum = cost(best_schedule(trace, capacity, lam, v), trace, capacity, lam, v).fraction
        for _ in range(3):
            prices = random_prices(rng, trace, lam, v)
            bound = lower_bound(trace, capacity, lam, v, prices)
            plain = bound_step_by_step(trace, capacity, v, prices)
            if prices.credit is None:
                assert bound == plain
            else:
                # rewards are rounded up to a unit
                assert plain - prices.unit * len(trace.items) <= bound <= plain
            assert bound <= optimum
            positive += bound > 0
    assert positive > 20, "bounds that are all negative would test nothing"


def test_forgetting_that_an_item_may_be_dropped_and_reloaded_would_break_the_bound():
    problem = instances.get("drop_and_reload").problem
    # the slot is dear at step 1, where item 1 wants it
    prices = Prices(slot=np.array([0, 4, 0]), serve=None, entry=1, unit=Fraction(1, 4))
    assert lower_bound(*problem, prices) == 3 - 1 - Fraction(6, 4)
    # with item 0 in one stay only: max(0, 1 + 1 - 1/4 - 1, 1 - 1/4) = 3/4 instead of 3/2
    prices = Prices(slot=np.array([0, 3, 0]), serve=None, entry=1, unit=Fraction(1, 4))
    assert lower_bound(*problem, prices) == Fraction(3, 4) == instances.get("drop_and_reload").optimum
    one_stay = 3 - Fraction(3, 4) - max(2 - Fraction(1, 4) - Fraction(3, 4), 1 - Fraction(1, 4)) - 0
    assert one_stay > instances.get("drop_and_reload").optimum


@pytest.mark.parametrize("aggregator", SERVED)
@pytest.mark.parametrize("kind", ["soft", "scored", "sized"])
def test_prices_of_the_lp_reach_the_value_that_cvxpy_finds(kind, aggregator):
    rng = np.random.default_rng([len(kind), aggregator[1]])
    for number in range(8):
        v = VARIANTS[number]
        v = Variant(v.order, v.availability, v.fill, *aggregator)
        trace, capacity, lam = instances.random_instance(rng, kind)
        value = lp_value(trace, capacity, lam, v)
        found = relax(trace, capacity, lam, v)
        raw = lower_bound(trace, capacity, lam, v, found.prices)
        assert found.value == pytest.approx(value, abs=1e-6)
        assert value - 1e-6 <= raw <= value + 1e-6
        assert (
            raw <= found.lower_bound <= round_up(Fraction(value + 1e-6), cost_grid(trace, capacity, lam, v))
        )


def test_the_lp_gap_instance_has_the_gap():
    instance = instances.get("lp_gap")
    assert lp_value(*instance.problem) == pytest.approx(0, abs=1e-9)
    assert relax(*instance.problem).lower_bound == 0 == instance.relaxed
    assert instance.optimum == 2


@pytest.mark.parametrize("kind", instances.KINDS)
def test_every_cost_is_a_multiple_of_the_cost_grid(kind):
    rng = np.random.default_rng(len(kind))
    finer = 0
    for number in range(40):
        trace, capacity, lam = instances.random_instance(rng, kind)
        v = VARIANTS[number % 8]
        v = Variant(v.order, v.availability, v.fill, *SERVED[number % 3])
        grid = cost_grid(trace, capacity, lam, v)
        optimum = cost(best_schedule(trace, capacity, lam, v), trace, capacity, lam, v).fraction
        everything = Fraction(trace.total_weight)
        for price in (optimum, everything):
            assert price == 0 if grid == 0 else (price / grid).denominator == 1
        finer += grid > Fraction(1, 10_000 * lam.denominator)
    assert finer > 5


def test_what_a_free_fill_leaves_to_pay_is_a_multiple_of_the_cost_grid_too():
    # both items have size 2; of the 4 units that enter 3 are free, so a swap costs 1/2 and not 0 or 1
    trace = from_arrays([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], arrivals=[0, 1, -1], sizes=[2, 2])
    swap = Schedule.from_events(3, [1], [0], [0, 1], [0, 1])
    price = cost(swap, trace, 3, "1/2").fraction
    assert price == Fraction(3, 2)
    assert price % cost_grid(trace, 3, Fraction(1, 2), Variant()) == 0


@pytest.mark.parametrize("grid", [Fraction(1, 3), Fraction(7, 30_000), Fraction(10**20, 3), Fraction(5)])
def test_a_bound_is_rounded_up_exactly(grid):
    sliver = Fraction(1, 10**40)
    for n in (0, 1, 3, 49, 10**17 + 1):
        assert round_up(n * grid, grid) == n * grid
        assert round_up(n * grid - sliver, grid) == n * grid
        assert round_up(n * grid + sliver, grid) == (n + 1) * grid
    assert round_up(sliver, Fraction(0)) == sliver


class TestPricesThatMustBeRefused:
    trace = from_requests([0, 1, 0, 1])

    def bound(self, **changes):
        fields = {"slot": np.zeros(4, np.int64), "serve": None, "entry": 0, "unit": Fraction(1, 10_000)}
        return lower_bound(self.trace, 1, 1, Variant(), Prices(**{**fields, **changes}))

    def test_zero_prices_are_fine_and_prove_what_unlimited_slots_would_cost(self):
        assert self.bound() == 2

    def test_a_negative_slot_price(self):
        with pytest.raises(InvalidInput, match=r"slot\[2\] must be an integer >= 0, got -1"):
            self.bound(slot=np.array([0, 0, -1, 0]))

    def test_a_negative_serve_price(self):
        with pytest.raises(InvalidInput, match=r"serve\[0\]"):
            self.bound(serve=np.array([-5, 0, 0, 0]))

    @pytest.mark.parametrize("entry", [-1, 10_001])
    def test_an_entry_price_outside_zero_to_lambda(self, entry):
        with pytest.raises(InvalidInput, match="entry"):
            self.bound(entry=entry)

    def test_floats(self):
        with pytest.raises(InvalidInput, match="slot must be integers"):
            self.bound(slot=np.zeros(4))

    def test_the_wrong_number_of_steps(self):
        with pytest.raises(InvalidInput, match="4 steps"):
            self.bound(slot=np.zeros(3, np.int64))

    def test_numbers_that_could_overflow(self):
        with pytest.raises(InvalidInput, match="64 bits"):
            self.bound(slot=np.full(4, 2**61))

    def test_credit_without_coverage(self):
        with pytest.raises(InvalidInput, match="coverage"):
            self.bound(credit=np.zeros(4, np.int64))

    def test_credit_above_the_weight(self):
        prices = Prices(np.zeros(4, np.int64), None, 0, Fraction(1, 10_000), np.full(4, 10_001))
        with pytest.raises(InvalidInput, match=r"credit\[0\] must be at most"):
            lower_bound(self.trace, 1, 1, Variant(aggregator="coverage", top_k=2), prices)


def test_prices_in_python_integers_and_odd_units_are_understood():
    trace = from_requests([0, 1, 0, 1])
    plain = Prices(np.array([0, 3, 3, 0]), None, 3, Fraction(1, 3))
    objects = Prices(np.array([0, 3, 3, 0], dtype=object), None, 3, Fraction(1, 3))
    v = Variant()
    assert lower_bound(trace, 1, 1, v, plain) == lower_bound(trace, 1, 1, v, objects)
    assert lower_bound(trace, 1, 1, v, plain) == bound_step_by_step(trace, 1, v, plain)


@pytest.mark.parametrize("nonsense", [np.nan, np.inf, -np.inf, -1.0, 1e300])
def test_nonsense_from_a_solver_becomes_valid_prices(nonsense):
    instance = instances.get("ties")
    trace, capacity, lam, v = instance.problem
    junk = np.full(trace.n_steps, nonsense)
    prices = rounded_prices(trace, capacity, lam, v, junk, junk, nonsense)
    assert lower_bound(*instance.problem, prices) <= instance.optimum


def test_a_switch_cost_with_a_huge_denominator_still_gets_valid_prices():
    trace, capacity, _, v = instances.get("cycle_at_a_price").problem
    lam = Fraction(2 * 10**40 + 1, 10**40)
    prices = rounded_prices(trace, capacity, lam, v, np.zeros(9), np.full(9, 0.2))
    assert 0 < lower_bound(trace, capacity, lam, v, prices) <= 5


def test_the_floor_can_beat_the_lp_and_never_the_optimum():
    rng = np.random.default_rng(5)
    beaten = 0
    for _ in range(60):
        trace, capacity, lam = instances.random_instance(rng, "soft")
        v = Variant(aggregator="coverage", top_k=2)
        floor = Fraction(floor_units(trace, v), utility_scale(trace.quality_scale, v))
        optimum = cost(best_schedule(trace, capacity, lam, v), trace, capacity, lam, v).fraction
        beaten += floor > relax(trace, capacity, lam, v).lower_bound
        assert floor <= optimum
    assert beaten > 0
