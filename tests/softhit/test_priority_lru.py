"""Priority-weighted LRU against its definition in fractions, and against LFU where the two must agree."""

from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from softhit import (
    Context,
    Decision,
    InvalidInput,
    Observation,
    Session,
    Trace,
    Variant,
    from_arrays,
    from_requests,
    make_policy,
    simulate,
    verify,
)
from softhit.policies.priority_lru import LAST, NEVER, A, R, _leaves_before

WEIGHTS = ["0.6,0.4", "1,0", "0,1", "1/3,2", "1,1", "0.4,0.6", "1,1000", "7/3,22/7"]


class Written:
    """The definition, word for word: every touch of every item is kept and scored anew."""

    def __init__(self, w_a: str, w_r: str, load_is_access: bool) -> None:
        self.w_a, self.w_r, self.load_is_access = Fraction(w_a), Fraction(w_r), load_is_access

    def start(self, context: Context) -> None:
        self.context = context
        self.touches: dict[int, list[int]] = {}
        self.entry: dict[int, int] = {}
        self.ties = self.now = 0

    def keep(self, item: int, t: int) -> tuple[bool, Fraction]:
        touches = self.touches[item]
        if touches and touches[-1] == t:
            return True, Fraction(len(touches))
        recency = Fraction(1, t - touches[-1]) if touches else Fraction(0)
        return False, self.w_a * len(touches) + self.w_r * recency

    def decide(self, seen: Observation) -> Decision:
        t = seen.step
        for item in seen.retrieved:
            self.touches[item].append(t)
        size = 0 if seen.arrival < 0 else int(self.context.sizes[seen.arrival])
        if seen.arrival < 0 or seen.arrival_held or size > self.context.capacity:
            return Decision()
        free, out = seen.free, []
        while free < size:
            worth = {i: self.keep(i, t) for i in self.touches}
            least = min(worth.values())
            self.ties += list(worth.values()).count(least) > 1
            self.now += least[0]
            victim = min((i for i in worth if worth[i] == least), key=lambda i: (self.entry[i], i))
            del self.touches[victim]
            free += int(self.context.sizes[victim])
            out.append(victim)
        self.touches[seen.arrival] = [t] if self.load_is_access else []
        self.entry[seen.arrival] = t
        return Decision(evict=tuple(out), admit=(seen.arrival,))


def spec_of(weights: str, load_is_access: bool) -> str:
    w_a, w_r = weights.split(",")
    return f"priority_lru(w_a={w_a}, w_r={w_r}, load_is_access={str(load_is_access).lower()})"


def written(weights: str, load_is_access: bool) -> Written:
    return Written(*weights.split(","), load_is_access)


def soft_trace(seed: int, steps: int, n: int = 9, sized: bool = True) -> Trace:
    rng = np.random.default_rng(seed)
    quality = rng.choice([0.0, 0.5, 1.0], (steps, n), p=[0.7, 0.15, 0.15])
    return from_arrays(
        quality,
        arrivals=rng.integers(-1, n, steps),
        weight=rng.choice([0, 1, 3], steps),
        sizes=rng.integers(1, 5, n) if sized else None,
    )


