"""Room in L1: who is pinned, and the one eviction batch of a boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from softhit.errors import HierarchyError, SegmentTooLarge
from softhit.hierarchy.work import Demand, Work

__all__ = ["make_room"]

_WAY_OUT = "resume the run with a larger budget, and unpin some"


def make_room(work: Work) -> None:
    """Evict at most one batch: down to the low mark if what is to come would pass the high mark.

    When a batch starts after one that reached the low mark, more than (high - low) * budget tokens have
    entered since, or are to enter with it. A batch does not reach the mark where pins, or dirty segments that
    L2 does not take, are more than it leaves; then the next boundary tries again.

    Raises
    ------
    SegmentTooLarge
        A pinned segment has more tokens than the budget.
    HierarchyError
        Pinned segments, with those of their groups, have more tokens than the budget.
    """
    _refuse_what_cannot_fit(work)
    pinned = _hard_pins(work)
    coming = _fitting(work.in_order(), work.rules.budget - work.tokens(pinned))
    if work.used + coming > work.rules.high:
        _evict(work, pinned | _soft_pins(work, pinned, work.rules.low - coming), coming)
    must = sum(row.segment["tokens"] for row in work.demand.values() if row.segment["pinned"])
    if work.used + must > work.rules.budget:
        _force_out(work, pinned, must)


def _fitting(rows: Iterable[Demand], room: int) -> int:
    """Return the tokens of those that will be loaded: each that fits, in order."""
    total = 0
    for row in rows:
        if total + row.segment["tokens"] <= room:
            total += row.segment["tokens"]
    return total


def _refuse_what_cannot_fit(work: Work) -> None:
    """Raise where pinned segments have no room; hand what is too large for L1 to L2."""
    budget = work.rules.budget
    for id, row in list(work.demand.items()):
        s = row.segment
        if s["tokens"] > budget:
            if s["pinned"]:
                raise SegmentTooLarge(id, s["tokens"], budget)
            work.event("skip", s, node=row.node, why="too large for L1")
            if row.own and s["dirty"]:
                work.hand_over(s)
            del work.demand[id]
    rows = [*work.l1.values(), *(row.segment for row in work.demand.values())]
    total = sum(s["tokens"] for s in rows if s["pinned"])
    if total > budget:
        raise HierarchyError(
            f"pinned segments have {total} tokens, more than the whole budget of {budget}: {_WAY_OUT}"
        )


def _hard_pins(work: Work) -> set[str]:
    """Ids that no batch evicts; a group with one of them is one of them."""
    ids = {id for id, s in work.l1.items() if s["pinned"]}
    ids |= (work.referenced | work.needed) & work.l1.keys()
    return _whole_groups(work, ids)


def _whole_groups(work: Work, ids: set[str]) -> set[str]:
    groups = {work.l1[id]["group"] for id in ids} - {None}
    return ids | {id for id, s in work.l1.items() if s["group"] in groups} if groups else ids


def _soft_pins(work: Work, pinned: set[str], room: int) -> set[str]:
    """Ids pinned by their many accesses; those with the fewest give way where the low mark has no room."""
    least = work.rules.pin_accesses
    if least is None:
        return set()
    often = [s for id, s in work.l1.items() if s["accesses"] >= least and id not in pinned]
    chosen: set[str] = set()
    room -= work.tokens(pinned)
    for s in sorted(often, key=lambda s: (-s["accesses"], -(s["last_turn"] or 0), s["id"])):
        new = _whole_groups(work, {s["id"]}) - chosen
        if work.tokens(new) <= room:
            room -= work.tokens(new)
            chosen |= new
    return chosen


def _evict(work: Work, pinned: set[str], coming: int) -> None:
    """Evict in the guide's order until the low mark has room for ``coming`` more tokens."""
    before, target = work.used, work.rules.low - coming
    batch = work.event("batch", before=before, coming=coming, mark=work.rules.low)
    for unit in _units(work, pinned):
        if work.used <= target:
            break
        _evict_unit(work, unit)
    gone = before - work.used
    batch.update(after=work.used, reached=work.used <= target)
    work.evicted += gone
    work.batches += gone > 0


def _units(work: Work, pinned: set[str]) -> list[list[str]]:
    """What may leave, first victim first; a group leaves when its last member is due."""
    free = [s for id, s in work.l1.items() if id not in pinned]
    size = Counter(s["group"] for s in free)
    groups: dict[str, list[str]] = {}
    units = []
    for s in work.rules.guide.order(free, work.turn, [*work.old["history"], *work.requests]):
        if s["group"] is None:
            units.append([s["id"]])
            continue
        members = groups.setdefault(s["group"], [])
        members.append(s["id"])
        if len(members) == size[s["group"]]:
            units.append(members)
    return units


def _evict_unit(work: Work, unit: Sequence[str]) -> None:
    """Evict a segment or a whole group; if L2 does not take a dirty one, all of it stays."""
    for id in unit:
        if work.l1[id]["dirty"] and not work.write_back(work.l1[id]):
            return
    guide = work.rules.guide
    for id in unit:
        s = work.l1[id]
        work.event("evict", s, score=guide.score(s, work.turn), why=guide.policy)
        work.tell(id)
        work.leave(id)


def _force_out(work: Work, pinned: set[str], must: int) -> None:
    """Make room for pinned segments by all means: what is dirty waits in the state until L2 takes it.

    First goes what a batch may evict, then what the starting nodes need, then what an output named.
    """
    kept = _whole_groups(work, {id for id, s in work.l1.items() if s["pinned"]})
    for stays in (pinned, pinned - (work.needed - work.referenced), kept):
        for unit in _units(work, _whole_groups(work, stays & work.l1.keys()) | kept):
            if work.used + must <= work.rules.budget:
                return
            for id in unit:
                s = work.l1[id]
                if s["dirty"]:
                    work.unsaved[id] = s
                waits = "; it waits for L2" if s["dirty"] else ""
                work.event("evict", s, why=f"no room beside what is pinned{waits}")
                work.leave(id)
    if work.used + must > work.rules.budget:
        raise HierarchyError(
            f"{work.used + must} tokens are pinned, alone or by their groups, more than the budget of "
            f"{work.rules.budget}: {_WAY_OUT}"
        )
