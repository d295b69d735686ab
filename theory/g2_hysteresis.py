"""G2: between two eviction batches that reach the low mark more than (high - low) * budget is loaded.

Statement
---------
A boundary at which ``used + coming > high * budget`` evicts one batch, down to ``used + coming <= low *
budget``, and loads what was coming; coming: the tokens that enter. Hypothesis: the batch *reaches* the low
mark, which it does exactly if what may not leave (pinned, named, needed, or refused by L2 while dirty) and
what is coming have at most ``low * budget`` tokens together. If all of n batches reach it,

    n <= loaded / ((high - low) * budget) + 1,

loaded: all tokens that entered L1 meanwhile. From an empty L1 the first batch has ``high * budget`` before
it: ``n < (loaded - high * budget) / ((high - low) * budget) + 1`` for n >= 1. With whole tokens and whole
marks at least ``(high - low) * budget + 1`` enter between two batches, which one-token segments attain:
n = 1 + floor((loaded - high * budget - 1) / ((high - low) * budget + 1)).

*Without the hypothesis* nothing of the kind holds: where pinned segments keep ``used`` above the high mark,
every boundary that loads anything evicts, one batch for each load, whatever its size; with 80 of 100 tokens
pinned (marks 85 and 65), segments of 6 tokens make n = loaded / 6 - 1 batches against loaded / 20 + 1.

The post's own order, flush, then evict, has the same bound under the same hypothesis.

Examples
--------
>>> from theory.g2_hysteresis import batches
>>> batches([1] * 200, budget=100), batches([6] * 20, budget=100, pinned=80)
((6, 200, True), (19, 200, False))

References
----------
The context-cache post: "a buffer zone" to "avoid thrashing". Watermarks with hysteresis are common in paging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

from softhit.hierarchy.allocator import ContextAllocator
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.l1_machine import NODES, Boundaries, run
from theory.smt import unsat

__all__ = ["CLAIM", "SMT", "batches"]

NEEDS = ("qdrant_client", "hypothesis")
HIGH, LOW = Fraction(85, 100), Fraction(65, 100)


def _gap(enters: str = "coming") -> str:
    return f"""; from one batch that reached the low mark to the next one: what enters exceeds the gap
