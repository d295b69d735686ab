"""The best competitive ratio any deterministic policy can have, for tiny K and N, as an exact fraction.

The opponent chooses a request, the policy answers with what the model allows; the position is (cache,
normalised work function), which is all that later costs depend on. A policy is c-competitive from here iff
it can keep ALG - c OPT bounded: an energy game, in which both sides have optimal strategies that look at
the position only.

For a threshold r = p/q every move weighs q * alg - p * opt. Two progress measures, least fixed points
over the integers, decide who wins; each is a proof that stands on its own.

    f(v) = max(0, max over requests of min over answers of  f(v') + weight)
    g(v) = max(0, min over requests of max over answers of  g(v') - weight)

f finite at the start: some policy is r-competitive. g finite at the start: no policy is better than r.

The second is a proof because progress is forced: a request that the policy can answer so that nothing
changes and nothing is paid is taken from the opponent (it gains nothing by it), and then every cycle costs
the policy something. (With hits only, work functions grow pointwise, so a cycle of free answers changes
nothing.) Values of f and g above a limit count as infinite; the limit doubles until one side has its proof.
Each proof also names a strategy, whose own exact ratio (cycle module) tightens the bracket; the next
threshold is the simplest fraction inside, and the search ends when the two strategies meet.

A worked example: one slot, two items, lambda = 1, the order of the paper. The value is 5/2 (claim C3: 3 -
1/(1+lambda)), and LRU has 4.

>>> game_value(1, 2, 1).value
Fraction(5, 2)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.exact.arena import free_arena
from adversaries.exact.cycle import largest_ratio
from adversaries.exact.machine import Step
from adversaries.exact.product import Product, explore
from adversaries.exact.ratio import check_model
from adversaries.exact.work import make_rules
from softhit.check import check_int, fail
from softhit.errors import BudgetExhausted
from softhit.jit import jit
from softhit.variant import Variant

__all__ = ["BestPolicy", "GameValue", "game_value", "simplest_between"]

MAX_POSITIONS = 200_000
"""Positions of a game: cache and work function."""


@dataclass(frozen=True, eq=False)
class GameValue:
    """The value of the game and both strategies that prove it.

    Attributes
    ----------
    value : Fraction
        Some deterministic policy has this competitive ratio, and none has a smaller one.
    answers : int32[n, G]
        The optimal policy: the action it takes at each position and request; -1 where none was asked for.
    requests : int32[n]
        The optimal opponent: the group (request) it chooses at each position; -1 off its paths.
    upper, lower : Fraction
        Exact largest ratio of ``answers`` against every opponent, and smallest of ``requests`` against every
        policy; both equal ``value``.
    product : Product
        Positions, moves and their prices.
    """

    value: Fraction
    answers: NDArray[np.int32]
    requests: NDArray[np.int32]
    upper: Fraction
    lower: Fraction
    product: Product

    @property
    def policy(self) -> BestPolicy:
        """The optimal policy as a finite-state machine; needs stream and weights (1,).

        >>> from adversaries.exact import exact_ratio
        >>> exact_ratio(game_value(1, 2, "1/2").policy, 1, 2, "1/2").ratio
        Fraction(7, 3)
        """
        if not self.product.rules.stream or np.any(self.product.arena.weight != 1):
            fail("game", "pool, or weights other than 1", "stream with weights=(1,) for an executable policy")
        return BestPolicy(self)


@dataclass(frozen=True, eq=False)
class BestPolicy:
    """The optimal policy of a solved game in real names; a state is (position, names of its items)."""

    game: GameValue
    name: str = field(default="best", init=False)
    symmetric: bool = field(default=False, init=False)

    def initial(self, capacity: int, n_items: int) -> Hashable:
        """The game's start, for its own K and N only."""
        rules = self.game.product.rules
        check_int("capacity", capacity, low=rules.capacity, high=rules.capacity)
        check_int("n_items", n_items, low=rules.n_items, high=rules.n_items)
        return 0, self.game.product.arena.names

    def step(self, state: Any, request: int) -> Step:
        """Look the position up, answer, and rename."""
        vertex, names = state
        product = self.game.product
        q = names.index(request)
        action = int(self.game.answers[vertex, q])
        hit = q in product.held(vertex)
        if action < 0:
            # a request that changes nothing
            return Step(state, hit, -1)
        _, after, renamed = product.unroll(vertex, [action], names)
        gone = {names[i] for i in product.held(vertex)} - {renamed[i] for i in product.held(after)}
        return Step((after, renamed), hit, gone.pop() if gone else -1)


