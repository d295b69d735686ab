"""What a policy is: it starts, then at each step sees an observation and returns a decision."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from softhit.variant import Variant

__all__ = ["Context", "Decision", "Observation", "Policy"]


@dataclass(frozen=True)
class Context:
    """What a policy is told once, before the first step.

    Attributes
    ----------
    capacity : int
        K, in units of size.
    switch_cost : Fraction
        lambda, exact.
    n_items : int
        N; items are 0..N-1.
    sizes : int64[N]
        Size of each item.
    quality_scale, utility_scale : int
        Units per 1.0 of a quality and of a utility.
    variant : Variant
    rng : numpy.random.Generator
        The policy's own stream; the only randomness it may use.
    """

    capacity: int
    switch_cost: Fraction
    n_items: int
    sizes: NDArray[np.int64]
    quality_scale: int
    utility_scale: int
    variant: Variant
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees at one step, after the query was served; never the whole row.

    In ``update_then_serve`` it sees what the cache *before* the update would have retrieved.

    Attributes
    ----------
    step : int
    query : int
        Id of the query: the requested item where a single item serves it, else -1.
    retrieved : tuple of int
        The k retrieved items, in rank order; empty on a full miss.
    retrieved_units : tuple of int
        Their qualities, in units of 1/``quality_scale``.
    utility_units : int
        u_t in units of 1/``utility_scale``.
    arrival : int
        e_t, or -1.
    arrival_units : int
        s_t(e_t), in units of 1/``quality_scale``; 0 without a query.
    arrival_held : bool
        Whether e_t is in the cache already.
    free : int
        Unused capacity.
    weight : int
        w_t; 0 = no query.
    quality_scale, utility_scale : int
    """

    step: int
    query: int
    retrieved: tuple[int, ...]
    retrieved_units: tuple[int, ...]
    utility_units: int
    arrival: int
    arrival_units: int
    arrival_held: bool
    free: int
    weight: int
    quality_scale: int
    utility_scale: int

    @property
    def qualities(self) -> tuple[float, ...]:
        """The qualities of the retrieved items, in [0, 1]."""
        return tuple(u / self.quality_scale for u in self.retrieved_units)

    @property
    def utility(self) -> float:
        """u_t in [0, 1]."""
        return self.utility_units / self.utility_scale

    @property
    def arrival_quality(self) -> float:
        """s_t(e_t) in [0, 1]."""
        return self.arrival_units / self.quality_scale

    @property
    def miss_cost(self) -> float:
        """c_t = w_t (1 - u_t)."""
        return self.weight * (1 - self.utility)


@dataclass(frozen=True, slots=True)
class Decision:
    """What leaves (first) and what enters after a step; the default changes nothing."""

    evict: tuple[int, ...] = ()
    admit: tuple[int, ...] = ()


@runtime_checkable
class Policy(Protocol):
    """An online replacement policy. Optional attributes: ``name``, ``clairvoyant``, ``prepare(trace)``.

    A clairvoyant policy sets ``clairvoyant = True`` and gets ``prepare(trace)`` before ``start``.
    """

    def start(self, context: Context) -> Any:
        """Forget everything and prepare for a new run."""
        ...

    def decide(self, seen: Observation) -> Decision:
        """Return what to evict and what to admit after this step."""
        ...
