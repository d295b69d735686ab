"""G7: priority-weighted LRU is not competitive: what was used twice is never let go; it beats LRU on a loop.

Statement
---------
serve_then_update, ``stream`` with e_t = q_t, free fill, best, hard hits, unit sizes, empty start. The policy
is ``priority_lru``: admit always, evict the least ``w_a c + w_r / d``, c the touches since the load, d the
steps since the last of them (never touched: recency 0), ties by the earlier load; w_a, w_r >= 0, not both 0.

1. *Frequency pollution.* K >= 2, lambda >= 0, r >= 2, n >= 0: ask r rounds for items 0..K-1 in turn, then n
   times for two fresh items in turn. The policy pays exactly ``K + (1 + lambda) n``, whatever its weights;
   LRU and FIFO pay at most ``K + 2 + 2 lambda``, and so does OPT. So no c and b with cost <= c OPT + b exist.
   More generally, for p <= K popular items and f > g = max(1, K - p) fresh ones it pays
   ``p + n + lambda max(0, p + n - K)``.
2. *The other reading.* Where the load counts as a touch, it pays the same if ``w_a (r - 1) g >= w_r``.
3. *What the weights do.* If 0 < w_r <= w_a (the context-cache post: 0.6 and 0.4) then, for what was not
   touched at this very step, the order is that of (c, last touch): recency breaks ties and does nothing else.
   On hard hits the policy is then LFU in the cache, ties by recency, under both readings.
4. *Where it beats LRU.* K >= 2, m >= 1: ask for 0..K-2 in turn, twice, then m rounds for 0..K. The policy
   pays exactly ``K - 1 + 2m + lambda (2m - 1)``, whatever its weights; LRU pays
   ``(K+1) m + lambda (1 + (m-1)(K+1))``. The quotient LRU / policy tends to (K+1)/2. OPT is at most K + m.

So the policy is within no factor of LRU. LRU is within (K+1)(1+lambda) of OPT (claim B2), and so of the
policy, but within no factor that does not grow with K.

Proof
-----
In ``proofs/G7.md``: whatever was touched is worth more than 0, what was never touched is worth 0.

Examples
--------
>>> from softhit import cost, simulate
>>> trace = pollution(2, 2, 100)
>>> [int(cost(simulate(name, trace, 2, 1), trace, 2, 1).fraction) for name in ("priority_lru", "lru")]
[202, 6]

References
----------
The score is the context-cache post's; the families, figures and the total order are ours. That LFU keeps
stale items for ever is folklore.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from adversaries.families import make_trace
from softhit import Trace, from_requests, simulate
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import optimum as best_cost
from theory.measure import paid

__all__ = [
    "CLAIM",
    "beats_lru",
    "forgetting",
    "lexicographic",
    "load_is_access",
    "loop",
    "pollution",
    "stuck",
]

_LAMBDAS = [Fraction(x) for x in ("0", "1/3", "1", "5/2")]
_WEIGHTS = [
    (Fraction(a), Fraction(b))
    for a, b in (("0.6", "0.4"), ("1", "0"), ("0", "1"), ("1", "1"), ("1", "3"), ("1/7", "40"), ("40", "1/7"))
]


def pollution(k: int, repeats: int, later: int, popular: int | None = None, fresh: int = 2) -> Trace:
    """Return r rounds over the popular items (default: K of them), then ``later`` steps over the fresh."""
    p = k if popular is None else popular
    return make_trace("frequency_pollution", k, p * repeats + later, popular=p, repeats=repeats, fresh=fresh)


def loop(k: int, rounds: int) -> Trace:
    """Return 0..K-2 twice, then rounds over 0..K."""
    return from_requests(np.r_[np.tile(np.arange(k - 1), 2), np.tile(np.arange(k + 1), rounds)])


def _spec(policy: str, weights: tuple[Fraction, Fraction], load: bool = False) -> str:
    if policy != "priority_lru":
        return policy
    return f"priority_lru(w_a={weights[0]}, w_r={weights[1]}, load_is_access={str(load).lower()})"


def _grid(least_repeats: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield K, popular, fresh, repeats, later."""
    for k in (2, 3, 7):
        for popular in {1, 2, k - 1, k}:
            room = max(1, k - popular)
            for fresh in {room + 1, room + 3}:
                for repeats in (least_repeats, 2, 5):
                    for later in (0, 1, 2, 3, 60):
                        yield k, popular, fresh, repeats, later


