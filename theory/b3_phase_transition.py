"""B3: on a cycle over W items FIFO hits nothing below K = W and everything from K = W on.

Statement
---------
serve_then_update, ``stream`` with e_t = q_t, hard hits, unit sizes, empty start. On T >= W requests of the
cycle 0, 1, ..., W-1, 0, ...:

* FIFO (and LRU) hit 0 times if K < W, and T - W times, at every request after the fill, if K >= W.
* A set of min(K, W) items that is loaded at their first requests and kept hits exactly min(K, W) times in
  each round after the first: a share of K/W. No schedule hits more, whatever lambda (B1).
* So per round the optimum saves ``K + lambda W`` over FIFO for K < W, which *grows* with K, and nothing from
  K = W on: what admission control can gain on a cycle vanishes at K = W at once.

Proof
-----
In ``proofs/B3.md``.

Examples
--------
>>> from adversaries.families import cycling
>>> from softhit import simulate
>>> [hits("fifo", cycling(k, 40, w=4), k) for k in (2, 3, 4, 5)], [
...     hits("static_opt", cycling(k, 40, w=4), k) for k in (2, 3, 4, 5)]
([0, 0, 36, 36], [18, 27, 36, 36])

References
----------
The SOLAR paper reports the transition; the figures are exact here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from adversaries.families import make_trace
from softhit import Trace, simulate
from softhit.cost import miss_units_by_step
from theory.claim import Check, Claim, Figure, Mutant, equal
from theory.measure import optimum as best_cost
from theory.measure import paid

__all__ = ["CLAIM", "advantage", "best", "fifo", "hits", "static"]

ROUNDS = 12
SIZES = (1, 2, 3, 5, 9, 16)
FIGURE_W = 32


def hits(spec: str, trace: Trace, k: int) -> int:
    """Return how many requests a policy serves."""
    return int((miss_units_by_step(simulate(spec, trace, k), trace) == 0).sum())


def fifo(first_fit: int = 0, policies: tuple[str, ...] = ("fifo", "lru")) -> None:
    """FIFO and LRU hit 0 times for K < W, and T - W times for K >= W."""
    for w in SIZES:
        for k in range(1, w + 4):
            for steps in (w, w + 1, ROUNDS * w + w // 2):
                trace = make_trace("cycling", k, steps, w=w)
                for name in policies:
                    expected = steps - w if k >= w + first_fit else 0
                    equal(hits(name, trace, k), expected, f"hits of {name}, K={k}, W={w}, T={steps}")


def static(policy: str = "static_opt") -> None:
    """A fixed set hits min(K, W) of the W requests of each round after the first."""
    for w in SIZES:
        for k in range(1, w + 4):
            found = hits(policy, make_trace("cycling", k, ROUNDS * w, w=w), k)
            equal(found, (ROUNDS - 1) * min(k, w), f"hits of the fixed set, K={k}, W={w}")


def best(share: Fraction = Fraction(1)) -> None:
    """No schedule hits more often than that, even if replacements cost nothing."""
    for w in SIZES:
        for k in range(1, w + 4):
            most = ROUNDS * w - best_cost(make_trace("cycling", k, ROUNDS * w, w=w), k, 0)
            equal(most, (ROUNDS - 1) * min(k, w) * share, f"most hits, K={k}, W={w}")


def advantage(transition: int = 0) -> None:
    """What OPT saves over FIFO in a round is K + lambda W for K < W, then nothing."""
    for w in (2, 5, 9):
        for k in range(1, w + 3):
            near, far = (make_trace("cycling", k, n * w, w=w) for n in (3, 13))
            for lam in map(Fraction, ("0", "1/3", "2")):
                saved = [paid("fifo", t, k, lam) - best_cost(t, k, lam) for t in (near, far)]
                expected = k + lam * w if k < w + transition else Fraction(0)
                equal((saved[1] - saved[0]) / 10, expected, f"saved in a round, K={k}, W={w}, lambda={lam}")


def _rows() -> Sequence[dict[str, Any]]:
    w, rows = FIGURE_W, []
    for k in range(1, w + 9):
        trace = make_trace("cycling", k, 20 * w, w=w)
        rows += [
            {"k": k, "rate": hits(spec, trace, k) / (19 * w), "policy": name}
            for name, spec in (
                ("FIFO and LRU", "fifo"),
                ("fixed set (optimal)", "static_opt"),
                ("SOLAR, lambda = 1", "solar"),
            )
        ]
    return rows


CLAIM = Claim(
    id="B3",
    title="phase transition",
    statement="On a cycle of W items FIFO's hit rate is 0 for K < W and 1 for K >= W; a fixed set has K/W.",
    variant="serve_then_update, stream, e_t = q_t, hard hits, unit sizes, empty start; after the fill",
    source="the SOLAR paper; exact figures ours",
    status="proved",
    scope="all W, K >= 1, T >= W, lambda >= 0",
    breaks="no jump is claimed for other requests than a cycle",
    checks=(
        Check("fifo", fifo),
        Check("static", static),
        Check("best", best),
        Check("advantage", advantage),
    ),
    mutants=(
        Mutant("one_slot_later", "fifo", {"first_fit": 1}, "K = W suffices"),
        Mutant("random_for_lru", "fifo", {"policies": ("fifo", "random")}, "it hits below K = W"),
        Mutant("fifo_for_static", "static", {"policy": "fifo"}),
        Mutant("half_the_hits", "best", {"share": Fraction(1, 2)}),
        Mutant("advantage_at_w", "advantage", {"transition": 1}, "nothing is left to gain at K = W"),
    ),
    proofs=("B3.md",),
    figure=Figure(
        title="hit rate on a cycle over 32 items, after the fill",
        rows=_rows,
        x="k",
        y="rate",
        by="policy",
        references={"K/W": lambda k: min(1.0, k / FIGURE_W)},
        x_label="slots K",
        y_label="hit rate",
    ),
)
