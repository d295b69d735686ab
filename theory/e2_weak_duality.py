"""E2: any prices bound the optimum from below, and the certificate checker computes such a bound exactly.

Statement
---------
Every variant, sizes, weights, with and without a score. For all prices ``slot[t] >= 0``, ``serve[t] >= 0``,
``0 <= entry <= lambda``, wherever they come from, and every schedule,

    cost >= W - k sum serve - K sum slot - [free fill] K entry - sum_i V_i,

where W is the sum of weights and V_i the most that item i can earn alone: at every step at which it is held
``max(0, w_t s_t(i) / k - serve[t]) - size_i slot[t]``, and ``- size_i entry`` each time it enters. The item
may be dropped and come back. If all costs are multiples of g, the bound may be rounded up to one.

`offline_opt.certificate.checker` evaluates the right side in integers and imports no solver: a wrong dual
solution makes a weak bound, never a false one.

For ``coverage``, with credits ``0 <= credit[t] <= w_t``: an item earns ``credit[t] s_t(i)``, and the bound
loses ``(w_t - credit[t]) m_t`` more, m_t the coverage of the best k items that can be there. The checker
rounds both products up to whole units, which only lowers the bound.

Proof
-----
In ``proofs/E2.md``. ``proofs/E2.v`` proves the checker's algorithm, entry by entry and with products in
pairs, and its rounding, for every aggregator, ``coverage`` with its credits and a score included. The reading
of files, hashes and 64-bit arithmetic are not in it, and it speaks of a Coq text: that the Python text
computes the same number is tested, against the definition written out step by step (here, ``best`` and
``mean_topk``) and against the Coq text (``tests/theory/test_coq_agreement.py``, all three).

Examples
--------
>>> from offline_opt.certificate import make_certificate
>>> from offline_opt.result import Prices
>>> from softhit import from_requests
>>> trace = from_requests([0, 1, 0, 1, 0, 1])
>>> prices = Prices(np.array([0, 1, 2, 1, 1, 0]), np.zeros(6, np.int64), 1, Fraction(1, 4))
>>> make_certificate(trace, 1, "1/2", prices=prices).lower_bound <= 4
True

References
----------
Weak duality of Lagrangian relaxation; the programme per item and the checker are ours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from offline_opt import instances
from offline_opt.certificate import make_certificate
from offline_opt.certificate.checker import Instance, evaluate
from offline_opt.certificate.format import contents_of
from offline_opt.flow.sweep import solve_sweep
from offline_opt.result import Prices
from offline_opt.soft.milp import relax
from softhit import Trace, Variant
from softhit.errors import NotCertified
from softhit.io.canonical import canonical_bytes
from softhit.retrieval import utility_scale
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.measure import enumerated_optimum

__all__ = ["CLAIM", "bound", "checker", "refused", "rounded", "sound", "tight"]

VARIANTS = tuple(
    itertools.product(("serve_then_update", "update_then_serve"), ("stream", "pool"), ("free", "charged"))
)
SERVED = (("best", 1), ("mean_topk", 2), ("coverage", 2), ("best", 1), ("mean_topk", 3), ("coverage", 3))
Problem = tuple[Trace, int, Fraction, Variant]


def _worth(trace: Trace, variant: Variant) -> list[dict[int, Fraction]]:
    """Return per step what each item of the row earns at most, per 1.0 of credit."""
    k = variant.top_k if variant.aggregator == "mean_topk" else 1
    scale = trace.quality_scale * k
    return [
        {int(i): Fraction(int(q), scale) for i, q in zip(*trace.row(t), strict=True)}
        for t in range(trace.n_steps)
    ]


def bound(problem: Problem, prices: Prices, forget: str = "") -> Fraction:
    """Compute the right side step by step in fractions: nothing of the checker, best and mean_topk only.

    ``forget`` names what to leave out, for mutants: ``reload``, ``serve``, ``slot`` or ``fill``.
    """
    trace, capacity, _, variant = problem
    unit, delay = Fraction(prices.unit), int(variant.serves_first)
    slot = [unit * int(p) for p in prices.slot]
    serve = [unit * int(p) for p in prices.serve] if prices.serve is not None else [Fraction(0)] * len(slot)
    worth = _worth(trace, variant)
    total = Fraction(trace.total_weight) - (0 if forget == "slot" else capacity * sum(slot))
    if forget != "serve":
        total -= variant.top_k * sum(serve)
    if variant.free_fill and forget != "fill":
        total -= capacity * prices.entry * unit
    for i, size in enumerate(trace.sizes.tolist()):
        if size > capacity:
            continue
        never, inside, gone = Fraction(0), None, Fraction(0)
        # best value of: not in yet; in; in before and out again
        for t in range(trace.n_steps):
            door = t - delay
            if door >= 0 and (not variant.stream or trace.arrivals[door] == i):
                out = never if forget == "reload" else max(never, gone)
                fresh = out - size * prices.entry * unit
                inside = fresh if inside is None else max(inside, fresh)
            if inside is not None:
                inside -= size * slot[t]
                if int(trace.weight[t]) and i in worth[t]:
                    inside += max(Fraction(0), int(trace.weight[t]) * worth[t][i] - serve[t])
                gone = max(gone, inside)
        total -= max(never, gone)
    return total


def _draw(rng: np.random.Generator, problem: Problem) -> Prices:
    """Draw prices without thought, or disturb the duals of the LP, which are nearly tight."""
    trace, _, lam, variant = problem
    if rng.random() < 0.5:
        found = relax(*problem).prices
        shake = rng.choice([0, 1, 1, 1, 2], size=(2, trace.n_steps))
        serve = found.slot * 0 if found.serve is None else found.serve
        return replace(found, slot=found.slot * shake[0], serve=serve * shake[1])
    scale = utility_scale(trace.quality_scale, variant) * lam.denominator
    high = max(1, int(scale * rng.choice([0.05, 0.3, 1.0])))
    slot, serve = (rng.integers(0, high, trace.n_steps) * (rng.random(trace.n_steps) < 0.5) for _ in range(2))
    credit = None
    if variant.aggregator == "coverage":
        credit = np.array([int(rng.random() * int(w) * scale) for w in trace.weight], np.int64)
    return Prices(slot, serve, int(rng.random() * float(lam * scale)), Fraction(1, scale), credit)


def _cases(seed: int, count: int, coverage: bool) -> Iterator[tuple[str, Problem, Prices]]:
    rng = np.random.default_rng(seed)
    for number in range(count):
        aggregator, top_k = SERVED[number // 8 % 6]
        if aggregator == "coverage" and not coverage:
            aggregator, top_k = "best", 1
        variant = Variant(*VARIANTS[number % 8], aggregator, top_k)
        kind = instances.KINDS[number % 6]
        problem: Problem = (*instances.random_instance(rng, kind, max_steps=10, max_items=5), variant)
        what = f"instance {number} ({kind}), K={problem[1]}, lambda={problem[2]}, {variant.label}"
        yield what, problem, _draw(rng, problem)
    problem = instances.get("drop_and_reload").problem
    # dear to hold in between: item 0 leaves and comes back
    yield "drop_and_reload", problem, Prices(np.array([0, 4, 0]), np.zeros(3, np.int64), 1, Fraction(1, 4))


def sound(forget: str = "") -> None:
    """Whatever the prices, the bound written out step by step is at most the optimum of the DP."""
    near = 0
    for what, problem, prices in _cases(12, 480, coverage=False):
        low, best = bound(problem, prices, forget), enumerated_optimum(*problem)
        hold(low <= best, f"{what}: bound {low} above OPT = {best}")
        near += low > best / 2 > 0
    hold(near > 100, f"only {near} bounds above OPT / 2: nothing was tested")


def _evaluated(problem: Problem, prices: Prices) -> tuple[Fraction, Fraction]:
    """Return the checker's bound, unrounded and as certified."""
    trace, capacity, lam, variant = problem
    certificate = make_certificate(trace, capacity, lam, variant, None, prices)
    contents = contents_of(replace(certificate, grid=Fraction(0)))
    low, _ = evaluate(contents, Instance.from_bytes(canonical_bytes(trace)))
    return low, certificate.lower_bound


