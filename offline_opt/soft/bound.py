"""A lower bound on the optimum from any prices, in exact integers.

Three kinds of price take the coupling out of the problem: ``serve[t] >= 0`` for being one of the k that
serve step t, ``slot[u] >= 0`` per unit of size for lying in the cache while step u is served, and
``0 <= entry <= lambda`` per unit of inserted size. What is left is one on/off programme per item, and

    OPT >= W - k sum_t serve[t] - K sum_u slot[u] - [free fill] K entry - sum_i V_i

with W the sum of weights and V_i the most that item i can collect: ``max(0, w_t s_t(i) - serve[t])`` (s
over k for ``mean_topk``) at each of its steps while it is in, minus ``slot`` for all steps it is in, minus
``entry`` per insertion; sizes multiply the last two. This is weak duality: it holds for *every* choice of
prices, optimal or not, so it does not matter where they come from or whether a solver was right about
them. Free fill needs no other argument: ``lambda max(0, Z - K) >= entry (Z - K)`` for each such entry price.

The programme of an item may drop it after one occasion and insert it again before the next one; leaving
that out would make V_i too small and the bound false.

With a score the bound lets the optimum choose what it retrieves, which relaxes the problem. ``coverage``
uses ``1 - prod(1 - s) <= min(1, sum s)`` with a fourth price, ``credit[t]`` between 0 and w_t: the step
yields ``w_t - credit[t]`` anyway, and items collect ``credit[t] s_t(i) - serve[t]``. Elsewhere credit is w_t.

A worked example: requests 0 1 0 1, one slot, lambda = 0, serve_then_update. Both items would like to stay
over the steps in between, so price the slot at 1 there:

>>> from fractions import Fraction
>>> from softhit import Variant, from_requests
>>> prices = Prices(slot=np.array([0, 1, 1, 0]), serve=None, entry=0, unit=Fraction(1))
>>> lower_bound(from_requests([0, 1, 0, 1]), 1, 0, Variant(fill="charged"), prices)
Fraction(2, 1)

That is W = 4, less 2 for the slot prices; each item could collect 1 and would pay 2 or 1 for it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.result import Prices
from offline_opt.soft.occasions import Occasions, find_occasions
from softhit.check import check_int, fail
from softhit.errors import InvalidInput
from softhit.exact import check_switch_cost
from softhit.jit import jit
from softhit.retrieval import utility_scale
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["cost_grid", "fine_scale", "lower_bound", "round_up", "rounded_prices"]

_LIMIT = 1 << 62


@jit
def _collect(
    ptr: Any,
    step: Any,
    enter: Any,
    reward: Any,
    serve: Any,
    paid: Any,
    entry: Any,
    sizes: Any,
    value: Any,
) -> None:
    """V_i of every item; ``paid[u]`` is the sum of slot prices of the steps before boundary u."""
    for i in range(len(ptr) - 1):
        off = np.int64(0)
        on = np.int64(0)
        held = False  # whether `on` is a value yet; before the first insertion the item cannot be in
        since = np.int64(0)  # boundary up to which `on` has paid
        for e in range(ptr[i], ptr[i + 1]):
            t = step[e]
            if held:
                on -= sizes[i] * (paid[t + 1] - paid[since])
            if enter[e] >= 0:
                fresh = off - sizes[i] * (entry + paid[t + 1] - paid[enter[e]])
                if not held or fresh > on:
                    on = fresh
                held = True
            gain = reward[e] - serve[t]
            if gain > 0:
                on += gain
            since = t + 1
            if on > off:
                off = on
        value[i] = off


def _integers(name: str, value: Any, length: int, factor: int, high: NDArray[Any] | None = None) -> Any:
    """Prices as int64 in the working unit, which is 1/``factor`` of theirs."""
    array = np.asarray(value)
    integral = array.dtype.kind in "iu" or (
        array.dtype == object and all(isinstance(x, int | np.integer) for x in array.tolist())
    )
    if array.shape != (length,) or not (integral or length == 0):
        fail(name, value, f"integers, one for each of the {length} steps")
    if not length:
        return np.zeros(0, np.int64)
    if array.min() < 0:
        fail(f"{name}[{int(array.argmin())}]", int(array.min()), "an integer >= 0")
    if int(array.max()) * factor >= _LIMIT:
        raise InvalidInput(f"{name} prices are too large for 64 bits: take a coarser unit")
    result = array.astype(np.int64) * factor
    if high is not None and np.any(result > high):
        bad = int(np.flatnonzero(result > high)[0])
        fail(f"{name}[{bad}]", int(array[bad]), f"at most the weight of the step, {int(high[bad]) // factor}")
    return result


def lower_bound(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant,
    prices: Prices,
    occasions: Occasions | None = None,
) -> Fraction:
    """Return the bound that ``prices`` prove, exactly. Every variant.

    Parameters
    ----------
    occasions : Occasions, optional
        Those of the same trace, capacity and variant, if at hand.

    Raises
    ------
    InvalidInput
        A price is negative or above its maximum, or the numbers could exceed 64 bits.
    """
    capacity = check_int("capacity", capacity, low=1)
    lam = check_switch_cost(switch_cost)
    full = utility_scale(trace.quality_scale, variant)
    unit = Fraction(prices.unit)
    if unit <= 0:
        fail("unit", prices.unit, "a fraction > 0")
    if not 0 <= prices.entry * unit <= lam:
        fail("entry", prices.entry, f"an integer in 0..{math.floor(lam / unit)}, at most lambda")
    # the working unit divides both the prices' and the qualities'
    scale = math.lcm(unit.denominator, full)
    factor = unit.numerator * (scale // unit.denominator)
    entry = prices.entry * factor
    whole = trace.total_weight * scale
    if whole >= _LIMIT:
        raise InvalidInput(f"the unit {unit} is too fine for weights that sum to {trace.total_weight}")
    n_steps = trace.n_steps
    most = trace.weight.astype(np.int64) * scale
    serve = np.zeros(n_steps, np.int64)
    if prices.serve is not None:
        serve = _integers("serve", prices.serve, n_steps, factor)
    slot = _integers("slot", prices.slot, n_steps, factor)
    if occasions is None:
        occasions = find_occasions(trace, capacity, variant)
    quality = trace.quality[occasions.entry].astype(np.int64)
    if prices.credit is None:
        kept = 0
        reward = trace.weight[occasions.step] * quality * (scale // full)
    else:
        if variant.aggregator != "coverage":
            raise InvalidInput(f"credit prices are for aggregator 'coverage', not {variant.aggregator!r}")
        credit = _integers("credit", prices.credit, n_steps, factor, most)
        kept = whole - sum(credit.tolist())
        # rounded up: items may collect too much, never too little; halves keep the product in 64 bits
        high, low = np.divmod(credit[occasions.step], full)
        reward = high * quality - (-low * quality // full)

    total_slot = sum(slot.tolist())
    used = np.diff(occasions.ptr) > 0
    largest = int(trace.sizes[used].max(initial=1))
    if whole + largest * (entry + total_slot) >= _LIMIT:
        raise InvalidInput("prices and sizes are too large for 64 bits: take a coarser unit")
    paid = np.zeros(n_steps + 1, np.int64)
    np.cumsum(slot, out=paid[1:])
    value = np.zeros(trace.n_items, np.int64)
    _collect(
        occasions.ptr,
        occasions.step,
        occasions.enter,
        reward,
        serve,
        paid,
        entry,
        trace.sizes,
        value,
    )
    units = whole - kept - variant.top_k * sum(serve.tolist()) - capacity * total_slot - sum(value.tolist())
    if variant.free_fill:
        units -= capacity * entry
    return Fraction(units, scale)


def fine_scale(trace: Trace, switch_cost: Any, variant: Variant) -> int:
    """Return a scale for prices: that of costs, refined as far as 64 bits comfortably allow.

    It holds lambda exactly unless lambda's denominator leaves no room.
    """
    lam = check_switch_cost(switch_cost)
    full = utility_scale(trace.quality_scale, variant)
    budget = (1 << 58) // max(1, trace.total_weight)
    exact = math.lcm(full, lam.denominator)
    scale = exact if exact <= budget else full
    return scale * (1 << max(0, min(24, (budget // scale).bit_length() - 1)))


def rounded_prices(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant,
    serve: Any,
    slot: Any,
    entry: float | None = None,
    credit: Any = None,
) -> Prices:
    """Turn a solver's float prices (per 1.0 of cost) into valid integer ones: clipped, then rounded.

    Slot prices that would cost more than serving nothing altogether are useless; they are scaled down, so
    that no sum overflows. ``entry=None`` takes lambda itself. ``credit`` is per 1.0 of quality.
    """
    lam = check_switch_cost(switch_cost)
    scale = fine_scale(trace, lam, variant)
    weight = trace.weight.astype(np.float64)

    def clean(values: Any, high: Any) -> NDArray[np.float64]:
        finite = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        return np.clip(finite, 0.0, high)

    def grid(values: NDArray[np.float64], unit: int) -> NDArray[np.int64]:
        return np.rint(values * unit).astype(np.int64)

    held = clean(slot, float(trace.total_weight))
    total = float(held.sum()) * float(capacity)
    if total > trace.total_weight:
        held *= trace.total_weight / total
    price = min(math.floor(lam * scale), (1 << 61) // int(trace.sizes.max(initial=1)))
    if entry is not None and math.isfinite(entry):
        price = min(price, max(0, round(Fraction(entry) * scale)))
    most = trace.weight.astype(np.int64) * scale
    return Prices(
        slot=grid(held, scale),
        serve=grid(clean(serve, weight), scale),
        entry=price,
        unit=Fraction(1, scale),
        credit=None if credit is None else np.minimum(grid(clean(credit, weight), scale), most),
    )


def cost_grid(trace: Trace, capacity: int, switch_cost: Any, variant: Variant) -> Fraction:
    """Return the coarsest step found such that the total cost of every schedule is a multiple of it.

    0 if every schedule costs 0. With ``coverage``, whose utilities are rounded to the quality grid, the step
    is that of the weights on this grid.

    >>> from softhit import from_requests
    >>> cost_grid(from_requests([0, 1, 0]), 1, "1/3", Variant())
    Fraction(1, 3)
    """
    lam = check_switch_cost(switch_cost)
    full = utility_scale(trace.quality_scale, variant)
    if variant.aggregator == "coverage":
        common = int(np.gcd.reduce(trace.weight.astype(np.int64))) if trace.n_steps else 0
    else:
        weight = np.repeat(trace.weight, np.diff(trace.indptr)).astype(np.int64)
        common = int(np.gcd.reduce(weight * trace.quality)) if len(trace.items) else 0
        common = math.gcd(common, trace.total_weight * full)
    sizes = int(np.gcd.reduce(trace.sizes)) if trace.n_items else 0
    if variant.free_fill:
        sizes = math.gcd(sizes, capacity)
    price = lam * sizes
    step = Fraction(common, full)
    denominator = math.lcm(step.denominator, price.denominator)
    return Fraction(
        math.gcd(int(step * denominator), int(price * denominator)),
        denominator,
    )


def round_up(bound: Fraction, grid: Fraction) -> Fraction:
    """Return the least multiple of ``grid`` that is not below ``bound``; valid where costs are multiples.

    >>> round_up(Fraction(7, 5), Fraction(1, 2))
    Fraction(3, 2)
    """
    return bound if grid == 0 else math.ceil(bound / grid) * grid
