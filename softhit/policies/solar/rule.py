"""The SOLAR step: ``serve`` teaches the posterior, ``decide`` asks admission first and eviction second."""

from __future__ import annotations

from typing import Any

import numpy as np

from softhit.check import check_choice, check_int, check_real, fail
from softhit.jit import jit, lean
from softhit.policies.kernel import State, replay
from softhit.policies.protocol import Context
from softhit.policies.solar.admission import (
    ADMISSIONS,
    BY_FUND,
    BY_POT,
    FACTOR,
    FACTOR_ONE,
    FULL,
    GLOBAL_GATE,
    LARGEST,
    MOST_WEIGHT,
    OWN,
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
from softhit.policies.solar.memory import HELD, ITEM, SLOTS, ghost, new_memory, swap, touch
from softhit.policies.solar.posterior import advance, clear, credit, new_clock
from softhit.retrieval import aggregator_code

__all__ = ["decide", "init", "run", "serve"]

ADMISSION, EVICTION, EVIDENCE, LAST_N, LAST_LOWEST = range(5)


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
    """Return the state: (rule, purse, counts, where, links, ledger, clock, belief, scratch).

    Parameters
    ----------
    context : Context
        Unit sizes.
    admission : {"regret", "global", "always"}
    eviction : {"thompson", "mean", "fifo"}
    horizon : float
        H of the discount, in multiples of the capacity.
    prior : float
        Successes of the prior Beta(prior, 1), > 0.
    xi_low, xi_high : float
        Range of the random factor; equal: a fixed threshold ``lambda + xi m``.
    evidence : bool
        Whether an admitted item keeps what is known of it; False: it starts from the bare prior.
    memory : int
        Ghosts, in multiples of the capacity.
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
    slots = min(context.capacity, context.n_items)
    records = slots + min(memory * slots, context.n_items)
    rule = np.array([ADMISSIONS.index(admission), EVICTIONS.index(eviction), int(evidence), 0, 0], np.int64)
    purse = new_purse(
        context.switch_cost,
        context.utility_scale,
        context.variant.top_k,
        aggregator_code(context.variant),
        context.quality_scale,
        xi_low,
        xi_high,
    )
    ledger = np.zeros((records, 4), np.int64)
    ledger[:, FACTOR] = UNDRAWN
    return (
        rule,
        purse,
        *new_memory(context.n_items, slots, records - slots),
        ledger,
        new_clock(horizon * max(slots, 1), prior, forgetful),
        np.zeros((records, 2)),
        np.empty((2, slots)),
    )


@lean
def serve(state: Any, rng: Any, t: Any, got: Any, quality: Any, n: Any, utility: Any, weight: Any) -> None:
    """Credit the retrieved items, let everything age, and put the step's cost into the pot."""
    rule, purse, _, where, _, ledger, clock, belief, _ = state
    advance(clock, belief, weight)
    for j in range(n):
        g = quality[j] / purse[SCALE]
        credit(clock, belief, where[got[j]], g * weight, (1.0 - g) * weight)
        book_service(purse, ledger, where[got[j]], weight, quality[j])
    rule[LAST_N] = n
    rule[LAST_LOWEST] = quality[n - 1] if n > 0 else 0
    cost = min(weight, purse[MOST_WEIGHT]) * (purse[FULL] - utility)
    purse[POT] = min(purse[POT] + cost, LARGEST)
    if rule[ADMISSION] == GLOBAL_GATE:
        learn(purse, cost)


@lean
def _remember(state: Any, item: Any, at_query: Any) -> Any:
    """Return the item's ghost record; a ghost forgotten to make room leaves its regret to the fund."""
    _, purse, counts, where, links, ledger, clock, belief, _ = state
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
def _admission(state: Any, rng: Any, item: Any, worth: Any, extra: Any, weight: Any) -> Any:
    """Return (the candidate's ghost record or -1, who pays for it or -1)."""
    rule, purse, _, _, _, ledger, clock, belief, _ = state
    at_query = weight > 0
    if rule[ADMISSION] == REGRET_GATE:
        if not at_query:
            if pay_from_pot(purse, rng):
                return _remember(state, item, False), BY_POT
            return -1, -1
        if extra == 0:
            return -1, -1
        amount = min(weight, purse[MOST_WEIGHT]) * extra
        purse[POT] = max(purse[POT] - amount, 0)
        learn(purse, amount)
        r = _remember(state, item, True)
        credit(clock, belief, r, worth * weight, 0.0)
        if ledger[r, FACTOR] == UNDRAWN:
            ledger[r, FACTOR] = draw_factor(purse, rng)
        ledger[r, REGRET] = min(ledger[r, REGRET] + amount, LARGEST)
        short = threshold(purse, ledger[r, FACTOR]) - ledger[r, REGRET]
        if short <= 0:
            return r, OWN
        return r, BY_FUND if pay_from_fund(purse, short) else -1
    if rule[ADMISSION] == GLOBAL_GATE:
        if purse[POT] == 0 or purse[POT] < threshold(purse, FACTOR_ONE):
            return -1, -1
        purse[POT] = 0
    r = _remember(state, item, at_query)
    if extra > 0:
        credit(clock, belief, r, worth * weight, 0.0)
    return r, OWN


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
    rule, purse, counts, where, links, ledger, clock, belief, scratch = state
    at_query = weight > 0
    worth = quality / purse[FULL]
    extra = np.int64(0)
    if at_query:
        extra = np.int64(gain(purse, quality, utility, rule[LAST_LOWEST], rule[LAST_N]))
    if counts[HELD] < counts[SLOTS]:
        slot = counts[HELD]
        counts[HELD] += 1
        links[slot, ITEM] = item
        where[item] = slot
        clear(clock, belief, slot, at_query)
        if extra > 0 and rule[EVIDENCE] != 0:
            credit(clock, belief, slot, worth * weight, 0.0)
        return 0
    r, paid_by = _admission(state, rng, item, worth, extra, weight)
    if paid_by < 0:
        return -1
    slot = victim(rule[EVICTION], counts, clock, belief, scratch, rng)
    out[0] = swap(where, links, slot, r)
    settle(purse, ledger, slot, r, paid_by)
    for c in range(2):
        belief[slot, c], belief[r, c] = belief[r, c], belief[slot, c]
    if rule[EVIDENCE] == 0:
        clear(clock, belief, slot, at_query)
    return 1


@jit
def run(state: Any, rng: Any, stream: Any, config: Any, log: Any) -> Any:
    """Run a whole trace."""
    return replay(serve, decide, state, rng, stream, config, log)
