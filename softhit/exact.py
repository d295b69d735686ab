"""Exact numbers: switching costs as fractions and costs as integers over a scale."""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from softhit.check import fail

__all__ = ["Cost", "as_fraction", "check_switch_cost", "harmonic"]

# what Fraction would read as well: underscores, digits of other scripts, and exponents that fill the memory
_TEXT = re.compile(r"\s*[-+]?(\d+/\d+|(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?)\s*", re.ASCII)
_MOST_DIGITS = 4000


def as_fraction(name: str, value: Any, low: int | None = None) -> Fraction:
    """Return ``value`` exactly: an int, a Fraction, a string such as ``"1/3"`` or ``"1e3"``, or a float.

    A float stands for its shortest decimal, so 0.1 is 1/10 and not the binary number nearest to it. In text
    an exponent has three digits at most.

    >>> as_fraction("switch_cost", 0.1), as_fraction("switch_cost", "1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    allowed = "a finite number or fraction such as 0, 0.5, '1/3'" + ("" if low is None else f", >= {low}")
    if isinstance(value, bool):
        fail(name, value, allowed)
    if isinstance(value, Fraction):
        result = value
    elif isinstance(value, numbers.Integral):
        result = Fraction(int(value))
    elif isinstance(value, numbers.Real):
        number = float(value)
        if not math.isfinite(number):
            fail(name, value, allowed)
        result = Fraction(repr(number))
    elif isinstance(value, str):
        if len(value) > _MOST_DIGITS or not _TEXT.fullmatch(value):
            fail(name, value, allowed)
        try:
            result = Fraction(value)
        except ZeroDivisionError:
            fail(name, value, allowed)
    else:
        fail(name, value, allowed)
    if low is not None and result < low:
        fail(name, value, allowed)
    return result


def check_switch_cost(value: Any) -> Fraction:
    """Return lambda, the price of one replacement, as an exact fraction >= 0; 0 is legal.

    >>> check_switch_cost(0)
    Fraction(0, 1)
    """
    return as_fraction("switch_cost", value, low=0)


@dataclass(frozen=True)
class Cost:
    """The exact cost of a schedule: ``units / scale``, split into misses and switches.

    Attributes
    ----------
    units, scale : int
        The cost is ``units / scale`` exactly.
    miss_units, switch_units : int
        The two parts, same scale; ``units = miss_units + switch_units``.
    insertions : int
        Total inserted size (the number of insertions for unit sizes).
    paid : int
        Inserted size that was charged: ``insertions`` with charged fill, ``max(0, insertions - capacity)``
        with free fill; for unit sizes the number of replacements S_T.
    """

    units: int
    scale: int
    miss_units: int
    switch_units: int
    insertions: int
    paid: int

    @property
    def fraction(self) -> Fraction:
        """The cost as a fraction."""
        return Fraction(self.units, self.scale)

    @property
    def misses(self) -> Fraction:
        """The total miss cost M_T as a fraction."""
        return Fraction(self.miss_units, self.scale)

    @property
    def switching(self) -> Fraction:
        """The total switching cost lambda * S_T as a fraction."""
        return Fraction(self.switch_units, self.scale)

    def __float__(self) -> float:
        return self.units / self.scale


def harmonic(k: int) -> Fraction:
    """Return H_k = 1 + 1/2 + ... + 1/k, exactly.

    >>> harmonic(3)
    Fraction(11, 6)
    """
    return sum((Fraction(1, i) for i in range(1, k + 1)), Fraction(0))
