"""Small stand-ins for the levels below L1, whose failures a test can choose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from softhit.errors import CacheFull, NotInL3Yet, Unavailable
from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.allocator import ContextAllocator
from softhit.hierarchy.texts import Texts


@dataclass(frozen=True)
class Hit:
    segment: Segment
    text: str
    score: float


class WordsL2:
    """L2 by shared words; ``failing`` makes it unreachable, ``full`` makes it refuse what is dirty.

    Of the ids in ``waiting`` it holds somebody else's text that is not in L3 yet.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self.rows: dict[str, tuple[Segment, str]] = {}
        self.accesses: Counter[str] = Counter()
        self.searches: list[str] = []
        self.failing = False
        self.full = False
        self.waiting: set[str] = set()
        for id, text in (texts or {}).items():
            self.rows[id] = (Segment(id, digest_of(text), len(text.split())), text)

    def _reach(self) -> None:
        if self.failing:
            raise Unavailable("L2 is down")

    def put(self, segment: Segment, text: str, dirty: bool = True) -> Segment:
        self._reach()
        if self.full:
            raise CacheFull("L2 is full of content that L3 has not taken yet")
        if segment.id in self.waiting:
            raise NotInL3Yet(f"L2 holds another text of {segment.id!r} that is not in L3 yet; this one waits")
        assert digest_of(text) == segment.digest
        present = self.rows.get(segment.id)
        if present and present[0].version >= segment.version and present[0].digest != segment.digest:
            segment = replace(segment, version=present[0].version + 1)
        stored = replace(segment, dirty=False)
        self.rows[segment.id] = (stored, text)
        return stored

    def search(
        self, query: str, limit: int = 5, least: float = 0.0, exclude: Collection[str] = ()
    ) -> list[Hit]:
        self._reach()
        self.searches.append(query)
        asked = set(query.split())
        hits = []
        for id, (segment, text) in self.rows.items():
            words = set(text.split())
            score = len(asked & words) / len(asked)
            if score > 0 and score >= least and id not in exclude:
                hits.append(Hit(segment, text, score))
        return sorted(hits, key=lambda h: (-h.score, h.segment.id))[:limit]

    def touch(self, ids: Iterable[str], times: int = 1) -> None:
        self._reach()
        for id in ids:
            self.accesses[id] += times

    def get(self, ids: Collection[str]) -> dict[str, Hit]:
        self._reach()
        return {id: Hit(*self.rows[id], 1.0) for id in ids if id in self.rows}


def words(text: str) -> int:
    """A token is a word."""
    return len(text.split())


def text_of(tokens: int, topic: str = "topic", end: str = "") -> str:
    """A text of so many words; its first word is its topic, its last one makes it different from others."""
    last = [end] if end else []
    return " ".join([topic, *["word"] * (tokens - 1 - len(last)), *last])


def allocator(l2: Any, **changes: Any) -> ContextAllocator:
    """An allocator that counts words and takes any score."""
    given: dict[str, Any] = {"budget": 100, "counter": words, "least_score": 0.1, "top_k": 3, **changes}
    return ContextAllocator(l2, Texts(":memory:"), **given)


class Run:
    """A run without a graph: boundaries, and nodes between them; events of the last boundary."""

    def __init__(self, allocator: ContextAllocator) -> None:
        self.allocator = allocator
        self.context: dict[str, Any] = allocator.empty()
        self.reports: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []

    def cross(self, *starting: Any, **given: Any) -> list[dict[str, Any]]:
        """Cross a boundary and return its events."""
        written: list[dict[str, Any]] = []
        log, self.allocator.log = self.allocator.log, Recorder(written)  # type: ignore[assignment]
        try:
            self.context, self.reports = self.allocator.boundary(
                self.context, self.reports, starting, **given
            )
        finally:
            self.allocator.log = log
            self.events = written
            self.history += written
        return written

    def view(self, node: str = "node", task: str = "") -> Any:
        return self.allocator.view({"context": self.context, "context_reports": self.reports}, node, task)

    def report(self, *views: Any) -> None:
        from softhit.hierarchy.reports import merge_reports

        for view in views:
            self.reports = merge_reports(self.reports, view.update()["context_reports"])

    def held(self) -> list[str]:
        return sorted(self.context["l1"])

    def kinds(self, kind: str) -> list[str]:
        """The segments of the last boundary's events of a kind."""
        return [e.get("segment", "") for e in self.events if e["kind"] == kind]


class Recorder:
    """A log in memory."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events

    def write(self, events: Iterable[Mapping[str, Any]]) -> None:
        self.events.extend(dict(event) for event in events)
