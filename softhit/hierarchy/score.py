"""The priority of segments for eviction: the context-cache post's score, defined for every segment, exact.

The post scores a segment with a accesses, the last one d turns ago, by

    evict_score = 1 / (w_a * a + w_r / d)

and evicts the highest score first. As written this is undefined for a segment that was accessed in the
current turn (d = 0) or never (d does not exist, and a = 0). Here ``keep`` is the denominator, and

* never accessed: the recency is 0, so keep = w_a * a;
* accessed in this turn (d = 0): keep is infinite, the segment leaves last, among such the one with fewer
  accesses first;
* evict_score = 1 / keep, where 1 / 0 is infinite and 1 / infinity is 0.

Equal scores: what was loaded earlier leaves first, then the smaller id. Where the post's formula is defined
this is its order. With the post's weights (0.6, 0.4) w_r / d is at most 0.4 < 0.6: for segments with d >= 1
recency never outranks an access, so the score is LFU in the cache, with ties broken by LRU.

>>> evict_score(accesses=2, last_turn=3, turn=5, weights=(Fraction(3, 5), Fraction(2, 5)))
Fraction(5, 7)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softhit.hierarchy.state import SegmentJson

__all__ = ["WEIGHTS", "Weights", "evict_score", "eviction_order", "keep_value"]

Weights = tuple[Fraction, Fraction]

WEIGHTS: Weights = (Fraction(3, 5), Fraction(2, 5))
"""The post's weights of accesses and recency."""


def keep_value(
    accesses: int, last_turn: int | None, turn: int, weights: Weights = WEIGHTS
) -> Fraction | float:
    """Return what a segment is worth: w_a * accesses + w_r / (turn - last_turn), exact, or infinity."""
    if last_turn is not None and last_turn >= turn:
        return math.inf
    recency = Fraction(0) if last_turn is None else Fraction(1, turn - last_turn)
    return weights[0] * accesses + weights[1] * recency


def evict_score(
    accesses: int, last_turn: int | None, turn: int, weights: Weights = WEIGHTS
) -> Fraction | float:
    """Return 1 / keep, exact; ``math.inf`` where keep is 0, and 0 where it is infinite.

    >>> evict_score(0, None, 7), evict_score(3, 7, 7)
    (inf, Fraction(0, 1))
    """
    keep = keep_value(accesses, last_turn, turn, weights)
    if keep == math.inf:
        return Fraction(0)
    return math.inf if keep == 0 else 1 / Fraction(keep)


def eviction_order(
    segments: Iterable[SegmentJson], turn: int, weights: Weights = WEIGHTS
) -> list[SegmentJson]:
    """Return the segments in the order in which they are to leave: highest score first, ties as above."""
    rows = list(segments)
    # One common denominator makes every keep an integer: exact, and far faster to sort than fractions.
    ages = {turn - s["last_turn"] for s in rows if s["last_turn"] is not None and s["last_turn"] < turn}
    scale = math.lcm(*ages) * math.lcm(weights[0].denominator, weights[1].denominator)
    per_access, per_recency = int(weights[0] * scale), int(weights[1] * scale)

    def key(s: SegmentJson) -> tuple[bool, int, int, str]:
        last = s["last_turn"]
        if last is not None and last >= turn:
            return True, s["accesses"], s["loaded_turn"], s["id"]
        recency = 0 if last is None else per_recency // (turn - last)
        return False, per_access * s["accesses"] + recency, s["loaded_turn"], s["id"]

    return sorted(rows, key=key)
