"""G3: no newest dirty text is ever lost between L1, L2 and L3; as the post writes it, it is, in five steps.

Statement
---------
Texts that an agent derived go from L1 to L2 when they leave the window or the run ends, and from L2 to L3
later, by a worker. Between any two calls of a store anything may happen: other writes, evictions, other
workers, failures of L2 or L3, somebody else's writes to L3, a kill. Then at all times the newest text of
every id lies in L1's checkpoint, or in a row of L2 that is marked dirty, or in L3 (invariant I). When all is
reachable again and nothing more is written it is in L3, byte for byte.

Older texts of an id that were superseded before they reached L3 may be skipped.

Assumptions: a call of a store is one step, done or not done when it fails or the process dies (SQLite
commits; Qdrant local mode writes through SQLite; a server acknowledges with ``wait``). One store is one
folder or server; nobody deletes records of L3.

*As written* (the post's section on write-back) I does not hold, by three different races, and without any
race if its sentence on L1's write-back, ``dirty=false``, is read literally: see ``theory.as_written``.

Proof
-----
In ``proofs/G3.md``: every step keeps I, and that what a worker has stored or a clean row has is in L3. Each
of the conditions of our protocol is needed: without any one of them a walk finds a loss.

Examples
--------
>>> from theory.as_written import RUNS
>>> RUNS["lost-update"].walk().moves[2:]  # doctest: +NORMALIZE_WHITESPACE
['handler 1 stores a1 in L3', "the agent's text a2 is written from L1 to L2, dirty",
 'handler 1 marks a clean']

References
----------
The context-cache post, "Write-Back on Dirty Segments". Compare-and-set instead of a dirty bit is common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from softhit.hierarchy.allocator import ContextAllocator
from softhit.hierarchy.semantic import SemanticCache
from theory import artefact
from theory.as_written import RUNS
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.explore import explore
from theory.l1_machine import run as run_l1
from theory.l2_machine import races, run
from theory.protocols import (
    OURS,
    Copy,
    Point,
    Protocol,
    State,
    lost,
    moves,
    over,
    settle,
    start,
    stranded,
)
from theory.stores import Interrupted, Stack

__all__ = ["CLAIM"]

NEEDS = ("qdrant_client", "hypothesis")


def _wrong(state: State) -> str | None:
    return lost(state) or stranded(state) or over(1)(state)


def as_written(protocol: Protocol | None = None) -> None:
    """Each of the post's races loses a text within the stated number of steps, and no fewer do it."""
    lengths = {"lost-update": 5, "lost-update-gone": 8, "late-delete": 8, "two-handlers": 7, "persisted": 4}
    for name, steps in lengths.items():
        walk = RUNS[name].walk()
        hold(walk.bad is not None, f"{name}: nothing is lost in {walk.states} states")
        equal(len(walk.moves), steps, f"steps of {name}")
    if protocol is not None:  # a mutant: ours in place of the post's
        hold(explore(start(writes=2), moves(protocol, 1), stranded).bad is not None, "nothing is stranded")


def walk(protocol: Protocol = OURS, handlers: int = 2, writes: int = 3, states: int | None = 166_058) -> None:
    """Ours: two ids, two workers, three writes, a failure, a kill, another writer: no state loses a text."""
    first = start(ids=2, handlers=handlers, writes=writes, fails=1, kills=1, others=1)
    found = explore(first, moves(protocol, 1), _wrong)
    hold(found.bad is None, f"{found.bad}, by: {'; '.join(found.moves)}")
    if states is not None:
        equal(found.states, states, "states")


def refresh(protocol: Protocol = OURS) -> None:
    """A search that brings a row up to L3's record overwrites nothing that L3 lacks: walked like the rest."""
    first = start(ids=2, handlers=1, writes=3, kills=1, others=1, compares=1)
    found = explore(first, moves(protocol, 1), _wrong)
    hold(found.bad is None, f"{found.bad}, by: {'; '.join(found.moves)}")


def deeper() -> None:
    """The same with one worker and five writes, and with two workers and three ids."""
    for first in (
        start(ids=2, handlers=1, writes=5, fails=2, kills=2, others=1),
        start(ids=3, handlers=2, writes=3, fails=1, kills=1),
    ):
        found = explore(first, moves(OURS, 1), _wrong)
        hold(found.bad is None, f"{found.bad}, by: {'; '.join(found.moves)}")


def comes_to_rest(protocol: Protocol = OURS) -> None:
    """From every state that two ids and one worker reach, undisturbed, all newest texts come to L3."""

    def unsettled(state: State) -> str | None:
        end = settle(state, protocol, 1)
        for id_, content in enumerate(end.newest):
            if content and not any(stored == content for stored, _ in end.l3[id_]):
                return f"text {content} of id {id_} never reaches L3"
        return None

    first = start(ids=2, handlers=1, writes=3, fails=1, kills=1, others=1)
    found = explore(first, moves(protocol, 1), unsettled)
    hold(found.bad is None, f"{found.bad}, after: {'; '.join(found.moves)}")


