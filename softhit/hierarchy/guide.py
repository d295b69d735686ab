"""In which order segments leave L1: by a rule of their own, or by what a registered policy would hold.

A policy of the registry decides at every request; the allocator evicts in batches, at node boundaries only,
and never what is pinned. So the policy guides: it is replayed on the request history as a cache of the low
watermark's size, and what that cache does not hold leaves first. This is a pure function of the allocator's
state, so a run that resumes or forks decides alike, and pins, batches and the budget hold for every policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from softhit.build import from_requests
from softhit.check import check_int, fail
from softhit.errors import InvalidInput
from softhit.exact import check_switch_cost
from softhit.hierarchy.score import WEIGHTS, Weights, evict_score, eviction_order
from softhit.policies import make_policy, policy_info, policy_names
from softhit.simulate import simulate
from softhit.trace import Trace

if TYPE_CHECKING:
    from softhit.hierarchy.state import SegmentJson

__all__ = ["Guide", "history_trace", "make_guide"]

_MOST_TOKENS = 2**31 - 1


class Guide(Protocol):
    """Orders segments for eviction.

    Attributes
    ----------
    policy : str
        As given.
    uses_history : bool
        Whether the state has to remember requests for it.
    """

    @property
    def policy(self) -> str: ...

    @property
    def uses_history(self) -> bool: ...

    def order(
        self, segments: Sequence[SegmentJson], turn: int, history: Sequence[Sequence[Any]]
    ) -> list[SegmentJson]:
        """Return the segments, first victim first."""
        ...

    def score(self, segment: SegmentJson, turn: int) -> float | None:
        """Return the score that goes into the log with a victim; None where there is none."""
        ...


def _last_use(segment: SegmentJson) -> int:
    """The turn of the last access; to be loaded counts as one."""
    last = segment["last_turn"]
    return segment["loaded_turn"] if last is None else max(last, segment["loaded_turn"])


def _by_use(segment: SegmentJson) -> tuple[int, str]:
    return _last_use(segment), segment["id"]


@dataclass(frozen=True)
class _ByScore:
    """The context-cache post's priority, see :mod:`softhit.hierarchy.score`."""

    weights: Weights = WEIGHTS
    policy: str = "priority_lru"
    uses_history: bool = False

    def order(
        self, segments: Sequence[SegmentJson], turn: int, history: Sequence[Sequence[Any]]
    ) -> list[SegmentJson]:
        return eviction_order(segments, turn, self.weights)

    def score(self, segment: SegmentJson, turn: int) -> float | None:
        return float(evict_score(segment["accesses"], segment["last_turn"], turn, self.weights))


@dataclass(frozen=True)
class _Lru:
    """Least recently used first, then by id."""

    policy: str = "lru"
    uses_history: bool = False

    def order(
        self, segments: Sequence[SegmentJson], turn: int, history: Sequence[Sequence[Any]]
    ) -> list[SegmentJson]:
        return sorted(segments, key=_by_use)

    def score(self, segment: SegmentJson, turn: int) -> float | None:
        return float(turn - _last_use(segment))


@dataclass(frozen=True)
class _Fifo:
    """Loaded first, then by id."""

    policy: str = "fifo"
    uses_history: bool = False

    def order(
        self, segments: Sequence[SegmentJson], turn: int, history: Sequence[Sequence[Any]]
    ) -> list[SegmentJson]:
        return sorted(segments, key=lambda s: (s["loaded_turn"], s["id"]))

    def score(self, segment: SegmentJson, turn: int) -> float | None:
        return float(turn - segment["loaded_turn"])


