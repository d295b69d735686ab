"""W-TinyLFU: a small LRU window; what leaves it enters the main cache only if a sketch saw it more often.

Every arrival enters the window (1 % of the cache, at least one item). When the window overflows, its least
recent item is the candidate: it enters the main cache if that has room; else the sketch's estimates decide
between it and the main victim, and a tie keeps the victim. Main is a segmented LRU: a touch moves an item
from the probationary to the protected segment (80 % of main), whose overflow falls back; the victim is the
least recent on probation. The sketch counts touches and arrivals: 4 rows of counters that stop at 15,
of which an event raises the lowest only; after 10 K events all are halved. No doorkeeper, no jitter.

Differs from the WTinyLFU of libcachesim 0.3.5, which counts a candidate's evictions, and not the touches in
the window; the tests compare with an independent transcription. Unit sizes.

Source: G. Einziger, R. Friedman, B. Manes, "TinyLFU: a highly efficient cache admission policy", ACM
Transactions on Storage 13 (2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_real
from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.lists import TAG, first_of, move, new_lists
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

WINDOW, PROBATION, PROTECTED = 1, 2, 3
ROWS, TOP = 4, 15
# Numbers, after the limits of the window, main and the protected segment: events so far, events per halving.
EVENTS, PERIOD = 4, 5


def init(context: Context, window: float = 0.01, protected: float = 0.8) -> State:
    """Return (three lists with each item's list as tag, their lengths, numbers, the sketch)."""
    size = min(context.capacity, 2**31)
    numbers = np.zeros(6, np.int64)
    numbers[WINDOW] = max(1, int(size * check_real("window", window, 0, 1)))
    numbers[PROBATION] = size - numbers[WINDOW]
    numbers[PROTECTED] = int(numbers[PROBATION] * check_real("protected", protected, 0, 1))
    numbers[PERIOD] = 10 * size
    width = 1 << max(4, (min(8 * size, 8 * context.n_items) - 1).bit_length())
    sketch = np.zeros((ROWS, width), np.uint8)
    return new_lists(context.n_items, 4, tags=2), np.zeros(4, np.int64), numbers, sketch


@lean
def _cell(row: Any, item: Any, width: Any) -> Any:
    """Return the counter of ``item`` in a row: splitmix64 of (item, row)."""
    x = np.uint64(item) * np.uint64(ROWS) + np.uint64(row + 1)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.int64(x & np.uint64(width - 1))


@lean
def _estimate(sketch: Any, item: Any) -> Any:
    least = np.int64(TOP)
    for row in range(ROWS):
        least = min(least, np.int64(sketch[row, _cell(row, item, sketch.shape[1])]))
    return least


@lean
def _count(sketch: Any, numbers: Any, item: Any) -> None:
    least = _estimate(sketch, item)
    if least < TOP:
        for row in range(ROWS):
            at = _cell(row, item, sketch.shape[1])
            if sketch[row, at] == least:
                sketch[row, at] += 1
    numbers[EVENTS] += 1
    if numbers[EVENTS] >= numbers[PERIOD]:
        numbers[EVENTS] = 0
        for row in range(ROWS):
            for at in range(sketch.shape[1]):
                sketch[row, at] >>= 1


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """A touch is counted; it makes the item recent, and protected if it was on probation."""
    links, length, numbers, sketch = state
    for j in range(n - 1, -1, -1):
        item = got[j]
        _count(sketch, numbers, item)
        if links[item, TAG] == WINDOW:
            move(links, length, item, WINDOW)
        else:
            move(links, length, item, PROTECTED)
            if length[PROTECTED] > numbers[PROTECTED]:
                move(links, length, first_of(links, length, PROTECTED), PROBATION)


@lean
def decide(
    state: Any,
    rng: Any,
    t: Any,
    item: Any,
    quality: Any,
    utility: Any,
    weight: Any,
    size: Any,
    free: Any,
    out: Any,
) -> Any:
    """Admit into the window; what overflows contests the main victim."""
    links, length, numbers, sketch = state
    _count(sketch, numbers, item)
    move(links, length, item, WINDOW)
    if length[WINDOW] <= numbers[WINDOW]:
        return 0
    candidate = first_of(links, length, WINDOW)
    if length[PROBATION] + length[PROTECTED] < numbers[PROBATION]:
        move(links, length, candidate, PROBATION)
        return 0
    loser = candidate
    if numbers[PROBATION] > 0:
        victim = first_of(links, length, PROBATION if length[PROBATION] > 0 else PROTECTED)
        if _estimate(sketch, candidate) > _estimate(sketch, victim):
            loser = victim
            move(links, length, candidate, PROBATION)
    move(links, length, loser, 0)
    out[0] = loser
    return 1


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("tinylfu", init, serve, decide, run)
register_kernel(
    KERNEL,
    "W-TinyLFU",
    admission="always to a window; to main if seen more often than the victim",
    eviction="least recent of the window, or of the probationary segment",
    window=0.01,
    protected=0.8,
)
