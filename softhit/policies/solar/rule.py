"""The SOLAR step: ``serve`` teaches the posterior, ``decide`` asks admission first and eviction second.

With sizes an insertion is free while all that was ever inserted fits into the capacity, as free fill has it;
from then on each is paid for whole, also where evictions left room. Victims leave one by one, each the lowest
of fresh draws among those that are left, until the newcomer fits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_choice, check_int, check_real, fail
from softhit.jit import jit, lean
from softhit.policies.kernel import MOST_ROOM, State, replay
from softhit.policies.protocol import Context
from softhit.policies.solar.admission import (
    ADMISSIONS,
    BY_FUND,
    BY_POT,
    EARNED,
    FACTOR,
    FACTOR_ONE,
    FULL,
    GLOBAL_GATE,
    LARGEST,
    MOST_WEIGHT,
    OWN,
    PAID_BY,
    POT,
    REGRET,
    REGRET_GATE,
    SCALE,
    UNDRAWN,
    book_service,
    draw_factor,
    fund,
    gain,
    learn,
    new_purse,
    pay_from_fund,
    pay_from_pot,
    settle,
    threshold,
)
from softhit.policies.solar.eviction import EVICTIONS, victim
from softhit.policies.solar.memory import (
    HELD,
    ITEM,
    TURN,
    ghost,
    move_up,
    new_memory,
    release,
    swap,
    touch,
)
from softhit.policies.solar.posterior import TYPICAL, advance, clear, credit, new_clock
from softhit.retrieval import aggregator_code

__all__ = ["decide", "init", "run", "serve"]

ADMISSION, EVICTION, EVIDENCE, LAST_N, LAST_LOWEST, SIZED, ROOM = range(7)


def init(
    context: Context,
    admission: str = "regret",
    eviction: str = "thompson",
    horizon: float = 1.0,
    prior: float = 0.1,
    xi_low: float = 0.25,
    xi_high: float = 1.25,
    evidence: bool = True,
    memory: int = 8,
    forgetful: bool = True,
) -> State:
    """Return the state: (rule, purse, counts, where, links, ledger, clock, belief, scratch, sizes).

    Parameters
    ----------
    context : Context
    admission : {"regret", "global", "always"}
    eviction : {"thompson", "mean", "fifo"}
    horizon : float
        H of the discount, in multiples of the capacity, counted in items of mean size.
    prior : float
        Successes of the prior Beta(prior, 1), > 0.
    xi_low, xi_high : float
        Range of the random factor; equal: a fixed threshold ``lambda + xi m``.
    evidence : bool
        Whether an admitted item keeps what is known of it; False: it starts from the bare prior.
    memory : int
        Ghosts, in multiples of the same.
    forgetful : bool
        False: the paper's posterior, without discount and without implied failures.
    """
    check_choice("admission", admission, ADMISSIONS)
    check_choice("eviction", eviction, EVICTIONS)
    check_real("horizon", horizon, low=0.01, high=1e6)
    check_real("prior", prior, low=1e-3, high=1e6)
    check_int("memory", memory, low=1)
    for name, value in (("evidence", evidence), ("forgetful", forgetful)):
        if not isinstance(value, bool):
            fail(name, value, "true or false")
    # what is larger than the cache never enters, and says nothing of what is usual
    room = min(context.capacity, MOST_ROOM)
    fit = context.sizes[context.sizes <= room]
    count = len(fit)
    smallest, largest, total = (int(fit.min()), int(fit.max()), int(fit.sum())) if count else (1, 1, 0)
    slots = min(room // smallest, count)
    usual = max(1, min(room * count // total, count)) if count else 0
    records = slots + min(memory * usual, count)
    rule = np.array(
        [
            *(ADMISSIONS.index(admission), EVICTIONS.index(eviction), int(evidence), 0, 0),
            *(int(largest > 1), room),
        ],
        np.int64,
    )
    purse = new_purse(
        context.switch_cost,
        context.utility_scale,
        context.variant.top_k,
        aggregator_code(context.variant),
        context.quality_scale,
        xi_low,
        xi_high,
        largest,
    )
    ledger = np.zeros((records, 4), np.int64)
    ledger[:, FACTOR] = UNDRAWN
    return (
        rule,
        purse,
        *new_memory(context.n_items, slots, records - slots),
        ledger,
        new_clock(horizon * max(usual, 1), prior, forgetful, total / count if count else 1.0),
        np.zeros((records, 2)),
        np.empty((2, slots)),
        context.sizes,
    )


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """Credit the retrieved items, let everything age, and put the step's cost into the pot."""
    rule, purse, _, where, _, ledger, clock, belief, _, sizes = state
    advance(clock, belief, weight / clock[TYPICAL])
    for j in range(n):
        g = quality[j] / purse[SCALE]
        times = weight / sizes[got[j]]
        credit(clock, belief, where[got[j]], g * times, (1.0 - g) * times)
        book_service(purse, ledger, where[got[j]], weight, quality[j])
    rule[LAST_N] = n
    rule[LAST_LOWEST] = quality[n - 1] if n > 0 else 0
    cost = min(weight, purse[MOST_WEIGHT]) * (purse[FULL] - utility)
    purse[POT] = min(purse[POT] + cost, LARGEST)
    if rule[ADMISSION] == GLOBAL_GATE:
        learn(purse, cost, 1)


