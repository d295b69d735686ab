"""Run a policy on a trace, or step by step against a live opponent, and return its schedule."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import as_array, check_int, fail
from softhit.errors import InvalidInput, InvalidSchedule, PolicyError
from softhit.exact import check_switch_cost
from softhit.policies import CompiledPolicy, Context, Decision, Observation, Policy, make_policy
from softhit.retrieval import aggregator_code, retrieve, utility, utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["POLICY_ROLE", "TRACE_ROLE", "Served", "Session", "child_rng", "context_of", "simulate"]

TRACE_ROLE, POLICY_ROLE = 0, 1


def child_rng(seed: int, role: int) -> np.random.Generator:
    """Return the random stream of one role of a run, so that trace and policy never share one."""
    return np.random.default_rng(np.random.SeedSequence([check_int("seed", seed, low=0), role]))


@dataclass(frozen=True, slots=True)
class Served:
    """What happened at one step of a :class:`Session`: the observation, and what the policy did."""

    seen: Observation
    decision: Decision


_MOST = 2**31 - 1


def _integers(name: str, value: Any, low: int, high: int, dtype: Any = np.int32) -> NDArray[Any]:
    """Return a one-dimensional array of integers in [low, high]; nothing is rounded."""
    allowed = f"a one-dimensional array of integers in {low}..{high}"
    array = as_array(name, value, allowed)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        fail(name, value, allowed)
    if len(array) and (array.min() < low or array.max() > high):
        fail(name, value, allowed)
    return array.astype(dtype, copy=False)


def _ids(value: Any, what: str, name: str, step: int) -> tuple[int, ...]:
    try:
        return tuple(operator.index(i) for i in value)
    except TypeError:
        raise PolicyError(f"policy {name} at step {step}: {what} must be item ids, got {value!r}") from None


class Session:
    """A cache with a live policy, driven one step at a time.

    Adaptive adversaries and users' own Python policies run through this; compiled policies give the same
    schedule here as in the batch loop.

    Parameters
    ----------
    policy : Policy or str
    n_items, capacity : int
    switch_cost : number or str
    variant : Variant, optional
    sizes : int64[N], optional
    quality_scale : int
    seed : int
        Seeds the policy's random stream.

    Examples
    --------
    >>> session = Session("fifo", n_items=3, capacity=2)
    >>> for item in (0, 1, 2, 0):
    ...     served = session.step([item], [10_000], arrival=item)
    >>> served.seen.retrieved, served.decision
    ((), Decision(evict=(1,), admit=(0,)))
    """

    def __init__(
        self,
        policy: Policy | str,
        n_items: int,
        capacity: int,
        switch_cost: Any = 1,
        variant: Variant | None = None,
        sizes: Any = None,
        quality_scale: int = 10_000,
        seed: int = 0,
    ) -> None:
        self.variant = variant or Variant()
        self.capacity = check_int("capacity", capacity, low=1)
        self.n_items = check_int("n_items", n_items, low=0)
        chosen = make_policy(policy) if isinstance(policy, str) else policy
        if isinstance(chosen, type) or not isinstance(chosen, Policy):
            fail("policy", policy, "a name, or an object with start(context) and decide(observation)")
        self.policy: Policy = chosen
        self.name = str(getattr(self.policy, "name", type(self.policy).__name__))
        units = np.ones(self.n_items, np.int64) if sizes is None else sizes
        self._sizes: NDArray[np.int64] = _integers("sizes", units, 1, 2**40, np.int64).copy()
        if len(self._sizes) != self.n_items:
            fail("sizes", sizes, f"{self.n_items} integers, one for each item")
        self._sizes.setflags(write=False)
        self._scale = check_int("quality_scale", quality_scale, low=1, high=10**9)
        self._full = utility_scale(self._scale, self.variant)
        self._aggregator = aggregator_code(self.variant)
        k = self.variant.top_k
        self._got, self._worth = np.empty(k, np.int32), np.empty(k, np.int32)
        self._held: NDArray[np.uint8] = np.zeros(self.n_items, np.uint8)
        self._free = self.capacity
        self._steps = 0
        self._leaves: list[tuple[int, int]] = []
        self._enters: list[tuple[int, int]] = []
        self.policy.start(
            Context(
                capacity=self.capacity,
                switch_cost=check_switch_cost(switch_cost),
                n_items=self.n_items,
                sizes=self._sizes,
                quality_scale=self._scale,
                utility_scale=self._full,
                variant=self.variant,
                rng=child_rng(seed, POLICY_ROLE),
            )
        )

    def holds(self, item: int) -> bool:
        """Whether ``item`` is in the cache now."""
        return 0 <= item < self.n_items and bool(self._held[item])

    @property
    def held(self) -> list[int]:
        """The items in the cache now, ascending."""
        return [int(i) for i in np.flatnonzero(self._held)]

    def step(
        self,
        items: Sequence[int] | NDArray[Any],
        quality: Sequence[int] | NDArray[Any],
        arrival: int = -1,
        weight: int = 1,
        ranks: Sequence[int] | NDArray[Any] | None = None,
    ) -> Served:
        """Play one step: a row (ascending items, quality in units), an arrival, a weight.

        Raises
        ------
        InvalidInput
            The row, the arrival or the weight is malformed; the rules are those of a :class:`Trace`.
        PolicyError
            The policy returned something that is not a decision.
        InvalidSchedule
            It evicted what it does not hold, admitted what may not enter, or overfilled the cache. The
            step does not count then: the cache is as it was before, but the policy has seen the step.
        """
        ids = f"ascending item ids in 0..{self.n_items - 1}"
        row = as_array("items", items, ids)
        whole = row.ndim == 1 and (row.dtype.kind in "iu" or not len(row))
        if not whole or (len(row) and (row[0] < 0 or row[-1] >= self.n_items or np.any(row[1:] <= row[:-1]))):
            fail("items", items, ids)
        # without a score an entry of quality 0 is none
        worth = _integers("quality", quality, int(ranks is None), self._scale)
        keys = worth if ranks is None else _integers("ranks", ranks, 0, _MOST)
        if len(worth) != len(row) or len(keys) != len(row):
            raise InvalidInput(f"quality and ranks must have length {len(row)}, one for each of items")
        try:
            coming = operator.index(arrival)
        except TypeError:
            coming = -2
        if not -1 <= coming < self.n_items:
            fail("arrival", arrival, f"an item id in 0..{self.n_items - 1}, or -1 for none")
        mass = check_int("weight", weight, low=0, high=_MOST)
        return self._play(
            row.astype(np.int32, copy=False), worth, coming, mass, None if ranks is None else keys
        )

    def _play(
        self,
        row: NDArray[np.int32],
        worth: NDArray[np.int32],
        arrival: int,
        weight: int,
        ranks: NDArray[np.int32] | None,
    ) -> Served:
        """Play a step whose row is known to be well formed."""
        keys = worth if ranks is None else ranks
        t, n, u, own = self._steps, 0, 0, 0
        if weight > 0:
            n = int(
                retrieve(
                    0,
                    len(row),
                    row,
                    worth,
                    keys,
                    ranks is not None,
                    self._held,
                    self.variant.top_k,
                    self._got,
                    self._worth,
                )
            )
            u = int(utility(self._worth, n, self._aggregator, self._scale))
            if arrival >= 0 and len(row):
                place = int(np.searchsorted(row, arrival))
                if place < len(row) and row[place] == arrival:
                    own = int(worth[place])
        seen = Observation(
            step=t,
            query=int(row[0]) if len(row) == 1 else -1,
            retrieved=tuple(self._got[:n].tolist()),
            retrieved_units=tuple(self._worth[:n].tolist()),
            utility_units=u,
            arrival=arrival,
            arrival_units=own,
            arrival_held=arrival >= 0 and bool(self._held[arrival]),
            free=self._free,
            weight=weight,
            quality_scale=self._scale,
            utility_scale=self._full,
        )
        answer: Any = self.policy.decide(seen)
        if answer is None:
            answer = Decision()
        if not (hasattr(answer, "evict") and hasattr(answer, "admit")):
            raise PolicyError(
                f"policy {self.name} at step {t}: decide must return Decision(evict, admit), got {answer!r}"
            )
        evict = _ids(answer.evict, "evict", self.name, t)
        admit = _ids(answer.admit, "admit", self.name, t)
        kept = len(self._leaves), len(self._enters)
        try:
            self._apply(t, evict, admit, arrival)
        except InvalidSchedule:
            self._take_back(*kept)
            raise
        self._steps += 1
        return Served(seen, Decision(evict, admit))

    def _apply(self, t: int, evict: tuple[int, ...], admit: tuple[int, ...], arrival: int) -> None:
        for i in evict:
            if not 0 <= i < self.n_items:
                raise InvalidSchedule(t, i, "the item id is out of range")
            if not self._held[i]:
                raise InvalidSchedule(t, i, "the item leaves but is not held")
            self._held[i] = 0
            self._free += int(self._sizes[i])
            self._leaves.append((t, i))
        for i in admit:
            if not 0 <= i < self.n_items:
                raise InvalidSchedule(t, i, "the item id is out of range")
            if self._held[i]:
                raise InvalidSchedule(t, i, "the item enters but is already held")
            if self.variant.stream and i != arrival:
                raise InvalidSchedule(t, i, "only the arrival of the step may enter (stream)")
            if self._sizes[i] > self._free:
                raise InvalidSchedule(t, i, "the cache holds more than its capacity")
            self._held[i] = 1
            self._free -= int(self._sizes[i])
            self._enters.append((t, i))

    def _take_back(self, leaves: int, enters: int) -> None:
        """Undo what a step did to the cache before it turned out to be invalid."""
        for _, i in self._enters[enters:]:
            self._held[i] = 0
            self._free += int(self._sizes[i])
        for _, i in self._leaves[leaves:]:
            self._held[i] = 1
            self._free -= int(self._sizes[i])
        del self._leaves[leaves:], self._enters[enters:]

    def schedule(self) -> Schedule:
        """Return the history so far."""
        return Schedule.from_events(
            self._steps,
            [t for t, _ in self._leaves],
            [i for _, i in self._leaves],
            [t for t, _ in self._enters],
            [i for _, i in self._enters],
        )


def context_of(
    trace: Trace, capacity: int, switch_cost: Fraction, variant: Variant, rng: np.random.Generator
) -> Context:
    """Return what a policy is told before it runs on a whole trace."""
    return Context(
        capacity=capacity,
        switch_cost=switch_cost,
        n_items=trace.n_items,
        sizes=trace.sizes,
        quality_scale=trace.quality_scale,
        utility_scale=utility_scale(trace.quality_scale, variant),
        variant=variant,
        rng=rng,
    )


def simulate(
    policy: Policy | str,
    trace: Trace,
    capacity: int,
    switch_cost: Any = 1,
    seed: int = 0,
    variant: Variant | None = None,
    step_by_step: bool = False,
) -> Schedule:
    """Run a policy on a trace and return its schedule; price it with :func:`softhit.cost`.

    Parameters
    ----------
    policy : Policy or str
        A policy, a registered name such as ``"lru"`` or ``"gated_lru(theta=2)"``, or ``"module:Class"``.
    trace : Trace
    capacity : int
        K >= 1.
    switch_cost : number or str
        lambda >= 0; policies may use it.
    seed : int
        The policy's random stream is child 1 of this seed; traces use child 0.
    variant : Variant, optional
        Policies decide alike in both orders; with ``pool`` they still admit arrivals only.
    step_by_step : bool
        Force the step-by-step path for compiled policies (same schedule, slower).

    Examples
    --------
    >>> from softhit import cost, from_requests
    >>> trace = from_requests([0, 1, 2] * 4)
    >>> float(cost(simulate("fifo", trace, capacity=2), trace, capacity=2, switch_cost=1))
    22.0
    """
    variant = variant or Variant()
    chosen = make_policy(policy) if isinstance(policy, str) else policy
    if isinstance(chosen, type) or not isinstance(chosen, Policy):
        fail("policy", policy, "a name, or an object with start(context) and decide(observation)")
    if not isinstance(trace, Trace):
        fail("trace", trace, "a Trace, as from_requests(ids) makes one")
    limit = check_int("capacity", capacity, low=1)
    lam = check_switch_cost(switch_cost)
    if getattr(chosen, "clairvoyant", False):
        prepare = getattr(chosen, "prepare", None)
        if prepare is None:
            raise InvalidInput(f"clairvoyant policy {policy!r} must have prepare(trace)")
        prepare(trace)
    if isinstance(chosen, CompiledPolicy) and not step_by_step:
        return chosen.schedule(trace, context_of(trace, limit, lam, variant, child_rng(seed, POLICY_ROLE)))
    session = Session(
        chosen,
        trace.n_items,
        limit,
        lam,
        variant=variant,
        sizes=trace.sizes,
        quality_scale=trace.quality_scale,
        seed=seed,
    )
    indptr, arrivals, weight = trace.indptr.tolist(), trace.arrivals.tolist(), trace.weight.tolist()
    for t in range(trace.n_steps):
        a, b = indptr[t], indptr[t + 1]
        session._play(
            trace.items[a:b],
            trace.quality[a:b],
            arrivals[t],
            weight[t],
            None if trace.ranks is None else trace.ranks[a:b],
        )
    return session.schedule()
