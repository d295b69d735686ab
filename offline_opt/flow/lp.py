"""Hard hits as a linear programme through cvxpy, in the variables of the model.

For each item, time is cut where its presence can change: where it may enter, and after each step it serves.
Between two cuts it is held to the extent x in [0, 1]; z >= the rise of x where it may enter; o_t is how much
is held while step t is served.

    minimise    sum_t w_t - sum rewards * x + lambda * sum z        (free fill: lambda * max(0, sum z - K))
    subject to  z >= x - x', z >= 0     at a cut where the item may enter (x' before, x after)
                x <= x'                 at every other cut
                o_t - o_{t-1} = sum of the changes x - x' at the cuts before step t
                o_t <= K

With charged fill this is a network flow in other coordinates (v = K - o), so its vertices are integral. With
free fill the optimal ones are: a solution of value f is a flow of value f in the network with free first
loads, hence a mixture of integral ones of the same value, and a vertex is no mixture.

Nothing here is shared with the network or the event line: the three check each other.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from offline_opt.result import MethodResult, confirm
from softhit.check import check_int
from softhit.errors import InvalidInput, MissingExtra, NotCertified
from softhit.exact import check_switch_cost
from softhit.retrieval import utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["solve_lp"]

# How far from an integer a value of HiGHS may be and still be read as one (its own tolerance is 1e-7).
ROUND = 1e-5


class _Pieces:
    """Every item's stretches between two cuts: item, start, end, reward, and the stretch before."""

    def __init__(self, trace: Trace, variant: Variant) -> None:
        shift = 1 if variant.serves_first else 0
        wanted = np.flatnonzero(trace.requests >= 0)
        worth = trace.weight[wanted].astype(np.int64) * trace.quality
        wanted, worth = wanted[worth > 0], worth[worth > 0]
        asked = trace.requests[wanted]
        if variant.stream:
            at = np.flatnonzero(trace.arrivals >= 0)
            who, when = trace.arrivals[at], at + shift
        else:
            who, when = asked[wanted >= shift], wanted[wanted >= shift]
        self.item: list[int] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.reward: list[int] = []
        self.before: list[int] = []
        self.may_enter: list[bool] = []
        for i in np.unique(asked).tolist():
            steps, gain = wanted[asked == i], worth[asked == i]
            doors = np.unique(when[who == i])
            cuts = np.unique(np.concatenate([doors, steps + 1]))
            cuts = cuts[cuts <= steps[-1] + 1]
            for n, (a, b) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
                self.before.append(len(self.item) - 1 if n else -1)
                self.item.append(i)
                self.start.append(a)
                self.end.append(b)
                self.reward.append(int(gain[(steps >= a) & (steps < b)].sum()))
                self.may_enter.append(bool(np.isin(a, doors)))

    def __len__(self) -> int:
        return len(self.item)

    def stays(self, held: NDArray[np.bool_]) -> tuple[list[int], list[int], list[int]]:
        """Join consecutive held stretches of an item."""
        out: tuple[list[int], list[int], list[int]] = ([], [], [])
        for n in np.flatnonzero(held).tolist():
            if self.before[n] >= 0 and held[self.before[n]]:
                out[2][-1] = self.end[n]
            else:
                for column, value in zip(out, (self.item[n], self.start[n], self.end[n]), strict=True):
                    column.append(value)
        return out


def _occupancy(pieces: _Pieces, n_steps: int) -> sp.csr_array:
    """The matrix of ``o_t - o_{t-1}`` in terms of x, shape (T, pieces)."""
    n = len(pieces)
    start, end = np.array(pieces.start, np.int64), np.array(pieces.end, np.int64)
    inside = end < n_steps
    rows = np.concatenate([start, end[inside]])
    columns = np.concatenate([np.arange(n), np.arange(n)[inside]])
    values = np.concatenate([np.ones(n), -np.ones(int(inside.sum()))])
    return sp.csr_array((values, (rows, columns)), shape=(n_steps, n))


def solve_lp(trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None) -> MethodResult:
    """Solve the linear programme with cvxpy and HiGHS (extra ``cvxpy``).

    Returns
    -------
    MethodResult
        The value is recomputed in integers from the vertex that the simplex method ends at.

    Raises
    ------
    MissingExtra
        cvxpy is not installed.
    InvalidInput
        The trace is not hard or not of unit sizes.
    NotCertified
        HiGHS stopped without an optimum, or away from a vertex.

    Examples
    --------
    >>> from softhit import from_requests
    >>> solve_lp(from_requests([1, 1, 2, 1, 2, 2, 2, 1]), 1, 0).objective
    Fraction(4, 1)
    """
    try:
        import cvxpy
    except ImportError:
        raise MissingExtra("cvxpy", "cvxpy") from None
    cp: Any = cvxpy
    variant = variant or Variant()
    slots = check_int("capacity", capacity, low=1)
    lam = check_switch_cost(switch_cost)
    if not (trace.structure.hard and trace.structure.unit_sizes):
        raise InvalidInput("the LP of hard hits needs at most one item per step and unit sizes")
    full = utility_scale(trace.quality_scale, variant)
    base = Fraction(trace.total_weight)
    pieces = _Pieces(trace, variant)
    n, n_steps = len(pieces), trace.n_steps
    if n == 0:
        nothing = Schedule.from_events(n_steps, [], [], [], [])
        return MethodResult("lp", nothing, base)

    x, occupied = cp.Variable(n), cp.Variable(n_steps)
    reward = np.array(pieces.reward, np.float64) / full
    before, door = np.array(pieces.before), np.array(pieces.may_enter)
    linked = np.flatnonzero(before >= 0)
    difference = sp.csr_array(sp.eye_array(n)) - sp.csr_array(
        (np.ones(len(linked)), (linked, before[linked])), shape=(n, n)
    )
    rise = difference @ x
    constraints = [x >= 0, x <= 1, occupied <= slots]
    entered: Any = 0
    if door.any():
        z = cp.Variable(int(door.sum()), nonneg=True)
        constraints.append(rise[door] <= z)
        entered = cp.sum(z)
    if not door.all():
        constraints.append(rise[~door] <= 0)
    change = _occupancy(pieces, n_steps) @ x
    constraints.append(occupied[0] == change[0])
    if n_steps > 1:
        constraints.append(occupied[1:] - occupied[:-1] == change[1:])
    paid = cp.pos(entered - slots) if variant.free_fill else entered
    problem = cp.Problem(cp.Minimize(-reward @ x + float(lam) * paid), constraints)
    problem.solve(solver=cp.HIGHS, output_flag=False)
    if problem.status != cp.OPTIMAL:
        raise NotCertified(f"cvxpy with HiGHS stopped with status {problem.status}")

    value: NDArray[np.float64] = np.asarray(x.value, np.float64)
    held = value > 0.5
    if not np.all(np.abs(value - held) <= ROUND):  # missing values are no vertex either
        raise NotCertified(
            "HiGHS returned a solution that is no vertex; its value cannot be read off exactly"
        )
    item, start, end = pieces.stays(held)
    shift = 1 if variant.serves_first else 0
    out = [min(u - shift, n_steps) for u in end]
    inserted = len(item)
    charged = max(0, inserted - slots) if variant.free_fill else inserted
    gained = sum(r for r, h in zip(pieces.reward, held.tolist(), strict=True) if h)
    result = MethodResult(
        method="lp",
        schedule=Schedule.from_intervals(n_steps, item, [u - shift for u in start], out),
        objective=base - Fraction(gained, full) + lam * charged,
    )
    confirm(result, trace, slots, lam, variant)
    return result
