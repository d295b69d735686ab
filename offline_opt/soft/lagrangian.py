"""A bracket around the soft optimum at scale: prices from below, schedules from above, at any time.

Lower bound: ascent on the Lagrangian dual (:mod:`offline_opt.soft.ascent`), whose prices are rounded and
evaluated in integers (:mod:`offline_opt.soft.bound`). It converges to the value of the LP relaxation, which
no solver is asked for. Upper bound: what the items choose under these prices, averaged and rounded, then
improved item by item with the slot prices charged (:mod:`offline_opt.soft.primal`), slot by slot
(:mod:`offline_opt.soft.slots`, unit sizes) and window by window (:mod:`offline_opt.soft.windows`, no score,
no coverage of several items); or a plan, made window by window with the prices as its outlook.

Everything is linear in the entries of the trace. A run can be watched, limited by iterations, seconds or
gap, interrupted, saved and resumed; limited by iterations it always gives the same answer.

>>> from softhit import from_arrays
>>> trace = from_arrays([[0, 0], [0, 0], [0.5, 0.75]], arrivals=[0, 1, -1])
>>> found = bracket(trace, capacity=1, switch_cost=1)
>>> float(found.lower_bound), float(found.cost), found.stop
(2.25, 2.25, 'optimal')
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offline_opt.result import Prices
from offline_opt.soft import windows
from offline_opt.soft.ascent import PACE, Ascent, schedule_of_pace
from offline_opt.soft.bound import cost_grid, lower_bound, round_up
from offline_opt.soft.occasions import Occasions, find_occasions, flags_of, schedule_of
from offline_opt.soft.primal import improve, round_point
from offline_opt.soft.slots import Slots
from offline_opt.soft.state import State
from softhit.check import check_int, check_real
from softhit.cost import cost, floor_units
from softhit.errors import InvalidInput
from softhit.exact import Cost, check_switch_cost
from softhit.policies import make_policy
from softhit.retrieval import utility_scale
from softhit.schedule import Schedule
from softhit.simulate import simulate
from softhit.trace import Trace
from softhit.variant import Variant

__all__ = ["Bracket", "State", "bracket", "default_iterations"]

Progress = Callable[[float, float, float, int, float], None]
Problem = tuple[Trace, int, Fraction, Variant]

WORK = 2_000_000_000
"""Iterations times entries of an ascent that is not limited otherwise."""
ASCENT_SHARE = 0.35
"""Part of a time limit that the ascent gets."""
CHECKS = 16
"""How often during an ascent the prices are rounded and evaluated in integers."""
PROMISING = 0.1
"""Occasions that the ascent held in at least this part of its later iterations may be held in windows."""
SURE = 0.97
"""Where a held item stays on that the ascent held in this part of its later iterations, the first rounds keep
it, which makes the windows longer; the others decide on it too."""
FIRST_ROUNDS = 2
WINDOW, FIRST_WINDOW, SIZED_WINDOW = 600, 300, 150
"""Occasions to decide per window: in general, in the first rounds, and where items have sizes (knapsacks are
harder)."""
WINDOW_NODES = 20
"""Nodes of the branch and bound of one window."""
WINDOW_GAP = 2e-4
"""Gap at which the branch and bound of one window stops, as a part of the window's share of the cost."""
PLANS, SIZED_PLAN = (500, 350, 230), 90
"""Occasions that a window of a plan decides; it looks ahead over as many again. The larger the better and
slower; a time limit may leave time for the smaller only."""
WORTH_A_PLAN = 1e-3
"""Gap from which on a plan from nothing is made; below it, windows around what there is do better."""
TRIAL = 8
"""Windows of a plan after which its time is estimated; one that the time limit would cut off is given up."""
FEW_SHAKES, SHAKES = 4, 30
"""How often a schedule of promising occasions is loosened by slot prices and made tight again: if a plan
may follow, and altogether if none does."""
LEAST_SHAKE, MOST_SHAKE = 0.5, 1.2
"""Slot prices are scaled by a factor between these."""
SHAKE_SWEEPS = 3
"""Sweeps over all items with the slot prices charged, as many without, and as many over all slots."""
SWEEPS = 8
"""Sweeps over all slots before and after the windows."""
RESUMED_PACE = 0.01
"""First step of a resumed ascent, which starts from good prices."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """What a run found.

    Attributes
    ----------
    schedule, cost : Schedule, Cost
        The cheapest schedule found, verified and priced by :func:`softhit.cost`.
    lower_bound : Fraction
        Proved by ``prices``, or by the floor F if they are None; rounded up to the grid of costs.
    prices : Prices or None
    stop : str
        ``optimal`` (the bounds meet), ``gap`` (the wanted gap is reached), ``iterations`` (all planned work
        is done), ``time`` or ``interrupted``.
    iterations : int
        Of the ascent, those of a resumed state included.
    seconds : float
    state : State
    notes : tuple of str
        What was left out, and why.
    """

    schedule: Schedule
    cost: Cost
    lower_bound: Fraction
    prices: Prices | None
    stop: str
    iterations: int
    seconds: float
    state: State
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """``(cost - lower_bound) / cost``; 0 if the cost is 0."""
        return float(1 - self.lower_bound / self.cost.fraction) if self.cost.units else 0.0


class _Stop(Exception):
    """Raised by a tick to end the run; its argument says why."""


class _Run:
    """One run: the bracket so far and the stages that narrow it."""

    def __init__(
        self,
        trace: Trace,
        capacity: int,
        lam: Fraction,
        variant: Variant,
        gap: float,
        time_limit: float | None,
        progress: Progress | None,
    ) -> None:
        self.began = time.monotonic()
        self.problem = (trace, capacity, lam, variant)
        self.wanted, self.limit, self.progress = gap, time_limit, progress
        self.occasions = find_occasions(*self.problem[:2], variant)
        self.grid = cost_grid(*self.problem)
        full = utility_scale(trace.quality_scale, variant)
        self.low = Fraction(floor_units(trace, variant), full)
        self.prices: Prices | None = None
        self.best: tuple[Cost, Schedule] | None = None
        self.ascent = Ascent(*self.problem, self.occasions)
        self.iterations = 0
        self.notes: list[str] = []

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def left(self) -> float | None:
        return None if self.limit is None else max(0.0, self.limit - self.seconds)

    def gap(self) -> float:
        if self.best is None or not self.best[0].units:
            return 0.0
        return float(1 - self.low / self.best[0].fraction)

    def tick(self) -> None:
        """Report, and end the run if there is a reason to."""
        if self.best is None:
            return
        high = self.best[0].fraction
        if self.progress is not None:
            self.progress(float(self.low), float(high), self.gap(), self.iterations, self.seconds)
        if self.low == high:
            raise _Stop("optimal")
        if self.gap() <= self.wanted:
            raise _Stop("gap")
        if self.left() == 0.0:
            raise _Stop("time")

    def offer(self, schedule: Schedule) -> Fraction:
        """Price a schedule, keep it if it is the cheapest, and return its cost."""
        priced = cost(schedule, *self.problem)
        if self.best is None or priced.fraction < self.best[0].fraction:
            self.best = (priced, schedule)
        return priced.fraction

    def prove(self) -> None:
        """Evaluate the best prices in integers."""
        prices = self.ascent.prices()
        bound = round_up(lower_bound(*self.problem, prices, self.occasions), self.grid)
        if bound > self.low or (bound == self.low and self.prices is None):
            self.low, self.prices = bound, prices

    def begin(self, state: State | None) -> None:
        trace, capacity, lam, variant = self.problem
        self.offer(Schedule.from_events(trace.n_steps, [], [], [], []))
        if state is not None:
            self.offer(state.schedule)
            self.ascent.resume(state.arrays)
            self.iterations = state.iterations
            self.ascent.step(0.0)
        for name in ("lru", "gated_lru"):
            self.offer(simulate(make_policy(name), trace, capacity, lam, variant=variant))
        self.prove()
        self.tick()

    def climb(self, iterations: int, pace: float, rng: np.random.Generator) -> None:
        """Raise the prices; look at the choices once, so that an early end has a fair schedule."""
        tried = False
        for j in range(iterations):
            done = j / iterations
            if self.limit is not None:
                done = max(done, self.seconds / max(1e-9, ASCENT_SHARE * self.limit))
                if done >= 1:
                    break
            self.ascent.step(*schedule_of_pace(done, pace))
            self.iterations += 1
            if (j + 1) % max(1, iterations // CHECKS) == 0:
                self.prove()
                if done >= 0.6 and not tried:
                    tried = True
                    self.shake(rng, 1)
                self.tick()
        self.ascent.settle()
        self.prove()
        self.tick()

    def focus(self, kept: NDArray[np.bool_]) -> tuple[Problem, Occasions]:
        """The problem with nothing but the entries of some occasions."""
        trace, capacity, lam, variant = self.problem
        there = np.zeros(len(trace.items), np.bool_)
        there[self.occasions.entry] = kept
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(there)])
        some = replace(
            trace,
            indptr=before[trace.indptr],
            items=trace.items[there],
            quality=trace.quality[there],
            ranks=None if trace.ranks is None else trace.ranks[there],
            query_vectors=None,
            item_vectors=None,
        )
        return (some, capacity, lam, variant), find_occasions(some, capacity, variant)

    def nearby(self) -> tuple[Problem, Occasions, NDArray[np.float32]]:
        """The problem with what is promising and what the best schedule holds; the share of its occasions."""
        assert self.best is not None
        kept = (self.ascent.share > PROMISING) | flags_of(self.occasions, self.best[1])[0]
        return *self.focus(kept), self.ascent.share[kept]

    def shake(self, rng: np.random.Generator, turns: int) -> None:
        """Turn the averaged choices into a schedule, and search around it.

        Where the slot prices are charged, items leave that are not worth them; what then enters again, item
        by item and slot by slot, is often better. Only promising entries are looked at, which is faster, and
        better: the others tempt.
        """
        prices = self.ascent.prices()
        kept = self.ascent.share > PROMISING
        problem, occasions = self.focus(kept)
        now = round_point(occasions, self.ascent.share[kept], *problem[:2])
        slots = Slots(now, *problem, occasions) if problem[0].structure.unit_sizes else None
        lowest: Fraction | None = None
        for turn in range(turns):
            factor = rng.uniform(LEAST_SHAKE, MOST_SHAKE) if turn else 1.0
            charged = replace(prices, slot=(prices.slot * factor).astype(np.int64))
            found = improve(
                now,
                *problem,
                time_limit=self.left(),
                max_sweeps=SHAKE_SWEEPS,
                occasions=occasions,
                prices=charged,
            )
            if slots is not None:
                slots.load(found)
                for _ in range(SHAKE_SWEEPS):
                    if not slots.sweep(rng, self.late):
                        break
                found = slots.schedule()
            priced = self.offer(found)
            if lowest is None or priced <= lowest:
                now, lowest = found, priced
            self.tick()

    def late(self) -> bool:
        return self.left() == 0.0

    def reslot(self, rng: np.random.Generator, everywhere: bool = False) -> None:
        """Improve the best schedule slot by slot, or item by item if items have sizes.

        Unless ``everywhere``, only what is promising can enter.
        """
        assert self.best is not None
        problem, occasions = self.problem, self.occasions
        if not everywhere:
            problem, occasions, _ = self.nearby()
        if not self.problem[0].structure.unit_sizes:
            self.offer(improve(self.best[1], *problem, self.left(), occasions=occasions))
            self.tick()
            return
        slots = Slots(self.best[1], *problem, occasions)
        for _ in range(SWEEPS):
            try:
                gain = slots.sweep(rng, self.late)
            finally:
                self.offer(slots.schedule())
            self.tick()
            if not gain:
                break

    def plan(self) -> bool:
        """Make a schedule from nothing, window by window; return whether one was made."""
        problem, occasions = self.focus(self.ascent.share > PROMISING)
        tool = windows.Windows(*problem, occasions, np.ones(len(occasions), np.bool_))
        prices = self.ascent.state()
        tool.outlook(prices["serve"], prices["slot"], float(prices["entry"][0]))
        for size in PLANS if problem[0].structure.unit_sizes else (SIZED_PLAN,):
            flags = self.planned(tool, len(occasions), size)
            if flags is not None and tool.valid(*flags):
                self.offer(schedule_of(occasions, problem[0].n_steps, *flags))
                self.tick()
                return True
        self.notes.append("no plan: the time limit would cut it off, or HiGHS found none")
        return False

    def planned(
        self, tool: windows.Windows, n: int, size: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Flags of a plan with windows of ``size`` occasions, or None."""
        assert self.best is not None
        held, entered = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        cuts = tool.cuts(held, size)
        began, total = self.seconds, float(self.best[0])
        for number, (begin, middle) in enumerate(itertools.pairwise(cuts)):
            end = cuts[min(number + 2, len(cuts) - 1)]
            gap = WINDOW_GAP * total * (end - begin) / cuts[-1]
            if not tool.plan(held, entered, begin, middle, end, WINDOW_NODES, gap, self.left()):
                return None
            self.tick()
            left = self.left()
            if left is not None and number == TRIAL:
                each = (self.seconds - began) / (TRIAL + 1)
                if each * (len(cuts) - TRIAL - 2) > left:
                    return None
        return held, entered

    def solve_windows(self, turn: int) -> None:
        """Solve one window after the other; the cuts move with each turn."""
        assert self.best is not None
        n_steps = self.problem[0].n_steps
        problem, occasions, share = self.nearby()
        sure = share > SURE if turn < FIRST_ROUNDS else None
        size = FIRST_WINDOW if turn < FIRST_ROUNDS else WINDOW
        if not problem[0].structure.unit_sizes:
            size = SIZED_WINDOW
        tool = windows.Windows(*problem, occasions, share > PROMISING, sure)
        held, entered = flags_of(occasions, self.best[1])
        cuts = tool.cuts(held, size, turn / 2)
        total = float(self.best[0])
        try:
            for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
                gap = WINDOW_GAP * total * (end - begin) / n_steps
                found = tool.solve(held, entered, begin, end, WINDOW_NODES, gap, self.left())
                if found is not None:
                    held, entered = found
                if number % 16 == 15 or self.late():
                    self.offer(schedule_of(occasions, n_steps, held, entered))
                    self.tick()
        finally:
            self.offer(schedule_of(occasions, n_steps, held, entered))
        self.tick()

    def run(self, state: State | None, iterations: int, rounds: int, seed: int) -> str:
        """Go through all stages; return why the run ended."""
        trace, _, _, variant = self.problem
        rng = np.random.default_rng(seed)
        if (why := windows.not_supported(trace, variant)) is not None:
            self.notes.append(f"no windows: {why}")
        try:
            self.begin(state)
            self.climb(iterations, PACE if state is None else RESUMED_PACE, rng)
            self.shake(rng, FEW_SHAKES)
            if why is not None or self.gap() < WORTH_A_PLAN or not self.plan():
                self.shake(rng, SHAKES - FEW_SHAKES)
            self.reslot(rng)
            self.reslot(rng, everywhere=True)
            turn = 0
            while self.limit is not None or turn < rounds:
                assert self.best is not None
                before = self.best[0].fraction
                if why is None:
                    self.solve_windows(turn)
                self.reslot(rng)
                turn += 1
                if self.best[0].fraction == before and turn > FIRST_ROUNDS + 1:
                    break
        except _Stop as reason:
            return str(reason)
        except KeyboardInterrupt:
            return "interrupted"
        return "iterations"


