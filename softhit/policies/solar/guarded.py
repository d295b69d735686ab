"""SOLAR with a guard: where block marking turns out far cheaper, follow block marking for ever.

SOLAR (S) runs and pays; beside it a virtual cache plays :mod:`softhit.policies.block_marking` (M) on the same
requests. At the first step after which

    cost_S > a cost_M + K (1 + lambda),       a = 3 by default, K at most the number of items,

the guard fires: from the next step on the real cache follows M lazily, that is, at a miss on an item that M
holds after the step the item is loaded, in place of one that M does not hold; nothing else is loaded. The
comparison is exact for every rational lambda and a: costs are long integers in units of 1/(quality_scale x
denominators).

Model and guarantee (claim C6b; serve_then_update, ``stream`` with e_t = q_t, hard hits, weight 1, unit sizes,
free fill, empty start). For every sequence and all coins

    cost <= a cost_M + (2K + 1)(1 + lambda),

so against an oblivious adversary E[cost] is within a factor ``a (2 (1 + lambda/tau) H_K + 1)`` of OPT, up to
a constant. No such bound is proved for SOLAR alone. Where the guard does not fire the schedule is SOLAR's,
step by step: M draws from a child of the run's random stream, and SOLAR from the stream itself.

What M would have paid is known only where the policy sees what was asked for. A *plain* step has weight 1
and either one touched item and no candidate beside it, or nothing retrieved and a candidate that would have
served (its quality may be below 1); a candidate is an arrival that is not held. Any other step that the
policy gets to see (a hit beside a candidate, as soft hits bring; a miss without a candidate that answers; a
weight above 1; a candidate without a query) ends the watch, and an aggregator other than ``best`` never
begins it. If the guard has not fired by then, the run is SOLAR's to its end. If it has, M goes on with
whatever is touched and whatever arrives, as ``block_marking`` does, and nothing is claimed. A hit that is
soft, but not beside a candidate, looks plain: M is then charged as if no other item served. In
update_then_serve or with charged fill the same costs are compared, those of the model above.

Source: an online algorithm that does nearly as well as each of several others is classical (A. Fiat et al.,
"Competitive paging algorithms", J. Algorithms 12, 1991); this rule and its proof are this project's
(proofs/C6.md).
"""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from softhit.check import unknown
from softhit.exact import as_fraction
from softhit.jit import jit, lean
from softhit.policies import block_marking
from softhit.policies.block_marking import request
from softhit.policies.kernel import CompiledPolicy, Kernel, State, replay
from softhit.policies.protocol import Context
from softhit.policies.registry import PolicyInfo, register
from softhit.policies.solar import rule as solar
from softhit.policies.solar.memory import HELD, ITEM, SLOTS
from softhit.policies.solar.rule import decide as solar_decide
from softhit.policies.solar.rule import serve as solar_serve
from softhit.policies.solar.variants import SETTABLE

__all__ = ["GAP", "GUARD", "MARKS", "MODE", "decide", "init", "run", "serve"]

# places in the state: ten arrays of SOLAR, six of block marking, its coins, the guard's own
MARKS, COINS, GUARD, GAP, UNITS, SCRATCH = 10, 16, 17, 18, 19, 20
# the guard's numbers
MODE, ASKING, FULL = range(3)
WATCH, OFF, FOLLOW = range(3)
# rows of the table of units
S_MISS, S_LOAD, M_MISS, M_LOAD = range(4)

_BITS = 30
_MASK = (1 << _BITS) - 1


def _digits(value: int, length: int) -> list[int]:
    """Write an integer in base 2^30, least digit first; the last digit has the sign."""
    return [(value >> (_BITS * j)) & _MASK for j in range(length - 1)] + [value >> (_BITS * (length - 1))]


