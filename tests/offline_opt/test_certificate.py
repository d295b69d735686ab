"""What a certificate claims is true: its bounds against enumeration, the solvers and the other bound code."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adversaries import strategies
from offline_opt import instances, solve
from offline_opt.certificate import (
    Certificate,
    certify,
    check_certificate,
    checker,
    make_certificate,
    read_certificate,
    write_certificate,
)
from offline_opt.certificate.checker import Instance, evaluate
from offline_opt.certificate.format import contents_of
from offline_opt.certificate.prices import class_prices
from offline_opt.classes import contract
from offline_opt.dp import best_schedule
from offline_opt.facade import METHODS, Problem
from offline_opt.flow.ssp import solve_ssp
from offline_opt.result import Prices
from offline_opt.soft.bound import lower_bound
from offline_opt.soft.milp import relax
from softhit import (
    InvalidInput,
    InvalidSchedule,
    NotCertified,
    Schedule,
    Trace,
    Variant,
    cost,
    floor_units,
    from_arrays,
    from_requests,
    make_policy,
    simulate,
)
from softhit.io.canonical import canonical_bytes
from softhit.retrieval import utility_scale

VARIANTS = [
    Variant(*choice)
    for choice in itertools.product(
        ("serve_then_update", "update_then_serve"), ("stream", "pool"), ("free", "charged")
    )
]
SERVED = [("best", 1), ("mean_topk", 2), ("coverage", 2), ("coverage", 3), ("mean_topk", 3)]


def with_served(variant: Variant, number: int) -> Variant:
    return Variant(variant.order, variant.availability, variant.fill, *SERVED[number % len(SERVED)])


def draw_prices(rng, trace, lam, variant, fine=1):
    """Prices without thought behind them; ``fine`` makes the unit finer, and the integers larger."""
    scale = utility_scale(trace.quality_scale, variant) * lam.denominator * fine
    high = max(1, int(scale * rng.choice([0.05, 0.3, 1.0])))

    def some(top):
        return [int(rng.random() * top) if rng.random() < 0.5 else 0 for _ in range(trace.n_steps)]

    credit = None
    if variant.aggregator == "coverage" and rng.random() < 0.8:
        credit = np.array([int(rng.random() * int(w) * scale) for w in trace.weight], dtype=object)
    return Prices(
        slot=np.array(some(high), dtype=object),
        serve=np.array(some(high), dtype=object),
        entry=int(rng.random() * float(lam * scale)),
        unit=Fraction(1, scale),
        credit=credit,
    )


def proved(certificate: Certificate, trace: Trace) -> tuple[Fraction, Fraction]:
    """The two numbers as computed by the checker, without rounding up to a grid."""
    contents = contents_of(replace(certificate, grid=Fraction(0)))
    return evaluate(contents, Instance.from_bytes(canonical_bytes(trace)))


def value_by_enumeration(trace, capacity, variant, prices, item):
    """V_i: the best of all 2^T ways to hold one item or not while each step is served, in whole units."""
    if trace.sizes[item] > capacity:
        return Fraction(0)
    size, full = int(trace.sizes[item]), utility_scale(trace.quality_scale, variant)
    best = Fraction(0)
    quality = [dict(zip(*(a.tolist() for a in trace.row(t)), strict=True)) for t in range(trace.n_steps)]
    for held in itertools.product((False, True), repeat=trace.n_steps):
        value, before = Fraction(0), False
        for t, now in enumerate(held):
            if now and not before:
                update = t - 1 if variant.serves_first else t
                if update < 0 or (variant.stream and trace.arrivals[update] != item):
                    break
                value -= size * prices.entry
            if now:
                credit = (
                    int(trace.weight[t]) / prices.unit if prices.credit is None else int(prices.credit[t])
                )
                earned = Fraction(credit) * quality[t].get(item, 0) / full - int(prices.serve[t])
                value += max(Fraction(0), earned) - size * int(prices.slot[t])
            before = now
        else:
            best = max(best, value)
    return best


def drop_and_reload_prices() -> tuple[Trace, int, Fraction, Variant, Prices]:
    problem = instances.get("drop_and_reload").problem
    return *problem, Prices(np.array([0, 4, 0]), np.zeros(3, np.int64), 1, Fraction(1, 4))


class TestTheLowerBound:
    @pytest.mark.parametrize("kind", ["soft", "scored", "sized", "hard"])
    def test_equals_the_sum_over_items_of_all_ways_to_hold_each(self, kind):
        rng = np.random.default_rng(len(kind))
        for number in range(24):
            variant = with_served(VARIANTS[number % 8], number)
            trace, capacity, lam = instances.random_instance(rng, kind, max_steps=7, max_items=4)
            prices = draw_prices(rng, trace, lam, variant)
            certificate = make_certificate(trace, capacity, lam, variant, None, prices)
            total = sum(
                value_by_enumeration(trace, capacity, variant, prices, i) for i in range(trace.n_items)
            )
            total += variant.top_k * sum(prices.serve.tolist()) + capacity * sum(prices.slot.tolist())
            total += capacity * prices.entry if variant.free_fill else 0
            kept = Fraction(0)
            if prices.credit is not None:
                # the most that a step can be served, by the items that can be there at all
                scale = trace.quality_scale
                for t in range(trace.n_steps):
                    items, quality = trace.row(t)
                    came = [
                        q
                        for i, q in zip(items.tolist(), quality.tolist(), strict=True)
                        if trace.sizes[i] <= capacity
                        and (not variant.serves_first or t > 0)
                        and (not variant.stream or i in trace.arrivals[: t + 1 - variant.serves_first])
                    ]
                    lost = Fraction(1)
                    for q in sorted(came, reverse=True)[: variant.top_k]:
                        lost *= 1 - Fraction(q, scale)
                    most = Fraction(int((1 - lost) * scale), scale)
                    kept += (int(trace.weight[t]) / prices.unit - int(prices.credit[t])) * most
            exact = trace.total_weight - (total + kept) * prices.unit
            found = proved(certificate, trace)[0]
            if prices.credit is None:
                assert found == exact
            else:
                # rounded up to whole units, once for each entry and each step
                assert exact - prices.unit * (len(trace.items) + trace.n_steps) <= found <= exact

    @pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
    def test_equals_that_of_the_compiled_code_and_never_exceeds_the_optimum(self, variant):
        rng = np.random.default_rng(VARIANTS.index(variant))
        positive = 0
        for number in range(48):
            v = with_served(variant, number)
            trace, capacity, lam = instances.random_instance(rng, instances.KINDS[number % 6])
            best = best_schedule(trace, capacity, lam, v)
            optimum = cost(best, trace, capacity, lam, v).fraction
            for prices in (draw_prices(rng, trace, lam, v), relax(trace, capacity, lam, v).prices):
                certificate = make_certificate(trace, capacity, lam, v, best, prices)
                low, high = proved(certificate, trace)
                assert high == optimum == certificate.upper_bound
                assert low <= certificate.lower_bound <= optimum
                compiled = lower_bound(trace, capacity, lam, v, prices)
                assert low == compiled if v.aggregator != "coverage" else low >= compiled
                verdict = check_certificate(certificate, trace)
                assert verdict.proved, verdict.reason
                assert (verdict.lower_bound, verdict.upper_bound) == (certificate.lower_bound, optimum)
                positive += low > 0
        assert positive > 40, "bounds that are all negative would test nothing"

    def test_lets_an_item_be_dropped_and_loaded_again(self):
        trace, capacity, lam, variant, prices = drop_and_reload_prices()
        certificate = make_certificate(trace, capacity, lam, variant, None, prices)
        assert certificate.lower_bound == lower_bound(trace, capacity, lam, variant, prices)
        one_stay = trace.total_weight - Fraction(4, 4) - Fraction(3, 4)
        assert proved(certificate, trace)[0] < one_stay

    def test_a_finer_unit_makes_larger_integers_and_the_same_bound(self):
        rng = np.random.default_rng(9)
        for number in range(12):
            v = with_served(VARIANTS[number % 8], 3 * number)
            trace, capacity, lam = instances.random_instance(rng, "soft")
            plain = draw_prices(rng, trace, lam, v)
            for factor in (10**9, 10**30):
                finer = Prices(
                    plain.slot * factor, plain.serve * factor, plain.entry * factor, plain.unit / factor
                )
                coarse = make_certificate(trace, capacity, lam, v, None, replace(plain, credit=None))
                fine = make_certificate(trace, capacity, lam, v, None, finer)
                # the common factor goes back into the unit, so break it
                finer.slot[0] += 1
                odd = make_certificate(trace, capacity, lam, v, None, finer)
                assert fine.lower_bound == coarse.lower_bound
                assert abs(proved(odd, trace)[0] - proved(fine, trace)[0]) < Fraction(100, 10**9)
                assert check_certificate(odd, trace).proved

    @pytest.mark.parametrize("kind", ["soft", "scored", "sized", "requests"])
    def test_is_the_same_in_64_bits_and_in_integers_of_any_size(self, kind, monkeypatch):
        rng = np.random.default_rng(len(kind))
        for number in range(20):
            v = with_served(VARIANTS[number % 8], number)
            trace, capacity, lam = instances.random_instance(rng, kind, max_steps=30)
            schedule = simulate(make_policy("lru"), trace, capacity, lam, variant=v)
            certificate = make_certificate(trace, capacity, lam, v, schedule, draw_prices(rng, trace, lam, v))
            both = []
            for number_type in (np.int64, object):
                with monkeypatch.context() as patch:
                    patch.setattr(checker, "_type_for", lambda bound, fixed=number_type: fixed)
                    both.append(proved(certificate, trace))
            assert both[0] == both[1]

    def test_is_rounded_up_only_to_what_every_cost_is_a_multiple_of(self):
        trace = from_requests([0, 1, 0, 1, 0, 1])
        prices = Prices(np.array([0, 1, 2, 1, 1, 0]), np.zeros(6, np.int64), 1, Fraction(1, 4))
        certificate = make_certificate(trace, 1, "1/2", Variant(), None, prices)
        assert proved(certificate, trace)[0] < certificate.lower_bound
        assert certificate.lower_bound % Fraction(1, 2) == 0
        optimum = cost(best_schedule(trace, 1, "1/2"), trace, 1, "1/2").fraction
        assert certificate.lower_bound <= optimum


@given(strategies.instances(max_steps=8, max_items=4, max_size=3), st.data())
def test_whatever_the_instance_and_the_prices_both_numbers_hold(instance, data):
    trace, capacity, lam, variant = instance
    unit = Fraction(1, data.draw(st.sampled_from([1, 2, 3, 7, 10**6, 10**25])))
    price = st.integers(0, int(4 / unit))

    def some(high=price):
        drawn = data.draw(st.lists(high, min_size=trace.n_steps, max_size=trace.n_steps))
        return np.array(drawn, dtype=object)

    credit = None
    if variant.aggregator == "coverage":
        most = [int(int(w) / unit) for w in trace.weight]
        credit = np.minimum(some(), np.array(most, dtype=object)) if trace.n_steps else most
        credit = np.array(credit, dtype=object)
    entry = data.draw(st.integers(0, int(lam / unit)))
    prices = Prices(some(), some(), entry, unit, credit)
    best = best_schedule(trace, capacity, lam, variant)
    certificate = make_certificate(trace, capacity, lam, variant, best, prices)
    verdict = check_certificate(certificate, trace)
    optimum = cost(best, trace, capacity, lam, variant).fraction
    assert verdict.proved, verdict.reason
    assert verdict.lower_bound <= optimum == verdict.upper_bound
    if variant.aggregator != "coverage":
        exact = Fraction(trace.total_weight) - unit * (
            sum(value_by_enumeration(trace, capacity, variant, prices, i) for i in range(trace.n_items))
            + variant.top_k * sum(prices.serve.tolist())
            + capacity * (sum(prices.slot.tolist()) + (entry if variant.free_fill else 0))
        )
        assert proved(certificate, trace)[0] == exact


class TestLargeNumbers:
    def test_weights_and_scales_that_leave_64_bits(self):
        rng = np.random.default_rng(1)
        heavy = 2**31 - 1
        for variant in VARIANTS:
            for aggregator, k in SERVED:
                v = Variant(variant.order, variant.availability, variant.fill, aggregator, k)
                quality = rng.random((8, 4)) * (rng.random((8, 4)) < 0.6)
                trace = from_arrays(
                    quality,
                    rng.integers(0, 4, 8),
                    weight=[heavy] * 8,
                    sizes=rng.integers(1, 2**40, 4),
                    quality_scale=10**9,
                )
                capacity, lam = 3 * 2**39, Fraction(10**9 + 7, 3 * 2**20)
                best = simulate(make_policy("lru"), trace, capacity, lam, variant=v)
                assert best.n_insertions
                prices = draw_prices(rng, trace, lam, v, fine=2**12)
                prices = replace(prices, slot=prices.slot >> 40)
                certificate = make_certificate(trace, capacity, lam, v, best, prices)
                assert certificate.upper_bound == cost(best, trace, capacity, lam, v).fraction
                assert certificate.lower_bound <= certificate.upper_bound
                total = sum(value_by_enumeration(trace, capacity, v, prices, i) for i in range(trace.n_items))
                total += v.top_k * sum(prices.serve.tolist()) + capacity * sum(prices.slot.tolist())
                total += capacity * prices.entry if v.free_fill else 0
                low = proved(certificate, trace)[0]
                if prices.credit is None:
                    assert low == trace.total_weight - total * prices.unit
                assert check_certificate(certificate, trace).proved

    @pytest.mark.parametrize("bits", range(57, 67))
    @pytest.mark.parametrize("eighths", [8, 9, 14, 15])
    def test_on_both_sides_of_64_bits(self, bits, eighths):
        # the slot of step 3 is so dear that sums pass 2**60, 2**61, ... and item 0 cannot come in behind it
        trace = from_requests([1, 0, 0, 0, 0, 0], n_items=2, arrivals=[0, -1, -1, -1, -1, -1])
        dear = (eighths << bits - 3) // trace.quality_scale
        slot = np.array([0, 0, 0, dear, 0, 0], dtype=object)
        prices = Prices(slot, np.zeros(6, np.int64), 1, Fraction(1))
        certificate = make_certificate(trace, 1, 1, Variant(), None, prices)
        total = sum(value_by_enumeration(trace, 1, Variant(), prices, item) for item in range(2))
        assert proved(certificate, trace)[0] == 6 - total - dear - prices.entry

    def test_a_capacity_of_any_size(self):
        trace = from_requests([0, 1, 0, 1])
        everything = Schedule.from_events(4, [], [], [0, 1], [0, 1])
        certificate = make_certificate(trace, 10**40, 3, Variant(), everything)
        assert certificate.gap == 0
        assert check_certificate(certificate, trace).proved
        assert Certificate.from_bytes(certificate.to_bytes()).capacity == 10**40

    def test_a_top_k_of_any_size(self):
        trace = from_arrays([[0, 0], [0.5, 1.0]], [0, 1])
        v = Variant(aggregator="coverage", top_k=1000)
        certificate = make_certificate(trace, 2, 1, v, Schedule.from_events(2, [], [], [0], [0]))
        assert (certificate.lower_bound, certificate.upper_bound) == (Fraction(3, 2), Fraction(3, 2))

    @pytest.mark.parametrize("lam", ["1/3", 0, Fraction(10**30 + 1, 10**29), 0.1, "123456789/987654321"])
    def test_any_fraction_as_switch_cost(self, lam):
        trace = from_requests([0, 1, 2, 0, 1, 2, 0, 0, 1])
        best = solve_ssp(trace, 2, lam, Variant(fill="charged"))
        certificate = make_certificate(trace, 2, lam, Variant(fill="charged"), best.schedule, best.prices)
        assert certificate.gap == 0
        assert check_certificate(certificate, trace).proved

    def test_a_trace_without_steps_or_items(self):
        for trace in (from_requests([]), from_requests([], n_items=0), from_arrays(np.zeros((0, 3)))):
            for variant in VARIANTS:
                certificate = make_certificate(trace, 1, 1, variant)
                verdict = check_certificate(certificate, trace)
                assert verdict.proved
                assert verdict.lower_bound == verdict.upper_bound == 0


class TestHardHits:
    @pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
    @pytest.mark.parametrize("kind", ["hard", "requests"])
    def test_the_prices_of_the_flow_prove_its_cost_without_any_gap(self, variant, kind):
        rng = np.random.default_rng([VARIANTS.index(variant), len(kind)])
        for number in range(25):
            v = with_served(variant, number)
            trace, capacity, lam = instances.random_instance(rng, kind, max_steps=40, max_items=10)
            best = solve_ssp(trace, capacity, lam, v)
            certificate = make_certificate(trace, capacity, lam, v, best.schedule, best.prices)
            assert certificate.gap == 0
            assert certificate.grid == 0
            assert certificate.upper_bound == best.objective
            assert check_certificate(certificate, trace).proved

    @pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
    def test_prices_of_a_contracted_trace_are_lifted_to_its_members_without_loss(self, variant):
        rng = np.random.default_rng(VARIANTS.index(variant))
        for number in range(40):
            trace, capacity, lam = instances.random_instance(rng, "classes", max_steps=30, max_items=9)
            hard = contract(trace)
            best = solve_ssp(hard, capacity, lam, variant)
            lifted = class_prices(best.prices, trace, variant)
            certificate = make_certificate(trace, capacity, lam, variant, None, lifted)
            assert proved(certificate, trace)[0] == best.objective, number
            # not only for optimal prices
            prices = replace(draw_prices(rng, hard, lam, variant), serve=None, credit=None)
            lifted = class_prices(prices, trace, variant)
            certificate = make_certificate(trace, capacity, lam, variant, None, lifted)
            assert proved(certificate, trace)[0] == lower_bound(hard, capacity, lam, variant, prices)

    def test_prices_are_lifted_only_where_there_are_classes(self):
        soft = from_arrays([[1, 0.5], [0.5, 1]], [0, 1])
        zero = np.zeros(2, np.int64)
        with pytest.raises(InvalidInput, match="only traces of classes"):
            class_prices(Prices(zero, None, 0, Fraction(1)), soft, Variant())
        hard = from_requests([0, 1])
        with pytest.raises(InvalidInput, match="no serve prices"):
            class_prices(Prices(zero, zero + 1, 0, Fraction(1)), hard, Variant())


class TestAnswersOfTheFacade:
    @pytest.mark.parametrize("kind", instances.KINDS)
    def test_get_a_certificate_of_their_bounds_unless_these_rest_on_a_search(self, kind):
        rng = np.random.default_rng(len(kind))
        used = set()
        for number in range(16):
            v = with_served(VARIANTS[number % 8], number)
            trace, capacity, lam = instances.random_instance(rng, kind)
            capacity += 5 * (number % 4 == 3)
            problem = Problem(trace, capacity, lam, v)
            for name in ("flow", "hold_all", "classes", "dp", "milp", "relaxation", "floor"):
                if METHODS[name].applies(problem) is not None:
                    continue
                answer = solve(trace, capacity, lam, v, method=name)
                certificate = certify(answer, trace, capacity, lam, v)
                assert certificate.upper_bound == answer.cost.fraction
                if name in ("dp", "milp"):
                    assert certificate.lower_bound <= answer.lower_bound
                else:
                    assert certificate.lower_bound >= answer.lower_bound, name
                used.add(name)
                assert check_certificate(certificate, trace).proved
        assert {"dp", "relaxation", "floor"} <= used

    def test_the_floor_has_prices_in_every_variant(self):
        rng = np.random.default_rng(3)
        for number in range(80):
            v = with_served(VARIANTS[number % 8], number)
            trace, capacity, lam = instances.random_instance(rng, instances.KINDS[number % 6])
            floor = Fraction(floor_units(trace, v), utility_scale(trace.quality_scale, v))
            certificate = make_certificate(trace, capacity, lam, v)
            low = proved(certificate, trace)[0]
            assert low == floor if trace.structure.unit_sizes else low >= floor
            assert certificate.upper_bound == trace.total_weight


class TestTheFile:
    def example(self, number=0, seed=2):
        rng = np.random.default_rng(seed)
        v = with_served(VARIANTS[number % 8], number)
        trace, capacity, lam = instances.random_instance(rng, "soft", max_steps=30)
        schedule = simulate(make_policy("lru"), trace, capacity, lam, variant=v)
        return make_certificate(trace, capacity, lam, v, schedule, draw_prices(rng, trace, lam, v)), trace

    @pytest.mark.parametrize("codec", ["deflate", "raw"])
    @pytest.mark.parametrize("number", range(8))
    def test_comes_back_as_it_was(self, number, codec, tmp_path):
        certificate, trace = self.example(number)
        path = tmp_path / "a.cert"
        write_certificate(certificate, path, codec)
        again = read_certificate(path)
        for name in ("trace", "capacity", "switch_cost", "variant", "grid", "lower_bound", "upper_bound"):
            assert getattr(again, name) == getattr(certificate, name)
        capacity, lam, v = certificate.capacity, certificate.switch_cost, certificate.variant
        assert cost(again.schedule, trace, capacity, lam, v).fraction == certificate.upper_bound
        for name in ("slot", "serve"):
            now, then = getattr(again.prices, name), getattr(certificate.prices, name)
            assert [p * again.prices.unit for p in now.tolist()] == [
                p * certificate.prices.unit for p in then.tolist()
            ]
        assert again.to_bytes(codec) == path.read_bytes()

    def test_packed_or_not_says_the_same(self):
        trace = from_requests(np.arange(3000) * 7 % 23)
        best = solve_ssp(trace, 6, 1)
        certificate = make_certificate(trace, 6, 1, None, best.schedule, best.prices)
        packed, raw = certificate.to_bytes(), certificate.to_bytes("raw")
        assert len(packed) < len(raw)
        assert Certificate.from_bytes(packed).to_bytes("raw") == raw
        assert check_certificate(packed, trace) == check_certificate(raw, trace)

    def test_is_small(self):
        rng = np.random.default_rng(0)
        trace = from_requests(rng.zipf(1.1, 20_000) % 500, n_items=500)
        best = solve_ssp(trace, 20, "1/10")
        data = make_certificate(trace, 20, "1/10", None, best.schedule, best.prices).to_bytes()
        assert best.schedule.n_insertions > 2000
        # a few bytes per insertion, and next to nothing for the prices
        assert len(data) < 6 * best.schedule.n_insertions

    def test_other_codecs_and_places_are_refused_and_nothing_half_is_left(self, tmp_path):
        certificate, _ = self.example()
        with pytest.raises(InvalidInput, match="codec must be one of deflate, raw"):
            write_certificate(certificate, tmp_path / "a.cert", "zip")
        with pytest.raises(InvalidInput, match="does not exist"):
            write_certificate(certificate, tmp_path / "nowhere" / "a.cert")
        (tmp_path / "b.cert").write_bytes(certificate.to_bytes()[:-5])
        with pytest.raises(InvalidInput, match=r"b\.cert.*damaged"):
            read_certificate(tmp_path / "b.cert")
        with pytest.raises(InvalidInput, match=r"c\.cert"):
            read_certificate(tmp_path / "c.cert")
        assert [p.name for p in tmp_path.iterdir()] == ["b.cert"]


class TestMaking:
    def test_refuses_prices_that_are_not_allowed(self):
        trace = from_requests([0, 1, 0, 1])
        zero = np.zeros(4, np.int64)
        with pytest.raises(NotCertified, match="above the switching cost"):
            make_certificate(trace, 1, "1/2", None, None, Prices(zero, None, 2, Fraction(1, 3)))
        with pytest.raises(NotCertified, match="slot prices must be >= 0"):
            make_certificate(trace, 1, "1/2", None, None, Prices(zero - 1, None, 0, Fraction(1, 3)))
        v = Variant(aggregator="coverage", top_k=1)
        with pytest.raises(NotCertified, match="credit is above the weight"):
            make_certificate(trace, 1, 1, v, None, Prices(zero, zero, 0, Fraction(1), zero + 2))

    def test_takes_a_schedule_that_drops_an_item_and_loads_it_again_in_one_step(self):
        trace = from_requests([0, 0, 0])
        again = Schedule.from_events(3, [1], [0], [0, 1], [0, 0])
        certificate = make_certificate(trace, 1, "1/2", None, again)
        assert certificate.upper_bound == 1 + Fraction(1, 2)
        assert check_certificate(certificate, trace).proved
        assert Certificate.from_bytes(certificate.to_bytes()).schedule == again

    def test_refuses_a_schedule_that_breaks_a_rule(self):
        trace = from_requests([0, 1, 0, 1])
        with pytest.raises(InvalidSchedule):
            make_certificate(trace, 1, 1, None, Schedule.from_events(4, [], [], [0], [1]))


@pytest.mark.slow
def test_a_million_hard_steps_are_proved_in_under_three_seconds():
    import time

    rng = np.random.default_rng(1)
    chances = 1 / np.arange(1, 20_001) ** 0.8
    trace = from_requests(rng.choice(20_000, 10**6, p=chances / chances.sum()), n_items=20_000)
    best = solve_ssp(trace, 10, 1)
    data = make_certificate(trace, 10, 1, None, best.schedule, best.prices).to_bytes()
    instance = canonical_bytes(trace)
    began = time.process_time()
    verdict = checker.check(data, instance)
    spent = time.process_time() - began
    assert verdict.proved
    assert verdict.lower_bound == verdict.upper_bound == best.objective
    assert spent < 3
    assert len(data) < 4_000_000
