"""Every registered policy makes the same schedule step by step as in the batch loop, and a valid one."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from softhit import (
    Context,
    Decision,
    InvalidInput,
    InvalidSchedule,
    Observation,
    PolicyError,
    Schedule,
    Session,
    Trace,
    UnknownName,
    Variant,
    as_fraction,
    from_arrays,
    from_requests,
    make_policy,
    policy_names,
    simulate,
    verify,
)
from softhit.jit import jit, lean
from softhit.policies import CompiledPolicy, Kernel, policy_info, register_kernel, split_specs
from softhit.policies.kernel import replay

HARD_ONLY = ("belady", "static_opt")
# Parameters that lead elsewhere than the defaults, beside every name on its own.
SPECS = [
    *policy_names(),
    "gated_lru(theta=5/3)",
    "lru_k(k=3,retain=4)",
    "lru_k(k=1)",
    "s3fifo(threshold=1,small=0.5)",
    "2q(kin=0.5,kout=2)",
    "lirs(hir=0.4)",
    "tinylfu(window=0.5,protected=0.3)",
    "belady(bypass=false)",
    "block_marking(tau=2)",
    "priority_lru(w_a=1/3,w_r=5,load_is_access=true)",
    "solar_guarded(a=1)",
]


def name_of(spec: str) -> str:
    return spec.partition("(")[0]


def random_trace(rng: np.random.Generator, hard: bool, scored: bool, sized: bool, n_steps: int) -> Trace:
    """A trace with all that the model allows: no query, no arrival, arrivals that do not serve, sizes."""
    n = int(rng.integers(1, 9))
    quality = np.zeros((n_steps, n))
    asked = rng.integers(0, n, n_steps)
    if hard:
        quality[np.arange(n_steps), asked] = rng.choice([1.0, 0.6, 0.0], n_steps, p=[0.7, 0.2, 0.1])
    else:
        # few levels, so that ties are frequent
        quality = rng.choice([0.0, 0.25, 0.5, 1.0], (n_steps, n), p=[0.5, 0.2, 0.2, 0.1])
    retrievable = (quality > 0) | (rng.random((n_steps, n)) < 0.2)
    score = np.where(retrievable, rng.integers(0, 3, (n_steps, n)), -np.inf) if scored and not hard else None
    return from_arrays(
        quality,
        arrivals=np.where(rng.random(n_steps) < 0.7, asked, rng.integers(-1, n, n_steps)),
        score=score,
        weight=rng.choice([0, 1, 3], n_steps, p=[0.2, 0.6, 0.2]),
        sizes=rng.integers(1, 4, n) if sized else None,
    )


@st.composite
def runs(draw: Any) -> dict[str, Any]:
    """A seed for everything else, and the switches that matter for shrinking."""
    aggregator = draw(st.sampled_from(["best", "best", "mean_topk", "coverage"]))
    return {
        "seed": draw(st.integers(0, 10**6)),
        "n_steps": draw(st.integers(0, 50)),
        "hard": draw(st.booleans()),
        "scored": draw(st.booleans()),
        "sized": draw(st.booleans()),
        "capacity": draw(st.integers(1, 9)),
        "switch_cost": draw(st.sampled_from(["0", "1/3", "1", "5/2"])),
        "touch": draw(st.sampled_from(["retrieved", "threshold(0.5)", "threshold(1)"])),
        "admit": draw(st.sampled_from(["arrival", "miss"])),
        "variant": Variant(
            order=draw(st.sampled_from(["serve_then_update", "update_then_serve"])),
            availability=draw(st.sampled_from(["stream", "pool"])),
            fill=draw(st.sampled_from(["free", "charged"])),
            aggregator=aggregator,
            top_k=1 if aggregator == "best" else draw(st.integers(1, 4)),
        ),
    }


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=25)
@given(run=runs())
def test_both_paths_give_one_valid_schedule(spec: str, run: dict[str, Any]) -> None:
    info = policy_info(name_of(spec))
    trace = random_trace(
        np.random.default_rng(run["seed"]),
        hard=run["hard"] or info.name in HARD_ONLY,
        scored=run["scored"],
        sized=run["sized"] and info.sizes,
        n_steps=run["n_steps"],
    )
    head, _, inside = spec.partition("(")
    inside = ",".join(
        [x for x in (inside.rstrip(")"),) if x] + [f"touch={run['touch']},admit={run['admit']}"]
    )
    both = [
        simulate(
            f"{head}({inside})",
            trace,
            run["capacity"],
            run["switch_cost"],
            seed=run["seed"],
            variant=run["variant"],
            step_by_step=steps,
        )
        for steps in (False, True)
    ]
    assert both[0] == both[1]
    verify(both[0], trace, run["capacity"], run["variant"])


@pytest.mark.parametrize("spec", policy_names(clairvoyant=False))
def test_a_policy_is_a_function_of_trace_and_seed(spec: str) -> None:
    trace = from_requests(np.random.default_rng(0).integers(0, 30, 600))
    policy = make_policy(spec)
    runs = [simulate(policy, trace, 6, seed=seed) for seed in (1, 2, 1)]
    assert runs[0] == runs[2]
    assert (runs[0] == runs[1]) == policy_info(spec).deterministic


@pytest.mark.parametrize("spec", policy_names(clairvoyant=False))
def test_a_policy_does_not_see_the_future(spec: str) -> None:
    rng = np.random.default_rng(4)
    past, futures = rng.integers(0, 12, 300), [rng.integers(0, 12, 200) for _ in range(2)]
    traces = [from_requests(np.r_[past, future], n_items=12) for future in futures]
    assert simulate(spec, traces[0], 4).prefix(300) == simulate(spec, traces[1], 4).prefix(300)


@pytest.mark.parametrize("spec", ["arc", "random"])
def test_a_hundred_thousand_steps_one_by_one(spec: str) -> None:
    rng = np.random.default_rng(8)
    ids = np.where(rng.random(100_000) < 0.5, rng.integers(0, 40, 100_000), rng.integers(0, 500, 100_000))
    trace = from_requests(ids)
    batch = simulate(spec, trace, 64)
    assert len(batch.leave_items) > 100 * 64
    assert simulate(spec, trace, 64, step_by_step=True) == batch


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_a_hundred_thousand_soft_steps_one_by_one(spec: str) -> None:
    if name_of(spec) in HARD_ONLY:
        trace = from_requests(np.random.default_rng(8).integers(0, 200, 100_000))
    else:
        rng = np.random.default_rng(9)
        items = rng.integers(0, 200, (100_000, 3))
        items.sort(axis=1)
        keep = np.c_[np.ones(100_000, bool), items[:, 1:] != items[:, :-1]]
        trace = Trace(
            n_items=200,
            indptr=np.r_[0, np.cumsum(keep.sum(axis=1))],
            items=items[keep],
            quality=rng.choice([2500, 5000, 10_000], int(keep.sum())),
            arrivals=np.where(rng.random(100_000) < 0.8, items[:, 1], -1),
        )
    variant = Variant(aggregator="mean_topk", top_k=2)
    batch = simulate(spec, trace, 40, variant=variant)
    assert simulate(spec, trace, 40, variant=variant, step_by_step=True) == batch


# ------------------------------------------------------------------------------------------- soft hits


class PlainLru:
    """LRU on soft hits in plain words: touch what was retrieved, the best last; admit the arrival."""

    def __init__(self, touch: float, on_miss: bool) -> None:
        self.touch, self.on_miss = touch, on_miss

    def start(self, context: Context) -> None:
        self.capacity = context.capacity
        self.order: list[int] = []

    def decide(self, seen: Observation) -> Decision:
        touched = [i for i, q in zip(seen.retrieved, seen.qualities, strict=True) if q >= self.touch]
        for item in reversed(touched):
            self.order.remove(item)
            self.order.append(item)
        if seen.arrival < 0 or seen.arrival in self.order:
            return Decision()
        if self.on_miss and (touched or seen.weight == 0):
            return Decision()
        victims = (self.order.pop(0),) if len(self.order) == self.capacity else ()
        self.order.append(seen.arrival)
        return Decision(evict=victims, admit=(seen.arrival,))


@pytest.mark.parametrize("admit", ["arrival", "miss"])
@pytest.mark.parametrize("touch", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_lru_on_soft_hits_is_that_of_a_plain_program(top_k: int, touch: float, admit: str) -> None:
    rng = np.random.default_rng(top_k)
    variant = Variant(aggregator="mean_topk", top_k=top_k)
    evictions = 0
    for _ in range(10):
        trace = random_trace(rng, hard=False, scored=bool(rng.integers(2)), sized=False, n_steps=200)
        spec = f"lru(touch=threshold({touch}),admit={admit})" if touch else f"lru(admit={admit})"
        ours = simulate(spec, trace, 3, variant=variant)
        assert ours == simulate(PlainLru(touch, admit == "miss"), trace, 3, variant=variant)
        evictions += len(ours.leave_items)
    assert evictions > 10


RECENCY = [
    "fifo",
    "lru",
    "lfu",
    "arc",
    "2q",
    "lirs(hir=0.3)",
    "tinylfu(window=0.3)",
    "clock",
    "sieve",
    "s3fifo",
]


@pytest.mark.parametrize("spec", RECENCY)
def test_a_step_that_touches_several_items_is_one_step_for_each_the_best_last(spec: str) -> None:
    rng = np.random.default_rng(12)
    n_items, capacity = 60, 8
    variant = Variant(aggregator="mean_topk", top_k=3)
    soft = Session(spec, n_items, capacity, variant=variant)
    single = Session(spec, n_items, capacity)
    several = 0
    for t in range(3000):
        # what is asked for drifts, so that frequent items do not stay for ever
        row = np.unique((rng.integers(0, 12, 9) + t // 20) % n_items)
        arrival = int(rng.choice(row)) if rng.random() < 0.5 else -1
        done = soft.step(row, rng.choice(10_000, len(row), replace=False) + 1, arrival)
        for item in reversed(done.seen.retrieved):
            single.step([item], [10_000])
        assert single.step([], [], arrival, weight=0).decision == done.decision
        several += len(done.seen.retrieved) > 1
    assert several > 500
    assert len(soft.schedule().leave_items) > 50 * capacity


@pytest.mark.parametrize("spec", ["lru", "lfu"])
def test_of_two_items_touched_at_one_step_the_worse_ranked_leaves_first(spec: str) -> None:
    session = Session(spec, n_items=5, capacity=3, variant=Variant(aggregator="mean_topk", top_k=2))
    for item in (0, 1, 2):
        session.step([], [], item, weight=0)
    session.step([0, 1], [9000, 5000])
    for _ in range(2):
        session.step([2], [100])
    assert session.step([], [], 3, weight=0).decision == Decision(evict=(1,), admit=(3,))


def test_admission_on_miss_and_on_arrival_agree_where_the_arrival_is_the_request() -> None:
    trace = from_requests(np.random.default_rng(0).integers(0, 30, 2000))
    for name in policy_names():
        by = [simulate(f"{name}(admit={admit})", trace, 6) for admit in ("arrival", "miss")]
        assert by[0] == by[1], name


# ------------------------------------------------------------------------------------------- the doors


def test_names_of_the_baselines_are_registered() -> None:
    wanted = """fifo lru lfu arc 2q lru_k lirs tinylfu clock sieve s3fifo random gated_lru marking never
        priority_lru belady static_opt static_greedy"""
    assert set(wanted.split()) <= set(policy_names())
    assert {"belady", "static_opt", "static_greedy"} <= set(policy_names(clairvoyant=True))
    for name in wanted.split():
        info = policy_info(name)
        assert info.summary
        assert info.admission
        assert info.eviction


def test_a_name_mentions_the_parameters_that_are_not_at_their_defaults() -> None:
    assert make_policy("gated_lru").name == "gated_lru"
    assert make_policy("gated_lru(theta=1/3)").name == "gated_lru(theta=1/3)"
    assert make_policy("lru_k(k=2, admit=miss)").name == "lru_k(admit=miss)"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gated_lru(theta=-1)", "theta must be .* >= 0, got -1"),
        ("gated_lru(theta=nan)", "theta must be a finite number"),
        ("lru_k(k=0)", r"k must be an integer in 1\.\.64, got 0"),
        ("lru_k(retain=-1)", "retain must be an integer >= 0, got -1"),
        ("2q(kin=1.5)", "kin must be a finite number >= 0 and <= 1, got 1.5"),
        ("lirs(hir=x)", "hir must be a finite number"),
        ("s3fifo(threshold=4)", r"threshold must be an integer in 1\.\.3, got 4"),
        ("tinylfu(window=-0.1)", "window must be"),
        ("belady(bypass=1)", "bypass must be true or false, got 1"),
        ("lru(touch=threshold(2))", "touch threshold must be"),
        ("lru(touch=sometimes)", "touch must be 'retrieved' or"),
        ("lru(admit=never)", "admit must be one of arrival, miss"),
    ],
)
def test_a_bad_parameter_is_named(spec: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(spec, from_requests([0, 1, 0]), 1)


def test_an_unknown_name_or_parameter_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="did you mean 'lru'"):
        make_policy("lrú")
    with pytest.raises(UnknownName, match="did you mean 'theta'"):
        make_policy("gated_lru(tetha=2)")
    with pytest.raises(InvalidInput, match="key=value"):
        make_policy("gated_lru(2)")
    with pytest.raises(InvalidInput, match="module:Class"):
        make_policy("lru(")
    assert split_specs(" lru , 2q(kin=0.5,kout=1),fifo") == ["lru", "2q(kin=0.5,kout=1)", "fifo"]


def test_a_policy_says_what_it_cannot_play() -> None:
    soft = from_arrays([[1.0, 0.5]], arrivals=[0])
    for name in HARD_ONLY:
        with pytest.raises(InvalidInput, match=f"{name} is defined for hard traces only"):
            simulate(name, soft, 1)
    sized = from_arrays([[1.0, 0.0]], arrivals=[0], sizes=[2, 1])
    for name in (n for n in policy_names() if not policy_info(n).sizes):
        with pytest.raises(InvalidInput, match="unit sizes only"):
            simulate(name, sized, 2)
    with pytest.raises(InvalidInput, match=r"call prepare\(trace\) first"):
        Session("belady", n_items=2, capacity=1)


@pytest.mark.parametrize("name", [n for n in policy_names() if policy_info(n).sizes])
def test_an_item_larger_than_the_cache_never_enters(name: str) -> None:
    trace = from_arrays(np.eye(2)[[0, 1, 0, 1, 0, 1]], arrivals=[0, 1, 0, 1, 0, 1], sizes=[5, 1])
    assert set(simulate(name, trace, 3, switch_cost=0).enter_items.tolist()) <= {1}


class Broken:
    """A policy that answers what it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def start(self, context: Context) -> None:
        pass

    def decide(self, seen: Observation) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Decision(evict=(1,)), InvalidSchedule, "item 1: the item leaves but is not held"),
        (Decision(admit=(1,)), InvalidSchedule, "item 1: only the arrival"),
        (Decision(admit=(9,)), InvalidSchedule, "item 9: the item id is out of range"),
        (Decision(evict=(-1,)), InvalidSchedule, "item -1: the item id is out of range"),
        (Decision(admit=(0, 0)), InvalidSchedule, "item 0: the item enters but is already held"),
        ("admit", PolicyError, "decide must return Decision"),
        (Decision(admit=("x",)), PolicyError, "admit must be item ids"),
        (Decision(evict=3), PolicyError, "evict must be item ids"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_step(answer: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"step 0.*{message}"):
        simulate(Broken(answer), from_requests([0, 1]), 1)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (([2, 1], [1, 1]), r"items must be ascending item ids in 0\.\.2"),
        (([1, 1], [1, 1]), "items must be ascending"),
        (([-1], [1]), "items must be ascending"),
        (([3], [1]), "items must be ascending"),
        (([0, 1], [1]), "quality and ranks must have length 2"),
        (([0], [1], 3), r"arrival must be an item id in 0\.\.2, or -1 for none, got 3"),
        (([0], [1], -2), "arrival must be an item id"),
        (([0], [1], 0.5), "arrival must be an item id"),
        (([0.9], [1]), "items must be ascending item ids"),
        (([[0]], [1]), "items must be ascending item ids"),
        (([0, [1]], [1]), "items must be ascending item ids"),
        # units, not fractions: 0.7 would have become 0
        (([0], [0.7]), r"quality must be a one-dimensional array of integers in 1\.\.10000, got \[0\.7\]"),
        (([0], [10_001]), "quality must be"),
        (([0], [0]), "quality must be"),
        (([0], [-1], 0, 1, [0]), "quality must be"),
        (([0], [0], 0, 1, [-1]), "ranks must be"),
        (([0], [1], 0, -1), "weight must be an integer in 0"),
        (([0], [1], 0, 1.5), "weight must be an integer in 0"),
    ],
)
def test_a_malformed_step_is_refused(step: Any, message: str) -> None:
    session = Session("lru", n_items=3, capacity=1)
    with pytest.raises(InvalidInput, match=message):
        session.step(*step)
    assert session.schedule().n_steps == 0


