"""Look for the lasso that is worst for a policy: an evolutionary search that learns which changes pay.

A population of lassos, at first drawn at random. In each turn two are picked by tournament, one operator is
picked by a bandit (with a probability in proportion to how often it has lately made something better than its
parent), and what it makes takes the place of the worst if it is no worse. When nothing better has come for a
while the population is drawn anew and the best so far are kept aside; sometimes one of these is picked as a
parent. Nothing here depends on the budget or on a clock, so a search of N evaluations for one seed is the
beginning of a longer one, and a state saved in between goes on as if there had been no break.

With a policy that draws random numbers an evaluation is noisy and the luckiest lasso of many looks better
than it is. So a lasso that looks good is valued again on more seeds before it counts (each such lot is an
evaluation too), and what is reported in the end comes from fresh seeds (:mod:`adversaries.search.report`).
"""

from __future__ import annotations

import json
import random
import time
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from adversaries.search.lasso import Lasso
from adversaries.search.mutate import OPERATORS, changed, random_lasso
from adversaries.search.objective import Objective, Value
from softhit.check import check_int
from softhit.errors import BudgetExhausted, InvalidInput

__all__ = ["Budget", "Search", "longest_lasso"]

POPULATION = 32
PATIENCE = 1500
"""Evaluations without anything better after which a population is given up."""
HALL = 8
"""Lassos kept aside."""
LOTS = 8
"""Lots of further seeds on which a lasso that looks good is valued again."""

Rank = tuple[bool, Fraction, int]


@dataclass(frozen=True)
class Budget:
    """What ends a search: evaluations, or seconds; None: not limited."""

    evaluations: int | None = None
    seconds: float | None = None


def longest_lasso(n_items: int) -> int:
    """Return the default for the longest lasso: room for a few visits to each item.

    >>> longest_lasso(3), longest_lasso(9), longest_lasso(101)
    (24, 60, 303)
    """
    return max(24, min(60, 8 * n_items), 3 * n_items)


@dataclass
class _Arm:
    """How an operator has done: successes and failures, slowly forgotten."""

    good: float = 1.0
    bad: float = 4.0

    @property
    def weight(self) -> float:
        """How often it succeeds; nobody is given up altogether."""
        return 0.02 + self.good / (self.good + self.bad)

    def learn(self, success: bool) -> None:
        self.good = 0.995 * self.good + 0.005 + success
        self.bad = 0.995 * self.bad + 0.005 + (not success)


class _Entry:
    """A lasso with its value; ranked by what is worse for the policy, then by what is shorter."""

    __slots__ = ("lasso", "rank", "value")

    def __init__(self, lasso: Lasso, value: Value) -> None:
        self.lasso, self.value = lasso, value
        self.rank: Rank = (*value.rank, -len(lasso))


