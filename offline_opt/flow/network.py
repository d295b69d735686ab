"""The drawn network of a hard trace, arc by arc, and the general solvers that run on it.

Node ``("v", u)`` holds the free slots at boundary u = 0..T, the moment before step u; node ``("h", i, u)``
says that item i is held at boundary u. I_i are the boundaries where item i can enter (``stream``: where it
arrives; ``pool``: before each step it serves), R_i those right after a step it serves; the nodes of an item
are on the sorted union. Arcs, with capacity and cost in integers:

    wait    v[u]   -> v[u+1]     K   0
    enter   v[u]   -> h[i,u]     1   insertion            u in I_i
    keep    h[i,u] -> h[i,u']    1   minus the rewards    u' the next boundary of i
    leave   h[i,u] -> v[u]       1   0                    u in R_i

Charged fill: K units from v[0] to v[T]. Free fill: K units from a source with one free ``first`` arc to
every h[i,u], u in I_i (a slot's first load), and a ``bypass`` arc of capacity K to v[T].

This file shares no code with :mod:`offline_opt.flow.events` and :mod:`offline_opt.flow.ssp`, on purpose:
they check each other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np

from offline_opt.result import MethodResult, confirm
from softhit.check import check_int
from softhit.errors import Infeasible, InvalidInput, MissingExtra, NotCertified
from softhit.exact import check_switch_cost
from softhit.retrieval import utility_scale
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Arc", "Network", "build_network", "solve_networkx", "solve_ortools", "to_networkx"]

Node = tuple[Any, ...]


@dataclass(frozen=True)
class Arc:
    """One arc: ``kind`` is wait, enter, keep, leave, first or bypass."""

    kind: str
    tail: Node
    head: Node
    capacity: int
    cost: int


@dataclass(frozen=True, eq=False)
class Network:
    """A min-cost flow instance; the cost of serving is ``base + unit * (cost of the flow)``.

    Attributes
    ----------
    arcs : list of Arc
    source, sink : node
    amount : int
        Units to send: K, or the number of items if that is less.
    base, unit : Fraction
    n_steps : int
    delay : int
        1 if boundary u is the update of step u - 1 (serve_then_update), else 0.
    """

    arcs: list[Arc]
    source: Node
    sink: Node
    amount: int
    base: Fraction
    unit: Fraction
    n_steps: int
    delay: int

    def schedule(self, flow: Iterable[int]) -> Schedule:
        """Return the schedule whose items are held where ``keep`` arcs carry flow (one value per arc)."""
        kept = [a for a, f in zip(self.arcs, flow, strict=True) if a.kind == "keep" and f]
        stays: list[tuple[int, int, int]] = []
        for arc in sorted(kept, key=lambda a: a.tail[1:]):
            (_, item, start), (_, _, end) = arc.tail, arc.head
            if stays and stays[-1][0] == item and stays[-1][2] == start:
                start = stays.pop()[1]
            stays.append((item, start, end))
        columns = np.array(stays, np.int64).reshape(-1, 3).T
        last = np.where(columns[2] - self.delay < self.n_steps, columns[2] - self.delay, self.n_steps)
        return Schedule.from_intervals(self.n_steps, columns[0], columns[1] - self.delay, last)


def build_network(trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None) -> Network:
    """Return the network of a hard trace with unit sizes.

    Raises
    ------
    InvalidInput
        A step can be served by several items, or an item has another size than 1.

    Examples
    --------
    >>> from softhit import Variant, from_requests
    >>> net = build_network(from_requests([0, 1, 0]), 1, "1/2", Variant(fill="charged"))
    >>> [(a.kind, a.cost) for a in net.arcs if a.kind != "wait"]
    [('enter', 1), ('keep', -2), ('leave', 0)]
    """
    variant = variant or Variant()
    # more slots than items are never full; solvers misjudge huge capacities (networkx #7562)
    slots = min(check_int("capacity", capacity, low=1), max(1, trace.n_items))
    lam = check_switch_cost(switch_cost)
    if not (trace.structure.hard and trace.structure.unit_sizes):
        raise InvalidInput("the network needs hard hits (at most one item serves a step) and unit sizes")
    full = utility_scale(trace.quality_scale, variant)
    end, delay = trace.n_steps, int(variant.serves_first)

    rewards: dict[int, dict[int, int]] = defaultdict(dict)
    enters: dict[int, set[int]] = defaultdict(set)
    for t, weight in enumerate(trace.weight.tolist()):
        items, quality = trace.row(t)
        if weight and len(items) and quality[0]:
            item = int(items[0])
            rewards[item][t] = weight * int(quality[0]) * lam.denominator
            if not variant.stream and t >= delay:
                enters[item].add(t)
        if variant.stream and trace.arrivals[t] >= 0:
            enters[int(trace.arrivals[t])].add(t + delay)
    insertion = lam.numerator * full
    common = math.gcd(insertion, *(x for row in rewards.values() for x in row.values())) or 1

    source: Node = ("source",) if variant.free_fill else ("v", 0)
    arcs = [Arc("wait", ("v", u), ("v", u + 1), slots, 0) for u in range(end)]
    for item in sorted(rewards):
        served = rewards[item]
        last = max(served) + 1
        ins = {u for u in enters[item] if u < last}
        if not ins:
            continue
        outs = {t + 1 for t in served if t >= min(ins)}
        nodes = sorted(ins | outs)
        for u, following in zip(nodes, [*nodes[1:], None], strict=True):
            here: Node = ("h", item, u)
            if u in ins:
                arcs.append(Arc("enter", ("v", u), here, 1, insertion // common))
                if variant.free_fill:
                    arcs.append(Arc("first", source, here, 1, 0))
            if following is not None:
                got = sum(served[t] for t in served if u <= t < following)
                arcs.append(Arc("keep", here, ("h", item, following), 1, -got // common))
            if u in outs:
                arcs.append(Arc("leave", here, ("v", u), 1, 0))
    if variant.free_fill:
        arcs.append(Arc("bypass", source, ("v", end), slots, 0))
    return Network(
        arcs=arcs,
        source=source,
        sink=("v", end),
        amount=slots,
        base=Fraction(trace.total_weight),
        unit=Fraction(common, full * lam.denominator),
        n_steps=end,
        delay=delay,
    )


def to_networkx(network: Network) -> nx.DiGraph[Node]:
    """Return the network as a graph with ``capacity``, ``weight``, ``kind`` on edges, ``demand`` on nodes."""
    graph: nx.DiGraph[Node] = nx.DiGraph()
    graph.add_node(network.source, demand=0)
    graph.add_node(network.sink, demand=0)
    graph.nodes[network.source]["demand"] -= network.amount
    graph.nodes[network.sink]["demand"] += network.amount
    for arc in network.arcs:
        graph.add_edge(arc.tail, arc.head, capacity=arc.capacity, weight=arc.cost, kind=arc.kind)
    return graph


def _result(
    method: str,
    network: Network,
    flow: list[int],
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None,
) -> MethodResult:
    total = sum(f * arc.cost for f, arc in zip(flow, network.arcs, strict=True))
    result = MethodResult(
        method=method,
        schedule=network.schedule(flow),
        objective=network.base + total * network.unit,
    )
    confirm(result, trace, capacity, switch_cost, variant)
    return result


def solve_networkx(
    trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None
) -> MethodResult:
    """Solve with the network simplex of networkx: slow, simple, in integers of any size.

    Only integers are passed on, since with float costs that algorithm may cycle for ever (networkx #4641).

    Raises
    ------
    InvalidInput
        As :func:`build_network`.

    Examples
    --------
    >>> from softhit import from_requests
    >>> solve_networkx(from_requests([1, 1, 2, 1, 2, 2, 2, 1]), 1, 0).objective
    Fraction(4, 1)
    """
    network = build_network(trace, capacity, switch_cost, variant)
    try:
        _, flow = nx.network_simplex(to_networkx(network))
    except nx.NetworkXUnfeasible as error:
        raise Infeasible(f"networkx: {error}") from None
    amounts = [int(flow[arc.tail][arc.head]) for arc in network.arcs]
    return _result("networkx", network, amounts, trace, capacity, switch_cost, variant)


def solve_ortools(
    trace: Trace, capacity: int, switch_cost: Any, variant: Variant | None = None
) -> MethodResult:
    """Solve with the min-cost flow of OR-tools (extra ``ortools``), in 64-bit integers.

    Raises
    ------
    MissingExtra
        OR-tools is not installed.
    InvalidInput
        As :func:`build_network`, or the integer costs exceed what OR-tools takes.
    NotCertified
        OR-tools stopped with another status than optimal.

    Examples
    --------
    >>> from softhit import from_requests
    >>> solve_ortools(from_requests([1, 1, 2, 1, 2, 2, 2, 1]), 1, 0).objective
    Fraction(4, 1)
    """
    try:
        from ortools.graph.python import min_cost_flow
    except ImportError:
        raise MissingExtra("ortools", "ortools") from None
    network = build_network(trace, capacity, switch_cost, variant)
    number: dict[Node, int] = {network.source: 0}
    for arc in network.arcs:
        number.setdefault(arc.tail, len(number))
        number.setdefault(arc.head, len(number))
    flow = [0] * len(network.arcs)
    if network.arcs:
        solver = min_cost_flow.SimpleMinCostFlow()
        try:
            solver.add_arcs_with_capacity_and_unit_cost(
                np.array([number[a.tail] for a in network.arcs], np.int32),
                np.array([number[a.head] for a in network.arcs], np.int32),
                np.array([a.capacity for a in network.arcs], np.int64),
                np.array([a.cost for a in network.arcs], np.int64),
            )
        except OverflowError:
            raise InvalidInput("costs in units of 1/(scale * denominator of lambda) exceed 64 bits") from None
        if network.source != network.sink:
            solver.set_node_supply(number[network.source], network.amount)
            solver.set_node_supply(number[network.sink], -network.amount)
        status = solver.solve()
        # flows read before this check may be stale or crash (or-tools #3947)
        if status in (solver.BAD_COST_RANGE, solver.BAD_CAPACITY_RANGE):
            raise InvalidInput("costs or capacities exceed what OR-tools takes; use a coarser switch_cost")
        if status == solver.INFEASIBLE:
            raise Infeasible("ortools found no feasible flow")
        if status != solver.OPTIMAL:
            raise NotCertified(f"ortools stopped with status {status}")
        flow = solver.flows(np.arange(len(network.arcs), dtype=np.int32)).tolist()
    return _result("ortools", network, flow, trace, capacity, switch_cost, variant)
