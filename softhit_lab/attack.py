"""Search for the worst requests for a policy, and shrink what was found, from the command line."""

from __future__ import annotations

import json
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

from adversaries.search import Budget, Finding, Lasso, Objective, Search, choose_best, lasso_of, measure
from adversaries.search.lasso import near_of
from adversaries.search.report import ERROR, FIRST_CHOICE
from adversaries.shrink import at_least, shrink
from softhit.errors import InvalidInput
from softhit.exact import as_fraction
from softhit.io import write_trace
from softhit.policies import Policy, make_policy
from softhit.variant import Variant
from softhit_lab import ranges
from softhit_lab.cells import write_text
from softhit_lab.screen import check_place, console
from softhit_lab.sources import open_trace
from softhit_lab.telling import Telling

__all__ = ["Target", "attack", "read_budget", "shrink_trace"]

SAVE_EVERY = 5.0
"""Seconds between two saves of the state."""
SHRINK_SEEDS = 64
NOISE = Fraction(95, 100)
"""What shrinking keeps of the ratio of a policy that draws random numbers, if nothing else is asked for."""


@dataclass(frozen=True)
class Target:
    """What is attacked: a policy by name or a program, K, lambda, variant."""

    policy: str | None
    program: str | None
    capacity: int
    switch_cost: Fraction
    variant: Variant

    def __post_init__(self) -> None:
        if (self.policy is None) == (self.program is None):
            raise InvalidInput("policy must be given as --policy NAME or as --exec COMMAND, one of them")

    @contextmanager
    def open(self) -> Iterator[Policy]:
        """Yield the policy; a program runs no longer than this."""
        if self.policy is not None:
            yield make_policy(self.policy)
            return
        from adversaries.replay.line import LinePolicy

        assert self.program is not None
        with LinePolicy(self.program) as policy:
            yield policy

    @property
    def words(self) -> list[str]:
        """The options that name it."""
        chosen = ["--policy", self.policy] if self.policy is not None else ["--exec", str(self.program)]
        usual, changes = Variant(), []
        for name in Variant.__dataclass_fields__:
            if getattr(self.variant, name) != getattr(usual, name):
                changes += [f"--{name.replace('_', '-')}", str(getattr(self.variant, name))]
        return [*chosen, "-K", str(self.capacity), "-l", str(self.switch_cost), *changes]

    def facts(self) -> dict[str, Any]:
        """For the metadata of a trace."""
        return {
            "policy": self.policy if self.policy is not None else f"exec {self.program}",
            "capacity": self.capacity,
            "switch_cost": str(self.switch_cost),
            "variant": self.variant.label,
        }


def read_budget(text: str) -> Budget:
    """Read a budget: ``60s`` and ``2m`` are times, ``1e4`` is a number of evaluations.

    >>> read_budget("60s"), read_budget("1e4")
    (Budget(evaluations=None, seconds=60.0), Budget(evaluations=10000, seconds=None))
    """
    stripped = text.strip()
    for unit, length in (("s", 1), ("m", 60)):
        if stripped.endswith(unit):
            return Budget(seconds=length * float(as_fraction("budget", stripped[:-1], low=0)))
    return Budget(evaluations=ranges.whole("budget", stripped, low=1, high=10**12))


class _CtrlC:
    """Notes the first Ctrl-C, so that a turn of the search can end; the second one interrupts at once."""

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> _CtrlC:
        self._mine = threading.current_thread() is threading.main_thread()
        if self._mine:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True

    def __exit__(self, *_: object) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._before)


class _Stopped(Exception):
    """Ctrl-C between two turns."""