def stuck(policy: str = "priority_lru", least_repeats: int = 2) -> None:
    """After two repeats it pays p + n + lambda max(0, p + n - K) on frequency pollution, for all weights."""
    for k, popular, fresh, repeats, later in _grid(least_repeats):
        trace = pollution(k, repeats, later, popular, fresh)
        for number, weights in enumerate(_WEIGHTS):
            lam = _LAMBDAS[(number + later) % len(_LAMBDAS)]
            price = popular + later + lam * max(0, popular + later - k)
            where = f"K={k}, p={popular}, f={fresh}, r={repeats}, n={later}, weights {weights}, lambda={lam}"
            equal(paid(_spec(policy, weights), trace, k, lam), Fraction(price), where)


def load_is_access(share: int = 1) -> None:
    """Where a load is a touch it pays the same if w_a (r-1) g >= w_r; ``share`` times as much is tried."""
    tried = 0
    for k, popular, fresh, repeats, later in _grid(2):
        room = max(1, k - popular)
        for number, weights in enumerate(_WEIGHTS):
            if weights[0] * (repeats - 1) * room * share < weights[1]:
                continue
            lam = _LAMBDAS[(number + later) % len(_LAMBDAS)]
            price = popular + later + lam * max(0, popular + later - k)
            where = f"K={k}, p={popular}, f={fresh}, r={repeats}, n={later}, weights {weights}, lambda={lam}"
            trace = pollution(k, repeats, later, popular, fresh)
            equal(paid(_spec("priority_lru", weights, True), trace, k, lam), Fraction(price), where)
            tried += 1
    hold(tried > 500, f"only {tried} cases meet the condition")


def forgetting(fresh: int = 2) -> None:
    """LRU, FIFO and OPT pay at most K + 2 + 2 lambda there, so the ratio passes any factor and constant."""
    for k in (2, 3, 7):
        for lam in _LAMBDAS:
            bound = k + fresh * (1 + lam)
            for later in (2, 3, 60, 400):
                trace = pollution(k, 2, later)
                where = f"K={k}, lambda={lam}, n={later}"
                best = best_cost(trace, k, lam)
                hold(best <= bound, f"OPT, {where}: {best}, at most {bound}")
                for name in ("lru", "fifo"):
                    spent = paid(name, trace, k, lam)
                    hold(best <= spent <= bound, f"{name}, {where}: {spent}, between {best} and {bound}")
            ours = paid("priority_lru", pollution(k, 2, 400), k, lam)
            hold(ours > 20 * bound, f"K={k}, lambda={lam}: {ours}, over 20 times {bound}")


def _keep(weights: tuple[Fraction, Fraction], count: int, age: int | None) -> Fraction:
    """The definition for what was not touched at this step; age None: never touched."""
    return weights[0] * count + (weights[1] / age if age else 0)


