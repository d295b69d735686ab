"""The competitive ratio itself, not an estimate, of a finite-state policy for small K and N.

``compet(alg, c)``: there is a b with ``ALG <= c OPT + b`` on every sequence of requests to N items. The
least such c is the largest ratio of a cycle in the product of the policy's states with the normalised work
functions; it is computed in integers, and comes with the two halves of its proof: a cycle of requests that
forces it at every length, and a potential (checked on every edge) that gives b.

Model: hard hits (a request is served by its item alone, hit or miss), stream with e_t = q_t, unit sizes;
both orders of a step. ``Variant(availability="pool")`` lets OPT load any item at any step, while the policy
still sees arrivals only. Both sides start with a full cache, items 0..K-1, as after those requests from the
empty cache; another start changes b, not c. So does the price of the fill, hence ``fill`` plays no role.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from adversaries.exact.arena import machine_arena, merged
from adversaries.exact.cycle import RatioCycle, largest_ratio, shortest_path
from adversaries.exact.machine import FiniteStatePolicy
from adversaries.exact.machines import MACHINES, make_machine
from adversaries.exact.product import Product, explore
from adversaries.exact.snapshot import Snapshot
from adversaries.exact.work import make_rules
from softhit.build import from_requests
from softhit.check import check_int, fail
from softhit.exact import check_switch_cost
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["MAX_STATES", "ExactRatio", "check_model", "exact_ratio"]

MAX_STATES = 2_000_000
"""Vertices of the product: about 100 bytes each."""
MAX_ITEMS = 12
"""Work functions have C(N, K) entries, and equal items are exchanged in all ways."""


@dataclass(frozen=True)
class ExactRatio:
    """A competitive ratio with the cycle that forces it.

    Attributes
    ----------
    ratio : Fraction or None
        None: no finite ratio (the cycle costs OPT nothing and the policy something). 0: the policy's cost is
        bounded.
    prefix, cycle : tuple of int
        Requests from the full cache; a round of ``cycle`` costs the policy ``alg`` and raises OPT by ``opt``.
    alg, opt : Fraction
        ``alg / opt == ratio``.
    additive : Fraction or None
        b: from the full start, ``ALG <= ratio * OPT + additive`` on every sequence.
    policy : str
    capacity, n_items : int
    switch_cost : Fraction
    variant : Variant
    policy_states, vertices : int
        Size of the machine and of the product, up to renaming of items where the machine allows it.
    """

    ratio: Fraction | None
    prefix: tuple[int, ...]
    cycle: tuple[int, ...]
    alg: Fraction
    opt: Fraction
    additive: Fraction | None
    policy: str
    capacity: int
    n_items: int
    switch_cost: Fraction
    variant: Variant
    policy_states: int
    vertices: int

    def requests(self, rounds: int) -> list[int]:
        """Return the requests 0..K-1 that fill an empty cache, the prefix, and ``rounds`` cycles."""
        n = check_int("rounds", rounds, low=0)
        return [*range(self.capacity), *self.prefix, *(self.cycle * n)]

    def trace(self, rounds: int) -> Trace:
        """Return the trace, from the empty cache, on which the ratio is forced.

        From some round on, each round costs the policy ``alg`` and raises the exact OPT by ``opt``.
        """
        forces = "unbounded" if self.ratio is None else str(self.ratio)
        return from_requests(
            np.array(self.requests(rounds), np.int64),
            n_items=self.n_items,
            metadata={
                "generator": "exact_ratio",
                "policy": self.policy,
                "capacity": self.capacity,
                "switch_cost": str(self.switch_cost),
                "variant": self.variant.label,
                "rounds": rounds,
                "forces": forces,
            },
        )


def check_model(capacity: Any, n_items: Any, switch_cost: Any, variant: Variant) -> tuple[int, int, Fraction]:
    """Validate what all exact methods share."""
    k = check_int("capacity", capacity, low=1)
    n = check_int("n_items", n_items, low=k + 1, high=MAX_ITEMS)
    if variant.aggregator != "best":
        fail("variant.aggregator", variant.aggregator, "'best': exact methods play hard hits")
    return k, n, check_switch_cost(switch_cost)


def _machine(policy: FiniteStatePolicy | str, switch_cost: Fraction, variant: Variant) -> FiniteStatePolicy:
    if not isinstance(policy, str):
        if not isinstance(policy, FiniteStatePolicy):
            fail("policy", policy, "a name, or an object with name, symmetric, initial and step")
        return policy
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*theta\s*=\s*([^()]+?)\s*\))?\s*", policy)
    if match and match[1] in MACHINES:
        parameters = {"theta": match[2]} if match[2] else {}
        return make_machine(match[1], switch_cost, **parameters)
    return Snapshot(policy, switch_cost, variant)


def exact_ratio(
    policy: FiniteStatePolicy | str,
    capacity: int,
    n_items: int,
    switch_cost: Any = 1,
    variant: Variant | None = None,
    relabel: bool = True,
    max_states: int = MAX_STATES,
) -> ExactRatio:
    """Compute the exact competitive ratio of a deterministic policy on requests to ``n_items`` items.

    Parameters
    ----------
    policy : str or FiniteStatePolicy
        A machine's name: ``"fifo"``, ``"lru"``, ``"clock"``, ``"gated_lru(theta=2)"``,
        ``"gated_global(theta=2)"``, ``"difference(theta=2)"``; any other registered deterministic compiled
        policy with finitely many states, by snapshots of it; or a machine of your own.
    capacity : int
        K >= 1.
    n_items : int
        N, from K + 1 to 12.
    switch_cost : int, float, Fraction or str
        lambda >= 0, exactly.
    variant : Variant, optional
        Order, and availability for OPT. Default: serve_then_update, stream.
    relabel : bool
        Use the symmetry of the items where the machine has it; the ratio is the same without, slower.
    max_states : int

    Returns
    -------
    ExactRatio

    Raises
    ------
    InvalidInput
        A parameter is out of range, or the policy or the product has more than ``max_states`` states.
    PolicyError
        A machine contradicts itself about what it holds, or is not as symmetric as it says.

    Examples
    --------
    >>> best = exact_ratio("lru", capacity=2, n_items=3, switch_cost=1)
    >>> best.ratio, best.prefix, best.cycle
    (Fraction(6, 1), (), (2, 0, 1))

    The same with the real policy: the cost of one hundred more rounds, over what OPT rises by in them.

    >>> from softhit import cost, simulate
    >>> price = lambda n: cost(simulate("lru", best.trace(n), 2, 1), best.trace(n), 2, 1).fraction
    >>> (price(200) - price(100)) / (100 * best.opt)
    Fraction(6, 1)
    """
    variant = variant or Variant()
    k, n, lam = check_model(capacity, n_items, switch_cost, variant)
    machine = _machine(policy, lam, variant)
    arena = machine_arena(machine, k, n, variant, relabel and machine.symmetric, max_states)
    if not (relabel and machine.symmetric):
        arena = merged(arena)
    product = explore(arena, make_rules(k, n, lam, variant), max_states)
    best = largest_ratio(product.to, product.alg, product.opt)
    prefix, cycle, alg, opt = lasso(product, best)
    additive = None
    if best.potential is not None and best.ratio is not None:
        additive = Fraction(int(best.potential[0]), best.ratio.denominator * lam.denominator)
    return ExactRatio(
        ratio=best.ratio,
        prefix=tuple(prefix),
        cycle=tuple(cycle),
        alg=Fraction(alg, lam.denominator),
        opt=Fraction(opt, lam.denominator),
        additive=additive,
        policy=machine.name,
        capacity=k,
        n_items=n,
        switch_cost=lam,
        variant=variant,
        policy_states=arena.n_states,
        vertices=product.n_vertices,
    )


def lasso(product: Product, best: RatioCycle) -> tuple[list[int], list[int], int, int]:
    """Return (prefix, cycle, what the policy pays per round, what OPT rises by), in real requests and units.

    Of the cycles in ``best`` the one that is shortest in real requests.
    """
    found = [_unrolled(product, cycle) for cycle in best.cycles]
    return min(found, key=lambda x: (len(x[1]), len(x[0])), default=([], [], 0, 0))


def _unrolled(product: Product, cycle: list[tuple[int, int]]) -> tuple[list[int], list[int], int, int]:
    to = product.to
    paths = [shortest_path(to, to >= 0, 0, v) for v, _ in cycle]
    first = min(range(len(cycle)), key=lambda x: len(paths[x] or ()))
    edges = cycle[first:] + cycle[:first]
    prefix, vertex, names = product.unroll(0, [a for _, a in paths[first] or ()], product.arena.names)
    alg = sum(int(product.alg[e]) for e in edges)
    opt = sum(int(product.opt[e]) for e in edges)
    # one round of a cycle of classes may end in other names: go on until they are the same again
    requests: list[int] = []
    rounds, now = 0, names
    while rounds == 0 or now != names:
        part, vertex, now = product.unroll(vertex, [a for _, a in edges], now)
        requests += part
        rounds += 1
    return prefix, requests, alg * rounds, opt * rounds
