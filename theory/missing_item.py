"""A second optimum where there are K+1 items: dynamic programming over the one that is missing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from softhit import Trace
from softhit.errors import InvalidInput
from softhit.exact import check_switch_cost
from softhit.jit import jit

__all__ = ["missing_item_optimum"]


@jit
def _pass(requests: Any, n_items: Any, miss: Any, switch: Any, serves_first: Any, stops: Any) -> Any:
    """Return min over the missing item of the cost so far, before each stop; units: ``miss`` per miss.

    While fewer than K+1 distinct items were asked for, ``base`` is what loading each at once pays, and
    ``spare[j]`` what leaving j out pays on top: then the last item to appear enters for nothing instead.
    """
    best = np.full(n_items, np.int64(2**62))
    spare = np.zeros(n_items, np.int64)
    seen = np.zeros(n_items, np.uint8)
    left = n_items
    out = np.zeros(len(stops), np.int64)
    base = np.int64(0)
    stop = 0
    for t in range(len(requests) + 1):
        while stop < len(stops) and stops[stop] == t:
            out[stop] = base if left > 0 else best.min()
            stop += 1
        if t == len(requests):
            break
        q = requests[t]
        if left > 1 or (seen[q] == 1 and left == 1):
            if seen[q] == 0:
                seen[q] = 1
                left -= 1
                base += miss if serves_first else 0
                spare[q] = 0 if serves_first else miss
            else:
                spare[q] += miss
            continue
        if left == 1:
            left = 0
            pays = miss if serves_first else 0
            for i in range(n_items):
                best[i] = base + pays + min(switch, spare[i])
            best[q] = base + miss
            continue
        enter = best[q] + switch + (miss if serves_first else 0)
        best[q] += miss
        for i in range(n_items):
            if i != q and enter < best[i]:
                best[i] = enter
    return out


def missing_item_optimum(
    trace: Trace, capacity: int, switch_cost: Fraction | int | str, order: str, stops: list[int]
) -> list[Fraction]:
    """Return the optimum of the first ``stop`` steps, for each of the ascending stops.

    Hard hits, e_t = q_t, stream, free fill, empty start, N = K + 1, either order.

    Examples
    --------
    >>> from softhit import from_requests
    >>> trace = from_requests([0, 1, 2, 0, 1, 2], n_items=3)
    >>> [str(x) for x in missing_item_optimum(trace, 2, 1, "serve_then_update", [2, 6])]
    ['2', '4']
    """
    if trace.n_items != capacity + 1:
        raise InvalidInput(f"n_items must be capacity + 1 = {capacity + 1}, got {trace.n_items}")
    lam = check_switch_cost(switch_cost)
    units = _pass(
        np.ascontiguousarray(trace.requests),
        trace.n_items,
        lam.denominator,
        lam.numerator,
        order == "serve_then_update",
        np.array(stops, np.int64),
    )
    return [Fraction(int(x), lam.denominator) for x in units]
