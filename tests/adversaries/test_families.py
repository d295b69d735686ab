"""Each workload family forces what it says, is a pure function, and refuses bad parameters."""

import itertools
import json
import math
import re
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversaries.expressions import evaluate, round_half_up
from adversaries.families import (
    cycling,
    families,
    family_info,
    family_names,
    make_trace,
    noise_floor,
    piecewise,
    pollution,
    sweep_phases,
    uniform_blocks,
    working_set_sweep,
)
from adversaries.families.ring import ring_rows, soft_units
from adversaries.strategies import family_traces
from offline_opt import solve
from softhit import Schedule, Trace, cost, floor_units, simulate, verify
from softhit.cost import miss_units_by_step
from softhit.errors import InvalidInput, UnknownName
from softhit.simulate import POLICY_ROLE, child_rng

FORMS = ("hard", "soft")
SWITCH_COSTS = ["0", "1/2", "999/1000", "1", "7/3"]


# what each policy evicts first, from an item's (touches, last touch, entry)
EVICTS = {
    "fifo": lambda touches, last, entry: entry,
    "lru": lambda touches, last, entry: last,
    "lfu": lambda touches, last, entry: (touches, last),
    # 0.6 * (touches - 1) + 0.4 / age, the load being no touch, on hard hits: recency only breaks ties
    "priority_lru": lambda touches, last, entry: (touches, last),
}


def reference_cost(trace: Trace, capacity: int, switch_cost: Fraction, policy: str) -> Fraction:
    """A policy of EVICTS or `never`, admitting arrivals, by hand; best of one, free fill, serve first."""
    held: dict[int, tuple[int, int, int]] = {}
    misses, insertions = Fraction(0), 0
    for t in range(trace.n_steps):
        a, b = int(trace.indptr[t]), int(trace.indptr[t + 1])
        # best rank first, else best quality; then the smaller item
        order = -trace.quality[a:b] if trace.ranks is None else trace.ranks[a:b]
        row = zip(order.tolist(), trace.items[a:b].tolist(), trace.quality[a:b].tolist(), strict=True)
        served = [entry for entry in row if entry[1] in held]
        if served and trace.weight[t]:
            _, item, quality = min(served)
            misses += int(trace.weight[t]) * (1 - Fraction(quality, trace.quality_scale))
            touches, _, entry = held[item]
            held[item] = touches + 1, t, entry
        else:
            misses += int(trace.weight[t])
        arrival = int(trace.arrivals[t])
        if arrival < 0 or arrival in held or (policy == "never" and len(held) == capacity):
            continue
        if len(held) == capacity:
            held.pop(min(held, key=lambda i: EVICTS[policy](*held[i])))
        held[arrival] = 1, t, t
        insertions += 1
    return misses + switch_cost * max(0, insertions - capacity)


# ---- what is forced -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", family_names())
@settings(max_examples=80)
@given(st.data())
def test_every_exact_cost_in_the_metadata_is_what_the_policy_pays(name, data):
    trace = data.draw(family_traces(name))
    parameters = trace.metadata["parameters"]
    capacity, switch_cost = parameters["capacity"], Fraction(parameters["switch_cost"])
    for policy, price in trace.metadata["forces"]["exact"].items():
        assert reference_cost(trace, capacity, switch_cost, policy) == Fraction(price)
        schedule = simulate(policy, trace, capacity, switch_cost)
        assert cost(schedule, trace, capacity, switch_cost).fraction == Fraction(price)


@pytest.mark.parametrize("name", ["near_duplicates", "polarity", "scan_loop"])
@given(st.data())
def test_every_exact_optimum_in_the_metadata_is_that_of_the_solver(name, data):
    trace = data.draw(family_traces(name, max_capacity=3, max_steps=24))
    parameters = trace.metadata["parameters"]
    claimed = trace.metadata["forces"]["optimum"]
    if claimed:
        result = solve(trace, parameters["capacity"], parameters["switch_cost"])
        assert result.cost.fraction == result.lower_bound == Fraction(claimed)


def test_which_families_know_the_optimum():
    known = [n for n in family_names() if make_trace(n, 4, 50).metadata["forces"]["optimum"]]
    assert sorted(known) == ["near_duplicates", "polarity", "scan_loop"]