def _invariant(state: State) -> bool:
    """I, and: what a worker has stored, a clean row has, or a search has read from one, is in L3."""
    content, point = state.newest[0], state.l2[0]
    there = {stored for stored, _ in state.l3[0]}
    safe = content == 0 or content in there or state.l1[0] == content
    safe = safe or (point is not None and point.dirty and point.content == content)
    read = all(content in there for _, _, content in state.compared)
    clean = point is None or point.dirty or point.content in there
    return (
        safe and read and clean and all(c is None or not c.done or c.content in there for c in state.handlers)
    )


def _states() -> Iterator[State]:
    """Every state of one id with texts 1, 2 and versions 1, 2 that has the invariant, reachable or not."""
    contents, versions = (1, 2), (1, 2)
    points = [None, *(Point(*p) for p in product(contents, versions, (False, True)))]
    records = list(product((*contents, -1), versions))
    histories: list[tuple[tuple[int, int], ...]] = [(), *((r,) for r in records)]
    histories += [(a, b) for a, b in product(records, repeat=2) if a[1] < b[1]]
    copies = [None, *(Copy(0, *c) for c in product(contents, versions, (False, True)))]
    doomed: list[tuple[tuple[int, int], ...]] = [(), ((0, 1),), ((0, 2),)]
    compared: list[tuple[tuple[int, int, int], ...]] = [
        (),
        *(((0, *c),) for c in product(versions, contents)),
    ]
    for newest, l1, point, history, copy, chosen, read in product(
        (0, 1, 2), (0, 1, 2), points, histories, copies, doomed, compared
    ):
        # the newest text has the highest number; superseded ones may lie anywhere
        if l1 in (0, newest) and (point is None or point.content <= newest):
            state = State((newest,), (l1,), (point,), (history,), (copy,), chosen, read, 1, 1, 1, 1, 1)
            if _invariant(state):
                yield state


def step_by_step(protocol: Protocol = OURS) -> None:
    """The induction step: no move leads from a state with the invariant, reachable or not, to one without."""
    step, seen = moves(protocol, 1), 0
    for state in _states():
        seen += 1
        for move, after in step(state):
            hold(_invariant(after), f"{move!r} breaks the invariant of {state}")
    equal(seen, 21_210, "states with the invariant")


def interrupted(
    cache: Callable[..., Any] = SemanticCache,
    vectors: Callable[..., Any] = Interrupted,
    documents: Callable[..., Any] = Interrupted,
) -> None:
    """The classes themselves, on disk: one client interrupted by another one, in 180 cases."""
    stack = Stack(1000, cache, None, vectors, documents)
    try:
        equal(races(stack), 180, "cases")
    finally:
        stack.close()


def machine(
    cache: Callable[..., Any] = SemanticCache,
    vectors: Callable[..., Any] = Interrupted,
    documents: Callable[..., Any] = Interrupted,
    examples: int = 30,
    steps: int = 30,
) -> None:
    """The classes themselves, on disk: any order of writes, evictions, failures, interruptions and kills."""
    run("G3", lambda capacity: Stack(capacity, cache, None, vectors, documents), examples, steps)


def window(make: Callable[..., Any] = ContextAllocator, examples: int = 30) -> None:
    """L1 itself: after every boundary each newest text is dirty in the state, or L2 has it."""
    run_l1("G3", make, examples)


def long_machine() -> None:
    """The same, longer."""
    machine(examples=400, steps=50)
    window(examples=400)


class DropsWhatWaits(ContextAllocator):
    """What L2 does not take when it leaves L1 is dropped."""

    def boundary(self, *args: Any, **named: Any) -> Any:
        after, left = super().boundary(*args, **named)
        return {**after, "unsaved": {}}, left


class MarksAnyVersion(SemanticCache):
    """As the post has it: the point is marked clean, whatever it holds by now."""

    def mark_clean(self, id: str, version: int, digest: str | None = None) -> bool:
        del version, digest
        return self.vectors.patch(id, {"dirty": 0})


class ComparesVersionsOnly(Interrupted):
    """A row is replaced if it has the version that was read, whatever its text."""

    def upsert(self, *args: Any, digest: str | None = None) -> Any:
        del digest
        return self.__getattr__("upsert")(*args)


class ArrivesClean(SemanticCache):
    """As the post has it: what L1 writes back counts as persisted."""

    def put(self, segment: Any, text: str, dirty: bool = True) -> Any:
        del dirty
        return super().put(segment, text, dirty=False)


class DeletesById(Interrupted):
    """As the post has it: points are deleted by their ids, whatever they hold by now."""

    def delete(self, rows: Any, clean_only: bool = True) -> int:
        self.before.pop("delete", lambda: None)()
        del clean_only
        present = self.inner.fetch([row.id for row in rows])
        return int(self.inner.delete(list(present.values()), clean_only=False))


