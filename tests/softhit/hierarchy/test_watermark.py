"""L1's rule as a policy of traces: its batches against a plain one written here, and its two limits."""

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adversaries.families import make_trace
from adversaries.search import Lasso, Objective
from offline_opt import solve
from softhit import (
    Context,
    Decision,
    InvalidInput,
    Observation,
    Trace,
    cost,
    from_arrays,
    from_requests,
    make_policy,
    simulate,
    verify,
)
from softhit.hierarchy.watermark import ContextL1

GUIDES = ["lru", "fifo", "priority_lru", "lfu", "solar"]


class Plain:
    """The rule for LRU and FIFO: first the batch, then the load; uses of one step are ordered by item."""

    def __init__(self, guide: str, high: str, low: str) -> None:
        self.guide, self.high, self.low = guide, Fraction(high), Fraction(low)

    def start(self, context: Context) -> None:
        self.since: dict[int, int] = {}
        self.size = context.sizes.tolist()
        self.capacity = context.capacity

    def used(self, item: int) -> int:
        return sum(self.size[i] for i in [*self.since, item])

    def decide(self, seen: Observation) -> Decision:
        if self.guide == "lru":
            self.since.update(dict.fromkeys(seen.retrieved, seen.step))
        item = seen.arrival
        if item < 0 or seen.arrival_held or self.size[item] > self.capacity:
            return Decision()
        out = []
        if self.used(item) > self.high * self.capacity:
            while self.since and self.used(item) > self.low * self.capacity:
                out.append(min(self.since, key=lambda i: (self.since[i], i)))
                del self.since[out[-1]]
        self.since[item] = seen.step
        return Decision(evict=tuple(out), admit=(item,))


def sized_trace(seed: int, steps: int = 300, n: int = 20, most: int = 9, other: float = 0.2) -> Trace:
    rng = np.random.default_rng(seed)
    ids = (rng.zipf(1.4, steps) + np.arange(steps) // 60) % n
    sizes = rng.integers(1, most + 1, n)
    quality = np.eye(n)[ids]
    arrivals = np.where(rng.random(steps) >= other, ids, rng.integers(-1, n, steps))
    weight = np.where(rng.random(steps) < other / 2, 0, sizes[ids])
    return from_arrays(quality, arrivals=arrivals, weight=weight, sizes=sizes)


@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.sampled_from(["lru", "fifo"]),
    st.sampled_from([("0.85", "0.65"), ("1", "1"), ("1", "0"), ("0.5", "0.5"), ("0", "0"), ("1/3", "1/7")]),
)
def test_batches_are_those_of_a_plain_rule(seed: int, capacity: int, guide: str, marks: Any) -> None:
    trace = sized_trace(seed)
    got = simulate(f"context_l1:{marks[0]}:{marks[1]}:{guide}", trace, capacity, seed=seed)
    assert got == simulate(Plain(guide, *marks), trace, capacity)
    verify(got, trace, capacity)


@pytest.mark.parametrize("guide", GUIDES)
def test_after_a_batch_what_is_held_is_below_the_low_mark_and_never_above_the_high_one(guide: str) -> None:
    trace, capacity = sized_trace(3, steps=2000, most=3), 40
    schedule = simulate(f"context_l1:{guide}", trace, capacity, seed=1)
    held: set[int] = set()
    batches, loaded = [], 0
    for t in range(trace.n_steps):
        gone, come = (
            set(items[ptr[t] : ptr[t + 1]].tolist())
            for ptr, items in (
                (schedule.leave_ptr, schedule.leave_items),
                (schedule.enter_ptr, schedule.enter_items),
            )
        )
        held = held - gone | come
        used = int(trace.sizes[list(held)].sum())
        loaded += int(trace.sizes[list(come)].sum())
        assert used <= math.floor(0.85 * capacity)
        if gone:
            assert used <= math.floor(0.65 * capacity)
            batches.append(loaded)
    # claim G2: between two batches at least (high - low) * capacity was loaded, but for the last load's size
    assert len(batches) > 20
    assert min(b - a for a, b in pairwise(batches)) > 0.2 * capacity - 2 * 3


@pytest.mark.parametrize("guide", ["lru", "fifo"])
def test_with_both_marks_at_the_capacity_it_is_the_policy_itself(guide: str) -> None:
    for seed in range(20):
        # every step asks for what arrives, so that no two uses share a step
        trace = sized_trace(seed, most=1 if seed % 2 else 9, other=0)
        assert simulate(f"context_l1:1:1:{guide}", trace, 25) == simulate(guide, trace, 25)


def test_a_batch_follows_the_score_of_the_post() -> None:
    # item 1 was used twice, item 2 once and later, item 0 never
    ids = [0, 1, 1, 1, 2, 2, 3]
    trace = from_arrays(np.eye(4)[ids], arrivals=ids)
    schedule = simulate("context_l1:1:0.7:priority_lru", trace, 3)
    assert schedule.leave_items.tolist() == [0, 2]


def test_a_guide_of_the_registry_keeps_what_its_own_cache_would_hold() -> None:
    # LFU holds the popular item through a scan, LRU does not
    ids = [0] * 5 + [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    trace = from_arrays(np.eye(13)[ids], arrivals=ids)
    assert 0 not in simulate("context_l1:lfu", trace, 8).leave_items.tolist()
    assert 0 in simulate("context_l1:lru", trace, 8).leave_items.tolist()


@pytest.mark.parametrize("guide", GUIDES)
def test_it_is_a_function_of_trace_and_seed(guide: str) -> None:
    trace = sized_trace(5, steps=1000)
    policy = make_policy(f"context_l1:{guide}")
    runs = [simulate(policy, trace, 30, seed=seed) for seed in (1, 1)]
    assert runs[0] == runs[1]
    assert len(runs[0].leave_items) > 100


def test_it_can_be_attacked_and_compared_with_the_optimum() -> None:
    # two items would fit, but the high mark of a cache of two is one
    assert Objective("context_l1:lru", capacity=2, n_items=3)(Lasso((), (0, 1))).ratio is None
    trace = from_requests([0, 1] * 50)
    assert cost(simulate("context_l1:lru", trace, 2, 1), trace, 2, 1).fraction == 100 + 98
    best = solve(trace, 2, 1).cost
    assert best is not None
    assert best.fraction == 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("context_l1:", "policy must be context_l1:GUIDE"),
        ("context_l1:lur", "did you mean 'lru'"),
        ("context_l1:belady", "sees the future"),
        ("context_l1:solar_guarded", "sizes other than 1"),
        ("context_l1:1.5:0:lru", r"high must be a number in 0\.\.1"),
        ("context_l1:0.5:0.6:lru", "low must be at most high = 1/2"),
        ("context_l1:0.5:x:lru", "low must be a finite number"),
    ],
)
def test_a_bad_name_says_what_is_wrong(spec: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_policy(spec)


def test_its_name_makes_it_again() -> None:
    for spec in ("context_l1:lru", "context_l1:9/10:1/2:priority_lru", "context_l1:gated_lru(theta=2)"):
        made = make_policy(spec)
        assert isinstance(made, ContextL1)
        assert made.name == spec


def test_batches_do_not_let_go_of_what_was_popular_once() -> None:
    # the numbers of docs/l1-vs-opt.md
    for steps, stuck in ((1000, 1960), (4000, 7960)):
        trace = make_trace("frequency_pollution", 20, steps, popular=10, repeats=2, fresh=12)
        for guide, price in (("priority_lru", stuck), ("lru", 24)):
            assert cost(simulate(f"context_l1:{guide}", trace, 20), trace, 20, 1).fraction == price
