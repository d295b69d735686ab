"""The bracket at scale: its bounds against truth, its prices against the LP, and how it stops and goes on."""

import itertools
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from offline_opt import dp, instances
from offline_opt.certificate import certify, check_certificate
from offline_opt.facade import solve
from offline_opt.soft import lagrangian
from offline_opt.soft.ascent import Ascent, schedule_of_pace
from offline_opt.soft.bound import cost_grid, lower_bound
from offline_opt.soft.lagrangian import State, bracket, default_iterations
from offline_opt.soft.milp import relax
from offline_opt.soft.occasions import find_occasions, flags_of, schedule_of
from offline_opt.soft.slots import Slots, reslot
from offline_opt.soft.windows import Windows
from softhit import InvalidInput, Schedule, Variant, cost, from_arrays, from_requests, simulate, verify

VARIANTS = [
    Variant(order, availability, fill, aggregator, k)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
    for aggregator, k in (("best", 1), ("mean_topk", 2), ("coverage", 2))
]
LINEAR = [v for v in VARIANTS if v.aggregator != "coverage"]


def random_problems(kind, seed, per_variant, variants=VARIANTS, **size):
    rng = np.random.default_rng([seed, len(kind)])
    for variant in variants:
        for _ in range(per_variant):
            yield (*instances.random_instance(rng, kind, **size), variant)