def test_an_entry_of_quality_zero_is_legal_with_a_score() -> None:
    session = Session("lru", n_items=3, capacity=2)
    session.step([0], [10_000], arrival=0)
    served = session.step([0, 1], [0, 5], arrival=1, ranks=[0, 1])
    assert (served.seen.retrieved, served.seen.utility_units) == ((0,), 0)


@pytest.mark.parametrize("sizes", [[1], [1, 0, 1], [1, -1, 1], [1.5, 1, 1], "abc", [1, 2, 2**41]])
def test_a_session_takes_the_sizes_a_trace_takes(sizes: Any) -> None:
    with pytest.raises(InvalidInput, match="sizes must be"):
        Session("lru", n_items=3, capacity=2, sizes=sizes)


def test_a_session_takes_what_simulate_takes_as_a_policy() -> None:
    for policy in (7, Broken, "lur"):
        with pytest.raises(InvalidInput, match="policy"):
            Session(policy, n_items=3, capacity=2)  # type: ignore[arg-type]


def test_a_step_with_a_wrong_answer_does_not_count() -> None:
    policy = Broken(Decision(admit=(0,)))
    session = Session(policy, n_items=3, capacity=2, sizes=[1, 2, 1])
    session.step([0], [1], arrival=0)
    # out and in again, then one that may not enter
    policy.answer = Decision(evict=(0,), admit=(1, 1))
    with pytest.raises(InvalidSchedule, match="step 1, item 1: the item enters but is already held"):
        session.step([1], [1], arrival=1)
    assert session.held == [0]
    assert not session.holds(1)
    assert not session.holds(-1)
    policy.answer = Decision(evict=(0,), admit=(1,))
    assert session.step([1], [1], arrival=1).seen.free == 1
    assert session.schedule() == Schedule.from_events(2, [1], [0], [0, 1], [0, 1])


