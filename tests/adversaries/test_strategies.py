"""The Hypothesis strategies draw valid traces of the stated form, reach every corner, and shrink well."""

import importlib
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from adversaries.families import family_names
from adversaries.strategies import (
    FORMS,
    capacities,
    family_traces,
    instances,
    switch_costs,
    traces,
    variants,
)
from softhit import MissingExtra, Variant, cost, floor_units, simulate
from softhit.errors import InvalidInput

QUICK = settings(max_examples=2000, database=None, derandomize=True, deadline=None)


@given(st.data(), st.sampled_from(FORMS))
def test_traces_have_the_form_that_was_asked_for(data, form):
    trace = data.draw(traces(form=form, max_steps=7, max_items=3, max_weight=2, max_size=3))
    assert trace.n_steps <= 7
    assert 1 <= trace.n_items <= 3
    assert trace.weight.max(initial=0) <= 2
    assert trace.sizes.min() >= 1
    assert trace.sizes.max() <= 3
    assert trace.structure.scored == (form == "scored")
    if form in ("hard", "requests"):
        assert trace.structure.hard
    if form == "requests":
        assert trace.structure.requests


@given(instances(max_size=2))
def test_instances_can_be_played_and_priced(instance):
    trace, capacity, switch_cost, variant = instance
    schedule = simulate("fifo", trace, capacity, switch_cost, variant=variant)
    price = cost(schedule, trace, capacity, switch_cost, variant)
    full = trace.quality_scale * (variant.top_k if variant.aggregator == "mean_topk" else 1)
    assert price.misses >= Fraction(floor_units(trace, variant), full)


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (switch_costs(), lambda x: x == 0),
        (switch_costs(), lambda x: x.denominator == 2),
        (switch_costs(), lambda x: x > 1 and 0 < x - int(x) < Fraction(1, 100)),
        (switch_costs(), lambda x: x - int(x) > Fraction(99, 100)),
        (switch_costs(0), lambda x: x == 0),
        (capacities(3), lambda k: k == 3),
        (variants(), lambda v: v.aggregator == "mean_topk" and v.top_k == 3),
        (variants(), lambda v: (v.order, v.availability, v.fill) == ("update_then_serve", "pool", "charged")),
        (traces("scored"), lambda t: len(t.quality) > 0 and t.quality.min() == 0),
        (traces("scored"), lambda t: len(t.ranks) > 1 and t.ranks.max() == 1),
        (traces("hard"), lambda t: np.any((t.arrivals == -1) & (t.weight > 1))),
        (traces("soft"), lambda t: np.any(np.diff(t.indptr) == 3) and np.any(t.weight == 0)),
        (traces("requests"), lambda t: t.n_steps == 12),
        (traces(max_size=3), lambda t: t.sizes.max() == 3),
        (traces(max_size=1), lambda t: t.quality_scale == 3),
    ],
)
def test_the_corners_are_reached(strategy, wanted):
    assert wanted(find(strategy, wanted, settings=QUICK))


def test_soft_traces_shrink_to_one_step_with_two_items():
    smallest = find(traces("soft"), lambda t: not t.structure.hard, settings=QUICK)
    assert (smallest.n_steps, smallest.n_items) == (1, 2)
    assert smallest.weight.tolist() == [1]
    assert smallest.quality_scale == 1


def test_variants_shrink_to_the_default():
    assert find(variants(), lambda v: True, settings=QUICK) == Variant()


def answers_in_full_or_not_at_all(trace):
    """One item at most is of use to a query, or all that are of use are so in full (a threshold)."""
    step = np.repeat(np.arange(trace.n_steps), np.diff(trace.indptr))
    useful = np.bincount(step[trace.quality > 0], minlength=1)
    return useful.max() <= 1 or bool(np.all(trace.quality == trace.quality_scale))


@pytest.mark.parametrize("name", family_names())
def test_each_family_is_a_strategy_in_both_forms(name):
    hard = find(
        family_traces(name),
        lambda t: t.n_queries > 5 and len(t.items) and answers_in_full_or_not_at_all(t),
        settings=QUICK,
    )
    soft = find(family_traces(name), lambda t: not answers_in_full_or_not_at_all(t), settings=QUICK)
    for trace in (hard, soft):
        assert trace.metadata["generator"] == name
    assert soft.metadata["parameters"]["form"] == "soft"


@pytest.mark.parametrize("form", ["hard", "soft"])
def test_the_form_of_a_family_can_be_fixed(form):
    trace = find(family_traces(form=form), lambda t: t.n_steps > 3, settings=QUICK)
    assert trace.metadata["parameters"]["form"] == form


def test_a_wrong_form_is_refused():
    with pytest.raises(InvalidInput, match="form must be one of requests, hard, soft, scored"):
        find(traces(form="sorted"), lambda t: True, settings=QUICK)


def test_without_hypothesis_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "adversaries.strategies")
    with pytest.raises(MissingExtra, match=r"softhit\[testing\]"):
        importlib.import_module("adversaries.strategies")
