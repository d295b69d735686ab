"""Priority-weighted LRU: evict the least ``w_a * touches + w_r / steps since the last touch``; always admit.

The context-cache post evicts the segment with the highest ``1 / (w_a * access_count + w_r * recency)``,
``recency`` the inverse of the turns since the last access, which divides by zero for a segment that was used
this turn, and for one that was never used. Here its order is total, by what an item is worth keeping:

    keep(i) = w_a c_i + w_r / d_i

c_i is how many steps touched i since it entered, d_i how many steps ago the last of them was. Never touched:
recency 0, as if d had no end. Touched this step (d = 0): kept before all that were not, ties by c. Of equal
keep the one admitted first leaves first, then the smaller id. Where the post's score is defined the order is
the post's.

An admission is no access: a segment is loaded with an access count of 0, and counts from there. With
``load_is_access=true`` it is one, c_i = 1 and d_i from the step of entry, as caches usually have it.

Where 0 < w_r <= w_a, as by default (0.6 and 0.4), recency never outranks a touch: w_r / d is positive and at
most w_r. The order is then that of (touches, last touch), LFU with ties by recency, but for what was touched
this very step (claim G7). With w_a = 0 it is LRU, but for items never touched, which leave first.

The comparison is exact. With w_a : w_r = A : R in whole numbers, keep is ``A c + R // d``, and a fraction
``(R mod d) / d`` below 1, compared crosswise only between equal whole parts. A trace has less than 2^31
steps and A, R are at most 2^31, so ``A c + R // d < 2^62 + 2^31``, and a product of two of the other numbers
is less than 2^62: all fit into 64 bits.

Source: the context-cache post (evict_score); the total order, ties and exactness are this project's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softhit.check import fail
from softhit.exact import as_fraction
from softhit.jit import jit, lean
from softhit.policies.kernel import Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import register_kernel

A, R, HELD, LOADED = range(4)
COUNT, LAST, SINCE = range(3)
NEVER = -1
_LARGEST = 2**31


def init(context: Context, w_a: Any = "0.6", w_r: Any = "0.4", load_is_access: bool = False) -> State:
    """Return ([A, R, number held, load_is_access], held items, (count, last touch, entry) of each, sizes).

    Parameters
    ----------
    context : Context
    w_a, w_r : number or str
        Weights of touches and of recency, >= 0 and not both 0, taken exactly; only their ratio matters.
    load_is_access : bool
        Whether to enter counts as a touch.

    Raises
    ------
    InvalidInput
        Also if the ratio of the weights needs whole numbers beyond 2^31.
    """
    touches, recency = as_fraction("w_a", w_a, low=0), as_fraction("w_r", w_r, low=0)
    if touches == recency == 0:
        fail("w_a", w_a, "above 0 if w_r is 0: without a weight no item is worth more than another")
    if not isinstance(load_is_access, bool):
        fail("load_is_access", load_is_access, "true or false")
    whole = math.lcm(touches.denominator, recency.denominator)
    a, r = int(touches * whole), int(recency * whole)
    a, r = a // math.gcd(a, r), r // math.gcd(a, r)
    if max(a, r) > _LARGEST:
        fail("w_a", w_a, f"such that w_a : w_r = {touches} : {recency} in whole numbers stays within 2^31")
    items = np.zeros((context.n_items, 3), np.int64)
    held = np.empty(min(context.capacity, context.n_items), np.int32)
    return np.array([a, r, 0, int(load_is_access)], np.int64), held, items, context.sizes


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """Count the touches of this step."""
    items = state[2]
    for j in range(n):
        items[got[j], COUNT] += 1
        items[got[j], LAST] = t


@lean
def _leaves_before(numbers: Any, items: Any, t: Any, i: Any, j: Any) -> Any:
    """Return whether i leaves before j."""
    c = items[i, COUNT]
    e = items[j, COUNT]
    now = items[i, LAST] == t
    if now != (items[j, LAST] == t):
        return not now
    if not now:
        # R / d, or 0 / 1 where there was no touch
        p = numbers[R] if items[i, LAST] != NEVER else 0
        q = numbers[R] if items[j, LAST] != NEVER else 0
        d = t - items[i, LAST]
        f = t - items[j, LAST]
        one = numbers[A] * c + p // d
        two = numbers[A] * e + q // f
        if one != two:
            return one < two
        one = (p % d) * f
        two = (q % f) * d
        if one != two:
            return one < two
    elif c != e:
        return c < e
    if items[i, SINCE] != items[j, SINCE]:
        return items[i, SINCE] < items[j, SINCE]
    return i < j


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
    """Admit; evict what is least worth keeping until the item fits: O(K) for each that leaves."""
    numbers, held, items, sizes = state
    m = 0
    while free < size:
        first = 0
        for x in range(1, numbers[HELD]):
            if _leaves_before(numbers, items, t, held[x], held[first]):
                first = x
        victim = held[first]
        numbers[HELD] -= 1
        held[first] = held[numbers[HELD]]
        free += sizes[victim]
        out[m] = victim
        m += 1
    held[numbers[HELD]] = item
    numbers[HELD] += 1
    items[item, COUNT] = numbers[LOADED]
    items[item, LAST] = t if numbers[LOADED] != 0 else NEVER
    items[item, SINCE] = t
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("priority_lru", init, serve, decide, run, sizes=True)
register_kernel(
    KERNEL,
    "priority-weighted LRU, the context-cache post's evict_score",
    admission="always",
    eviction="least w_a * touches in cache + w_r / steps since the last touch",
    w_a="0.6",
    w_r="0.4",
    load_is_access=False,
)
