"""The lowest of many independent Beta draws, without drawing them all.

Thompson eviction removes the argmin of one draw ``X_j ~ Beta(a_j, b_j)`` per cached item. Only the argmin
matters, so items are compared with the lowest draw so far, x, and most are passed over for the price of a few
multiplications:

* For ``b_j >= 1`` the density of X_j is below ``h_j(z) = a (a+b)^a z^(a-1) / Gamma(a+1)``, since
  ``(1-z)^(b-1) <= 1`` and ``Gamma(a+b) / Gamma(b) <= (a+b)^a`` (``log Gamma`` is convex and ``psi < log``).
  So X_j falls below x with probability at most ``p_j = (x (a+b))^a / Gamma(a+1)``.
* With ``m >= a_j + b_j`` for all j and ``s = -log(x m) > 0``, in turn
  ``p_j <= q_j = C / (1 + t + t^2/2 + t^3/6)``, ``t = a_j s``, ``C = 1 / min Gamma``: no logarithm, no power.
* An event of probability q_j is drawn for each j, all from one uniform u: the first event is where the
  product of ``1 - q`` falls to u. No event: X_j >= x. After an event, a chance of p_j/q_j, a point
  ``z = x V^(1/a)`` (from h_j on [0, x]) and a chance of ``f_j(z) / h_j(z)`` leave z with density exactly
  f_j(z): it is the new lowest.
* Where p_j >= 1 a plain Beta draw decides.

The law is exactly that of the argmin of independent draws, up to rounding of doubles.
"""

from __future__ import annotations

import math
from typing import Any

from softhit.jit import lean

__all__ = ["lowest_draw", "lowest_mean", "lowest_plain_draw"]

_C = 1.13  # Gamma >= 0.885603... on the positive numbers


@lean
def lowest_draw(rng: Any, a: Any, b: Any, n: Any, first: Any, most: Any) -> Any:
    """Return the index of the lowest of n independent draws Beta(a[j], b[j]); all a[j] > 0, b[j] >= 1.

    ``most`` is at least every a[j] + b[j]. ``first`` is any index, drawn first: the likely winner makes it
    fast, none makes it wrong.
    """
    lowest = first
    x = rng.beta(a[first], b[first])
    if x <= 0.0:
        return lowest
    s = -math.log(x * most)
    u = rng.random()
    none_yet = 1.0
    for j in range(n):
        shape = a[j]
        q = 1.0
        if s > 0.0:
            t = shape * s
            q = min(1.0, _C / (1.0 + t * (1.0 + t * (0.5 + t * (1.0 / 6.0)))))
        none_yet *= 1.0 - q
        if none_yet > u:
            continue
        u = rng.random()
        none_yet = 1.0
        if j == first:
            continue
        mass = shape + b[j]
        log_p = shape * math.log(x * mass) - math.lgamma(shape + 1.0)
        z = x
        if log_p >= 0.0:
            z = rng.beta(shape, b[j])
        elif rng.random() * q < math.exp(log_p):
            z = x * rng.random() ** (1.0 / shape)
            fit = (b[j] - 1.0) * math.log1p(-z) + math.lgamma(mass) - math.lgamma(b[j])
            if rng.random() >= math.exp(fit - shape * math.log(mass)):
                z = x
        if z < x:
            x = z
            lowest = j
            if x <= 0.0:
                return lowest
            s = -math.log(x * most)
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
