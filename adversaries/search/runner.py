"""What a policy pays along a list of requests, step by step, fast where the policy is compiled.

For searching only: what is reported is priced by :func:`softhit.cost`.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adversaries.search.lasso import ring_trace
from softhit.build import from_requests
from softhit.check import fail
from softhit.cost import miss_units_by_step
from softhit.errors import InvalidSchedule
from softhit.jit import lean
from softhit.policies import CompiledPolicy, Context, Policy
from softhit.policies.kernel import MOST_ROOM, _touch_units
from softhit.retrieval import aggregator_code
from softhit.simulate import POLICY_ROLE, child_rng, simulate
from softhit.trace import DEFAULT_SCALE
from softhit.variant import Variant

__all__ = ["CompiledRunner", "Runner", "SlowRunner", "make_runner"]

MOST_UNITS = 10**9
"""Numerator and denominator of lambda at most, so that sums stay within 64 bits."""
MOST_STATES = 4096
"""Seeds whose random streams are kept ready."""


class Runner(Protocol):
    """Pays for requests: ``bills(requests, seed)[t]`` is the cost of the first t steps, in 1/``unit``."""

    unit: int

    def bills(self, requests: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Return int64[T+1]."""
        ...


@lean
def _price(
    requests: Any,
    leave_ptr: Any,
    leave_items: Any,
    enter_ptr: Any,
    enter_items: Any,
    held: Any,
    numbers: Any,
    out: Any,
) -> None:
    """Sum up misses and paid insertions; numbers: miss, switch, capacity, serves first, free fill."""
    miss, switch, capacity = numbers[0], numbers[1], numbers[2]
    serves_first, free_fill = numbers[3] != 0, numbers[4] != 0
    held[:] = 0
    total, inserted = np.int64(0), np.int64(0)
    out[0] = 0
    for t in range(len(requests)):
        q = requests[t]
        if serves_first and held[q] == 0:
            total += miss
        for x in range(leave_ptr[t], leave_ptr[t + 1]):
            held[leave_items[x]] = 0
        for x in range(enter_ptr[t], enter_ptr[t + 1]):
            held[enter_items[x]] = 1
            inserted += 1
            if not free_fill or inserted > capacity:
                total += switch
        if not serves_first and held[q] == 0:
            total += miss
        out[t + 1] = total


