"""Write-back and eviction between L2 and L3 as state machines: the post's protocol and ours, step by step.

One *step* is one call to a store. Between two steps anything else may happen: the agent writes, another
handler runs, the process dies. A content is a number: the n-th text of the agent for that id; negative ones
are other people's writes to L3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, NamedTuple, TypeVar

__all__ = [
    "LENIENT",
    "LITERAL",
    "OURS",
    "PERSISTED",
    "Protocol",
    "State",
    "describe",
    "lost",
    "moves",
    "over",
    "settle",
    "start",
    "stranded",
]


@dataclass(frozen=True)
class Protocol:
    """What the two protocols differ in.

    Attributes
    ----------
    arrives_dirty : bool
        A text that L1 writes back is marked dirty in L2: L3 does not have it yet.
    handler : {"never", "cycle"}
        When write-back to L3 runs: for dirty points that the eviction job selects (it selects none), or for
        every dirty point sooner or later.
    stores_if_expected : bool
        L3 takes a version only after the one before it, and keeps the older ones.
    marks : {"always", "version", "text"}
        A point is marked clean whatever it holds now; if it has the version that was stored; if it also has
        the text that was stored.
    deletes_if_same : bool
        A point is deleted only if it still has the version that was read and is clean.
    refuses : bool
        A new point that would exceed the capacity stays in L1.
    refreshes : {"version", "text"}
        A clean row whose record in L3 is another one gets that text: if it still has the version that was
        read, or also the text.
    renumbers_down : bool
        A version that L3 lacks the one before of is given a smaller number, so that L3 has no gaps.
    """

    arrives_dirty: bool
    handler: Literal["never", "cycle"]
    stores_if_expected: bool
    marks: Literal["always", "version", "text"]
    deletes_if_same: bool
    refuses: bool
    refreshes: Literal["version", "text"] = "text"
    renumbers_down: bool = False


T = TypeVar("T")

OURS = Protocol(
    arrives_dirty=True,
    handler="cycle",
    stores_if_expected=True,
    marks="text",
    deletes_if_same=True,
    refuses=True,
)
LENIENT = Protocol(
    arrives_dirty=True,
    handler="cycle",
    stores_if_expected=False,
    marks="always",
    deletes_if_same=False,
    refuses=False,
)
LITERAL = replace(LENIENT, handler="never")
PERSISTED = replace(LITERAL, arrives_dirty=False)


class Point(NamedTuple):
    """A point of L2."""

    content: int
    version: int
    dirty: bool


class Copy(NamedTuple):
    """What a handler holds of a point; ``done``: L3 has taken it."""

    id: int
    content: int
    version: int
    done: bool


class State(NamedTuple):
    """Everything that lies anywhere, and what may still happen (``*_left``)."""

    newest: tuple[int, ...]
    l1: tuple[int, ...]
    l2: tuple[Point | None, ...]
    l3: tuple[tuple[tuple[int, int], ...], ...]
    handlers: tuple[Copy | None, ...]
    doomed: tuple[tuple[int, int], ...]
    compared: tuple[tuple[int, int, int], ...]
    writes_left: int
    fails_left: int
    kills_left: int
    others_left: int
    compares_left: int


Moves = Callable[[State], Iterator[tuple[str, State]]]


def start(
    ids: int = 1,
    handlers: int = 1,
    writes: int = 2,
    fails: int = 0,
    kills: int = 0,
    others: int = 0,
    compares: int = 0,
) -> State:
    """Return the empty state: how many ids and handlers there are, and how often what may happen."""
    return State(
        (0,) * ids,
        (0,) * ids,
        (None,) * ids,
        ((),) * ids,
        (None,) * handlers,
        (),
        (),
        writes,
        fails,
        kills,
        others,
        compares,
    )


def _name(id_: int) -> str:
    return "abcdefgh"[id_]


def _put(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _count(state: State) -> int:
    return sum(point is not None for point in state.l2)


def moves(protocol: Protocol, capacity: int, agent: bool = True) -> Moves:
    """Return the step relation of a protocol for an L2 of that capacity; without the agent's own writes."""

    def following(state: State) -> Iterator[tuple[str, State]]:
        for slot, copy in enumerate(state.handlers):
            if copy is None:
                yield from _take(state, slot, protocol)
            elif not copy.done:
                yield _store(state, slot, copy, protocol)
                if state.fails_left:
                    after = state._replace(
                        handlers=_put(state.handlers, slot, None), fails_left=state.fails_left - 1
                    )
                    yield f"handler {slot + 1} fails: L3 cannot be reached", after
            else:
                yield _mark(state, slot, copy, protocol)
        for id_ in range(len(state.newest)):
            if agent and state.writes_left:
                yield from _write(state, id_, protocol, capacity)
            if state.l1[id_] and _room(state, id_, protocol, capacity):
                for after in _arrive(state, id_, state.l1[id_], protocol):
                    yield f"L1 writes {_name(id_)}{state.l1[id_]} to L2", after
        yield from _evict(state, capacity, protocol)
        yield from _refresh(state, protocol)
        if state.kills_left:
            nobody: tuple[Copy | None, ...] = (None,) * len(state.handlers)
            after = state._replace(handlers=nobody, doomed=(), compared=(), kills_left=state.kills_left - 1)
            yield "the process is killed and started again", after
        if state.others_left:
            for id_ in range(len(state.newest)):
                present = state.l3[id_]
                stored = (*present, (-state.others_left, _latest(present) + 1))
                kept = stored if protocol.stores_if_expected else stored[-1:]
                after = state._replace(l3=_put(state.l3, id_, kept), others_left=state.others_left - 1)
                yield f"somebody else stores another text of {_name(id_)} in L3", after

    return following