def attack(
    target: Target,
    budget: Budget,
    steps: int,
    n_items: int | None,
    longest: int | None,
    near: Fraction | None,
    seed: int,
    output: Path | None,
    quiet: bool = False,
) -> bool:
    """Search, measure the best from scratch, print it, write its trace; return whether Ctrl-C ended it.

    Beside ``output`` the search keeps its state while it runs and after an interruption; the same command
    goes on from there.
    """
    check_place(output)
    n = target.capacity + 1 if n_items is None else n_items
    with ExitStack() as stack:
        tell = stack.enter_context(Telling(console(error=True), quiet))
        policy = stack.enter_context(target.open())
        objective = Objective(policy, target.capacity, n, target.switch_cost, target.variant, near=near)
        search = Search(objective, seed=seed, longest=longest or 0)
        words = [*target.words, "--items", str(n), "--length", str(search.longest), "--seed", str(seed)]
        words += [] if near is None else ["--near", str(near)]
        place = None if output is None else output.with_name(output.name + ".state")
        if place is not None and place.exists():
            _restore(search, place, words)
            tell.announce(f"goes on from {place}: {search.evaluations} evaluations so far")
        stopped = _search(search, budget, place, words, tell)
        best = choose_best(search)
        words = ["softhit", "attack", *words, "--steps", str(steps), "--budget", str(search.evaluations)]
        facts = {
            "generator": "attack",
            **target.facts(),
            "seed": seed,
            "evaluations": search.evaluations,
            "command": shlex.join(words),
        }
        found = measure(objective, best.short(), steps, metadata=facts, tell=tell)
    if output is not None:
        _write(found, output)
    screen = console()
    _show(found, target, output)
    pace = f"{search.evaluations} evaluations in {search.seconds:.1f} s, {search.restarts} restarts"
    screen.print(f"search    {pace}", markup=False, soft_wrap=True)
    screen.print(f"the same  {shlex.join(words)}", markup=False, soft_wrap=True)
    if output is not None:
        goal = "inf" if found.ratio is None else _threshold(found)
        smaller = ["softhit", "shrink", str(output), *target.words, "--at-least", goal, "-o", "small.parquet"]
        screen.print(f"shrink    {shlex.join(smaller)}", markup=False, soft_wrap=True)
    if place is not None:
        if stopped:
            screen.print(f"state     {place}: the same command goes on from here", markup=False)
        else:
            place.unlink(missing_ok=True)
    return stopped


def _threshold(found: Finding) -> str:
    assert found.ratio is not None
    if found.low is None:
        return str(found.ratio)
    return f"{0.95 * float(found.ratio):.2f}"


def _search(search: Search, budget: Budget, place: Path | None, words: list[str], tell: Telling) -> bool:
    """Run the search with progress, saves and a Ctrl-C that waits for the end of a turn."""
    saved = told = search.seconds

    with _CtrlC() as ctrl_c:

        def watch(now: Search) -> None:
            nonlocal saved, told
            if ctrl_c.pressed:
                raise _Stopped
            if now.seconds - told > 0.2:
                told = now.seconds
                tell(_progress(now, budget))
            if place is not None and now.seconds - saved > SAVE_EVERY:
                saved = now.seconds
                _save(now, place, words)

        try:
            search.run(budget, watch)
        except _Stopped:
            if place is not None:
                _save(search, place, words)
            return True
    return False


def _progress(search: Search, budget: Budget) -> str:
    lasso, value = search.best
    done = (
        f"{search.evaluations} of {budget.evaluations}"
        if budget.evaluations is not None
        else f"{search.evaluations}"
    )
    of = "" if budget.seconds is None else f", {search.seconds:.0f} of {budget.seconds:.0f} s"
    return f"{done} evaluations{of}; best {value.text} with {len(lasso)} requests; {search.restarts} restarts"


def _save(search: Search, place: Path, words: list[str]) -> None:
    write_text(json.dumps({"search": shlex.join(words), "state": search.state()}), place)


def _restore(search: Search, place: Path, words: list[str]) -> None:
    try:
        saved = json.loads(place.read_text(encoding="utf-8"))
        theirs, state = saved["search"], saved["state"]
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"{str(place)!r} is not a saved search") from None
    if theirs != shlex.join(words):
        raise InvalidInput(
            f"{str(place)!r} is the state of another search ({theirs}): remove it, or give another -o"
        )
    search.restore(state)


