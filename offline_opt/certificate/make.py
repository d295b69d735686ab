"""Make certificates: from a schedule and prices, or from an answer of the facade."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from offline_opt.certificate.checker import Instance, Rejected, Verdict, check, evaluate
from offline_opt.certificate.format import Certificate, contents_of
from offline_opt.certificate.prices import floor_prices
from offline_opt.result import OptResult, Prices
from offline_opt.soft.bound import cost_grid
from softhit.check import check_int
from softhit.cost import cost
from softhit.errors import NotCertified
from softhit.exact import check_switch_cost
from softhit.io.canonical import canonical_bytes
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["certify", "check_certificate", "make_certificate"]

LP_ENTRIES = 30_000
"""Up to this many entries :func:`certify` solves the LP relaxation where an answer brought no prices."""


def make_certificate(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    schedule: Schedule | None = None,
    prices: Prices | None = None,
) -> Certificate:
    """Return the certificate of a schedule and of prices, with the two numbers that they prove.

    Parameters
    ----------
    trace : Trace
    capacity : int
    switch_cost : int, float, Fraction or str
    variant : Variant, optional
    schedule : Schedule, optional
        Default: nothing ever enters.
    prices : Prices, optional
        Default: those of the floor F.

    Raises
    ------
    InvalidSchedule
        The schedule breaks a rule.
    NotCertified
        The prices are not allowed (negative, or an insertion above lambda), or, which would be a bug, the
        checker and :func:`softhit.cost` price the schedule differently.

    Examples
    --------
    >>> from softhit import from_requests
    >>> from offline_opt.flow.ssp import solve_ssp
    >>> trace = from_requests([0, 1, 0, 2, 0, 1])
    >>> best = solve_ssp(trace, capacity=1, switch_cost=1)
    >>> make_certificate(trace, 1, 1, schedule=best.schedule, prices=best.prices)
    <Certificate: 4 <= OPT <= 4, K = 1, serve_then_update/stream/free/best, trace ...>
    """
    return _make(
        trace, Instance.from_bytes(canonical_bytes(trace)), capacity, switch_cost, variant, schedule, prices
    )


def _make(
    trace: Trace,
    instance: Instance,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None,
    schedule: Schedule | None,
    prices: Prices | None,
) -> Certificate:
    slots, lam, kind = (
        check_int("capacity", capacity, low=1),
        check_switch_cost(switch_cost),
        variant or Variant(),
    )
    held = Schedule.from_events(trace.n_steps, [], [], [], []) if schedule is None else schedule
    priced = cost(held, trace, slots, lam, kind).fraction
    draft = Certificate(
        trace=trace.hash,
        capacity=slots,
        switch_cost=lam,
        variant=kind,
        schedule=held,
        prices=floor_prices(trace, slots, kind) if prices is None else prices,
        grid=Fraction(0),
        lower_bound=Fraction(0),
        upper_bound=priced,
    )
    for name in ("slot", "serve", "credit"):
        given = getattr(draft.prices, name)
        if given is not None and len(given) and min(given.tolist()) < 0:
            raise NotCertified(f"{name} prices must be >= 0")
    try:
        low, high = evaluate(contents_of(draft), instance)
    except Rejected as why:
        raise NotCertified(str(why)) from None
    if high != priced:
        raise NotCertified(f"the checker prices the schedule {high}, softhit.cost {priced}: a bug")
    grid = cost_grid(trace, slots, lam, kind) if low < high else Fraction(0)
    rounded = -(-low // grid) * grid if grid else low
    return replace(draft, grid=grid if rounded > low else Fraction(0), lower_bound=rounded)


def certify(
    result: OptResult, trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None
) -> Certificate:
    """Return a certificate for an answer of :func:`offline_opt.solve`.

    Its upper bound is the cost of the answer's schedule. Its lower bound is that of the answer wherever
    prices prove it: the flow, classes, the relaxation, the floor. An optimum found by exhaustion (``dp``) or
    by branch and bound (``milp``) may lie above what any prices prove; then the certificate holds the best
    of the answer's own prices, the floor's and those of the LP relaxation, and claims less than the answer.

    Raises
    ------
    NotCertified
        As in :func:`make_certificate`.

    Examples
    --------
    >>> from offline_opt import solve
    >>> from softhit import from_requests
    >>> trace = from_requests([0, 1, 0, 1])
    >>> certificate = certify(solve(trace, 1, "1/2"), trace, 1, "1/2")
    >>> print(check_certificate(certificate, trace).reason)
    OPT = 3 for K = 1, lambda = 1/2, serve_then_update/stream/free/best, trace ...
    """
    kind = variant or Variant()
    instance = Instance.from_bytes(canonical_bytes(trace))

    def made(prices: Prices | None) -> Certificate:
        return _make(trace, instance, capacity, switch_cost, kind, result.schedule, prices)

    found = [made(result.certificate)] if result.certificate is not None else []
    if not found or found[-1].lower_bound < result.lower_bound:
        found.append(made(None))
    best = max(found, key=lambda certificate: certificate.lower_bound)
    if best.lower_bound < result.lower_bound and len(trace.items) <= LP_ENTRIES:
        from offline_opt.soft.milp import relax

        relaxed = relax(trace, capacity, check_switch_cost(switch_cost), kind).prices
        if relaxed is not None:
            best = max(best, made(relaxed), key=lambda certificate: certificate.lower_bound)
    return best


def check_certificate(certificate: Certificate | bytes, trace: Trace) -> Verdict:
    """Let the checker decide whether a certificate, or the bytes of its file, proves its numbers."""
    data = certificate if isinstance(certificate, bytes) else certificate.to_bytes()
    return check(data, canonical_bytes(trace))
