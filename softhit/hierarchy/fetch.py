"""What a boundary fetches from L2: what starting nodes need, and what is staged for the nodes ahead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from softhit.errors import Unavailable
from softhit.hierarchy.levels import Found
from softhit.hierarchy.nodes import Ahead, Start
from softhit.hierarchy.segment import Segment
from softhit.hierarchy.state import SegmentJson, StagedJson
from softhit.hierarchy.work import Demand, Work

__all__ = ["need", "offer", "prefetch"]

_FRESH: dict[str, Any] = {
    "dirty": False,
    "pinned": False,
    "accesses": 0,
    "last_turn": None,
    "group": None,
}
"""What a segment of L2 is in L1, whatever it was in the run that wrote it."""


def need(work: Work, start: Start) -> None:
    """Find what a starting node needs: what is staged for it, and what its hint asks for."""
    for id, staged in list(work.staged.items()):
        if start.node in staged["for"]:
            _flush(work, id, start)
    limit = work.rules.top_k
    if not start.hint or limit == 0:
        return
    known = _answer(work, start.hint, limit)
    if known is not None:
        for id in known:
            _at_hand(work, id, start)
        return
    found = _search(work, start.hint, limit, limit, start.node)
    if found is not None and not found:
        work.event("miss", node=start.node, why="L2 has nothing for the hint", query=start.hint)
    for one in found or ():
        _take(work, one, start)


def _at_hand(work: Work, id: str, start: Start) -> None:
    """Use what is on its way into L1, staged, or in it."""
    if id in work.demand:
        row = work.demand[id]
        row.segment["fields"] = sorted({*row.segment["fields"], *start.fields})
    elif id in work.staged:
        _flush(work, id, start)
    else:
        _hit(work, id, start.node, start.fields)


def _flush(work: Work, id: str, start: Start) -> None:
    if id in work.demand:
        return
    staged = work.staged[id]
    plain = {k: v for k, v in staged.items() if k not in ("for", "p")}
    plain["fields"] = sorted({*plain["fields"], *start.fields})
    why = f"staged for {', '.join(staged['for'])}"
    work.ask(Demand(cast(SegmentJson, plain), start.node, "flush", why))


def _take(work: Work, one: Found, start: Start) -> None:
    """Use what a search found, unless a copy as good is at hand."""
    s = one.segment
    held = work.l1.get(s.id)
    staged = work.staged.get(s.id)
    # another agent may have written a later version to L2
    if held is not None and not held["dirty"] and held["version"] < s.version:
        work.event("drop", held, node=start.node, why=f"L2 has version {s.version}")
        work.touches[s.id] = held["accesses"]
        work.leave(s.id, replaced=True)
    elif s.id in work.demand or held is not None or (staged is not None and staged["digest"] == s.digest):
        _at_hand(work, s.id, start)
        return
    data = {**_fetched(work, one).to_json(), "query": start.hint}
    work.event("miss", cast(SegmentJson, data), node=start.node, why="not in L1", score=one.score)
    pinned = held is not None and held["pinned"]
    offer(work, data, start.node, start.hint, start.fields, "hint", one.score, pinned)


def _fetched(work: Work, one: Found) -> Segment:
    """Return what L2 found as L1 takes it; tokens are counted here: another agent may count otherwise."""
    return replace(one.segment, tokens=work.rules.counter.count(one.text), **_FRESH)


def offer(
    work: Work,
    data: Mapping[str, Any],
    node: str,
    query: str,
    fields: Iterable[str],
    why: str,
    score: float | None = None,
    pinned: bool = False,
) -> None:
    """Ask for a fetched segment, unless it is in L1 already, or a later version is on its way to L2."""
    depends = sorted({*data["fields"], *fields})
    s = cast(SegmentJson, {**data, **_FRESH, "query": query, "fields": depends, "pinned": pinned})
    if s["id"] in work.l1:
        _hit(work, s["id"], node, fields)
    elif s["id"] in work.unsaved:
        work.event("skip", s, node=node, why="a later version waits for L2")
    elif s["tokens"] > work.rules.budget and not pinned:
        work.event("skip", s, node=node, why="too large for L1")
    elif s["id"] not in work.demand:
        work.ask(Demand(s, node, "load", why, score=score))


def _hit(work: Work, id: str, node: str, fields: Iterable[str]) -> None:
    s = work.l1[id]
    if not set(fields) <= set(s["fields"]):
        work.change(id, fields=sorted({*s["fields"], *fields}))
    work.needed.add(id)
    work.request(s, "hit")
    work.event("hit", s, node=node)


def _answer(work: Work, hint: str, limit: int) -> list[str] | None:
    """Return what L2 gave for a hint, if all of it is at hand and no fewer were asked for."""
    known = work.answers.get(hint)
    if known is None or known["limit"] < limit:
        return None
    ids = known["ids"][:limit]
    here = all(id in work.l1 or id in work.staged or id in work.demand for id in ids)
    return ids if ids and here else None


def _search(work: Work, hint: str, limit: int, most: int, node: str) -> Sequence[Found] | None:
    """Return what L2 finds; None when it cannot be reached: the run goes on without.

    What it found for a hint in this boundary it is not asked again. ``most`` is the highest limit that this
    stage has for the hint; what goes into the state is what a search for ``limit`` leaves there.
    """
    if not work.unreachable:
        try:
            if hint not in work.found or work.found[hint][0] < limit:
                work.found[hint] = most, work.cache.search(hint, most, work.rules.least_score)
        except Unavailable as error:
            work.unreachable = str(error)
        else:
            found = work.found[hint][1][:limit]
            known = work.answers.pop(hint, None)
            if known is None or known["limit"] <= limit:
                known = {"limit": limit, "ids": [one.segment.id for one in found]}
            work.answers[hint] = known
            held = {s["digest"] for place in (work.l1, work.staged) for s in place.values()}
            # before any state refers to them
            work.texts.put_many(one.text for one in found if one.segment.digest not in held)
            return found
    work.event("miss", node=node, why=f"L2 cannot be reached: {work.unreachable}", query=hint)
    return None


def prefetch(work: Work, ahead: Iterable[Ahead]) -> None:
    """Stage for the nodes ahead, the more the likelier they are; drop what is staged for no node ahead."""
    rules = work.rules
    likely = [a for a in ahead if a.hint and a.probability > 0 and a.probability >= rules.min_probability]
    names = {a.node for a in likely}
    for id, staged in list(work.staged.items()):
        still = [node for node in staged["for"] if node in names]
        if not still:
            work.event("drop", staged, why=f"no longer ahead: {', '.join(staged['for'])}")
            del work.staged[id]
        elif still != staged["for"]:
            work.staged[id] = {**staged, "for": still}
    limits = [min(rules.top_k, math.ceil(rules.top_k * a.probability)) for a in likely]
    most: dict[str, int] = {}
    for a, limit in zip(likely, limits, strict=True):
        most[a.hint] = max(limit, most.get(a.hint, 0))
    for a, limit in zip(likely, limits, strict=True):
        if limit > 0:
            _stage_for(work, a, limit, most[a.hint])


def _stage_for(work: Work, a: Ahead, limit: int, most: int) -> None:
    known = _answer(work, a.hint, limit)
    if known is not None:
        for id in known:
            if id in work.staged:
                _stage(work, work.staged[id], a)
        return
    for one in _search(work, a.hint, limit, most, a.node) or ():
        id = one.segment.id
        if id in work.l1 or id in work.unsaved:
            continue
        if id in work.staged and work.staged[id]["digest"] == one.segment.digest:
            _stage(work, work.staged[id], a)
            continue
        data = {**_fetched(work, one).to_json(), "query": a.hint, "loaded_turn": work.turn}
        if data["tokens"] > work.rules.budget:
            work.event("skip", data, node=a.node, why="too large for L1")
            continue
        _stage(work, {**data, "for": [], "p": 0.0}, a)
        work.event("stage", data, node=a.node, score=one.score, p=float(a.probability))


def _stage(work: Work, staged: StagedJson, a: Ahead) -> None:
    work.staged[staged["id"]] = {
        **staged,
        "for": sorted({*staged["for"], a.node}),
        "p": max(staged["p"], float(a.probability)),
        "fields": sorted({*staged["fields"], *a.fields}),
    }