def test_which_policies_have_an_exact_cost():
    """With the defaults, hard and soft; what the statements promise is what the test above looks at."""
    exact = {
        (n, f): " ".join(sorted(make_trace(n, 5, 50, form=f).metadata["forces"]["exact"]))
        for n in family_names()
        for f in ("hard", "soft")
    }
    none = {(n, f): "" for n in ("piecewise", "noise_floor", "uniform_blocks", "conversation") for f in FORMS}
    both = {(n, f): "fifo lfu lru" for n in ("near_duplicates", "polarity") for f in FORMS}
    assert exact == {
        **none,
        **both,
        ("cycling", "hard"): "fifo lru",
        ("cycling", "soft"): "fifo",
        ("pollution", "hard"): "fifo lru",
        ("pollution", "soft"): "fifo lru",
        ("working_set_sweep", "hard"): "fifo lru",
        ("working_set_sweep", "soft"): "fifo",
        ("scan_loop", "hard"): "fifo lru",
        ("scan_loop", "soft"): "fifo",
        ("frequency_pollution", "hard"): "fifo lfu lru priority_lru",
        ("frequency_pollution", "soft"): "fifo lfu",
        ("drift", "hard"): "never",
        ("drift", "soft"): "never",
    }


@pytest.mark.parametrize("switch_cost", SWITCH_COSTS)
@pytest.mark.parametrize("capacity", [1, 2, 3, 7])
def test_on_the_cycle_over_k_plus_1_items_fifo_pays_every_step_and_the_static_set_one_in_k_plus_1(
    capacity, switch_cost
):
    lam = Fraction(switch_cost)
    for steps in (capacity + 1, 5 * capacity + 3, 100):
        trace = cycling(capacity, steps, switch_cost)
        assert trace.structure.requests
        assert cost(simulate("fifo", trace, capacity, lam), trace, capacity, lam).fraction == (
            steps + lam * (steps - capacity)
        )
        static = Schedule.from_events(steps, [], [], range(capacity), range(capacity))
        assert cost(static, trace, capacity, lam).fraction == capacity + math.ceil(
            Fraction(steps - capacity, capacity + 1)
        )


def test_a_cycle_that_fits_is_missed_once_per_item():
    trace = cycling(4, 50, w="K")
    assert cost(simulate("fifo", trace, 4, 3), trace, 4, 3).fraction == 4
    assert trace.metadata["forces"]["claim"] == "B3"


def test_soft_neighbours_make_the_cycle_worse_for_fifo_in_ratio():
    trace = cycling(4, 100, 1, form="soft", near=0.8, reach=2)
    fifo = cost(simulate("fifo", trace, 4, 1), trace, 4, 1).fraction
    assert fifo == 1 + 99 * Fraction(1, 5) + 96
    static = cost(Schedule.from_events(100, [], [], range(4), range(4)), trace, 4, 1).fraction
    assert static == 1 + 3 * Fraction(1, 5) + math.ceil(Fraction(96, 5)) * Fraction(1, 5)
    hard = cycling(4, 100, 1)
    hard_ratio = (100 + 96) / (4 + math.ceil(96 / 5))
    assert fifo / static > hard_ratio
    assert hard.hash != trace.hash


@pytest.mark.parametrize("switch_cost", SWITCH_COSTS)
@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_under_pollution_whoever_admits_every_arrival_pays_without_bound(capacity, switch_cost):
    lam, steps = Fraction(switch_cost), 60
    trace = pollution(capacity, steps, switch_cost)
    assert trace.n_items == steps
    assert trace.arrivals.tolist() == list(range(steps))
    fifo = cost(simulate("fifo", trace, capacity, lam), trace, capacity, lam).fraction
    assert fifo == (steps - capacity) * (1 + lam)
    keep = Schedule.from_events(steps, [], [], [0], [0])
    assert cost(keep, trace, capacity, lam).fraction == 1
    # with eviction of the oldest junk, the least that an always-admitting policy can pay
    enters = np.arange(steps)
    leaves = np.arange(capacity, steps)
    victims = leaves - capacity + 1 if capacity > 1 else leaves - 1
    always = Schedule.from_events(steps, leaves, victims, enters, enters)
    price = cost(always, trace, capacity, lam).fraction
    assert price >= 1 + lam * (steps - capacity)
    if capacity > 1:
        assert price == 1 + lam * (steps - capacity)


