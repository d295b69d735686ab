"""G1: L1 changes at node boundaries only, never loses what is pinned or in use, and keeps its budget.

Statement
---------
With ``ContextAllocator``, whatever nodes do and in whatever order:

1. While nodes run L1 does not change; what they do is reported, and applied at the next boundary.
2. After every boundary the tokens in L1 are at most the budget. A boundary that cannot do so, because what is
   pinned has more tokens than the budget, is refused with an error that says so, and leaves the state as it
   was. It never loops: it evicts each segment at most once, loads each at most once.
3. No boundary evicts what is pinned or what it loads itself. What a starting node needs and L1 has, and what
   an output of a node that just ran names, it evicts only where it has no room beside what is pinned. (A
   segment leaves although pinned where a state field it depends on changes; what was only named, where its
   new version finds no room.)

*As written* (the post's allocator node: flush, then evict above the high mark) the budget is exceeded after
a boundary if what was flushed counts as loaded by the executing node, hence pinned: nothing bounds what is
staged. If it does not count, it is the first to leave, as it has no access: a boundary evicts what it has
just flushed for the node that is about to start. Both are in ``theory.as_written``: ``budget``,
``own-prefetch``.

Examples
--------
>>> from theory.as_written import RUNS
>>> RUNS["budget"].walk().bad
'after the boundary L1 holds 11 tokens, budget 10'

References
----------
The context-cache post: its pin rules, and "evictions at node boundaries, not mid-execution".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softhit.hierarchy.allocator import ContextAllocator
from softhit.hierarchy.view import tag
from theory.as_written import RUNS, Window, boundary_as_written, window_moves
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.explore import explore
from theory.l1_machine import NODES, Boundaries, run

__all__ = ["CLAIM"]

NEEDS = ("qdrant_client", "hypothesis")


def as_written(budget: int = 10) -> None:
    """The post's boundary exceeds its budget after two staged segments, or evicts what it flushes."""
    for name, steps in (("budget", 3), ("own-prefetch", 6)):
        walk = RUNS[name].walk()
        hold(walk.bad is not None, f"{name}: nothing is wrong in {walk.states} states")
        equal(len(walk.moves), steps, f"steps of {name}")

    def over(window: Window) -> str | None:
        return "over" if window.used > budget and not window.staged else None

    found = explore(Window(1, (), ()), window_moves(budget, (4, 7), True), over)
    hold(found.bad is not None, f"segments of 4 and 7 tokens never exceed a budget of {budget}")
    after = boundary_as_written(found.path[-2][1], budget, True)
    equal(after, found.path[-1][1], "the last boundary of the run")


def machine(make: Callable[..., ContextAllocator] = ContextAllocator, examples: int = 40) -> None:
    """On the real allocator, Qdrant on disk, four policies: budget, pins and use after every boundary."""
    run("G1", make, examples)


def pressed(make: Callable[..., ContextAllocator] = ContextAllocator) -> None:
    """On the real allocator: what is pinned, or named by an output, is the next victim but for that."""
    for policy in ("priority_lru", "lru", "fifo"):
        played = Boundaries(make, policy, None, "G1")
        try:
            for id, pinned in (("pin", True), ("named", False)):
                view = played.view(NODES[0])
                view.derive(id, f"10 of {id}", pinned=pinned)
                played.report(view.update())
                played.cross([], [], False)
            for number in range(6):
                view = played.view(NODES[0])
                view.derive(f"big{number}", f"45 of {number}")
                played.report(view.update({"answer": f"as {tag('named')} says"}))
                played.cross([], [], False)
                hold({"pin", "named"} <= set(played.context["l1"]), f"{policy}: one of the two is gone")
        finally:
            played.close()


def long_machine() -> None:
    """The same, longer."""
    run("G1", examples=400, steps=60)


class _Changed(ContextAllocator):
    """An allocator whose boundary gets a changed state or changed reports."""

    def _state(self, context: dict[str, Any]) -> dict[str, Any]:
        return context

    def _reports(self, reports: dict[str, Any]) -> dict[str, Any]:
        return reports

    def boundary(self, context: Any, reports: Any, *rest: Any, **named: Any) -> Any:
        return super().boundary(self._state(dict(context)), self._reports(dict(reports)), *rest, **named)


class ForgetsPins(_Changed):
    """Nothing is pinned."""

    def _state(self, context: dict[str, Any]) -> dict[str, Any]:
        return {**context, "l1": {id: {**s, "pinned": False} for id, s in context["l1"].items()}}


class ForgetsReferences(_Changed):
    """What an output names is not kept."""

    def _reports(self, reports: dict[str, Any]) -> dict[str, Any]:
        kept = {key: r for key, r in reports["reports"].items() if r["kind"] != "reference"}
        return {**reports, "reports": kept}


class FlushesAll(ContextAllocator):
    """As the post has it: what is staged enters, whatever the budget."""

    def boundary(self, context: Any, reports: Any, *rest: Any, **named: Any) -> Any:
        after, left = super().boundary(context, reports, *rest, **named)
        new = {id: {k: v for k, v in s.items() if k not in ("for", "p")} for id, s in after["staged"].items()}
        return {**after, "l1": {**new, **after["l1"]}, "staged": {}}, left


CLAIM = Claim(
    id="G1",
    title="budget and pins at node boundaries",
    statement=(
        "L1 changes at boundaries only; after each one its tokens are within the budget, and nothing pinned "
        "was evicted, nor what is named or needed unless pins leave it no room."
    ),
    variant="any nodes, branches, hints, sizes and policies; L2 reachable or not",
    source="the context-cache post's allocator; the order of its stages, and where it fails, are ours",
    status="proved",
    scope=(
        "the rule: proofs/G1.md; the classes: Hypothesis state machines, budget 100, segments of 1 to 101 "
        "tokens, four policies, Qdrant on disk"
    ),
    breaks="as written; more pinned tokens than the budget: refused with an error",
    checks=(
        Check("as_written", as_written),
        Check("machine", machine, needs=NEEDS),
        Check("pressed", pressed, needs=NEEDS),
        Check("long_machine", long_machine, slow=True, needs=NEEDS),
    ),
    mutants=(
        Mutant("fits", "as_written", {"budget": 100}, "three segments of 7 tokens fit into 100"),
        Mutant("forgets_pins", "pressed", {"make": ForgetsPins}, "pinned segments are evicted"),
        Mutant("forgets_references", "pressed", {"make": ForgetsReferences}, "so is what an output names"),
        Mutant("flushes_all", "machine", {"make": FlushesAll}, "the budget does not bound what is staged"),
    ),
    proofs=("G1.md",),
)
