"""Rational numbers just above a square root or a logarithm: real inequalities checked without rounding."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

__all__ = ["log_above", "root_above", "root_below"]

_SCALE = 10**18
_TERMS = 40


def root_below(x: Fraction) -> Fraction:
    """Return a rational r with r^2 <= x, within 10^-18 of the root in absolute terms for x <= 1.

    >>> root_below(Fraction(9, 4))
    Fraction(3, 2)
    """
    return Fraction(isqrt(x.numerator * _SCALE**2 // x.denominator), _SCALE)


def root_above(x: Fraction) -> Fraction:
    """Return a rational r with r^2 >= x.

    >>> root_above(Fraction(2))**2 > 2, float(root_above(Fraction(2)))
    (True, 1.4142135623730951)
    """
    return root_below(x) + Fraction(1, _SCALE)


def log_above(x: Fraction) -> Fraction:
    """Return a rational number that is at least ``-log(1 - x)``, for 0 <= x < 1.

    The power series, its tail bounded by a geometric one.

    >>> round(float(log_above(Fraction(1, 4))), 12)
    0.287682072452
    """
    total, power = Fraction(0), Fraction(1)
    for i in range(1, _TERMS + 1):
        power *= x
        total += power / i
        if power.denominator > _SCALE**4:  # keep the numbers short, upwards
            power = Fraction(-(-power.numerator * _SCALE**3 // power.denominator), _SCALE**3)
    return total + power * x / ((_TERMS + 1) * (1 - x))
