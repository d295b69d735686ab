"""Hypothesis strategies for traces, families, switching costs and variants, for your own tests too.

Everything shrinks towards short traces with few items, unit weights and round numbers. Needs the extra
``testing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from adversaries.families import family_info, family_names
from softhit.check import check_choice, check_int
from softhit.errors import MissingExtra
from softhit.trace import Trace
from softhit.variant import AGGREGATORS, AVAILABILITIES, FILLS, ORDERS, Variant

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingExtra("hypothesis", "testing") from error

__all__ = [
    "FORMS",
    "Instance",
    "capacities",
    "family_traces",
    "instances",
    "switch_costs",
    "traces",
    "variants",
]

FORMS = ("requests", "hard", "soft", "scored")
# halves and thirds make ties exact; the last one is what a quality grid of 1/10000 can see
_SCALES = (1, 2, 3, 10_000)


class Instance(NamedTuple):
    """A trace with everything that a cost needs."""

    trace: Trace
    capacity: int
    switch_cost: Fraction
    variant: Variant


def switch_costs(largest: int = 4) -> st.SearchStrategy[Fraction]:
    """Draw lambda >= 0: 0, integers, halves, thirds, and values just below and above integers.

    These are where thresholds such as ``floor(lambda + kappa)`` jump.

    >>> switch_costs().example() >= 0  # doctest: +SKIP
    True
    """
    check_int("largest", largest, low=0)
    nudge = Fraction(1, 1000)
    whole = [Fraction(k) for k in range(largest + 1)]
    parts = [k + p for k in whole[:-1] for p in (Fraction(1, 2), Fraction(1, 3), nudge, 1 - nudge)]
    return st.sampled_from([*whole, *parts])


@st.composite
def variants(
    draw: st.DrawFn,
    orders: Sequence[str] = ORDERS,
    availabilities: Sequence[str] = AVAILABILITIES,
    fills: Sequence[str] = FILLS,
    aggregators: Sequence[str] = AGGREGATORS,
    largest_k: int = 3,
) -> Variant:
    """Draw a variant of the problem; narrow any of its four choices by passing a shorter list."""
    aggregator = draw(st.sampled_from(list(aggregators)))
    return Variant(
        order=draw(st.sampled_from(list(orders))),
        availability=draw(st.sampled_from(list(availabilities))),
        fill=draw(st.sampled_from(list(fills))),
        aggregator=aggregator,
        top_k=1 if aggregator == "best" else draw(st.integers(1, largest_k)),
    )


def capacities(largest: int = 4) -> st.SearchStrategy[int]:
    """Draw K in 1..largest."""
    return st.integers(1, largest)


@st.composite
def traces(
    draw: st.DrawFn,
    form: str | None = None,
    max_steps: int = 12,
    max_items: int = 5,
    min_steps: int = 0,
    max_weight: int = 3,
    max_size: int = 1,
) -> Trace:
    """Draw a small trace.

    Parameters
    ----------
    form : {"requests", "hard", "soft", "scored"}, optional
        ``requests``: e_t = q_t with one quality per step (classical paging if it is 1). ``hard``: at most
        one item serves a query, arrivals independent. ``soft``: any rows. ``scored``: soft, and the
        retriever ranks by something else, with ties and with retrievable items of quality 0. Default: any.
    max_steps, max_items, min_steps : int
    max_weight : int
        Weights are 0..max_weight (0: the step has no query); 1 leaves 0 and 1.
    max_size : int
        Item sizes are 1..max_size; 1 (default) means unit sizes.
    """
    kind = draw(st.sampled_from(FORMS)) if form is None else check_choice("form", form, FORMS)
    n = draw(st.integers(1, max_items))
    n_steps = draw(st.integers(min_steps, max_steps))
    scale = draw(st.sampled_from(_SCALES))
    item = st.integers(0, n - 1)
    units = st.integers(1, scale).map(lambda u: scale + 1 - u)
    rows: list[list[tuple[int, int, int]]] = []
    arrivals: list[int] = []
    for _ in range(n_steps):
        if kind in ("requests", "hard"):
            asked = draw(item if kind == "requests" else st.integers(-1, n - 1))
            row = [] if asked < 0 else [(asked, draw(units), 0)]
        else:
            present = sorted(draw(st.sets(item, max_size=n)))
            low = 0 if kind == "scored" else 1
            grade = st.integers(low, scale)
            row = [(i, draw(grade), draw(st.integers(0, 2)) if kind == "scored" else 0) for i in present]
        rows.append(row)
        arrivals.append(row[0][0] if kind == "requests" else draw(st.integers(-1, n - 1)))
    weight = draw(st.lists(st.integers(0, max_weight).map(_one_first), min_size=n_steps, max_size=n_steps))
    sizes = draw(st.lists(st.integers(1, max_size), min_size=n, max_size=n)) if max_size > 1 else None
    return _build(n, rows, arrivals, weight, sizes, scale, kind == "scored")


def _one_first(weight: int) -> int:
    """Let 1 be the simplest weight."""
    return weight if weight > 1 else 1 - weight


def _build(
    n_items: int,
    rows: list[list[tuple[int, int, int]]],
    arrivals: list[int],
    weight: list[int],
    sizes: list[int] | None,
    scale: int,
    scored: bool,
) -> Trace:
    ranks: list[int] = []
    for row in rows:
        order = sorted({score for _, _, score in row})
        ranks += [order.index(score) for _, _, score in row]
    return Trace(
        n_items=n_items,
        indptr=np.cumsum([0, *map(len, rows)]),
        items=np.array([i for row in rows for i, _, _ in row], np.int32),
        quality=np.array([q for row in rows for _, q, _ in row], np.int32),
        ranks=np.array(ranks, np.int32) if scored else None,
        arrivals=np.array(arrivals, np.int32),
        weight=np.array(weight, np.int32),
        sizes=np.array(sizes or [1] * n_items, np.int64),
        quality_scale=scale,
        metadata={"generator": "hypothesis"},
    )


@st.composite
def family_traces(
    draw: st.DrawFn,
    name: str | None = None,
    form: str | None = None,
    max_capacity: int = 4,
    max_steps: int = 60,
) -> Trace:
    """Draw a trace of a family (default: of any) with random parameters.

    Capacity, switching cost and all parameters are in ``trace.metadata["parameters"]``.
    """
    info = family_info(draw(st.sampled_from(family_names())) if name is None else name)
    capacity = draw(st.integers(1, max_capacity))
    settings: dict[str, Any] = {}
    for parameter in info.parameters.values():
        if parameter.soft and settings.get("form", form) != "soft":
            continue
        if parameter.name == "form":
            settings["form"] = draw(st.sampled_from(parameter.choices)) if form is None else form
        elif parameter.kind == "choice":
            settings[parameter.name] = draw(st.sampled_from(parameter.choices))
        elif parameter.name == "items":
            # a working set and its successor must fit
            settings["items"] = draw(st.integers(2 * settings["w"], 4 * settings["w"] + 4))
        elif parameter.kind == "count":
            high = 4 if parameter.soft else 4 * capacity
            settings[parameter.name] = draw(st.integers(int(parameter.low), min(int(parameter.high), high)))
        else:
            # twentieths; never 1 for `near`, where a neighbour would be as good as the item
            top = 19 if parameter.name == "near" else 20
            share = Fraction(draw(st.integers(0, top)), 20)
            settings[parameter.name] = float(parameter.low + share * Fraction(parameter.high - parameter.low))
    return info.function(
        capacity,
        draw(st.integers(0, max_steps)),
        draw(switch_costs()),
        draw(st.integers(0, 1000)),
        **settings,
    )


@st.composite
def instances(
    draw: st.DrawFn,
    form: str | None = None,
    max_steps: int = 12,
    max_items: int = 5,
    max_size: int = 1,
    max_capacity: int = 4,
    variant: st.SearchStrategy[Variant] | None = None,
) -> Instance:
    """Draw a trace, a capacity, a switching cost and a variant together."""
    trace = draw(traces(form=form, max_steps=max_steps, max_items=max_items, max_size=max_size))
    return Instance(
        trace,
        draw(capacities(max_capacity)),
        draw(switch_costs()),
        draw(variants() if variant is None else variant),
    )