def lexicographic(most: Fraction = Fraction(1)) -> None:
    """If 0 < w_r <= w_a, the order of keep is that of (c, last touch); on hard hits the policy is LFU."""
    ratios = [Fraction(x) for x in ("1/1000", "1/2", "2/3", "999/1000", "1")]
    facts = [(0, None), *((c, d) for c in range(1, 6) for d in (1, 2, 3, 10, 10**6))]
    for ratio in [*ratios, most]:
        weights = (Fraction(3, 5), Fraction(3, 5) * ratio)
        for c, d in facts:
            for e, f in facts:
                less = (c, -(d or 0)) < (e, -(f or 0))
                got = _keep(weights, c, d) < _keep(weights, e, f)
                hold(
                    got == less, f"w_r / w_a = {ratio}, touches {c}, {e}, ages {d}, {f}: keep is less: {got}"
                )
    rng = np.random.default_rng(7)
    for k in (1, 2, 5, 16):
        trace = from_requests(rng.zipf(1.2, 1500) % (4 * k))
        lfu = simulate("lfu", trace, k)
        hold(len(lfu.leave_items) > 100, f"K={k}: {len(lfu.leave_items)} evictions only")
        for ratio in [*ratios, most]:
            for load in (False, True):
                ours = simulate(_spec("priority_lru", (Fraction(1), ratio), load), trace, k)
                hold(ours == lfu, f"K={k}, w_r / w_a = {ratio}, load is access: {load}: not LFU's schedule")


def beats_lru(lru: str = "lru", misses: int = 2) -> None:
    """On the loop it pays K-1+2m + lambda (2m-1), LRU (K+1)m + lambda (1+(m-1)(K+1)); OPT at most K + m."""
    for k in (2, 3, 4, 9):
        for lam in _LAMBDAS:
            for m in (1, 2, 40):
                trace = loop(k, m)
                where = f"K={k}, lambda={lam}, m={m}"
                price = k - 1 + misses * m + lam * (misses * m - 1)
                for weights in _WEIGHTS:
                    spent = paid(_spec("priority_lru", weights), trace, k, lam)
                    equal(spent, Fraction(price), f"priority_lru, weights {weights}, {where}")
                other = (k + 1) * m + lam * (1 + (m - 1) * (k + 1))
                equal(paid(lru, trace, k, lam), Fraction(other), f"LRU, {where}")
                best = best_cost(trace, k, lam)
                hold(best <= k + m, f"OPT, {where}: {best}, at most {k + m}")


CLAIM = Claim(
    id="G7",
    title="priority-weighted LRU is not competitive",
    statement="Priority-weighted LRU pays K + (1+lambda) n where LRU and OPT pay at most K + 2 + 2 lambda,"
    " whatever its weights; on a loop over K+1 items, K-1 of them used before, about 2/(K+1) of LRU. With"
    " 0 < w_r <= w_a, as in the post, it is LFU.",
    variant="serve_then_update, stream, e_t = q_t, free fill, hard hits, unit sizes, empty start",
    source="the score: the context-cache post; families and exact figures ours",
    status="proved",
    scope="all K >= 2, lambda >= 0, weights >= 0 not both 0, repeats >= 2; where a load counts as an access:"
    " w_a (r-1) max(1, K-p) >= w_r",
    breaks="one repeat: it is FIFO there; w_r > w_a (r-1): recency lets go, if a load counts as an access",
    checks=(
        Check("stuck", stuck),
        Check("load_is_access", load_is_access),
        Check("forgetting", forgetting),
        Check("lexicographic", lexicographic),
        Check("beats_lru", beats_lru),
    ),
    mutants=(
        Mutant("one_repeat", "stuck", {"least_repeats": 1}, "nothing was touched: it forgets"),
        Mutant("lru_instead", "stuck", {"policy": "lru"}, "LRU forgets"),
        Mutant("more_recency", "load_is_access", {"share": 100}, "recency outweighs the past"),
        Mutant("one_fresh", "forgetting", {"fresh": 1}, "both fresh items have to be loaded"),
        Mutant("recency_worth_two", "lexicographic", {"most": Fraction(2)}, "recency outranks a touch"),
        Mutant("lfu_for_lru", "beats_lru", {"lru": "lfu"}, "LFU keeps the hot items too"),
        Mutant("one_miss_a_round", "beats_lru", {"misses": 1}, "two cold items share one slot"),
    ),
    proofs=("G7.md",),
)
