"""Who is remembered: one record per cache slot, and a bounded table of ghosts, oldest touch forgotten first.

Records 0..K-1 are the cache slots, the other G are ghosts: items that were evicted, or asked for and not
admitted. ``where[item]`` is an item's record or -1. A touch is a request or an eviction; ghosts are linked
from the newest touch to the oldest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.jit import lean

__all__ = ["ghost", "move_up", "new_memory", "release", "swap", "touch"]

HELD, GHOSTS, NEWEST, OLDEST, SLOTS, TURN = range(6)
ITEM, NEWER, OLDER = range(3)


def new_memory(
    n_items: int, slots: int, ghosts: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return counts = [held, ghosts, newest, oldest, slots, turn], where[N], links[K + G, 3]."""
    counts = np.array([0, 0, -1, -1, slots, 0], np.int64)
    return counts, np.full(n_items, -1, np.int32), np.full((slots + ghosts, 3), -1, np.int32)


@lean
def _link(counts: Any, links: Any, r: Any) -> None:
    first = counts[NEWEST]
    links[r, NEWER] = -1
    links[r, OLDER] = first
    if first >= 0:
        links[first, NEWER] = r
    else:
        counts[OLDEST] = r
    counts[NEWEST] = r


@lean
def touch(counts: Any, links: Any, r: Any) -> None:
    """Make ghost r the newest."""
    up = links[r, NEWER]
    if up < 0:
        return
    down = links[r, OLDER]
    links[up, OLDER] = down
    if down >= 0:
        links[down, NEWER] = up
    else:
        counts[OLDEST] = up
    _link(counts, links, r)


@lean
def ghost(counts: Any, where: Any, links: Any, item: Any) -> Any:
    """Give ``item`` a ghost record, now the newest, and return it.

    It is an unused one while there is room, then the one with the oldest touch, whose item is forgotten. The
    caller settles what the record held before.
    """
    if counts[SLOTS] + counts[GHOSTS] < len(links):
        r = counts[SLOTS] + counts[GHOSTS]
        counts[GHOSTS] += 1
        _link(counts, links, r)
    else:
        r = counts[OLDEST]
        where[links[r, ITEM]] = -1
        touch(counts, links, r)
    links[r, ITEM] = item
    where[item] = r
    return r


@lean
def swap(where: Any, links: Any, slot: Any, r: Any) -> Any:
    """Let the item of ghost record r and the one in the slot change places; return the one that leaves."""
    leaver = links[slot, ITEM]
    comer = links[r, ITEM]
    links[slot, ITEM] = comer
    links[r, ITEM] = leaver
    where[comer] = slot
    where[leaver] = r
    return leaver


@lean
def release(counts: Any, where: Any, links: Any, r: Any) -> Any:
    """Take ghost r out of the table; return the record that moved to its place (r if none had to)."""
    touch(counts, links, r)
    down = links[r, OLDER]
    counts[NEWEST] = down
    if down >= 0:
        links[down, NEWER] = -1
    else:
        counts[OLDEST] = -1
    counts[GHOSTS] -= 1
    last = counts[SLOTS] + counts[GHOSTS]
    if last != r:
        newer = links[last, NEWER]
        older = links[last, OLDER]
        for c in range(3):
            links[r, c] = links[last, c]
        where[links[r, ITEM]] = r
        if newer >= 0:
            links[newer, OLDER] = r
        else:
            counts[NEWEST] = r
        if older >= 0:
            links[older, NEWER] = r
        else:
            counts[OLDEST] = r
    links[last, ITEM] = -1
    return last


@lean
def move_up(counts: Any, where: Any, links: Any, slot: Any) -> None:
    """Close the gap at ``slot``: the items behind it move up by one, in their order."""
    for x in range(slot + 1, counts[HELD]):
        links[x - 1, ITEM] = links[x, ITEM]
        where[links[x, ITEM]] = x - 1
    counts[HELD] -= 1
    links[counts[HELD], ITEM] = -1
