"""The allocator's rule as a policy of traces: batches between two watermarks, in the order of a guide.

``context_l1:lru`` is the rule with the guide ``lru`` and the default marks, ``context_l1:0.9:0.5:lru`` has
marks of its own; both are run, compared with the optimum, attacked and shrunk like any other policy.

Each arrival that is not held and fits the capacity is loaded. If it would lift what is held above
``floor(high * capacity)``, a batch leaves first, in the guide's order, until both fit below
``floor(low * capacity)``. So it holds less than the same policy that evicts one by one: that is what the
watermarks cost. What the allocator knows beyond arrivals (pins, groups, prefetch, dirty segments) has no
place in a trace.

A guide other than ``priority_lru``, ``lru`` and ``fifo`` is, as in :mod:`softhit.hierarchy.guide`, a virtual
cache of the low mark's size that plays its policy on the same requests; what it does not hold leaves first,
the least recently used first. Such a guide orders what leaves; what enters is not its decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from softhit.check import fail
from softhit.errors import InvalidInput
from softhit.exact import as_fraction
from softhit.hierarchy.guide import Guide, make_guide
from softhit.hierarchy.state import SegmentJson
from softhit.policies import Context, Decision, Observation, register_scheme
from softhit.simulate import Session

__all__ = ["SCHEME", "ContextL1", "context_l1"]

SCHEME = "context_l1"


class ContextL1:
    """A softhit policy that decides as the allocator does (see the module).

    Parameters
    ----------
    policy : str
        The guide: what :func:`softhit.hierarchy.guide.make_guide` takes.
    high, low : number or str
        Watermarks as parts of the capacity, 0 <= low <= high <= 1, exact.

    Raises
    ------
    InvalidInput
        A mark or the guide is not of the allowed form; guides that see the future are refused.

    Examples
    --------
    >>> from softhit import from_requests, simulate
    >>> trace = from_requests([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> simulate("context_l1:lru", trace, capacity=8).leave_items.tolist()   # marks at 6 and 5
    [0, 1, 2, 3]
    """

    def __init__(self, policy: str = "priority_lru", high: Any = "0.85", low: Any = "0.65") -> None:
        self.high, self.low = (as_fraction(n, v, low=0) for n, v in (("high", high), ("low", low)))
        if self.high > 1:
            fail("high", high, "a number in 0..1")
        if self.low > self.high:
            fail("low", low, f"at most high = {self.high}")
        self.policy = policy
        marks = f"{self.high}:{self.low}:" if (self.high, self.low) != _MARKS else ""
        self.name = f"{SCHEME}:{marks}{policy}"
        # a wrong name is said now, not when the run starts; marks do not matter for that
        make_guide(policy)
        plain = policy.strip() in ("priority_lru", "lru", "fifo")
        self._virtual = None if plain else policy

    def start(self, context: Context) -> None:
        """Forget everything and prepare for a new run."""
        self._sizes = context.sizes.tolist()
        self._capacity = context.capacity
        self._marks = math.floor(self.high * context.capacity), math.floor(self.low * context.capacity)
        self._used = 0
        self._held: dict[int, SegmentJson] = {}
        self._guide: Guide = make_guide("lru" if self._virtual else self.policy)
        self._digits = len(str(context.n_items))
        self._scale = context.quality_scale
        self._session: Session | None = None
        if self._virtual is not None:
            self._session = Session(
                self._virtual,
                context.n_items,
                max(1, self._marks[1]),
                context.switch_cost,
                sizes=context.sizes,
                quality_scale=context.quality_scale,
                seed=int(context.rng.integers(2**31)),
            )

    def decide(self, seen: Observation) -> Decision:
        """Return the batch that leaves, and the arrival if it is loaded."""
        t = seen.step
        for item in seen.retrieved:
            one = self._held[item]
            one["accesses"], one["last_turn"] = one["accesses"] + 1, t
        self._play(seen)
        item = seen.arrival
        if item < 0 or seen.arrival_held or self._sizes[item] > self._capacity:
            return Decision()
        size = self._sizes[item]
        out: list[int] = []
        high, low = self._marks
        if self._used + size > high:
            for victim in self._order(t):
                if self._used + size <= low:
                    break
                out.append(victim)
                self._used -= self._sizes[victim]
                del self._held[victim]
        if self._used + size > self._capacity:
            raise InvalidInput(f"policy {self.name}: its guide left too much in the cache")
        self._held[item] = self._segment(item, t)
        self._used += size
        return Decision(evict=tuple(out), admit=(item,))

    def _segment(self, item: int, t: int) -> SegmentJson:
        # ids in the order of their numbers, whatever their number of digits
        name = str(item).zfill(self._digits)
        return {"id": name, "accesses": 0, "loaded_turn": t, "last_turn": None}  # type: ignore[typeddict-item]

    def _order(self, t: int) -> Sequence[int]:
        order = [int(s["id"]) for s in self._guide.order(list(self._held.values()), t, ())]
        if self._session is None:
            return order
        kept = self._session
        return sorted(order, key=kept.holds)

    def _play(self, seen: Observation) -> None:
        """Show the virtual cache what was asked for; an arrival without a query counts as a request."""
        if self._session is None:
            return
        asked = seen.retrieved[0] if seen.retrieved else seen.arrival
        if seen.arrival >= 0 and not seen.arrival_held:
            asked = seen.arrival
        if asked >= 0:
            self._session.step([asked], [self._scale], asked, weight=seen.weight or self._sizes[asked])


_MARKS = (Fraction("0.85"), Fraction("0.65"))


def context_l1(rest: str) -> ContextL1:
    """Return the policy of ``GUIDE`` or ``HIGH:LOW:GUIDE``, what follows the scheme."""
    high, colon, more = rest.partition(":")
    low, second, guide = more.partition(":")
    if colon and second and high.strip()[:1].isdigit():
        return ContextL1(guide, high.strip(), low.strip())
    if not rest.strip():
        fail("policy", f"{SCHEME}:", f"{SCHEME}:GUIDE, such as {SCHEME}:lru")
    return ContextL1(rest)


register_scheme(SCHEME, context_l1)