class CompiledRunner:
    """Calls the batch loop of a compiled policy on arrays made once."""

    def __init__(
        self, policy: CompiledPolicy, capacity: int, n_items: int, switch_cost: Fraction, variant: Variant
    ) -> None:
        self._policy, self._rng = policy, child_rng(0, POLICY_ROLE)
        self.unit = switch_cost.denominator
        self._ready: dict[int, Any] = {}
        self._sizes = np.ones(n_items, np.int64)
        self._context = Context(
            capacity=capacity,
            switch_cost=switch_cost,
            n_items=n_items,
            sizes=self._sizes,
            quality_scale=DEFAULT_SCALE,
            utility_scale=DEFAULT_SCALE,
            variant=variant,
            rng=self._rng,
        )
        touch = _touch_units(policy.touch, DEFAULT_SCALE)
        on_miss = int(policy.admit == "miss")
        room = min(capacity, MOST_ROOM)
        self._config = np.array(
            [room, 1, aggregator_code(variant), DEFAULT_SCALE, DEFAULT_SCALE, touch, on_miss, 0, 1, 1],
            np.int64,
        )
        self._numbers = _numbers(capacity, switch_cost, variant)
        self._held = np.zeros(n_items, np.uint8)
        self._room(1024)

    def _room(self, n: int) -> None:
        self._indptr, self._quality = np.arange(n + 1), np.full(n, DEFAULT_SCALE, np.int32)
        self._weight = np.ones(n, np.int32)
        self._pointers = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
        self._ids = np.empty(n, np.int32), np.empty(n, np.int32)

    def _seeded(self, seed: int) -> np.random.Generator:
        state = self._ready.get(seed)
        if state is None:
            state = child_rng(seed, POLICY_ROLE).bit_generator.state
            if len(self._ready) < MOST_STATES:
                self._ready[seed] = state
        self._rng.bit_generator.state = state
        return self._rng

    def bills(self, requests: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Return what the first t steps cost, for t = 0..T."""
        n = len(requests)
        if n > len(self._weight):
            self._room(2 * n)
        ids = requests.astype(np.int32)
        rng = self._seeded(seed)
        quality = self._quality[:n]
        stream = self._indptr[: n + 1], ids, quality, quality, ids, self._weight[:n], self._sizes
        leave, enter = (p[: n + 1] for p in self._pointers)
        log = leave, self._ids[0][:n], enter, self._ids[1][:n]
        kernel = self._policy.kernel
        state = kernel.init(self._context, **self._policy.parameters)
        left, item = kernel.run(state, rng, stream, self._config, log)
        if left < 0:
            raise InvalidSchedule(-1 - left, item, f"policy {self._policy.name} broke a rule")
        out = np.empty(n + 1, np.int64)
        _price(ids, *log, self._held, self._numbers, out)
        return out


class SlowRunner:
    """Simulates step by step; for policies that are Python objects, or programs behind one."""

    def __init__(
        self, policy: Policy, capacity: int, n_items: int, switch_cost: Fraction, variant: Variant
    ) -> None:
        self._policy, self._capacity, self._n_items = policy, capacity, n_items
        self._switch_cost, self._variant = switch_cost, variant
        self._numbers = _numbers(capacity, switch_cost, variant)
        self.unit = switch_cost.denominator

    def bills(self, requests: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Return what the first t steps cost, for t = 0..T."""
        trace = from_requests(requests, n_items=self._n_items)
        made = simulate(
            self._policy, trace, self._capacity, self._switch_cost, seed=seed, variant=self._variant
        )
        out = np.empty(len(requests) + 1, np.int64)
        log = made.leave_ptr, made.leave_items, made.enter_ptr, made.enter_items
        _price(trace.requests, *log, np.zeros(self._n_items, np.uint8), self._numbers, out)
        return out


class SoftRunner:
    """Simulates on soft requests to items on a ring; for policies of any kind."""

    def __init__(
        self,
        policy: Policy,
        capacity: int,
        n_items: int,
        switch_cost: Fraction,
        variant: Variant,
        near: Fraction,
    ) -> None:
        self._policy, self._capacity, self._n_items = policy, capacity, n_items
        self._switch_cost, self._variant, self._near = switch_cost, variant, near
        self.unit = lcm(DEFAULT_SCALE, switch_cost.denominator)
        _numbers(capacity, switch_cost, variant)

    def bills(self, requests: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Return what the first t steps cost, for t = 0..T."""
        trace = ring_trace(requests, self._n_items, self._near)
        made = simulate(
            self._policy, trace, self._capacity, self._switch_cost, seed=seed, variant=self._variant
        )
        misses = miss_units_by_step(made, trace, self._variant)
        paid = made.enter_ptr
        if self._variant.free_fill:
            paid = np.maximum(paid - self._capacity, 0)
        price = self._switch_cost.numerator * (self.unit // self._switch_cost.denominator)
        out = np.zeros(len(requests) + 1, np.int64)
        np.cumsum(misses * (self.unit // DEFAULT_SCALE), out=out[1:])
        return np.asarray(out + price * paid, np.int64)


def _numbers(capacity: int, switch_cost: Fraction, variant: Variant) -> NDArray[np.int64]:
    if max(switch_cost.numerator, switch_cost.denominator) > MOST_UNITS:
        fail("switch_cost", switch_cost, f"a fraction of numbers up to {MOST_UNITS}, for fast search")
    numbers = [switch_cost.denominator, switch_cost.numerator, min(capacity, MOST_ROOM)]
    return np.array([*numbers, int(variant.serves_first), int(variant.free_fill)], np.int64)


def make_runner(
    policy: Policy,
    capacity: int,
    n_items: int,
    switch_cost: Fraction,
    variant: Variant,
    near: Fraction | None = None,
) -> Runner:
    """Return the fast runner for a compiled policy, a slow one for any other; online policies only."""
    if getattr(policy, "clairvoyant", False):
        fail(
            "policy", getattr(policy, "name", policy), "online: one that sees the future cannot be surprised"
        )
    if near is not None:
        return SoftRunner(policy, capacity, n_items, switch_cost, variant, near)
    if isinstance(policy, CompiledPolicy):
        return CompiledRunner(policy, capacity, n_items, switch_cost, variant)
    return SlowRunner(policy, capacity, n_items, switch_cost, variant)
