"""A state machine over the real L2 and L3: writes, evictions, failures, interruptions, kills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from softhit.errors import CacheFull, HierarchyError, Unavailable
from theory.claim import Refuted, equal, hold
from theory.stores import Agent, Stack, play, stored

__all__ = ["act", "races", "run", "safe", "settled", "within"]

IDS = ("a", "b", "c")
# Between which two calls of one client another one may act: before a write to L2 is made, a row is marked or
# deleted, and before and after a record is stored; and which call of the first one has such a moment.
POINTS = (
    ("vectors", "before", "upsert", "write"),
    ("vectors", "before", "patch", "back"),
    ("vectors", "before", "delete", "evict"),
    ("documents", "before", "upsert", "back"),
    ("documents", "after", "upsert", "back"),
)
ACTS = ("write", "back", "evict", "write and back")
# For `races`: what is there before, what a client is interrupted in, and by what.
BEFORE = (
    ("write",),
    ("write", "back"),
    ("write", "back", "write"),
    ("write", "back", "evict"),
    ("write", "back", "others"),
    ("others", "write"),
)
MOMENTS = (*POINTS, ("vectors", "before", "upsert", "search"))
MEANWHILE = (*ACTS, "evict and write")


def safe(stack: Stack, agent: Agent) -> None:
    """Raise ``Refuted`` unless every newest text waits in L1, is a dirty row of L2, or is in L3."""
    for id, text in agent.newest.items():
        waits = id in agent.waiting and agent.texts[agent.waiting[id].digest] == text
        row = stack.vectors.inner.fetch([id]).get(id)
        dirty = row is not None and row.dirty and row.payload["text"] == text
        if not waits and not dirty:
            there = stored(stack.documents.inner, id)
            hold(
                text in there, f"{text!r} of {id} is not in L3 ({there}), nor dirty in L2 ({row}), nor in L1"
            )


def within(stack: Stack, most: int) -> None:
    """Raise ``Refuted`` if L2 holds more rows than its capacity, or than it held when it was opened."""
    count = stack.vectors.inner.count()
    hold(count <= most, f"L2 holds {count} rows, capacity {stack.capacity}, {most} allowed")


def settled(stack: Stack, agent: Agent) -> None:
    """Raise ``Refuted`` unless all comes to rest with reachable stores: texts in L3, L2 clean and in size."""
    stack.calm()
    for _ in range(2 * len(IDS) + 4):
        agent.retry(stack.cache)
        stack.writer.step()
    stack.cache.evict()
    equal(sorted(agent.waiting), [], "segments that still wait in L1 when all is reachable again")
    equal(stack.cache.count(dirty=True), 0, "dirty rows of L2 when all is reachable again")
    count = stack.cache.count()
    hold(count <= stack.capacity, f"L2 comes to rest with {count} rows, capacity {stack.capacity}")
    for id, text in agent.newest.items():
        there = stored(stack.documents.inner, id)
        hold(text in there, f"{text!r} of {id} did not reach L3, which has {there}")


def act(stack: Stack, agent: Agent, what: str, id: str, other: bool = False) -> None:
    """Let a client write, write back, search, or evict all it can, or somebody else store a record in L3."""
    cache = stack.other if other else stack.cache
    writer = stack.other_writer if other else stack.writer
    if what in ("evict", "evict and write"):
        cache.evict(0)
    if what in ("write", "write and back", "evict and write"):
        agent.write(cache, id, not other)
    if what in ("back", "write and back"):
        writer.step()
    if what == "search":
        cache.get([id])
    if what == "others":
        documents = stack.documents.inner
        documents.upsert(id, f"another text of {id}", {}, documents.version(id))


def races(stack: Stack) -> int:
    """Interrupt a client by another one at every moment, by every act, in every situation; say how often.

    Each case has an id of its own, in one store. Raises ``Refuted`` if a newest text is lost.
    """
    agent = Agent()
    for number, (before, point, meanwhile) in enumerate(product(BEFORE, MOMENTS, MEANWHILE)):
        id = f"case{number}"
        which, when, name, during = point
        store = getattr(stack, which)
        for what in before:
            act(stack, agent, what, id)
        getattr(store, when)[name] = partial(act, stack, agent, meanwhile, id, True)
        act(stack, agent, during, id)
        getattr(store, when).clear()
        try:
            safe(stack, agent)
        except Refuted as error:
            how = f"{'; '.join(before)}; {during}, and {when} its {which}.{name} another client: {meanwhile}"
            raise Refuted(f"{error}; after {how}") from error
        # what was looked at once, and is at rest, stays so
        stack.writer.step()
        agent.newest.clear()
    return len(BEFORE) * len(MOMENTS) * len(MEANWHILE)


def run(watch: str, make: Callable[[int], Stack], examples: int, steps: int) -> None:
    """Play the machine; watch that nothing is lost (``"G3"``), or that L2 is within its size (``"G4"``).

    In the end all is reachable, and everything comes to rest. For G3 a second client acts between two calls
    of the first one; for G4 there is one client at a time.

    Parameters
    ----------
    make : callable
        Capacity -> an opened stack.
    """
    import hypothesis.strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

    ids = st.sampled_from(IDS)

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.agent = Agent()
            self.done: list[str] = []

        @initialize(capacity=st.integers(1, 2))
        def open(self, capacity: int) -> None:
            self.done.append(f"open({capacity})")
            self.stack = make(capacity)
            self.most = capacity

        def _try(self, name: str, act: Callable[[], Any]) -> None:
            self.done.append(name)
            try:
                act()
            except (CacheFull, Unavailable):
                pass
            except HierarchyError as error:
                raise Refuted(f"{name} raised {error!r} after {self.done}") from error

        @rule(id=ids, knows=st.booleans())
        def write(self, id: str, knows: bool) -> None:
            self._try(f"write {id}", lambda: self.agent.write(self.stack.cache, id, knows))

        @rule()
        def retry(self) -> None:
            self._try("retry", lambda: self.agent.retry(self.stack.cache))

        @rule()
        def write_back(self) -> None:
            self._try("write back", self.stack.writer.step)

        @rule(rows=st.integers(0, 2))
        def evict(self, rows: int) -> None:
            self._try(f"evict to {rows}", lambda: self.stack.cache.evict(rows))

        @rule(id=ids)
        def use(self, id: str) -> None:
            self._try(f"use {id}", lambda: self.stack.cache.touch([id]))
            self._try(f"search {id}", lambda: self.stack.cache.search(f"case {id}", 2))

        @rule(id=ids, number=st.integers(0, 3))
        def somebody_stores(self, id: str, number: int) -> None:
            self.done.append(f"somebody stores {id}")
            documents = self.stack.documents.inner
            documents.upsert(id, f"another text {number} of {id}", {}, documents.version(id))

        def _act(self, what: str, id: str, other: bool) -> None:
            act(self.stack, self.agent, what, id, other)

        @rule(which=st.sampled_from(["vectors", "documents"]), what=st.sampled_from(ACTS), id=ids)
        def cut_off(self, which: str, what: str, id: str) -> None:
            getattr(self.stack, which).down = True
            self._try(f"{what} {id} while {which} cannot be reached", lambda: self._act(what, id, False))
            getattr(self.stack, which).down = False

        @precondition(lambda self: watch == "G3")
        @rule(point=st.sampled_from(POINTS), what=st.sampled_from(ACTS), id=ids)
        def interrupt(self, point: tuple[str, str, str, str], what: str, id: str) -> None:
            self.meanwhile(point, what, id)

        # once more, so that it comes more often
        @precondition(lambda self: watch == "G3")
        @rule(point=st.sampled_from(POINTS), what=st.sampled_from(ACTS), id=ids, first=st.sampled_from(ACTS))
        def interrupt_after(self, point: tuple[str, str, str, str], what: str, id: str, first: str) -> None:
            self._try(f"{first} {id}", lambda: self._act(first, id, False))
            self.meanwhile(point, what, id)

        def meanwhile(self, point: tuple[str, str, str, str], what: str, id: str) -> None:
            which, when, name, during = point

            def acts() -> None:
                self._try(f"(meanwhile another client: {what} {id})", lambda: self._act(what, id, True))

            store = getattr(self.stack, which)
            getattr(store, when)[name] = acts
            self._try(f"{during} {id}, {when} {which}.{name}:", lambda: self._act(during, id, False))
            getattr(store, when).clear()

        @rule(capacity=st.integers(1, 2))
        def kill(self, capacity: int) -> None:
            self.done.append(f"kill, reopen with {capacity}")
            before = self.stack.vectors.inner.count()
            self.stack.kill(capacity)
            self.most = max(capacity, before)

        @invariant()
        def holds(self) -> None:
            if hasattr(self, "stack"):
                try:
                    if watch == "G3":
                        safe(self.stack, self.agent)
                    else:
                        within(self.stack, self.most)
                except Refuted as error:
                    raise Refuted(f"{error}; after: {'; '.join(self.done)}") from error
                # what has shrunk does not grow again
                self.most = max(self.stack.capacity, min(self.most, self.stack.vectors.inner.count()))

        def teardown(self) -> None:
            if hasattr(self, "stack"):
                try:
                    settled(self.stack, self.agent)
                except Refuted as error:
                    raise Refuted(f"{error}; after: {'; '.join(self.done)}") from error
                finally:
                    self.stack.close()

    play(Machine, examples, steps)