def test_soft_pollution_serves_recent_junk_and_keeps_the_bounds():
    trace = pollution(3, 40, 2, form="soft", near=0.6, reach=3)
    items, quality = trace.row(10)
    assert items.tolist() == [0, 7, 8, 9]
    assert quality.tolist() == [10_000, 2000, 4000, 6000]
    assert [trace.row(t)[0].tolist() for t in range(4)] == [[0], [0], [0, 1], [0, 1, 2]]
    assert cost(simulate("fifo", trace, 3, 2), trace, 3, 2).fraction == 1 + 36 * Fraction(2, 5) + 2 * 37


@pytest.mark.parametrize(
    ("switch_cost", "settings", "tau"),
    [
        ("0", {}, 1),
        ("1/2", {}, 2),
        ("1", {}, 2),
        ("1.001", {}, 3),
        ("999/1000", {}, 2),
        ("5/2", {"tau": "L"}, 3),
        ("1", {"form": "soft", "near": 0.75}, 5),
    ],
)
def test_uniform_blocks_repeat_each_draw_ceil_lambda_plus_1_times(switch_cost, settings, tau):
    capacity = 3
    trace = uniform_blocks(capacity, 40 * tau + 1, switch_cost, seed=3, **settings)
    assert trace.metadata["parameters"]["tau"] == tau
    assert trace.n_items == capacity + 1
    asked = trace.arrivals[: 40 * tau].reshape(40, tau)
    assert np.all(asked == asked[:, :1])
    # neighbouring blocks may draw the same item, so runs need not have length tau exactly
    assert len(set(asked[:, 0].tolist())) == capacity + 1


def test_uniform_blocks_draw_uniformly_and_independently():
    capacity, blocks = 7, 80_000
    trace = uniform_blocks(capacity, 2 * blocks, 1, seed=11)
    drawn = trace.requests[::2]
    n = capacity + 1
    for counts, cells in ((np.bincount(drawn), n), (np.bincount(drawn[:-1] * n + drawn[1:]), n * n)):
        expected = counts.sum() / cells
        chi = ((counts - expected) ** 2 / expected).sum()
        # six standard deviations of the chi-square law
        assert len(counts) == cells
        assert abs(chi - (cells - 1)) < 6 * math.sqrt(2 * (cells - 1))


def test_a_block_whose_first_request_misses_costs_any_policy_1_plus_lambda():
    for switch_cost in ("0", "1/3", "1", "5/2"):
        lam = Fraction(switch_cost)
        tau = uniform_blocks(4, 1, switch_cost).metadata["parameters"]["tau"]
        loads = [j + lam for j in range(1, tau + 1)]
        assert min([*loads, Fraction(tau)]) >= 1 + lam
        in_update_first = [j + lam for j in range(tau + 1)]
        assert min(in_update_first) == lam


def test_the_hit_rate_of_fifo_jumps_from_0_to_1_where_the_working_set_reaches_the_capacity():
    capacity, steps = 6, 1400
    trace = working_set_sweep(capacity, steps, first=3, last=9, phases=7)
    sizes, lengths = sweep_phases(steps, 3, 9, 7)
    assert sizes == [3, 4, 5, 6, 7, 8, 9]
    misses = miss_units_by_step(simulate("fifo", trace, capacity), trace) // 10_000
    at = 0
    for w, n in zip(sizes, lengths, strict=True):
        phase = misses[at : at + n]
        if w <= capacity:
            assert phase.tolist() == [1] * w + [0] * (n - w)
        else:
            assert np.all(phase == 1)
            # a static set of K of the w items hits K/w
            asked = trace.requests[at : at + n]
            kept = np.isin(asked, asked[:capacity])
            assert abs(kept.mean() - capacity / w) < w / n
        at += n


def test_a_working_set_may_shrink_too():
    assert sweep_phases(10, 9, 3, 3) == ([9, 6, 3], [3, 3, 4])
    trace = working_set_sweep(6, 60, first="1.5K", last="K/2", phases=3)
    assert trace.n_items == 18


