"""Small instances whose optimum can be worked out by hand, and random ones of every kind.

Each named instance states its optimum; the comment above it is the arithmetic. Every solver that applies to
one is run on it (``tests/offline_opt/test_instances.py``), and a new solver should be.

>>> instance = get("four_requests")
>>> from offline_opt.dp import best_schedule
>>> from softhit import cost
>>> best = best_schedule(*instance.problem)
>>> cost(best, *instance.problem).fraction == instance.optimum == 3
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from softhit.build import from_arrays, from_clusters, from_requests
from softhit.check import check_choice, unknown
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["KINDS", "Instance", "get", "names", "random_instance"]


@dataclass(frozen=True)
class Instance:
    """A trace with the rest of the problem, and the optimum.

    Attributes
    ----------
    name, says : str
        ``says`` tells what the instance is there for.
    trace : Trace
    capacity : int
    switch_cost : Fraction
    variant : Variant
    optimum : Fraction
    relaxed : Fraction or None
        Optimum of the LP relaxation, where that is worth knowing.
    """

    name: str
    says: str
    trace: Trace
    capacity: int
    switch_cost: Fraction
    variant: Variant
    optimum: Fraction
    relaxed: Fraction | None = None

    @property
    def problem(self) -> tuple[Trace, int, Fraction, Variant]:
        """Trace, capacity, switch cost and variant: what a solver is given."""
        return self.trace, self.capacity, self.switch_cost, self.variant


_MAKERS: dict[str, Callable[[], Instance]] = {}

_PAPER = Variant()
_POOL_FIRST = Variant(order="update_then_serve", availability="pool")


def _add(
    name: str,
    says: str,
    trace: Callable[[], Trace],
    capacity: int,
    switch_cost: Any,
    optimum: Any,
    variant: Variant = _PAPER,
    relaxed: Any = None,
) -> None:
    _MAKERS[name] = lambda: Instance(
        name=name,
        says=says,
        trace=trace(),
        capacity=capacity,
        switch_cost=Fraction(switch_cost),
        variant=variant,
        optimum=Fraction(optimum),
        relaxed=None if relaxed is None else Fraction(relaxed),
    )


def names() -> list[str]:
    """Return the names of all named instances."""
    return list(_MAKERS)


def get(name: str) -> Instance:
    """Return a named instance.

    Raises
    ------
    UnknownName
    """
    if name not in _MAKERS:
        unknown("instance", name, names())
    return _MAKERS[name]()


# Steps 0 and 1 miss. Item 0, held from step 0 on, makes step 2 a hit; it came in free. Step 3 could be a
# hit only if item 1 replaced it at step 1: that costs 1/2, wins step 3 and loses step 2. So 1 + 1 + 0 + 1
# = 3.
_add("four_requests", "one replacement, not worth it", lambda: from_requests([0, 1, 0, 1]), 1, "1/2", 3)

# As before, charged fill: holding item 0 costs 1/2 and wins step 2: 3 + 1/2.
_add(
    "four_requests_charged",
    "the fill costs too",
    lambda: from_requests([0, 1, 0, 1]),
    1,
    "1/2",
    "7/2",
    Variant(fill="charged"),
)

# With lambda = 3 and charged fill nothing is worth holding: four misses.
_add(
    "never_load",
    "nothing is worth holding",
    lambda: from_requests([0, 1, 0, 1]),
    1,
    3,
    4,
    Variant(fill="charged"),
)

# The optimum may hold item 0 or item 1 (each alone wins 1/2 at step 2): 1 + 1 + 1/2.
_add(
    "ties",
    "two optimal schedules",
    lambda: from_arrays([[0, 0], [0, 0], [0.5, 0.5]], arrivals=[0, 1, -1]),
    1,
    1,
    "5/2",
)

# A cycle over W = 3 items with K = 2 slots: 3 misses at first, then W - K = 1 in every 3 requests,
# whatever lambda is: 3 + 1 + 1.
_add("cycle_for_nothing", "lambda = 0 on a cycle", lambda: from_requests([0, 1, 2] * 3), 2, 0, 5)
_add("cycle_at_a_price", "the same cycle, lambda = 2", lambda: from_requests([0, 1, 2] * 3), 2, 2, 5)

# Before it serves, the cache may load what is asked for, free of charge: no cost at all.
_add(
    "cycle_update_first",
    "lambda = 0 when the update comes first",
    lambda: from_requests([0, 1, 2] * 3),
    2,
    0,
    0,
    Variant(order="update_then_serve"),
)

# One slot, requests 0 1 0, each load 1/4: dropping item 0 and loading it again beats missing: 3/4.
_add(
    "drop_and_reload",
    "drop an item and load it again",
    lambda: from_requests([0, 1, 0]),
    1,
    "1/4",
    "3/4",
    Variant(order="update_then_serve", fill="charged"),
)

# Both items fit: their first requests miss, and with free fill nothing else costs.
_add("everything_fits", "everything fits", lambda: from_requests([0, 1, 0, 1, 1]), 5, 7, 2)

# Charged: item 0 wins one step for 1/2, item 1 two: 2 + 2/2.
_add(
    "everything_fits_charged",
    "everything fits, the fill is charged",
    lambda: from_requests([0, 1, 0, 1, 1]),
    5,
    "1/2",
    3,
    Variant(fill="charged"),
)

_add("no_steps", "no steps", lambda: from_requests([]), 3, 1, 0)

# Nothing serves any of the five steps; weights 1 2 0 3 1.
_add(
    "all_misses",
    "nothing can be served",
    lambda: from_requests([-1] * 5, n_items=2, arrivals=[0, 1, 0, 1, 0], weight=[1, 2, 0, 3, 1]),
    1,
    1,
    7,
)

# The trace of optimalwebcaching issue 6. With bypassing: hold item 1 until step 3 (hits at 1 and 3), load
# item 2 at step 4 (hits at 5 and 6): 4 hits, 4 misses; lambda = 0.
_add(
    "webcaching_6",
    "a bound better than the optimum was once reported here",
    lambda: from_requests([1, 1, 2, 1, 2, 2, 2, 1]),
    1,
    0,
    4,
)

# Four items, a query for each pair, two slots, two rounds; lambda = 1, free fill. Half of every item is
# inserted for nothing and serves half of each query twice over: LP 0. A real pair misses the query for the
# other two, once a round; a switch costs as much as a miss and saves at most one: 2.
_PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
_add(
    "lp_gap",
    "the LP relaxation is worth nothing",
    lambda: from_arrays([[float(i in pair) for i in range(4)] for pair in _PAIRS * 2]),
    2,
    1,
    2,
    _POOL_FIRST,
    relaxed=0,
)

# Items 0 and 1 form one class, item 2 another, and the queries alternate between the two. The first class
# is held as item 1, which arrives at step 0: steps 0, 1 and 3 miss.
_add(
    "classes",
    "similarity is an equivalence",
    lambda: from_clusters([0, 1, 0, 1], [0, 0, 1], arrivals=[1, 2, 0, 2]),
    1,
    1,
    3,
)

# Budget 3; sizes 3, 2, 1. After three announcements (weight 0) item 0 serves 1.0 at one step, items 1 and
# 2 together 0.9 at three. They fit together: 1 + 3 * 0.1, no insertion exceeds the free budget.
_add(
    "sizes",
    "sizes make the capacity a budget",
    lambda: from_arrays(
        [[0, 0, 0]] * 3 + [[1, 0, 0], [0, 0.9, 0], [0, 0, 0.9], [0, 0.9, 0.9]],
        arrivals=[0, 1, 2, -1, -1, -1, -1],
        weight=[0, 0, 0, 1, 1, 1, 1],
        sizes=[3, 2, 1],
    ),
    3,
    1,
    "13/10",
)

# The same with charged fill, lambda = 1/4: items 1 and 2 cost (2 + 1)/4 and win 0.9 + 0.9 + 0.9 between
# them. Item 2 alone costs 1/4 and wins 1.8; item 1 adds 0.9 for 1/2. So 4 - 2.7 + 3/4 = 2.05.
_add(
    "sizes_charged",
    "the price of an insertion grows with size",
    lambda: from_arrays(
        [[0, 0, 0]] * 3 + [[1, 0, 0], [0, 0.9, 0], [0, 0, 0.9], [0, 0.9, 0.9]],
        arrivals=[0, 1, 2, -1, -1, -1, -1],
        weight=[0, 0, 0, 1, 1, 1, 1],
        sizes=[3, 2, 1],
    ),
    3,
    "1/4",
    "41/20",
    Variant(fill="charged"),
)

# The retriever ranks item 1 first although it answers only step 2. Two slots. With both: step 2 wins 0.5,
# step 3 gets item 1, worth nothing. With item 0 alone: step 3 wins 0.8. Item 1 can leave after step 2 at
# no cost, so both: 2 - 0.5 - 0.8 (announcements have weight 0).
_add(
    "noisy_retriever",
    "an item that hurts must leave in time",
    lambda: from_arrays(
        [[0, 0], [0, 0], [0, 0.5], [0.8, 0]],
        score=[[-np.inf, -np.inf], [-np.inf, -np.inf], [0.1, 0.9], [0.1, 0.9]],
        arrivals=[0, 1, -1, -1],
        weight=[0, 0, 1, 1],
    ),
    2,
    1,
    "7/10",
)

# The retriever ranks item 1 first at every step. Steps 2 and 4 want item 1 (0.5), step 3 item 0 (0.6);
# nothing arrives after step 1, so item 1 stays and spoils step 3 (1.0 won) or leaves after step 2 (0.5 +
# 0.6). If the optimum could choose what is retrieved, it would win 1.6.
_add(
    "noisy_retriever_stays",
    "an item that hurts cannot come back",
    lambda: from_arrays(
        [[0, 0], [0, 0], [0, 0.5], [0.6, 0], [0, 0.5]],
        score=[[0.1, 0.9]] * 5,
        arrivals=[0, 1, -1, -1, -1],
        weight=[0, 0, 1, 1, 1],
    ),
    2,
    1,
    "19/10",
    relaxed="7/5",
)

# Two of three items are held and averaged over k = 2: qualities 1.0, 0.6, 0.5 give (1.0 + 0.6)/2 = 0.8.
_add(
    "mean_of_two",
    "the mean of two",
    lambda: from_arrays([[0, 0, 0]] * 3 + [[1.0, 0.6, 0.5]], arrivals=[0, 1, 2, -1], weight=[0, 0, 0, 1]),
    2,
    1,
    "1/5",
    Variant(aggregator="mean_topk", top_k=2),
)

# One held of k = 2 counts half: 1 - 0.9/2.
_add(
    "mean_of_one",
    "the mean divides by k also when fewer are held",
    lambda: from_arrays([[0], [0.9]], arrivals=[0, -1], weight=[0, 1]),
    1,
    1,
    "11/20",
    Variant(aggregator="mean_topk", top_k=2),
)

# Two of three items cover: qualities 0.5, 0.5, 0.9 leave 0.5 * 0.1 = 0.05.
_add(
    "coverage_of_two",
    "coverage of two",
    lambda: from_arrays([[0, 0, 0]] * 3 + [[0.5, 0.5, 0.9]], arrivals=[0, 1, 2, -1], weight=[0, 0, 0, 1]),
    2,
    1,
    "1/20",
    Variant(aggregator="coverage", top_k=2),
)


KINDS = ("hard", "requests", "classes", "soft", "scored", "sized")
"""Kinds of random instances: one item a row; classical requests; whole classes; several qualities a row; with
a score that differs from quality; with sizes."""


def random_instance(
    rng: np.random.Generator,
    kind: str,
    max_steps: int = 14,
    max_items: int = 6,
) -> tuple[Trace, int, Fraction]:
    """Draw a small trace of a kind, a capacity and a switch cost.

    Qualities come from a coarse grid in half of the cases, so that ties are common; weights include 0;
    lambda is 0 in about one case in eight, and often an integer or a half.

    Raises
    ------
    InvalidInput
        An unknown kind.

    Examples
    --------
    >>> trace, capacity, lam = random_instance(np.random.default_rng(0), "hard")
    >>> trace.structure.hard
    True
    """
    check_choice("kind", kind, KINDS)
    n_items = int(rng.integers(2, max_items + 1))
    n_steps = int(rng.integers(4, max_steps + 1))
    capacity = int(rng.integers(1, max(2, n_items - 1)))
    lam = Fraction(int(rng.integers(0, 8)), int(rng.choice([1, 2, 2, 3, 5])))
    weight = rng.integers(0, 4, n_steps) if rng.random() < 0.4 else None
    arrivals: Any = rng.integers(-1, n_items, n_steps)

    def grid(shape: Any) -> Any:
        coarse = rng.integers(1, 5, shape) / 4
        return coarse if rng.random() < 0.5 else rng.integers(1, 10_001, shape) / 10_000

    if kind in ("hard", "requests"):
        asks = rng.integers(0 if kind == "requests" else -1, n_items, n_steps)
        quality = 1.0 if rng.random() < 0.5 else grid(n_steps)
        trace = from_requests(asks, n_items, quality, weight, "request" if kind == "requests" else arrivals)
    elif kind == "classes":
        owns = rng.integers(0, max(2, n_items // 2 + 1), n_items)
        asks = rng.integers(-1, int(owns.max()) + 1, n_steps)
        trace = from_clusters(asks, owns, arrivals, float(grid(())), weight)
    else:
        quality = grid((n_steps, n_items)) * (rng.random((n_steps, n_items)) < rng.uniform(0.2, 0.7))
        sizes = None
        score = None
        if kind == "sized":
            sizes = rng.integers(1, 4, n_items)
            capacity = int(rng.integers(1, max(2, int(sizes.sum()) - 1)))
        if kind == "scored":
            score = rng.integers(0, 11, (n_steps, n_items)) / 10
            score[(quality == 0) & (rng.random((n_steps, n_items)) < 0.4)] = -np.inf
        trace = from_arrays(quality, arrivals, score, weight, sizes)
    return trace, capacity, lam
