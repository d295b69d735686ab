"""What the allocator keeps in the graph's state: plain JSON data, and how two copies of it merge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypedDict, cast

from softhit.hierarchy.segment import Segment

__all__ = [
    "HISTORY",
    "AnswerJson",
    "ContextJson",
    "SegmentJson",
    "StagedJson",
    "canonical",
    "empty_context",
    "merge_context",
    "read_context",
    "segments_of",
    "used_tokens",
]

HISTORY = 4096
"""How many requests the state remembers for policies that are a function of the history."""


class SegmentJson(TypedDict):
    """A :class:`Segment` as plain data; see there."""

    id: str
    digest: str
    tokens: int
    source: str
    query: str
    url: str
    version: int
    dirty: bool
    accesses: int
    loaded_turn: int
    last_turn: int | None
    fields: list[str]
    pinned: bool
    group: str | None


StagedJson = dict[str, Any]
"""The keys of :class:`SegmentJson`, and ``for`` (names of nodes) and ``p`` (the highest probability)."""


class AnswerJson(TypedDict):
    """Which segments L2 gave for a hint, and how many it was asked for."""

    limit: int
    ids: list[str]


class ContextJson(TypedDict):
    """The state of the allocator after a boundary.

    Attributes
    ----------
    revision : int
        Counts the boundaries; the higher of two copies is the later one.
    turn : int
        Of the nodes that run now; a boundary makes it one more.
    budget : int
        In tokens.
    l1 : dict
        What nodes see; the sum of its tokens is at most ``budget``.
    staged : dict
        Prefetched for nodes ahead, with ``for`` (their names) and ``p`` (the highest probability); no node
        sees it and it does not count against the budget.
    unsaved : dict
        Dirty segments that left L1 by force (invalidated, or no room) while L2 did not take them. No node
        sees them; each boundary tries again.
    history : list of [id, tokens, kind]
        The latest requests; kept where the policy is a function of them.
    path : list of str
        The nodes that started, latest last.
    messages : list of str
        Ids of the conversation's messages that a boundary has seen, in order.
    answers : dict
        What L2 last answered to a hint, so that a satisfied hint costs no search.
    siblings : dict
        Ids that boundaries gave to texts of parallel branches, and which id each branch had asked for.
    counted : dict
        How many accesses of a segment L2 has been told of while it stays in L1.
    seen_fields : dict
        Digest of each watched state field; "" = not known when a segment that depends on it was loaded.
    loaded, evicted : int
        Tokens that ever entered L1, and that a batch evicted.
    batches : int
        Eviction batches so far.
    """

    revision: int
    turn: int
    budget: int
    l1: dict[str, SegmentJson]
    staged: dict[str, StagedJson]
    unsaved: dict[str, SegmentJson]
    history: list[list[Any]]
    path: list[str]
    messages: list[str]
    answers: dict[str, AnswerJson]
    counted: dict[str, int]
    siblings: dict[str, str]
    seen_fields: dict[str, str]
    loaded: int
    evicted: int
    batches: int


def empty_context(budget: int) -> ContextJson:
    """Return the state before the first boundary.

    >>> empty_context(100)["turn"]
    0
    """
    return {
        "revision": 0,
        "turn": 0,
        "budget": budget,
        "l1": {},
        "staged": {},
        "unsaved": {},
        "history": [],
        "path": [],
        "messages": [],
        "answers": {},
        "counted": {},
        "siblings": {},
        "seen_fields": {},
        "loaded": 0,
        "evicted": 0,
        "batches": 0,
    }


def read_context(data: Mapping[str, Any] | None, budget: int) -> ContextJson:
    """Return the state that lies in a channel; what an older one lacks is as in the empty state."""
    return cast(ContextJson, {**empty_context(budget), **(data or {}), "budget": budget})


def canonical(data: Any) -> str:
    """Return one text for equal plain data, whatever the order of its keys."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def merge_context(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the later of two copies of the state: the reducer of its channel.

    Commutative, associative and idempotent: it is the maximum of a total order (the revision; between equal
    revisions, which only differ where two histories are mixed, the text of the data).

    >>> merge_context({"revision": 2}, {"revision": 1})
    {'revision': 2}
    """
    a, b = dict(left or {}), dict(right or {})
    first, second = a.get("revision", -1), b.get("revision", -1)
    if first == second and a != b:
        return max(a, b, key=canonical)
    return b if second > first else a


def segments_of(context: Mapping[str, Any], place: str = "l1") -> list[Segment]:
    """Return the segments of one place of the state (``"l1"``, ``"staged"``, ``"unsaved"``), in its order."""
    return [Segment.from_json(data) for data in context.get(place, {}).values()]


def used_tokens(context: Mapping[str, Any]) -> int:
    """Return the tokens in L1."""
    return sum(data["tokens"] for data in context.get("l1", {}).values())
