"""Exact ratios: machines are the real policies, work functions are OPT, cycles force what is claimed."""

import itertools
import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adversaries.exact import (
    FIFO,
    LRU,
    Clock,
    Difference,
    ExactRatio,
    GatedGlobal,
    GatedLRU,
    MachinePolicy,
    Snapshot,
    Step,
    exact_ratio,
    game_value,
)
from adversaries.exact.arena import free_arena, machine_arena
from adversaries.exact.cycle import largest_ratio
from adversaries.exact.game import simplest_between
from adversaries.exact.product import explore
from adversaries.exact.work import advance, make_rules
from offline_opt import solve
from softhit import Variant, cost, from_requests, simulate
from softhit.errors import InvalidInput, PolicyError, UnknownName

HALF = Fraction(1, 2)
STU = Variant()
UTS = Variant(order="update_then_serve")
POOL = Variant(availability="pool")
UTS_POOL = Variant(order="update_then_serve", availability="pool")
VARIANTS = [STU, UTS, POOL, UTS_POOL]


# --- machines are the registered policies ---------------------------------------------------------------


@st.composite
def requests(draw):
    """Capacity, items and requests that begin with the fill and keep asking for what may be out."""
    capacity = draw(st.integers(1, 4))
    n_items = draw(st.integers(capacity + 1, capacity + 3))
    rest = draw(st.lists(st.integers(0, n_items - 1), min_size=30, max_size=80))
    return capacity, n_items, [*range(capacity), *rest]


NAMED = [
    ("fifo", FIFO()),
    ("lru", LRU()),
    ("clock", Clock()),
    *((f"gated_lru(theta={x})", GatedLRU(x)) for x in (0, 1, 1.5, 2, 3)),
]


def same_history(name, machine, instance):
    capacity, n_items, asked = instance
    trace = from_requests(asked, n_items=n_items)
    return simulate(name, trace, capacity, step_by_step=True) == simulate(
        MachinePolicy(machine), trace, capacity
    )


@pytest.mark.parametrize(("name", "machine"), NAMED, ids=[n for n, _ in NAMED])
@given(instance=requests())
def test_a_machine_plays_as_the_registered_policy_of_its_name(name, machine, instance):
    assert same_history(name, machine, instance)


PRESSURE = (3, 5, [0, 1, 2, *np.random.default_rng(5).integers(0, 5, 400).tolist()])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("fifo", LRU()),
        ("lru", Clock()),
        ("clock", Clock(bit=1)),
        ("clock", FIFO()),
        ("gated_lru(theta=2)", GatedLRU(Fraction(5, 2))),
    ],
)
def test_a_wrong_machine_is_told_from_the_policy(name, wrong):
    assert not same_history(name, wrong, PRESSURE)


def test_the_global_gate_admits_every_theta_th_miss():
    capacity, n_items, asked = PRESSURE
    machine, recent, missed = GatedGlobal(3), [0, 1, 2], 0
    state = machine.initial(capacity, n_items)
    for q in asked[capacity:]:
        state, hit, replaced = machine.step(state, q)
        assert hit == (q in recent)
        missed += not hit
        if not hit and missed % 3 == 0:
            assert replaced == recent.pop(0)
            recent.append(q)
        else:
            assert replaced == -1
            if hit:
                recent.append(recent.pop(recent.index(q)))
    assert 50 < missed < 350


@pytest.mark.parametrize(
    "machine", [FIFO(), LRU(), Clock(), GatedLRU(2), GatedGlobal(2)], ids=lambda m: m.name
)
@given(instance=requests(), data=st.data())
def test_steps_commute_with_renaming_items(machine, instance, data):
    capacity, n_items, asked = instance
    new = data.draw(st.permutations(range(n_items)))

    def renamed(state):
        labels = [None] * n_items
        for i, label in enumerate(state[1]):
            labels[new[i]] = label
        return state[0], tuple(labels)

    state = machine.initial(capacity, n_items)
    for q in asked:
        there = machine.step(renamed(state), new[q])
        state, hit, replaced = machine.step(state, q)
        assert there == Step(renamed(state), hit, new[replaced] if replaced >= 0 else -1)