def test_consecutive_working_sets_are_disjoint_and_return_in_turn():
    trace = piecewise(4, 4 * 200 * 6, w=5, segment=200, items=20, seed=9)
    sets = [frozenset(part.tolist()) for part in trace.requests.reshape(-1, 200)]
    assert {len(s) for s in sets} == {5}
    for j in range(len(sets) - 4):
        assert not sets[j] & sets[j + 1]
        assert sets[j] == sets[j + 4]


@pytest.mark.parametrize(("drift", "new"), [(0.0, 0), (0.05, 1), (0.25, 2), (0.5, 4), (1.0, 8)])
def test_a_drifting_working_set_replaces_the_stated_share(drift, new):
    trace = piecewise(8, 400 * 6, w=8, segment=400, items=40, drift=drift, seed=2)
    sets = [set(part.tolist()) for part in trace.requests.reshape(-1, 400)]
    assert [len(b - a) for a, b in itertools.pairwise(sets)] == [new] * 5


def test_requests_within_a_segment_are_uniform_or_zipf():
    flat = piecewise(10, 100_000, w=10, segment=100_000, items=30, seed=4)
    counts = np.sort(np.bincount(flat.requests))[::-1][:10]
    assert counts.min() > 9500
    assert counts.max() < 10_500
    steep = piecewise(10, 100_000, w=10, segment=100_000, items=30, zipf=1, seed=4)
    counts = np.sort(np.bincount(steep.requests))[::-1][:10]
    expected = 1 / np.arange(1, 11)
    assert np.allclose(counts / 100_000, expected / expected.sum(), atol=0.006)


def test_the_popular_item_changes_with_the_segment_even_if_the_set_stays():
    trace = piecewise(10, 20_000, w=10, segment=2000, items=10, zipf=2, drift=0, seed=4)
    tops = {int(np.bincount(part).argmax()) for part in trace.requests.reshape(10, 2000)}
    assert len(tops) > 3


def test_the_statement_says_whether_the_parameters_are_in_the_range_of_c5():
    says = lambda **s: make_trace("piecewise", steps=10, **s).metadata["forces"]["statement"]  # noqa: E731
    assert "inside" in says(capacity=32, w="4K", segment="50K", switch_cost=10)
    assert "outside" in says(capacity=33)
    assert "outside" in says(capacity=8, segment="51K")
    assert "outside" in says(capacity=8, w=3)


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("floor", [0.0, 0.25, 0.5, 1.0])
def test_nobody_goes_below_the_noise_floor_and_never_switching_stays_under_its_reciprocal(floor, form):
    capacity, steps = 4, 600
    trace = noise_floor(capacity, steps, 1, 5, floor=floor, form=form, w="2K", segment="10K")
    assert trace.quality.max(initial=0) <= round((1 - floor) * 10_000)
    assert floor_units(trace) >= floor * steps * 10_000
    first = list(OrderedDict.fromkeys(trace.arrivals.tolist()))[:capacity]
    enters = [int(np.flatnonzero(trace.arrivals == i)[0]) for i in first]
    hold = Schedule.from_events(steps, [], [], enters, first)
    price = cost(hold, trace, capacity, 1).fraction
    assert floor * steps <= price <= steps
    if floor:
        assert price <= Fraction(floor_units(trace), 10_000) / Fraction(repr(floor))


def test_noise_floor_asks_the_same_requests_as_piecewise():
    assert np.array_equal(noise_floor(4, 500, seed=3, w=6).arrivals, piecewise(4, 500, seed=3, w=6).arrivals)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("reach", [1, 2, 4])
@pytest.mark.parametrize("near", [0.0, 0.3, 1.0])
def test_ring_rows_are_the_graded_neighbours_by_definition(size, reach, near):
    ring = np.random.default_rng(size).permutation(size).astype(np.int32)
    place = np.arange(3 * size) % size
    indptr, items, quality = ring_rows(place, ring, soft_units(near, reach))
    for t, p in enumerate(place):
        row = dict(zip(items[indptr[t] : indptr[t + 1]], quality[indptr[t] : indptr[t + 1]], strict=True))
        want = {}
        for other in range(size):
            d = min((p - other) % size, (other - p) % size)
            worth = 1 if d == 0 else near * (reach + 1 - d) / reach if d <= reach else 0
            if worth > 0:
                want[int(ring[other])] = round(worth * 10_000)
        assert row == want
    assert all(np.all(np.diff(items[a:b]) > 0) for a, b in itertools.pairwise(indptr))


