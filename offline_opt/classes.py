"""Traces whose similarity is an equivalence: contract each class to one item, solve, lift the schedule back.

If every row is a whole class of items with one quality, a cache gains nothing from a second member of a
class (as long as one item is retrieved), and which member it holds makes no difference. So the optimum is
that of the hard trace in which classes are the items and a member's arrival is that of its class.

>>> from softhit import from_clusters
>>> trace = from_clusters([0, 1, 0], [0, 0, 1], arrivals=[0, 2, 1])
>>> hard = contract(trace)
>>> hard.n_items, hard.requests.tolist(), hard.arrivals.tolist()
(2, [0, 1, 0], [0, 1, 0])
"""

from __future__ import annotations

import numpy as np

from softhit.errors import InvalidInput
from softhit.schedule import Schedule
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["contract", "lift", "not_contractible"]


def not_contractible(trace: Trace, variant: Variant) -> str | None:
    """Say why the trace has no equivalent hard one, or None if it has."""
    if trace.structure.scored:
        return "the retriever ranks by a score"
    if trace.structure.classes is None:
        return "rows are not whole classes of items with one quality"
    if not trace.structure.unit_sizes:
        return "items have sizes"
    if variant.top_k > 1:
        return f"{variant.top_k} items are retrieved, so members of a class add up"
    return None


def contract(trace: Trace) -> Trace:
    """Return the hard trace over classes; its item c is class c of ``trace.structure.classes``.

    Raises
    ------
    InvalidInput
        Similarity is not an equivalence.
    """
    classes = trace.structure.classes
    if classes is None or not trace.structure.unit_sizes:
        raise InvalidInput("only traces of unit sizes whose rows are whole classes can be contracted")
    counts = np.diff(trace.indptr)
    rows = np.flatnonzero(counts)
    first = trace.indptr[rows]
    indptr = np.zeros(trace.n_steps + 1, np.int64)
    np.cumsum(counts > 0, out=indptr[1:])
    with_none = np.append(classes, -1)
    return Trace(
        n_items=int(classes.max(initial=-1)) + 1,
        indptr=indptr,
        items=classes[trace.items[first]],
        quality=trace.quality[first],
        arrivals=with_none[trace.arrivals],
        weight=trace.weight,
        quality_scale=trace.quality_scale,
        metadata={"generator": "contraction", "of": trace.hash},
    )


def lift(schedule: Schedule, trace: Trace, variant: Variant) -> Schedule:
    """Return the schedule over items that a schedule over classes stands for; it costs the same.

    A class enters as the arrival of the step (``stream``) or as its smallest member (``pool``).
    """
    classes = trace.structure.classes
    if classes is None:
        raise InvalidInput("only schedules of contracted traces can be lifted")
    n_classes = int(classes.max(initial=-1)) + 1
    member = np.zeros(n_classes, np.int32)
    order = np.argsort(classes, kind="stable")[::-1]
    member[classes[order][classes[order] >= 0]] = order[classes[order] >= 0]
    held = np.full(n_classes, -1, np.int32)
    leaves, enters = schedule.leave_items.copy(), schedule.enter_items.copy()
    for t in range(schedule.n_steps):
        for x in range(schedule.leave_ptr[t], schedule.leave_ptr[t + 1]):
            leaves[x] = held[schedule.leave_items[x]]
        for x in range(schedule.enter_ptr[t], schedule.enter_ptr[t + 1]):
            c = schedule.enter_items[x]
            held[c] = trace.arrivals[t] if variant.stream else member[c]
            enters[x] = held[c]
    return Schedule(schedule.leave_ptr, leaves, schedule.enter_ptr, enters)
