"""Block marking and guarded SOLAR: plain programs agree step by step; the guarantee holds for all coins."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversaries.families import make_trace
from softhit import (
    Context,
    InvalidInput,
    Schedule,
    Session,
    Trace,
    Variant,
    cost,
    from_arrays,
    from_requests,
    make_policy,
    simulate,
)
from softhit.policies.solar.guarded import FOLLOW, GAP, GUARD, MARKS, MODE, OFF, WATCH
from softhit.policies.solar.memory import ITEM
from softhit.simulate import POLICY_ROLE, child_rng

LAMBDAS = [Fraction(x) for x in ("0", "1/3", "1", "2", "5", "40")]
# denominators that no 64-bit integer holds
STRANGE = [Fraction("0.1234567890123456789"), Fraction(1, 3**60), 2 + Fraction(1, 10**300)]


def coins_of(seed: int) -> np.random.Generator:
    """The stream from which the virtual block marking of a guarded run draws."""
    return child_rng(seed, POLICY_ROLE).spawn(1)[0]


def bursts(capacity: int, length: int, rounds: int, junk: int) -> np.ndarray:
    """Each of K items ``length`` times in a row, then ``junk`` items that never come back; K others first.

    With junk > 8K SOLAR has forgotten the K items when they come back; block marking forgets no count.
    """
    hot = np.repeat(np.arange(capacity), length)
    once = capacity + np.arange(capacity + rounds * junk)
    parts = [once[:capacity]]
    for r in range(rounds):
        parts += [hot, once[capacity + r * junk : capacity + (r + 1) * junk]]
    return np.concatenate(parts)


@dataclass
class Paid:
    """What a virtual cache has paid."""

    misses: int = 0
    loads: int = 0

    def cost(self, lam: Fraction) -> Fraction:
        return self.misses + lam * self.loads


class PlainBlockMarking:
    """Block marking on sets and lists; it draws ranks in the order in which the compiled one keeps items."""

    def __init__(self, capacity: int, tau: int, rng: np.random.Generator) -> None:
        self.capacity, self.tau, self.rng = capacity, tau, rng
        self.requests: dict[int, int] = {}
        self.order: list[int] = []
        self.marked: set[int] = set()
        self.paid = Paid()

    def exchange(self, i: int, j: int) -> None:
        self.order[i], self.order[j] = self.order[j], self.order[i]

    def play(self, item: int) -> tuple[list[int], list[int]]:
        """One request; return (evicted, admitted)."""
        held = item in self.order
        self.paid.misses += not held
        self.requests[item] = self.requests.get(item, 0) + 1
        if self.requests[item] % self.tau:
            return [], []
        if held:
            if item not in self.marked:
                self.exchange(self.order.index(item), len(self.order) - len(self.marked) - 1)
                self.marked.add(item)
            return [], []
        evicted = []
        if len(self.order) == self.capacity:
            if len(self.marked) == self.capacity:
                self.marked.clear()
            unmarked = self.capacity - len(self.marked)
            at = int(self.rng.integers(0, unmarked))
            evicted = [self.order[at]]
            self.exchange(at, unmarked - 1)
            self.exchange(unmarked - 1, self.capacity - 1)
            self.order.pop()
            self.paid.loads += 1
        self.order.append(item)
        self.marked.add(item)
        return evicted, [item]


def schedule_of(moves: list[tuple[list[int], list[int]]]) -> Schedule:
    leaves = [(t, i) for t, (out, _) in enumerate(moves) for i in out]
    enters = [(t, i) for t, (_, into) in enumerate(moves) for i in into]
    return Schedule.from_events(
        len(moves),
        [t for t, _ in leaves],
        [i for _, i in leaves],
        [t for t, _ in enters],
        [i for _, i in enters],
    )


def plain_block_marking(
    ids: np.ndarray, capacity: int, lam: Fraction, seed: int, tau: int | None
) -> Schedule:
    program = PlainBlockMarking(
        capacity, int(lam // 2) + 1 if tau is None else tau, child_rng(seed, POLICY_ROLE)
    )
    return schedule_of([program.play(i) for i in ids.tolist()])


def plain_guarded(
    ids: np.ndarray, capacity: int, lam: Fraction, a: Fraction, seed: int
) -> tuple[Schedule, int | None]:
    """The schedule, and the step after which the guard fired; SOLAR's own run is taken from its schedule."""
    follows = simulate("solar", from_requests(ids), capacity, lam, seed=seed)
    leader = PlainBlockMarking(capacity, int(lam // 2) + 1, coins_of(seed))
    room = min(capacity, int(ids.max()) + 1)
    slots: list[int] = []
    own, moves, fired = Paid(), [], None
    for t, item in enumerate(ids.tolist()):
        leader.play(item)
        out: list[int] = []
        into: list[int] = []
        if fired is None:
            own.misses += item not in slots
            out = follows.leave_items[follows.leave_ptr[t] : follows.leave_ptr[t + 1]].tolist()
            into = follows.enter_items[follows.enter_ptr[t] : follows.enter_ptr[t + 1]].tolist()
            own.loads += len(out)
            if own.cost(lam) > a * leader.paid.cost(lam) + room * (1 + lam):
                fired = t
        elif item not in slots and item in leader.order:
            into = [item]
            if len(slots) == capacity:
                out = [next(i for i in slots if i not in leader.order)]
        moves.append((out, into))
        if out:
            slots[slots.index(out[0])] = into[0]
        else:
            slots += into
    return schedule_of(moves), fired


def random_ids(rng: np.random.Generator, capacity: int, steps: int) -> np.ndarray:
    """Uniform, skewed, cyclic, or runs of one item."""
    n = int(rng.integers(1, 3 * capacity + 2))
    kind = int(rng.integers(4))
    if kind == 0:
        return rng.integers(0, n, steps)
    if kind == 1:
        return rng.zipf(1.3, steps) % n
    if kind == 2:
        return np.arange(steps) % n
    return np.repeat(rng.integers(0, n, steps), rng.integers(1, 6, steps))[:steps]


def total(schedule: Schedule, trace: Trace, capacity: int, lam: Fraction) -> Fraction:
    return cost(schedule, trace, capacity, lam).fraction


def cost_of_leader(trace: Trace, capacity: int, lam: Fraction, seed: int) -> Fraction:
    """What block marking pays on the coins of a guarded run: the compiled policy, priced as any other."""
    context = Context(
        capacity=capacity,
        switch_cost=lam,
        n_items=trace.n_items,
        sizes=trace.sizes,
        quality_scale=trace.quality_scale,
        utility_scale=trace.quality_scale,
        variant=Variant(),
        rng=coins_of(seed),
    )
    policy: Any = make_policy("block_marking")
    return total(policy.schedule(trace, context), trace, capacity, lam)


# ------------------------------------------------------------------------------------------- block marking


@pytest.mark.parametrize("tau", [None, 1, 2, 7])
@pytest.mark.parametrize("lam", LAMBDAS[:-1], ids=str)
def test_a_plain_program_makes_the_schedule_of_block_marking(lam: Fraction, tau: int | None) -> None:
    rng = np.random.default_rng(11)
    evictions = 0
    for seed in range(12):
        capacity = int(rng.integers(1, 9))
        ids = random_ids(rng, capacity, 600)
        spec = "block_marking" if tau is None else f"block_marking(tau={tau})"
        batch = simulate(spec, from_requests(ids), capacity, lam, seed=seed)
        assert batch == plain_block_marking(ids, capacity, lam, seed, tau)
        assert batch == simulate(spec, from_requests(ids), capacity, lam, seed=seed, step_by_step=True)
        evictions += len(batch.leave_items)
    assert evictions > 200


def test_blocks_of_one_request_are_marking() -> None:
    for seed in range(5):
        trace = from_requests(random_ids(np.random.default_rng(seed), 6, 2000))
        assert simulate("block_marking", trace, 6, "19/10", seed=seed) == simulate(
            "marking", trace, 6, seed=seed
        )
        assert simulate("block_marking(tau=1)", trace, 6, 9, seed=seed) == simulate(
            "marking", trace, 6, seed=seed
        )


@pytest.mark.parametrize(
    ("lam", "tau"), [("0", 1), ("1999/1000", 1), ("2", 2), ("7/2", 2), ("4", 3), ("100", 51)]
)
def test_the_default_block_is_more_than_half_of_lambda_long(lam: str, tau: int) -> None:
    trace = from_requests(np.zeros(200, int))
    assert simulate("block_marking", trace, 1, lam).enter_ptr.tolist().index(1) == tau
    assert 2 * tau > Fraction(lam) >= 2 * (tau - 1)


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from(LAMBDAS[:-1]))
@settings(max_examples=40)
def test_every_step_of_block_marking_keeps_what_its_proof_uses(
    seed: int, capacity: int, lam: Fraction
) -> None:
    rng = np.random.default_rng(seed)
    ids = random_ids(rng, capacity, 200)
    policy: Any = make_policy("block_marking")
    session = Session(policy, int(ids.max()) + 1, capacity, lam, seed=seed % 97)
    tau = int(lam // 2) + 1
    requests: dict[int, int] = {}
    entered: dict[int, int] = {}
    phase: set[int] = set()
    for item in ids.tolist():
        before = set(session.held)
        done = session.step([item], [10_000], arrival=item)
        slots, place, (unmarked, held), *_ = policy._state
        requests[item] = requests.get(item, 0) + 1
        ends = requests[item] % tau == 0
        # only the end of a block moves anything, and an item held at its end was held throughout
        assert (done.decision.admit == (item,)) == (ends and item not in before)
        if item in done.decision.admit:
            entered[item] = requests[item]
        if item in before:
            assert entered[item] % tau == 0
        if ends:
            if item not in phase and len(phase) == capacity:
                phase = set()
            phase.add(item)
        # what is marked is what had a block end in this phase; it is held, and its places are right
        assert set(slots[unmarked:held].tolist()) == phase
        assert set(slots[:held].tolist()) == set(session.held)
        assert all(
            place[i] == (slots[:held].tolist().index(i) if i in session.held else -1) for i in requests
        )


def test_a_touch_and_a_candidate_at_one_step_are_a_request_each() -> None:
    session = Session("block_marking", n_items=4, capacity=2, switch_cost=2)  # tau = 2
    for _ in range(2):
        session.step([0], [10_000], arrival=0)
    assert session.held == [0]
    session.step([0, 1], [10_000, 5000], arrival=1)  # 0 serves; 1 is its first request
    session.step([], [], arrival=1, weight=0)  # without a query: its second
    assert session.held == [0, 1]
    session.step([3], [10_000], arrival=1)  # held, and serves nothing: no request
    state: Any = session.policy
    assert state._state[4].tolist() == [1, 0, 0, 0]


# ------------------------------------------------------------------------------------------- the guard


@pytest.mark.parametrize("a", ["1", "3/2", "3"])
@pytest.mark.parametrize("lam", [*LAMBDAS, *STRANGE], ids=lambda x: f"{float(x):.4g}")
def test_a_plain_program_makes_the_schedule_of_the_guard(lam: Fraction, a: str) -> None:
    rng = np.random.default_rng(5)
    for seed in range(6):
        capacity = int(rng.integers(1, 7))
        ids = random_ids(rng, capacity, 500)
        if seed % 2:
            ids = bursts(capacity, max(2, int(lam * Fraction(3, 5))), 30, 9 * capacity)
        trace = from_requests(ids)
        plain, _ = plain_guarded(ids, capacity, lam, Fraction(a), seed)
        assert simulate(f"solar_guarded(a={a})", trace, capacity, lam, seed=seed) == plain


def test_the_two_programs_agree_in_runs_where_the_guard_fires_and_where_it_does_not() -> None:
    fired = 0
    for seed in range(5):
        for lam, a in (
            (Fraction(50), Fraction(1)),
            (Fraction(201, 2), Fraction(3)),
            (Fraction(4), Fraction(3)),
        ):
            ids = bursts(3, int(lam * Fraction(9, 10)), 25, 27)
            trace = from_requests(ids)
            plain, step = plain_guarded(ids, 3, lam, a, seed)
            both = [
                simulate(f"solar_guarded(a={a})", trace, 3, lam, seed=seed, step_by_step=s)
                for s in ((False, True) if seed == 0 else (False,))
            ]
            assert both[0] == both[-1] == plain
            solar = simulate("solar", trace, 3, lam, seed=seed)
            assert (step is None) == (both[0] == solar)
            if step is not None:
                assert both[0].prefix(step + 1) == solar.prefix(step + 1)
                fired += 1
    assert 5 <= fired <= 10


@pytest.mark.parametrize("lam", [*LAMBDAS, *STRANGE], ids=lambda x: f"{float(x):.4g}")
def test_where_the_guard_does_not_fire_the_schedule_is_that_of_solar(lam: Fraction) -> None:
    for seed in range(3):
        trace = make_trace("piecewise", 8, 3000, seed=seed, w=11, segment=400)
        for spec in ("", "(horizon=2,prior=1,xi_low=0.5,xi_high=0.5)"):
            ours, solar = (
                simulate(f"{name}{spec}", trace, 8, lam, seed=seed) for name in ("solar_guarded", "solar")
            )
            assert ours == solar
            assert len(solar.leave_items) > 5


def test_the_virtual_cache_does_not_touch_the_coins_of_solar() -> None:
    # another tau makes it draw at other times, and draw something else
    trace = make_trace("piecewise", 8, 3000, seed=3, w=11, segment=400)
    runs = [simulate(f"solar_guarded(tau={tau})", trace, 8, 1, seed=4) for tau in (1, 2, 5)]
    assert runs[0] == runs[1] == runs[2] == simulate("solar", trace, 8, 1, seed=4)
    # and the virtual cache draws a stream of its own, different for different seeds
    draws = {tuple(coins_of(seed).integers(0, 2**40, 3).tolist()) for seed in range(5)}
    draws |= {tuple(child_rng(seed, POLICY_ROLE).integers(0, 2**40, 3).tolist()) for seed in range(5)}
    assert len(draws) == 10


@given(st.integers(0, 2**32), st.integers(1, 7), st.sampled_from([*LAMBDAS, *STRANGE]), st.booleans())
@settings(max_examples=80)
def test_the_guarantee_holds_for_all_coins(seed: int, capacity: int, lam: Fraction, burst: bool) -> None:
    rng = np.random.default_rng(seed)
    ids = random_ids(rng, capacity, 300)
    if burst:
        ids = bursts(capacity, int(rng.integers(1, 40)), int(rng.integers(2, 12)), 9 * capacity)
    trace = from_requests(ids)
    for a in ("1", "3/2", "3"):
        for coin in range(3):
            paid = total(
                simulate(f"solar_guarded(a={a})", trace, capacity, lam, seed=coin), trace, capacity, lam
            )
            leader = cost_of_leader(trace, capacity, lam, coin)
            assert paid <= Fraction(a) * leader + (2 * capacity + 1) * (1 + lam)


def gap_of(state: Any, lam: Fraction, a: Fraction) -> Fraction:
    """What the long integer says, in units of cost."""
    one = np.lcm(lam.denominator, 10_000) * a.denominator
    return Fraction(sum(int(d) << (30 * j) for j, d in enumerate(state[GAP])), int(one))


@pytest.mark.parametrize("a", ["1", "5/3", "3"])
@pytest.mark.parametrize("lam", ["0", "1/3", "2", "7"])
def test_an_opponent_who_sees_both_caches_cannot_break_the_guarantee(lam: str, a: str) -> None:
    # asks for what the virtual cache holds and the real one does not, or is about to load
    price, factor = Fraction(lam), Fraction(a)
    fired = 0
    for seed in range(3):
        capacity, n = 4, 60
        policy: Any = make_policy(f"solar_guarded(a={a})")
        session = Session(policy, n, capacity, price, seed=seed)
        rng = np.random.default_rng([seed, 3])
        tau = int(price // 2) + 1
        leader = PlainBlockMarking(capacity, tau, coins_of(seed))
        real, modes = Paid(), [WATCH]
        for _ in range(250):
            lead = sorted(set(leader.order) - set(session.held))
            rest = set(range(n)) - set(leader.order) - set(session.held)
            item = max(rest, key=lambda i: leader.requests.get(i, 0) % tau)
            if lead:
                item = int(rng.choice(lead))
            full = len(session.held) == capacity
            paid, owed = real.cost(price), leader.paid.cost(price)
            behind = capacity - len(leader.order) + len(lead)
            real.misses += not session.holds(item)
            done = session.step([item], [10_000], arrival=item)
            real.loads += bool(done.decision.admit) and full
            leader.play(item)
            state = policy._state
            modes.append(int(state[GUARD][MODE]))
            assert set(np.flatnonzero(state[MARKS + 1] >= 0).tolist()) == set(leader.order)
            assert set(state[4][: len(session.held), ITEM].tolist()) == set(session.held)
            if modes[-1] == WATCH:
                gap = real.cost(price) - factor * leader.paid.cost(price) - capacity * (1 + price)
                assert gap_of(state, price, factor) == gap
                assert paid <= factor * owed + capacity * (1 + price)
            else:
                # whatever is paid beyond what the leader pays brings the follower nearer to it
                now = capacity - len(leader.order) + len(set(leader.order) - set(session.held))
                extra = real.cost(price) - paid - (leader.paid.cost(price) - owed)
                assert now <= behind <= capacity
                assert extra <= (1 + price) * (behind - now)
            assert real.cost(price) <= factor * leader.paid.cost(price) + (2 * capacity + 1) * (1 + price)
        assert modes == sorted(modes)  # watch, then follow; never back
        fired += modes[-1] == FOLLOW
    assert fired >= 2


# ------------------------------------------------------------------------------------------- outside


def test_on_soft_hits_the_watch_ends_and_the_run_is_that_of_solar() -> None:
    for seed in range(3):
        trace = make_trace("piecewise", 6, 2500, seed=seed, w=9, form="soft")
        for variant in (Variant(), Variant(aggregator="mean_topk", top_k=2)):
            ours, solar = (
                simulate(name, trace, 6, 1, seed=seed, variant=variant)
                for name in ("solar_guarded(a=1)", "solar")
            )
            assert ours == solar


STEPS = {
    "a hit beside a candidate": {"items": [0, 5], "quality": [5000, 10_000], "arrival": 5},
    "a miss without an arrival": {"items": [5], "quality": [10_000]},
    "an arrival that does not serve": {"items": [6], "quality": [10_000], "arrival": 5},
    "a weight of two": {"items": [0], "quality": [10_000], "arrival": 0, "weight": 2},
    "a missed weight of two": {"items": [5], "quality": [10_000], "arrival": 5, "weight": 2},
    "a candidate without a query": {"items": [], "quality": [], "arrival": 5, "weight": 0},
    "a retrieved item that is no use": {"items": [0], "quality": [0], "arrival": 0, "ranks": [0]},
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_is_not_plain_ends_the_watch(name: str) -> None:
    policy: Any = make_policy("solar_guarded")
    session = Session(policy, 10, 2, 1, seed=0)
    for item in (0, 1, 0, 2):
        session.step([item], [10_000 - item], arrival=item)
    assert policy._state[GUARD][MODE] == WATCH
    assert session.holds(0)
    session.step(**STEPS[name])  # type: ignore[arg-type]
    session.step([0], [10_000], arrival=0)
    assert policy._state[GUARD][MODE] == OFF


def test_quality_below_one_is_plain_and_counted_exactly() -> None:
    rng = np.random.default_rng(2)
    policy: Any = make_policy("solar_guarded")
    session = Session(policy, 9, 3, "1/7", seed=1)
    leader = PlainBlockMarking(3, 1, coins_of(1))
    worth = rng.integers(1, 10_001, 9)
    paid = owed = Fraction(0)
    for _ in range(400):
        item = int(rng.integers(0, 9))
        full = len(session.held) == 3
        paid += 1 - session.holds(item) * Fraction(int(worth[item]), 10_000)
        owed += 1 - (item in leader.order) * Fraction(int(worth[item]), 10_000)
        loads = leader.paid.loads
        paid += Fraction(1, 7) * bool(
            session.step([item], [int(worth[item])], arrival=item).decision.evict and full
        )
        leader.play(item)
        owed += Fraction(1, 7) * (leader.paid.loads - loads)
        assert policy._state[GUARD][MODE] == WATCH
        assert gap_of(policy._state, Fraction(1, 7), Fraction(3)) == paid - 3 * owed - 3 * Fraction(8, 7)


def test_a_soft_step_after_the_guard_has_fired_is_played_and_valid() -> None:
    ids = bursts(3, 45, 20, 27)
    head = from_requests(ids)
    rng = np.random.default_rng(1)
    n = head.n_items
    rows = np.zeros((len(ids) + 300, n))
    rows[np.arange(len(ids)), ids] = 1
    rows[len(ids) :, :6] = rng.choice([0, 0.5, 1], (300, 6))
    arrivals = np.r_[ids, rng.integers(-1, 6, 300)]
    trace = from_arrays(rows, arrivals=arrivals)
    batch = simulate("solar_guarded", trace, 3, 50, seed=0)
    assert batch == simulate("solar_guarded", trace, 3, 50, seed=0, step_by_step=True)
    assert batch != simulate("solar", trace, 3, 50, seed=0)
    assert batch.n_insertions > simulate("solar_guarded", head, 3, 50, seed=0).n_insertions


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("solar_guarded(a=1/2)", "a must be .* >= 1, got '1/2'"),
        ("solar_guarded(a=x)", "a must be"),
        ("solar_guarded(tau=0)", "tau must be an integer >= 1, got 0"),
        ("solar_guarded(b=3)", "unknown parameter of policy 'solar_guarded' 'b'"),
        ("solar_guarded(horizon=0)", "horizon must be"),
        ("block_marking(tau=0)", "tau must be an integer >= 1, got 0"),
        ("block_marking(tau=1.5)", "tau must be an integer"),
    ],
)
def test_a_bad_parameter_is_named(spec: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(spec, from_requests([0, 1, 0]), 1)


def test_the_name_shows_what_is_not_default() -> None:
    assert make_policy("solar_guarded(a=3)").name == "solar_guarded"
    assert make_policy("solar_guarded(a=5/2,prior=0.1)").name == "solar_guarded(a=5/2)"
