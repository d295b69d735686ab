"""One node boundary: the only place where segments enter and leave L1.

The stages, in this order: reports of the nodes that ran; invalidation by state fields; what the nodes that
start need; room for it, by at most one eviction batch; loading; prefetch for the nodes ahead; at the end of a
run the final write-back. What is in the state is never changed, a new state is made.

What holds after every boundary: the tokens in L1 are at most the budget; nothing pinned was evicted, nor what
the nodes that start need, nor what the output of a node that just ran names; every dirty segment is still in
the state, or L2 has taken it, or a later version of the same id has replaced it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol, cast

from softhit.errors import HierarchyError, SegmentTooLarge, Unavailable
from softhit.hierarchy.guide import Guide
from softhit.hierarchy.nodes import Ahead, Start
from softhit.hierarchy.reports import pending
from softhit.hierarchy.segment import Segment
from softhit.hierarchy.state import HISTORY, ContextJson, SegmentJson, StagedJson
from softhit.hierarchy.tokens import TokenCounter

__all__ = ["L2", "Boundary", "Found", "Rules", "TextStore"]

_MOST_ANSWERS = 64
_MOST_PATH = 256


class Found(Protocol):
    """A segment that L2 found, with its text."""

    @property
    def segment(self) -> Segment: ...

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...


class L2(Protocol):
    """What a boundary needs of L2, see ``SemanticCache``."""

    def put(self, segment: Segment, text: str, dirty: bool = True) -> Segment: ...

    def search(
        self, query: str, limit: int = 5, least: float = 0.0, exclude: Collection[str] = ()
    ) -> Sequence[Found]: ...

    def touch(self, ids: Iterable[str], times: int = 1) -> None: ...

    def get(self, ids: Collection[str]) -> Mapping[str, Found]: ...


class TextStore(Protocol):
    """What a boundary needs of the store of texts, see ``Texts``."""

    def put(self, text: str) -> str: ...

    def get(self, digest: str) -> str: ...


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
class _Demand:
    """A segment that is to enter L1: for which node, why, and whether it was derived or said, or fetched."""

    segment: SegmentJson
    node: str
    kind: str  # of the event when it enters
    why: str
    own: bool = False  # derived by a node or said in the conversation: nothing else may hold it
    score: float | None = None  # of the search that found it


def _fitting(rows: Iterable[_Demand], room: int) -> list[_Demand]:
    """Those that fit, tried in order."""
    chosen = []
    for row in rows:
        if row.segment["tokens"] <= room:
            room -= row.segment["tokens"]
            chosen.append(row)
    return chosen


def _tokens(rows: Iterable[_Demand]) -> int:
    return sum(row.segment["tokens"] for row in rows)


@dataclass
class Boundary:
    """The work of one boundary, on copies of the state's parts; see :meth:`run`."""

    rules: Rules
    cache: L2
    texts: TextStore
    context: ContextJson
    reports: Mapping[str, Any]
    starting: Sequence[Start]
    ahead: Sequence[Ahead] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    ending: bool = False

    def __post_init__(self) -> None:
        old = self.context
        self.turn = old["turn"] + 1
        self.l1 = dict(old["l1"])
        self.staged = dict(old["staged"])
        self.unsaved = dict(old["unsaved"])
        self.answers = dict(old["answers"])
        self.counted = dict(old["counted"])
        self.seen = dict(old["seen_fields"])
        self.messages = list(old["messages"])
        self.used = sum(s["tokens"] for s in self.l1.values())
        self.loaded, self.evicted, self.batches = old["loaded"], old["evicted"], old["batches"]
        self.requests: list[list[Any]] = []
        self.events: list[dict[str, Any]] = []
        self.demand: dict[str, _Demand] = {}
        self.needed: set[str] = set()  # by the nodes that start, and in L1 already
        self.referenced: set[str] = set()
        self.touches: Counter[str] = Counter()
        self.stale_fields: set[str] = set()
        self.unreachable = ""  # why L2 cannot be reached; it is not asked again in this boundary

    def run(self) -> tuple[ContextJson, dict[str, Any]]:
        """Return the new state and the new value of the reports.

        Raises
        ------
        SegmentTooLarge
            A pinned segment has more tokens than the budget.
        HierarchyError
            Pinned segments together have more tokens than the budget.
        """
        self._event("turn", nodes=[s.node for s in self.starting], ending=self.ending)
        summary = self.events[0]
        applied = self._apply_reports()
        self._invalidate()
        self._save_unsaved()
        for start in self.starting:
            self._need(start)
        self._make_room()
        self._load()
        self._prefetch()
        if self.ending:
            self._finish()
        summary.update(
            used=self.used,
            budget=self.rules.budget,
            segments=len(self.l1),
            staged=len(self.staged),
            unsaved=len(self.unsaved),
        )
        return self._result(), {"applied": applied, "reports": {}}

    # --- reports -------------------------------------------------------------------------------------------

    def _apply_reports(self) -> int:
        """Apply what the nodes reported; return up to which turn."""
        reports = pending(self.reports)
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for report in reports:
            by_kind.setdefault(report["kind"], []).append(report)
        self._touch([*by_kind.get("touch", ()), *by_kind.get("reference", ())])
        self.referenced = {r["id"] for r in by_kind.get("reference", ())}
        for report in reports:
            if report["kind"] in ("pin", "unpin"):
                self._pin(report)
        self._derive(by_kind.get("derive", []))
        self._converse(by_kind.get("messages", []))
        self._want(by_kind.get("want", []))
        self.stale_fields = {r["field"] for r in by_kind.get("invalidate", ())}
        return max(self.context["turn"], *(int(r["turn"]) for r in reports), -1)

    def _touch(self, reports: Iterable[dict[str, Any]]) -> None:
        """Count one access for each run of a node that used a segment, however often it did."""
        for _, _, id in sorted({(r["node"], r["task"], r["id"]) for r in reports}):
            self.touches[id] += 1
            if id in self.l1:
                self._request(self.l1[id], "touch")
        for id, times in self.touches.items():
            if id in self.l1:
                self._change(id, accesses=self.l1[id]["accesses"] + times, last_turn=self.context["turn"])

    def _pin(self, report: dict[str, Any]) -> None:
        id, pinned = report["id"], report["kind"] == "pin"
        if id in self.l1 and self.l1[id]["pinned"] != pinned:
            self._change(id, pinned=pinned)
            self._event("pin", self.l1[id], node=report["node"], why=report["kind"])

    def _derive(self, reports: Iterable[dict[str, Any]]) -> None:
        """Take derived texts; where parallel branches derived one id, each text gets an id of its own."""
        latest: dict[tuple[str, str, str], dict[str, Any]] = {}
        for report in reports:
            latest[report["segment"]["id"], report["node"], report["task"]] = report
        taken: dict[str, str] = {}
        for report in latest.values():
            made = cast(SegmentJson, dict(report["segment"]))
            id, node = made["id"], report["node"]
            number = 1
            while made["id"] in taken and taken[made["id"]] != made["digest"]:
                made["id"] = f"{id}@{node}" if number == 1 else f"{id}@{node}.{number}"
                made["version"] = 1
                number += 1
            if made["id"] in taken:
                continue
            taken[made["id"]] = made["digest"]
            if made["id"] != id:
                why = f"another branch derived {id!r} too"
                self._event("conflict", made, node=node, why=why)
            self._take(made, node)

    def _take(self, made: SegmentJson, node: str) -> None:
        """Put one derived text on the way into L1, as the version after the one that is known."""
        id, known = made["id"], self._known(made["id"])
        # to derive is to use: the count goes on from that of the version before
        self.touches[id] = 1 + (self.l1[id]["accesses"] if id in self.l1 else self.touches[id])
        if known is not None and known["digest"] == made["digest"]:
            if id in self.l1:
                self._change(id, accesses=self.touches[id], last_turn=self.context["turn"])
                return
            made["version"], made["dirty"] = known["version"], known["dirty"]
        elif known is not None:
            made["version"] = max(made["version"], known["version"] + 1)
            made["pinned"] = made["pinned"] or known["pinned"]
        self._forget(made["id"])
        why = "" if known is None else f"replaces version {known['version']}"
        self._event("derive", made, node=node, why=why)
        self._ask(_Demand(made, node, "load", "derived", own=True))

    def _converse(self, reports: Sequence[dict[str, Any]]) -> None:
        """Take the messages that are new, and let go of those that the conversation no longer has."""
        if not reports:
            return
        present: dict[str, tuple[SegmentJson, str]] = {}
        for report in reports:
            for data in report["segments"]:
                present.setdefault(data["id"], (data, report["node"]))
        known = set(self.messages)
        for id in self.messages:
            if id not in present and id in self.l1:
                self._event("drop", self.l1[id], why="no longer in the conversation")
                self._leave(id)
        for id, (data, node) in present.items():
            if id not in known:
                self._ask(_Demand(cast(SegmentJson, dict(data)), node, "load", "said", own=True))
            elif id in self.l1 and self.l1[id]["pinned"] != data["pinned"]:
                self._change(id, pinned=data["pinned"])
        self.messages = list(present)

    def _want(self, reports: Iterable[dict[str, Any]]) -> None:
        for report in reports:
            for data in report["segments"]:
                self._offer(data, report["node"], report["query"], report.get("fields", ()), "wanted")

    # --- invalidation --------------------------------------------------------------------------------------

    def _invalidate(self) -> None:
        """Remove what depends on a field that changed or was reported, from everywhere a node could see it.

        A stale derived text is content all the same: it is handed to L2 first.
        """
        for name, digest in self.fields.items():
            if name in self.seen and self.seen[name] != digest:
                self.stale_fields.add(name)
            self.seen[name] = digest
        if not self.stale_fields:
            return
        for id, s in list(self.l1.items()):
            if not self.stale_fields.isdisjoint(s["fields"]):
                self._event("invalidate", s, why=self._stale(s))
                if s["dirty"] and not self._write_back(s):
                    self.unsaved[id] = self.l1[id]
                self._leave(id)
        for id, staged in list(self.staged.items()):
            if not self.stale_fields.isdisjoint(staged["fields"]):
                self._event("invalidate", staged, why=self._stale(staged))
                del self.staged[id]
        for id, row in list(self.demand.items()):
            if not self.stale_fields.isdisjoint(row.segment["fields"]):
                self._event("invalidate", row.segment, node=row.node, why=self._stale(row.segment))
                if row.own and row.segment["dirty"]:
                    self._hand_over(row.segment)
                del self.demand[id]

    def _stale(self, s: SegmentJson | StagedJson) -> str:
        return f"state field {', '.join(sorted(self.stale_fields.intersection(s['fields'])))} changed"

    def _save_unsaved(self) -> None:
        for id, s in list(self.unsaved.items()):
            if self._write_back(s):
                del self.unsaved[id]

    # --- demand --------------------------------------------------------------------------------------------

    def _need(self, start: Start) -> None:
        """Find what a starting node needs: what is staged for it, and what its hint asks for."""
        for id, staged in list(self.staged.items()):
            if start.node in staged["for"]:
                self._flush(id, start)
        if not start.hint or self.rules.top_k == 0:
            return
        known = self._answer(start.hint, self.rules.top_k)
        if known is not None:
            for id in known:
                if id in self.staged:
                    self._flush(id, start)
                elif id not in self.demand:
                    self._hit(id, start.node, start.fields)
            return
        found = self._search(start.hint, self.rules.top_k, start.node)
        if found is not None and not found:
            self._event("miss", node=start.node, why="L2 has nothing for the hint", query=start.hint)
        for one in found or ():
            self._offer_found(one, start)

    def _flush(self, id: str, start: Start) -> None:
        if id not in self.demand:
            plain = {k: v for k, v in self.staged[id].items() if k not in ("for", "p")}
            plain["fields"] = sorted({*plain["fields"], *start.fields})
            s = cast(SegmentJson, plain)
            self._ask(_Demand(s, start.node, "flush", f"staged for {', '.join(self.staged[id]['for'])}"))

    def _offer_found(self, one: Found, start: Start) -> None:
        s = replace(one.segment, query=start.hint, tokens=self.rules.counter.count(one.text))
        held = self.l1.get(s.id)
        # another agent may have written a later version to L2
        older = held is not None and not held["dirty"] and held["version"] < s.version
        if s.id in self.staged and self.staged[s.id]["digest"] == s.digest:
            self._flush(s.id, start)
        elif held is not None and not older:
            self._hit(s.id, start.node, start.fields)
        else:
            self.texts.put(one.text)
            if older:
                self._event("drop", held, node=start.node, why=f"L2 has version {s.version}")
                self._leave(s.id)
            self._event("miss", s, node=start.node, why="not in L1", score=one.score)
            self._offer(s.to_json(), start.node, start.hint, start.fields, "hint", one.score)

    def _offer(
        self,
        data: Mapping[str, Any],
        node: str,
        query: str,
        fields: Iterable[str],
        why: str,
        score: float | None = None,
    ) -> None:
        """Ask for a fetched segment, unless it is in L1 already, or L1 has something newer on its way out."""
        clean = {"dirty": False, "pinned": False, "accesses": 0, "last_turn": None, "group": None}
        depends = sorted({*data["fields"], *fields})
        s = cast(SegmentJson, {**data, **clean, "query": query, "fields": depends})
        if s["id"] in self.l1:
            self._hit(s["id"], node, fields)
        elif s["id"] in self.unsaved:
            self._event("skip", s, node=node, why="a later version waits for L2")
        elif s["tokens"] > self.rules.budget:
            self._event("skip", s, node=node, why="too large for L1")
        elif s["id"] not in self.demand:
            self._ask(_Demand(s, node, "load", why, score=score))

    def _hit(self, id: str, node: str, fields: Iterable[str]) -> None:
        s = self.l1[id]
        if not set(fields) <= set(s["fields"]):
            self._change(id, fields=sorted({*s["fields"], *fields}))
        self.needed.add(id)
        self._request(s, "hit")
        self._event("hit", s, node=node)

    def _answer(self, hint: str, limit: int) -> list[str] | None:
        """Return what L2 gave for the hint, if all of it is at hand and no fewer were asked for."""
        known = self.answers.get(hint)
        if known is None or known["limit"] < limit:
            return None
        ids = known["ids"][:limit]
        here = all(id in self.l1 or id in self.staged or id in self.demand for id in ids)
        return ids if ids and here else None

    def _search(self, hint: str, limit: int, node: str) -> Sequence[Found] | None:
        """Return what L2 finds; None when it cannot be reached: the run goes on without."""
        if not self.unreachable:
            try:
                found = self.cache.search(hint, limit, self.rules.least_score)
            except Unavailable as error:
                self.unreachable = str(error)
            else:
                known = self.answers.pop(hint, None)
                if known is None or known["limit"] <= limit:
                    known = {"limit": limit, "ids": [one.segment.id for one in found]}
                self.answers[hint] = known
                return found
        self._event("miss", node=node, why=f"L2 cannot be reached: {self.unreachable}", query=hint)
        return None

    # --- room ----------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Evict at most one batch: down to the low mark if what is to come would pass the high mark."""
        self._refuse_what_cannot_fit()
        held = self._hard_pins()
        coming = _fitting(self._in_order(), self.rules.budget - self._sum(held))
        extra = _tokens(coming)
        if self.used + extra > self.rules.high:
            held |= self._soft_pins(held, self.rules.low - extra)
            self._evict(held, extra)
        must = _tokens(row for row in self.demand.values() if row.segment["pinned"])
        if self.used + must > self.rules.budget:
            self._force_out(self._hard_pins(), must)

    def _in_order(self) -> list[_Demand]:
        """What is to come: pinned first, then derived texts and messages, then what was fetched."""
        return sorted(self.demand.values(), key=lambda row: (not row.segment["pinned"], not row.own))

    def _refuse_what_cannot_fit(self) -> None:
        """Raise where pinned segments have no room; hand what is too large for L1 to L2."""
        budget = self.rules.budget
        for id, row in list(self.demand.items()):
            s = row.segment
            if s["tokens"] > budget:
                if s["pinned"]:
                    raise SegmentTooLarge(id, s["tokens"], budget)
                self._event("skip", s, node=row.node, why="too large for L1")
                if row.own and s["dirty"]:
                    self._hand_over(s)
                del self.demand[id]
        rows = [*self.l1.values(), *(row.segment for row in self.demand.values())]
        total = sum(s["tokens"] for s in rows if s["pinned"])
        if total > budget:
            raise HierarchyError(
                f"pinned segments have {total} tokens, more than the whole budget of {budget}: unpin some"
            )

    def _hard_pins(self) -> set[str]:
        """Ids that no batch evicts; a group with one of them is one of them."""
        ids = {id for id, s in self.l1.items() if s["pinned"]}
        ids |= (self.referenced | self.needed) & self.l1.keys()
        return self._whole_groups(ids)

    def _whole_groups(self, ids: set[str]) -> set[str]:
        groups = {self.l1[id]["group"] for id in ids} - {None}
        return ids | {id for id, s in self.l1.items() if s["group"] in groups} if groups else ids

    def _soft_pins(self, held: set[str], room: int) -> set[str]:
        """Ids pinned by their many accesses; those with the fewest give way where there is no room."""
        least = self.rules.pin_accesses
        if least is None:
            return set()
        often = [s for id, s in self.l1.items() if s["accesses"] >= least and id not in held]
        chosen: set[str] = set()
        room -= self._sum(held)
        for s in sorted(often, key=lambda s: (-s["accesses"], -(s["last_turn"] or 0), s["id"])):
            new = self._whole_groups({s["id"]}) - chosen - held
            if self._sum(new) <= room:
                room -= self._sum(new)
                chosen |= new
        return chosen

    def _sum(self, ids: Iterable[str]) -> int:
        return sum(self.l1[id]["tokens"] for id in ids)

    def _evict(self, held: set[str], extra: int) -> None:
        """Evict in the guide's order until the low mark has room for ``extra`` more tokens."""
        before, target = self.used, self.rules.low - extra
        self._event("batch", before=before, coming=extra, mark=self.rules.low)
        batch = self.events[-1]
        for unit in self._units(held):
            if self.used <= target:
                break
            self._evict_unit(unit)
        batch.update(after=self.used, reached=self.used <= target)
        gone = before - self.used
        self.evicted += gone
        self.batches += gone > 0

    def _units(self, held: set[str]) -> list[list[str]]:
        """What may leave, first victim first; a group leaves when its last member is due."""
        free = [s for id, s in self.l1.items() if id not in held]
        history = [*self.context["history"], *self.requests]
        groups: dict[str, list[str]] = {}
        for s in free:
            if s["group"] is not None:
                groups.setdefault(s["group"], []).append(s["id"])
        units, seen = [], Counter[str]()
        for s in self.rules.guide.order(free, self.turn, history):
            if s["group"] is None:
                units.append([s["id"]])
            else:
                seen[s["group"]] += 1
                if seen[s["group"]] == len(groups[s["group"]]):
                    units.append(groups[s["group"]])
        return units

    def _evict_unit(self, unit: Sequence[str]) -> None:
        """Evict a segment or a whole group; if L2 does not take a dirty one, all of it stays."""
        for id in unit:
            if self.l1[id]["dirty"] and not self._write_back(self.l1[id]):
                return
        for id in unit:
            s = self.l1[id]
            score = self.rules.guide.score(s, self.turn)
            self._event("evict", s, score=score, why=self.rules.guide.policy)
            self._tell(id)
            self._leave(id)

    def _force_out(self, held: set[str], must: int) -> None:
        """Move dirty segments that L2 did not take out of L1; they stay in the state until it does."""
        for unit in self._units(held):
            if self.used + must <= self.rules.budget:
                return
            for id in unit:
                s = self.l1[id]
                if s["dirty"]:
                    self.unsaved[id] = s
                self._event("evict", s, why="no room; it waits for L2" if s["dirty"] else "no room")
                self._leave(id)
        if self.used + must > self.rules.budget:
            raise HierarchyError(
                f"{self.used + must} tokens are pinned or in use, more than the budget of {self.rules.budget}"
            )

    # --- loading -------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Let what was asked for enter, in order, while it fits."""
        for row in self._in_order():
            s = row.segment
            if self.used + s["tokens"] <= self.rules.budget:
                self._enter(row)
            else:
                self._event("skip", s, node=row.node, why="no room")
                if row.own and s["dirty"]:
                    self._hand_over(s)

    def _enter(self, row: _Demand) -> None:
        s = row.segment
        times = self.touches[s["id"]]
        s["loaded_turn"] = self.turn
        s["accesses"], s["last_turn"] = times, self.context["turn"] if times else None
        self.l1[s["id"]] = s
        self.used += s["tokens"]
        self.loaded += s["tokens"]
        self.staged.pop(s["id"], None)
        self._request(s, "load")
        self._event(row.kind, s, node=row.node, why=row.why, score=row.score)

    def _hand_over(self, s: SegmentJson) -> None:
        """Give a dirty segment that cannot be in L1 to L2; if L2 does not take it, it waits in the state."""
        if not self._write_back(s):
            self.unsaved[s["id"]] = s

    # --- prefetch ------------------------------------------------------------------------------------------

    def _prefetch(self) -> None:
        """Stage for the nodes ahead, the more the likelier; drop what is staged for no node ahead."""
        likely = [a for a in self.ahead if a.hint and a.probability >= self.rules.min_probability]
        names = {a.node for a in likely}
        for id, staged in list(self.staged.items()):
            still = [node for node in staged["for"] if node in names]
            if not still:
                self._event("drop", staged, why=f"no longer ahead: {', '.join(staged['for'])}")
                del self.staged[id]
            elif still != staged["for"]:
                self.staged[id] = {**staged, "for": still}
        for a in likely:
            self._stage_for(a)

    def _stage_for(self, a: Ahead) -> None:
        limit = min(self.rules.top_k, math.ceil(self.rules.top_k * a.probability))
        known = self._answer(a.hint, limit)
        if known is not None:
            for id in known:
                if id in self.staged:
                    self._stage(self.staged[id], a)
            return
        for one in self._search(a.hint, limit, a.node) or ():
            id = one.segment.id
            if id in self.l1 or id in self.unsaved:
                continue
            if id in self.staged and self.staged[id]["digest"] == one.segment.digest:
                self._stage(self.staged[id], a)
                continue
            s = replace(one.segment, query=a.hint, tokens=self.rules.counter.count(one.text))
            if s.tokens > self.rules.budget:
                self._event("skip", s, node=a.node, why="too large for L1")
                continue
            self.texts.put(one.text)
            data = replace(
                s, dirty=False, pinned=False, accesses=0, last_turn=None, group=None, loaded_turn=self.turn
            )
            self._stage(cast(StagedJson, {**data.to_json(), "for": [], "p": 0.0}), a)
            self._event("stage", s, node=a.node, score=one.score, p=float(a.probability))

    def _stage(self, staged: StagedJson, a: Ahead) -> None:
        new = {
            "for": sorted({*staged["for"], a.node}),
            "p": max(staged["p"], float(a.probability)),
            "fields": sorted({*staged["fields"], *a.fields}),
        }
        self.staged[staged["id"]] = cast(StagedJson, {**staged, **new})

    # --- the end of a run ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Write everything dirty back to L2, and tell it what was used."""
        for id, s in list(self.l1.items()):
            if s["dirty"]:
                self._write_back(s)
            self._tell(id)

    # --- small steps ---------------------------------------------------------------------------------------

    def _write_back(self, s: SegmentJson) -> bool:
        """Give a dirty segment to L2 and say whether it took it; on failure it stays dirty, and is logged."""
        why = self.unreachable
        if not why:
            try:
                stored = self.cache.put(Segment.from_json(s), self.texts.get(s["digest"]), True)
            except HierarchyError as error:
                why = str(error)
                if isinstance(error, Unavailable):
                    self.unreachable = why
        if why:
            self._event("keep", s, why=why)
            return False
        self._event("write_back", s, version=stored.version)
        if stored.version != s["version"]:
            self._event("conflict", s, why=f"L2 had a later version; it is {stored.version} now")
        if s["id"] in self.l1:
            self._change(s["id"], dirty=False, version=stored.version)
        # what L2 answered before may be incomplete now
        self.answers.clear()
        return True

    def _tell(self, id: str) -> None:
        """Tell L2 how often a segment was used since it was told last."""
        s = self.l1[id]
        times = s["accesses"] - self.counted.get(id, 0)
        if times > 0 and not s["dirty"] and not self.unreachable:
            try:
                self.cache.touch([id], times)
            except HierarchyError as error:
                self._event("skip", s, why=f"L2 did not count its accesses: {error}")
            else:
                self.counted[id] = s["accesses"]

    def _ask(self, row: _Demand) -> None:
        self.demand[row.segment["id"]] = row

    def _known(self, id: str) -> SegmentJson | None:
        """Return the latest version of a segment that the state has."""
        rows = [place[id] for place in (self.l1, self.staged, self.unsaved) if id in place]
        return cast(SegmentJson, max(rows, key=lambda s: s["version"])) if rows else None

    def _forget(self, id: str) -> None:
        """Remove every version of a segment that a later one replaces."""
        self.staged.pop(id, None)
        self.unsaved.pop(id, None)
        if id in self.l1:
            self._leave(id)

    def _leave(self, id: str) -> None:
        self.used -= self.l1.pop(id)["tokens"]
        self.counted.pop(id, None)

    def _change(self, id: str, **changes: Any) -> None:
        self.l1[id] = cast(SegmentJson, {**self.l1[id], **changes})

    def _request(self, s: SegmentJson, kind: str) -> None:
        if self.rules.guide.uses_history:
            self.requests.append([s["id"], s["tokens"], kind])

    def _event(self, kind: str, s: Any = None, **facts: Any) -> None:
        event: dict[str, Any] = {"turn": self.turn, "kind": kind}
        if s is not None:
            data = s if isinstance(s, dict) else s.to_json()
            event.update((name, data[name]) for name in ("tokens", "version", "source"))
            event["segment"] = data["id"]
            if kind in ("evict", "keep"):
                event.update(accesses=data["accesses"], last_turn=data["last_turn"])
        event.update((k, v) for k, v in facts.items() if v is not None and v != "")
        self.events.append(event)

    def _result(self) -> ContextJson:
        old = self.context
        for name in {f for s in (*self.l1.values(), *self.staged.values()) for f in s["fields"]}:
            # whatever its digest turns out to be: it may have changed since
            self.seen.setdefault(name, "")
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
            "path": [*old["path"], *(s.node for s in self.starting)][-_MOST_PATH:],
            "messages": self.messages,
            "answers": self.answers,
            "counted": self.counted,
            "seen_fields": self.seen,
            "loaded": self.loaded,
            "evicted": self.evicted,
            "batches": self.batches,
        }
