"""What every offline method returns, and the one check that holds it to the project's own pricing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from softhit.cost import cost
from softhit.errors import NotCertified
from softhit.exact import Cost
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

if TYPE_CHECKING:
    from offline_opt.soft.state import State

__all__ = ["KINDS", "MethodResult", "OptResult", "Prices", "Status", "confirm"]

KINDS = ("exact", "exact (solver)", "band")
"""The optimum, proved; the optimum if the bound of a solver's branch and bound is believed; or a schedule
(upper bound) and a proved lower bound with a gap between them."""


@dataclass(frozen=True, eq=False)
class Prices:
    """Dual prices, all in integer multiples of ``unit``: any such prices bound the optimum from below.

    With ``beta_t`` the price of one slot while step t is served, ``alpha_t`` the price of being served at
    step t and ``mu <= lambda`` the price of an insertion,

        OPT >= sum_t w_t - sum_t alpha_t - K sum_t beta_t - [free fill] K mu - sum_i V_i,

    where V_i is what item i can earn at most on its own: ``max(0, w_t s_t(i) - alpha_t)`` for every step it
    serves, less ``beta_t`` for every step it is held through, less ``mu`` for every time it enters.

    Attributes
    ----------
    slot : int64[T] or object[T]
        beta_t >= 0. Python integers (``object``) where 64 bits do not suffice.
    serve : int64[T] or object[T], optional
        alpha_t >= 0; None: all zero (hard hits need none).
    entry : int
        mu.
    unit : Fraction
        Cost of one unit.
    credit : int64[T], optional
        For ``coverage`` only: what an item is paid per 1.0 of quality at step t, at most w_t; the step itself
        keeps ``w_t - credit_t``. None: w_t.
    """

    slot: NDArray[Any]
    serve: NDArray[Any] | None
    entry: int
    unit: Fraction
    credit: NDArray[Any] | None = None


@dataclass(frozen=True)
class Status:
    """Three facts that are not the same.

    Attributes
    ----------
    stop : str
        Why the method stopped: ``"optimal"``, ``"target"`` (the wanted gap is reached), ``"gap"`` (it closes
        no gap further), ``"time"``, ``"iterations"``, ``"interrupted"``, or ``"rejected"`` (a solver's
        answer failed a check).
    incumbent : bool
        It has a schedule.
    certified : bool
        What it says is proved in exact arithmetic, by prices or by exhaustion; false for ``exact (solver)``.
    """

    stop: str
    incumbent: bool
    certified: bool


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method found.

    Attributes
    ----------
    method : str
    schedule : Schedule or None
        None if the method finds the optimal value only.
    objective : Fraction
        The method's own value of its schedule, or of the optimum. Never reported as a cost: see
        :func:`confirm`.
    lower_bound : Fraction or None
        A proved lower bound of the optimum; None if the method proves nothing.
    prices : Prices or None
        Prices that prove the lower bound.
    stop : str
        As in :class:`Status`.
    """

    method: str
    schedule: Schedule | None
    objective: Fraction
    lower_bound: Fraction | None = None
    prices: Prices | None = None
    stop: str = "optimal"


@dataclass(frozen=True, eq=False)
class OptResult:
    """The answer of the facade: a priced schedule, a bound, and what they prove.

    Attributes
    ----------
    schedule, cost : Schedule, Cost, or None
        The best schedule found and its cost by :func:`softhit.cost`.
    lower_bound : Fraction
        Proved; 0 at the least.
    gap : Fraction or None
        ``cost - lower_bound``; None without a schedule.
    kind : str
        One of ``KINDS``.
    certificate : object or None
        What a certificate file is written from: the :class:`Prices`, if there are any.
    status : Status
    method, reason : str
        Which method ran, and why it was chosen.
    notes : tuple of str
        What else the reader should know: where the bound comes from, what was rejected.
    state : State or None
        What a run of ``lagrangian`` can go on from.
    """

    schedule: Schedule | None
    cost: Cost | None
    lower_bound: Fraction
    gap: Fraction | None
    kind: str
    certificate: Prices | None
    status: Status
    method: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    state: State | None = None

    def explain(self) -> str:
        """Say in a few lines which method ran and why, what it found, and what is guaranteed."""
        lines = [f"method {self.method}: {self.reason}"]
        low = _number(self.lower_bound)
        if self.cost is None:
            lines.append(f"no schedule found; OPT >= {low} is proved")
        elif self.kind == "exact":
            lines.append(f"OPT = {_number(self.cost.fraction)}, proved; the schedule attains it")
        elif self.kind == "exact (solver)":
            high = _number(self.cost.fraction)
            lines.append(f"OPT = {high} if the solver is believed; OPT >= {low} is proved")
        else:
            width = self.cost.fraction - self.lower_bound
            share = 100 * float(width / self.cost.fraction) if self.cost.units else 0.0
            lines.append(
                f"{low} <= OPT <= {_number(self.cost.fraction)}: the lower bound is proved, the upper one is "
                f"the cost of the schedule; gap {_number(width)} ({share:.3g} % of the cost)"
            )
        certified = "certified" if self.status.certified else "not certified"
        incumbent = "a schedule" if self.status.incumbent else "no schedule"
        lines.append(f"stopped: {self.status.stop}; {incumbent}; {certified}")
        return "\n".join([*lines, *self.notes])


def _number(value: Fraction) -> str:
    """A cost for people: short if exact, else to ten digits and the fraction."""
    text = f"{float(value):.10g}"
    return text if Fraction(text) == value else f"{text} ({value})" if value.denominator < 10**6 else text


def confirm(
    result: MethodResult, trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None
) -> Cost | None:
    """Verify and price the schedule of ``result``; return its cost, None if there is no schedule.

    Raises
    ------
    NotCertified
        The method's own value differs from the price, or lies below its own lower bound: a bug.
    InvalidSchedule
        The schedule breaks a rule: a bug.
    """
    if result.lower_bound is not None and result.lower_bound > result.objective:
        raise NotCertified(
            f"{result.method}: lower bound {result.lower_bound} above its own value {result.objective}"
        )
    if result.schedule is None:
        return None
    priced = cost(result.schedule, trace, capacity, switch_cost, variant)
    if priced.fraction != result.objective:
        raise NotCertified(
            f"{result.method}: value {result.objective}, but its schedule costs {priced.fraction}"
        )
    return priced
