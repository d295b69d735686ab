"""SOLAR: the gate never lends, ghosts are bounded, the draw has the right law, both paths are one rule."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from adversaries.families import make_trace
from softhit import (
    InvalidInput,
    Schedule,
    Trace,
    Variant,
    cost,
    from_arrays,
    from_requests,
    simulate,
    verify,
)
from softhit.cost import miss_units_by_step
from softhit.policies import make_policy
from softhit.policies.protocol import Context
from softhit.policies.solar.admission import (
    EARNED,
    FACTOR,
    FACTOR_ONE,
    FUND,
    LARGEST,
    MEAN,
    MEAN_BITS,
    MOST_AMOUNT,
    PAID_BY,
    POT,
    REGRET,
    learn,
    new_purse,
    threshold,
)
from softhit.policies.solar.draw import lowest_draw, lowest_plain_draw
from softhit.policies.solar.memory import GHOSTS, HELD, ITEM, NEWER, NEWEST, OLDER, OLDEST, SLOTS
from softhit.policies.solar.posterior import advance, clear, credit, new_clock, shapes
from softhit.policies.solar.rule import init
from softhit.retrieval import utility_scale
from softhit.simulate import POLICY_ROLE, Session, child_rng

FAMILY = ("solar", "solar_paper", "solar_admission", "solar_eviction", "solar_mean")
GATED = ("solar", "solar_paper", "solar_admission", "solar_mean")
TINY = Fraction(1, 10**9)
NEAR_JUMPS = [Fraction(n, 2) + d for n in range(5) for d in (-TINY, Fraction(0), TINY)]
LAMBDAS = st.one_of(
    st.just(Fraction(0)),
    st.sampled_from([x for x in NEAR_JUMPS if x >= 0]),
    st.floats(0, 10, allow_subnormal=False).map(lambda x: Fraction(repr(x))),
)


def sparse_trace(
    n_items: int, n_steps: int, step: Any, item: Any, quality: Any, arrivals: Any, weight: Any = None
) -> Trace:
    """A trace from (step, item, quality) triples."""
    rows = sp.coo_array((np.asarray(quality, float), (step, item)), shape=(n_steps, n_items))
    return from_arrays(rows, arrivals=arrivals, weight=weight)


@st.composite
def soft_traces(draw: Any) -> Trace:
    """Traces with soft rows, weights including 0, steps without an arrival, and rows an arrival is not in."""
    seed = draw(st.integers(0, 2**32))
    n, steps, entries = draw(st.integers(2, 30)), draw(st.integers(1, 300)), draw(st.integers(0, 4))
    rng = np.random.default_rng(seed)
    step = np.repeat(np.arange(steps), entries)
    item = rng.integers(0, n, steps * entries)
    keep = np.unique(step * n + item, return_index=True)[1]
    grain = draw(st.sampled_from([1, 3, 10_000]))
    return sparse_trace(
        n_items=n,
        n_steps=steps,
        step=step[keep],
        item=item[keep],
        quality=rng.integers(0, grain + 1, len(keep)) / grain,
        arrivals=rng.integers(-1, n, steps),
        weight=rng.choice([0, 1, 1, 1, draw(st.integers(1, 1000))], steps),
    )


def paid_by_step(schedule: Schedule, capacity: int) -> np.ndarray:
    """Replacements up to and including each step: insertions beyond the first K."""
    return np.maximum(schedule.enter_ptr[1:] - capacity, 0)


@given(soft_traces(), LAMBDAS, st.integers(1, 12), st.sampled_from(GATED), st.integers(0, 99))
@settings(max_examples=150)
def test_replacements_are_paid_for_by_earlier_misses(
    trace: Trace, switch_cost: Fraction, capacity: int, policy: str, seed: int
) -> None:
    schedule = simulate(policy, trace, capacity, switch_cost, seed=seed)
    missed = np.cumsum(miss_units_by_step(schedule, trace))
    for m, s in zip(missed.tolist(), paid_by_step(schedule, capacity).tolist(), strict=True):
        assert switch_cost * s <= Fraction(m, trace.quality_scale)


@given(
    soft_traces(), LAMBDAS, st.sampled_from(["mean_topk", "coverage"]), st.integers(1, 4), st.integers(0, 9)
)
def test_replacements_are_paid_for_with_every_aggregator(
    trace: Trace, switch_cost: Fraction, aggregator: str, top_k: int, seed: int
) -> None:
    variant = Variant(aggregator=aggregator, top_k=top_k)
    for policy in ("solar", "solar(memory=1)", "solar_paper"):
        schedule = simulate(policy, trace, 5, switch_cost, seed=seed, variant=variant)
        missed = np.cumsum(miss_units_by_step(schedule, trace, variant))
        full = utility_scale(trace.quality_scale, variant)
        paid = paid_by_step(schedule, 5)
        assert all(switch_cost * int(s) <= Fraction(int(m), full) for m, s in zip(missed, paid, strict=True))


def with_sizes(trace: Trace, seed: int, most: int = 6) -> Trace:
    sizes = np.random.default_rng(seed).integers(1, most + 1, trace.n_items)
    return replace(trace, sizes=sizes)


def paid_size_by_step(schedule: Schedule, trace: Trace, capacity: int) -> list[int]:
    """Inserted size beyond the capacity, up to and including each step."""
    entered = np.concatenate([[0], np.cumsum(trace.sizes[schedule.enter_items])])
    return np.maximum(entered[schedule.enter_ptr[1:]] - capacity, 0).tolist()


@given(soft_traces(), LAMBDAS, st.integers(1, 40), st.sampled_from(GATED), st.integers(0, 99))
@settings(max_examples=200)
def test_with_sizes_too_what_is_inserted_is_paid_for_by_earlier_misses(
    trace: Trace, switch_cost: Fraction, capacity: int, policy: str, seed: int
) -> None:
    trace = with_sizes(trace, seed)
    schedule = simulate(policy, trace, capacity, switch_cost, seed=seed)
    verify(schedule, trace, capacity)
    missed = np.cumsum(miss_units_by_step(schedule, trace)).tolist()
    for m, s in zip(missed, paid_size_by_step(schedule, trace, capacity), strict=True):
        assert switch_cost * s <= Fraction(m, trace.quality_scale)


def test_a_gate_of_lambda_an_item_would_not_pay_for_sizes() -> None:
    # the check above can fail: gated LRU asks for theta = lambda whatever the size
    trace = from_requests(np.arange(6000) % 5)
    trace = replace(trace, sizes=np.full(5, 6))
    for policy, pays in (("gated_lru(theta=2)", False), ("solar", True)):
        schedule = simulate(policy, trace, 24, 2, seed=0)
        assert len(schedule.leave_items) > 10
        spent = paid_size_by_step(schedule, trace, 24)[-1]
        assert (2 * spent <= miss_units_by_step(schedule, trace).sum() / trace.quality_scale) == pays


@pytest.mark.parametrize("lam", ["0", "1/2", "3"])
@pytest.mark.parametrize("scale", [2, 7, 400])
def test_one_size_for_all_is_unit_sizes_in_another_unit(scale: int, lam: str) -> None:
    # FIFO draws nothing that depends on the order of the slots; a fixed xi leaves no threshold to be rounded
    policy = "solar_admission(xi_low=0.5, xi_high=0.5)"
    for seed in range(4):
        unit = make_trace("piecewise", 8, 4000, seed=seed, w=12)
        sized = replace(unit, sizes=np.full(unit.n_items, scale), weight=np.full(4000, scale))
        one = simulate(policy, unit, 8, lam, seed=seed)
        assert len(one.leave_items) > 50
        for spare in (0, scale - 1):
            assert one == simulate(policy, sized, 8 * scale + spare, lam, seed=seed)


def test_one_size_for_all_costs_what_unit_sizes_cost_in_the_mean() -> None:
    means = []
    for scale in (1, 5):
        costs = []
        for seed in range(40):
            plain = make_trace("piecewise", 8, 4000, seed=seed, w=12)
            trace = replace(plain, sizes=np.full(plain.n_items, scale), weight=np.full(4000, scale))
            run = simulate("solar", trace, 8 * scale, 1, seed=seed)
            costs.append(float(cost(run, trace, 8 * scale, 1)) / scale)
        means.append(np.mean(costs))
    assert abs(means[0] - means[1]) < 0.01 * means[0]


def test_with_sizes_what_is_seldom_asked_for_per_unit_of_size_leaves() -> None:
    # ten small items that each serve as often as the large one, which is as large as eight of them
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 11, 20_000)
    sizes = np.array([8] + [1] * 10)
    trace = replace(from_requests(ids), sizes=sizes)
    held = np.zeros(11)
    schedule = simulate("solar", trace, 10, 1, seed=0)
    inside: set[int] = set()
    for t in range(trace.n_steps):
        inside -= set(schedule.leave_items[slice(*schedule.leave_ptr[t : t + 2])].tolist())
        inside |= set(schedule.enter_items[slice(*schedule.enter_ptr[t : t + 2])].tolist())
        held[list(inside)] += 1
    assert held[0] < 0.2 * trace.n_steps
    assert held[1:].min() > 0.6 * trace.n_steps


def test_replacements_are_paid_for_when_only_some_retrieved_items_count_as_touched() -> None:
    trace = make_trace("piecewise", 6, 2000, seed=3, w=12, form="soft")
    variant = Variant(aggregator="mean_topk", top_k=3)
    policy = make_policy("solar(touch=threshold(0.9))")
    schedule = simulate(policy, trace, 6, "1/3", seed=0, variant=variant)
    missed = np.cumsum(miss_units_by_step(schedule, trace, variant))
    assert np.all(paid_by_step(schedule, 6) * 30_000 <= 3 * missed)
    assert paid_by_step(schedule, 6)[-1] > 0


def test_a_policy_without_a_gate_is_not_self_financing() -> None:
    # the check above can fail
    trace = sparse_trace(
        n_items=300, n_steps=300, step=np.arange(300), item=np.zeros(300, int), quality=np.ones(300),
        arrivals=np.arange(300),
    )  # fmt: skip
    schedule = simulate("solar_eviction", trace, 3, 1, seed=0)
    spent = int(paid_by_step(schedule, 3)[-1])
    assert spent > miss_units_by_step(schedule, trace).sum() / trace.quality_scale
    assert float(cost(simulate("solar", trace, 3, 1), trace, 3, 1)) == 1


@given(
    LAMBDAS | st.fractions(0, 10**12),
    st.integers(1, 10**9),
    st.integers(0, 16 * FACTOR_ONE),
    st.lists(st.integers(1, 10**9), max_size=50),
)
@example(Fraction("0.1") + Fraction("0.2"), 1, 0, [])
def test_the_threshold_is_lambda_plus_xi_m_rounded_up_exactly(
    switch_cost: Fraction, full: int, factor: int, amounts: list[int]
) -> None:
    if switch_cost > Fraction(1 << 59, full):
        with pytest.raises(InvalidInput, match="switch_cost must be at most"):
            new_purse(switch_cost, full, 1, 0, full, 0.25, 1.25)
        return
    purse = new_purse(switch_cost, full, 1, 0, full, 0.25, 1.25)
    for amount in amounts:
        learn(purse, amount, 1)
    theta = switch_cost * full + Fraction(factor * int(purse[MEAN]), FACTOR_ONE << MEAN_BITS)
    assert threshold(purse, factor, 1) == math.ceil(theta)
    assert threshold(purse, factor, 1) >= switch_cost * full


@given(
    LAMBDAS,
    st.sampled_from([1, 10_000, 10**9]),
    st.sampled_from([1, 2, 1000, 2**32]),
    st.integers(0, 16 * FACTOR_ONE),
    st.lists(st.tuples(st.integers(0, LARGEST), st.integers(1, 2**32)), max_size=20),
    st.data(),
)
def test_with_sizes_the_threshold_is_that_times_the_size_and_stays_within_64_bits(
    switch_cost: Fraction, full: int, most: int, factor: int, amounts: list[tuple[int, int]], data: Any
) -> None:
    if switch_cost * most > Fraction(1 << 59, full):
        with pytest.raises(InvalidInput, match="switch_cost must be at most"):
            new_purse(switch_cost, full, 1, 0, full, 0.25, 1.25, most)
        return
    purse = new_purse(switch_cost, full, 1, 0, full, 0.25, 16, most)
    mean = Fraction(int(purse[MEAN]))
    for amount, size in amounts:
        size = min(size, most)
        learn(purse, amount, size)
        part = min(Fraction(amount, size), int(purse[MOST_AMOUNT])) * (1 << MEAN_BITS)
        mean += (math.floor(part) - mean) / 32
        mean = Fraction(math.floor(mean))
        assert int(purse[MEAN]) == mean
    size = data.draw(st.integers(1, most) | st.just(most))
    m = Fraction(factor * int(purse[MEAN]), FACTOR_ONE << MEAN_BITS)
    more = Fraction(1, FACTOR_ONE << MEAN_BITS)
    got = int(threshold(purse, factor, size))
    assert math.ceil(size * (switch_cost * full + m)) <= got
    assert got <= math.ceil(size * (switch_cost * full + m + more)) <= 2**60 + 2**5
    assert got >= size * switch_cost * full


def test_a_fixed_threshold_jumps_exactly_where_it_should() -> None:
    # on hard hits m = 1: an item enters at the least number of misses j >= lambda + xi
    trace = from_requests([0] + [1] * 12)
    for switch_cost in [x for x in NEAR_JUMPS if x >= 0]:
        schedule = simulate("solar(xi_low=0.5, xi_high=0.5)", trace, 1, switch_cost)
        entered = np.flatnonzero(np.diff(schedule.enter_ptr)).tolist()
        assert entered == [0, max(1, math.ceil(switch_cost + Fraction(1, 2)))]


def test_without_a_cost_of_switching_a_miss_still_has_to_be_worth_something() -> None:
    rows = np.arange(200)
    trace = sparse_trace(
        n_items=201, n_steps=200, step=rows, item=np.full(200, 200), quality=np.full(200, 0.4),
        arrivals=np.where(rows == 0, 200, rows),
    )  # fmt: skip
    # item 200 serves everything as well as anything can; arrivals that would not serve better never enter
    schedule = simulate("solar(xi_low=0, xi_high=0)", trace, 1, 0)
    assert schedule.enter_items.tolist() == [200]


def test_lambda_beyond_64_bits_is_refused_and_a_large_one_is_not() -> None:
    trace = from_requests([0, 1] * 50)
    with pytest.raises(InvalidInput, match=r"switch_cost must be at most 5\.76e\+13 for SOLAR"):
        simulate("solar", trace, 1, 10**14)
    assert simulate("solar", trace, 1, 10**13).enter_items.tolist() == [0]


def test_huge_weights_do_not_overflow() -> None:
    weight = np.full(400, 2**31 - 1)
    trace = from_requests(np.arange(400) % 5, weight=weight, quality_scale=1_000_000_000)
    for policy in FAMILY:
        priced = cost(simulate(policy, trace, 4, 10**8), trace, 4, 10**8)
        assert priced.switch_units <= priced.miss_units


@pytest.mark.parametrize("policy", FAMILY)
def test_the_seed_decides_the_schedule(policy: str) -> None:
    trace = make_trace("piecewise", 8, 4000, seed=2, w=12, form="soft")
    one, again, other = (simulate(policy, trace, 8, "1/2", seed=s) for s in (5, 5, 6))
    assert one == again
    if policy != "solar_paper":
        assert one != other


@pytest.mark.parametrize("policy", FAMILY)
@pytest.mark.parametrize("variant", [Variant(), Variant(aggregator="coverage", top_k=3)], ids=str)
def test_step_by_step_is_the_batch_loop(policy: str, variant: Variant) -> None:
    rng = np.random.default_rng(1)
    soft = make_trace("piecewise", 10, 3000, seed=4, w=17, form="soft")
    trace = Trace(
        n_items=soft.n_items, indptr=soft.indptr, items=soft.items, quality=soft.quality,
        arrivals=np.where(rng.random(3000) < 0.1, -1, soft.arrivals), weight=rng.integers(0, 3, 3000),
    )  # fmt: skip
    batch = simulate(policy, trace, 10, "0.7", seed=3, variant=variant)
    assert batch == simulate(policy, trace, 10, "0.7", seed=3, variant=variant, step_by_step=True)
    assert len(batch.leave_items) > 100


def test_a_long_run_step_by_step_is_the_batch_loop() -> None:
    trace = make_trace("piecewise", 16, 100_000, seed=9, w=20, segment=800)
    session = Session("solar", trace.n_items, 16, "1/10", seed=2)
    for t in range(trace.n_steps):
        items, quality = trace.row(t)
        session.step(items, quality, arrival=int(trace.arrivals[t]))
    assert session.schedule() == simulate("solar", trace, 16, "1/10", seed=2)


class Watched:
    """A run whose state can be read after each step."""

    def __init__(self, spec: str, n_items: int, capacity: int, switch_cost: Any, sizes: Any = None) -> None:
        self.policy: Any = make_policy(spec)
        self.session = Session(self.policy, n_items, capacity, switch_cost, sizes=sizes, seed=0)
        self.rule, self.purse, self.counts, self.where, self.links, self.ledger, *_ = self.policy._state


@pytest.mark.parametrize("memory", [1, 8])
def test_ghosts_are_bounded_and_the_oldest_touch_is_forgotten_first(memory: int) -> None:
    capacity, n = 3, 200
    run = Watched(f"solar(memory={memory})", n, capacity, 2)
    rng = np.random.default_rng(0)
    touched: dict[int, int] = {}
    held: set[int] = set()
    for t in range(3000):
        item = int(rng.zipf(1.3)) % n
        served = run.session.step([item], [10_000], arrival=item)
        for x in served.decision.admit:
            held.add(x)
            touched.pop(x, None)
        for x in served.decision.evict:
            held.discard(x)
            touched[x] = t
        if item not in held:
            touched[item] = t
        # two touches in one step: the request comes before the eviction
        order = sorted(touched, key=lambda x: (touched[x], x != item), reverse=True)[: memory * capacity]
        touched = {x: touched[x] for x in order}
        ghosts = [int(x) for x in run.links[capacity:, ITEM] if x >= 0]
        assert len(ghosts) == run.counts[GHOSTS] <= memory * capacity
        assert set(ghosts) == set(order)
        assert {i for i in range(n) if run.where[i] >= 0} == held | set(ghosts)
        r, chain = int(run.counts[NEWEST]), []
        while r >= 0:
            chain.append(int(run.links[r, ITEM]))
            r = int(run.links[r, OLDER])
        assert chain == order
    assert run.counts[SLOTS] == capacity


@pytest.mark.parametrize("policy", FAMILY)
def test_with_sizes_records_and_ghosts_are_those_of_what_is_held_and_what_was(policy: str) -> None:
    rng = np.random.default_rng(4)
    n, capacity = 60, 23
    sizes = rng.integers(1, 12, n)
    sizes[::9] = capacity + 1
    run = Watched(policy, n, capacity, "1/2", sizes=sizes)
    left = several = 0
    ghosts = len(run.links) - int(run.counts[SLOTS])
    for t in range(6000):
        item = (int(rng.zipf(1.3)) + t // 500) % n
        weight = int(rng.choice([0, 1, int(sizes[item])]))
        served = run.session.step([item], [10_000], arrival=item, weight=weight)
        several += len(served.decision.evict) > 1
        left += len(served.decision.evict)
        held = run.session.held
        assert run.counts[HELD] == len(held)
        assert sorted(run.links[: len(held), ITEM].tolist()) == held
        chain, r = [], int(run.counts[NEWEST])
        while r >= 0:
            assert run.links[r, OLDER] < 0 or run.links[run.links[r, OLDER], NEWER] == r
            chain.append(int(run.links[r, ITEM]))
            last, r = r, int(run.links[r, OLDER])
        assert not chain or run.counts[OLDEST] == last
        assert len(chain) == len(set(chain)) == run.counts[GHOSTS] <= ghosts
        assert set(np.flatnonzero(run.where >= 0).tolist()) == set(held) | set(chain)
        assert all(run.links[run.where[i], ITEM] == i for i in held + chain)
        if len(served.decision.evict) > 0:
            assert chain[: len(served.decision.evict)] == list(served.decision.evict)[::-1]
        assert run.ledger[:, REGRET].min() >= 0
        assert run.purse[FUND] >= 0
        assert run.purse[POT] >= 0
    assert left > 300
    assert several > 20


def test_regret_leaves_a_forgotten_ghost_for_the_fund_and_nothing_is_lost_or_made() -> None:
    run = Watched("solar(memory=2, xi_low=1, xi_high=1)", 5000, 2, 5)
    spent = total = 0
    for t in range(400):
        item = t  # never asked for twice
        fund = int(run.purse[FUND])
        served = run.session.step([item], [10_000], arrival=item)
        total += 10_000
        if served.decision.evict:
            spent += 6 * 10_000
        assert run.ledger[:, REGRET].sum() + run.purse[FUND] + spent <= total
        assert run.purse[FUND] >= 0
        if t < 2 + 4:
            assert fund == run.purse[FUND] == 0
    assert 0 < spent < total // 2  # junk pays for itself ever less: the price has risen


def test_junk_soon_stops_being_admitted() -> None:
    # half of the requests are never repeated; the others fit into the cache
    rng = np.random.default_rng(5)
    hot = rng.integers(0, 8, 20_000)
    ids = np.where(rng.random(20_000) < 0.5, 8 + np.arange(20_000), hot)
    trace = from_requests(ids)
    schedule = simulate("solar", trace, 8, 2, seed=0)
    entered = schedule.enter_items[schedule.enter_ptr[10_000] :]
    assert len(entered) < 200
    paper = simulate("solar_paper", trace, 8, 2, seed=0)
    assert len(paper.enter_items[paper.enter_ptr[10_000] :]) > 1000


def test_experiences_that_never_come_back_are_admitted_for_what_they_mean() -> None:
    # every arrival has a new id and serves the queries of its topic for 1600 steps; topics change
    capacity, topics, steps = 8, 10, 12_000
    rng = np.random.default_rng(6)
    topic = np.concatenate([rng.permutation(40)[rng.integers(0, topics, 400)] for _ in range(steps // 400)])
    step, item = [], []
    for t in range(steps):
        near = np.arange(max(0, t - 1600), min(steps, t + 1))
        for x in near[topic[near] == topic[t]]:
            step.append(t)
            item.append(x)
    trace = sparse_trace(
        n_items=steps, n_steps=steps, step=np.array(step), item=np.array(item),
        quality=np.ones(len(step)), arrivals=np.arange(steps),
    )  # fmt: skip
    solar, alone = (
        float(cost(simulate(p, trace, capacity, 3, seed=0), trace, capacity, 3))
        for p in ("solar", "solar(memory=100000)")
    )
    assert solar < 0.6 * alone


def test_arrivals_without_a_query_are_paid_for_by_the_cost_of_the_queries() -> None:
    # arrivals and queries alternate; a query asks for what arrived one to four arrivals ago
    steps = 8000
    arrivals = np.where(np.arange(steps) % 2 == 0, np.arange(steps) // 2, -1)
    asked = np.arange(1, steps, 2)
    back = np.random.default_rng(0).integers(0, 4, len(asked))
    trace = sparse_trace(
        n_items=steps // 2, n_steps=steps, step=asked, item=np.maximum(asked // 2 - back, 0),
        quality=np.ones(len(asked)), arrivals=arrivals, weight=np.arange(steps) % 2,
    )  # fmt: skip
    schedule = simulate("solar", trace, 8, "1/10", seed=0)
    priced = cost(schedule, trace, 8, "1/10")
    assert priced.insertions > 500
    assert float(priced) < 0.8 * float(cost(simulate("never", trace, 8), trace, 8, "1/10"))


@numba.njit
def wins_of(rng: Any, a: Any, b: Any, first: Any, runs: Any) -> Any:
    count = np.zeros((2, len(a)), np.int64)
    for _ in range(runs):
        count[0, lowest_draw(rng, a, b, len(a), first, np.max(a + b))] += 1
        count[1, lowest_plain_draw(rng, a, b, len(a))] += 1
    return count


SHAPES = {
    "cycle": (np.linspace(0.68, 1.68, 12), np.full(12, 12.0)),
    "stale and fresh": (
        np.array([0.1, 0.1001, 0.3, 0.7, 1.5, 2.5, 5.0]),
        np.array([9, 30, 20, 1, 30, 60, 9]),
    ),
    "prior only": (np.full(6, 0.1), np.ones(6)),
    "paper": (np.array([1.0, 2, 2, 5, 30, 31]), np.array([1.0, 1, 4, 9, 40, 39])),
    "one certain loser": (np.array([200.0, 3.0, 2.0]), np.array([1.0, 40.0, 25.0])),
    "mixed sizes": (np.array([0.5, 1.0, 2.0, 3.0, 0.25]), np.array([3.0, 8.0, 15.0, 30.0, 1.5])),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("first", [0, -1])
def test_the_quick_draw_has_the_law_of_one_beta_draw_per_item(name: str, first: int) -> None:
    a, b = SHAPES[name]
    count = wins_of(np.random.default_rng(11), a, b, first % len(a), 300_000)
    seen = count.sum(axis=0) >= 20
    assert stats.chi2_contingency(count[:, seen]).pvalue > 1e-7


def test_the_test_of_the_draw_can_fail() -> None:
    a, b = SHAPES["cycle"]
    count = wins_of(np.random.default_rng(11), a, b, 0, 300_000)
    count[1] = wins_of(np.random.default_rng(12), a * 1.0 + 0.02 * np.arange(12), b, 0, 300_000)[1]
    assert stats.chi2_contingency(count).pvalue < 1e-7


@given(st.integers(0, 2**32), st.floats(0.02, 500), st.integers(1, 400))
@settings(max_examples=60)
def test_lazy_aging_is_the_sum_of_discounted_trials(seed: int, horizon: float, steps: int) -> None:
    rng = np.random.default_rng(seed)
    clock, belief = new_clock(horizon, 0.3, True), np.zeros((2, 2))
    born = int(rng.integers(0, steps))
    weights, hits = rng.choice([1, 1, 1, 2, 50], steps), rng.random(steps) * (rng.random(steps) < 0.2)
    for t in range(steps):
        advance(clock, belief, int(weights[t]))
        if t == born:
            clear(clock, belief, 0, True)
        if t >= born and hits[t]:
            credit(clock, belief, 0, hits[t] * weights[t], 0.0)
    a, b = np.empty(1), np.empty(1)
    shapes(clock, belief, 1, a, b)
    age = np.array([weights[t + 1 :].sum() for t in range(steps)], float)
    wins = sum(hits[t] * weights[t] * math.exp(-age[t] / horizon) for t in range(born, steps))
    trials = horizon * -math.expm1(-weights[born:].sum() / horizon)
    assert a[0] == pytest.approx(0.3 + wins, rel=1e-9, abs=1e-9)
    assert b[0] == pytest.approx(1 + max(trials - wins, 0), rel=1e-9, abs=1e-9)


def test_the_variants_are_the_products_they_claim_to_be() -> None:
    rng = np.random.default_rng(3)
    ids = rng.zipf(1.2, 6000) % 60
    trace = from_requests(ids)
    schedules = {name: simulate(name, trace, 10, 1, seed=0) for name in FAMILY}
    # FIFO leaves in order of entry; without a gate every miss enters
    fifo = schedules["solar_admission"]
    assert fifo.leave_items.tolist() == fifo.enter_items[: len(fifo.leave_items)].tolist()
    always = schedules["solar_eviction"]
    assert len(always.enter_items) == miss_units_by_step(always, trace).sum() / trace.quality_scale
    gated = schedules["solar"]
    assert len(gated.enter_items) < len(always.enter_items) / 2
    assert len({tuple(s.enter_items.tolist()) for s in schedules.values()}) == len(FAMILY)


@pytest.mark.parametrize("switch_cost", ["0", "0.15", "1", "5"])
def test_on_a_cycle_the_slope_is_far_below_three_where_fifo_has_k_plus_one(switch_cost: str) -> None:
    capacity, half = 16, 8500
    trace = make_trace("cycling", capacity, 2 * half)
    lam = float(Fraction(switch_cost))
    for policy, low, high in (("solar", 1, 2.8), ("fifo", 16, 17 * (1 + lam) + 1e-9)):
        found = []
        for seed in range(30):
            schedule = simulate(policy, trace, capacity, switch_cost, seed=seed)
            missed = miss_units_by_step(schedule, trace)[half:].sum() / 10_000
            found.append(missed + lam * (schedule.enter_ptr[-1] - schedule.enter_ptr[half]))
        assert low <= np.mean(found) / (half / 17) <= high


def test_parameters_are_checked_by_name() -> None:
    trace = from_requests([0, 1, 2])
    with pytest.raises(InvalidInput, match="parameter of policy 'solar' 'horizn'; did you mean 'horizon'"):
        simulate("solar(horizn=2)", trace, 1)
    for spec, name in (
        ("solar(horizon=0)", "horizon"),
        ("solar(prior=0)", "prior"),
        ("solar(memory=0)", "memory"),
        ("solar(xi_low=2)", "xi_high"),
        ("solar(evidence=3)", "evidence"),
    ):
        with pytest.raises(InvalidInput, match=f"{name} must be"):
            simulate(spec, trace, 1)
    sized = Trace(n_items=2, indptr=[0, 1], items=[0], quality=[1], arrivals=[0], sizes=[1, 2])
    with pytest.raises(InvalidInput, match="unit sizes"):
        simulate("solar_guarded", sized, 2)
    huge = Trace(n_items=2, indptr=[0, 1], items=[0], quality=[1], arrivals=[0], sizes=[1, 2**32 + 1])
    with pytest.raises(InvalidInput, match="sizes must be at most 4294967296 for SOLAR"):
        simulate("solar", huge, 2**33)
    assert simulate("solar", huge, 2**32).n_insertions == 1  # what is too large to enter does not matter


def test_an_empty_problem_is_legal() -> None:
    assert simulate("solar", from_requests([]), 4).n_steps == 0
    context = Context(3, Fraction(1), 0, np.ones(0, np.int64), 10, 10, Variant(), child_rng(0, POLICY_ROLE))
    assert len(init(context)) == 10


def test_the_pot_never_holds_what_a_counter_has() -> None:
    run = Watched("solar", 50, 4, 3)
    rng = np.random.default_rng(8)
    total = spent = 0
    for _ in range(3000):
        weight = int(rng.integers(0, 3))
        item = int(rng.integers(0, 50))
        served = run.session.step([item], [int(rng.integers(1, 10_001))], arrival=item, weight=weight)
        total += weight * (10_000 - served.seen.utility_units)
        if served.decision.evict:
            spent += 3 * 10_000
        assert run.ledger[:, REGRET].sum() + run.purse[FUND] + run.purse[POT] + spent <= total
    assert spent > 0
    assert run.ledger[:, [REGRET, EARNED]].max() < LARGEST
    assert set(np.unique(run.ledger[:, PAID_BY])) <= {0, 1, 2}
    assert run.ledger[:, FACTOR].max() < 1.25 * FACTOR_ONE
