"""The LP relaxation of soft hits written down step by step through cvxpy, to check the compressed one.

Nothing is compressed: x[t, i] is how much of item i is in the cache that serves step t, for every step and
item, and z[t, i] >= x[t, i] - x[t-1, i] what enters before it. It shares no code with
:mod:`offline_opt.soft.milp`, is far slower, and its value is a float; it is here to be compared with.

>>> from softhit import from_arrays
>>> trace = from_arrays([[0, 0], [0, 0], [0.5, 0.75]], arrivals=[0, 1, -1])
>>> round(lp_value(trace, capacity=1, switch_cost=1), 6)
2.25
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_int
from softhit.errors import InvalidInput, MissingExtra, NotCertified
from softhit.exact import check_switch_cost
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["MAX_CELLS", "lp_value"]

MAX_CELLS = 200_000
"""Steps times items beyond which the model is refused."""


def lp_value(trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None) -> float:
    """Return the value of the LP relaxation, every variant; the optimum may choose what it retrieves.

    ``coverage`` is relaxed to ``min(1, sum s)`` over the k retrieved, as in :mod:`offline_opt.soft.bound`.

    Raises
    ------
    InvalidInput
        More than :data:`MAX_CELLS` steps x items.
    MissingExtra
        cvxpy is not installed.
    NotCertified
        The solver did not reach the optimum.
    """
    try:
        import cvxpy
    except ImportError:
        raise MissingExtra("cvxpy", "cvxpy") from None
    cp: Any = cvxpy
    variant = variant or Variant()
    capacity = check_int("capacity", capacity, low=1)
    lam = float(check_switch_cost(switch_cost))
    n_steps, n_items = trace.n_steps, trace.n_items
    if n_steps * n_items > MAX_CELLS:
        raise InvalidInput(f"{n_steps} steps x {n_items} items, at most {MAX_CELLS} fit this model")
    if n_steps * n_items == 0:
        return float(trace.total_weight)
    quality = np.zeros((n_steps, n_items))
    for t in range(n_steps):
        items, units = trace.row(t)
        quality[t, items] = units / trace.quality_scale
    weight = trace.weight.astype(float)
    sizes = trace.sizes.astype(float)

    may_enter = np.ones((n_steps, n_items), bool)
    if variant.stream:
        may_enter[:] = False
        for t, item in enumerate(trace.arrivals.tolist()):
            at = t + 1 if variant.serves_first else t
            if item >= 0 and at < n_steps:
                may_enter[at, item] = True
    if variant.serves_first:
        may_enter[0] = False
    may_enter[:, sizes > capacity] = False

    x = cp.Variable((n_steps, n_items), nonneg=True)
    z = cp.Variable((n_steps, n_items), nonneg=True)
    y = cp.Variable((n_steps, n_items), nonneg=True)
    limits = [
        x <= 1,
        x @ sizes <= capacity,
        z[0] >= x[0],
        cp.multiply(z, ~may_enter) == 0,
        y <= x,
        cp.sum(y, axis=1) <= variant.top_k,
    ]
    if n_steps > 1:
        limits.append(z[1:] >= x[1:] - x[:-1])
    served = cp.sum(cp.multiply(quality, y), axis=1)
    if variant.aggregator == "mean_topk":
        served = served / variant.top_k
    elif variant.aggregator == "coverage":
        served = cp.minimum(served, 1.0)
    entered = cp.sum(z @ sizes)
    paid = cp.pos(entered - capacity) if variant.free_fill else entered
    problem = cp.Problem(cp.Minimize(weight @ (1 - served) + lam * paid), limits)
    # cvxpy bounds expressions with infinity times zero on the way
    with np.errstate(invalid="ignore"):
        problem.solve(solver=cp.HIGHS)
    if problem.status != cp.OPTIMAL:
        raise NotCertified(f"cvxpy with HiGHS stopped with status {problem.status}")
    return float(problem.value)
