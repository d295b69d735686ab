"""A lasso: requests that go through a prefix once and through a cycle for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from softhit.build import from_requests
from softhit.check import check_int, fail
from softhit.trace import Trace

__all__ = ["Lasso", "lasso_of"]


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
        self, steps: int, n_items: int | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Trace:
        """Return the trace of the first ``steps`` requests; it carries the lasso in its metadata."""
        facts = {"prefix": list(self.prefix), "cycle": list(self.cycle)}
        return from_requests(
            np.array(self.first(steps), np.int64),
            n_items=max(self.items) + 1 if n_items is None else n_items,
            metadata={"generator": "lasso", **(metadata or {}), **facts},
        )


def lasso_of(trace: Trace) -> Lasso:
    """Return the lasso that a trace of plain requests is made of.

    It is the one in the metadata, if the requests are indeed its own. Else it is the shortest one whose cycle
    the trace goes through at least twice, up to its end; and if it goes through none twice, then the whole
    trace is the cycle.

    >>> print(lasso_of(from_requests([5, 0, 1, 0, 1, 0, 1])))
    5 (0 1)*
    >>> print(lasso_of(from_requests([0, 1, 2])))
    (0 1 2)*
    """
    if not trace.structure.requests or not np.all(trace.quality == trace.quality_scale):
        fail("trace", repr(trace), "plain requests: each step asks for one item that serves it fully")
    if np.any(trace.weight != 1) or not trace.structure.unit_sizes:
        fail("trace", repr(trace), "requests of weight 1 to items of size 1")
    requests = [int(i) for i in trace.requests]
    if not requests:
        fail("trace", repr(trace), "at least one request")
    stored = _stored(trace.metadata)
    if stored is not None and len(stored) <= len(requests) and stored.first(len(requests)) == requests:
        return stored
    return _found(requests)


def _stored(metadata: Mapping[str, Any]) -> Lasso | None:
    parts = [metadata.get("prefix"), metadata.get("cycle")]
    if not all(isinstance(p, list | tuple) and all(isinstance(i, int) for i in p) for p in parts):
        return None
    prefix, cycle = (tuple(p or ()) for p in parts)
    return Lasso(prefix, cycle) if cycle else None


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
