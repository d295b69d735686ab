"""Opponents that watch a live policy and ask for what it lacks, and replays of what they asked.

An adaptive opponent sees the cache before each block of requests. Against a deterministic policy that is no
more than foresight: the recorded trace does the same again. A policy that draws random numbers may lose more
to it than to any fixed trace, and its guarantees speak about requests that do not depend on its draws. So
:func:`replayed` plays the recorded requests again on other seeds, where they are oblivious.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.build import from_arrays, from_requests
from softhit.check import check_int, check_real, fail
from softhit.cost import cost
from softhit.exact import Cost, check_switch_cost
from softhit.policies import Policy
from softhit.schedule import Schedule
from softhit.simulate import Session, simulate
from softhit.trace import DEFAULT_SCALE, Trace
from softhit.variant import Variant

__all__ = ["Played", "cruel", "missing_item", "replayed", "ring"]


@dataclass(frozen=True, eq=False)
class Played:
    """A game: the requests as a trace, and what the policy did.

    Attributes
    ----------
    trace : Trace
        Its metadata names the opponent, the policy and the seed.
    schedule : Schedule
    paid : Cost
    policy : Policy or str
    capacity : int
    switch_cost : Fraction
    variant : Variant
    """

    trace: Trace
    schedule: Schedule
    paid: Cost
    policy: Policy | str
    capacity: int
    switch_cost: Fraction
    variant: Variant


def missing_item(
    policy: Policy | str,
    capacity: int,
    steps: int,
    switch_cost: Any = 1,
    tau: int | None = None,
    n_items: int | None = None,
    variant: Variant | None = None,
    seed: int = 0,
) -> Played:
    """Ask, ``tau`` times in a row, for the smallest item that the cache lacks at the beginning of the block.

    On K + 1 items with ``tau = ceil(lambda) + 1``, in serve_then_update, every policy pays at least
    1 + lambda for each block after the fill, whether it admits the item or not, while the optimum pays on
    average no more than the smaller of ``tau/(K+1)`` and ``(1+lambda)/K``, up to a constant (claim C2).

    Parameters
    ----------
    policy : Policy or str
    capacity, steps : int
        The last block may be cut short.
    switch_cost : number or str
    tau : int, optional
        Default: ceil(lambda) + 1.
    n_items : int, optional
        N > K; default K + 1.
    variant : Variant, optional
    seed : int

    Examples
    --------
    >>> game = missing_item("lru", capacity=2, steps=8)
    >>> game.trace.requests.tolist(), float(game.paid)
    ([0, 0, 1, 1, 2, 2, 0, 0], 6.0)
    """
    k = check_int("capacity", capacity, low=1)
    n = k + 1 if n_items is None else check_int("n_items", n_items, low=k + 1)
    rows = np.zeros((n, n), np.int32)
    np.fill_diagonal(rows, DEFAULT_SCALE)
    return _play("missing_item", policy, rows, k, steps, switch_cost, tau, variant, seed)


def cruel(
    policy: Policy | str,
    capacity: int,
    steps: int,
    quality: Any,
    switch_cost: Any = 1,
    tau: int | None = None,
    variant: Variant | None = None,
    seed: int = 0,
) -> Played:
    """Ask, ``tau`` times in a row, the query that the cache serves worst at the beginning of the block.

    The soft form of :func:`missing_item`: query q is served by item i with ``quality[q][i]``, its own item
    q arrives with it, and of several that are served equally badly the smallest is asked. What it forces
    depends on the qualities; with the identity it is :func:`missing_item`.

    Parameters
    ----------
    quality : matrix (N, N) of numbers in [0, 1]
        For instance :func:`ring`.
    policy, capacity, steps, switch_cost, tau, variant, seed
        As in :func:`missing_item`. ``aggregator="best"``.

    Examples
    --------
    >>> game = cruel("fifo", capacity=2, steps=10, quality=ring(6, near=0.5), tau=1)
    >>> game.trace.arrivals.tolist()
    [0, 2, 4, 0, 2, 4, 0, 2, 4, 0]
    """
    k = check_int("capacity", capacity, low=1)
    matrix = np.asarray(quality, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all((matrix >= 0) & (matrix <= 1)):
        fail("quality", quality, "a square matrix of numbers in [0, 1]")
    rows = np.rint(matrix * DEFAULT_SCALE).astype(np.int32)
    return _play("cruel", policy, rows, k, steps, switch_cost, tau, variant, seed)


def ring(n_items: int, near: float = 0.5) -> NDArray[np.float64]:
    """Return qualities on a ring: 1 for a query's own item, ``near`` for its two neighbours.

    >>> ring(4, 0.5)[0].tolist()
    [1.0, 0.5, 0.0, 0.5]
    """
    n = check_int("n_items", n_items, low=3)
    matrix = np.eye(n)
    for i in range(n):
        matrix[i, (i + 1) % n] = matrix[i, i - 1] = check_real("near", near, low=0, high=1)
    return matrix


def replayed(game: Played, seeds: Iterable[int], policy: Policy | str | None = None) -> list[Cost]:
    """Return what the policy of a game, or another one, pays for the same requests on other seeds.

    >>> game = missing_item("random", capacity=2, steps=200, seed=0)
    >>> others = [float(c) for c in replayed(game, range(1, 9))]
    >>> float(game.paid) > max(others)
    True
    """
    chosen, k, lam, variant = (policy or game.policy), game.capacity, game.switch_cost, game.variant
    return [
        cost(simulate(chosen, game.trace, k, lam, seed, variant=variant), game.trace, k, lam, variant)
        for seed in seeds
    ]


def _play(
    opponent: str,
    policy: Policy | str,
    rows: NDArray[np.int32],
    capacity: int,
    steps: int,
    switch_cost: Any,
    tau: int | None,
    variant: Variant | None,
    seed: int,
) -> Played:
    lam, n_steps = check_switch_cost(switch_cost), check_int("steps", steps, low=1)
    times = ceil(lam) + 1 if tau is None else check_int("tau", tau, low=1)
    chosen = variant or Variant()
    if chosen.aggregator != "best" or chosen.top_k != 1:
        fail("aggregator", chosen.aggregator, "'best': the opponent looks at the best item held")
    n = len(rows)
    session = Session(policy, n, capacity, lam, variant=chosen, seed=seed)
    entries = [np.flatnonzero(row) for row in rows]
    asked: list[int] = []
    query = 0
    for t in range(n_steps):
        if t % times == 0:
            held = session.held
            served = rows[:, held].max(axis=1) if held else np.zeros(n, np.int32)
            query = int(np.argmin(served))
        session.step(entries[query], rows[query][entries[query]], arrival=query)
        asked.append(query)
    facts = {
        "generator": opponent,
        "parameters": {"capacity": capacity, "steps": n_steps, "switch_cost": str(lam), "tau": times},
        "policy": session.name,
        "seed": seed,
        "variant": chosen.label,
    }
    if np.count_nonzero(rows) == n and np.all(np.diag(rows) == DEFAULT_SCALE):
        trace = from_requests(asked, n_items=n, metadata=facts)
    else:
        trace = from_arrays(rows[asked] / DEFAULT_SCALE, arrivals=np.array(asked), metadata=facts)
    schedule = session.schedule()
    paid = cost(schedule, trace, capacity, lam, chosen)
    return Played(trace, schedule, paid, policy, capacity, lam, chosen)