def checker(raised: Fraction = Fraction(0)) -> None:
    """The checker's function returns that bound exactly, and never exceeds OPT, coverage included."""
    compared = 0
    for what, problem, prices in _cases(13, 240, coverage=True):
        low, best = _evaluated(problem, prices)[0] + raised, enumerated_optimum(*problem)
        hold(low <= best, f"{what}: the checker's bound {low} above OPT = {best}")
        if problem[3].aggregator != "coverage":
            equal(low, bound(problem, prices), f"the checker's bound, {what}")
            compared += 1
    hold(compared > 100, f"only {compared} bounds compared")


def rounded(step: int = 1) -> None:
    """Rounded up to the grid of costs the bound is still at most OPT."""
    lifted = 0
    for what, problem, prices in _cases(14, 160, coverage=True):
        low, certified = _evaluated(problem, prices)
        best = enumerated_optimum(*problem)
        claimed = certified + (certified - low) * (step - 1)
        hold(claimed <= best, f"{what}: {low} rounded up to {claimed}, above OPT = {best}")
        lifted += certified > low
    hold(lifted > 20, f"only {lifted} bounds were rounded up")


def tight(kind: str = "hard") -> None:
    """With the prices of the flow the bound of a hard instance is OPT."""
    rng = np.random.default_rng(15)
    for number in range(80):
        variant = Variant(*VARIANTS[number % 8])
        problem: Problem = (*instances.random_instance(rng, kind, max_steps=10, max_items=5), variant)
        hard = problem[0].structure.hard
        prices = solve_sweep(*problem).prices if hard else relax(*problem).prices
        hold(prices is not None, f"instance {number}: no prices")
        assert prices is not None
        best = enumerated_optimum(*problem)
        equal(_evaluated(problem, prices)[0], best, f"bound, instance {number}, {variant.label}")


