"""Contracting classes to single items keeps the optimum, and is refused where members add up."""

from fractions import Fraction

import numpy as np
import pytest

from offline_opt.classes import contract, lift, not_contractible
from offline_opt.dp import best_schedule
from offline_opt.flow.ssp import solve_ssp
from softhit import InvalidInput, Schedule, Trace, Variant, cost, from_arrays

VARIANTS = [
    Variant(order, availability, fill)
    for order in ("serve_then_update", "update_then_serve")
    for availability in ("stream", "pool")
    for fill in ("free", "charged")
]


def classes_of_changing_quality(rng: np.random.Generator, n_steps: int) -> Trace:
    """Five items in up to three classes; what a class is worth changes from step to step."""
    owns = rng.integers(0, 3, 5)
    asks = rng.integers(-1, 3, n_steps)
    worth = rng.integers(1, 5, n_steps) / 4
    return from_arrays(
        (asks[:, None] == owns) * worth[:, None],
        arrivals=rng.integers(-1, 5, n_steps),
        weight=rng.integers(0, 4, n_steps),
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)
def test_the_optimum_of_the_classes_is_that_of_their_members(variant):
    rng = np.random.default_rng(VARIANTS.index(variant))
    several = 0
    for number in range(20):
        trace = classes_of_changing_quality(rng, 12)
        assert not_contractible(trace, variant) is None
        problem = (1 + number % 2, Fraction(number % 5, 4), variant)
        found = solve_ssp(contract(trace), *problem)
        optimum = cost(best_schedule(trace, *problem), trace, *problem).fraction
        assert found.objective == optimum
        assert cost(lift(found.schedule, trace, variant), trace, *problem).fraction == optimum
        several += len(set(trace.quality.tolist())) > 1
    assert several > 15, "one quality throughout would test little"


def test_members_that_add_up_are_not_contracted():
    trace = classes_of_changing_quality(np.random.default_rng(0), 12)
    for variant in (Variant(aggregator="mean_topk", top_k=2), Variant(aggregator="coverage", top_k=3)):
        assert "add up" in str(not_contractible(trace, variant))
    assert not_contractible(trace, Variant(aggregator="mean_topk", top_k=1)) is None


def test_without_classes_there_is_nothing_to_contract_or_lift():
    soft = from_arrays([[1, 0.5], [0.5, 1]], [0, 1])
    assert "whole classes" in str(not_contractible(soft, Variant()))
    with pytest.raises(InvalidInput, match="whole classes"):
        contract(soft)
    with pytest.raises(InvalidInput, match="lifted"):
        lift(Schedule.from_events(2, [], [], [], []), soft, Variant())