(set-logic QF_LRA)
(declare-const high Real)
(declare-const low Real)
(declare-const after Real)
(declare-const entered Real)
(declare-const left Real)
(declare-const coming Real)
(assert (and (<= 0.0 low) (<= low high)))
(assert (<= after low))
(assert (and (>= entered 0.0) (>= left 0.0) (>= coming 0.0)))
(define-fun used () Real (- (+ after entered) left))
(assert (> (+ used coming) high))
(assert (<= (+ entered {enters}) (- high low)))
(check-sat)
"""


SMT = {"gap": _gap()}


def batches(
    sizes: Sequence[int],
    budget: int,
    pinned: int = 0,
    high: Fraction = HIGH,
    low: Fraction = LOW,
) -> tuple[int, int, bool]:
    """Load segments one a boundary into an L1 with some pinned tokens; (batches, loaded, all reached low).

    The rule alone: first in, first out among what is not pinned; a segment that has no room is skipped.
    """
    used, count, loaded, reached = pinned, 0, pinned, True
    held: list[int] = []
    for size in sizes:
        if size > budget - pinned:
            continue
        if used + size > high * budget:
            gone = 0
            while held and used + size > low * budget:
                used -= held.pop(0)
                gone += 1
            count += gone > 0
            reached = reached and (used + size <= low * budget or gone == 0)
        if used + size <= budget:
            held.append(size)
            used += size
            loaded += size
    return count, loaded, reached


def gap(enters: str = "coming") -> None:
    """For all real marks and tokens: between two batches that reach the low mark more than the gap enters."""
    unsat("gap", _gap(enters))


def rule(slack: int = 1) -> None:
    """The bound on random sizes, marks and pins, and how near it random runs come."""
    rng = np.random.default_rng(7)
    tight = 0
    for _ in range(3000):
        budget = int(rng.integers(5, 200))
        high, low = sorted((Fraction(int(rng.integers(1, 21)), 20), Fraction(int(rng.integers(0, 20)), 20)))[
            ::-1
        ]
        if high == low:
            continue
        sizes = rng.integers(1, max(2, int(rng.integers(2, budget + 2))), int(rng.integers(1, 80))).tolist()
        count, loaded, reached = batches(sizes, budget, int(rng.integers(0, budget)) // 2, high, low)
        if reached:
            gap = (high - low) * budget
            hold(count <= loaded / gap + 1, f"{count} batches, {loaded} loaded, gap {gap}")
            # from an empty L1, or one with pinned tokens only, which count as loaded
            most = (loaded - high * budget) / gap + slack
            hold(count == 0 or count < most, f"{count} batches, {loaded} loaded, high {high}, gap {gap}")
            tight += count > most - 1
    hold(tight > 50, f"only {tight} runs within one batch of the bound")


def attained(step: int = 1) -> None:
    """Segments of one token attain the most batches that whole tokens allow; pins break the hypothesis."""
    for budget, loaded in ((100, 1000), (100, 87), (200, 5000), (20, 400)):
        high, low = floor(HIGH * budget), floor(LOW * budget)
        want = max(0, 1 + (loaded - high - 1) // (high - low + step))
        count, _, reached = batches([1] * loaded, budget)
        equal((count, reached), (want, True), f"batches of {loaded} tokens, one by one, budget {budget}")
    count, loaded, reached = batches([6] * 200, 100, pinned=80)
    equal(reached, False, "80 pinned tokens of 100: the low mark is reached")
    hold(count > loaded / 20 + 1, f"{count} batches, {loaded} loaded: the bound holds without its hypothesis")
    equal(count, 199, "one batch a load")


def machine(make: Callable[..., ContextAllocator] = ContextAllocator, examples: int = 40) -> None:
    """On the real allocator: what is loaded between two batches that reach the low mark, and the bound."""
    run("G2", make, examples)


def trickle(make: Callable[..., ContextAllocator] = ContextAllocator) -> None:
    """On the real allocator: sixty texts of three tokens, one a boundary, by two orders of eviction."""
    for policy in ("priority_lru", "lru"):
        played = Boundaries(make, policy, None, "G2")
        try:
            for number in range(60):
                view = played.view(NODES[0])
                view.derive(f"text{number}", f"3 of {number}")
                played.report(view.update())
                played.cross([], [], False)
            hold(played.context["batches"] > 1, f"{policy}: no two batches to look at")
        finally:
            played.close()


def long_machine() -> None:
    """The same, longer."""
    run("G2", examples=400, steps=60)


class NoBuffer(ContextAllocator):
    """High and low are one: what a system without watermarks does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "high": "0.6", "low": "0.6"})


CLAIM = Claim(
    id="G2",
    title="hysteresis bounds the batches",
    statement=(
        "If every eviction batch reaches the low mark, more than (high - low) * budget tokens are loaded "
        "between two of them, so there are at most loaded / ((high - low) * budget) + 1."
    ),
    variant="L1 with watermarks low <= high; any order of eviction",
    source="the context-cache post's watermarks; the bound, its hypothesis and its tightness are ours",
    status="machine-checked",
    scope=(
        "the bound: all real marks and tokens (SMT); that the classes keep it: Hypothesis state machines, "
        "budget 100, marks 0.85 and 0.65"
    ),
    breaks="pinned tokens that keep a batch from the low mark: one batch a load, whatever its size",
    checks=(
        Check("gap", gap, needs=("z3", "cvc5")),
        Check("rule", rule),
        Check("attained", attained),
        Check("machine", machine, needs=NEEDS),
        Check("trickle", trickle, needs=("qdrant_client", "hypothesis")),
        Check("long_machine", long_machine, slow=True, needs=NEEDS),
    ),
    mutants=(
        Mutant("half", "gap", {"enters": "(* 0.5 coming)"}, "half of what comes is not enough"),
        Mutant("no_one", "rule", {"slack": 0}, "the first batch has nothing before it"),
        Mutant("exactly", "attained", {"step": 0}, "more than the gap, not as much"),
        Mutant("no_buffer", "trickle", {"make": NoBuffer}, "high = low: a batch a load"),
    ),
    proofs=("G2.md",),
)
