"""A lasso: requests that go through a prefix once and through a cycle for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.build import from_requests
from softhit.check import check_int, fail
from softhit.exact import as_fraction
from softhit.trace import DEFAULT_SCALE, Trace

__all__ = ["Lasso", "lasso_of", "near_of", "ring_trace"]


@dataclass(frozen=True, order=True, slots=True)
class Lasso:
    """Requests to items: ``prefix``, then ``cycle`` again and again.

    Examples
    --------
    >>> lasso = Lasso((0, 1), (2, 0, 1))
    >>> print(lasso, lasso.requests(2))
    0 1 (2 0 1)* [0, 1, 2, 0, 1, 2, 0, 1]
    >>> print(lasso.short())
    (0 1 2)*
    """

    prefix: tuple[int, ...]
    cycle: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.cycle:
            fail("cycle", self.cycle, "at least one request")

    def __str__(self) -> str:
        inside = " ".join(map(str, self.cycle))
        return " ".join([*map(str, self.prefix), f"({inside})*"])

    def __len__(self) -> int:
        return len(self.prefix) + len(self.cycle)

    @property
    def items(self) -> list[int]:
        """The items asked for, in the order of their first request."""
        return list(dict.fromkeys(self.prefix + self.cycle))

    def requests(self, rounds: int) -> list[int]:
        """Return the prefix and ``rounds`` cycles."""
        return [*self.prefix, *(self.cycle * check_int("rounds", rounds, low=0))]

    def first(self, steps: int) -> list[int]:
        """Return the first ``steps`` requests.

        >>> Lasso((0, 1), (2, 0, 1)).first(4)
        [0, 1, 2, 0]
        """
        n = check_int("steps", steps, low=0)
        return self.requests(max(0, n - len(self.prefix)) // len(self.cycle) + 1)[:n]

    def short(self) -> Lasso:
        """Return the shortest lasso of the same infinite sequence of requests."""
        cycle, prefix = self.cycle, self.prefix
        for n in range(1, len(cycle) // 2 + 1):
            if len(cycle) % n == 0 and cycle[:n] * (len(cycle) // n) == cycle:
                cycle = cycle[:n]
                break
        while prefix and prefix[-1] == cycle[-1]:
            cycle = (cycle[-1], *cycle[:-1])
            prefix = prefix[:-1]
        return Lasso(prefix, cycle)

    def renumbered(self) -> Lasso:
        """Return it with the items numbered in the order of their first request.

        >>> print(Lasso((3,), (1, 3)).renumbered())
        0 (1 0)*
        """
        names = {item: n for n, item in enumerate(self.items)}
        return Lasso(tuple(names[i] for i in self.prefix), tuple(names[i] for i in self.cycle))

    def trace(
        self,
        steps: int,
        n_items: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        near: Fraction | None = None,
    ) -> Trace:
        """Return the trace of the first ``steps`` requests; it carries the lasso in its metadata.

        With ``near`` it is soft: see :func:`ring_trace`.
        """
        n = max(self.items) + 1 if n_items is None else n_items
        facts: dict[str, Any] = {"prefix": list(self.prefix), "cycle": list(self.cycle)}
        if near is not None:
            facts["near"] = str(near)
        facts = {"generator": "lasso", **(metadata or {}), **facts}
        requests = np.array(self.first(steps), np.int64)
        if near is None:
            return from_requests(requests, n_items=n, metadata=facts)
        return ring_trace(requests, n, near, facts)


def ring_trace(
    requests: NDArray[np.int64], n_items: int, near: Fraction, metadata: Mapping[str, Any] | None = None
) -> Trace:
    """Return the trace of soft requests to items on a ring: a query's neighbours serve it with ``near``.

    >>> ring_trace(np.array([0, 2]), 4, Fraction(1, 2)).items.tolist()
    [0, 1, 3, 1, 2, 3]
    """
    if n_items < 3:
        fail("n_items", n_items, "3 or more, to lie on a ring")
    near_units = round(near * DEFAULT_SCALE)
    if not 0 < near_units <= DEFAULT_SCALE:
        fail("near", near, "a quality in (0, 1]")
    around = np.stack([requests - 1, requests, requests + 1], axis=1) % n_items
    units = np.tile(np.array([near_units, DEFAULT_SCALE, near_units], np.int32), (len(requests), 1))
    order = np.argsort(around, axis=1)
    return Trace(
        n_items=n_items,
        indptr=3 * np.arange(len(requests) + 1),
        items=np.take_along_axis(around, order, 1).ravel().astype(np.int32),
        quality=np.take_along_axis(units, order, 1).ravel(),
        arrivals=requests.astype(np.int32),
        metadata=metadata or {},
    )


def lasso_of(trace: Trace) -> Lasso:
    """Return the lasso that a trace is made of.

    It is the one in the metadata, if the trace is indeed its own. Else the trace must be one of plain
    requests, and it is the shortest lasso whose cycle the trace goes through at least twice, up to its end;
    if it goes through none twice, then the whole trace is the cycle.

    >>> print(lasso_of(from_requests([5, 0, 1, 0, 1, 0, 1])))
    5 (0 1)*
    >>> print(lasso_of(from_requests([0, 1, 2])))
    (0 1 2)*
    """
    stored = _stored(trace)
    if stored is not None:
        return stored
    if not trace.structure.requests or not np.all(trace.quality == trace.quality_scale):
        fail("trace", repr(trace), "plain requests: each step asks for one item that serves it fully")
    if np.any(trace.weight != 1) or not trace.structure.unit_sizes:
        fail("trace", repr(trace), "requests of weight 1 to items of size 1")
    requests = [int(i) for i in trace.requests]
    if not requests:
        fail("trace", repr(trace), "at least one request")
    return _found(requests)


def near_of(trace: Trace) -> Fraction | None:
    """Return what :meth:`Lasso.trace` was given as ``near`` for this trace."""
    text = trace.metadata.get("near")
    return None if text is None or _stored(trace) is None else as_fraction("near", text)


def _stored(trace: Trace) -> Lasso | None:
    parts = [trace.metadata.get("prefix"), trace.metadata.get("cycle")]
    if not all(isinstance(p, list | tuple) and all(isinstance(i, int) for i in p) for p in parts):
        return None
    prefix, cycle = (tuple(p or ()) for p in parts)
    if not cycle or not all(0 <= i < trace.n_items for i in prefix + cycle):
        return None
    lasso, near = Lasso(prefix, cycle), trace.metadata.get("near")
    if len(lasso) > trace.n_steps or (near is not None and trace.n_items < 3):
        return None
    quality = None if near is None else as_fraction("near", near)
    made = lasso.trace(trace.n_steps, trace.n_items, near=quality)
    return lasso if made.hash == trace.hash else None


def _found(requests: list[int]) -> Lasso:
    ids, n = np.array(requests), len(requests)
    best = Lasso((), tuple(requests))
    for period in range(1, n // 2 + 1):
        differs = np.flatnonzero(ids[period:] != ids[:-period])
        start = int(differs[-1]) + 1 if len(differs) else 0
        rest = (n - start) % period
        begin = start + rest
        if n - begin >= 2 * period and begin + period < len(best):
            best = Lasso(tuple(requests[:begin]), tuple(requests[begin : begin + period]))
    return best.short() if len(best) < n else best