@jit
def _lift(
    to: Any, weight: Any, begin: Any, closed: Any, policy_side: Any, limit: Any, value: Any, choice: Any
) -> None:
    """Raise ``value`` to the least fixed point; what exceeds ``limit`` becomes infinite.

    Actions ``begin[g]..begin[g+1]`` answer request g, which is not there where ``closed[v, g]``.
    ``choice[v, g]`` becomes the best answer; for the opponent's measure the request chosen at v is
    ``choice[v, 0]``.
    """
    infinite = np.int64(2**62)
    changed = True
    while changed:
        changed = False
        for v in range(len(to) - 1, -1, -1):
            most = np.int64(0)
            least = infinite
            for g in range(len(begin) - 1):
                if closed[v, g]:
                    continue
                answer = infinite if policy_side else np.int64(0)
                for x in range(begin[g], begin[g + 1]):
                    u = to[v, x]
                    if u < 0:
                        continue
                    z = value[u]
                    if policy_side:
                        if z < infinite:
                            z += weight[v, x]
                        if z < answer:
                            answer = z
                            choice[v, g] = x
                    else:
                        if z < infinite:
                            z -= weight[v, x]
                        answer = max(answer, z)
                most = max(most, answer)
                if answer < least:
                    least = answer
                    if not policy_side:
                        choice[v, 0] = g
            best = most if policy_side else least
            if best > limit:
                best = infinite
            if best > value[v]:
                value[v] = best
                changed = True