def default_iterations(trace: Trace) -> int:
    """Return the iterations of an ascent that is not limited otherwise: 500 to 4000, by size."""
    return int(np.clip(WORK // max(1, len(trace.items)), 500, 4000))


def bracket(
    trace: Trace,
    capacity: int,
    switch_cost: Any,
    variant: Variant | None = None,
    iterations: int | None = None,
    rounds: int = 4,
    gap: float = 0.0,
    time_limit: float | None = None,
    progress: Progress | None = None,
    state: State | None = None,
    seed: int = 0,
) -> Bracket:
    """Return a lower bound and a schedule; every variant, sizes and weights, any number of entries.

    With a score, and for ``coverage``, the lower bound is that of a relaxation.

    Parameters
    ----------
    trace : Trace
    capacity : int
    switch_cost : int, float, Fraction or str
    variant : Variant, optional
    iterations : int, optional
        Of the ascent; default :func:`default_iterations`.
    rounds : int
        Times that windows and slots take turns afterwards; with a time limit they go on until it is over
        or nothing is gained.
    gap : float
        Stop when ``(cost - bound) / cost`` is at most this.
    time_limit : float, optional
        Seconds; then the answer depends on the machine.
    progress : callable, optional
        Called with (lower bound, upper bound, gap, iteration, seconds). A KeyboardInterrupt, here or anywhere
        else in the run, ends the run, not the program: the bracket so far is returned.
    state : State, optional
        Where an earlier run of the same instance ended. The bracket can only get narrower.
    seed : int
        Of the dealing of stays to slots.

    Raises
    ------
    InvalidInput
        A parameter is out of range, or the state belongs to another instance.
    """
    kind = variant or Variant()
    slots, lam = check_int("capacity", capacity, low=1), check_switch_cost(switch_cost)
    steps = default_iterations(trace) if iterations is None else check_int("iterations", iterations, low=0)
    rounds, seed = check_int("rounds", rounds, low=0), check_int("seed", seed, low=0)
    wanted = check_real("gap", gap, low=0)
    limit = None if time_limit is None else check_real("time_limit", time_limit, low=0)
    instance = f"{trace.hash} {slots} {lam} {kind.label}"
    if state is not None and state.instance != instance:
        raise InvalidInput(f"the state is of another instance: {state.instance}, not {instance}")
    run = _Run(trace, slots, lam, kind, wanted, limit, progress)
    if state is not None:
        state.fits(trace, len(run.occasions))
    stop = run.run(state, steps, rounds, seed)
    if run.best is None:  # interrupted before anything was priced
        run.offer(Schedule.from_events(trace.n_steps, [], [], [], []))
    assert run.best is not None
    priced, schedule = run.best
    if run.low == priced.fraction:
        stop = "optimal"
    kept = {
        name: getattr(schedule, name) for name in ("leave_ptr", "leave_items", "enter_ptr", "enter_items")
    }
    return Bracket(
        schedule=schedule,
        cost=priced,
        lower_bound=run.low,
        prices=run.prices,
        stop=stop,
        iterations=run.iterations,
        seconds=run.seconds,
        state=State(instance, {**run.ascent.state(), **kept}, run.iterations),
        notes=tuple(run.notes),
    )
