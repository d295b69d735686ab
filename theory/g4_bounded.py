"""G4: L2 stays within its size under any sequence of operations; as the post writes it, it cannot shrink.

Statement
---------
L2 has a capacity C. With ``SemanticCache``, after every operation of one client, whatever the order of
writes, evictions, failures and kills:

1. L2 holds at most C rows. A new row that finds no room, after the coldest clean rows were evicted and the
   writer was asked once, is refused with ``CacheFull`` and stays in L1. A row that exists is replaced in
   place and evicts nothing.
2. A store that is opened with more rows than C never grows; it shrinks as rows become clean.
3. When L3 can be reached again it comes to rest with at most C rows, all clean.

The bound is one client's: several clients of one server that add at the same moment may exceed it by as many
rows, since a vector store has no "insert if fewer than C".

*As written* neither holds. The post's eviction job deletes clean points only, and its write-back handler is
"triggered when a dirty segment is evicted": with C + 1 dirty points the job selects nothing, so no handler
runs, so nothing becomes clean: a state with no step left. Read charitably, with a handler that runs for
dirty points by itself, L2 still grows without bound while L3 cannot be reached, as no write is refused.

Examples
--------
>>> from theory.as_written import RUNS
>>> RUNS["all-dirty"].walk().bad
'L2 holds 2 points, capacity 1, all dirty; no step is left'

References
----------
The context-cache post, "Eviction as a Qdrant Payload Filter" and "Write-Back on Dirty Segments".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from softhit.hierarchy.semantic import SemanticCache
from theory.as_written import RUNS
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.explore import explore
from theory.l2_machine import run
from theory.protocols import LENIENT, LITERAL, OURS, Protocol, State, moves, over, settle, start
from theory.stores import Stack

__all__ = ["CLAIM"]

NEEDS = ("qdrant_client", "hypothesis")


def as_written(size: int = 1, dirty: int = 2) -> None:
    """Two dirty points in an L2 of size 1: no step is left; and it grows while L3 cannot be reached."""
    stuck = RUNS["all-dirty"].walk()
    hold(stuck.bad is not None, "as written L2 shrinks again")
    equal(len(stuck.moves), dirty, "writes until it is stuck")
    down = RUNS["l3-down"].walk()
    hold(down.bad is not None, "the charitable reading refuses a write")
    for ids in (2, 3, 4):
        # all of it: whatever the order, no state of all dirty points ever changes by itself
        state = start(ids=ids, writes=ids)
        for _ in range(ids):
            state = next(
                after
                for move, after in moves(LITERAL, size)(state)
                if _is_new(state, after) and "agent" in move
            )
        equal(settle(state, LITERAL, size), state, "a step")


def _is_new(state: State, after: State) -> bool:
    return sum(p is not None for p in after.l2) > sum(p is not None for p in state.l2)


def walk(protocol: Protocol = OURS, capacity: int = 1) -> None:
    """Ours: three ids, a failure, a kill, another writer: L2 never exceeds its size, and comes to rest."""
    first = start(ids=3, handlers=1, writes=3, fails=1, kills=1, others=1)

    def bad(state: State) -> str | None:
        wrong = over(capacity)(state)
        end = settle(state, protocol, capacity)
        if wrong is None and any(end.l1):
            return "a text waits in L1 for ever"
        return wrong

    found = explore(first, moves(protocol, capacity), bad)
    hold(found.bad is None, f"{found.bad}, by: {'; '.join(found.moves)}")


def machine(cache: Callable[..., Any] = SemanticCache, examples: int = 30, steps: int = 30) -> None:
    """The classes themselves, on disk, also reopened with less room: at most C rows after every operation."""
    run("G4", lambda capacity: Stack(capacity, cache), examples, steps)


def long_machine() -> None:
    """The same, longer."""
    machine(examples=400, steps=50)


class Grows(SemanticCache):
    """As the post has it: no write is refused, an eviction job runs now and then."""

    def _make_room(self, rows: int) -> bool:
        del rows
        return True


class NeverWrites(SemanticCache):
    """Dirty rows are left out of eviction and nobody writes them back: the setter drops the writer."""

    def dirty_rows(self, limit: int = 64) -> list[Any]:
        del limit
        return []


CLAIM = Claim(
    id="G4",
    title="L2 stays within its size",
    statement=(
        "No operation of a client leaves more rows in L2 than its capacity; what does not fit is refused and "
        "stays in L1; as the post writes it, an L2 of dirty points can never shrink."
    ),
    variant="one client at a time; any order of operations, failures and kills",
    source="the context-cache post's L2 eviction; the stuck state and the refusal are ours",
    status="proved",
    scope=(
        "the protocol: proofs/G4.md, and 3 ids, 3 writes, capacity 1 walked in full; the classes: Hypothesis "
        "state machines on Qdrant and SQLite files, capacities 1 and 2"
    ),
    breaks=(
        "as written; an L2 reopened with less capacity, until L3 has what is above it; clients of one server "
        "that add at the same moment may exceed it by as many rows"
    ),
    checks=(
        Check("as_written", as_written),
        Check("walk", walk),
        Check("machine", machine, needs=NEEDS),
        Check("long_machine", long_machine, slow=True, needs=NEEDS),
    ),
    mutants=(
        Mutant("three", "as_written", {"dirty": 3}, "two points suffice for size 1"),
        Mutant("lenient", "walk", {"protocol": LENIENT}, "nothing is refused"),
        Mutant("never_written", "walk", {"protocol": replace(OURS, handler="never")}, "no trigger"),
        Mutant("class_grows", "machine", {"cache": Grows}, "no write is refused"),
        Mutant("class_never_writes", "machine", {"cache": NeverWrites}, "dirty rows for ever"),
    ),
    proofs=("G4.md",),
)
