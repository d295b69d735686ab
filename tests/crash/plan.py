"""Which points are tried: all of some scenarios, and of the others as many as there is time for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from tests.crash.runner import Point

__all__ = ["WHOLE", "every", "points", "spread"]

WHOLE = (
    "store of texts",
    "documents, sqlite",
    "documents, folder",
    "vectors, qdrant",
    "line, qdrant, sqlite, L3 flaky",
    "fan, qdrant, sqlite, L2 flaky",
    "many, qdrant, sqlite, fine",
    "twice, qdrant, folder, L3 flaky",
)
"""Scenarios of which a full run tries every call."""


def _last(counts: Mapping[str, Any], mode: str) -> int:
    return int(counts["data"] if mode == "torn" else counts["calls"])


def every(counts: Mapping[str, Any], scenario: str, modes: Sequence[str], step: int = 1) -> list[Point]:
    """Every ``step``-th point of each mode, from a start that depends on the name only."""
    found = []
    for mode in modes:
        start = 1 + crc32(f"{scenario} {mode}".encode()) % step
        found += [Point(scenario, mode, n) for n in range(start, _last(counts, mode) + 1, step)]
    return found


def spread(counts: Mapping[str, Any], scenario: str, number: int) -> list[Point]:
    """About ``number`` points over the whole run: three of five before a call, one in the middle of a write,
    and one before a call and then again in the life that resumes."""
    found = []
    for mode, share in (("before", 4), ("torn", 1)):
        last = _last(counts, mode)
        step = max(1, 5 * last // max(1, share * number))
        for turn, point in enumerate(every(counts, scenario, [mode], step)):
            twice = mode == "before" and turn % 4 == 3
            again = crc32(f"{scenario} {point.n} again".encode()) if twice else None
            found.append(Point(scenario, mode, point.n, again))
    return found


def points(
    counts: Mapping[str, Any], scenario: str, number: int, whole: Sequence[str] = WHOLE
) -> Iterator[Point]:
    """The points of one scenario: every call where it is one of ``whole``, else about ``number``."""
    seen = set()
    if scenario in whole:
        for point in every(counts, scenario, ["before"]):
            seen.add(point)
            yield point
    for point in spread(counts, scenario, number):
        if point not in seen:
            yield point
