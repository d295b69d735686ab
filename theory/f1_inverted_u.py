"""F1: with near-duplicates and a noisy retriever quality rises with the pool, and from one point on falls.

Statement
---------
M topics, n arrivals with independent uniform topics. The first arrival of a topic answers its queries, with
quality 1; later ones are near-duplicates that answer nothing. The retriever returns the item of the query's
topic with the highest score: the right one's is ahead by delta, and all have independent Gumbel noise of
scale sigma; items of other topics are far below. With ``w = exp(-delta / sigma) > 0`` a pool with m items of
the topic answers with probability ``a_m = 1 / (1 + (m - 1) w)``, ``a_0 = 0``, so for a uniform query

    Q(n) = E[a_m],  m ~ Bin(n, p),  p = 1/M < 1.

* Q rises strictly up to some n, falls strictly from there on, and tends to 0; at most two neighbouring n
  share the maximum.
* The maximum is at n = 1643 for M = 500 and w = 1/20, at 896 for M = 500 and w = 1/2, and at 1218 for M = 300
  and w = 1/50.
* Q(n) = integral over [0, 1] of ``x^-w ((1 - p + p x^w)^n - (1 - p)^n) dx``.

Where it is not so
------------------
Without duplicates that answer nothing there need be no inverted U. Let each item be right with probability p,
independently, and score 1 + N(0, 1) if right, N(0, 1) if not. The probability that the top one of n items is
right *rises* with n: the higher the top score, the likelier it is right, and the top score rises. It does not
fall for any noise whose likelihood ratio does not fall with the score.

Scope
-----
A statement about these models. The paper's experiment with 5000 embedded items (its peak is near 1000) is not
repeated here.

Proof
-----
In ``proofs/F1.md``; elementary, a case of variation diminishing for the binomial.

Examples
--------
>>> round(quality(1, 500, 0.05), 6), peak(500, Fraction(1, 2))
(0.002, 896)

References
----------
Inverted U: the SOLAR paper, observed. S. Karlin, Total Positivity, 1968, for variation diminishing. The
models and numbers are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special, stats

from softhit import Trace
from theory.claim import Check, Claim, Figure, Mutant, close, equal, hold
from theory.measure import paid

__all__ = ["CLAIM", "closed_form", "gaussian", "one_maximum", "peak", "peaks", "quality", "retrieval", "rise"]

PEAKS = ((500, Fraction(1, 20), 1643), (500, Fraction(1, 2), 896), (300, Fraction(1, 50), 1218))
FIGURE_W, FIGURE_TOPICS = (0.02, 0.05, 0.2, 0.5), 50


def answers(m: Any, w: float) -> Any:
    """Return a_m: how often a pool with m items of the topic answers a query."""
    return np.where(np.asarray(m) > 0, 1 / (1 + (np.asarray(m) - 1) * w), 0.0)


def quality(n: int, topics: int, w: float) -> float:
    """Return Q(n) as the sum over m."""
    m = np.arange(n + 1)
    return float(np.sum(stats.binom.pmf(m, n, 1 / topics) * answers(m, w)))


def rise(n: int, topics: int, w: Fraction, duplicates: bool = True) -> int:
    """Return the sign of Q(n + 1) - Q(n), exactly: that of E[a_{m+1} - a_m], m ~ Bin(n, 1/M)."""
    p, q = w.numerator, w.denominator
    # a_{m+1} - a_m = q/(q + m p) - q/(q + (m-1) p) for m > 0, over the denominator of all of them
    below = math.lcm(*(q + m * p for m in range(n + 1)))
    total, weight = 0, (topics - 1) ** n
    for m in range(n + 1):
        step = below if m == 0 else below // (q + m * p) * q - below // (q + (m - 1) * p) * q
        total += weight * (step if duplicates or m == 0 else 0)
        # C(n, m+1) (M-1)^(n-m-1) from C(n, m) (M-1)^(n-m)
        weight = weight * (n - m) // ((m + 1) * (topics - 1))
    return (total > 0) - (total < 0)


def peak(topics: int, w: Fraction) -> int:
    """Return the n of the maximum by bisection, which one change of sign allows."""
    low, high = 0, 1
    while rise(high, topics, w) > 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rise(middle, topics, w) > 0 else (low, middle)
    return high


def closed_form(power: float = 1.0) -> None:
    """Q(n) is the integral of x^-w ((1 - p + p x^w)^n - (1 - p)^n)."""
    for topics in (3, 50, 500):
        for w in (0.02, 0.3, 0.9):
            for n in (1, 2, 7, topics, 4 * topics):
                p = 1 / topics

                def density(x: float, n: int = n, p: float = p, w: float = w) -> float:
                    if x <= 0:
                        return 0.0
                    # the difference of two powers loses no digits this way
                    lift = p * x ** (w * power) / (1 - p)
                    return float(x ** (-w * power) * (1 - p) ** n * np.expm1(n * np.log1p(lift)))

                found, _ = integrate.quad(density, 0, 1, epsabs=1e-12, epsrel=1e-11, limit=200)
                if power == 1.0 or w * power < 1:
                    close(found, quality(n, topics, w), 1e-9, f"Q({n}), M={topics}, w={w}")


def peaks(expected: Sequence[tuple[int, Fraction, int]] = PEAKS) -> None:
    """The maxima are at the n stated: the exact sign of Q(n+1) - Q(n) before and there."""
    for topics, w, n in expected:
        for at, sign in ((n - 1, 1), (n, -1)):
            equal(rise(at, topics, w), sign, f"sign of Q({at + 1}) - Q({at}), M={topics}, w={w}")


def one_maximum(duplicates: bool = True) -> None:
    """Q rises, then falls: one change of sign in all n, exactly for small M, in floating point for large."""
    for topics in (2, 3, 5, 10):
        for w in map(Fraction, ("1/50", "1/4", "1", "3")):
            signs = [rise(n, topics, w, duplicates) for n in range(9 * topics)]
            turn = peak(topics, w)
            where = f"M={topics}, w={w}, maximum at {turn}"
            hold(all(s > 0 for s in signs[:turn]), f"{where}: does not rise before")
            hold(all(s < 0 for s in signs[turn + 1 :]), f"{where}: does not fall after")
            hold(turn + 1 < len(signs), f"{where}: the maximum is beyond what was tried")
    for topics, w, n in PEAKS:
        sizes = np.unique(np.geomspace(1, 60 * topics, 80).astype(int))
        values = np.array([quality(int(x), topics, float(w)) for x in sizes])
        up = np.diff(values) > 0
        hold(bool(np.all(np.diff(up.astype(int)) <= 0)), f"M={topics}, w={w}: rises again")
        best = values.max()
        hold(bool(np.all(values <= quality(n, topics, float(w)) + 1e-12)), f"M={topics}, w={w}: {best} above")
        hold(values[-1] < best / 2, f"M={topics}, w={w}: hardly falls, to {values[-1]:.3g} from {best:.3g}")


def _pool(rng: np.random.Generator, n: int, topics: int, queries: int, shift: float) -> Trace:
    """Draw n arrivals (weight 0), then queries (weight 1) with fresh noise, scored and ranked for softhit."""
    topic = rng.integers(0, topics, n)
    seen, first = np.unique(topic, return_index=True)
    asked = rng.integers(0, topics, queries)
    by_topic = np.argsort(topic, kind="stable")
    start = np.searchsorted(topic[by_topic], np.arange(topics + 1))
    counts = np.diff(start)[asked]
    indptr = np.concatenate([np.zeros(n, np.int64), np.cumsum([0, *counts])])
    items = np.concatenate([by_topic[start[c] : start[c + 1]] for c in asked]) if queries else by_topic[:0]
    right = np.isin(items, first[np.isin(seen, asked)])
    score = rng.gumbel(size=len(items)) + shift * right
    row = np.repeat(np.arange(queries), counts)
    order = np.lexsort((-score, row))
    ranks = np.empty(len(items), np.int64)
    ranks[order] = np.arange(len(items)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Trace(
        n_items=n,
        indptr=indptr,
        items=items.astype(np.int32),
        quality=right.astype(np.int32),
        ranks=ranks.astype(np.int32),
        arrivals=np.concatenate([np.arange(n), np.full(queries, -1)]),
        weight=np.concatenate([np.zeros(n, np.int64), np.ones(queries, np.int64)]),
        quality_scale=1,
    )


def _measured(n: int, topics: int, w: float, seed: int, pools: int, queries: int) -> NDArray[np.float64]:
    """Return the share of answered queries of each pool: a cache that holds all, priced by softhit."""
    rng = np.random.default_rng([seed, n])
    out = np.empty(pools)
    for x in range(pools):
        trace = _pool(rng, n, topics, queries, -math.log(w))
        out[x] = 1 - float(paid("fifo", trace, n, 0)) / queries
    return out


def retrieval(noise: float = 1.0, pools: int = 60) -> None:
    """softhit's own retrieval, score not quality, answers as often as the formula says: an inverted U."""
    topics = 50
    for w in (0.05, 0.5):
        turn = peak(topics, Fraction(str(w)))
        measured = {}
        for n in (topics // 4, topics, turn, 8 * topics, 40 * topics):
            shares = _measured(n, topics, w, seed=21, pools=pools, queries=150)
            error = float(shares.std(ddof=1)) / math.sqrt(pools)
            measured[n] = float(shares.mean()), error
            what = f"share answered, M={topics}, w={w}, n={n}"
            close(measured[n][0], quality(n, topics, w**noise), 4 * error, what)
        top = measured[turn]
        for n in (topics // 4, 40 * topics):
            apart = 4 * math.hypot(top[1], measured[n][1])
            hold(top[0] - measured[n][0] > apart, f"M={topics}, w={w}: no inverted U, {measured}")


def right_top(n: float, p: float, shift: float = 1.0) -> float:
    """Return how likely the top of n independent items is right, by its density over the top score."""

    def density(x: float) -> float:
        mixed = p * special.ndtr(x - shift) + (1 - p) * special.ndtr(x)
        return float(n * p * stats.norm.pdf(x - shift) * np.exp((n - 1) * np.log(mixed)))

    return float(integrate.quad(density, -6, 14, epsabs=1e-12, epsrel=1e-10, limit=400)[0])


def gaussian(shift: float = 1.0) -> None:
    """With independent Gaussian scores the top is right ever more often: no inverted U."""
    for p in (1 / 50, 1 / 4):
        sizes = [1, 2, 3, 5, 10, 20, 50, 200, 1000, 5000, 50_000]
        values = [right_top(n, p, shift) for n in sizes]
        close(values[0], p, 1e-8, f"one item, p={p:g}")
        for (n, low), (m, high) in zip(
            zip(sizes, values, strict=True), list(zip(sizes, values, strict=True))[1:], strict=False
        ):
            hold(high > low + 1e-6, f"p={p:g}: {low:.5g} at n={n}, {high:.5g} at n={m}")
    # by simulation, in double precision and with other code
    rng = np.random.default_rng(22)
    for n in (10, 200):
        right = rng.random((4000, n)) < 1 / 50
        top = np.argmax(rng.normal(size=(4000, n)) + right, axis=1)
        share = float(right[np.arange(4000), top].mean())
        error = math.sqrt(share * (1 - share) / 4000)
        close(share, right_top(n, 1 / 50), 4 * error, f"simulated, n={n}")


def _rows() -> Sequence[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for w in FIGURE_W:
        for n in (5, 10, 25, 50, 100, 200, 400, 800, 2500):
            shares = _measured(n, FIGURE_TOPICS, w, seed=23, pools=30, queries=100)
            half = 1.96 * float(shares.std(ddof=1)) / math.sqrt(len(shares))
            q = float(shares.mean())
            rows.append({"n": n, "q": q, "what": f"w = {w:g}, simulated", "low": q - half, "high": q + half})
    return rows


def _curve(w: float) -> Callable[[float], float]:
    return lambda n: quality(round(n), FIGURE_TOPICS, w)


CLAIM = Claim(
    id="F1",
    title="inverted U",
    statement=(
        "Where near-duplicates answer nothing and scores are Gumbel, retrieval quality has one maximum in "
        "the pool size."
    ),
    variant="pool of n items held in full, best of one; score is not quality",
    source="the SOLAR paper observed an inverted U; model, proof and numbers ours",
    status="proved",
    scope="all M >= 2, w > 0, n, in this model; that softhit's retrieval agrees: by simulation",
    breaks="independent Gaussian scores: quality only rises. The paper's experiment is not repeated",
    checks=(
        Check("closed_form", closed_form),
        Check("peaks", peaks),
        Check("one_maximum", one_maximum),
        Check("retrieval", retrieval),
        Check("gaussian", gaussian),
    ),
    mutants=(
        Mutant("half_the_exponent", "closed_form", {"power": 0.5}),
        Mutant("one_earlier", "peaks", {"expected": ((500, Fraction(1, 20), 1642),)}),
        Mutant("one_later", "peaks", {"expected": ((500, Fraction(1, 2), 897),)}),
        Mutant("no_duplicates", "one_maximum", {"duplicates": False}, "then quality only rises"),
        Mutant("other_noise", "retrieval", {"noise": 1.5}),
        Mutant("wrong_ones_ahead", "gaussian", {"shift": -1.0}, "then quality falls"),
    ),
    proofs=("F1.md",),
    figure=Figure(
        title="share of answered queries, 50 topics",
        rows=_rows,
        x="n",
        y="q",
        by="what",
        low="low",
        high="high",
        references={f"w = {w:g}": _curve(w) for w in FIGURE_W},
        x_label="items in the pool n",
        y_label="answered",
        x_log=True,
    ),
)
