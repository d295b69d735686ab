"""A binary heap of items in arrays: the smallest (key, item) first; keys may change while inside.

``heap[:n]`` are the items, ``place[i]`` is where item i stands, ``key[i]`` its key.
"""

from __future__ import annotations

from typing import Any

from softhit.jit import lean

__all__ = ["pop", "push", "rise", "sink"]


@lean
def _before(key: Any, a: Any, b: Any) -> Any:
    return key[a] < key[b] or (key[a] == key[b] and a < b)


@lean
def rise(heap: Any, place: Any, key: Any, item: Any) -> None:
    """Move ``item`` up after its key became smaller."""
    at = place[item]
    while at > 0:
        up = (at - 1) >> 1
        if not _before(key, item, heap[up]):
            break
        heap[at] = heap[up]
        place[heap[at]] = at
        at = up
    heap[at] = item
    place[item] = at


@lean
def sink(heap: Any, place: Any, key: Any, n: Any, item: Any) -> None:
    """Move ``item`` down after its key became larger."""
    at = place[item]
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        if down + 1 < n and _before(key, heap[down + 1], heap[down]):
            down += 1
        if not _before(key, heap[down], item):
            break
        heap[at] = heap[down]
        place[heap[at]] = at
        at = down
    heap[at] = item
    place[item] = at


@lean
def push(heap: Any, place: Any, key: Any, n: Any, item: Any) -> None:
    """Add ``item``, whose key is set, to the n items inside."""
    place[item] = n
    rise(heap, place, key, item)


@lean
def pop(heap: Any, place: Any, key: Any, n: Any) -> Any:
    """Take the first of n items out and return it."""
    first = heap[0]
    if n > 1:
        last = heap[n - 1]
        place[last] = 0
        sink(heap, place, key, n - 1, last)
    return first
