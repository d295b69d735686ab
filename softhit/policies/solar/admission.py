"""When to modify the cache: counters of regret, random thresholds, and what pays for a replacement.

``regret`` (SOLAR). Each remembered item has a counter. A query that the arrival e would have served better
than the cache did adds ``w_t (u_t(C + e) - u_t(C))`` to e's counter, and e is admitted when the counter
reaches ``theta = lambda + xi m``: m is an average of such amounts, and xi ~ U(xi_low, xi_high) is drawn
afresh each time the counter starts from zero. Two more purses make the rule work where no item is asked for
twice:

* the *fund* receives the counters of ghosts that are forgotten, and makes up what a candidate's own counter
  lacks (experiences with ever new ids, many items of one meaning);
* the *pot* receives the cost that no counter got, and pays for arrivals that come without a query, for which
  no counterfactual exists.

An item that fund or pot paid for is on probation: if it leaves before it has served for lambda, its purse's
price doubles (the purse must hold price times the amount), otherwise the price falls to a quarter. On a
stream of junk the price soon stops admissions.

``global`` (the paper). One counter of miss cost since the last admission, ``theta = lambda + m``, m the
average miss cost. ``always``: no gate.

Claim A1 holds for both gates: the cost c_t of a step is split between the arrival's counter and the pot (the
fund only inherits), and a replacement spends at least theta >= lambda of what was put there.

With sizes a replacement of item i costs lambda size_i, and its price is ``theta_i = size_i (lambda + xi m)``,
m the average of what a counter was given *per unit of the item's size* (``global``: ``lambda size_i + m``, m
the average miss cost as in the paper). Probation asks for service of lambda size_i. Claim A1 holds with the
inserted size beyond the capacity for the number of replacements. Size 1 is the rule above.

All amounts are integers, in units of 1/``utility_scale``. With xi on a grid of 2^-16, m on a grid of 2^-12
units and ``D = 2^28``,

    theta rounded up to units  =  floor(lambda) + ceil((ceil(D frac(lambda)) + xi m) / D)

exactly, for every rational lambda (floor and frac in units); a counter is a whole number of units, so
comparing it with theta or with theta rounded up is the same. For size s it is ``s floor(lambda) + ceil(s
(...) / D)``, which lies between theta_i and that for a lambda larger by 2^-28 units, each rounded up.

No number leaves 64 bits: sizes are at most 2^32, ``s lambda`` is at most 2^59, and so is ``s xi m``, since
what enters m is clipped at 2^29 and at 2^55 / s. So theta is at most 2^60 + 2^5; a counter stops at 2^61.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_real, fail
from softhit.jit import lean

__all__ = [
    "ADMISSIONS",
    "book_service",
    "draw_factor",
    "fund",
    "gain",
    "learn",
    "new_purse",
    "pay_from_fund",
    "pay_from_pot",
    "settle",
    "threshold",
]

ADMISSIONS = ("regret", "global", "always")
REGRET_GATE, GLOBAL_GATE, ALWAYS = range(3)

# the purse: numbers of the gate
FLOOR, PART, MEAN, FUND, POT, FUND_PRICE, POT_PRICE, POT_FACTOR = range(8)
LOW, WIDTH, FULL, TOP_K, AGGREGATOR, SCALE, MOST_WEIGHT, MOST_SIZE, MOST_AMOUNT = range(8, 17)
# the ledger: one row per record
REGRET, FACTOR, PAID_BY, EARNED = range(4)
UNDRAWN = -1
OWN, BY_FUND, BY_POT = range(3)

FACTOR_BITS, MEAN_BITS, EMA_BITS = 16, 12, 5
FACTOR_ONE = 1 << FACTOR_BITS
LARGEST = 1 << 61
HIGHEST_PRICE = 1 << 10
_LARGEST_LAMBDA = 1 << 59
_LARGEST_AMOUNT = 1 << 29  # clips what enters the average, so that xi * m stays below 2^61
_LARGEST_SIZED = 1 << 55  # the same, times the largest size
_LARGEST_SIZE = 1 << 32
_DENOMINATOR = 1 << (FACTOR_BITS + MEAN_BITS)


def new_purse(
    switch_cost: Fraction,
    full: int,
    top_k: int,
    aggregator: int,
    scale: int,
    low: float,
    high: float,
    most_size: int = 1,
) -> NDArray[np.int64]:
    """Return the numbers of the gate for ``full`` units per 1.0 of utility and xi ~ U(low, high).

    ``most_size`` is the largest size that can enter.

    Raises
    ------
    InvalidInput
        lambda times the largest size is beyond 2^59 units (64-bit counters could not reach it), that size is
        beyond 2^32, or not 0 <= low <= high <= 16.
    """
    if most_size > _LARGEST_SIZE:
        fail("sizes", most_size, f"at most {_LARGEST_SIZE} for SOLAR (64-bit counters)")
    largest = Fraction(_LARGEST_LAMBDA, full * most_size)
    if switch_cost > largest:
        fail("switch_cost", str(switch_cost), f"at most {float(largest):.3g} for SOLAR (64-bit counters)")
    check_real("xi_low", low, low=0, high=16)
    check_real("xi_high", high, low=low, high=16)
    whole = math.floor(switch_cost * full)
    part = math.ceil((switch_cost * full - whole) * _DENOMINATOR)
    amount = min(_LARGEST_AMOUNT, _LARGEST_SIZED // most_size)
    mean = min(full, amount) << MEAN_BITS
    start = round(low * FACTOR_ONE)
    width = round(high * FACTOR_ONE) - start
    return np.array(
        [
            *(whole, part, mean, 0, 0, 1, 1, UNDRAWN),
            *(start, width, full, top_k, aggregator, scale, LARGEST // full, most_size, amount),
        ],
        np.int64,
    )


@lean
def draw_factor(purse: Any, rng: Any) -> Any:
    """Draw xi, an integer in units of 2^-16."""
    if purse[WIDTH] == 0:
        return purse[LOW]
    return purse[LOW] + np.int64(rng.random() * purse[WIDTH])


@lean
def threshold(purse: Any, factor: Any, size: Any) -> Any:
    """Return theta = size (lambda + factor * m) in units, rounded up."""
    extra = purse[PART] + factor * purse[MEAN]
    whole = extra >> (FACTOR_BITS + MEAN_BITS)
    rest = size * (extra & (_DENOMINATOR - 1))
    return size * (purse[FLOOR] + whole) + ((rest + _DENOMINATOR - 1) >> (FACTOR_BITS + MEAN_BITS))


@lean
def learn(purse: Any, amount: Any, size: Any) -> None:
    """Move the average m by 1/32 towards ``amount`` units per unit of size."""
    target = purse[MOST_AMOUNT] << MEAN_BITS
    if amount // size < purse[MOST_AMOUNT]:
        target = ((amount // size) << MEAN_BITS) + ((amount % size) << MEAN_BITS) // size
    purse[MEAN] += (target - purse[MEAN]) >> EMA_BITS


@lean
def _most(purse: Any, price: Any) -> Any:
    """Return what fund or pot may hold: two of the largest thresholds at its price."""
    most = 2 * threshold(purse, purse[LOW] + purse[WIDTH], purse[MOST_SIZE])
    return most * price if most < LARGEST // HIGHEST_PRICE else LARGEST


@lean
def fund(purse: Any, amount: Any) -> None:
    """Give the fund the counter of a forgotten ghost."""
    if amount > 0:
        purse[FUND] = min(purse[FUND] + amount, _most(purse, purse[FUND_PRICE]))


@lean
def pay_from_fund(purse: Any, short: Any) -> Any:
    """Pay what a candidate's counter lacks; return whether the fund could."""
    if short > purse[FUND] // purse[FUND_PRICE]:
        return False
    purse[FUND] -= short * purse[FUND_PRICE]
    return True


