"""Shrinking: what is left is as bad as was asked, cannot be made smaller by one step, and is known."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from adversaries.search import Budget, Lasso, Objective, Search, choose_best
from adversaries.shrink import at_least, is_minimal, shrink, smaller
from softhit import InvalidInput


def found(policy: str, k: int, seed: int, evaluations: int = 1500) -> tuple[Objective, Lasso]:
    objective = Objective(policy, k, k + 1)
    search = Search(objective, seed=seed)
    search.run(Budget(evaluations=evaluations))
    return objective, choose_best(search)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("policy", "k"), [("fifo", 2), ("lru", 2), ("fifo", 3), ("lru", 3)])
def test_what_is_found_for_fifo_and_lru_shrinks_to_the_cycle_of_k_plus_one_items(
    policy: str, k: int, seed: int
) -> None:
    objective, lasso = found(policy, k, seed)
    # what the search found is short already: hide it in requests that cost nothing more
    padded = Lasso((*lasso.prefix, *lasso.cycle, 0, 0), lasso.cycle * 3)
    small = shrink(padded, at_least(objective, Fraction(2 * (k + 1))))
    assert small == Lasso((), tuple(range(k + 1)))


@pytest.mark.parametrize("seed", range(6))
def test_a_random_lasso_shrinks_to_a_minimal_one_that_keeps_its_ratio(seed: int) -> None:
    rng = random.Random(seed)
    objective = Objective("gated_lru(theta=2)", 2, 4)
    lasso = Lasso(tuple(rng.choices(range(4), k=6)), tuple(rng.choices(range(4), k=20)))
    goal = objective(lasso).ratio
    assert goal is not None
    small = shrink(lasso, at_least(objective, goal))
    value = objective(small).ratio
    assert value is not None
    assert value >= goal
    assert len(small) < len(lasso)
    # by hand, without the cache of the test that shrinking used: deletions, merges
    for i in range(len(small.cycle)):
        if len(small.cycle) > 1:
            ratio = objective(Lasso(small.prefix, small.cycle[:i] + small.cycle[i + 1 :])).ratio
            assert ratio is not None
            assert ratio < goal
    for i in range(len(small.prefix)):
        ratio = objective(Lasso(small.prefix[:i] + small.prefix[i + 1 :], small.cycle)).ratio
        assert ratio is not None
        assert ratio < goal
    for a in small.items:
        for b in small.items:
            if a != b:
                merge = {a: b}
                merged = [tuple(merge.get(i, i) for i in part) for part in (small.prefix, small.cycle)]
                ratio = objective(Lasso(*merged)).ratio
                assert ratio is not None
                assert ratio < goal
    assert small == small.renumbered()


def test_gated_lru_at_two_shrinks_to_three_pairs() -> None:
    objective, lasso = found("gated_lru(theta=2)", 2, 0)
    small = shrink(lasso, at_least(objective, Fraction(9, 2)))
    assert len(small.cycle) <= 6
    assert objective(small).ratio == Fraction(9, 2)


def test_an_infinite_ratio_stays_infinite() -> None:
    objective, lasso = found("lfu", 2, 1)
    assert objective(lasso).ratio is None
    small = shrink(lasso, at_least(objective, None))
    assert objective(small).ratio is None
    assert is_minimal(small, at_least(objective, None))


def test_each_smaller_lasso_has_less_of_something() -> None:
    lasso = Lasso((0, 1), (2, 0, 1))
    every = list(smaller(lasso))
    assert len(every) == 2 + 3 + 6
    assert all(len(x) < len(lasso) or len(x.items) < len(lasso.items) for x in every)


def test_a_threshold_that_is_not_reached_is_an_error() -> None:
    objective = Objective("lru", 2, 3)
    with pytest.raises(InvalidInput, match="does not reach"):
        shrink(Lasso((), (0, 1)), at_least(objective, Fraction(2)))


def test_a_policy_that_depends_on_names_keeps_them_where_the_ratio_needs_them() -> None:
    # bad only along cycles that ask for item 2 and not for item 0
    def keeps(lasso: Lasso) -> bool:
        return 2 in lasso.cycle and 0 not in lasso.items

    assert shrink(Lasso((1, 3), (3, 2, 1, 2)), keeps) == Lasso((), (2,))
