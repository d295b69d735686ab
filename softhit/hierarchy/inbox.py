"""The first stage of a boundary: what the nodes that ran have reported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from softhit.errors import HierarchyError
from softhit.hierarchy.fetch import offer
from softhit.hierarchy.reports import pending, standing
from softhit.hierarchy.state import SegmentJson
from softhit.hierarchy.work import Demand, Work

__all__ = ["apply_reports"]

Report = dict[str, Any]


def apply_reports(work: Work, value: Mapping[str, Any]) -> tuple[int, set[str]]:
    """Apply what was reported; return up to which turn, and the state fields reported as changed."""
    reports = pending(value)
    by_kind: dict[str, list[Report]] = {}
    for report in reports:
        by_kind.setdefault(report["kind"], []).append(report)
    _touch(work, [*by_kind.get("touch", ()), *by_kind.get("reference", ())])
    work.referenced = {r["id"] for r in by_kind.get("reference", ())}
    for report in reports:
        if report["kind"] in ("pin", "unpin"):
            _pin(work, report)
    _derive(work, by_kind.get("derive", []))
    _converse(work, by_kind.get("messages", []))
    for report in by_kind.get("want", ()):
        for data in report["segments"]:
            offer(work, data, report["node"], report["query"], report.get("fields", ()), "wanted")
    fields = {str(r["field"]) for r in by_kind.get("invalidate", ())}
    return max(work.now, *(int(r["turn"]) for r in reports), -1), fields


def _touch(work: Work, reports: Iterable[Report]) -> None:
    """Count one access for each run of a node that used a segment, however often it did."""
    for _, _, id in sorted({(r["node"], r["task"], r["id"]) for r in reports}):
        work.touches[id] += 1
        if id in work.l1:
            work.request(work.l1[id], "touch")
    for id, times in work.touches.items():
        if id in work.l1:
            work.change(id, accesses=work.l1[id]["accesses"] + times, last_turn=work.now)


def _pin(work: Work, report: Report) -> None:
    id, pinned = report["id"], report["kind"] == "pin"
    if id in work.l1 and work.l1[id]["pinned"] != pinned:
        work.change(id, pinned=pinned)
        work.event("pin", work.l1[id], node=report["node"], why=report["kind"])


def _derive(work: Work, reports: Iterable[Report]) -> None:
    """Take derived texts; where parallel branches derived one id, each text gets an id of its own."""
    reports = standing(reports)
    asked = {report["segment"]["id"] for report in reports}
    taken: dict[str, str] = {}
    for report in reports:
        made, node = cast(SegmentJson, dict(report["segment"])), report["node"]
        id, number = made["id"], 1
        while _is_anothers(work, made, id, asked, taken):
            made["id"] = f"{id}@{node}" if number == 1 else f"{id}@{node}.{number}"
            number += 1
        if made["id"] in taken:
            continue
        taken[made["id"]] = made["digest"]
        if made["id"] != id:
            work.siblings[made["id"]] = id
            made["version"], made["dirty"] = 1, True  # L2 has nothing under this id
            work.event("conflict", made, node=node, why=f"another branch derived {id!r} too")
        _take(work, made, node)


def _is_anothers(
    work: Work, made: SegmentJson, id: str, asked: Collection[str], taken: Mapping[str, str]
) -> bool:
    """Whether the id a text is to have belongs to another text; its own is another's once that is taken."""
    if made["id"] in taken:
        return taken[made["id"]] != made["digest"]
    if made["id"] == id:
        return False
    # the same branch may have met the same conflict before: then it goes on under its own id
    ours = work.siblings.get(made["id"]) == id
    known = None if ours else work.known(made["id"])
    return made["id"] in asked or (known is not None and known["digest"] != made["digest"])


def _take(work: Work, made: SegmentJson, node: str) -> None:
    """Put one derived text on its way into L1, as the version after the one that is known."""
    id, known = made["id"], work.known(made["id"])
    # to derive is to use; the count goes on from that of the version before
    work.touches[id] = 1 + (work.l1[id]["accesses"] if id in work.l1 else work.touches[id])
    if known is not None and known["digest"] == made["digest"] and _moved_on(work, known):
        # somebody else has written under this id since: what is derived now is the newest text
        made["version"], made["dirty"] = known["version"] + 1, True
    elif known is not None and known["digest"] == made["digest"]:
        if id in work.l1:
            fields = sorted({*known["fields"], *made["fields"]})
            pinned = made["pinned"] or known["pinned"]
            work.change(id, accesses=work.touches[id], last_turn=work.now, fields=fields, pinned=pinned)
            return
        made["version"], made["dirty"] = known["version"], known["dirty"]
    elif known is not None:
        made["version"], made["dirty"] = max(made["version"], known["version"] + 1), True
        made["pinned"] = made["pinned"] or known["pinned"]
    work.forget(id)
    work.event("derive", made, node=node, why="" if known is None else f"after version {known['version']}")
    work.ask(Demand(made, node, "load", "derived", own=True))


def _moved_on(work: Work, known: SegmentJson) -> bool:
    """Whether L2 may have another text than the clean one that is known here."""
    if known["dirty"]:
        return False
    try:
        found = work.cache.get([known["id"]]).get(known["id"])
    except HierarchyError:
        return True
    return found is None or found.segment.digest != known["digest"]


def _converse(work: Work, reports: Sequence[Report]) -> None:
    """Take the messages that are new, and let go of those that the conversation no longer has."""
    if not reports:
        return
    present: dict[str, tuple[SegmentJson, str]] = {}
    for report in reports:
        for data in report["segments"]:
            present[data["id"]] = (data, report["node"])
    before = set(work.messages)
    for id in work.messages:
        if id not in present and id in work.l1:
            work.event("drop", work.l1[id], why="no longer in the conversation")
            work.leave(id)
    for id, (data, node) in present.items():
        if id in work.l1 and work.l1[id]["digest"] != data["digest"]:
            work.leave(id)  # the message was edited
            before.discard(id)
        if id not in before:
            work.ask(Demand(cast(SegmentJson, dict(data)), node, "load", "said", own=True))
        elif id in work.l1 and work.l1[id]["pinned"] != data["pinned"]:
            work.change(id, pinned=data["pinned"])
    work.messages = list(present)