def _room(state: State, id_: int, protocol: Protocol, capacity: int) -> bool:
    return not protocol.refuses or state.l2[id_] is not None or _count(state) < capacity


def _latest(versions: tuple[tuple[int, int], ...]) -> int:
    return versions[-1][1] if versions else 0


def _arrive(state: State, id_: int, content: int, protocol: Protocol) -> Iterator[State]:
    present = state.l2[id_]
    # A version is one more than the one it replaces. Where L2 has none the agent may know what L3 has, or
    # nothing at all: both are possible.
    versions = {present.version + 1} if present else {1, _latest(state.l3[id_]) + 1}
    for version in sorted(versions, reverse=True):
        point = Point(content, version, protocol.arrives_dirty)
        yield state._replace(l1=_put(state.l1, id_, 0), l2=_put(state.l2, id_, point))


def _write(state: State, id_: int, protocol: Protocol, capacity: int) -> Iterator[tuple[str, State]]:
    content = state.newest[id_] + 1
    state = state._replace(newest=_put(state.newest, id_, content), writes_left=state.writes_left - 1)
    if _room(state, id_, protocol, capacity):
        mark = "dirty" if protocol.arrives_dirty else "clean"
        for after in _arrive(state, id_, content, protocol):
            yield f"the agent's text {_name(id_)}{content} is written from L1 to L2, {mark}", after
    else:
        text = f"the agent's text {_name(id_)}{content} stays in L1: L2 is full"
        yield text, state._replace(l1=_put(state.l1, id_, content))


def _take(state: State, slot: int, protocol: Protocol) -> Iterator[tuple[str, State]]:
    if protocol.handler == "never":
        return
    for id_, point in enumerate(state.l2):
        if point is not None and point.dirty:
            copy = Copy(id_, point.content, point.version, False)
            text = f"handler {slot + 1} starts with a copy of {_name(id_)}{point.content}"
            yield text, state._replace(handlers=_put(state.handlers, slot, copy))


def _store(state: State, slot: int, copy: Copy, protocol: Protocol) -> tuple[str, State]:
    id_, who = copy.id, f"handler {slot + 1}"
    text = f"{_name(id_)}{copy.content}"
    present = state.l3[id_]
    done = _put(state.handlers, slot, copy._replace(done=True))
    if not protocol.stores_if_expected:
        # One record a key, whatever was there.
        after = state._replace(l3=_put(state.l3, id_, ((copy.content, copy.version),)), handlers=done)
        return f"{who} stores {text} in L3", after
    if present and present[-1][0] == copy.content:
        return f"{who} finds {text} in L3", state._replace(handlers=done)
    latest = _latest(present)
    if latest == copy.version - 1 or (latest < copy.version and not protocol.renumbers_down):
        after = state._replace(
            l3=_put(state.l3, id_, (*present, (copy.content, copy.version))), handlers=done
        )
        return f"{who} stores {text} in L3 as version {copy.version}", after
    # Another text has our number in L3: the point gets a new one, unless it has changed meanwhile.
    point = state.l2[id_]
    if point is None or point.version != copy.version:
        after = state._replace(handlers=_put(state.handlers, slot, None))
        return f"{who} gives {text} up: the point has changed", after
    after = state._replace(
        l2=_put(state.l2, id_, point._replace(version=latest + 1)),
        handlers=_put(state.handlers, slot, copy._replace(version=latest + 1)),
    )
    return f"{who} renumbers {text} to {latest + 1}", after


def _mark(state: State, slot: int, copy: Copy, protocol: Protocol) -> tuple[str, State]:
    after = state._replace(handlers=_put(state.handlers, slot, None))
    point = state.l2[copy.id]
    name = _name(copy.id)
    stale = point is None or (protocol.marks != "always" and point.version != copy.version)
    if point is None or stale or (protocol.marks == "text" and point.content != copy.content):
        return f"handler {slot + 1} leaves {name} as it is: not what it stored", after
    clean = after._replace(l2=_put(after.l2, copy.id, point._replace(dirty=False)))
    return f"handler {slot + 1} marks {name} clean", clean