@lean
def _remember(state: Any, item: Any, at_query: Any) -> Any:
    """Return the item's ghost record; a ghost forgotten to make room leaves its regret to the fund."""
    _, purse, counts, where, links, ledger, clock, belief, _, _ = state
    r = np.int64(where[item])
    if r >= 0:
        touch(counts, links, r)
        return r
    r = np.int64(ghost(counts, where, links, item))
    fund(purse, ledger[r, REGRET])
    ledger[r, REGRET] = 0
    ledger[r, FACTOR] = UNDRAWN
    clear(clock, belief, r, at_query)
    return r


@lean
def _admission(state: Any, rng: Any, item: Any, worth: Any, extra: Any, weight: Any, size: Any) -> Any:
    """Return (the candidate's ghost record or -1, who pays for it or -1)."""
    rule, purse, _, _, _, ledger, clock, belief, _, _ = state
    at_query = weight > 0
    if rule[ADMISSION] == REGRET_GATE:
        if not at_query:
            if pay_from_pot(purse, rng, size):
                return _remember(state, item, False), BY_POT
            return -1, -1
        if extra == 0:
            return -1, -1
        amount = min(weight, purse[MOST_WEIGHT]) * extra
        purse[POT] = max(purse[POT] - amount, 0)
        learn(purse, amount, size)
        r = _remember(state, item, True)
        credit(clock, belief, r, worth * (weight / size), 0.0)
        if ledger[r, FACTOR] == UNDRAWN:
            ledger[r, FACTOR] = draw_factor(purse, rng)
        ledger[r, REGRET] = min(ledger[r, REGRET] + amount, LARGEST)
        short = threshold(purse, ledger[r, FACTOR], size) - ledger[r, REGRET]
        if short <= 0:
            return r, OWN
        return r, BY_FUND if pay_from_fund(purse, short) else -1
    if rule[ADMISSION] == GLOBAL_GATE:
        price = threshold(purse, FACTOR_ONE, 1) + threshold(purse, 0, size - 1)
        if purse[POT] == 0 or purse[POT] < price:
            return -1, -1
        purse[POT] = 0
    r = _remember(state, item, at_query)
    if extra > 0:
        credit(clock, belief, r, worth * (weight / size), 0.0)
    return r, OWN


@lean
def _move(ledger: Any, belief: Any, origin: Any, to: Any) -> None:
    for c in range(belief.shape[1]):
        belief[to, c] = belief[origin, c]
    for c in range(ledger.shape[1]):
        ledger[to, c] = ledger[origin, c]


@lean
def _exchange(state: Any, rng: Any, item: Any, r: Any, paid_by: Any, size: Any, free: Any, out: Any) -> Any:
    """Evict until ``item``, which is ghost r, fits, and hold it; return (its slot, how many left)."""
    rule, purse, counts, where, links, ledger, clock, belief, scratch, sizes = state
    wins = belief[r, 0]
    lack = belief[r, 1]
    last = np.int64(release(counts, where, links, r))
    _move(ledger, belief, last, r)
    ledger[last, REGRET] = 0
    m = 0
    while free < size:
        slot = np.int64(victim(rule[EVICTION], counts, clock, belief, scratch, rng))
        counts[TURN] = 0
        leaver = links[slot, ITEM]
        out[m] = leaver
        m += 1
        free += sizes[leaver]
        g = np.int64(ghost(counts, where, links, leaver))
        fund(purse, ledger[g, REGRET])
        settle(purse, ledger, slot, g, OWN, sizes[leaver])
        for c in range(2):
            belief[g, c] = belief[slot, c]
        for x in range(slot + 1, counts[HELD]):
            _move(ledger, belief, x, x - 1)
        move_up(counts, where, links, slot)
    slot = np.int64(counts[HELD])
    counts[HELD] += 1
    links[slot, ITEM] = item
    where[item] = slot
    belief[slot, 0] = wins
    belief[slot, 1] = lack
    ledger[slot, REGRET] = 0
    ledger[slot, FACTOR] = UNDRAWN
    ledger[slot, PAID_BY] = paid_by
    ledger[slot, EARNED] = 0
    return slot, m


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
    """Fill while there is room; then admit what has paid, in place of the eviction rule's victim."""
    rule, purse, counts, where, links, ledger, clock, belief, scratch, _ = state
    at_query = weight > 0
    worth = quality / purse[FULL]
    extra = np.int64(0)
    if at_query:
        extra = np.int64(gain(purse, quality, utility, rule[LAST_LOWEST], rule[LAST_N]))
    if size <= rule[ROOM]:
        rule[ROOM] -= size
        slot = counts[HELD]
        counts[HELD] += 1
        links[slot, ITEM] = item
        where[item] = slot
        clear(clock, belief, slot, at_query)
        if extra > 0 and rule[EVIDENCE] != 0:
            credit(clock, belief, slot, worth * (weight / size), 0.0)
        return 0
    r, paid_by = _admission(state, rng, item, worth, extra, weight, size)
    if paid_by < 0:
        return -1
    rule[ROOM] = max(rule[ROOM] - size, 0)
    m = 1
    if rule[SIZED] != 0:
        place, m = _exchange(state, rng, item, r, paid_by, size, free, out)
    else:
        place = np.int64(victim(rule[EVICTION], counts, clock, belief, scratch, rng))
        out[0] = swap(where, links, place, r)
        settle(purse, ledger, place, r, paid_by, 1)
        for c in range(2):
            belief[place, c], belief[r, c] = belief[r, c], belief[place, c]
    if rule[EVIDENCE] == 0:
        clear(clock, belief, place, at_query)
    return m


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)