@dataclass(frozen=True)
class _Replayed:
    """What the policy's own cache of ``capacity`` tokens does not hold, then the rest; each part as LRU."""

    policy: str
    capacity: int
    switch_cost: Any
    seed: int
    uses_history: bool = True

    def order(
        self, segments: Sequence[SegmentJson], turn: int, history: Sequence[Sequence[Any]]
    ) -> list[SegmentJson]:
        held = self._held(history)
        return sorted(segments, key=lambda s: ((s["id"], s["tokens"]) in held, *_by_use(s)))

    def score(self, segment: SegmentJson, turn: int) -> float | None:
        return None

    def _held(self, history: Sequence[Sequence[Any]]) -> set[tuple[str, int]]:
        # larger than the cache: policies that reckon with the items that fit pass them over
        trace, items = history_trace(history, padding=self.capacity + 1)
        if not items:
            return set()
        schedule = simulate(self.policy, trace, self.capacity, self.switch_cost, seed=self.seed)
        count = np.bincount(schedule.enter_items, minlength=trace.n_items)
        count -= np.bincount(schedule.leave_items, minlength=trace.n_items)
        return {items[i] for i in np.flatnonzero(count) if i < len(items)}


def history_trace(history: Sequence[Sequence[Any]], padding: int = 1) -> tuple[Trace, list[tuple[str, int]]]:
    """Return a request history ``[id, tokens, ...]`` as a sized trace, and what each of its items stands for.

    Sizes and weights are tokens: a miss costs what has to be read again. The number of items is padded to a
    power of two, so that a policy which looks at it sees the same one while the history grows; the items
    that nobody asks for have size ``padding``.

    >>> history = [["a", 3, "load"], ["b", 2, "load"], ["c", 9, "load"], ["a", 3, "touch"]]
    >>> trace, items = history_trace(history)
    >>> items, trace.n_items, trace.sizes.tolist()
    ([('a', 3), ('b', 2), ('c', 9)], 4, [3, 2, 9, 1])
    """
    number: dict[tuple[str, int], int] = {}
    requests = [number.setdefault((entry[0], entry[1]), len(number)) for entry in history]
    items = list(number)
    n_items = 1 << max(0, len(items) - 1).bit_length()
    sizes = np.full(n_items, padding, np.int64)
    sizes[: len(items)] = [min(max(tokens, 1), _MOST_TOKENS) for _, tokens in items]
    plain = from_requests(np.array(requests, np.int64), n_items=n_items, weight=sizes[requests])
    return replace(plain, sizes=sizes), items


def make_guide(
    policy: str = "priority_lru",
    *,
    weights: Weights = WEIGHTS,
    capacity: int = 1,
    switch_cost: Any = 1,
    seed: int = 0,
) -> Guide:
    """Return the guide of a policy.

    Parameters
    ----------
    policy : str
        ``"priority_lru"`` (the context-cache post's score with ``weights``), ``"lru"``, ``"fifo"``, or what
        :func:`softhit.make_policy` takes, such as ``"sieve"`` or ``"my.module:Policy"``.
    weights : pair of Fraction
        Of accesses and recency.
    capacity : int
        Of a replayed policy's cache, in tokens.
    switch_cost, seed
        Handed to a replayed policy.

    Raises
    ------
    UnknownName
        There is no such policy.
    InvalidInput
        It sees the future, or it handles unit sizes only while segments have sizes.

    Examples
    --------
    >>> make_guide("lfu").uses_history
    True
    """
    if not isinstance(policy, str):
        fail("policy", policy, "the name of a policy")
    spec = policy.strip()
    if spec == "priority_lru":
        return _ByScore(weights)
    if spec in ("lru", "fifo"):
        return _Lru() if spec == "lru" else _Fifo()
    made = make_policy(spec)
    if getattr(made, "clairvoyant", False):
        raise InvalidInput(f"policy {policy!r} sees the future; L1 needs an online policy")
    name = spec.partition("(")[0].strip()
    if ":" not in spec and not policy_info(name).sizes:
        sized = [n for n in policy_names(clairvoyant=False) if policy_info(n).sizes]
        fail("policy", policy, f"a policy that handles sizes other than 1, such as {', '.join(sized)}")
    return _Replayed(
        spec,
        check_int("capacity", capacity, low=1),
        check_switch_cost(switch_cost),
        check_int("seed", seed, low=0),
    )
