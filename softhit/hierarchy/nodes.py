"""Which nodes of a graph start, which may follow, and which one is running now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any, Protocol

__all__ = ["Ahead", "Running", "Start", "Updates", "running"]


@dataclass(frozen=True, slots=True)
class Start:
    """A node that starts at a boundary.

    Attributes
    ----------
    node : str
    hint : str
        What to search L2 for, with the state's values filled in; "" = nothing.
    fields : tuple of str
        State fields the hint depends on: what it loads is stale when one of them changes.
    """

    node: str
    hint: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ahead:
    """A node that may start one or two boundaries later.

    Attributes
    ----------
    node, hint, fields
        As of :class:`Start`.
    probability : Fraction or float
        That it starts within the lookahead, in (0, 1].
    """

    node: str
    hint: str
    probability: Fraction | float
    fields: tuple[str, ...] = ()


class Updates(Protocol):
    """What a node's view has to report, as an update of the state."""

    def update(self) -> dict[str, Any]:
        """Return ``{"context_reports": ...}``."""
        ...


@dataclass(slots=True)
class Running:
    """The node that runs in this thread or task, as its wrapper knows it.

    Attributes
    ----------
    node, task : str
        Name, and which run of it; tasks of one superstep sort as their branches do.
    context, reports : mapping
        The channels as they were when it started.
    views : list
        What it made to look at its context; their reports are written when it ends.
    numbers : iterator of int
        One for each report of this run of the node, whichever view makes it.
    fields : frozenset of str or None
        The state's fields, of which texts may depend; None: not known.
    thread : str
        The checkpointer's thread, if there is one.
    """

    node: str
    task: str
    context: Mapping[str, Any]
    reports: Mapping[str, Any]
    views: list[Updates] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)
    fields: frozenset[str] | None = None
    thread: str = ""


running: ContextVar[Running | None] = ContextVar("softhit_running", default=None)
