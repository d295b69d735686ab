"""One node boundary: the only place where segments enter and leave L1.

The stages, in this order: reports of the nodes that ran; invalidation by state fields; what the nodes that
start need; room for it, by at most one eviction batch; loading; prefetch for the nodes ahead; at the end of a
run the final write-back. What is in the state is never changed, a new state is made.

What holds after every boundary: the tokens in L1 are at most the budget; nothing pinned was evicted, nor what
the nodes that start need, nor what the output of a node that just ran names; every dirty segment is still in
the state, or L2 has taken it, or a later version of the same id has replaced it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softhit.hierarchy.fetch import need, prefetch
from softhit.hierarchy.inbox import apply_reports
from softhit.hierarchy.nodes import Ahead, Start
from softhit.hierarchy.reports import pending
from softhit.hierarchy.room import make_room
from softhit.hierarchy.state import ContextJson
from softhit.hierarchy.work import Work

__all__ = ["cross"]


def cross(
    work: Work,
    reports: Mapping[str, Any],
    starting: Sequence[Start],
    ahead: Sequence[Ahead] = (),
    fields: Mapping[str, str] | None = None,
    ending: bool = False,
) -> tuple[ContextJson, dict[str, Any]]:
    """Cross a boundary: return the new state and the new value of the reports.

    Raises
    ------
    SegmentTooLarge, HierarchyError
        See :func:`softhit.hierarchy.room.make_room`.
    """
    nodes = [s.node for s in starting]
    summary = work.event("turn", nodes=nodes, ending=ending)
    applied, stale = apply_reports(work, reports)
    _invalidate(work, stale | _changed(work, fields or {}, reports))
    _save_unsaved(work)
    for start in starting:
        need(work, start)
    make_room(work)
    _load(work)
    prefetch(work, ahead)
    if ending:
        _write_all_back(work)
    summary.update(
        used=work.used,
        budget=work.rules.budget,
        segments=len(work.l1),
        staged=len(work.staged),
        unsaved=len(work.unsaved),
    )
    return work.result(nodes, fields or ()), {"applied": applied, "reports": {}}


def _changed(work: Work, fields: Mapping[str, str], reports: Mapping[str, Any]) -> set[str]:
    """Return the fields whose digest is not the one seen last, and remember those that are given.

    Two have seen a field: the last boundary that was given its digest, and each node that reports a text that
    depends on it. What a node saw counts by itself: the boundary's may be of long ago, or be this value again
    after another one in between.
    """
    changed = {name for name, digest in fields.items() if work.seen.get(name, digest) != digest}
    for report in pending(reports):
        for name, digest in report.get("seen", {}).items():
            if fields.get(name, digest) != digest:
                changed.add(name)
            work.seen.setdefault(name, digest)
    work.seen.update(fields)
    return changed


def _invalidate(work: Work, fields: set[str]) -> None:
    """Remove what depends on one of the fields from everywhere a node could come to see it.

    A stale derived text is content all the same: it is handed to L2 first.
    """
    if not fields:
        return
    for id, s in list(work.l1.items()):
        if not fields.isdisjoint(s["fields"]):
            work.event("invalidate", s, why=_why(fields, s["fields"]))
            if s["dirty"]:
                work.hand_over(s)
            work.tell(id)
            work.leave(id)
    for id, staged in list(work.staged.items()):
        if not fields.isdisjoint(staged["fields"]):
            work.event("invalidate", staged, why=_why(fields, staged["fields"]))
            del work.staged[id]
    for id, row in list(work.demand.items()):
        if not fields.isdisjoint(row.segment["fields"]):
            work.event("invalidate", row.segment, node=row.node, why=_why(fields, row.segment["fields"]))
            if row.own and row.segment["dirty"]:
                work.hand_over(row.segment)
            del work.demand[id]


def _why(changed: set[str], fields: Sequence[str]) -> str:
    return f"state field {', '.join(sorted(changed.intersection(fields)))} changed"


def _save_unsaved(work: Work) -> None:
    """Try again to give L2 what it did not take when it left L1."""
    for id, s in list(work.unsaved.items()):
        if work.write_back(s):
            del work.unsaved[id]


def _load(work: Work) -> None:
    """Let what was asked for enter, in order, where it fits."""
    for row in work.in_order():
        s = row.segment
        if work.used + s["tokens"] <= work.rules.budget:
            work.enter(row)
        else:
            work.event("skip", s, node=row.node, why="no room")
            if row.own and s["dirty"]:
                work.hand_over(s)


def _write_all_back(work: Work) -> None:
    """At the end of a run, give L2 everything dirty, and tell it what was used."""
    for id, s in list(work.l1.items()):
        if s["dirty"]:
            work.write_back(s)
        work.tell(id)
