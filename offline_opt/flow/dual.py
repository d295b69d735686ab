"""Node potentials of the flow on events: the bound they prove, and the prices they amount to.

The flow sends K slots along a line of nodes, one per event and a last one; a slot leaves the line at event
j to hold the item (price L of an insertion), stays with it from event to event, and returns. The dual of
that linear programme has one potential per node. Written for potentials ``line[j]`` and ``held[j]``:

    line[j+1] <= line[j]                 waiting costs nothing
    held[j]   <= line[j] + L             where the item can enter
    line[j]   <= held[j]                 where it can leave
    K (line[M] - line[0]) - sum_j max(0, held[next(j)] - held[j] + reward[j])  <=  minus the optimal gain

Worked example: requests 0 1 0, K = 1, lambda = 0. Item 0 has two events and reward 1 between them. With
line = (0, -1, -1), held = (0, -1) every constraint holds, no holding arc is worth more than its price, and
the bound is 1 * (-1) - 0 = -1: at most one hit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.flow.events import Events
from offline_opt.result import Prices
from softhit.check import check_int
from softhit.errors import NotCertified
from softhit.exact import check_switch_cost
from softhit.variant import Variant

__all__ = ["Potentials", "dual_bound", "slot_prices"]


@dataclass(frozen=True, eq=False)
class Potentials:
    """Dual solution of the flow on M events, in integers.

    Attributes
    ----------
    line : int64[M+1] or object[M+1]
    held : int64[M] or object[M]
    insertion : int
        L, the price of an insertion; at most lambda (less only where the free fill makes slots cheaper).
    scale : int
        How many of these integers make one unit of reward.
    """

    line: NDArray[Any]
    held: NDArray[Any]
    insertion: int
    scale: int


def _exact_sum(values: NDArray[Any]) -> int:
    if values.dtype == object:
        return sum(values.tolist())
    if len(values) * int(values.max(initial=0)) < 1 << 62:
        return int(values.sum())
    # halves keep every partial sum inside int64
    high, low = np.divmod(values, 1 << 31)
    return (int(high.sum()) << 31) + int(low.sum())


def _require(holds: NDArray[Any], what: str) -> None:
    bad = np.flatnonzero(~holds.astype(bool))
    if len(bad):
        raise NotCertified(f"potentials at event {int(bad[0])}: {what}")


def dual_bound(
    events: Events, potentials: Potentials, capacity: int, switch_cost: Any, variant: Variant | None = None
) -> Fraction:
    """Check the potentials and return the lower bound they prove, exactly; plain numpy.

    Raises
    ------
    NotCertified
        The potentials break a constraint of the dual; the message says where.
    """
    variant = variant or Variant()
    slots = check_int("capacity", capacity, low=1)
    line, held, price = potentials.line, potentials.held, potentials.insertion
    unit = events.unit / potentials.scale
    if not 0 <= price * unit <= check_switch_cost(switch_cost):
        raise NotCertified(
            f"an insertion is priced {price * unit}, which is negative or above the switching cost"
        )
    _require(line[1:] <= line[:-1], "the line rises")
    enter, leave = events.can_enter, events.can_leave
    _require(~enter | (held <= line[:-1] + price), "entering is underpriced")
    _require(~leave | (line[:-1] <= held), "leaving is underpriced")
    hold = np.flatnonzero(events.next >= 0)
    reward = events.reward[hold].astype(held.dtype) * potentials.scale
    surplus = held[events.next[hold]] - held[hold] + reward
    flow = slots * (int(line[-1]) - int(line[0])) - _exact_sum(np.maximum(surplus, 0))
    fill = slots * price * unit if variant.free_fill else Fraction(0)
    return events.base + flow * unit - fill


def slot_prices(events: Events, potentials: Potentials) -> Prices:
    """Return the same dual solution as one price per step, in the form every bound of the project takes.

    The fall of the line across step t is what a slot costs while step t is served. A fall between two
    events of one boundary (a leaving and an entering) counts for the step after it: if it is not zero no
    item enters there, so whoever is held through it is held through that step too.
    """
    first = np.searchsorted(events.boundary, np.arange(events.n_steps + 1, dtype=np.int32))
    at = potentials.line[first]
    return Prices(
        slot=at[:-1] - at[1:], serve=None, entry=potentials.insertion, unit=events.unit / potentials.scale
    )
