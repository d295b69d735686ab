"""What the log of a run says in words: each event with its reason, turns in short, and the sums of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Event", "Tally", "Turn", "in_short", "move", "reason", "tally", "turns_of"]

Event = Mapping[str, Any]

MOVES = {
    "derive": "written",
    "load": "L2 → L1",
    "flush": "staged → L1",
    "stage": "L2 → staged",
    "evict": "L1 → L2",
    "write_back": "L1 ⇒ L2",
    "store": "L2 ⇒ L3",
    "invalidate": "out, stale",
    "drop": "out",
    "skip": "not loaded",
    "keep": "stays in L1",
    "hit": "in L1",
    "miss": "not in L1",
}
"""Where an event moves a segment; ⇒: its text is written there. See :func:`move`."""


_OUTCOMES = {
    "stored": "L3 has it",
    "superseded": "L3 has it, but L2 has a newer text by now",
    "conflict": "L3 had another text under this number: renumbered",
    "failed": "not written, tried again later",
    "refused": "L3 refuses it",
    "outage": "L3 is away",
    "back": "L3 is back",
}
OWN = ("derived", "said")
"""Reasons of loads that come from a node or from the conversation, not from L2."""


@dataclass(frozen=True)
class Turn:
    """A boundary: what it did between the nodes that ran and the nodes that start.

    ``after`` and ``starting`` name those nodes, in order. Writes to L3 are events of the turn they came in.
    """

    number: int
    after: tuple[str, ...]
    starting: tuple[str, ...]
    summary: Event
    events: tuple[Event, ...]

    @property
    def title(self) -> str:
        """Such as ``plan → gather ×3``."""
        return f"{_nodes(self.after) or 'start'} → {_nodes(self.starting) or 'end'}"

    @property
    def fullness(self) -> str:
        """Such as ``L1 812/1000 tokens in 8 segments, 3 staged``."""
        s = self.summary
        if "used" not in s:
            return ""
        parts = [f"L1 {s['used']}/{s['budget']} tokens in {_count(s['segments'], 'segment')}"]
        parts += [f"{s['staged']} staged"] if s.get("staged") else []
        parts += [f"{s['unsaved']} waiting for L2"] if s.get("unsaved") else []
        return ", ".join(parts)


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _nodes(names: Sequence[str]) -> str:
    times = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in times.items())


def turns_of(events: Iterable[Event], known: dict[int, tuple[str, ...]] | None = None) -> list[Turn]:
    """Group the events of a run into turns.

    Parameters
    ----------
    events : iterable
    known : dict, optional
        Which nodes started at earlier turns; those of ``events`` are added.

    Examples
    --------
    >>> first = {"turn": 1, "kind": "turn", "nodes": ["a"]}
    >>> load, last = {"turn": 1, "kind": "load", "segment": "s"}, {**first, "turn": 2, "nodes": []}
    >>> turns = turns_of([first, load, last])
    >>> [(t.title, len(t.events)) for t in turns]
    [('start → a', 1), ('a → end', 0)]
    """
    started = {} if known is None else known
    groups: dict[int, tuple[dict[str, Any], list[Event]]] = {}
    for event in events:
        head, rest = groups.setdefault(event["turn"], ({}, []))
        if event["kind"] == "turn":
            head.update(event)
        else:
            rest.append(event)
    made: list[Turn] = []
    for number, (head, rest) in sorted(groups.items()):
        if head:
            started[number] = () if head.get("ending") else tuple(head.get("nodes", ()))
        made.append(Turn(number, started.get(number - 1, ()), started.get(number, ()), head, tuple(rest)))
    return made


def move(event: Event) -> str:
    """Return where an event moves its segment.

    >>> move({"kind": "load", "why": "derived"}), move({"kind": "load", "why": "hint", "score": 0.5})
    ('a node → L1', 'L2 → L1')
    """
    if event["kind"] == "load" and event.get("why") in OWN:
        return f"{'a node' if event['why'] == 'derived' else 'the conversation'} → L1"
    return MOVES.get(event["kind"], "")


def _score(value: float | str | None) -> str:
    """An infinite score lies in the log as a text."""
    if value is None:
        return ""
    return "∞" if float(value) == float("inf") else f"{float(value):.3f}"


def _times(n: int) -> str:
    return {0: "never used", 1: "used once", 2: "used twice"}.get(n, f"used {n} times")


def _ending(event: Event) -> str:
    """Why a segment leaves: its score, and what the score is made of."""
    text = str(event.get("why", ""))
    if event.get("score") is not None:
        text = f"{text}: score {_score(event['score'])}"
    if "accesses" in event:
        last = event.get("last_turn")
        text += f", {_times(event['accesses'])}" + (f", last in turn {last}" if last is not None else "")
    return text


def _batch(event: Event) -> str:
    text = f"{event['before']} tokens in L1 and {event['coming']} coming: down to {event['mark']} in all"
    if "after" in event:
        text += f"; {event['before'] - event['after']} went"
        text += "" if event.get("reached", True) else ", what else there is is pinned or in use"
    return text


def reason(event: Event) -> str:
    """Return the reason of one event in words.

    >>> reason({"kind": "evict", "why": "lru", "score": 3.0, "accesses": 1, "last_turn": 2})
    'lru: score 3.000, used once, last in turn 2'
    >>> reason({"kind": "stage", "node": "write", "p": 0.5, "score": 0.31})
    'for write, whose turn comes with probability 0.50; cosine 0.310'
    """
    kind = event["kind"]
    if kind == "evict":
        return _ending(event)
    if kind == "batch":
        return _batch(event)
    if kind == "stage":
        return (
            f"for {event.get('node', '')}, whose turn comes with probability {event.get('p', 1):.2f}; "
            f"cosine {event.get('score', 0):.3f}"
        )
    why = str(event.get("why", ""))
    parts = ["what its hint asks for" if kind == "load" and why == "hint" else why] if why else []
    if "score" in event:
        parts.append(f"cosine {event['score']:.3f}")
    if kind == "write_back":
        parts.append(f"dirty, L2 has it as version {event.get('version', '?')}")
    if kind == "derive":
        parts.insert(0, f"written by {event.get('node', '?')}")
    elif kind in ("load", "miss", "skip", "hit") and event.get("node"):
        owner = "by" if kind == "load" and event.get("why") in OWN else "for"
        parts.append(f"{owner} {event['node']}")
    if kind == "miss" and event.get("query"):
        parts.append(f"hint: {event['query']}")
    if kind == "store":
        parts.append(_OUTCOMES.get(str(event.get("outcome", "stored")), str(event.get("outcome"))))
        parts += [_version(event)] if "version" in event else []
        parts += [str(event["error"])] if event.get("error") else []
    return "; ".join(parts)


def _names(events: Iterable[Event], detail: Callable[[Event], str] = lambda _: "") -> str:
    """Return the segments of events, each with its detail in parentheses if it has one, each text once."""
    texts = []
    for event in events:
        name, more = str(event.get("segment", "")), detail(event)
        texts.append(f"{name} ({more})" if more else name)
    return ", ".join(text for text in dict.fromkeys(texts) if text)


def _sum(events: Iterable[Event]) -> str:
    return f"{sum(e.get('tokens', 0) for e in events)} tokens"


def _cosine(event: Event) -> str:
    return f"{event['score']:.2f}" if "score" in event else str(event.get("why", ""))


def _loads(events: Sequence[Event]) -> list[str]:
    # what a node wrote is told by its own event
    fetched = [e for e in events if e.get("why") != "derived"]
    return [f"{_sum(fetched)}: {_names(fetched, _cosine)}"] if fetched else []


def _sums(events: Sequence[Event]) -> list[str]:
    return [f"{_sum(events)}: {_names(events)}"]


def _evictions(events: Sequence[Event]) -> list[str]:
    return [f"{_sum(events)}: {_names(events, lambda e: _score(e.get('score')))}"]


def _derived(events: Sequence[Event]) -> list[str]:
    return [_names(events, lambda e: f"{e.get('tokens', 0)} tokens, by {e.get('node')}")]


def _staged(events: Sequence[Event]) -> list[str]:
    nodes: dict[str, list[Event]] = {}
    for e in events:
        nodes.setdefault(f"for {e.get('node')}, p = {e.get('p', 1):.2f}", []).append(e)
    return [f"{node}: {_names(some)}" for node, some in nodes.items()]


def _version(event: Event) -> str:
    return f"version {event['version']}" if "version" in event else ""


def _written(events: Sequence[Event]) -> list[str]:
    return [f"to L2: {_names(events, _version)}"]


def _stored(events: Sequence[Event]) -> list[str]:
    done = [e for e in events if e.get("outcome", "stored") == "stored"]
    other = [e for e in events if e not in done]
    return [*([f"to L3: {_names(done, _version)}"] if done else []), *_others(other)]


def _others(events: Sequence[Event]) -> list[str]:
    reasons: dict[str, list[Event]] = {}
    for e in events:
        reasons.setdefault(reason(e), []).append(e)
    return [": ".join(part for part in (_names(some), why) if part) for why, some in reasons.items()]


_SHORT: dict[str, Callable[[Sequence[Event]], list[str]]] = {
    "batch": lambda events: [reason(e) for e in events],
    "derive": _derived,
    "evict": _evictions,
    "flush": _sums,
    "hit": _sums,
    "load": _loads,
    # a segment that was missed is loaded or skipped, which is told
    "miss": lambda events: _others([e for e in events if "segment" not in e]),
    "stage": _staged,
    "store": _stored,
    "write_back": _written,
}


def in_short(turn: Turn) -> list[tuple[str, str]]:
    """Return a turn as few lines: what happened, and to which segments; scores and cosines in parentheses.

    >>> load = {"turn": 1, "kind": "load", "segment": "a", "tokens": 7, "score": 0.512}
    >>> in_short(turns_of([{"turn": 1, "kind": "turn", "nodes": ["n"]}, load])[0])
    [('load', '7 tokens: a (0.51)')]
    """
    kinds: dict[str, list[Event]] = {}
    for event in turn.events:
        kinds.setdefault(event["kind"], []).append(event)
    return [
        (kind.replace("_", " "), text)
        for kind, events in kinds.items()
        for text in _SHORT.get(kind, _others)(events)
    ]


@dataclass(frozen=True)
class Tally:
    """Sums over a run; tokens where the name says so, else numbers of events."""

    turns: int = 0
    loaded_tokens: int = 0
    hits: int = 0
    hit_tokens: int = 0
    misses: int = 0
    staged: int = 0
    flushed: int = 0
    dropped: int = 0
    batches: int = 0
    evicted: int = 0
    evicted_tokens: int = 0
    dirty_evicted: int = 0
    refused: int = 0
    invalidated: int = 0
    derived: int = 0
    written_back: int = 0
    stored: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the sums by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def tally(events: Sequence[Event]) -> Tally:
    """Add up a run.

    >>> run = [{"turn": 1, "kind": "load", "tokens": 5}, {"turn": 1, "kind": "flush", "tokens": 2}]
    >>> tally(run).loaded_tokens
    7
    """

    def of(*kinds: str) -> list[Event]:
        return [e for e in events if e["kind"] in kinds]

    def tokens(some: Iterable[Event]) -> int:
        return sum(e.get("tokens", 0) for e in some)

    saved = {(e["turn"], e.get("segment")) for e in of("write_back")}
    return Tally(
        turns=len({e["turn"] for e in of("turn")}),
        loaded_tokens=tokens(of("load", "flush")),
        hits=len(of("hit")),
        hit_tokens=tokens(of("hit")),
        misses=len(of("miss")),
        staged=len(of("stage")),
        flushed=len(of("flush")),
        dropped=len(of("drop")),
        batches=len({e["turn"] for e in of("evict")} & {e["turn"] for e in of("batch")}),
        evicted=len(of("evict")),
        evicted_tokens=tokens(of("evict")),
        dirty_evicted=sum((e["turn"], e.get("segment")) in saved for e in of("evict")),
        refused=sum("too large" in str(e.get("why")) for e in of("skip")),
        invalidated=len(of("invalidate")),
        derived=len(of("derive")),
        written_back=len(of("write_back")),
        stored=sum(e.get("outcome", "stored") in ("stored", "superseded") for e in of("store")),
    )
