"""Adapters to cachetools: LRU, LFU, FIFO and random replacement; what is held are the keys of the mapping."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version
from typing import Any

from adversaries.replay.adapter import AdapterInfo, Ask, Setup, Unsupported
from softhit.errors import MissingExtra

__all__ = ["ADAPTERS", "Cachetools"]


class Cachetools:
    """A class of cachetools with item ids as keys: looked up on a query, stored on a miss.

    Parameters
    ----------
    kind : str
        ``LRUCache``, ``LFUCache``, ``FIFOCache`` or ``RRCache``.

    Raises
    ------
    MissingExtra
        cachetools is not installed.
    """

    def __init__(self, kind: str) -> None:
        try:
            import cachetools
        except ImportError as error:
            raise MissingExtra("cachetools", "replay") from error
        self._class: Any = getattr(cachetools, kind)
        self._cache: Any = None
        self.name = f"cachetools {kind}"
        self.version = version("cachetools")

    def open(self, setup: Setup) -> None:
        """Make an empty mapping of the capacity; sizes are told through ``getsizeof``."""
        options: dict[str, Any] = {}
        if self._class.__name__ == "RRCache":
            options["choice"] = random.Random(setup.seed).choice
        # the value stored is the item's size, so that getsizeof can tell it
        self._sizes = setup.sizes
        if setup.sizes is not None:
            options["getsizeof"] = int
        self._cache = self._class(setup.capacity, **options)

    def step(self, ask: Ask) -> int:
        """Look the query up, store the arrival if it was not there."""
        if ask.weight > 0:
            if ask.query < 0:
                raise Unsupported(f"{self.name} has keys only: the query of step {ask.step} has not one item")
            if self._cache.get(ask.query) is not None:
                return ask.query
        if ask.arrival >= 0 and ask.arrival not in self._cache:
            size = 1 if self._sizes is None else int(self._sizes[ask.arrival])
            # larger than the whole cache: cachetools raises ValueError, and its users do without
            if size <= self._cache.maxsize:
                self._cache[ask.arrival] = size
        return -1

    def held(self) -> Iterable[int]:
        """Return the keys of the mapping."""
        return list(self._cache)

    def close(self) -> None:
        """Drop the mapping."""
        self._cache = None


ADAPTERS = tuple(
    AdapterInfo(
        f"cachetools_{short}",
        f"cachetools.{kind}; contents: the keys of the mapping",
        "cachetools",
        "replay",
        partial(Cachetools, kind),
    )
    for short, kind in (("lru", "LRUCache"), ("lfu", "LFUCache"), ("fifo", "FIFOCache"), ("rr", "RRCache"))
)
