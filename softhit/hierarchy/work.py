"""The parts of L1's state while one boundary works on them, and the small steps it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from softhit.errors import HierarchyError, Unavailable
from softhit.hierarchy.guide import Guide
from softhit.hierarchy.levels import L2, Found, TextStore
from softhit.hierarchy.segment import Segment
from softhit.hierarchy.state import HISTORY, ContextJson, SegmentJson, StagedJson
from softhit.hierarchy.tokens import TokenCounter

__all__ = ["Demand", "Rules", "Work"]

_MOST_ANSWERS = 64
_MOST_PATH = 256


@dataclass(frozen=True)
class Rules:
    """The parameters of an allocator, checked; ``high`` and ``low`` are whole tokens here.

    For whole numbers, used > high * budget exactly if used > floor(high * budget), and likewise for low.
    """

    budget: int
    high: int
    low: int
    guide: Guide
    pin_accesses: int | None
    top_k: int
    least_score: float
    min_probability: Fraction
    counter: TokenCounter


@dataclass
class Demand:
    """A segment that is to enter L1.

    Attributes
    ----------
    segment : SegmentJson
        A copy of its own.
    node : str
        Which node made it or needs it.
    kind : str
        Of the event when it enters, ``"load"`` or ``"flush"``.
    why : str
    own : bool
        Derived by a node or said in the conversation: nothing else may hold it.
    score : float or None
        Of the search that found it.
    """

    segment: SegmentJson
    node: str
    kind: str
    why: str
    own: bool = False
    score: float | None = None


class Work:
    """Copies of the parts of a state. Nothing here changes the state it was made from.

    Attributes
    ----------
    old : ContextJson
    turn, now : int
        Of the nodes that start, and of those that ran.
    l1, staged, unsaved, answers, counted, siblings, seen, messages
        As in the state.
    used : int
        Tokens in L1.
    demand : dict
        What is to enter L1, by id.
    needed, referenced : set of str
        What starting nodes need and L1 has; what the output of a node that just ran names.
    found : dict
        What L2 found in this boundary, by hint, and how many it was asked for. Forgotten at each write to L2.
    touches : Counter
        Accesses that a segment has when it enters.
    events : list of dict
        What goes into the log.
    unreachable : str
        Why L2 cannot be reached; it is not asked again in this boundary.
    """

    def __init__(self, rules: Rules, cache: L2, texts: TextStore, old: ContextJson) -> None:
        self.rules, self.cache, self.texts, self.old = rules, cache, texts, old
        self.now, self.turn = old["turn"], old["turn"] + 1
        self.l1 = dict(old["l1"])
        self.staged = dict(old["staged"])
        self.unsaved = dict(old["unsaved"])
        self.answers = dict(old["answers"])
        self.counted = dict(old["counted"])
        self.siblings = dict(old["siblings"])
        self.seen = dict(old["seen_fields"])
        self.messages = list(old["messages"])
        self.used = sum(s["tokens"] for s in self.l1.values())
        self.loaded, self.evicted, self.batches = old["loaded"], old["evicted"], old["batches"]
        self.demand: dict[str, Demand] = {}
        self.needed: set[str] = set()
        self.found: dict[str, tuple[int, Sequence[Found]]] = {}
        self.referenced: set[str] = set()
        self.touches: Counter[str] = Counter()
        self.requests: list[list[Any]] = []
        self.events: list[dict[str, Any]] = []
        self.unreachable = ""

    # --- L1 ------------------------------------------------------------------------------------------------

    def change(self, id: str, **changes: Any) -> None:
        """Replace a segment of L1 by a changed copy; its tokens stay."""
        self.l1[id] = cast(SegmentJson, {**self.l1[id], **changes})

    def enter(self, row: Demand) -> None:
        """Let a segment into L1."""
        s, times = row.segment, self.touches[row.segment["id"]]
        s["loaded_turn"] = self.turn
        s["accesses"], s["last_turn"] = times, self.now if times else None
        self.l1[s["id"]] = s
        self.used += s["tokens"]
        self.loaded += s["tokens"]
        self.staged.pop(s["id"], None)
        self.request(s, "load")
        self.event(row.kind, s, node=row.node, why=row.why, score=row.score)

    def leave(self, id: str, replaced: bool = False) -> None:
        """Take a segment out of L1; what replaces it goes on with its count of accesses."""
        self.used -= self.l1.pop(id)["tokens"]
        if not replaced:
            self.counted.pop(id, None)

    def known(self, id: str) -> SegmentJson | None:
        """Return the latest version of a segment that the state has."""
        rows = [place[id] for place in (self.l1, self.staged, self.unsaved) if id in place]
        return cast(SegmentJson, max(rows, key=lambda s: s["version"])) if rows else None

    def forget(self, id: str) -> None:
        """Remove every version of a segment that a later one replaces."""
        self.staged.pop(id, None)
        self.unsaved.pop(id, None)
        if id in self.l1:
            self.leave(id, replaced=True)

    def ask(self, row: Demand) -> None:
        """Put a segment on the list of what is to enter."""
        self.demand[row.segment["id"]] = row

    def in_order(self) -> list[Demand]:
        """Return what is to enter: pinned first, then derived texts and messages, then what was fetched."""
        return sorted(self.demand.values(), key=lambda row: (not row.segment["pinned"], not row.own))

    def tokens(self, ids: Iterable[str]) -> int:
        """Return the tokens of segments of L1."""
        return sum(self.l1[id]["tokens"] for id in ids)

    # --- L2 ------------------------------------------------------------------------------------------------

    def write_back(self, s: SegmentJson) -> bool:
        """Give a dirty segment to L2; say whether it took it. If not it stays dirty, and that is logged."""
        why = self.unreachable
        if not why:
            # also a put that fails may have changed what is there
            self.found.clear()
            try:
                # its accesses are told apart, which counts them once whether L2 has a row of it or not
                segment = replace(Segment.from_json(s), accesses=0)
                stored = self.cache.put(segment, self.texts.get(s["digest"]), True)
            except HierarchyError as error:
                why = str(error)
                if isinstance(error, Unavailable):
                    self.unreachable = why
        if why:
            self.event("keep", s, why=why)
            return False
        self.event("write_back", s, version=stored.version)
        if stored.version != s["version"]:
            self.event("conflict", s, why=f"L2 had a later version; this one is {stored.version} now")
        if s["id"] in self.l1:
            self.change(s["id"], dirty=False, version=stored.version)
        # what L2 answered before may be incomplete now
        self.answers.clear()
        return True

    def hand_over(self, s: SegmentJson) -> None:
        """Give L2 a dirty segment that cannot be in L1; if L2 does not take it, it waits in the state."""
        if not self.write_back(s):
            self.unsaved[s["id"]] = s

    def tell(self, id: str) -> None:
        """Tell L2 how often a segment was used since it was told last."""
        s = self.l1[id]
        times = s["accesses"] - self.counted.get(id, 0)
        if times > 0 and not s["dirty"] and not self.unreachable:
            try:
                self.cache.touch([id], times)
            except HierarchyError as error:
                self.event("skip", s, why=f"L2 did not count its accesses: {error}")
            else:
                self.counted[id] = s["accesses"]

    # --- what is remembered --------------------------------------------------------------------------------

    def request(self, s: SegmentJson, kind: str) -> None:
        """Note a request for a policy that is a function of the history."""
        if self.rules.guide.uses_history:
            self.requests.append([s["id"], s["tokens"], kind])

    def event(self, kind: str, s: SegmentJson | StagedJson | None = None, **facts: Any) -> dict[str, Any]:
        """Log an event; facts that are None or "" are left out."""
        event: dict[str, Any] = {"turn": self.turn, "kind": kind}
        if s is not None:
            event["segment"] = s["id"]
            event.update((name, s[name]) for name in ("tokens", "version", "source"))
            if kind in ("evict", "keep"):
                event.update(accesses=s["accesses"], last_turn=s["last_turn"])
        event.update((k, v) for k, v in facts.items() if v is not None and v != "")
        self.events.append(event)
        return event

    def result(self, started: Iterable[str], given: Iterable[str]) -> ContextJson:
        """Return the new state; of the fields it remembers those given now, and what its texts depend on."""
        old = self.old
        held = {f for s in (*self.l1.values(), *self.staged.values()) for f in s["fields"]}
        for hint in list(self.answers)[:-_MOST_ANSWERS]:
            del self.answers[hint]
        return {
            "revision": old["revision"] + 1,
            "turn": self.turn,
            "budget": self.rules.budget,
            "l1": self.l1,
            "staged": self.staged,
            "unsaved": self.unsaved,
            "history": [*old["history"], *self.requests][-HISTORY:] if self.rules.guide.uses_history else [],
            "path": [*old["path"], *started][-_MOST_PATH:],
            "messages": self.messages,
            "answers": self.answers,
            "counted": {id: times for id, times in self.counted.items() if id in self.l1},
            "siblings": self.siblings,
            # "": its digest is not known; whatever it turns out to be, it may have changed since
            "seen_fields": {name: self.seen.get(name, "") for name in sorted(held.union(given))},
            "loaded": self.loaded,
            "evicted": self.evicted,
            "batches": self.batches,
        }
