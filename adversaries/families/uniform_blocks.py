"""Uniform draws from K+1 items, each repeated tau times: the workload behind the lower bound H_K."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from adversaries.families.registry import Count, Forces, Rows, count, family, form, near, reach
from adversaries.families.ring import hard_rows, ring_rows, soft_units
from softhit.errors import InvalidInput
from softhit.exact import harmonic
from softhit.simulate import TRACE_ROLE, child_rng
from softhit.trace import DEFAULT_SCALE

__all__ = ["uniform_blocks"]


@family(
    "C1: no online policy, randomised or not, has a ratio below H_K (slope, in expectation)",
    tau=count("requests in a block"),
    form=form,
    near=near,
    reach=reach,
)
def uniform_blocks(
    capacity: int,
    steps: int,
    switch_cost: Fraction = Fraction(1),
    seed: int = 0,
    *,
    tau: Count = "L+1",
    form: str = "hard",
    near: float = 0.5,
    reach: int = 1,
) -> Rows:
    """Draw items uniformly and independently from K+1, and ask for each drawn item tau times in a row.

    Guarantee (claim C1; serve_then_update, stream, free fill, best)
    ----------------------------------------------------------------
    Hard, tau >= lambda + 1: a block whose first request misses costs any policy at least 1 + lambda, and it
    misses with probability at least 1/(K+1); the optimum pays at most 1 + lambda per phase of (K+1) H_K
    blocks in expectation. So the slope ratio of every online policy is at least H_K in the limit.

    The same bound holds in update_then_serve with tau = ceil(lambda) for lambda > 0 (set ``tau=L``).

    Soft: the K+1 items lie on a ring and neighbours serve as in :func:`cycling`. A cache with K of the
    items serves the missing one with quality ``near`` (its neighbours are held), and no cache without it
    does better, so every miss of a full cache costs g = 1 - near: the instance is a hard one with
    switching cost lambda/g, and H_K holds with tau >= lambda/g + 1, which is the default; near < 1.

    Parameters
    ----------
    capacity, steps, switch_cost, seed
        K, T, lambda. T need not be a multiple of tau: the last block is cut.
    tau : count
        Default ``L+1`` with L = ceil(lambda), or ceil(lambda/(1-near)) in the soft form.

    Examples
    --------
    >>> trace = uniform_blocks(capacity=2, steps=9, switch_cost="3/2", seed=5)
    >>> trace.n_items, trace.requests.reshape(3, 3).std(axis=1).tolist()
    (3, [0.0, 0.0, 0.0])
    """
    rng = child_rng(seed, TRACE_ROLE)
    items = capacity + 1
    drawn = rng.integers(0, items, size=-(-steps // tau), dtype=np.int32)
    asked = np.repeat(drawn, tau)[:steps]
    if form == "hard":
        rows, gap = hard_rows(asked), Fraction(1)
    else:
        units = soft_units(near, reach)
        gap = 1 - Fraction(int(units[1]), DEFAULT_SCALE)
        if gap == 0:
            raise InvalidInput(f"near must be below 1 for uniform_blocks (on the quality grid), got {near!r}")
        rows = ring_rows(asked, np.arange(items, dtype=np.int32), units)
    bound = f"H_{capacity}" + (f" = {float(harmonic(capacity)):.4f}" if capacity <= 200 else "")
    if tau * gap >= switch_cost + gap:
        statement = f"tau = {tau}: the slope ratio of every online policy is at least {bound} in the limit"
    elif tau * gap >= switch_cost > 0:
        statement = (
            f"tau = {tau}: in update_then_serve the slope ratio of every online policy is at least {bound} "
            "in the limit; in serve_then_update tau is too small for that"
        )
    else:
        statement = f"tau = {tau} is too small for the bound {bound}: ignoring a block is too cheap"
    return Rows(items, *rows, asked, Forces("C1", statement))