def _show(found: Finding, target: Target, output: Path | None) -> None:
    screen = console()
    t = found.trace.n_steps
    alg = _number(found.alg)
    opt = f"OPT {_number(found.opt)} (exact)" if found.exact else f"OPT at most {_number(found.opt)} (proved)"
    half = f"the second half of {t} requests costs the policy {alg}, {opt}"
    screen.print(f"ratio     {_ratio(found)}: {half}", markup=False, soft_wrap=True)
    if len(found.seeds) > 1:
        seeds = f"mean over seeds {found.seeds.start}..{found.seeds.stop - 1}, which the search has not seen"
        if found.low is not None:
            seeds += f"; at least {found.low:.4f} (one-sided, error {ERROR:g}, Student's t)"
        screen.print(f"          {seeds}", markup=False, soft_wrap=True)
    elif found.repeats:
        screen.print("          both were seen to repeat, period after period, with this ratio", markup=False)
    screen.print(f"requests  {found.lasso}", markup=False, soft_wrap=True)
    if output is not None:
        words = ["softhit", "ratio", "--trace", str(output), *target.words, "-o", "replayed"]
        if len(found.seeds) > 1:
            words += ["--seed", str(found.seeds.start), "--seeds", str(len(found.seeds))]
        if target.policy is not None:
            screen.print(f"replay    {shlex.join(words)}", markup=False, soft_wrap=True)


def _number(value: Fraction) -> str:
    return str(value) if value.denominator < 1000 else f"{float(value):.6g}"


def _ratio(found: Finding) -> str:
    if found.ratio is None:
        return "infinite"
    if found.ratio.denominator == 1:
        return str(found.ratio)
    if found.ratio.denominator < 10_000 and found.low is None:
        return f"{found.ratio} = {float(found.ratio):.4f}"
    return f"{float(found.ratio):.4f}"


def _write(found: Finding, output: Path) -> None:
    ratio = "inf" if found.ratio is None else str(found.ratio)
    more: dict[str, Any] = {"ratio": ratio, "ratio_decimal": _ratio(found)}
    if found.low is not None:
        more |= {"ratio_low": found.low, "error": ERROR, "seeds": [found.seeds.start, found.seeds.stop]}
    facts = {**found.trace.metadata, **more}
    made = found.lasso.trace(found.trace.n_steps, found.trace.n_items, facts, near_of(found.trace))
    assert made.hash == found.trace.hash
    write_trace(made, output)


def shrink_trace(
    path: Path,
    target: Target,
    at_least_text: str | None,
    steps: int,
    output: Path | None,
    quiet: bool = False,
) -> None:
    """Shrink the lasso of a trace file, measure what is left from scratch, print it and write its trace."""
    check_place(output)
    trace = open_trace(path)
    lasso = lasso_of(trace)
    n = max(trace.n_items, target.capacity + 1)
    with ExitStack() as stack:
        tell = stack.enter_context(Telling(console(error=True), quiet))
        policy = stack.enter_context(target.open())
        near = near_of(trace)
        objective = Objective(policy, target.capacity, n, target.switch_cost, target.variant, near=near)
        seeds = list(range(FIRST_CHOICE, FIRST_CHOICE + SHRINK_SEEDS)) if objective.random else None
        now = objective(lasso, seeds).ratio
        goal = _goal(at_least_text, now, objective.random)
        if now is not None and (goal is None or now < goal):
            wanted = "inf" if goal is None else str(goal)
            raise InvalidInput(f"at_least must be at most {float(now):.6g}, the trace's own, got {wanted}")
        small = shrink(
            lasso,
            at_least(objective, goal, seeds),
            watch=lambda x: tell(f"{len(x)} requests to {len(x.items)} items"),
        )
        words = [
            "softhit",
            "shrink",
            path.name,
            *target.words,
            "--at-least",
            "inf" if goal is None else str(goal),
        ]
        facts = {"generator": "shrink", **target.facts(), "command": shlex.join(words)}
        found = measure(objective, small, steps, metadata=facts, tell=tell)
    if output is not None:
        _write(found, output)
    _show(found, target, output)
    text = f"shrunk    from {_size(lasso)} to {_size(small)}; nothing smaller by one request or item keeps "
    kept = "an infinite ratio" if goal is None else _number(goal)
    if seeds is not None:
        kept += f" as the mean of {len(seeds)} other seeds"
    console().print(text + kept, markup=False, soft_wrap=True)


def _size(lasso: Lasso) -> str:
    return f"{len(lasso.prefix)} + {len(lasso.cycle)} requests to {len(lasso.items)} items"


def _goal(text: str | None, now: Fraction | None, noisy: bool) -> Fraction | None:
    if text is None:
        return now * NOISE if now is not None and noisy else now
    return None if text.strip() == "inf" else as_fraction("at_least", text, low=0)