@dataclass(frozen=True, eq=False)
class _Board:
    product: Product
    begin: NDArray[np.int64]
    closed: NDArray[np.bool_]

    @classmethod
    def of(cls, product: Product) -> _Board:
        group = product.arena.group
        begin = np.append(np.flatnonzero(np.diff(group, prepend=-1)), len(group)).astype(np.int64)
        stays = product.to == np.arange(product.n_vertices)[:, None]
        stuck = stays & (product.alg == 0) & (product.opt == 0)
        return cls(product, begin, np.logical_or.reduceat(stuck, begin[:-1], axis=1))

    def prove(
        self, ratio: Fraction, policy_side: bool, steps: int
    ) -> tuple[Fraction, NDArray[np.int32]] | None:
        """Try to prove value <= ratio (policy's side) or >= ratio; return the strategy's own exact ratio."""
        product = self.product
        weight = ratio.denominator * product.alg - ratio.numerator * product.opt
        limit = steps * int(np.abs(weight).max())
        if limit >= 2**61:
            raise BudgetExhausted(f"no proof for ratio {ratio} within 64-bit numbers")
        value = np.zeros(product.n_vertices, np.int64)
        choice = np.full(self.closed.shape, -1, np.int32)
        _lift(product.to, weight, self.begin, self.closed, policy_side, limit, value, choice)
        if value[0] >= 2**62:
            return None
        keep = np.zeros(product.to.shape, np.bool_)
        if policy_side:
            v, g = np.nonzero(choice >= 0)
            keep[v, choice[v, g]] = True
        else:
            of = choice[:, :1] == product.arena.group
            keep = of & (product.to >= 0)
        exact = self._ratio(keep, policy_side)
        if exact is None or (exact > ratio if policy_side else exact < ratio):
            raise AssertionError(f"a strategy proved for ratio {ratio} has ratio {exact}")
        return exact, choice

    def _ratio(self, keep: NDArray[np.bool_], policy_side: bool) -> Fraction | None:
        """Largest (smallest) ratio of the cycles that remain when one side's strategy is fixed."""
        product = self.product
        seen = np.zeros(product.n_vertices, np.bool_)
        todo = [0]
        seen[0] = True
        while todo:
            v = todo.pop()
            for u in product.to[v, keep[v]].tolist():
                if not seen[u]:
                    seen[u] = True
                    todo.append(u)
        place = np.cumsum(seen) - 1
        to = np.where(keep, place[product.to], -1)[seen].astype(np.int32)
        alg, opt = product.alg[seen], product.opt[seen]
        if policy_side:
            return largest_ratio(to, alg, opt, sources=0).ratio
        inverse = largest_ratio(to, opt, alg, sources=0).ratio
        return 1 / inverse if inverse else None


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction with the smallest denominator strictly between two fractions 0 <= low < high.

    >>> simplest_between(Fraction(5, 2), Fraction(8, 3))
    Fraction(13, 5)
    """
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    rest = high - whole
    if low == whole:
        # whole + 1/n with the least n that lies below high
        return whole + Fraction(1, rest.denominator // rest.numerator + 1)
    return whole + 1 / simplest_between(1 / rest, 1 / (low - whole))


def game_value(
    capacity: int,
    n_items: int,
    switch_cost: Any = 1,
    variant: Variant | None = None,
    weights: Sequence[int] = (1,),
    relabel: bool = True,
    max_states: int = MAX_POSITIONS,
) -> GameValue:
    """Compute the least competitive ratio that any deterministic policy has on requests to ``n_items`` items.

    Parameters
    ----------
    capacity, n_items : int
        K >= 1 and N > K, tiny: (1, 2), (1, 3), (2, 3).
    switch_cost : int, float, Fraction or str
        lambda, exactly; > 0 except in serve_then_update with stream.
    variant : Variant, optional
        With ``pool`` both sides may load any items at any step.
    weights : sequence of int
        Weights w_t the opponent may choose from. With weights 1..u and lambda * u for lambda, misses cost
        1/u, 2/u, ..., 1: soft hits on two configurations.
    relabel : bool
        Use the symmetry of the items.
    max_states : int
        Limit of positions.

    Raises
    ------
    InvalidInput
        A parameter is out of range, or there are more than ``max_states`` positions.

    Examples
    --------
    Claim C3 for lambda = 2 in the other order, and in the pool:

    >>> game_value(1, 2, 2, Variant(order="update_then_serve")).value
    Fraction(5, 2)
    >>> game_value(1, 2, 2, Variant(availability="pool")).value
    Fraction(3, 1)
    """
    variant = variant or Variant()
    k, n, lam = check_model(capacity, n_items, switch_cost, variant)
    if lam == 0 and not (variant.stream and variant.serves_first):
        fail("switch_cost", switch_cost, "> 0 for a game in update_then_serve or with pool")
    units = tuple(check_int("weights", u, low=1) for u in weights)
    if not units or len(set(units)) < len(units):
        fail("weights", weights, "distinct integers >= 1, at least one")
    arena = free_arena(k, n, variant, units, relabel)
    board = _Board.of(explore(arena, make_rules(k, n, lam, variant, heaviest=max(units)), max_states))
    return _solve(board)


def _solve(board: _Board) -> GameValue:
    low: tuple[Fraction, NDArray[np.int32]] | None = None
    high: tuple[Fraction, NDArray[np.int32]] | None = None
    steps, guess = 8, Fraction(1)
    while True:
        # the ratio of either side's best strategy may be the value: then the other side has a proof of it too
        for ratio in dict.fromkeys([guess, *([high[0]] if high else []), *([low[0]] if low else [])]):
            below, above = board.prove(ratio, False, steps), board.prove(ratio, True, steps)
            if below and (low is None or below[0] > low[0]):
                low = below
            if above and (high is None or above[0] < high[0]):
                high = above
        if low and high and low[0] == high[0]:
            return GameValue(low[0], high[1], low[1][:, 0], high[0], low[0], board.product)
        guess = simplest_between(low[0] if low else Fraction(0), high[0]) if high else 2 * guess
        steps *= 2
