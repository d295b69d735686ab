"""What an adapter to somebody else's cache is, and the registry of adapters.

An adapter is a thin shell around one library: it asks the library what a step asks, inserts on a miss if
that is how the library is used, and then *reads from the library itself* what it holds. It keeps no book of
its own about contents, it decides nothing and counts nothing; softhit makes the schedule from what was read,
verifies it and prices it. What cannot be read, or a step that the library has no notion of, raises
:class:`Unsupported`.

A module of :mod:`adversaries.replay.adapters` imports its library inside functions and defines
``ADAPTERS``, a tuple of :class:`AdapterInfo`.

Examples
--------
A cache of one entry as somebody else might have written it, and its adapter:

>>> class Theirs:
...     entry = None
>>> class OneEntry:
...     name, version = "theirs", "1.0"
...     def open(self, setup):
...         self.cache = Theirs()
...     def step(self, ask):
...         if self.cache.entry == str(ask.query):
...             return ask.query
...         self.cache.entry = str(ask.arrival)
...         return -1
...     def held(self):
...         return [] if self.cache.entry is None else [int(self.cache.entry)]
...     def close(self):
...         pass
>>> isinstance(OneEntry(), Adapter)
True
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from softhit.check import unknown
from softhit.errors import InvalidInput
from softhit.policies import split_specs

__all__ = [
    "Adapter",
    "AdapterInfo",
    "Ask",
    "Setup",
    "Unsupported",
    "adapter_info",
    "adapter_names",
    "make_adapter",
]


class Unsupported(InvalidInput):
    """A library cannot do, or does not let one read, what a replay needs; the message says what."""


@dataclass(frozen=True)
class Setup:
    """What an adapter is told once, before the first step.

    Attributes
    ----------
    capacity : int
        K, in units of size.
    n_items : int
        N; items are 0..N-1.
    sizes : sequence of int, or None
        Size of each item; None: all 1.
    seed : int
        For libraries that draw.
    dimension : int
        Length of the vectors of the trace; 0: it has none.
    """

    capacity: int
    n_items: int
    sizes: Sequence[int] | None = None
    seed: int = 0
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """One step: a query, then the item that arrives. Nothing here depends on what the library holds.

    Attributes
    ----------
    step : int
    query : int
        The one item that serves the query; -1: none or several do, and only ``vector`` says what is asked.
    weight : int
        0: no query at this step, only the arrival.
    arrival : int
        The item that may be inserted now, or -1.
    arrival_quality : float
        How well the arrival would serve this query.
    vector, arrival_vector : sequence of float, or None
        Embeddings of the query and of the arrival, of unit length, if the trace has them.
    """

    step: int
    query: int
    weight: int
    arrival: int
    arrival_quality: float
    vector: Sequence[float] | None = None
    arrival_vector: Sequence[float] | None = None


@runtime_checkable
class Adapter(Protocol):
    """A library's cache, as a replay drives it. It runs in a process of its own, and may abort or hang there.

    Attributes
    ----------
    name : str
        Library and algorithm, such as ``"cachetools LRUCache"``.
    version : str
        The library's version, as installed.
    """

    name: str
    version: str

    def open(self, setup: Setup) -> None:
        """Make an empty cache; raise :class:`Unsupported` if the library cannot be set up like this."""
        ...

    def step(self, ask: Ask) -> int | None:
        """Ask the library; on a miss insert the arrival if the library's users would.

        Returns
        -------
        int or None
            The item that the library answered with, -1 if with none; None where one cannot tell. It is shown
            beside what the contents would have served and enters no cost.
        """
        ...

    def held(self) -> Iterable[int]:
        """Return the items held now, read from the library's own storage, never from the adapter's memory."""
        ...

    def close(self) -> None:
        """Let go of files, connections and threads."""
        ...


@dataclass(frozen=True)
class AdapterInfo:
    """One row of the registry.

    Attributes
    ----------
    name : str
        What ``--adapter`` takes, such as ``"cachetools_lru"``.
    summary : str
        One line: what it drives, and from where contents are read.
    library, extra : str
        The project to install, and the extra of softhit that brings it.
    load : callable
        Keyword parameters -> an adapter; imports the library, raises ``MissingExtra(library, extra)``.
    """

    name: str
    summary: str
    library: str
    extra: str
    load: Callable[..., Adapter]


def _registry() -> dict[str, AdapterInfo]:
    from adversaries.replay import adapters

    rows: dict[str, AdapterInfo] = {}
    for found in sorted(m.name for m in pkgutil.iter_modules(adapters.__path__)):
        module = importlib.import_module(f"{adapters.__name__}.{found}")
        for row in getattr(module, "ADAPTERS", ()):
            if row.name in rows:
                raise InvalidInput(f"an adapter named {row.name!r} exists twice")
            rows[row.name] = row
    return rows


def adapter_names() -> list[str]:
    """Return the names of all adapters, whether or not their libraries are installed."""
    return list(_registry())


def adapter_info(name: str) -> AdapterInfo:
    """Return the registry row of an adapter."""
    rows = _registry()
    if name not in rows:
        unknown("adapter", name, list(rows))
    return rows[name]


def _value(text: str) -> Any:
    text = text.strip().strip("'\"")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def make_adapter(spec: str) -> Adapter:
    """Return a fresh adapter from its name with optional parameters, or from a user's ``module:Class``.

    Raises
    ------
    UnknownName
        No such adapter; the nearest name is suggested.
    MissingExtra
        Its library is not installed.
    InvalidInput
        The text cannot be read, a parameter does not exist, or the class is not an adapter.
    """
    match = re.fullmatch(r"\s*([\w.]+(?::\w+)?)\s*(?:\((.*)\))?\s*", spec)
    if not match:
        raise InvalidInput(f"adapter must be a name, name(key=value, ...) or module:Class, got {spec!r}")
    parameters: dict[str, Any] = {}
    for part in split_specs(match[2] or ""):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier() or key.strip() in parameters:
            raise InvalidInput(f"adapter parameters must be key=value, once each, got {part!r} in {spec!r}")
        parameters[key.strip()] = _value(value)
    load: Callable[..., Any]
    if ":" in match[1]:
        module, _, attribute = match[1].partition(":")
        try:
            load = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise InvalidInput(f"adapter {spec!r} cannot be loaded: {error}") from error
    else:
        load = adapter_info(match[1]).load
    try:
        made = load(**parameters)
    except TypeError as error:
        raise InvalidInput(f"adapter {spec!r}: {error}") from error
    if not isinstance(made, Adapter):
        raise InvalidInput(f"adapter {spec!r} must have name, version, open, step, held and close")
    return made
