"""The lowest of many independent Beta draws, without drawing them all.

Thompson eviction removes the argmin of one draw ``X_j ~ Beta(a_j, b_j)`` per cached item. Only the argmin
matters, so items are compared with the lowest draw so far, x, and most are passed over for the price of a
multiplication:

* For ``b_j >= 1`` the density of X_j is below ``h_j(z) = a (a+b)^a z^(a-1) / Gamma(a+1)``, since
  ``(1-z)^(b-1) <= 1`` and ``Gamma(a+b) / Gamma(b) <= (a+b)^a`` (``log Gamma`` is convex and ``psi < log``).
  So X_j falls below x with probability at most ``p = y^a / Gamma(a+1)``, ``y = x (a+b)``, for which there are
  cheaper upper bounds q.
* An event of probability q is drawn for each j, all from one uniform u: the first event is where the product
  of ``1 - q`` falls to u. No event: X_j >= x. After an event, a chance of p/q, a point ``z = x V^(1/a)``
  (from h_j on [0, x]) and a chance of ``f_j(z) / h_j(z)`` leave z with density exactly f_j(z): it is the new
  lowest.
* Where p >= 1 the event is certain and a plain Beta draw decides.

The law is exactly that of the argmin of independent draws, up to rounding of doubles.
"""

from __future__ import annotations

import math
from typing import Any

from softhit.jit import lean

__all__ = ["lowest_draw", "lowest_mean", "lowest_plain_draw"]

_LEAST_GAMMA = 0.8856  # the minimum of Gamma on [1, 2] is 0.885603...


@lean
def _bound(shape: Any, y: Any) -> Any:
    """Return q >= min(1, y^shape / Gamma(shape + 1)), cheaply."""
    if y >= 1.0:
        return 1.0
    if shape >= 2.0:
        return 0.5 * y * y
    if shape >= 1.0:
        return y
    if shape >= 0.5:
        return min(1.0, math.sqrt(y) / _LEAST_GAMMA)
    return min(1.0, y**shape / _LEAST_GAMMA)


@lean
def lowest_draw(rng: Any, a: Any, b: Any, n: Any, first: Any) -> Any:
    """Return the index of the lowest of n independent draws Beta(a[j], b[j]); all a[j] > 0, b[j] >= 1.

    ``first`` is any index, drawn first: the likely winner makes it fast, none makes it wrong.
    """
    lowest = first
    x = rng.beta(a[first], b[first])
    u = rng.random()
    none_yet = 1.0
    for j in range(n):
        shape = a[j]
        mass = shape + b[j]
        y = x * mass
        q = _bound(shape, y)
        none_yet *= 1.0 - q
        if none_yet > u:
            continue
        u = rng.random()
        none_yet = 1.0
        if j == first or y <= 0.0:
            continue
        log_p = shape * math.log(y) - math.lgamma(shape + 1.0)
        if log_p >= 0.0:
            z = rng.beta(shape, b[j])
            if z < x:
                x = z
                lowest = j
        elif rng.random() * q < math.exp(log_p):
            z = x * rng.random() ** (1.0 / shape)
            fit = (b[j] - 1.0) * math.log1p(-z) + math.lgamma(mass) - math.lgamma(b[j])
            if rng.random() < math.exp(fit - shape * math.log(mass)):
                x = z
                lowest = j
    return lowest


@lean
def lowest_plain_draw(rng: Any, a: Any, b: Any, n: Any) -> Any:
    """Return what :func:`lowest_draw` returns, by n Beta draws: the definition, kept to test against."""
    lowest = 0
    x = 2.0
    for j in range(n):
        z = rng.beta(a[j], b[j])
        if z < x:
            x = z
            lowest = j
    return lowest


@lean
def lowest_mean(a: Any, b: Any, n: Any) -> Any:
    """Return the index of the lowest posterior mean a / (a + b); the first one where several tie."""
    lowest = 0
    for j in range(1, n):
        if a[j] * b[lowest] < a[lowest] * b[j]:
            lowest = j
    return lowest
