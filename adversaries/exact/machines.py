"""Classic policies as finite-state machines, each the same rule as the registered policy of its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from adversaries.exact.machine import FiniteStatePolicy, Step
from softhit.check import check_int, unknown
from softhit.exact import as_fraction

__all__ = ["FIFO", "LRU", "MACHINES", "Clock", "Difference", "GatedGlobal", "GatedLRU", "make_machine"]

OUTSIDE = -1
"""The place of an item that is not held; the others are places in a queue whose place 0 leaves next."""


def _queue(places: tuple[int, ...]) -> list[int]:
    """Return the held items, the next to leave first."""
    return sorted((i for i, p in enumerate(places) if p != OUTSIDE), key=lambda i: places[i])


def _places(queue: list[int], n_items: int) -> tuple[int, ...]:
    places = [OUTSIDE] * n_items
    for place, item in enumerate(queue):
        places[item] = place
    return tuple(places)


@dataclass(frozen=True)
class FIFO:
    """First in, first out; labels are places.

    >>> FIFO().step(((), (0, 1, -1)), 2)
    Step(state=((), (-1, 0, 1)), hit=False, replaced=0)
    """

    name: str = field(default="fifo", init=False)
    symmetric: bool = field(default=True, init=False)

    def initial(self, capacity: int, n_items: int) -> Any:
        """Items 0..K-1 entered in this order."""
        return (), _places(list(range(capacity)), n_items)

    def step(self, state: Any, request: int) -> Step:
        """A hit changes nothing; a miss enters at the end."""
        queue = _queue(state[1])
        if request in queue:
            return Step(state, True, -1)
        return Step(((), _places([*queue[1:], request], len(state[1]))), False, queue[0])


@dataclass(frozen=True)
class LRU:
    """Least recently used; labels are places in the order of use.

    >>> LRU().step(((), (0, 1, -1)), 0)
    Step(state=((), (1, 0, -1)), hit=True, replaced=-1)
    """

    name: str = field(default="lru", init=False)
    symmetric: bool = field(default=True, init=False)

    def initial(self, capacity: int, n_items: int) -> Any:
        """Items 0..K-1 were requested in this order."""
        return (), _places(list(range(capacity)), n_items)

    def step(self, state: Any, request: int) -> Step:
        """The requested item becomes the most recent; a miss takes the place of the least recent."""
        queue = _queue(state[1])
        hit = request in queue
        gone = request if hit else queue[0]
        queue.remove(gone)
        return Step(((), _places([*queue, request], len(state[1]))), hit, -1 if hit else gone)


@dataclass(frozen=True)
class Clock:
    """Second chance; labels are (place in the queue, bit).

    Parameters
    ----------
    bit : {0, 1}
        The bit of an item when it enters: 0 as in the registered ``clock`` (and libcachesim's), 1 as in the
        textbooks. Only with 1 is the ratio that of FIFO for every lambda.

    >>> Clock().step(((), ((0, 1), (1, 0), (-1, 0))), 2)
    Step(state=((), ((0, 0), (-1, 0), (1, 0))), hit=False, replaced=1)
    """

    bit: int = 0
    symmetric: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """The registered name where it is that policy."""
        return "clock" if self.bit == 0 else f"clock(bit={self.bit})"

    def initial(self, capacity: int, n_items: int) -> Any:
        """Items 0..K-1 entered in this order and were not requested again."""
        places = _places(list(range(capacity)), n_items)
        return (), tuple((p, 0 if p == OUTSIDE else self.bit) for p in places)

    def step(self, state: Any, request: int) -> Step:
        """A hit sets the bit; a miss sends items with a bit to the end of the queue until one has none."""
        places, bits = (list(x) for x in zip(*state[1], strict=True))
        if places[request] != OUTSIDE:
            bits[request] = 1
            return Step(((), tuple(zip(places, bits, strict=True))), True, -1)
        queue = _queue(tuple(places))
        while bits[queue[0]]:
            bits[queue[0]] = 0
            queue.append(queue.pop(0))
        gone = queue.pop(0)
        bits[request] = self.bit
        after = _places([*queue, request], len(places))
        return Step(((), tuple(zip(after, bits, strict=True))), False, gone)


def _misses(theta: Any) -> int:
    """How many misses of cost 1 reach theta; the first one counts even for theta = 0."""
    gate = as_fraction("theta", theta, low=0)
    return max(1, -(-gate.numerator // gate.denominator))


@dataclass(frozen=True)
class GatedLRU:
    """LRU behind one counter of misses per item; labels are (place, misses counted).

    An item is admitted at the miss that brings its counter to ``theta`` (in units of one miss), and its
    counter starts again from zero then. So counters of held items are zero, and resetting the victim's as
    well would change nothing.

    >>> GatedLRU(2).step(((), ((0, 0), (-1, 0))), 1)
    Step(state=((), ((0, 0), (-1, 1))), hit=False, replaced=-1)
    >>> GatedLRU(2).step(((), ((0, 0), (-1, 1))), 1)
    Step(state=((), ((-1, 0), (0, 0))), hit=False, replaced=0)
    """

    theta: Any
    symmetric: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """The registered name with its parameter."""
        return f"gated_lru(theta={self.theta})"

    def initial(self, capacity: int, n_items: int) -> Any:
        """The fill admitted items 0..K-1 at once, so all counters are zero."""
        return (), tuple((p, 0) for p in _places(list(range(capacity)), n_items))

    def step(self, state: Any, request: int) -> Step:
        """Count a miss; admit at theta; otherwise as LRU."""
        places, counts = (list(x) for x in zip(*state[1], strict=True))
        hit = places[request] != OUTSIDE
        if not hit:
            counts[request] += 1
            if counts[request] < _misses(self.theta):
                return Step(((), tuple(zip(places, counts, strict=True))), False, -1)
            counts[request] = 0
        inner = LRU().step(((), tuple(places)), request)
        assert isinstance(inner.state, tuple)
        return Step(((), tuple(zip(inner.state[1], counts, strict=True))), hit, inner.replaced)


@dataclass(frozen=True)
class GatedGlobal:
    """LRU behind one counter for all items: every theta-th miss admits what it asks for.

    Labels are places; the counter is shared. Not registered; SOLAR with a global regret gates like this.

    >>> GatedGlobal(2).step(((1,), (0, -1, -1)), 2)
    Step(state=((0,), (-1, -1, 0)), hit=False, replaced=0)
    """

    theta: Any
    symmetric: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """A name for tables."""
        return f"gated_global(theta={self.theta})"

    def initial(self, capacity: int, n_items: int) -> Any:
        """The counter is zero when the cache has filled."""
        return (0,), _places(list(range(capacity)), n_items)

    def step(self, state: Any, request: int) -> Step:
        """Count a miss; admit at theta; otherwise as LRU."""
        (count,), places = state
        hit = places[request] != OUTSIDE
        if not hit:
            count += 1
            if count < _misses(self.theta):
                return Step(((count,), places), False, -1)
            count = 0
        inner = LRU().step(((), places), request)
        assert isinstance(inner.state, tuple)
        return Step(((count,), inner.state[1]), hit, inner.replaced)


@dataclass(frozen=True)
class Difference:
    """One slot, two items: switch when the cost difference, clipped at 0, has reached ``theta`` (claim C3).

    The counter rises by one at a miss and falls by one at a hit, not below 0. Labels say what is held.

    >>> Difference(2).step(((1,), (1, 0)), 1)
    Step(state=((0,), (0, 1)), hit=False, replaced=0)
    """

    theta: Any
    symmetric: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """A name for tables."""
        return f"difference(theta={self.theta})"

    def initial(self, capacity: int, n_items: int) -> Any:
        """Nothing to regret yet."""
        check_int("capacity", capacity, low=1, high=1)
        check_int("n_items", n_items, low=2, high=2)
        return (0,), (1, 0)

    def step(self, state: Any, request: int) -> Step:
        """Count, and switch at theta."""
        (count,), held = state
        if held[request]:
            return Step(((max(0, count - 1),), held), True, -1)
        if count + 1 < _misses(self.theta):
            return Step(((count + 1,), held), False, -1)
        return Step(((0,), held[::-1]), False, 1 - request)


MACHINES: dict[str, Callable[..., FiniteStatePolicy]] = {
    "clock": Clock,
    "difference": Difference,
    "fifo": FIFO,
    "gated_global": GatedGlobal,
    "gated_lru": GatedLRU,
    "lru": LRU,
}


def make_machine(name: str, switch_cost: Fraction, **parameters: Any) -> FiniteStatePolicy:
    """Return the machine of a name; theta defaults to lambda + 1, as in the registry.

    >>> make_machine("gated_lru", Fraction(1, 2)).name
    'gated_lru(theta=3/2)'
    """
    if name not in MACHINES:
        unknown("machine", name, sorted(MACHINES))
    allowed = list(inspect.signature(MACHINES[name]).parameters)
    for parameter in parameters:
        if parameter not in allowed:
            unknown(f"parameter of machine {name!r}", parameter, allowed)
    if "theta" in allowed and parameters.get("theta") is None:
        parameters["theta"] = switch_cost + 1
    return MACHINES[name](**parameters)
