"""Limits on a ratio of two expectations, from independent pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from softhit.errors import InvalidInput

__all__ = ["ratio_limits"]


def ratio_limits(above: Sequence[float], below: Sequence[float], error: float) -> tuple[float, float, float]:
    """Return (estimate, low, high) for E[above]/E[below]; each limit errs with ``error``.

    The estimate is the ratio of the sums. A limit c is where Student's t for ``above - c * below``, at level
    ``1 - error`` one-sided, has the mean at zero (Fieller's method); ``below`` must be positive and well away
    from zero by the same measure. The level is that of normal means of the differences; here every pair is
    itself a sum over hundreds of phases.

    Examples
    --------
    >>> middle, low, high = ratio_limits([3.1, 2.9, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0], 0.01)
    >>> round(middle, 3), round(low, 2), round(high, 2)
    (3.0, 2.81, 3.19)
    """
    x, y = np.asarray(above, float), np.asarray(below, float)
    n = len(x)
    if n < 2 or len(y) != n:
        raise InvalidInput(f"above and below: two pairs or more, got {n} and {len(y)} values")
    quantile = float(student.ppf(1 - error, n - 1)) ** 2 / n
    (sxx, sxy), (_, syy) = np.cov(x, y)
    mx, my = float(x.mean()), float(y.mean())
    # (mx - c my)^2 = quantile * var(x - c y), a quadratic in c
    a, b, c = my * my - quantile * syy, mx * my - quantile * sxy, mx * mx - quantile * sxx
    if my <= 0 or a <= 0:
        raise InvalidInput("below: its mean is not clear of zero; take more or longer runs")
    root = float(np.sqrt(max(0.0, b * b - a * c)))
    return mx / my, float((b - root) / a), float((b + root) / a)
