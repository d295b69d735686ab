"""A registered compiled policy as a finite-state machine: its states are snapshots of its own arrays."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from adversaries.exact.machine import Step
from softhit.errors import InvalidInput
from softhit.policies import CompiledPolicy, Context, make_policy, policy_info
from softhit.trace import DEFAULT_SCALE
from softhit.variant import Variant

__all__ = ["Snapshot"]


class Snapshot:
    """The machine inside a deterministic compiled policy, for one lambda.

    Two snapshots that differ in a forgotten corner of an array count as two states, so the exact methods
    merge states that behave alike. A policy with counters that grow for ever (``lfu``) has no finite
    machine; the exact methods then stop at their limit of states.

    Parameters
    ----------
    policy : str
        A registered name with parameters, such as ``"sieve"``.
    switch_cost : Fraction
        lambda, which the policy may read.
    variant : Variant, optional

    Raises
    ------
    InvalidInput
        The policy is not compiled, is clairvoyant or draws random numbers, or reads the step number.

    Examples
    --------
    >>> machine = Snapshot("fifo", Fraction(1))
    >>> machine.step(machine.initial(2, 3), 2).replaced
    0
    """

    symmetric = False

    def __init__(self, policy: str, switch_cost: Fraction, variant: Variant | None = None) -> None:
        made = make_policy(policy)
        if not isinstance(made, CompiledPolicy):
            raise InvalidInput(f"policy must be a compiled one to be snapshot, got {policy!r}")
        info = policy_info(made.kernel.name)
        if info.clairvoyant or not info.deterministic:
            raise InvalidInput(f"policy must be deterministic and online to be a machine, got {policy!r}")
        self.name = made.name
        self._kernel, self._parameters = made.kernel, made.parameters
        self._switch_cost, self._variant = switch_cost, variant or Variant()

    def initial(self, capacity: int, n_items: int) -> Hashable:
        """Run the requests 0..K-1 from the empty cache."""
        context = Context(
            capacity=capacity,
            switch_cost=self._switch_cost,
            n_items=n_items,
            sizes=np.ones(n_items, np.int64),
            quality_scale=DEFAULT_SCALE,
            utility_scale=DEFAULT_SCALE,
            variant=self._variant,
            rng=np.random.default_rng(0),
        )
        arrays = self._kernel.init(context, **self._parameters)
        self._rng, self._capacity = context.rng, capacity
        self._shapes = [(a.dtype, a.shape) for a in arrays]
        state: Hashable = (frozenset(), tuple(a.tobytes() for a in arrays))
        for item in range(capacity):
            state = self.step(state, item).state
        return state

    def step(self, state: Any, request: int) -> Step:
        """Call the policy's own functions on a copy of the snapshot."""
        now = self._play(state, request, 0)
        if self._play(state, request, 1_000_003) != now:
            raise InvalidInput(f"policy {self.name} reads the step number, so it has no finite machine")
        return now

    def _play(self, state: Any, request: int, t: int) -> Step:
        held, parts = state
        arrays = tuple(
            np.frombuffer(part, dtype).reshape(shape).copy()
            for part, (dtype, shape) in zip(parts, self._shapes, strict=True)
        )
        hit = request in held
        got, worth = np.array([request], np.int32), np.array([DEFAULT_SCALE], np.int32)
        full = np.int64(DEFAULT_SCALE if hit else 0)
        self._kernel.serve(arrays, self._rng, t, got, worth, int(hit), full, 1)
        replaced = -1
        if not hit:
            out = np.empty(self._capacity + 1, np.int32)
            free = self._capacity - len(held)
            scale = DEFAULT_SCALE
            m = self._kernel.decide(arrays, self._rng, t, request, scale, 0, 1, 1, free, out)
            if m > 1 or (m == 0 and free == 0):
                raise InvalidInput(f"policy {self.name} must replace one item by one, it evicted {m}")
            if m == 1:
                replaced = int(out[0])
            if m >= 0:
                held = (held - {replaced}) | {request}
        return Step((held, tuple(a.tobytes() for a in arrays)), hit, replaced)
