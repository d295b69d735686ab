"""The context-cache post's protocols as it states them, and shortest runs in which they fail.

Nothing here is the post's code: its prose and the intent of its listings, restated as steps small enough to
walk all interleavings. Where the text allows two readings both are here, and a run names its reading.

    python -m theory.as_written                 # list the runs
    python -m theory.as_written lost-update     # print one, step by step
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from theory.explore import Walk, explore
from theory.protocols import (
    LENIENT,
    LITERAL,
    PERSISTED,
    State,
    describe,
    lost,
    moves,
    over,
    settle,
    start,
    stranded,
)

__all__ = ["RUNS", "Run", "Window", "boundary_as_written", "post_score", "show", "window_moves"]

HIGH, LOW = Fraction(85, 100), Fraction(65, 100)
WEIGHTS = Fraction(3, 5), Fraction(2, 5)


def post_score(accesses: int, last_turn: int, turn: int) -> Fraction:
    """Return the post's score, with its defaults, as its formula reads.

    Raises
    ------
    ZeroDivisionError
        The segment was accessed in this turn.

    Examples
    --------
    >>> post_score(accesses=0, last_turn=0, turn=4), post_score(accesses=1, last_turn=1, turn=4)
    (Fraction(10, 1), Fraction(15, 11))
    >>> post_score(accesses=0, last_turn=0, turn=0)
    Traceback (most recent call last):
        ...
    ZeroDivisionError: Fraction(1, 0)
    """
    recency = Fraction(1, turn - last_turn)
    return 1 / (WEIGHTS[0] * accesses + WEIGHTS[1] * recency)


class Held(NamedTuple):
    """A segment of the window as written: a new one has no access, and turn 0 as that of its last one."""

    name: str
    tokens: int
    accesses: int = 0
    last_turn: int = 0
    new: bool = False


class Window(NamedTuple):
    """L1 and the prefetch buffer between two nodes; ``gone``: what the last boundary evicted.

    ``undefined``: a segment that the last boundary had to score and could not.
    """

    turn: int
    l1: tuple[Held, ...]
    staged: tuple[Held, ...]
    gone: tuple[Held, ...] = ()
    undefined: str = ""

    @property
    def used(self) -> int:
        """Tokens in L1."""
        return sum(held.tokens for held in self.l1)


def boundary_as_written(window: Window, budget: int, new_are_pinned: bool) -> Window:
    """Return the window after the allocator's node: flush the buffer, then evict if above the high mark.

    ``new_are_pinned`` reads "loaded by the currently executing node" as what was just flushed for it. A
    segment without a score, one that was accessed in this turn, leaves last here.
    """
    flushed = tuple(held._replace(new=True) for held in window.staged)
    l1 = [held._replace(new=False) for held in window.l1] + list(flushed)
    used, gone, undefined = sum(held.tokens for held in l1), [], ""
    if Fraction(used, budget) > HIGH:
        scores = {}
        for held in l1:
            if not (held.new and new_are_pinned):
                try:
                    scores[held] = post_score(held.accesses, held.last_turn, window.turn)
                except ZeroDivisionError:
                    scores[held], undefined = Fraction(0), held.name
        for held in sorted(scores, key=lambda h: (-scores[h], h.name)):
            if used < LOW * budget:
                break
            l1.remove(held)
            gone.append(held)
            used -= held.tokens
    return Window(window.turn + 1, tuple(l1), (), tuple(gone), undefined)


def window_moves(
    budget: int, sizes: tuple[int, ...], new_are_pinned: bool, most: int = 3
) -> Callable[[Window], Iterator[tuple[str, Window]]]:
    """Return the step relation: the lookahead stages a segment, a node uses one, a boundary passes."""

    def following(window: Window) -> Iterator[tuple[str, Window]]:
        names = [held.name for held in (*window.l1, *window.staged)]
        free = [name for name in "abcd"[:most] if name not in names]
        for size in sizes if free else ():
            staged = (*window.staged, Held(free[0], size))
            text = f"the lookahead stages {free[0]}, {size} tokens"
            yield text, window._replace(staged=staged, gone=(), undefined="")
        for at, held in enumerate(window.l1):
            used = held._replace(accesses=held.accesses + 1, last_turn=window.turn)
            if held.last_turn < window.turn:
                after = (*window.l1[:at], used, *window.l1[at + 1 :])
                after_use = window._replace(l1=after, gone=(), undefined="")
                yield f"the node accesses {held.name}", after_use
        if window.turn < 4:
            after_boundary = boundary_as_written(window, budget, new_are_pinned)
            gone = ", ".join(held.name for held in after_boundary.gone) or "nothing"
            flushed = ", ".join(held.name for held in window.staged) or "nothing"
            yield f"a node boundary flushes {flushed} and evicts {gone}", after_boundary

    return following


def _say(window: Window) -> str:
    l1 = ", ".join(f"{h.name} {h.tokens}" for h in window.l1) or "empty"
    staged = ", ".join(f"{h.name} {h.tokens}" for h in window.staged)
    return f"L1: {l1} ({window.used} tokens)" + (f"; staged: {staged}" if staged else "")


@dataclass(frozen=True)
class Run:
    """A way in which the text as written fails: under which reading, and the walk that finds it."""

    title: str
    reading: str
    walk: Callable[[], Walk[Any]]
    say: Callable[[Any], str] = describe


def _lost_update() -> Walk[State]:
    return explore(start(writes=2), moves(LENIENT, 1), stranded)


def _lost_update_gone() -> Walk[State]:
    return explore(start(ids=2, writes=3), moves(LENIENT, 1), lost)


def _late_delete() -> Walk[State]:
    protocol = replace(LENIENT, marks="text")
    return explore(start(ids=2, writes=3), moves(protocol, 1), lost)


def _two_handlers() -> Walk[State]:
    protocol = replace(LENIENT, marks="text", deletes_if_same=True)
    return explore(start(handlers=2, writes=2), moves(protocol, 1), stranded)


def _persisted() -> Walk[State]:
    return explore(start(ids=2, writes=2), moves(PERSISTED, 1), lost)


def never_shrinks(capacity: int = 1) -> Callable[[State], str | None]:
    """Return the test for more points than the capacity, whatever the system then does by itself."""

    def bad(state: State) -> str | None:
        settled = settle(state, LITERAL, capacity)
        if over(capacity)(state) and over(capacity)(settled):
            dirty = all(point.dirty for point in state.l2 if point)
            return f"{over(capacity)(state)}, {'all' if dirty else 'not all'} dirty; no step is left"
        return None

    return bad


def _all_dirty() -> Walk[State]:
    return explore(start(ids=2, writes=2), moves(LITERAL, 1), never_shrinks())


def _l3_down() -> Walk[State]:
    def bad(state: State) -> str | None:
        down = all(not versions for versions in state.l3)
        wrong = over(1)(state)
        return f"{wrong}, while L3 cannot be reached" if wrong and down and state.fails_left == 0 else None

    return explore(start(ids=2, writes=2, fails=1), moves(LENIENT, 1), bad)


def _budget() -> Walk[Window]:
    def bad(window: Window) -> str | None:
        boundary = window.l1 and window.turn and not window.staged
        if boundary and window.used > 10:
            return f"after the boundary L1 holds {window.used} tokens, budget 10"
        return None

    return explore(Window(1, (), ()), window_moves(10, (4, 7), True), bad)


def _one_over_zero() -> Walk[Window]:
    def bad(window: Window) -> str | None:
        name = window.undefined
        return f"the score of {name}, accessed in this turn, is 1/(0.6 + 0.4/0)" if name else None

    return explore(Window(1, (), ()), window_moves(10, (4, 7), True), bad)


def _own_prefetch() -> Walk[Window]:
    def bad(window: Window) -> str | None:
        own = [held.name for held in window.gone if held.new]
        others = [held for held in window.l1 if held.accesses]
        if own and others and not window.undefined:
            return f"{own[0]} left at the boundary that flushed it for the node; {others[0].name} stays"
        return None

    return explore(Window(1, (), ()), window_moves(10, (4, 7), False), bad)


RUNS: dict[str, Run] = {
    "lost-update": Run(
        "a write between the handler's upsert and its dirty=False: the new text is marked clean",
        "the handler runs for dirty points, the point arrives dirty",
        _lost_update,
    ),
    "lost-update-gone": Run(
        "the same, until the text lies in no store",
        "the handler runs for dirty points, the point arrives dirty; size 1",
        _lost_update_gone,
    ),
    "late-delete": Run(
        "the eviction job selects a clean point and deletes it by its id when it has become dirty",
        "as before, and the handler marks clean only what it stored",
        _late_delete,
    ),
    "two-handlers": Run(
        "a slow handler's older text replaces a newer one in L3, which is marked clean",
        "as before, deletion also guarded; a retry starts a second handler for the same point",
        _two_handlers,
    ),
    "persisted": Run(
        "dirty=false at the write-back from L1: the text never reaches L3 and is deleted as clean",
        "the section on L2 eviction, literally: the point arrives clean; size 1",
        _persisted,
    ),
    "all-dirty": Run(
        "L2 exceeds its size and can never shrink",
        "the point arrives dirty, the handler is triggered by the eviction of a dirty point; size 1",
        _all_dirty,
    ),
    "l3-down": Run(
        "L2 exceeds its size while L3 cannot be reached, and nothing refuses the write",
        "the handler runs for dirty points and retries; size 1",
        _l3_down,
    ),
    "budget": Run(
        "the budget is exceeded after a boundary: all that was flushed is pinned",
        "what was flushed for the node counts as loaded by it, hence pinned; budget 10",
        _budget,
        _say,
    ),
    "one-over-zero": Run(
        "a boundary has to score a segment that the node before it used: 1/0",
        "a turn is one node; budget 10",
        _one_over_zero,
        _say,
    ),
    "own-prefetch": Run(
        "a boundary evicts what it has just flushed for the node, and keeps what was there",
        "what was flushed is not pinned; it has no access, so its score is the highest; budget 10",
        _own_prefetch,
        _say,
    ),
}


def show(name: str) -> str:
    """Return one run as text.

    >>> print(show("persisted"))
    dirty=false at the write-back from L1: the text never reaches L3 and is deleted as clean
    reading: the section on L2 eviction, literally: the point arrives clean; size 1
      1. the agent's text a1 is written from L1 to L2, clean
         L2: a1 clean; L3: empty
      2. the agent's text b1 is written from L1 to L2, clean
         L2: a1 clean, b1 clean; L3: empty
      3. the eviction job selects a, clean
         L2: a1 clean, b1 clean; L3: empty
      4. the eviction job deletes a1
         L2: b1 clean; L3: empty
    so: a1 is in no store; no shorter run does it
    """
    run = RUNS[name]
    walk = run.walk()
    lines = [run.title, f"reading: {run.reading}"]
    for number, (move, state) in enumerate(walk.path[1:], 1):
        lines.append(f"{number:3}. {move}")
        lines.append(f"     {run.say(state)}")
    lines.append(f"so: {walk.bad}; no shorter run does it")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """List the runs, or print those that are named."""
    names = sys.argv[1:] if arguments is None else arguments
    unknown = [name for name in names if name not in RUNS]
    if unknown:
        print(f"no run is called {unknown[0]!r}; there are: {', '.join(RUNS)}", file=sys.stderr)
        return 2
    if names:
        print("\n\n".join(show(name) for name in names))
    else:
        width = max(map(len, RUNS))
        print("\n".join(f"{name:{width}}  {run.title}" for name, run in RUNS.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