# --- work functions are OPT -----------------------------------------------------------------------------


def optimum_rises(asked, weights, capacity, n_items, lam, variant):
    """What OPT rises by at each request, by plain dynamic programming over all sets of at most K items.

    No clip, no restriction to K items, items may be dropped: written from the model, not from the module.
    """
    sets = [frozenset(c) for k in range(capacity + 1) for c in itertools.combinations(range(n_items), k)]
    value = {frozenset(range(capacity)): Fraction(0)}
    before, rises = Fraction(0), []
    for t, (q, w) in enumerate(zip(asked, weights, strict=True)):

        def serve(value, q=q, w=w):
            return {c: v + (0 if q in c else w) for c, v in value.items()}

        def update(value, q=q, first=t == 0):
            new = {}
            for c, v in value.items():
                for d in sets:
                    into = d - c
                    if variant.stream and into - {q}:
                        continue
                    price = v + lam * len(into)
                    if d not in new or price < new[d]:
                        new[d] = price
            return new

        value = update(serve(value)) if variant.serves_first else serve(update(value))
        least = min(value.values())
        rises.append(least - before)
        before = least
    return rises


def module_rises(asked, weights, capacity, n_items, lam, variant, reach=None):
    rules = make_rules(capacity, n_items, lam, variant, heaviest=max(weights), reach=reach)
    w = rules.start(frozenset(range(capacity)))
    rises = []
    for q, weight in zip(asked, weights, strict=True):
        new, spare = np.empty_like(w), np.empty_like(w)
        rises.append(Fraction(int(advance(w, q, weight, rules.tables, spare, new)), lam.denominator))
        w = new
        assert w.min() == 0
        assert w.max() <= capacity * (max(weights) + lam) * lam.denominator
    return rises


@st.composite
def small_requests(draw):
    capacity = draw(st.integers(1, 3))
    n_items = draw(st.integers(capacity + 1, 4))
    lam = draw(st.sampled_from([Fraction(0), Fraction(1, 3), HALF, Fraction(1), Fraction(5, 4), Fraction(3)]))
    asked = draw(st.lists(st.integers(0, n_items - 1), min_size=1, max_size=30))
    weights = draw(st.lists(st.integers(1, 2), min_size=len(asked), max_size=len(asked)))
    return asked, weights, capacity, n_items, lam


@pytest.mark.parametrize("variant", [STU, UTS, UTS_POOL], ids=lambda v: v.label)
@given(instance=small_requests())
def test_what_opt_rises_by_is_what_plain_dynamic_programming_says(variant, instance):
    assert module_rises(*instance, variant) == optimum_rises(*instance, variant)


@given(instance=small_requests())
def test_in_the_pool_opt_differs_by_a_first_move_before_the_first_serve_at_most(instance):
    # serve_then_update: here OPT may move at once, in the model only after the first serve
    ours, plain = module_rises(*instance, POOL), optimum_rises(*instance, POOL)
    gap = 0
    for a, b in zip(ours, plain, strict=True):
        gap += b - a
        assert 0 <= gap <= instance[1][0]


@pytest.mark.parametrize(
    ("variant", "reach", "asked"),
    [
        # w reaches 1 + lambda: the return to item 0 costs a miss and a load
        (STU, Fraction(1), [0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]),
        (UTS, Fraction(1, 2), [0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]),
    ],
)
def test_a_smaller_clip_changes_the_optimum(variant, reach, asked):
    instance = (asked, [1] * len(asked), 1, 2, Fraction(1))
    assert module_rises(*instance, variant) == optimum_rises(*instance, variant)
    assert module_rises(*instance, variant, reach=reach) != optimum_rises(*instance, variant)