# ---- pure functions -------------------------------------------------------------------------------------


def answers_per_query(trace: Trace) -> int:
    """Return the largest number of items of positive quality in a row."""
    step = np.repeat(np.arange(trace.n_steps), np.diff(trace.indptr))
    return int(np.bincount(step[trace.quality > 0], minlength=1).max())


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("name", family_names())
def test_a_trace_is_a_function_of_parameters_and_seed(name, form):
    def make(seed):
        return make_trace(name, capacity=5, steps=300, switch_cost="1/2", seed=seed, form=form)

    assert make(0).hash == make(0).hash
    assert (make(0).hash == make(1).hash) == family_info(name).seedless
    if form == "soft":
        assert not make(0).structure.hard
    elif name == "drift":
        # several items may be within the threshold, all of them fully
        assert set(make(0).quality.tolist()) == {10_000}
    else:
        assert answers_per_query(make(0)) == 1
        assert make(0).structure.hard or make(0).structure.scored


def test_the_trace_shares_no_random_stream_with_the_policy():
    trace = uniform_blocks(9, 40, 0, seed=6)
    assert trace.requests.tolist() != child_rng(6, POLICY_ROLE).integers(0, 10, 40, dtype=np.int32).tolist()


@pytest.mark.parametrize("name", family_names())
def test_metadata_says_what_was_made_and_makes_it_again(name):
    own = {"near": 0.4} if "near" in family_info(name).parameters else {}
    trace = make_trace(name, capacity=6, steps="20K", switch_cost="3/2", seed=4, form="soft", **own)
    metadata = json.loads(json.dumps(trace.metadata))
    assert metadata["generator"] == name
    assert set(metadata["forces"]) == {"claim", "statement", "variant", "exact", "optimum"}
    again = make_trace(name, **metadata["parameters"], seed=metadata["seed"])
    assert again.hash == trace.hash


@pytest.mark.parametrize("form", ["hard", "soft"])
@pytest.mark.parametrize("name", family_names())
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_tiny_traces_exist(name, form, steps):
    trace = make_trace(name, capacity=1, steps=steps, form=form)
    assert trace.n_steps == steps
    verify(simulate("fifo", trace, 1), trace, 1)


@pytest.mark.parametrize("name", family_names())
def test_a_million_steps_are_made_at_once(name):
    assert make_trace(name, capacity=100, steps=1_000_000).n_steps == 1_000_000


@pytest.mark.parametrize("name", family_names())
def test_the_registry_describes_each_family_completely(name):
    info = family_info(name)
    assert info.summary.endswith((".", ";"))
    assert info.forces
    assert "form" in info.parameters
    for parameter in info.parameters.values():
        assert parameter.help
        assert parameter.default is not None
    documented = info.function.__doc__
    assert "Guarantee" in documented
    assert "Soft" in documented
    assert families[name].function is info.function


# ---- settings as text -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5K", 8), ("K+1", 6), ("2K-1", 9), ("K/2", 3), ("12", 12), (12, 12), ("1e1", 10), ("2(K+1)", 12)],
)
def test_counts_may_be_relative_to_the_capacity_and_round_halves_up(text, value):
    assert make_trace("cycling", capacity=5, steps=3, w=text).metadata["parameters"]["w"] == value