@lean
def pay_from_pot(purse: Any, rng: Any, size: Any) -> Any:
    """Pay for an arrival without a query, which empties the pot; return whether the pot could."""
    purse[POT] = min(purse[POT], _most(purse, purse[POT_PRICE]))
    if purse[POT_FACTOR] == UNDRAWN:
        purse[POT_FACTOR] = draw_factor(purse, rng)
    if purse[POT] == 0 or purse[POT] // purse[POT_PRICE] < threshold(purse, purse[POT_FACTOR], size):
        return False
    purse[POT] = 0
    purse[POT_FACTOR] = UNDRAWN
    return True


@lean
def book_service(purse: Any, ledger: Any, r: Any, weight: Any, quality: Any) -> None:
    """Note that a held item served a query, if it is on probation."""
    if ledger[r, PAID_BY] == OWN:
        return
    amount = min(weight, purse[MOST_WEIGHT]) * quality * (purse[FULL] // purse[SCALE])
    ledger[r, EARNED] = min(ledger[r, EARNED] + amount, LARGEST)


@lean
def settle(purse: Any, ledger: Any, slot: Any, r: Any, paid_by: Any, size: Any) -> None:
    """Close the account of the item of that size that goes from ``slot`` to ghost r; open the newcomer's."""
    if ledger[slot, PAID_BY] != OWN:
        place = FUND_PRICE if ledger[slot, PAID_BY] == BY_FUND else POT_PRICE
        if ledger[slot, EARNED] >= max(size * purse[FLOOR], 1):
            purse[place] = max(purse[place] // 4, 1)
        else:
            purse[place] = min(purse[place] * 2, HIGHEST_PRICE)
    ledger[slot, PAID_BY] = paid_by
    ledger[slot, EARNED] = 0
    ledger[r, REGRET] = 0
    ledger[r, FACTOR] = UNDRAWN


@lean
def gain(purse: Any, quality: Any, utility: Any, lowest: Any, n: Any) -> Any:
    """Return what holding the arrival would have added to the utility of the query just served, in units.

    ``quality`` is the arrival's, in units of utility; ``lowest`` that of the last of the n retrieved items,
    in units of quality. Exact for ``best``. For ``mean_topk`` and ``coverage`` the arrival is taken to join
    the retrieved items, in place of the last one if there are k. Never more than 1 - utility.
    """
    if purse[AGGREGATOR] == 0:
        return max(quality - utility, 0)
    scale = purse[SCALE]
    own = quality // (purse[FULL] // scale)
    if n < purse[TOP_K]:
        lowest = 0
    if own <= lowest:
        return 0
    if purse[AGGREGATOR] == 1:
        return min(own - lowest, purse[FULL] - utility)  # fewer than k may be known: touch="threshold(x)"
    return (purse[FULL] - utility) * (own - lowest) // (scale - lowest)