def ratio_with(machine, capacity, n_items, lam, reach):
    arena = machine_arena(machine, capacity, n_items, STU, True, 10_000)
    product = explore(arena, make_rules(capacity, n_items, lam, STU, reach=reach), 100_000)
    return largest_ratio(product.to, product.alg, product.opt).ratio


def test_a_smaller_clip_changes_ratios_and_a_larger_one_does_not():
    right = exact_ratio("gated_lru(theta=3)", 2, 3, 1).ratio
    assert right == 4
    assert ratio_with(GatedLRU(3), 2, 3, Fraction(1), Fraction(2)) == right
    assert ratio_with(GatedLRU(3), 2, 3, Fraction(1), Fraction(5)) == right
    assert ratio_with(GatedLRU(3), 2, 3, Fraction(1), Fraction(1)) != right


# --- the cycle of largest ratio -------------------------------------------------------------------------


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 6))
    width = draw(st.integers(1, 3))
    to = draw(st.lists(st.integers(-1, n - 1), min_size=n * width, max_size=n * width))
    gain = draw(st.lists(st.integers(0, 5), min_size=n * width, max_size=n * width))
    price = draw(st.lists(st.integers(0, 3), min_size=n * width, max_size=n * width))
    return [np.array(x).reshape(n, width) for x in (to, gain, price)]