def test_counts_may_be_relative_to_the_steps_too():
    assert (
        make_trace("piecewise", capacity=5, steps=90, segment="T/4").metadata["parameters"]["segment"] == 23
    )


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("cycling", {"w": 0}, "w must be an integer in 1"),
        ("cycling", {"w": "K-9"}, "'K-9' = -5 with K = 4"),
        ("cycling", {"w": "1.5X"}, "w must be a number or an expression such as 1.5K, got '1.5X'"),
        ("cycling", {"w": "K/0"}, "divides by zero"),
        ("cycling", {"w": ""}, "w must be"),
        ("cycling", {"w": "__import__('os')"}, "w must be"),
        ("cycling", {"w": "9" * 200}, "w must be"),
        ("cycling", {"w": float("nan")}, "w must be"),
        ("cycling", {"w": None}, "w must be"),
        ("cycling", {"form": "sfot"}, "form must be one of hard, soft, got 'sfot'; did you mean 'soft'?"),
        ("cycling", {"near": 0.3}, "near has no effect with form='hard'"),
        ("cycling", {"form": "soft", "near": 1.5}, "near must be a finite number >= 0 and <= 1"),
        ("cycling", {"form": "soft", "reach": 0}, "reach must be an integer in 1"),
        ("cycling", {"capacity": 0}, "capacity must be an integer >= 1, got 0"),
        ("cycling", {"capacity": 2.0}, "capacity must be an integer >= 1, got 2.0"),
        ("cycling", {"steps": -1}, "steps must be an integer in 0"),
        ("cycling", {"switch_cost": "-1"}, "switch_cost must be"),
        ("cycling", {"seed": -1}, "seed must be an integer >= 0"),
        ("piecewise", {"items": "1.5K", "w": "K"}, "items must be at least w + drift*w = 8"),
        ("piecewise", {"segment": 0}, "segment must be an integer in 1"),
        ("piecewise", {"drift": 1.1}, "drift must be"),
        ("piecewise", {"zipf": -1}, "zipf must be"),
        ("uniform_blocks", {"tau": 0}, "tau must be"),
        ("uniform_blocks", {"form": "soft", "near": 1}, "tau must be"),
        ("uniform_blocks", {"form": "soft", "near": 1, "tau": 3}, "near must be below 1"),
        ("noise_floor", {"floor": 2}, "floor must be"),
        ("noise_floor", {"floor": 0.00001}, "floor must be 0, or large enough"),
        ("working_set_sweep", {"phases": 0}, "phases must be"),
        ("working_set_sweep", {"first": "K/9"}, "first must be"),
    ],
)
def test_a_bad_parameter_is_refused_in_one_clear_line(name, settings, words):
    with pytest.raises(InvalidInput) as caught:
        make_trace(name, **{"capacity": 4, "steps": 10, **settings})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_suggest_the_nearest_one():
    with pytest.raises(UnknownName, match=r"unknown family 'cyclng'; did you mean 'cycling'\?"):
        make_trace("cyclng", 4, 10)
    with pytest.raises(UnknownName, match=r"unknown parameter of family 'piecewise' 'segmnt'; did you mean"):
        make_trace("piecewise", 4, 10, segmnt=3)


@given(st.data())
def test_expressions_have_the_value_that_python_gives_them(data):
    number = st.integers(0, 30).map(str) | st.decimals(0, 9, places=2).map(str)
    leaf = number | st.just("K") | number.map(lambda n: n + "K")
    tree = st.recursive(
        leaf,
        lambda inner: (
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join) | inner.map(lambda s: f"({s})")
        ),
        max_leaves=6,
    )
    text = data.draw(tree)
    capacity = data.draw(st.integers(1, 9))
    # Python's own precedence, on exact numbers; 1.5K binds like a product here and there
    python = re.sub(r"(\d+(?:\.\d+)?)K", r"\1*K", text)
    python = re.sub(r"\d+(?:\.\d+)?", lambda m: f"F('{m[0]}')", python)
    try:
        want = eval(python, {"F": Fraction, "K": Fraction(capacity)})
    except ZeroDivisionError:
        with pytest.raises(InvalidInput, match="divides by zero"):
            evaluate("x", text, {"K": capacity})
        return
    assert evaluate("x", text, {"K": capacity}) == want
    assert abs(round_half_up(want) - want) <= Fraction(1, 2)


def test_switching_costs_with_one_tau_give_one_trace():
    assert uniform_blocks(5, 100, "1/2", seed=1).hash == uniform_blocks(5, 100, 1, seed=1).hash
    assert uniform_blocks(5, 100, "1/2", seed=1).hash != uniform_blocks(5, 100, 2, seed=1).hash