def _evict(state: State, capacity: int, protocol: Protocol) -> Iterator[tuple[str, State]]:
    if state.doomed:
        l2, gone = state.l2, []
        for id_, version in state.doomed:
            point = l2[id_]
            same = point is not None and point.version == version and not point.dirty
            if point is not None and (same or not protocol.deletes_if_same):
                l2 = _put(l2, id_, None)
                gone.append(f"{_name(id_)}{point.content}")
        text = f"the eviction job deletes {', '.join(gone) or 'nothing'}"
        yield text, state._replace(l2=l2, doomed=())
        return
    # With `refuses` a full L2 makes room for one more; as written, a job runs when it is too large.
    excess = _count(state) - capacity + (1 if protocol.refuses else 0)
    clean = [(i, p.version) for i, p in enumerate(state.l2) if p is not None and not p.dirty]
    if excess > 0 and clean:
        for chosen in combinations(clean, min(excess, len(clean))):
            names = ", ".join(_name(id_) for id_, _ in chosen)
            yield f"the eviction job selects {names}, clean", state._replace(doomed=chosen)


def _refresh(state: State, protocol: Protocol) -> Iterator[tuple[str, State]]:
    """A search compares a clean row with its record, and then gives it the record's text."""
    for id_, version, content in state.compared:
        point, record = state.l2[id_], state.l3[id_][-1]
        same = point is not None and point.version == version
        if protocol.refreshes == "text":
            same = same and point is not None and point.content == content
        after = state._replace(compared=())
        if same:
            after = after._replace(l2=_put(state.l2, id_, Point(record[0], record[1], False)))
        yield f"a search {'replaces' if same else 'leaves'} {_name(id_)}", after
    if not state.compared and state.compares_left:
        for id_, point in enumerate(state.l2):
            if point and not point.dirty and state.l3[id_] and state.l3[id_][-1][0] != point.content:
                seen = ((id_, point.version, point.content),)
                text = f"a search finds {_name(id_)}{point.content}, and another text of it in L3"
                yield text, state._replace(compared=seen, compares_left=state.compares_left - 1)


def _stored(state: State, id_: int, content: int) -> bool:
    return any(content == stored for stored, _ in state.l3[id_])


def _on_the_way(state: State, id_: int, content: int) -> bool:
    return any(c and c.id == id_ and c.content == content and not c.done for c in state.handlers)


def lost(state: State) -> str | None:
    """Say whose newest text lies nowhere any more: not in L1, L2 or L3, and no handler holds a copy."""
    for id_, content in enumerate(state.newest):
        point = state.l2[id_]
        there = state.l1[id_] == content or (point is not None and point.content == content)
        safe = there or _stored(state, id_, content) or _on_the_way(state, id_, content)
        if content and not safe:
            return f"{_name(id_)}{content} is in no store"
    return None


def stranded(state: State) -> str | None:
    """Say whose newest text is marked clean in L2 though L3 lacks it, and nobody is about to store it."""
    for id_, content in enumerate(state.newest):
        point = state.l2[id_]
        clean = point is not None and point.content == content and not point.dirty
        if clean and not _stored(state, id_, content) and not _on_the_way(state, id_, content):
            return f"{_name(id_)}{content} is marked clean in L2, and L3 lacks it"
    return None


def over(capacity: int) -> Callable[[State], str | None]:
    """Return the test for more points than the capacity."""

    def bad(state: State) -> str | None:
        count = _count(state)
        return f"L2 holds {count} points, capacity {capacity}" if count > capacity else None

    return bad


def settle(state: State, protocol: Protocol, capacity: int, most: int = 200) -> State:
    """Run all that the system does by itself, L3 reachable and nobody else writing, until nothing changes.

    Every handler finishes what it holds before it takes the next point.
    """
    state = state._replace(fails_left=0, kills_left=0, others_left=0, compares_left=0)
    step = moves(protocol, capacity, agent=False)
    for _ in range(most):
        after = next((after for _, after in step(state) if after != state), None)
        if after is None:
            return state
        state = after
    return state


def describe(state: State) -> str:
    """Say in a line what lies where."""

    def points() -> Iterator[str]:
        for id_, point in enumerate(state.l2):
            if point is not None:
                yield f"{_name(id_)}{point.content} {'dirty' if point.dirty else 'clean'}"

    parts = [f"L2: {', '.join(points()) or 'empty'}"]
    waiting = [f"{_name(i)}{content}" for i, content in enumerate(state.l1) if content]
    stored = [f"{_name(i)}{content}" for i, versions in enumerate(state.l3) for content, _ in versions]
    parts += [f"L1: {', '.join(waiting)}"] if waiting else []
    parts += [f"L3: {', '.join(stored) or 'empty'}"]
    return "; ".join(parts)