class OneRecordAKey(Interrupted):
    """As the post has it: a store replaces the record, whatever was there."""

    def upsert(self, key: str, text: str, metadata: Any, expected: int, *, version: int | None = None) -> Any:
        self.before.pop("upsert", lambda: None)()
        if self.down:
            return self.__getattr__("upsert")(key, text, metadata, expected, version=version)
        self.inner.delete(key)
        record = self.inner.upsert(key, text, metadata, 0, version=version or expected + 1)
        self.after.pop("upsert", lambda: None)()
        return record


def killed(least: int = 10_000) -> None:
    """Of the stored run of tests/crash no kill lost anything: `python -m tests.crash --all` repeats it."""
    rows = artefact.read(artefact.FOLDER / "g3_sigkill.csv")
    points = sum(int(row["points"]) for row in rows)
    hold(points >= least, f"{points} points, at least {least} were to be tried")
    equal(sum(int(row["wrong"]) for row in rows), 0, f"points of {points} at which something was wrong")
    for row in rows:
        hold(int(row["accepted"]) > 0, f"nothing was at stake in {row['scenario']}")


CLAIM = Claim(
    id="G3",
    title="nothing dirty is lost",
    statement=(
        "At all times the newest text of every id is in L1's checkpoint, in a dirty row of L2 or in L3; as "
        "the post writes it a text is marked clean though L3 lacks it after five steps."
    ),
    variant="any number of ids, writers, workers and kills; a call of a store is one step",
    source="the context-cache post's write-back; its races and the protocol with compare-and-set are ours",
    status="proved",
    scope=(
        "the protocol: by induction, and walked in full for 2 ids, 2 workers, 3 writes (166,058 states); the "
        "classes: state machines on disk; processes killed before, after or within 10,427 of their writes"
    ),
    breaks="as written; if a store acknowledges what it loses; if somebody deletes records of L3",
    checks=(
        Check("as_written", as_written),
        Check("walk", walk),
        Check("refresh", refresh),
        Check("deeper", deeper, slow=True),
        Check("comes_to_rest", comes_to_rest),
        Check("step_by_step", step_by_step),
        Check("interrupted", interrupted, needs=("qdrant_client",)),
        Check("machine", machine, needs=NEEDS),
        Check("window", window, needs=NEEDS),
        Check("killed", killed),
        Check("long_machine", long_machine, slow=True, needs=NEEDS),
    ),
    mutants=(
        Mutant("more_kills", "killed", {"least": 20_000}, "so many points were not tried"),
        Mutant("ours", "as_written", {"protocol": OURS}, "nothing is stranded with compare-and-set"),
        Mutant("marks_always", "walk", {"protocol": replace(OURS, marks="always")}, "the lost update"),
        Mutant(
            "marks_version",
            "walk",
            {"protocol": replace(OURS, marks="version")},
            "a version number that was used twice: the row was evicted, its id derived anew",
        ),
        Mutant(
            "renumbers_down",
            "walk",
            {"protocol": replace(OURS, marks="version", renumbers_down=True)},
            "two texts get one version",
        ),
        Mutant(
            "deletes_by_id", "walk", {"protocol": replace(OURS, deletes_if_same=False)}, "the late delete"
        ),
        Mutant("stores_over", "walk", {"protocol": replace(OURS, stores_if_expected=False)}, "two workers"),
        Mutant("arrives_clean", "walk", {"protocol": replace(OURS, arrives_dirty=False)}, "dirty=false"),
        Mutant(
            "refreshes_version",
            "refresh",
            {"protocol": replace(OURS, refreshes="version")},
            "evicted and derived anew between look and write: the version is the same",
        ),
        Mutant("never_written", "comes_to_rest", {"protocol": replace(OURS, handler="never")}, "no trigger"),
        Mutant(
            "induction_marks", "step_by_step", {"protocol": replace(OURS, marks="version")}, "not inductive"
        ),
        Mutant(
            "induction_deletes", "step_by_step", {"protocol": replace(OURS, deletes_if_same=False)}, "neither"
        ),
        Mutant("class_clean", "machine", {"cache": ArrivesClean}, "dirty=false on the real classes"),
        Mutant("class_deletes", "interrupted", {"vectors": DeletesById}, "the post's eviction job"),
        Mutant("class_stores", "interrupted", {"documents": OneRecordAKey}, "the post's upsert"),
        Mutant("drops_what_waits", "window", {"make": DropsWhatWaits}, "L2 was cut off when it left L1"),
        Mutant("class_versions", "interrupted", {"vectors": ComparesVersionsOnly}, "a number used twice"),
        Mutant("class_marks", "interrupted", {"cache": MarksAnyVersion}, "the post's handler"),
    ),
    proofs=("G3.md",),
)
