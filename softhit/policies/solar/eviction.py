"""What to evict: one Thompson draw per cached item, the posterior mean, or first in, first out."""

from __future__ import annotations

from typing import Any

from softhit.jit import lean
from softhit.policies.solar.draw import lowest_draw, lowest_mean
from softhit.policies.solar.memory import HELD, TURN
from softhit.policies.solar.posterior import shapes

__all__ = ["EVICTIONS", "victim"]

EVICTIONS = ("thompson", "mean", "fifo")
THOMPSON, MEAN, FIFO = range(3)


@lean
def victim(kind: Any, counts: Any, clock: Any, belief: Any, scratch: Any, rng: Any) -> Any:
    """Return the slot to empty, among those in use: O(K), except for ``fifo``."""
    slots = counts[HELD]
    if kind == FIFO:
        # one leaves for one that enters, so the slots are in order of entry, from this one on
        slot = counts[TURN]
        counts[TURN] = (slot + 1) % slots
        return slot
    a = scratch[0]
    b = scratch[1]
    first, most = shapes(clock, belief, slots, a, b)
    if kind == MEAN:
        return lowest_mean(a, b, slots)
    return lowest_draw(rng, a, b, slots, first, most)
