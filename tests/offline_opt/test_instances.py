"""Each named instance has the optimum that its comment works out, by every method that applies."""

import numpy as np
import pytest

from offline_opt import instances
from offline_opt.facade import METHODS, Problem, solve
from softhit import InvalidInput, UnknownName, cost


@pytest.mark.parametrize("name", instances.names())
def test_every_method_that_applies_finds_the_optimum(name):
    instance = instances.get(name)
    used = []
    for method in METHODS.values():
        if method.applies(Problem(*instance.problem)) is not None:
            continue
        answer = solve(*instance.problem, method=method.name)
        used.append(method.name)
        assert answer.lower_bound <= instance.optimum
        if answer.schedule is not None:
            assert cost(answer.schedule, *instance.problem) == answer.cost
            assert answer.cost.fraction >= instance.optimum
        if answer.kind.startswith("exact"):
            assert answer.cost.fraction == instance.optimum
        else:
            assert method.name in ("relaxation", "lagrangian", "floor", "lp")
    assert len(used) >= 2
    assert "dp" in used


@pytest.mark.parametrize("name", instances.names())
def test_auto_finds_and_proves_the_optimum(name):
    instance = instances.get(name)
    answer = solve(*instance.problem)
    assert (answer.kind, answer.gap) == ("exact", 0)
    assert answer.cost.fraction == answer.lower_bound == instance.optimum
    assert answer.status.certified


def test_an_unknown_instance_suggests_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'lp_gap'"):
        instances.get("lp-gap")


@pytest.mark.parametrize("kind", instances.KINDS)
def test_random_instances_are_of_their_kind_and_repeat(kind):
    facts = []
    for seed in range(40):
        trace, capacity, lam = instances.random_instance(np.random.default_rng(seed), kind)
        again = instances.random_instance(np.random.default_rng(seed), kind)
        assert (trace, capacity, lam) == again
        facts.append(trace.structure)
        assert capacity >= 1
    assert all(f.hard for f in facts) == (kind in ("hard", "requests"))
    assert all(f.requests for f in facts) == (kind == "requests")
    assert all(f.classes is not None for f in facts) == (kind in ("hard", "requests", "classes"))
    assert all(f.unit_sizes for f in facts) == (kind != "sized")
    assert all(f.scored for f in facts) == (kind == "scored")
    assert any(instances.random_instance(np.random.default_rng(s), kind)[2] == 0 for s in range(40))


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidInput, match="kind must be one of"):
        instances.random_instance(np.random.default_rng(0), "sotf")
