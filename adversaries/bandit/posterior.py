"""Beta posteriors of Bernoulli means: plain draws, and an exact way to see draws below a level only.

Arm j with s losses in n pulls has the posterior Beta(1 + s, 1 + n - s), log-concave with density f. Below its
mode f lies under its tangent, taken at a level x in the logarithm:

    f(z) <= f(x) exp(-g (x - z)),   g = s/x - (n - s)/(1 - x) > 0,   z <= x,

whose mass is p = f(x)/g. Where p <= 1 a draw can be made in two parts: with probability p there is a
*candidate* ``z = x - E/g`` (E exponential), accepted with probability ``f(z) / (f(x) exp(-g (x - z)))``. What
is accepted has density f on (0, x); nothing accepted means that the draw is x or more. Most arms have no
candidate in most rounds, and cost nothing where candidates are found by a search tree.
"""

from __future__ import annotations

import math
from typing import Any

from softhit.jit import lean

__all__ = ["draw_beta", "draw_gamma", "fits", "log_density", "tangent"]

_STIRLING = 15.0
_HALF_LOG_TAU = 0.91893853320467274178
_SQUEEZE = 0.0331  # Marsaglia and Tsang's


@lean
def draw_gamma(rng: Any, shape: Any) -> Any:
    """Return a Gamma(shape) draw, shape >= 1: Marsaglia and Tsang (2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = rng.standard_normal()
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = rng.random()
        square = x * x
        if u < 1.0 - _SQUEEZE * square * square:
            return d * v
        if u > 0.0 and math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return d * v


@lean
def draw_beta(rng: Any, losses: Any, others: Any) -> Any:
    """Return a draw from Beta(1 + losses, 1 + others)."""
    x = draw_gamma(rng, 1.0 + losses)
    return x / (x + draw_gamma(rng, 1.0 + others))


@lean
def _stirling(n: Any) -> Any:
    """Return log n! - ((n + 1/2) log n - n + log(2 pi)/2) for n >= 1."""
    if n < _STIRLING:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - _HALF_LOG_TAU
    r = 1.0 / n
    q = r * r
    return r * (1.0 / 12.0 - q * (1.0 / 360.0 - q * (1.0 / 1260.0 - q * (1.0 / 1680.0 - q / 1188.0))))


@lean
def log_density(losses: Any, others: Any, x: Any) -> Any:
    """Return the logarithm of the Beta(1 + losses, 1 + others) density at x in (0, 1).

    With n = losses + others it is ``n + 1`` times a binomial probability, here in Loader's form: the large
    terms cancel before they are formed, so that the absolute error stays near ``1e-16 n``.
    """
    n = losses + others
    if losses == 0.0:
        return math.log(n + 1.0) + others * math.log1p(-x)
    if others == 0.0:
        return math.log(n + 1.0) + losses * math.log(x)
    away = losses * math.log(losses / (n * x)) + others * math.log(others / (n * (1.0 - x)))
    rest = _stirling(n) - _stirling(losses) - _stirling(others)
    return math.log(n + 1.0) + 0.5 * math.log(n / (losses * others)) - _HALF_LOG_TAU + rest - away


@lean
def tangent(losses: Any, others: Any, x: Any) -> Any:
    """Return (p, g) of the tangent at level x; p = 1 where there is none or its mass is not below 1."""
    slope = losses / x - others / (1.0 - x)
    if slope <= 0.0:
        return 1.0, 0.0
    mass = math.exp(log_density(losses, others, x)) / slope
    return min(mass, 1.0), slope


@lean
def fits(rng: Any, losses: Any, others: Any, x: Any, slope: Any, z: Any) -> Any:
    """Accept a candidate z < x with the probability f(z) / (f(x) exp(-slope (x - z)))."""
    if z <= 0.0:
        return False
    u = rng.random()
    away = x - z
    rest = 1.0 - x
    # A squeeze: between z and x, -(log f)'' is at most what stands in brackets.
    if u <= 1.0 - 0.5 * away * away * (losses / (z * z) + others / (rest * rest)):
        return True
    log_ratio = losses * math.log(z / x) + others * math.log1p(away / rest) + slope * away
    return u <= math.exp(log_ratio)