def topics(seed, steps=300, items=60, per_row=8, sizes=False, weights=False):
    """Queries about drifting topics: a smaller sibling of the benchmark's trace."""
    rng = np.random.default_rng(seed)
    topic = np.arange(items) % (items // per_row)
    level = rng.random(items)
    popular = 1 / np.arange(1, items // per_row + 1)
    quality = np.zeros((steps, items))
    arrivals = np.zeros(steps, int)
    for half in np.array_split(np.arange(steps), 3):
        order = rng.permutation(items // per_row)
        asked = order[rng.choice(len(order), len(half), p=popular / popular.sum())]
        for t, c in zip(half.tolist(), asked.tolist(), strict=True):
            mine = np.flatnonzero(topic == c)
            quality[t, mine] = np.clip(level[mine] + 0.3 * rng.normal(size=len(mine)), 0, 1).round(3)
            arrivals[t] = rng.choice(mine)
    return from_arrays(
        quality,
        arrivals,
        weight=rng.integers(0, 4, steps) if weights else None,
        sizes=rng.integers(1, 6, items) if sizes else None,
    )


class Dual:
    """The Lagrangian by a programme over all steps, in floats, with nothing compressed."""

    def __init__(self, trace, capacity, lam, variant, ascent):
        self.trace, self.capacity, self.variant = trace, capacity, variant
        self.serve, self.slot = ascent.serve.copy(), ascent.slot.copy()
        self.credit, self.entry = ascent.credit.copy(), float(ascent.entry[0])
        self.scale = trace.quality_scale * (variant.top_k if variant.aggregator == "mean_topk" else 1)

    def value(self):
        v = self.variant
        total = self.credit.sum() - v.top_k * self.serve.sum() - self.capacity * self.slot.sum()
        total -= self.capacity * self.entry * v.free_fill
        return total - sum(self.earned(item) for item in range(self.trace.n_items))

    def earned(self, item, begin=0, inside=-np.inf):
        trace, size = self.trace, int(self.trace.sizes[item])
        out = 0.0
        for t in range(begin, trace.n_steps if size <= self.capacity else 0):
            source = t - 1 if self.variant.serves_first else t
            may = source >= 0 and (not self.variant.stream or trace.arrivals[source] == item)
            fresh = out - size * self.entry if may else -np.inf
            out, inside = max(out, inside), max(inside, fresh)
            items, units = trace.row(t)
            quality = units[items == item].sum() / self.scale
            inside += max(0.0, self.credit[t] * quality - self.serve[t]) - size * self.slot[t]
        return max(out, inside)


def some_prices(ascent, lam, trace, rng):
    """Put the ascent at prices without a thought behind them."""
    n = trace.n_steps
    ascent.serve[:] = rng.random(n) * trace.weight * (rng.random(n) < 0.5)
    ascent.slot[:] = rng.random(n) * rng.choice([0.02, 0.1, 0.5]) * (rng.random(n) < 0.7)
    ascent.entry[:] = float(lam) * (rng.random() if ascent._free else 1.0)
    if ascent._covered:
        ascent.credit[:] = rng.random(n) * trace.weight


def slope_of(ascent, capacity, variant):
    """The supergradient that one evaluation leaves behind."""
    load = np.cumsum(ascent._load)[:-1]
    return ascent._served - variant.top_k, load - capacity, 1.0 - ascent._offered


@pytest.mark.parametrize("kind", ["soft", "scored", "sized", "hard"])
def test_the_value_is_that_of_a_programme_over_all_steps_and_the_slope_a_supergradient(kind):
    rng = np.random.default_rng(1)
    shifted = 0
    for problem in random_problems(kind, 1, 4):
        trace, capacity, lam, variant = problem
        occasions = find_occasions(trace, capacity, variant)
        here = Ascent(*problem, occasions)
        some_prices(here, lam, trace, rng)
        plain = Dual(*problem, here)
        here.step(0.0)
        assert here.value == pytest.approx(plain.value(), abs=1e-5)
        serve, slot, credit = slope_of(here, capacity, variant)
        for _ in range(3):
            there = Ascent(*problem, occasions)
            some_prices(there, lam, trace, rng)
            there.entry[:] = here.entry
            moved = np.dot(serve, there.serve - plain.serve) + np.dot(credit, there.credit - plain.credit)
            gains = [moved + np.dot(s, there.slot - plain.slot) for s in (slot, np.roll(slot, 1))]
            value = Dual(*problem, there).value()
            assert value <= here.value + gains[0] + 1e-5
            # a load that is one step late would be noticed
            shifted += value > here.value + gains[1] + 1e-5
    assert shifted > 5


def test_what_is_passed_over_as_it_pays_nothing_changes_no_value():
    rng = np.random.default_rng(2)
    passed = 0
    for kind in ("soft", "sized"):
        for problem in random_problems(kind, 11, 4):
            trace, capacity, lam, variant = problem
            occasions = find_occasions(trace, capacity, variant)
            ascent = Ascent(*problem, occasions)
            for _ in range(4):
                # other prices at every turn: what did not pay before may pay now
                some_prices(ascent, lam, trace, rng)
                plain = Dual(*problem, ascent)
                ascent.step(0.0)
                passed += not ascent._listed.all()
                assert ascent.value == pytest.approx(plain.value(), abs=1e-5)
    assert passed > 200


def test_the_share_of_what_is_passed_over_falls():
    trace = topics(0)
    occasions = find_occasions(trace, 6)
    ascent = Ascent(trace, 6, Fraction(1, 2), Variant(), occasions)
    ascent.share[:] = 0.8
    ascent.serve[:] = trace.weight
    ascent.step(0.0, 0.5)
    assert not ascent._listed.any()
    assert np.allclose(ascent.share, 0.4)
    ascent.step(0.0, 0.5)
    ascent.serve[:] = 0.0
    ascent.step(0.0)
    assert np.allclose(ascent.share, 0.2)


def test_settling_never_lowers_the_bound_and_mostly_raises_it():
    raised = 0
    for seed in range(6):
        trace = topics(seed)
        ascent = Ascent(trace, 6, Fraction(1, 2), Variant(), find_occasions(trace, 6))
        for j in range(1000):
            ascent.step(*schedule_of_pace(j / 1000))
        before = ascent.best
        ascent.settle()
        assert ascent.best >= before
        raised += ascent.best > before
    assert raised >= 3


@pytest.mark.parametrize("kind", ["soft", "scored", "sized", "hard"])
def test_the_bracket_holds_the_optimum_in_every_variant(kind):
    exact = total = 0
    for problem in random_problems(kind, 2, 3):
        optimum = cost(dp.best_schedule(*problem), *problem).fraction
        found = bracket(*problem, iterations=300, rounds=1)
        assert found.lower_bound <= optimum <= found.cost.fraction
        assert cost(found.schedule, *problem) == found.cost
        if found.prices is not None:
            assert lower_bound(*problem, found.prices) <= found.lower_bound
        assert (found.stop == "optimal") == (found.lower_bound == found.cost.fraction)
        exact += found.cost.fraction == optimum
        total += 1
    assert exact > 0.9 * total


@pytest.mark.parametrize(
    ("seed", "variant", "facts"),
    [
        (0, Variant(), {}),
        (1, Variant(availability="pool", fill="charged"), {}),
        (2, Variant(order="update_then_serve", aggregator="mean_topk", top_k=3), {}),
        (3, Variant(fill="charged"), {"sizes": True}),
        (4, Variant("update_then_serve", "pool"), {"weights": True}),
        (5, Variant(aggregator="coverage", top_k=2), {"weights": True}),
    ],
)
def test_the_bound_comes_within_a_twentieth_of_a_percent_of_the_lp(seed, variant, facts):
    trace = topics(seed, **facts)
    capacity = 20 if facts.get("sizes") else 6
    problem = (trace, capacity, Fraction(1, 2), variant)
    ascent = Ascent(*problem, find_occasions(trace, capacity, variant))
    # credits, a fourth price, take longer
    ascent.climb(6000 if variant.aggregator == "coverage" else 1500)
    proved = lower_bound(*problem, ascent.prices())
    relaxed = relax(*problem)
    assert relaxed.stop == "optimal"
    assert relaxed.value * 0.9995 <= float(proved) <= relaxed.value + 1e-6
    assert float(proved) == pytest.approx(ascent.best, abs=1e-3)


def test_prices_that_stand_still_do_not_reach_the_lp():
    # the comparison above would notice an ascent that does nothing
    trace = topics(0)
    ascent = Ascent(trace, 6, Fraction(1, 2), Variant(), find_occasions(trace, 6))
    ascent.step(0.0)
    assert ascent.value < 0.5 * relax(trace, 6, "1/2").value


@pytest.mark.parametrize("variant", [Variant(), Variant(availability="pool", fill="charged")])
def test_the_bracket_is_narrow_on_topics(variant):
    found = bracket(topics(7, 600, 120), 8, "1/2", variant)
    assert found.gap < 0.005
    policy = cost(
        simulate("lru", topics(7, 600, 120), 8, "1/2", variant=variant),
        topics(7, 600, 120),
        8,
        "1/2",
        variant,
    )
    assert found.cost.fraction < policy.fraction


def test_sizes_have_a_bracket_for_hard_and_soft_hits():
    rng = np.random.default_rng(0)
    hard = from_requests(rng.zipf(1.3, 600) % 80, 80)
    hard = replace(hard, sizes=rng.integers(50, 2000, 80))
    soft = replace(topics(8), sizes=rng.integers(50, 300, 60))
    for trace, capacity in ((hard, 12_000), (soft, 2_500)):
        found = bracket(trace, capacity, "1/10000", iterations=1000)
        assert 0 < found.lower_bound <= found.cost.fraction
        assert found.gap < 0.04
        verify(found.schedule, trace, capacity)


class TestSlots:
    @pytest.mark.parametrize("kind", ["soft", "scored"])
    def test_one_slot_alone_gets_the_optimum(self, kind):
        # with free fill the best number of insertions is one more choice, which it leaves to chance
        charged = [v for v in VARIANTS if not v.free_fill]
        for trace, _, lam, variant in random_problems(kind, 3, 10, charged):
            empty = Schedule.from_events(trace.n_steps, [], [], [], [])
            best = reslot(empty, trace, 1, lam, variant, max_sweeps=1)
            optimum = cost(dp.best_schedule(trace, 1, lam, variant), trace, 1, lam, variant)
            assert cost(best, trace, 1, lam, variant) == optimum

    @pytest.mark.parametrize("kind", ["soft", "scored"])
    def test_a_sweep_gains_what_it_says_or_more(self, kind):
        gained = 0
        for problem in random_problems(kind, 4, 6, max_steps=25, max_items=10):
            variant = problem[3]
            slots = Slots(simulate("lru", *problem[:3], variant=variant), *problem)
            now = cost(slots.schedule(), *problem).fraction
            rng = np.random.default_rng(0)
            for _ in range(4):
                gain = slots.sweep(rng)
                after = cost(slots.schedule(), *problem).fraction
                # two slots that hold the same item are one stay afterwards
                assert after <= now - Fraction(gain, slots.scale)
                gained += gain > 0
                now = after
        assert gained > 30

    def test_sizes_are_refused(self):
        trace = replace(from_requests([0, 1]), sizes=np.array([1, 2]))
        with pytest.raises(InvalidInput, match="unit sizes"):
            reslot(Schedule.from_events(2, [], [], [], []), trace, 2, 1)


class TestWindows:
    @pytest.mark.parametrize("kind", ["soft", "sized"])
    def test_a_window_never_makes_it_worse_and_the_whole_is_the_optimum(self, kind):
        rng = np.random.default_rng(5)
        better = 0
        for problem in random_problems(kind, 5, 2, LINEAR):
            trace, capacity, lam, variant = problem
            occasions = find_occasions(trace, capacity, variant)
            flags = flags_of(occasions, simulate("lru", trace, capacity, lam, variant=variant))
            now = cost(schedule_of(occasions, trace.n_steps, *flags), *problem).fraction
            for share in (0.5, 1.0):
                windows = Windows(*problem, occasions, rng.random(len(occasions)) < share)
                spans = [sorted(rng.choice(trace.n_steps + 1, 2, replace=False).tolist()) for _ in range(2)]
                for begin, end in [*spans, (0, trace.n_steps)]:
                    found = windows.solve(*flags, begin, end, 1000, 0.0)
                    if found is None:
                        continue
                    after = cost(schedule_of(occasions, trace.n_steps, *found), *problem).fraction
                    assert after < now
                    inside = (occasions.step >= begin) & (occasions.step < end)
                    for old, new in zip(flags, found, strict=True):
                        assert np.array_equal(old[~inside], new[~inside])
                    flags, now = found, after
                    better += 1
            assert now == cost(dp.best_schedule(*problem), *problem).fraction
        assert better > 15

    def test_what_is_held_throughout_leaves_no_room_in_a_window(self):
        # item 0 is held from step 1 to step 5 and serves nothing in between, where item 1 would serve step 3
        quality = np.zeros((6, 2))
        quality[[1, 5], 0], quality[3, 1] = 1.0, 0.5
        trace, variant = from_arrays(quality), Variant(availability="pool", fill="charged")
        occasions = find_occasions(trace, 1, variant)
        held = occasions.item == 0
        windows = Windows(trace, 1, Fraction(0), variant, occasions, np.ones(len(occasions), np.bool_))
        assert windows.solve(held, held & occasions.first, 2, 5, 100, 0.0) is None
        # nobody is there: item 1 is let in
        nobody = np.zeros_like(held)
        found = windows.solve(nobody, nobody, 2, 5, 100, 0.0)
        assert found is not None
        assert found[0].tolist() == (occasions.item == 1).tolist()

    @pytest.mark.parametrize("kind", ["soft", "sized"])
    def test_an_answer_that_breaks_the_rules_is_not_taken(self, kind, monkeypatch):
        # points at random, most of which follow no rule
        rng = np.random.default_rng(6)
        refused = taken = 0
        for problem in random_problems(kind, 6, 3, LINEAR):
            trace, capacity, _, variant = problem
            occasions = find_occasions(trace, capacity, variant)
            nobody = np.zeros(len(occasions), np.bool_)
            windows = Windows(*problem, occasions, ~nobody)
            for chance in (0.2, 0.5, 1.0):

                def invent(programme, chance=chance, **_):
                    point = (rng.random(len(programme.objective)) < chance).astype(float)
                    return SimpleNamespace(point=point)

                monkeypatch.setattr("offline_opt.soft.windows.run_highs", invent)
                found = windows.solve(nobody, nobody, 0, trace.n_steps, 1, 0.0)
                if found is None:
                    refused += 1
                    continue
                cost(schedule_of(occasions, trace.n_steps, *found), *problem)
                taken += 1
        assert refused > 10
        assert taken > 0

    @pytest.mark.parametrize(("size", "capacity"), [(1, 1), (2, 3)])
    def test_an_answer_that_holds_too_much_is_not_taken(self, size, capacity, monkeypatch):
        # the solver says that both items are held throughout
        quality = np.tile([0.5, 1.0], (6, 1))
        trace = from_arrays(quality, sizes=[size, size])
        variant = Variant(availability="pool", fill="charged")
        occasions = find_occasions(trace, capacity, variant)
        nobody = np.zeros(len(occasions), np.bool_)

        def invent(programme, **_):
            point = np.zeros(len(programme.objective))
            point[: 2 * len(nobody)] = np.concatenate([~occasions.first, occasions.first])
            return SimpleNamespace(point=point)

        monkeypatch.setattr("offline_opt.soft.windows.run_highs", invent)
        for room in (capacity, 2 * size):
            windows = Windows(trace, room, Fraction(0), variant, occasions, ~nobody)
            found = windows.solve(nobody, nobody, 0, 6, 1, 0.0)
            if found is not None:
                paid = cost(schedule_of(occasions, 6, *found), trace, room, 0, variant)
                assert paid.fraction == 1
            assert (found is None) == (room == capacity)

    def test_what_is_sure_stays(self):
        # item 0 is held from step 1 to step 5; item 1 would be worth more, but nobody may take its place
        quality = np.zeros((6, 2))
        quality[[1, 5], 0], quality[2:5, 1] = 0.5, 1.0
        trace, variant = from_arrays(quality), Variant(availability="pool", fill="charged")
        occasions = find_occasions(trace, 1, variant)
        held = occasions.item == 0
        entered = held & occasions.first
        everything = np.ones(len(occasions), np.bool_)
        free = Windows(trace, 1, Fraction(0), variant, occasions, everything)
        assert free.solve(held, entered, 0, 6, 100, 0.0) is not None
        sure = Windows(trace, 1, Fraction(0), variant, occasions, everything, held)
        assert sure.solve(held, entered, 0, 6, 100, 0.0) is None

    def test_cuts_cover_all_steps_and_move(self):
        trace = topics(0)
        occasions = find_occasions(trace, 6)
        windows = Windows(trace, 6, Fraction(1), Variant(), occasions, np.ones(len(occasions), np.bool_))
        held = np.zeros(len(occasions), np.bool_)
        first, second = windows.cuts(held, 200), windows.cuts(held, 200, 0.5)
        for cuts in (first, second):
            assert (cuts[0], cuts[-1]) == (0, 300)
            assert cuts == sorted(set(cuts))
        assert first != second
        assert 5 < len(first) < 20


class TestPlans:
    @staticmethod
    def plan(problem, prices, cuts):
        """The schedule that windows decide between these cuts, each looking ahead to the next but one."""
        trace, capacity, _, variant = problem
        occasions = find_occasions(trace, capacity, variant)
        everything = np.ones(len(occasions), np.bool_)
        tool = Windows(*problem, occasions, everything)
        tool.outlook(*prices)
        held, entered = ~everything, ~everything
        for number, (begin, middle) in enumerate(itertools.pairwise(cuts)):
            end = cuts[min(number + 2, len(cuts) - 1)]
            assert tool.plan(held, entered, begin, middle, end, 1000, 0.0)
            assert tool.valid(held, entered)
        schedule = schedule_of(occasions, trace.n_steps, held, entered)
        verify(schedule, trace, capacity, variant)
        return cost(schedule, *problem).fraction

    @pytest.mark.parametrize("kind", ["soft", "sized"])
    def test_any_cuts_and_prices_give_a_schedule_and_a_single_window_the_optimum(self, kind):
        rng = np.random.default_rng(6)
        worse = 0
        for problem in random_problems(kind, 12, 3, LINEAR):
            trace, _, lam, variant = problem
            optimum = cost(dp.best_schedule(*problem), *problem).fraction
            ascent = Ascent(*problem, find_occasions(*problem[:2], variant))
            some_prices(ascent, lam, trace, rng)
            prices = (ascent.serve, ascent.slot, float(ascent.entry[0]))
            assert self.plan(problem, prices, [0, trace.n_steps]) == optimum
            inner = rng.choice(np.arange(1, trace.n_steps), min(3, trace.n_steps - 1), replace=False)
            found = self.plan(problem, prices, [0, *sorted(inner.tolist()), trace.n_steps])
            assert found >= optimum
            worse += found > optimum
        assert worse > 5

    def test_good_prices_make_good_plans(self):
        variant = Variant(availability="pool", fill="charged")
        for seed in range(3):
            trace = topics(seed)
            problem = (trace, 6, Fraction(1, 2), variant)
            ascent = Ascent(*problem, find_occasions(trace, 6, variant))
            ascent.climb(1000)
            good = tuple(ascent.state()[name] for name in ("serve", "slot", "entry"))
            blind = (trace.weight.astype(float), good[1], good[2])
            cuts = list(range(0, 301, 15))
            told, untold = (
                self.plan(problem, (serve, slot, float(entry[0])), cuts)
                for serve, slot, entry in (good, blind)
            )
            assert told <= 1.03 * ascent.best
            assert told < untold

    def test_a_bracket_does_without_a_plan_if_none_is_found(self, monkeypatch):
        # a small cache, which leaves a gap
        problem = (topics(7, 600, 120), 3, Fraction(1, 2), Variant(availability="pool", fill="charged"))
        asked = []

        def refuse(*facts, **more):
            asked.append(facts)
            return False

        planned = bracket(*problem, iterations=200, rounds=0)
        assert planned.notes == ()
        monkeypatch.setattr(Windows, "plan", refuse)
        found = bracket(*problem, iterations=200, rounds=0)
        assert len(asked) == len(lagrangian.PLANS)
        assert any("no plan" in note for note in found.notes)
        assert found.lower_bound == planned.lower_bound < found.cost.fraction
        assert cost(found.schedule, *problem) == found.cost

    def test_staying_is_worth_what_a_programme_over_all_steps_says(self):
        rng = np.random.default_rng(7)
        seen = 0
        for kind in ("soft", "sized"):
            for problem in random_problems(kind, 13, 3, LINEAR, max_steps=25, max_items=6):
                trace, capacity, lam, variant = problem
                occasions = find_occasions(trace, capacity, variant)
                ascent = Ascent(*problem, occasions)
                some_prices(ascent, lam, trace, rng)
                # low, so that items come and go
                for price in (ascent.serve, ascent.slot, ascent.entry):
                    price *= 0.2
                plain = Dual(*problem, ascent)
                tool = Windows(*problem, occasions, np.ones(len(occasions), np.bool_))
                tool.outlook(ascent.serve, ascent.slot, plain.entry)
                end = int(rng.integers(1, trace.n_steps + 1))
                nobody = np.zeros(len(occasions), np.bool_)
                window = tool._window(nobody, nobody, 0, end, end)
                if window is None:
                    continue
                worth = -window.programme.objective[window.go]
                for item, value in zip(occasions.item[window.chosen[window.last]], worth, strict=True):
                    expected = plain.earned(int(item), end, 0.0) - plain.earned(int(item), end)
                    assert max(0.0, value) == pytest.approx(expected, abs=1e-6)
                    seen += expected != 0
        assert seen > 30


class TestStopping:
    problem = (topics(9, 200, 40), 4, Fraction(1, 2), Variant())

    def test_iterations_give_the_same_answer_every_time(self):
        one, two = (bracket(*self.problem, iterations=200, rounds=1) for _ in range(2))
        assert (one.lower_bound, one.cost, one.stop) == (two.lower_bound, two.cost, two.stop)
        assert one.schedule == two.schedule
        assert np.array_equal(one.prices.slot, two.prices.slot)
        assert one.iterations == 200

    def test_progress_narrows(self):
        told = []
        found = bracket(*self.problem, iterations=200, progress=lambda *facts: told.append(facts))
        assert len(told) > 10
        for before, after in itertools.pairwise(told):
            assert after[0] >= before[0]
            assert after[1] <= before[1]
            assert after[2] <= before[2] + 1e-12
            assert after[3] >= before[3]
        assert told[-1][0] == float(found.lower_bound)
        assert told[-1][1] == float(found.cost)
        assert told[-1][2] == pytest.approx(1 - told[-1][0] / told[-1][1])

    @pytest.mark.parametrize("calls", [1, 2, 9, 14, 18, 21])
    def test_an_interruption_returns_the_bracket_so_far(self, calls):
        told = []

        def interrupt(*facts):
            told.append(facts)
            if len(told) == calls:
                raise KeyboardInterrupt

        found = bracket(*self.problem, iterations=200, progress=interrupt)
        assert found.stop == "interrupted"
        assert float(found.lower_bound) == told[-1][0]
        assert float(found.cost) <= told[-1][1]
        assert cost(found.schedule, *self.problem) == found.cost

    @pytest.mark.parametrize("where", ["find_occasions", "simulate", "lower_bound", "improve"])
    def test_an_interruption_in_the_middle_of_a_stage_does_too(self, monkeypatch, where):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(lagrangian, where, interrupt)
        if where == "find_occasions":
            with pytest.raises(KeyboardInterrupt):
                bracket(*self.problem)
            return
        found = bracket(*self.problem, iterations=100)
        assert found.stop == "interrupted"
        assert found.lower_bound <= found.cost.fraction <= self.problem[0].total_weight

    def test_no_time_is_enough_for_a_bracket(self):
        found = bracket(*self.problem, time_limit=0)
        assert found.stop == "time"
        assert 0 < found.lower_bound < found.cost.fraction

    def test_a_time_limit_ends_the_run(self):
        found = bracket(topics(0, 1000, 200), 8, 1, time_limit=0.5)
        assert found.stop in ("time", "iterations", "optimal")
        assert found.seconds < 30

    def test_a_wanted_gap_ends_the_run(self):
        trace = topics(7, 400, 120)
        found = bracket(trace, 8, "1/2", gap=0.1)
        assert found.stop == "gap"
        assert 0 < found.gap <= 0.1
        assert found.iterations <= default_iterations(trace)
        assert bracket(trace, 8, "1/2", rounds=1).gap < found.gap

    def test_nothing_to_do(self):
        found = bracket(from_requests([]), 3, 1)
        assert (found.cost.fraction, found.lower_bound, found.stop) == (0, 0, "optimal")
        nobody = from_arrays([[0.5]] * 3, arrivals=[-1] * 3)
        assert bracket(nobody, 1, 1).cost.fraction == 3

    @pytest.mark.parametrize(
        "wrong", [{"iterations": -1}, {"rounds": -1}, {"gap": -0.1}, {"time_limit": -1}, {"seed": -1}]
    )
    def test_what_is_out_of_range_is_refused(self, wrong):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            bracket(*self.problem, **wrong)


class TestResuming:
    problem = (topics(10, 200, 40), 4, Fraction(1, 2), Variant())

    def test_a_resumed_run_is_at_least_as_good(self, tmp_path):
        short = bracket(*self.problem, iterations=40, rounds=0)
        short.state.save(tmp_path / "run.npz")
        state = State.load(tmp_path / "run.npz")
        assert state.schedule == short.schedule
        same = bracket(*self.problem, iterations=0, rounds=0, state=state)
        assert same.lower_bound >= short.lower_bound
        assert same.cost.fraction <= short.cost.fraction
        longer = bracket(*self.problem, iterations=300, rounds=1, state=state)
        assert longer.lower_bound > short.lower_bound
        assert longer.cost.fraction < short.cost.fraction
        assert longer.iterations == 340

    def test_a_state_is_worth_its_schedule_and_its_prices(self):
        short = bracket(*self.problem, iterations=100, rounds=0)
        fresh = bracket(*self.problem, time_limit=0)
        again = bracket(*self.problem, time_limit=0, state=short.state)
        assert again.stop == "time"
        assert again.iterations == 100
        assert fresh.lower_bound < short.lower_bound <= again.lower_bound
        assert again.cost.fraction <= short.cost.fraction < fresh.cost.fraction

    def test_an_interrupted_run_goes_on(self, tmp_path):
        def interrupt(low, high, gap, iteration, seconds):
            if iteration >= 100:
                raise KeyboardInterrupt

        cut = bracket(*self.problem, iterations=200, progress=interrupt)
        assert cut.stop == "interrupted"
        assert 100 <= cut.iterations < 200
        again = bracket(*self.problem, iterations=200, state=cut.state)
        assert again.lower_bound >= cut.lower_bound
        assert again.cost.fraction <= cut.cost.fraction
        assert again.gap < cut.gap

    def test_the_state_of_another_instance_is_refused(self):
        state = bracket(*self.problem, iterations=10, rounds=0).state
        trace, capacity, lam, variant = self.problem
        for other in (
            (topics(11, 200, 40), capacity, lam, variant),
            (trace, capacity + 1, lam, variant),
            (trace, capacity, lam / 2, variant),
            (trace, capacity, lam, Variant(fill="charged")),
        ):
            with pytest.raises(InvalidInput, match="another instance"):
                bracket(*other, state=state)

    def test_a_file_that_is_no_state_is_refused_by_name(self, tmp_path):
        (tmp_path / "junk.npz").write_bytes(b"junk")
        np.savez(tmp_path / "other.npz", a=np.zeros(3))
        for name in ("junk.npz", "other.npz", "absent.npz"):
            with pytest.raises(InvalidInput, match=name):
                State.load(tmp_path / name)

    def test_a_damaged_file_is_read_as_it_was_or_refused(self, tmp_path):
        # zip, zlib and numpy each complain in their own way, now and then in one that has no name
        state = bracket(*self.problem, iterations=10, rounds=0).state
        state.save(tmp_path / "run.npz")
        whole = (tmp_path / "run.npz").read_bytes()
        rng = np.random.default_rng(0)
        refused = 0
        for number in range(400):
            damaged = bytearray(whole)
            if number % 4:
                damaged[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
            else:
                del damaged[int(rng.integers(len(whole))) :]
            (tmp_path / "run.npz").write_bytes(damaged)
            try:
                read = State.load(tmp_path / "run.npz")
            except InvalidInput:
                refused += 1
            else:
                assert (read.instance, read.iterations) == (state.instance, state.iterations)
                for name, values in state.arrays.items():
                    np.testing.assert_array_equal(read.arrays[name], values)
        assert refused > 300

    @pytest.mark.parametrize("name", ["serve", "slot", "credit", "entry", "share"])
    def test_prices_that_are_none_are_refused_by_name(self, name, tmp_path):
        state = bracket(*self.problem, iterations=10, rounds=0).state
        for value in (np.nan, np.inf, -1.0):
            wrong = {**state.arrays, name: np.full_like(state.arrays[name], value)}
            replace(state, arrays=wrong).save(tmp_path / "run.npz")
            with pytest.raises(InvalidInput, match=name):
                State.load(tmp_path / "run.npz")
        short = replace(state, arrays={**state.arrays, name: np.zeros(3)})
        with pytest.raises(InvalidInput, match=f"damaged: {name} has shape"):
            bracket(*self.problem, state=short)


class TestTheFacade:
    def test_its_answer_has_prices_and_becomes_a_certificate(self):
        trace = topics(12, 200, 40)
        for variant in (Variant(), Variant(aggregator="mean_topk", top_k=2)):
            answer = solve(trace, 4, "1/2", variant, method="lagrangian")
            assert answer.method == "lagrangian"
            assert answer.kind in ("band", "exact")
            certificate = certify(answer, trace, 4, "1/2", variant)
            assert certificate.lower_bound == answer.lower_bound
            assert certificate.upper_bound == answer.cost.fraction
            assert check_certificate(certificate, trace).proved

    def test_it_says_how_far_it_is_and_stops_in_time(self):
        lines = []
        answer = solve(topics(12, 200, 40), 4, 1, method="lagrangian", progress=lines.append, time_limit=0)
        assert answer.status.stop == "time"
        assert any("gap" in line for line in lines)

    def test_the_bound_is_a_cost_that_a_schedule_may_have(self):
        # the LP relaxation lies between two costs
        trace, capacity, lam, variant = instances.get("lp_gap").problem
        found = bracket(trace, capacity, lam, variant)
        grid = cost_grid(trace, capacity, lam, variant)
        assert found.prices is not None
        assert lower_bound(trace, capacity, lam, variant, found.prices) % grid != 0
        assert found.lower_bound % grid == 0

    def test_a_gap_below_the_grid_of_costs_is_no_gap(self):
        instance = instances.get("cycle_at_a_price")
        answer = solve(*instance.problem, method="lagrangian")
        assert (answer.kind, answer.gap) == ("exact", 0)
        assert answer.cost.fraction == instance.optimum