def refused(above: Any = Fraction(1, 7)) -> None:
    """An insertion priced above lambda, or a negative price, proves nothing, and is refused."""
    for what, problem, prices in _cases(16, 48, coverage=False):
        trace, capacity, lam, variant = problem
        unit = Fraction(1, 7 * lam.denominator)
        entry = int((lam + above) / unit)
        bad = [Prices(prices.slot * 0, None, entry, unit)]
        if trace.n_steps:
            bad.append(replace(prices, slot=prices.slot * 0 - 1))
        for wrong in bad:
            try:
                made = make_certificate(trace, capacity, lam, variant, None, wrong)
            except NotCertified:
                continue
            hold(
                False, f"{what}: entry {wrong.entry * wrong.unit} was let pass and proves {made.lower_bound}"
            )


CLAIM = Claim(
    id="E2",
    title="weak duality",
    statement=(
        "Any prices >= 0, those of entry <= lambda, bound OPT from below, and a checker without a solver "
        "evaluates that bound exactly."
    ),
    variant="every order, availability, fill and aggregator; sizes, weights, scores",
    source="Lagrangian duality; the programme per item and the checker ours",
    status="machine-checked",
    scope="all instances and prices, every aggregator, for the Coq text; the Python text: random instances",
    breaks="other prices prove nothing and are refused; reading files is not in the Coq proof",
    checks=(
        Check("sound", sound),
        Check("checker", checker),
        Check("rounded", rounded),
        Check("tight", tight),
        Check("refused", refused),
    ),
    mutants=(
        Mutant("no_second_stay", "sound", {"forget": "reload"}, "an item may leave and come back"),
        Mutant("slots_for_nothing", "sound", {"forget": "slot"}),
        Mutant("serving_for_nothing", "sound", {"forget": "serve"}),
        Mutant("free_fill_for_nothing", "sound", {"forget": "fill"}),
        Mutant("a_little_more", "checker", {"raised": Fraction(1, 10**6)}),
        Mutant("thrice_the_rounding", "rounded", {"step": 3}),
        Mutant("soft_hits", "tight", {"kind": "soft"}, "there is a gap"),
        Mutant("entry_at_lambda", "refused", {"above": Fraction(0)}, "that is allowed"),
    ),
    proofs=("E2.md", "E2.v"),
)
