"""Doubly linked lists of items in one array: constant-time append, unlink and move, no allocation.

``links[i]`` is (previous, next, tags...) of item i; the last rows are the sentinels of the lists, so that
``links[s, 1]`` is the first item of the list with sentinel s (s itself if empty), ``links[s, 0]`` the last.
An item is in at most one list. A policy with several lists numbers them from 1, keeps the list of an item in
column ``TAG`` (0: none) and counts members in ``length``: one element per list, after one for "none".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.jit import lean

__all__ = ["TAG", "append", "first_of", "insert_after", "move", "new_lists", "unlink"]

TAG = 2


def new_lists(n_items: int, lists: int, tags: int = 0) -> NDArray[np.int32]:
    """Return ``lists`` empty lists over items 0..n_items-1; list j has the sentinel ``n_items + j``.

    >>> links = new_lists(5, 1)
    >>> append(links, 5, 3)
    >>> append(links, 5, 0)
    >>> unlink(links, 3)
    >>> int(links[5, 1])
    0
    """
    links = np.zeros((n_items + lists, 2 + tags), np.int32)
    links[:, :2] = np.arange(n_items + lists)[:, None]
    return links


@lean
def insert_after(links: Any, place: Any, item: Any) -> None:
    """Put ``item`` right after ``place`` (an item in a list, or a sentinel: at the front)."""
    after = links[place, 1]
    links[item, 0] = place
    links[item, 1] = after
    links[place, 1] = item
    links[after, 0] = item


@lean
def append(links: Any, sentinel: Any, item: Any) -> None:
    """Put ``item`` at the end of the list."""
    last = links[sentinel, 0]
    links[item, 0] = last
    links[item, 1] = sentinel
    links[last, 1] = item
    links[sentinel, 0] = item


@lean
def unlink(links: Any, item: Any) -> None:
    """Take ``item`` out of its list."""
    before = links[item, 0]
    after = links[item, 1]
    links[before, 1] = after
    links[after, 0] = before


@lean
def move(links: Any, length: Any, item: Any, where: Any) -> None:
    """Take ``item`` from the list it is in (tag 0: none) to the end of list number ``where`` (0: none)."""
    tag = links[item, TAG]
    if tag:
        length[tag] -= 1
        unlink(links, item)
    if where:
        length[where] += 1
        append(links, len(links) - len(length) + where, item)
    links[item, TAG] = where


@lean
def first_of(links: Any, length: Any, where: Any) -> Any:
    """Return the first item of list number ``where``, which must not be empty."""
    return links[len(links) - len(length) + where, 1]
