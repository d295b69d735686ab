"""How useful each item is believed to be: a Beta posterior with closed-form aging.

Each query is a trial of every item SOLAR remembers: a success of size g for an item that served it with
quality g, or would have had it been held; a failure for the others. Trials are discounted by ``exp(-1/H)``
per query, so d queries after it had A successes in S trials an item has ``A e^(-d/H)`` and ``H - (H - S)
e^(-d/H)``. Both are stored times ``grown = e^(clock/H)``, which makes aging free: a step multiplies one
number, whatever the number of items. A step of weight w counts as w queries; a step without a query is no
trial.

The belief is ``Beta(prior + A, 1 + S - A)``. With ``forgetful = False`` it is the paper's wording taken
literally: no discount, only retrieved items learn, ``Beta(1 + sum g, 1 + sum (1 - g))``.

With sizes what counts is the value of an item per unit of its size: a step of weight w lets ``w / mean size``
queries pass, and a success of item i counts ``w / size_i`` times. Where a miss costs the size of what is
missing, that is one success a request, as for size 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.jit import lean

__all__ = ["advance", "clear", "credit", "new_clock", "shapes"]

GROWN, BEFORE, RATE, STEP, HORIZON, PRIOR, FORGETFUL, TYPICAL = range(8)
WINS, LACK = range(2)
_LARGEST = 1e12
_NEGLIGIBLE = 1e-60


def new_clock(horizon: float, prior: float, forgetful: bool, typical: float = 1.0) -> NDArray[np.float64]:
    """Return a run's clock: [grown now, grown before this step, 1/H, e^(1/H), H, prior, forgetful, size]."""
    rate = 1.0 / horizon if forgetful else 0.0
    return np.array([1.0, 1.0, rate, math.exp(rate), horizon, prior, float(forgetful), typical])


@lean
def advance(clock: Any, belief: Any, weight: Any) -> None:
    """Let ``weight`` queries pass: every remembered item ages."""
    clock[BEFORE] = clock[GROWN]
    if weight == 1:
        clock[GROWN] *= clock[STEP]
    else:
        clock[GROWN] *= math.exp(min(weight * clock[RATE], 100.0))
    if clock[GROWN] > _LARGEST:
        shrink = 1.0 / clock[GROWN]
        for r in range(len(belief)):
            for c in range(2):
                value = belief[r, c] * shrink
                belief[r, c] = value if value > _NEGLIGIBLE else 0.0
        clock[BEFORE] *= shrink
        clock[GROWN] = 1.0


@lean
def credit(clock: Any, belief: Any, r: Any, success: Any, failure: Any) -> None:
    """Record a success of size ``success``; ``failure`` matters only where time does not imply failures."""
    belief[r, WINS] += success * clock[GROWN]
    if clock[FORGETFUL] == 0.0:
        belief[r, LACK] += failure


@lean
def clear(clock: Any, belief: Any, r: Any, at_query: Any) -> None:
    """Give record r the bare prior: no successes, and trials from this step's query on (else the next)."""
    belief[r, WINS] = 0.0
    if clock[FORGETFUL] == 0.0:
        belief[r, LACK] = 0.0
    else:
        belief[r, LACK] = clock[HORIZON] * (clock[BEFORE] if at_query else clock[GROWN])


@lean
def shapes(clock: Any, belief: Any, n: Any, a: Any, b: Any) -> Any:
    """Write the Beta parameters of records 0..n-1, as of now, into ``a`` > 0 and ``b`` >= 1.

    Returns the record with the smallest a, and the largest a + b.
    """
    least = 0
    most = 0.0
    forgetful = clock[FORGETFUL] != 0.0
    now = 1.0 / clock[GROWN]
    horizon = clock[HORIZON]
    prior = clock[PRIOR]
    for r in range(n):
        if forgetful:
            successes = belief[r, WINS] * now
            a[r] = prior + successes
            b[r] = 1.0 + max(horizon - belief[r, LACK] * now - successes, 0.0)
        else:
            a[r] = 1.0 + belief[r, WINS]
            b[r] = 1.0 + belief[r, LACK]
        most = max(most, a[r] + b[r])
        if a[r] < a[least]:
            least = r
    return least, most
