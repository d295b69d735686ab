"""What scans, past popularity, near-duplicates, polarity, drift and conversation do, beyond exact costs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, special, stats

from adversaries.families import (
    conversation,
    drift,
    frequency_pollution,
    make_trace,
    near_duplicates,
    polarity,
    scan_loop,
)
from adversaries.families.conversation import topics_of_bursts
from adversaries.families.drift import von_mises_fisher
from adversaries.families.near_duplicates import expected_answers
from offline_opt import solve
from softhit import Schedule, cost, from_embeddings, policy_names, simulate
from softhit.cost import miss_units_by_step
from softhit.policies import policy_info
from theory.f1_inverted_u import quality

# two-sided 6 sigma: 2e-9 under the normal law
SIGMAS = 6.0


def paid(policy, trace, capacity, switch_cost):
    return cost(simulate(policy, trace, capacity, switch_cost), trace, capacity, switch_cost).fraction


def optimum(trace, capacity, switch_cost):
    result = solve(trace, capacity, switch_cost)
    assert result.cost.fraction == result.lower_bound
    return result.lower_bound


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("scan_loop", {"hot": range(1, 6), "laps": range(1, 3), "scan": range(1, 6)}),
        ("frequency_pollution", {"popular": range(1, 6), "repeats": range(5), "fresh": range(1, 5)}),
        ("polarity", {"pairs": range(1, 7)}),
    ],
)
@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("capacity", [1, 2, 3, 4])
def test_exact_costs_hold_at_every_corner_of_the_parameters(name, grid, capacity, form):
    for values in itertools.product(*grid.values()):
        trace = make_trace(name, capacity, 45, "1/3", form=form, **dict(zip(grid, values, strict=True)))
        for policy, price in trace.metadata["forces"]["exact"].items():
            assert paid(policy, trace, capacity, "1/3") == Fraction(price), (policy, values)


# ---- scan and loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("switch_cost", ["0", "1/2", "3"])
@pytest.mark.parametrize("capacity", [1, 2, 5])
@pytest.mark.parametrize("policy", ["fifo", "lru"])
def test_a_scan_of_one_item_against_a_hot_set_that_fills_the_cache_forces_the_worst_ratio_there_is(
    policy, capacity, switch_cost
):
    """The slope over whole rounds, against the exact optimum, is (K+1)(1+lambda), the bound of B2."""
    lam = Fraction(switch_cost)
    period = 3 * capacity + 1
    short, long = (
        scan_loop(capacity, n * period, lam, hot="K", laps=3, scan=1) for n in (capacity + 2, capacity + 12)
    )
    gained = paid(policy, long, capacity, lam) - paid(policy, short, capacity, lam)
    lost = optimum(long, capacity, lam) - optimum(short, capacity, lam)
    assert gained == (capacity + 1) * (1 + lam) * lost


@pytest.mark.parametrize(("scan", "every"), [(1, 5), (2, 3), (3, 2), (4, 2), (5, 1), (30, 1)])
def test_lru_loses_the_hot_set_to_scans_that_do_not_fit_beside_it_and_fifo_to_every_qth_scan(scan, every):
    capacity, hot, laps = 10, 6, 3
    period = laps * hot + scan
    trace = scan_loop(capacity, 30 * period, hot=hot, laps=laps, scan=scan)
    for policy, rounds in (("fifo", every), ("lru", 1 if every == 1 else 30)):
        missed = miss_units_by_step(simulate(policy, trace, capacity), trace).reshape(30, period) // 10_000
        lost = np.arange(30) % rounds == 0
        assert np.array_equal(missed[:, :hot].sum(axis=1), hot * lost)
        assert not missed[:, hot : laps * hot].any()
        assert missed[:, laps * hot :].all()


def test_soft_scans_keep_their_price_and_a_held_hot_set_pays_for_scans_only():
    capacity, hot, lam = 8, 4, Fraction(2)
    trace = scan_loop(capacity, 10 * 45, lam, form="soft", near=0.6)
    hold = Schedule.from_events(trace.n_steps, [], [], range(hot), range(hot))
    # hot items: 1, then a neighbour each; no scanned item is held
    kept = cost(hold, trace, capacity, lam).fraction
    assert kept == 1 + 3 * Fraction(2, 5) + 10 * 5
    fifo = paid("fifo", trace, capacity, lam)
    # of each scan's five the last one alone goes into the hot set: hot item 3 is held when 0 comes back
    assert fifo == (1 + 10) + (9 + 10 * (3 + 4)) * Fraction(2, 5) + lam * (10 * 9 - 8)
    assert 3.9 < fifo / kept < 4


# ---- frequency pollution --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("switch_cost", ["0", "1/2", "3"])
@pytest.mark.parametrize("capacity", [2, 3, 5])
def test_past_popularity_makes_lfu_pay_for_ever_while_the_optimum_stops(capacity, switch_cost, form):
    lam, near, reach = Fraction(switch_cost), 0.25, 1
    gap = Fraction(1) if form == "hard" else 1 - Fraction(repr(near))
    own = {} if form == "hard" else {"near": near, "reach": reach}
    best, lfu = [], []
    for steps in (3 * capacity + 40, 3 * capacity + 80):
        trace = frequency_pollution(capacity, steps, lam, repeats=3, form=form, **own)
        best.append(optimum(trace, capacity, lam))
        lfu.append(paid("lfu", trace, capacity, lam))
        assert str(lfu[-1]) == trace.metadata["forces"]["exact"]["lfu"]
    assert best[0] == best[1] <= capacity + 2 + 2 * lam
    assert lfu[1] - lfu[0] == 40 * (gap + lam)


def by_hand(trace, capacity, keep, remember):
    """Return the misses of a policy that admits all and evicts the least ``keep(count, age)``."""
    count, last, held, misses = {}, {}, [], 0
    for t, item in enumerate(trace.requests.tolist()):
        if item not in held:
            misses += 1
            if not remember:
                count[item] = 0
            if len(held) == capacity:
                held.remove(min(held, key=lambda i: (keep(count[i], t - last[i]), last[i])))
            held.append(item)
        count[item] = count.get(item, 0) + 1
        last[item] = t
    return misses


@pytest.mark.parametrize("repeats", [2, 5, 20, 80])
def test_an_lfu_that_remembers_counts_is_stuck_for_as_long_as_the_past_was_popular(repeats):
    capacity, steps = 4, 4 * repeats + 400
    trace = frequency_pollution(capacity, steps, repeats=repeats)
    late = by_hand(trace, capacity, lambda count, age: count, remember=True) - capacity
    assert 2 * (repeats - 1) <= late <= 2 * repeats + 2
    assert by_hand(trace, capacity, lambda count, age: count, remember=False) == capacity + 400


@pytest.mark.parametrize("popular", [2, 4, 5])
@pytest.mark.parametrize("weights", ["w_a=0.6,w_r=0.4", "w_a=0,w_r=1", "w_a=1,w_r=0", "w_a=1,w_r=1000"])
def test_priority_weighted_lru_is_stuck_after_two_repeats_whatever_its_weights(weights, popular):
    capacity, fresh = 5, 4
    for repeats in (0, 1, 2, 9):
        trace = frequency_pollution(
            capacity, popular * repeats + 200, popular=popular, repeats=repeats, fresh=fresh
        )
        late = paid(f"priority_lru({weights})", trace, capacity, 0) - (popular if repeats else 0)
        assert late == (200 if repeats >= 2 else fresh)


@pytest.mark.parametrize(("popular", "fresh"), [(2, 4), (4, 2), (4, 4), (5, 2), (5, 4)])
@pytest.mark.parametrize("weights", [(Fraction(3, 5), Fraction(2, 5)), (1, 3), (1, 8), (1, 30), (2, 0)])
def test_where_a_load_is_an_access_the_past_has_to_outweigh_recency(weights, popular, fresh):
    capacity, (w_a, w_r) = 5, weights
    room = max(1, capacity - popular)
    spec = f"priority_lru(w_a={w_a}, w_r={w_r}, load_is_access=true)"

    def keep(count, age):
        return w_a * count + Fraction(w_r) / age

    stuck = []
    for repeats in range(1, 34):
        trace = frequency_pollution(
            capacity, popular * repeats + 200, popular=popular, repeats=repeats, fresh=fresh
        )
        misses = paid(spec, trace, capacity, 0)
        assert misses == by_hand(trace, capacity, keep, remember=False)
        if repeats >= 2 and w_a * (repeats - 1) * room >= w_r:
            assert misses == popular + 200
            stuck.append(repeats)
        elif fresh == 2:
            # recency speaks for the newcomer until an old item goes
            assert misses < popular + 200
    assert stuck


# ---- near-duplicates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("topics", [3, 50])
def test_the_expected_share_is_that_of_the_claim(topics, noise):
    for n in (0, 1, 7, topics, 8 * topics):
        assert math.isclose(expected_answers(n, topics, noise), quality(n, topics, noise), abs_tol=1e-12)


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize(
    ("capacity", "topics", "pool", "noise"),
    [(60, 10, 60, 0.5), (60, 10, 60, 0.0), (60, 10, 60, 1.0), (20, 10, 35, 0.3), (8, 20, 60, 0.5)],
)
def test_the_mean_share_of_answers_over_traces_is_the_expected_one(capacity, topics, pool, noise, form):
    near, lam, queries = 0.4, 2, 100
    own = {"near": near} if form == "soft" else {}
    shares = np.empty(400)
    for seed in range(len(shares)):
        trace = near_duplicates(
            capacity, pool + queries, lam, seed, topics=topics, pool=pool, noise=noise, form=form, **own
        )
        misses = paid("fifo", trace, capacity, lam) - lam * max(0, pool - capacity)
        shares[seed] = 1 - misses / queries
    held, gone = min(pool, capacity), max(0, pool - capacity)
    right = expected_answers(held, topics, noise) * (1 - 1 / topics) ** gone
    if form == "soft":
        right = (1 - near) * right + near * (1 - (1 - 1 / topics) ** held)
    error = shares.std(ddof=1) / math.sqrt(len(shares))
    assert error < 0.02
    assert abs(shares.mean() - right) <= SIGMAS * error + 1e-12


def test_the_larger_the_pool_that_is_held_the_fewer_queries_are_answered():
    """M = 10, noise 1/2: Q is largest near n = 18; each step of the way down is seen, the optimum rises."""
    means, errors, best = [], [], []
    for n in (20, 60, 200):
        traces = [near_duplicates(n, n + 100, seed=s, topics=10, pool=n) for s in range(200)]
        shares = np.array([float(1 - paid("lru", t, n, 0) / 100) for t in traces])
        means.append(shares.mean())
        errors.append(shares.std(ddof=1) / math.sqrt(len(shares)))
        best.append(np.mean([1 - int(t.metadata["forces"]["optimum"]) / 100 for t in traces]))
    for (high, e), (low, f) in itertools.pairwise(zip(means, errors, strict=True)):
        assert high - low > SIGMAS * math.hypot(e, f)
    assert best == sorted(best)
    assert best[-1] == 1


def test_keeping_the_first_item_of_each_topic_answers_all_that_has_arrived():
    trace = near_duplicates(40, 400, seed=5, topics=8, pool=40)
    items = [trace.row(t) for t in range(40, 400)]
    right = sorted({int(i[0]) for i, _ in items if len(i)})
    keep = Schedule.from_events(400, [], [], right, right)
    price = cost(keep, trace, 40, 1).fraction
    assert str(price) == trace.metadata["forces"]["optimum"]
    assert paid("fifo", trace, 40, 1) > price + 100


# ---- polarity -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("switch_cost", ["0", "5/2"])
@pytest.mark.parametrize("capacity", [2, 5, 8])
def test_who_fills_free_room_is_misled_for_ever_and_never_pays_for_a_switch(capacity, switch_cost, form):
    always = [n for n in policy_names() if policy_info(n).admission.startswith("always")]
    assert {"fifo", "lru", "lfu"} <= set(always)
    gap = Fraction(1) if form == "hard" else Fraction(1, 2)
    short, long = (polarity(capacity, steps, switch_cost, form=form) for steps in (60, 160))
    pairs = long.metadata["parameters"]["pairs"]
    assert 1 <= 2 * pairs <= capacity
    assert optimum(short, capacity, switch_cost) == optimum(long, capacity, switch_cost) == pairs
    for name in [*always, "never", "solar"]:
        first, second = (paid(name, t, capacity, switch_cost) for t in (short, long))
        assert first == pairs + (60 - 2 * pairs) * gap
        assert second - first == 100 * gap
    for name in ("fifo(admit=miss)", "lru(admit=miss)", "lfu(admit=miss)"):
        assert paid(name, long, capacity, switch_cost) == pairs


def test_the_score_orders_a_pair_by_falling_quality():
    trace = polarity(6, 30, form="soft", near=0.3)
    for t in range(30):
        a, b = trace.indptr[t], trace.indptr[t + 1]
        assert trace.ranks[a:b].tolist() == [1, 0]
        assert trace.quality[a:b].tolist() == [10_000, 3000]


# ---- drift ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.0, 3.0, 100.0, 1e6])
@pytest.mark.parametrize("dim", [2, 3, 16])
def test_draws_around_a_mean_follow_the_law_of_von_mises_and_fisher(dim, kappa):
    rng = np.random.default_rng(7)
    mean = np.zeros(dim)
    mean[0] = 1.0
    drawn = von_mises_fisher(rng, np.tile(mean, (20_000, 1)), kappa)
    assert np.allclose((drawn**2).sum(axis=1), 1, atol=1e-12)
    # by angle, which stays smooth for large kappa: density exp(kappa (cos x - 1)) sin(x)^(d-2)
    angle = np.arctan2(np.linalg.norm(drawn[:, 1:], axis=1), drawn[:, 0])
    top = min(math.pi, 14 * math.sqrt(dim / max(kappa, 1e-9)))
    grid = np.linspace(0, top, 4001)
    density = np.exp(kappa * (np.cos(grid) - 1)) * np.sin(grid) ** (dim - 2)
    mass = integrate.cumulative_trapezoid(density, grid, initial=0)
    found = stats.kstest(angle, lambda x: np.interp(x, grid, mass / mass[-1]))
    assert found.pvalue > 1e-6
    # no direction is preferred around the mean
    side = drawn[:, 1:].mean(axis=0) / (drawn[:, 1:].std(axis=0) / math.sqrt(len(drawn)))
    assert np.abs(side).max() < SIGMAS


@pytest.mark.parametrize("degrees", [0.0, 40.0, 90.0, 150.0])
def test_the_cosine_of_a_query_to_an_item_decays_as_its_mean_turns(degrees):
    dim, kappa, n = 8, 30.0, 40_000
    rng = np.random.default_rng(3)
    turn = math.radians(degrees)
    here, there = np.zeros((2, n, dim))
    here[:, 0] = 1
    there[:, :2] = math.cos(turn), math.sin(turn)
    cosines = (von_mises_fisher(rng, here, kappa) * von_mises_fisher(rng, there, kappa)).sum(axis=1)
    resultant = special.ive(dim / 2, kappa) / special.ive(dim / 2 - 1, kappa)
    error = cosines.std(ddof=1) / math.sqrt(n)
    assert abs(cosines.mean() - resultant**2 * math.cos(turn)) < SIGMAS * error


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("floor", [0.0, 0.7, 0.95])
def test_qualities_of_drifting_items_come_from_their_vectors_by_the_named_rule(form, floor):
    trace = drift(5, 700, seed=4, form=form, floor=floor, epochs=3)
    rule = f"threshold({floor:g})" if form == "hard" else f"cosine_clipped({floor:g})"
    assert rule in trace.metadata["forces"]["statement"]
    again = from_embeddings(
        trace.query_vectors, trace.item_vectors, trace.arrivals, rule=rule, candidates="arrived"
    )
    assert again.hash == trace.hash


def test_means_turn_steadily_by_the_stated_angle():
    trace = drift(6, 3000, seed=8, angle=120.0, kappa=1e6, topics=5, epochs=4)
    items = trace.item_vectors.reshape(4, 5, 16).astype(float)
    for earlier, later in itertools.combinations(range(4), 2):
        cosines = (items[earlier] * items[later]).sum(axis=1)
        assert np.allclose(cosines, math.cos(math.radians(30 * (later - earlier))), atol=0.03)
    # a query has turned away from the item of its topic and part by as much as time has passed
    steps = np.arange(3000)
    cosines = (trace.query_vectors * trace.item_vectors[trace.arrivals]).sum(axis=1)
    assert np.allclose(cosines, np.cos(np.radians(120 * (steps % 750) / 3000)), atol=0.03)


def test_what_was_held_first_answers_ever_less_well_unless_nothing_turns():
    for angle, ratio in ((0.0, 1.0), (90.0, 0.25)):
        trace = drift(6, 8000, seed=2, form="soft", angle=angle, floor=0.0)
        first = trace.items < 6
        step = np.repeat(np.arange(8000), np.diff(trace.indptr))
        best = np.zeros(8000)
        np.maximum.at(best, step[first], trace.quality[first])
        parts = best.reshape(4, 2000).mean(axis=1)
        if angle:
            assert np.all(np.diff(parts) < 0)
            assert parts[-1] < (0.25 + ratio) * parts[0]
        else:
            assert abs(parts[-1] / parts[0] - 1) < 0.05
        assert f"has mean quality {parts[-1] / 10_000:.4f}" in trace.metadata["forces"]["statement"]


def test_never_replacing_costs_more_where_topics_drift():
    still, moving = (drift(8, 4000, seed=1, form="soft", angle=a) for a in (0.0, 90.0))
    assert paid("never", moving, 8, 1) > 1.5 * paid("never", still, 8, 1)
    assert paid("never", moving, 8, 1) > paid("fifo", moving, 8, 1)


# ---- conversation ---------------------------------------------------------------------------------------


def test_turns_say_something_new_or_ask_for_something_old():
    trace = conversation(8, 20_000, seed=6)
    asks = trace.weight > 0
    said = trace.arrivals[~asks]
    assert said.tolist() == list(range(trace.n_items))
    known = np.cumsum(~asks)
    assert np.all(trace.arrivals[asks] < known[asks])
    assert np.array_equal(trace.requests[asks], trace.arrivals[asks])
    assert np.all(np.diff(trace.indptr)[~asks] == 0)


def test_a_conversation_forces_nothing_and_says_so():
    forces = make_trace("conversation", 8, 500).metadata["forces"]
    assert forces["statement"].startswith("forces nothing")
    assert (forces["claim"], forces["exact"], forces["optimum"]) == ("", {}, "")


def test_a_summary_answers_for_what_it_was_derived_from():
    trace = conversation(8, 20_000, seed=6, form="soft", near=0.3)
    hard = conversation(8, 20_000, seed=6)
    two = np.flatnonzero(np.diff(trace.indptr) == 2)
    assert len(two) > 1000
    for t in two[:300]:
        (asked, summary), worth = trace.row(t)
        assert asked < summary
        assert worth.tolist() == [10_000, 3000]
        # it arrived before, in silence
        said = int(np.flatnonzero(trace.arrivals == summary)[0])
        assert said < t
        assert trace.weight[said] == 0
        assert hard.requests[t] == asked
    without = conversation(8, 20_000, seed=6, form="soft", derived=0.0)
    assert without.structure.hard


def test_bursts_and_questions_have_the_stated_shares():
    trace = conversation(8, 200_000, seed=9, new=1.0, derived=0.0, asks=0.7, burst=10)
    # every burst opens a topic, by its first turn, which says something; 0.7 of the others ask
    said = int((trace.weight == 0).sum())
    mean = 200_000 * (1 / 10 + 0.9 * 0.3)
    deviation = math.sqrt(200_000 * (0.1 * 0.9 + 0.3))
    assert abs(said - mean) < SIGMAS * deviation
    assert conversation(8, 1000, asks=0.0).n_queries == 0


def test_an_item_is_asked_for_uniformly_among_those_of_its_topic():
    # one topic: the topic of the burst before, for ever
    trace = conversation(8, 40_000, seed=2, new=0.0, tail=10.0, derived=0.0, asks=0.9)
    known = np.cumsum(trace.weight == 0)
    asks = trace.weight > 0
    share = (trace.requests[asks] + 0.5) / known[asks]
    late = share[known[asks] > 100]
    assert len(late) > 20_000
    assert stats.kstest(late, "uniform").statistic < 0.01 + 3 / math.sqrt(len(late))


def test_the_first_item_of_a_topic_is_asked_for_as_often_as_the_second():
    # one burst that does not end, and of its three turns the third asks
    traces = (conversation(8, 3, seed=s, burst=10**6, derived=0.0) for s in range(4000))
    asked = [int(t.arrivals[2]) for t in traces if t.weight.tolist() == [0, 0, 1]]
    assert set(asked) == {0, 1}
    assert abs(sum(asked) - len(asked) / 2) < SIGMAS * math.sqrt(len(asked)) / 2
    assert abs(len(asked) - 1000) < SIGMAS * math.sqrt(750)


def test_topics_return_after_heavy_tailed_absences():
    topics = topics_of_bursts(np.random.default_rng(1), 200_000, new=0.2, tail=1.0)
    assert topics[0] == 0
    assert np.array_equal(np.unique(topics), np.arange(topics.max() + 1))
    order = np.argsort(topics, kind="stable")
    same = np.diff(topics[order]) == 0
    absences = np.diff(order)[same]
    beyond = [float((absences >= x).mean()) for x in (1, 10, 100, 1000)]
    # ten times longer is about ten times rarer, over and over; an exponential law would fall off
    for more, less in itertools.pairwise(beyond):
        assert 1 / 40 < less / more < 1 / 3
    # P(g >= x) = x^-tail where the tail is so heavy that the shares of bursts show it directly
    steep = topics_of_bursts(np.random.default_rng(1), 100_000, new=0.0, tail=2.0)
    assert float((np.diff(steep) == 0).mean()) > 0.75
