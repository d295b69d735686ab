"""Adaptive opponents: what they ask, what they force, and that their games can be replayed."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from adversaries.adaptive import cruel, missing_item, replayed, ring
from offline_opt import solve
from softhit import InvalidInput, Session, Variant, cost, policy_names, simulate


@pytest.mark.parametrize("policy", ["fifo", "solar", "never", "lfu"])
def test_every_block_asks_for_the_smallest_item_that_is_missing(policy: str) -> None:
    game = missing_item(policy, 3, 60, "3/2", n_items=6, seed=4)
    asked = [int(i) for i in game.trace.requests]
    session = Session(policy, 6, 3, "3/2", seed=4)
    for t, item in enumerate(asked):
        if t % 3 == 0:
            assert item == min(set(range(6)) - set(session.held))
        else:
            assert item == asked[t - 1]
        session.step([item], [10_000], arrival=item)
    assert session.schedule() == game.schedule


@pytest.mark.parametrize("lam", ["0", "1/3", "1", "5/2"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_missing_item_makes_every_policy_pay_for_every_block(k: int, lam: str) -> None:
    tau, cost_of_move = ceil(Fraction(lam)) + 1, Fraction(lam)
    blocks = 6 * (k + 1)
    for policy in policy_names(clairvoyant=False):
        game = missing_item(policy, k, blocks * tau, lam)
        assert game.paid.fraction >= blocks * (1 + cost_of_move) - cost_of_move * k, policy
        best = solve(game.trace, k, lam)
        assert best.kind == "exact"
        upper = min(Fraction(tau, k + 1), (1 + cost_of_move) / k)
        assert best.lower_bound <= upper * blocks + k + tau, policy


@pytest.mark.parametrize("policy", ["lru", "solar", "random"])
def test_a_game_is_a_trace_on_which_the_same_seed_does_the_same(policy: str) -> None:
    game = missing_item(policy, 3, 300, seed=5)
    assert simulate(policy, game.trace, 3, 1, seed=5) == game.schedule
    assert game.paid == cost(game.schedule, game.trace, 3, 1)
    assert replayed(game, [5]) == [game.paid]
    facts = game.trace.metadata
    assert (facts["generator"], facts["seed"]) == ("missing_item", 5)


def test_a_deterministic_policy_cannot_escape_on_other_seeds_and_a_random_one_can() -> None:
    fixed = missing_item("lru", 4, 500)
    assert {c.fraction for c in replayed(fixed, range(1, 6))} == {fixed.paid.fraction}
    loose = missing_item("random", 4, 500, seed=0)
    others = [c.fraction for c in replayed(loose, range(1, 21))]
    assert max(others) < loose.paid.fraction


def test_the_cruel_opponent_asks_what_is_served_worst() -> None:
    quality = ring(7, near=0.25)
    game = cruel("lru", 3, 80, quality, switch_cost=2, tau=2, seed=1)
    session = Session("lru", 7, 3, 2, seed=1)
    for t, query in enumerate(game.trace.arrivals.tolist()):
        if t % 2 == 0:
            worth = [max((quality[q][i] for i in session.held), default=0) for q in range(7)]
            assert worth[query] == min(worth)
            assert query == worth.index(min(worth))
        row = np.flatnonzero(quality[query])
        session.step(row, (10_000 * quality[query][row]).astype(int), arrival=query)
    assert not game.trace.structure.hard
    assert simulate("lru", game.trace, 3, 2) == game.schedule


def test_with_hard_hits_the_cruel_opponent_is_the_one_of_the_missing_item() -> None:
    soft, hard = cruel("fifo", 2, 30, np.eye(3)), missing_item("fifo", 2, 30)
    assert soft.trace.hash == hard.trace.hash
    assert soft.paid == hard.paid


def test_the_other_order_is_played_too() -> None:
    variant = Variant(order="update_then_serve")
    game = missing_item("lru", 2, 30, variant=variant)
    assert game.paid == cost(game.schedule, game.trace, 2, 1, variant)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="n_items"):
        missing_item("lru", 3, 10, n_items=3)
    with pytest.raises(InvalidInput, match="quality"):
        cruel("lru", 2, 10, [[1, 2], [0, 1]])
    with pytest.raises(InvalidInput, match="aggregator"):
        missing_item("lru", 3, 10, variant=Variant(aggregator="coverage", top_k=2))
