"""Adapters to libCacheSim through its Python binding; what is held is asked item by item, changing nothing.

libcachesim is GPL-3.0-or-later and an extra: only this module, in a process of its own, and tests import it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from importlib.metadata import version
from typing import Any

from adversaries.replay.adapter import AdapterInfo, Ask, Setup, Unsupported
from softhit.check import check_int
from softhit.errors import MissingExtra

__all__ = ["ADAPTERS", "LibCacheSim"]

ALGORITHMS = {
    "fifo": "FIFO",
    "lru": "LRU",
    "lfu": "LFU",
    "arc": "ARC",
    "twoq": "TwoQ",
    "lruk": "LRUK",
    "clock": "Clock",
    "sieve": "Sieve",
    "s3fifo": "S3FIFO",
    "slru": "SLRU",
    "wtinylfu": "WTinyLFU",
    "lecar": "LeCaR",
    "cacheus": "Cacheus",
    "gdsf": "GDSF",
    "lfuda": "LFUDA",
    "hyperbolic": "Hyperbolic",
    "clockpro": "ClockPro",
    "clock2qplus": "Clock2QPlus",
    "mq": "MQ",
    "lirs": "LIRS",
    "random": "Random",
}


class LibCacheSim:
    """One algorithm of libCacheSim, one request at a time.

    After each step it is asked about what it held before and what arrived, by ``find`` without update; if
    that is not as many as it counts itself, about every item; if they still differ, contents cannot be read.

    Parameters
    ----------
    algorithm : str
        The name of the binding's class.
    unit : int
        Sizes and capacity are multiplied by it. With 1, several algorithms refuse every object of size 1 in a
        small cache, since it does not fit into one of their queues (see docs/replay.md).
    **options
        Of the algorithm, such as ``move_to_main_threshold=1``.

    Raises
    ------
    MissingExtra
        libcachesim is not installed.
    """

    def __init__(self, algorithm: str, unit: int = 1, **options: Any) -> None:
        try:
            import libcachesim
        except ImportError as error:
            raise MissingExtra("libcachesim", "replay") from error
        self._class: Any = getattr(libcachesim, algorithm)
        self._request: Any = libcachesim.Request()
        self._unit = check_int("unit", unit, low=1, high=2**20)
        self._options = options
        self._cache: Any = None
        self.name = f"libcachesim {algorithm}"
        self.version = version("libcachesim")

    def open(self, setup: Setup) -> None:
        """Make an empty cache; this is where S3FIFO aborts for a capacity below 10."""
        self._cache = self._class(setup.capacity * self._unit, hashpower=16, **self._options)
        self._sizes = setup.sizes
        self._n_items = setup.n_items
        self._last: set[int] = set()

    def _point(self, item: int) -> Any:
        # id 0 is special to nobody but might be
        self._request.obj_id = item + 1
        self._request.obj_size = self._unit * (1 if self._sizes is None else int(self._sizes[item]))
        return self._request

    def _found(self, item: int) -> bool:
        return self._cache.find(self._point(item), False) is not None

    def step(self, ask: Ask) -> int:
        """Request the item; libCacheSim itself inserts what it misses."""
        if ask.weight == 0:
            if ask.arrival >= 0:
                self._get(ask.arrival)
            return -1
        if ask.query < 0 or (ask.arrival >= 0 and ask.arrival != ask.query):
            raise Unsupported(
                f"{self.name} has requests only: at step {ask.step} the query is item {ask.query} and item "
                f"{ask.arrival} arrives"
            )
        if ask.arrival < 0 and not self._found(ask.query):
            # it would insert what it misses, and nothing arrives
            return -1
        return ask.query if self._get(ask.query) else -1

    def _get(self, item: int) -> bool:
        self._last.add(item)
        return bool(self._cache.get(self._point(item)))

    def held(self) -> Iterable[int]:
        """Return the items that ``find`` finds; they must be as many as ``get_n_obj`` counts."""
        found = {item for item in self._last if self._found(item)}
        counted = self._cache.get_n_obj()
        if len(found) != counted:
            found = {item for item in range(self._n_items) if self._found(item)}
        if len(found) != counted:
            raise Unsupported(
                f"{self.name} counts {counted} objects but finds {len(found)}: what it holds cannot be read"
            )
        self._last = set(found)
        return found

    def close(self) -> None:
        """Free the cache."""
        self._cache = None


ADAPTERS = tuple(
    AdapterInfo(
        f"libcachesim_{short}",
        f"libCacheSim's {algorithm}; contents: its find() for each item, against its own count",
        "libcachesim",
        "replay",
        partial(LibCacheSim, algorithm),
    )
    for short, algorithm in ALGORITHMS.items()
)