@dataclass
class Search:
    """A search that can be stopped, saved and continued.

    Parameters
    ----------
    objective : Objective
    seed : int
    longest : int
        Requests of a lasso, prefix and cycle together, at most.

    Attributes
    ----------
    evaluations : int
        Lassos valued so far; for a policy that draws random numbers: on one lot of seeds.
    restarts : int
    hall : list
        The best lassos of all populations with their values, best first.

    Examples
    --------
    >>> search = Search(Objective("lru", capacity=2, n_items=3), seed=1)
    >>> search.run(Budget(evaluations=1000))
    >>> search.best[1].ratio, search.evaluations
    (Fraction(6, 1), 1000)
    """

    objective: Objective
    seed: int = 0
    longest: int = 0
    evaluations: int = 0
    restarts: int = 0
    seconds: float = 0.0
    _population: list[_Entry] = field(default_factory=list)  # ascending
    _hall: list[_Entry] = field(default_factory=list)
    _arms: dict[str, _Arm] = field(default_factory=dict)
    _record: int = 0

    def __post_init__(self) -> None:
        check_int("seed", self.seed, low=0)
        objective = self.objective
        if self.longest == 0:
            self.longest = longest_lasso(objective.n_items)
        check_int("longest", self.longest, low=2, high=10_000)
        self._rng = random.Random(f"attack {self.seed}")
        self._arms = {name: _Arm() for name in OPERATORS}

    @property
    def hall(self) -> list[tuple[Lasso, Value]]:
        """The best lassos and what they are worth, best first."""
        best = sorted([*self._hall, *self._population], key=lambda e: e.rank, reverse=True)
        unique = {e.lasso.short().renumbered(): e for e in reversed(best)}
        ordered = sorted(unique.values(), key=lambda e: e.rank, reverse=True)
        return [(e.lasso, e.value) for e in ordered[:HALL]]

    @property
    def best(self) -> tuple[Lasso, Value]:
        """The best lasso so far.

        Raises
        ------
        BudgetExhausted
            Nothing was valued yet.
        """
        if not self._population and not self._hall:
            raise BudgetExhausted("the budget ended before the first evaluation")
        return self.hall[0]

    def run(
        self,
        budget: Budget,
        watch: Callable[[Search], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Go on until the budget, counted from the very beginning, is used up, or the ratio is infinite.

        ``watch`` is called after every turn; what it raises finds the state between two turns, ready for
        saving.
        """
        began, before = clock(), self.seconds
        while (budget.evaluations is None or self.evaluations < budget.evaluations) and (
            budget.seconds is None or self.seconds < budget.seconds
        ):
            self._turn()
            self.seconds = before + (clock() - began)
            if watch is not None:
                watch(self)
            if self._population and self._population[-1].value.ratio is None:
                return

    def _turn(self) -> None:
        objective, rng, population = self.objective, self._rng, self._population
        if len(population) < POPULATION:
            lasso = random_lasso(rng, objective.n_items, self.longest)
            value = objective(lasso)
            self.evaluations += 1
            self._add(_Entry(lasso, value))
            self._record = self.evaluations
            return
        made = self._child()
        if made is None:
            self._start_anew()
            return
        lasso, parent, operator = made
        value, spent = objective(lasso), 1
        best, worst = population[-1], population[0]
        if objective.random and value.rank > worst.value.rank:
            value, spent = objective(lasso, self._more_seeds()), 1 + LOTS
        self.evaluations += spent
        self._arms[operator].learn(value.rank > parent.value.rank)
        entry = _Entry(lasso, value)
        if entry.rank >= worst.rank:
            del population[0]
            self._add(entry)
        if value.rank > best.value.rank:
            self._record = self.evaluations
        elif self.evaluations - self._record > PATIENCE * (LOTS if objective.random else 1):
            self._start_anew()

    def _add(self, entry: _Entry) -> None:
        insort(self._population, entry, key=lambda e: e.rank)

    def _start_anew(self) -> None:
        self._hall, self._population = self._famous(), []
        self.restarts += 1

    def _famous(self) -> list[_Entry]:
        return [_Entry(lasso, value) for lasso, value in self.hall]

    def _more_seeds(self) -> list[int]:
        seeds = self.objective.seeds
        start = max(seeds) + 1
        return list(range(start, start + LOTS * len(seeds)))

    def _pick(self) -> _Entry:
        rng = self._rng
        if self._hall and rng.random() < 0.05:
            return self._hall[int(rng.random() * len(self._hall))]
        return self._population[max(int(rng.random() * POPULATION) for _ in range(3))]

    def _child(self) -> tuple[Lasso, _Entry, str] | None:
        """Return something new, its parent and the operator; None if this population yields nothing new."""
        rng, names = self._rng, list(self._arms)
        here = {e.lasso for e in self._population}
        weights = [arm.weight for arm in self._arms.values()]
        n, longest = self.objective.n_items, self.longest
        for _ in range(100):
            parent, other = self._pick(), self._pick()
            operator = rng.choices(names, weights)[0]
            lasso = changed(rng, parent.lasso, other.lasso, operator, n, longest)
            while lasso is not None and rng.random() < 0.25:
                lasso = changed(rng, lasso, other.lasso, rng.choice(names), n, longest)
            if lasso is not None and lasso not in here:
                return lasso, parent, operator
        return None

    def state(self) -> str:
        """Return all there is to know for going on, as JSON."""
        kind, inside, gauss = self._rng.getstate()
        return json.dumps(
            {
                "evaluations": self.evaluations,
                "restarts": self.restarts,
                "seconds": self.seconds,
                "record": self._record,
                "rng": [kind, list(inside), gauss],
                "arms": {name: [arm.good, arm.bad] for name, arm in self._arms.items()},
                "population": [_dump(e) for e in self._population],
                "hall": [_dump(e) for e in self._hall],
            }
        )

    def restore(self, text: str) -> None:
        """Go on from what :meth:`state` returned, of a search for the same objective and seed.

        Raises
        ------
        InvalidInput
            The text is no such state.
        """
        try:
            saved: dict[str, Any] = json.loads(text)
            kind, inside, gauss = saved["rng"]
            self._rng.setstate((kind, tuple(inside), gauss))
            self.evaluations, self.restarts = int(saved["evaluations"]), int(saved["restarts"])
            self.seconds, self._record = float(saved["seconds"]), int(saved["record"])
            self._arms = {name: _Arm(*saved["arms"][name]) for name in OPERATORS}
            self._population = list(_load(saved["population"]))
            self._hall = list(_load(saved["hall"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"not the state of a search: {error!r}") from None


def _dump(entry: _Entry) -> list[Any]:
    v = entry.value
    ratio = None if v.ratio is None else str(v.ratio)
    numbers = [ratio, str(v.alg), str(v.opt), v.period, v.opt_period, v.settled]
    return [list(entry.lasso.prefix), list(entry.lasso.cycle), numbers]


def _load(rows: list[Any]) -> Iterator[_Entry]:
    for prefix, cycle, (ratio, alg, opt, period, opt_period, settled) in rows:
        value = Value(
            None if ratio is None else Fraction(ratio),
            Fraction(alg),
            Fraction(opt),
            period,
            opt_period,
            settled,
        )
        yield _Entry(Lasso(tuple(prefix), tuple(cycle)), value)