def by_enumeration(to, gain, price):
    """The largest ratio of a simple cycle; None if one gains at no price, 0 if none gains."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(len(to)))
    for (u, a), v in np.ndenumerate(to):
        if v >= 0:
            graph.add_edge(u, int(v), key=a)
    best = Fraction(0)
    for nodes in nx.simple_cycles(nx.DiGraph(graph)):
        pairs = list(zip(nodes, nodes[1:] + nodes[:1], strict=True))
        for keys in itertools.product(*(graph[u][v] for u, v in pairs)):
            edges = [(u, a) for (u, _), a in zip(pairs, keys, strict=True)]
            a, b = (int(sum(x[e] for e in edges)) for x in (gain, price))
            if b == 0 and a > 0:
                return None
            if b > 0:
                best = max(best, Fraction(a, b))
    return best


@given(graph=graphs())
def test_the_largest_ratio_is_that_of_enumeration(graph):
    to, gain, price = graph
    found = largest_ratio(to.astype(np.int32), gain, price)
    assert found.ratio == by_enumeration(*graph)
    for cycle in found.cycles:
        ends = [int(to[e]) for e in cycle]
        assert ends == [u for u, _ in cycle[1:] + cycle[:1]]
        a, b = (int(sum(x[e] for e in cycle)) for x in (gain, price))
        assert (found.ratio is None and b == 0 < a) or Fraction(a, b) == found.ratio
    assert bool(found.cycles) == (found.ratio != 0)


# --- the ratios of claims B2 and C5 ---------------------------------------------------------------------


@pytest.mark.parametrize("lam", [Fraction(0), HALF, Fraction(1), Fraction(3)], ids=str)
@pytest.mark.parametrize(("capacity", "n_items"), [(1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (2, 4), (3, 5)])
def test_fifo_lru_and_the_classic_clock_have_ratio_k_plus_1_times_1_plus_lambda(capacity, n_items, lam):
    for policy in ("fifo", "lru", Clock(bit=1)):
        assert exact_ratio(policy, capacity, n_items, lam).ratio == (capacity + 1) * (1 + lam)


@pytest.mark.parametrize("lam", [Fraction(0), Fraction(1, 3), HALF, Fraction(1)], ids=str)
def test_the_registered_clock_whose_entries_have_no_bit_is_worse_for_small_lambda(lam):
    for capacity, n_items in ((1, 2), (2, 3), (3, 4), (4, 5), (3, 5)):
        best = exact_ratio("clock", capacity, n_items, lam)
        assert best.ratio == max((capacity + 1) * (1 + lam), 2 * capacity - 1)
    alg, opt = slopes(exact_ratio("clock", 3, 4, lam), "clock", 8)
    assert alg / opt == max(4 * (1 + lam), 5)


@pytest.mark.parametrize("lam", [Fraction(1, 4), HALF, Fraction(3, 4), Fraction(1), Fraction(3)], ids=str)
def test_in_update_then_serve_it_is_the_larger_of_k_and_k_plus_1_times_lambda(lam):
    for capacity, n_items in ((1, 2), (2, 3), (3, 4), (2, 4)):
        for policy in ("fifo", "lru"):
            best = exact_ratio(policy, capacity, n_items, lam, UTS)
            assert best.ratio == max(capacity, (capacity + 1) * lam)
            assert best.ratio <= (capacity + 1) * lam / min(1, lam)


def test_gated_lru_with_theta_2_and_lambda_1_has_3_9_halves_6_9():
    found = [exact_ratio("gated_lru(theta=2)", k, k + 1, 1).ratio for k in (1, 2, 3, 4)]
    assert found == [3, Fraction(9, 2), 6, 9]
    wrong = [exact_ratio("gated_lru(theta=3)", k, k + 1, 1).ratio for k in (1, 2, 3, 4)]
    assert wrong != found


def test_gated_lru_on_k_plus_1_items_follows_one_formula():
    for lam, theta, k in itertools.product((HALF, Fraction(1), Fraction(2)), (1, 2, 3, 5), (1, 2, 3, 4, 5)):
        shares = (Fraction(k + 1, theta), k / (1 + lam), Fraction(k - 1))
        assert exact_ratio(GatedLRU(theta), k, k + 1, lam).ratio == (theta + lam) * max(shares)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
@pytest.mark.parametrize(
    "machine", [FIFO(), LRU(), Clock(), GatedLRU(2), GatedGlobal(2)], ids=lambda m: m.name
)
def test_symmetry_changes_the_size_and_not_the_ratio(machine, variant):
    for capacity, n_items in ((1, 3), (2, 3), (2, 4)):
        small = exact_ratio(machine, capacity, n_items, HALF, variant)
        large = exact_ratio(machine, capacity, n_items, HALF, variant, relabel=False)
        assert small.ratio == large.ratio
        assert small.vertices < large.vertices


def orbits(machine, capacity, n_items, lam):
    """How many vertices the product has up to renaming of items, counted by trying every renaming."""
    rules = make_rules(capacity, n_items, lam, STU)
    moves = [(p, rules.moved(p)) for p in itertools.permutations(range(n_items))]
    start = machine.initial(capacity, n_items), tuple(rules.start(frozenset(range(capacity))).tolist())
    seen, todo, classes = {start}, [start], set()
    while todo:
        state, work = todo.pop()
        images = []
        for p, m in moves:
            labels = sorted((p[i], label) for i, label in enumerate(state[1]))
            images.append((state[0], tuple(label for _, label in labels), tuple(work[c] for c in m)))
        classes.add(min(images))
        for q in range(n_items):
            w = np.array(work)
            new, spare = np.empty_like(w), np.empty_like(w)
            advance(w, q, 1, rules.tables, spare, new)
            after = machine.step(state, q).state, tuple(new.tolist())
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return len(classes), len(seen)


@pytest.mark.parametrize("machine", [FIFO(), Clock(), GatedLRU(2), GatedGlobal(3)], ids=lambda m: m.name)
def test_the_product_has_one_vertex_for_each_class_of_renamed_ones(machine):
    for capacity, n_items, lam in ((1, 3, HALF), (2, 3, Fraction(1)), (2, 4, Fraction(0))):
        few, many = orbits(machine, capacity, n_items, lam)
        assert exact_ratio(machine, capacity, n_items, lam).vertices == few < many


# --- what the answer says is so -------------------------------------------------------------------------


def slopes(best: ExactRatio, policy, rounds):
    """Cost of ``rounds`` more rounds for the real policy and for the exact OPT, from the empty cache."""
    spent = []
    for n in (rounds, 2 * rounds):
        trace = best.trace(n)
        k, lam, variant = best.capacity, best.switch_cost, best.variant
        opt = solve(trace, k, lam, variant)
        assert opt.kind == "exact"
        spent.append(
            (cost(simulate(policy, trace, k, lam, variant=variant), trace, k, lam, variant), opt.cost)
        )
    (a, x), (b, y) = spent
    return b.fraction - a.fraction, y.fraction - x.fraction


@pytest.mark.parametrize("variant", [STU, UTS], ids=lambda v: v.label)
@pytest.mark.parametrize("policy", ["fifo", "lru", "clock", "gated_lru(theta=2)"])
def test_the_cycle_forces_the_ratio_on_the_registered_policy_against_the_exact_optimum(policy, variant):
    for capacity, n_items, lam in (
        (1, 2, HALF),
        (2, 3, Fraction(1)),
        (2, 4, Fraction(2)),
        (3, 4, Fraction(1)),
    ):
        best = exact_ratio(policy, capacity, n_items, lam, variant)
        assert best.trace(1).structure.requests
        alg, opt = slopes(best, policy, 12)
        assert (alg, opt) == (12 * best.alg, 12 * best.opt)
        assert alg / opt == best.ratio


@given(instance=requests())
@example(instance=PRESSURE)
def test_no_sequence_exceeds_the_ratio_by_more_than_the_additive_constant(instance):
    capacity, n_items, asked = instance
    capacity, n_items = min(capacity, 3), min(n_items, 4)
    asked = [q for q in asked if q < n_items][:50]
    if n_items <= capacity:
        return
    lam = Fraction(3, 2)
    for machine in (FIFO(), GatedLRU(2), GatedLRU(4)):
        best = exact_ratio(machine, capacity, n_items, lam)
        state, alg, opt = machine.initial(capacity, n_items), Fraction(0), Fraction(0)
        rises = optimum_rises(asked, [1] * len(asked), capacity, n_items, lam, STU)
        for q, rise in zip(asked, rises, strict=True):
            state, hit, replaced = machine.step(state, q)
            alg += (not hit) + (replaced >= 0) * lam
            opt += rise
            assert alg <= best.ratio * opt + best.additive


def test_a_policy_that_never_replaces_has_no_ratio():
    best = exact_ratio("never", 2, 3, 1)
    assert (best.ratio, best.opt, best.additive) == (None, 0, None)
    assert best.alg > 0
    alg, opt = slopes(best, "never", 10)
    assert (alg, opt) == (10 * best.alg, 0)


def test_sieve_has_no_ratio_from_three_slots_on():
    assert exact_ratio("sieve", 2, 3, 1).ratio == 6
    best = exact_ratio("sieve", 3, 4, 1)
    assert best.ratio is None
    alg, opt = slopes(best, "sieve", 20)
    assert (alg, opt) == (20 * best.alg, 0)
    for k in (3, 4, 8, 16):
        trace = from_requests([*range(k), 0, k, *([*range(1, k + 1)] * 20)])
        assert cost(simulate("sieve", trace, k), trace, k, 1).fraction >= 2 * k * 20
        assert solve(trace, k, 1).cost.fraction == k + 2


def test_a_ratio_of_zero_is_a_cost_that_stays_bounded():
    best = exact_ratio("lru", 2, 3, 0, UTS)
    assert (best.ratio, best.cycle, best.additive) == (0, (), 0)


# --- snapshots of registered policies -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fifo", "lru", "clock", "gated_lru(theta=2)"])
def test_a_snapshot_of_the_registered_policy_has_the_ratio_of_its_machine(name):
    for capacity, n_items in ((1, 2), (2, 3), (2, 4)):
        shot = exact_ratio(Snapshot(name, Fraction(1)), capacity, n_items, 1)
        machine = exact_ratio(name, capacity, n_items, 1, relabel=False)
        assert (shot.ratio, shot.policy_states) == (machine.ratio, machine.policy_states)


def test_what_is_no_finite_machine_is_refused():
    with pytest.raises(InvalidInput, match="deterministic"):
        exact_ratio("random", 2, 3)
    with pytest.raises(InvalidInput, match="deterministic"):
        exact_ratio("belady", 2, 3)
    with pytest.raises(InvalidInput, match="step number"):
        exact_ratio("lru_k", 2, 3)
    with pytest.raises(InvalidInput, match="at most 50 states"):
        exact_ratio("lfu", 2, 3, max_states=50)
    with pytest.raises(UnknownName, match="gated_lru"):
        exact_ratio("gated_lur", 2, 3)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((0, 2, 1), "capacity"),
        ((2, 2, 1), "n_items"),
        ((2, 13, 1), "n_items"),
        ((2, 3, -1), "switch_cost"),
        ((2, 3, Fraction(1, 40_000)), "16 bits"),
        ((2, 3, 1, Variant(aggregator="mean_topk", top_k=2)), "aggregator"),
    ],
)
def test_a_parameter_out_of_range_is_named(arguments, match):
    with pytest.raises(InvalidInput, match=match):
        exact_ratio("lru", *arguments)


class Liar(FIFO):
    """Reports the wrong thing once."""

    def __init__(self, lie):
        object.__setattr__(self, "lie", lie)

    name, symmetric = "liar", True

    def step(self, state, request):
        after, hit, replaced = super().step(state, request)
        if self.lie == "hit":
            return Step(after, True, -1)
        return Step(after, hit, request if not hit and self.lie == "replaced" else replaced)


@pytest.mark.parametrize("lie", ["hit", "replaced"])
def test_a_machine_that_contradicts_itself_is_caught(lie):
    with pytest.raises(PolicyError, match="liar"):
        exact_ratio(Liar(lie), 2, 3)


class LowestFirst:
    """Evicts the held item with the smallest id, which is not symmetric."""

    name = "lowest first"

    def __init__(self, symmetric):
        self.symmetric = symmetric

    def initial(self, capacity, n_items):
        return (), tuple(int(i < capacity) for i in range(n_items))

    def step(self, state, request):
        if state[1][request]:
            return Step(state, True, -1)
        gone = state[1].index(1)
        return Step(
            ((), tuple(int(i != gone and (h or i == request)) for i, h in enumerate(state[1]))), False, gone
        )


def test_a_machine_that_claims_a_symmetry_it_lacks_is_caught():
    assert exact_ratio(LowestFirst(False), 2, 3, 1).ratio is None
    with pytest.raises(PolicyError, match="not treated alike"):
        exact_ratio(LowestFirst(True), 2, 3)


# --- the game: claims C2 and C3 -------------------------------------------------------------------------


C3 = {HALF: Fraction(7, 3), 1: Fraction(5, 2), Fraction(3, 2): Fraction(13, 5), 2: Fraction(8, 3)}
C3_UTS = {HALF: 1, 1: 2, Fraction(3, 2): Fraction(7, 3), 2: Fraction(5, 2), 4: Fraction(11, 4)}


@pytest.mark.parametrize("lam", [*C3, 4], ids=str)
def test_the_game_on_two_configurations_has_the_values_of_claim_c3(lam):
    stream = game_value(1, 2, lam).value
    assert stream == {**C3, 4: Fraction(14, 5)}[lam] == 3 - Fraction(1) / (1 + lam)
    assert game_value(1, 2, lam, UTS).value == C3_UTS[lam]
    assert game_value(1, 2, lam, POOL).value == 3


@pytest.mark.parametrize("lam", [HALF, 1, Fraction(3, 2), 2, 4], ids=str)
def test_the_threshold_2_1_plus_lambda_attains_it_and_its_neighbours_do_not(lam):
    theta = 2 * (1 + lam)
    value = game_value(1, 2, lam).value
    assert exact_ratio(Difference(theta), 1, 2, lam).ratio == value
    assert exact_ratio(Difference(theta - 1), 1, 2, lam).ratio > value
    assert exact_ratio(Difference(theta + 1), 1, 2, lam).ratio > value
    assert exact_ratio(Difference(2 * lam), 1, 2, lam).ratio == 3


@pytest.mark.parametrize("lam", [Fraction(1, 3), HALF, Fraction(3, 4), 1, Fraction(5, 4), 2], ids=str)
def test_in_the_pool_the_threshold_2_lambda_has_ratio_1_plus_ceil_2_lambda_over_lambda(lam):
    found = exact_ratio(Difference(2 * lam), 1, 2, lam, POOL).ratio
    assert found == 1 + Fraction(math.ceil(2 * lam)) / lam
    # which is the best possible where 2 lambda is an integer or lambda <= 1/2, and not in general
    best = game_value(1, 2, lam, POOL).value
    assert (found == best) == ((2 * lam) % 1 == 0 or lam <= HALF)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
@pytest.mark.parametrize("lam", [Fraction(1, 3), HALF, 1], ids=str)
def test_the_value_is_the_best_of_all_positional_policies_tried_one_by_one(lam, variant):
    arena = free_arena(1, 2, variant, (1,), False)
    product = explore(arena, make_rules(1, 2, Fraction(lam), variant), 10_000)
    choices = []
    for v in range(product.n_vertices):
        for g in range(2):
            answers = [a for a in np.flatnonzero(arena.group == g) if product.to[v, a] >= 0]
            choices.append([(v, g, a) for a in answers])
    best = None
    for picked in itertools.product(*choices):
        rows = np.zeros((product.n_vertices, 2), np.int64)
        for v, g, a in picked:
            rows[v, g] = a
        where = np.arange(product.n_vertices)[:, None], rows
        seen, todo = {0}, [0]
        to = product.to[where]
        while todo:
            new = set(to[todo.pop()].tolist()) - seen
            seen |= new
            todo += new
        keep = np.array([v in seen for v in range(product.n_vertices)])
        inside = np.where(keep[:, None], to, -1).astype(np.int32)
        ratio = largest_ratio(inside, product.alg[where], product.opt[where], sources=0).ratio
        if ratio is not None and (best is None or ratio < best):
            best = ratio
    assert game_value(1, 2, lam, variant).value == best


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
def test_both_strategies_prove_the_value_and_symmetry_does_not_change_it(variant):
    for capacity, n_items, lam in ((1, 2, Fraction(3, 4)), (1, 3, HALF), (2, 3, Fraction(1))):
        game = game_value(capacity, n_items, lam, variant)
        assert game.lower == game.value == game.upper
        assert game_value(capacity, n_items, lam, variant, relabel=False).value == game.value
        if variant.stream:
            best = exact_ratio(game.policy, capacity, n_items, lam, variant)
            assert best.ratio == game.value
            alg, opt = slopes(best, MachinePolicy(game.policy), 8)
            assert alg / opt == game.value


def test_no_policy_is_better_than_the_game():
    for lam in (HALF, Fraction(1), Fraction(2)):
        value = game_value(2, 3, lam).value
        others = [exact_ratio(m, 2, 3, lam).ratio for m in (LRU(), *(GatedLRU(x) for x in range(2, 7)))]
        assert min(others) >= value > 3
        assert min(others) < 3 * value


@pytest.mark.parametrize("lam", [HALF, Fraction(1), Fraction(3, 2), Fraction(2)], ids=str)
def test_the_value_keeps_the_bound_of_claim_c2_and_for_whole_lambda_is_2k_plus_1_less_k_over_1_plus_lambda(
    lam,
):
    for k in (1, 2, 3) if lam.denominator == 1 else (1, 2):
        value = game_value(k, k + 1, lam).value
        assert value >= max(k, (k + 1) * (1 + lam) / (1 + math.ceil(lam)))
        if lam.denominator == 1:
            assert value == 2 * k + 1 - k / (1 + lam)


def test_without_a_switch_cost_the_value_is_k_plus_1():
    assert [game_value(k, k + 1, 0).value for k in (1, 2, 3)] == [2, 3, 4]


def test_small_costs_bring_the_value_to_3_in_update_then_serve():
    # misses of cost 1/u at lambda = 1 are misses of cost 1 at lambda = u
    assert [game_value(1, 2, u, UTS).value for u in (1, 2, 4, 8)] == [
        3 - Fraction(1, u) for u in (1, 2, 4, 8)
    ]


def test_soft_costs_in_the_pool_raise_the_value_above_3_and_not_to_what_threshold_2_lambda_has():
    lam, u = 1, 4
    value = game_value(1, 2, lam * u, POOL, weights=(1, 2, 3, 4)).value
    assert 3 < value == Fraction(7, 2) < 3 + Fraction(u - 1, u * lam)


@given(a=st.fractions(0, 5, max_denominator=30), b=st.fractions(0, 5, max_denominator=30))
def test_the_simplest_fraction_between_two_has_the_smallest_denominator(a, b):
    low, high = min(a, b), max(a, b)
    if low == high:
        return
    found = simplest_between(low, high)
    assert low < found < high
    for d in range(1, found.denominator):
        assert math.floor(low * d) + 1 >= high * d


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"switch_cost": 0, "variant": POOL}, "switch_cost"),
        ({"weights": ()}, "weights"),
        ({"weights": (1, 1)}, "weights"),
        ({"weights": (0,)}, "weights"),
        ({"max_states": 2}, "max_states"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused(keywords, match):
    with pytest.raises(InvalidInput, match=match):
        game_value(1, 2, **keywords)


# --- larger ones ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "capacity", "n_items"),
    [
        ("fifo", 5, 6),
        ("fifo", 8, 9),
        ("lru", 8, 9),
        (Clock(bit=1), 7, 8),
        ("fifo", 4, 6),
        ("lru", 5, 7),
        (Clock(bit=1), 4, 6),
        ("fifo", 3, 7),
        ("lru", 4, 7),
    ],
)
def test_claim_b2_holds_as_far_as_it_is_computed(policy, capacity, n_items):
    for lam in (HALF, Fraction(1)):
        assert exact_ratio(policy, capacity, n_items, lam).ratio == (capacity + 1) * (1 + lam)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "two", "three"), [("2q", 6, 8), ("arc", 6, 8), ("lirs", 7, 8), ("s3fifo", 9, 0)]
)
def test_snapshots_give_the_ratios_of_policies_without_a_machine(policy, two, three):
    best = exact_ratio(policy, 2, 3, 1)
    assert best.ratio == two
    alg, opt = slopes(best, policy, 12)
    assert alg / opt == two
    if three:
        assert exact_ratio(policy, 3, 4, 1).ratio == three


@pytest.mark.slow
def test_the_formulas_of_the_gate_and_of_the_registered_clock_go_on():
    for lam, theta, k in itertools.product((HALF, Fraction(3)), (1, 2, 4), (6, 7)):
        shares = (Fraction(k + 1, theta), k / (1 + lam), Fraction(k - 1))
        assert exact_ratio(GatedLRU(theta), k, k + 1, lam).ratio == (theta + lam) * max(shares)
    for k in (5, 6, 7):
        assert exact_ratio("clock", k, k + 1, 0).ratio == 2 * k - 1


@pytest.mark.slow
def test_a_fourth_item_or_a_fifth_does_not_raise_the_value_of_one_slot_nor_a_fourth_that_of_two():
    for lam in (HALF, Fraction(1), Fraction(2)):
        assert len({game_value(1, n, lam).value for n in (2, 3, 4, 5)}) == 1
        assert len({game_value(2, n, lam).value for n in (3, 4)}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("k", [4, 5])
def test_the_formula_of_the_value_goes_on(k):
    for lam in (1, 2):
        assert game_value(k, k + 1, lam).value == 2 * k + 1 - Fraction(k, 1 + lam)


@pytest.mark.slow
@pytest.mark.parametrize("n_items", [5, 6])
def test_the_gate_s_ratio_is_no_larger_on_more_items(n_items):
    assert exact_ratio("gated_lru(theta=2)", 4, n_items, 1).ratio == 9