@pytest.mark.parametrize("spec", policy_names(clairvoyant=False))
def test_a_capacity_beyond_64_bits_is_a_large_one(spec: str) -> None:
    trace = from_requests(np.random.default_rng(0).integers(0, 9, 60))
    runs = [simulate(spec, trace, 10**30, step_by_step=steps) for steps in (False, True)]
    assert runs[0] == runs[1]


def test_a_policy_may_answer_nothing() -> None:
    assert simulate(Broken(None), from_requests([0, 1]), 1).n_insertions == 0


def no_state(context: Context) -> tuple[np.ndarray, ...]:
    return (context.sizes,)


def no_serve(state, rng, t, got, quality, n, utility, weight):
    pass


def evict_nobody(state, rng, t, item, quality, utility, weight, size, free, out):
    return 0


def evict_a_stranger(state, rng, t, item, quality, utility, weight, size, free, out):
    out[0] = 10**6
    return 1


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (evict_nobody, "holds more than its capacity"),
        (evict_a_stranger, "item 1000000: the item id is out of range"),
    ],
)
def test_a_broken_kernel_is_caught_in_both_paths(decide: Any, message: str) -> None:
    serve, rule = lean(no_serve), lean(decide)

    @jit
    def run(state, rng, stream, config, log):
        return replay(serve, rule, state, rng, stream, config, log)

    policy = CompiledPolicy(Kernel("broken", no_state, serve, rule, run))
    trace = from_requests([1, 0, 2])
    for steps in (False, True):
        with pytest.raises(InvalidSchedule, match=message):
            simulate(policy, trace, 1, step_by_step=steps)


def test_two_policies_cannot_share_a_name() -> None:
    info = make_policy("fifo")
    with pytest.raises(InvalidInput, match="'fifo' is registered already"):
        register_kernel(info.kernel, "again", "always", "oldest")
    assert as_fraction("x", "1/3").denominator == 3


def test_bare_requests_are_refused_with_what_makes_a_trace_of_them() -> None:
    with pytest.raises(
        InvalidInput, match=r"trace must be a Trace, as from_requests\(ids\) makes one, got \[0"
    ):
        simulate("lru", [0, 1, 2], capacity=2)  # type: ignore[arg-type]