@pytest.mark.parametrize("load_is_access", [False, True])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_it_evicts_what_the_definition_evicts_on_hard_hits(weights: str, load_is_access: bool) -> None:
    rng = np.random.default_rng(1)
    evictions = hits = steps = 0
    for capacity in (1, 2, 5, 12):
        p = 1 / np.arange(1, 31) ** 0.9
        # what is popular moves, so that counts are worth beating
        ids = (rng.choice(30, 1200, p=p / p.sum()) + np.arange(1200) // 300 * 7) % 30
        trace = from_requests(ids)
        got = simulate(spec_of(weights, load_is_access), trace, capacity)
        assert got == simulate(written(weights, load_is_access), trace, capacity)
        evictions += len(got.leave_items)
        steps += 1200
        hits += 1200 - got.n_insertions
    assert evictions > 1000
    assert hits > 0.1 * steps


@settings(max_examples=150)
@given(
    st.integers(0, 10**6),
    st.integers(1, 14),
    st.sampled_from(WEIGHTS),
    st.booleans(),
    st.sampled_from(["best", "mean_topk", "coverage"]),
)
def test_it_evicts_what_the_definition_evicts_on_soft_hits_with_sizes(
    seed: int, capacity: int, weights: str, load_is_access: bool, aggregator: str
) -> None:
    trace = soft_trace(seed, 80)
    variant = Variant(aggregator=aggregator, top_k=1 if aggregator == "best" else 3)
    got = simulate(spec_of(weights, load_is_access), trace, capacity, variant=variant)
    assert got == simulate(written(weights, load_is_access), trace, capacity, variant=variant)
    verify(got, trace, capacity, variant)


def test_the_comparison_with_the_definition_meets_ties_and_touches_of_the_same_step() -> None:
    variant = Variant(aggregator="mean_topk", top_k=3)
    policy = written("0.6,0.4", False)
    ties = now = 0
    for seed in range(20):
        simulate(policy, soft_trace(seed, 400), 9, variant=variant)
        ties, now = ties + policy.ties, now + policy.now
    assert ties > 500
    assert now > 20


@pytest.mark.parametrize("weights", ["0.6,0.4", "1,1", "7,1/9"])
def test_with_recency_worth_no_more_than_a_touch_it_is_lfu_in_the_cache(weights: str) -> None:
    # keep with c touches is at most c w_a + w_r <= (c + 1) w_a < that of any item with c + 1
    rng = np.random.default_rng(2)
    for capacity in (1, 3, 10):
        trace = from_requests(rng.zipf(1.2, 5000) % 60)
        ours = simulate(spec_of(weights, True), trace, capacity)
        assert ours == simulate("lfu", trace, capacity) == simulate(spec_of(weights, False), trace, capacity)
        assert len(ours.leave_items) > 100 * capacity


def test_with_recency_worth_more_than_a_touch_it_is_not_lfu() -> None:
    rng = np.random.default_rng(2)
    trace = from_requests(rng.zipf(1.2, 5000) % 60)
    assert simulate("priority_lru(w_a=1,w_r=2,load_is_access=true)", trace, 10) != simulate("lfu", trace, 10)


def test_recency_alone_is_lru() -> None:
    trace = from_requests(np.random.default_rng(3).zipf(1.2, 5000) % 60)
    ours = simulate("priority_lru(w_a=0,w_r=1,load_is_access=true)", trace, 10)
    assert ours == simulate("lru", trace, 10)
    # a load that is no access leaves first
    assert simulate("priority_lru(w_a=0,w_r=1)", trace, 10) != ours


def test_only_the_ratio_of_the_weights_matters() -> None:
    trace = from_requests(np.random.default_rng(3).zipf(1.2, 2000) % 60)
    same = ["w_a=0.6,w_r=0.4", "w_a=3,w_r=2", "w_a=3/7,w_r=2/7", "w_a=3e9,w_r=2e9"]
    assert len({str(simulate(f"priority_lru({s})", trace, 10).leave_items.tolist()) for s in same}) == 1


class TestWhereThePostDividesByZero:
    def test_what_was_touched_this_step_outlives_what_was_touched_more_often_before(self) -> None:
        session = Session("priority_lru", n_items=4, capacity=2)
        for item in (0, 1):
            session.step([], [], item, weight=0)
        for _ in range(9):
            session.step([0], [10_000])
        assert session.step([1], [10_000], 2).decision == Decision(evict=(0,), admit=(2,))

    def test_what_was_never_touched_leaves_before_what_was_touched_long_ago(self) -> None:
        session = Session("priority_lru", n_items=4, capacity=2)
        session.step([], [], 0, weight=0)
        session.step([0], [10_000])
        for _ in range(500):
            session.step([], [], weight=0)
        session.step([], [], 1, weight=0)
        assert session.step([], [], 2, weight=0).decision == Decision(evict=(1,), admit=(2,))

    def test_of_two_never_touched_the_one_admitted_first_leaves(self) -> None:
        session = Session("priority_lru", n_items=4, capacity=2)
        for item in (1, 0):
            session.step([], [], item, weight=0)
        assert session.step([], [], 2, weight=0).decision == Decision(evict=(1,), admit=(2,))


@given(st.data())
@settings(max_examples=400)
def test_the_comparison_is_exact_up_to_two_to_the_31_steps_and_weights(data: Any) -> None:
    t = data.draw(st.sampled_from([2**31 - 2, 10**7, 50]))
    near = st.integers(0, t) | st.integers(max(0, t - 3), t) | st.just(NEVER)
    weights = [data.draw(st.integers(0, 2**31) | st.integers(2**31 - 2, 2**31)) for _ in range(2)]
    items = np.zeros((2, 3), np.int64)
    count = data.draw(st.integers(0, t))
    for i in range(2):
        last = data.draw(near)
        own = min(max(0, count + data.draw(st.integers(-1, 1))), t)
        items[i] = own, last, data.draw(st.integers(0, t))
    numbers = np.zeros(4, np.int64)
    numbers[A], numbers[R] = weights

    def place(i: int) -> tuple[Any, ...]:
        c, last, since = (int(v) for v in items[i])
        if last == t:
            return (1, Fraction(c), since, i)
        recency = Fraction(weights[1], t - last) if last != NEVER else 0
        return (0, weights[0] * c + recency, since, i)

    assert _leaves_before(numbers, items, np.int64(t), 0, 1) == (place(0) < place(1))
    assert items[0, LAST] >= NEVER


def test_doubles_would_not_do() -> None:
    # two keeps that differ by less than the rounding of a double
    t, d = 10**7, 9_999_999
    worth = [3.0 * 10**6 + 2.0 / d, 3.0 * 10**6 + 2.0 / (d - 1)]
    assert worth[0] == worth[1]
    numbers = np.array([3, 2, 0, 0])
    items = np.array([[10**6, t - d, 1], [10**6, t - d + 1, 0]])
    assert _leaves_before(numbers, items, np.int64(t), 0, 1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("priority_lru(w_a=-1)", "w_a must be .* >= 0, got -1"),
        ("priority_lru(w_r=nan)", "w_r must be a finite number"),
        ("priority_lru(w_a=0, w_r=0)", "w_a must be above 0 if w_r is 0"),
        ("priority_lru(w_a=1/3, w_r=1e12)", r"within 2\^31"),
        ("priority_lru(load_is_access=1)", "load_is_access must be true or false, got 1"),
    ],
)
def test_a_bad_parameter_is_named(spec: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(spec, from_requests([0, 1, 0]), 1)


def test_its_name_shows_the_weights_that_are_not_the_posts() -> None:
    assert make_policy("priority_lru").name == "priority_lru"
    assert make_policy("priority_lru(w_r=0)").name == "priority_lru(w_r=0)"