def _table(context: Context, factor: Fraction, slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the gap ``cost_S - a cost_M - K (1 + lambda)`` at the start, and what changes it, as digits."""
    lam, full = context.switch_cost, context.quality_scale
    one = math.lcm(lam.denominator, full) * factor.denominator  # units per 1.0 of cost
    unit = Fraction(one, full)
    start = -slots * (1 + lam) * one
    values = [start, unit, lam * one, -factor * unit, -factor * lam * one]
    # three digits more than any of them has: no trace has 2^60 steps
    length = max(abs(int(v)).bit_length() for v in values) // _BITS + 4
    table = np.array([_digits(int(v), length) for v in values], np.int64)
    return table[0].copy(), table[1:].copy()


def init(context: Context, a: Any = 3, tau: int | None = None, **parameters: Any) -> State:
    """Return SOLAR's state, block marking's, its random stream, [mode, asking, full], gap, units, scratch.

    Parameters
    ----------
    context : Context
        Unit sizes.
    a : number
        The guard's factor, >= 1, taken exactly; the larger, the later it fires.
    tau : int, optional
        Block marking's; default ``floor(lambda / 2) + 1``.
    parameters
        SOLAR's.
    """
    factor = as_fraction("a", a, low=1)
    slots = min(context.capacity, context.n_items)
    coins = context.rng.spawn(1)[0]
    plain = context.variant.aggregator == "best"
    guard = np.array([WATCH if plain else OFF, 0, context.quality_scale], np.int64)
    gap, units = _table(context, factor, slots)
    virtual = block_marking.init(context, tau)
    state = (*solar.init(context, **parameters), *virtual, coins, guard, gap, units)
    return cast(State, (*state, np.empty(slots + 1, np.int32)))


@lean
def _own(state: Any) -> Any:
    """Return SOLAR's part of the state."""
    first = (state[0], state[1], state[2], state[3], state[4])
    return (*first, state[5], state[6], state[7], state[8], state[9])


@lean
def _add(gap: Any, unit: Any, times: Any) -> None:
    """Add ``times`` units, 0 <= times <= 2^30, to the long integer ``gap``."""
    carry = np.int64(0)
    last = len(gap) - 1
    for j in range(last):
        carry += gap[j] + times * unit[j]
        gap[j] = carry & _MASK
        carry >>= _BITS
    gap[last] += carry + times * unit[last]


@lean
def _positive(gap: Any) -> Any:
    if gap[len(gap) - 1] != 0:
        return gap[len(gap) - 1] > 0
    rest = np.int64(0)
    for j in range(len(gap) - 1):
        rest |= gap[j]
    return rest > 0


@lean
def _feed(state: Any, item: Any) -> Any:
    """Let M play one request; return (was it held, insertions, evictions)."""
    marks = (state[10], state[11], state[12], state[13], state[14], state[15])
    return request(marks, state[COINS], item, state[2][SLOTS], state[SCRATCH])


@lean
def _charge(state: Any, item: Any, worth: Any, paid: Any, loads: Any) -> None:
    """Let M play a plain request of an item of that quality; S paid ``paid`` units and ``loads`` loads."""
    gap, units, full = state[GAP], state[UNITS], state[GUARD][FULL]
    held, _, evicted = _feed(state, item)
    _add(gap, units[S_MISS], paid)
    _add(gap, units[S_LOAD], loads)
    _add(gap, units[M_MISS], full - worth if held else full)
    _add(gap, units[M_LOAD], evicted)


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """Let the guard fire if it has to; then teach SOLAR, or M if it leads, and compare what both paid."""
    guard = state[GUARD]
    if guard[MODE] == WATCH:
        if guard[ASKING] != 0:
            guard[MODE] = OFF  # the last miss had no arrival that could have served it
        elif _positive(state[GAP]):
            guard[MODE] = FOLLOW
    if guard[MODE] == FOLLOW:
        for j in range(n):
            _feed(state, got[j])
        return
    own = _own(state)
    solar_serve(own, rng, t, got, quality, n, utility, weight)
    if guard[MODE] == OFF:
        return
    if weight != 1 or (n == 0) != (utility == 0):
        guard[MODE] = OFF
    elif n == 0:
        guard[ASKING] = 1
    else:
        _charge(state, got[0], np.int64(quality[0]), guard[FULL] - utility, 0)


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
    """SOLAR's decision; once the guard has fired: load what M holds, in place of what it does not."""
    guard = state[GUARD]
    if guard[MODE] == FOLLOW:
        _feed(state, item)
        place, counts, links = state[11], state[2], state[4]
        if place[item] < 0:
            return -1
        if counts[HELD] < counts[SLOTS]:
            links[counts[HELD], ITEM] = item
            counts[HELD] += 1
            return 0
        slot = 0
        while place[links[slot, ITEM]] >= 0:
            slot += 1
        out[0] = links[slot, ITEM]
        links[slot, ITEM] = item
        return 1
    own = _own(state)
    m = solar_decide(own, rng, t, item, quality, utility, weight, size, free, out)
    if guard[MODE] == WATCH:
        if guard[ASKING] == 0 or weight != 1 or quality == 0:
            guard[MODE] = OFF
        else:
            guard[ASKING] = 0
            _charge(state, item, quality, guard[FULL], max(m, 0))
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)


KERNEL = Kernel("solar_guarded", init, serve, decide, run)
_DEFAULTS = {"a": 3, "tau": None} | {
    name: inspect.signature(solar.init).parameters[name].default for name in SETTABLE
}


def _factory(touch: str = "retrieved", admit: str = "arrival", **parameters: Any) -> CompiledPolicy:
    for name in parameters:
        if name not in _DEFAULTS:
            unknown(f"parameter of policy {KERNEL.name!r}", name, [*_DEFAULTS, "touch", "admit"])
    return CompiledPolicy(KERNEL, parameters, touch=touch, admit=admit, defaults=_DEFAULTS)


register(
    PolicyInfo(
        KERNEL.name,
        "SOLAR until block marking is a times cheaper, then block marking",
        _factory,
        admission="regret; after the guard: held by block marking",
        eviction="Thompson; after the guard: not held by block marking",
        deterministic=False,
        parameters={**_DEFAULTS, "touch": "retrieved", "admit": "arrival"},
    )
)
