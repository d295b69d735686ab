"""What L1 needs of the levels below it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from softhit.hierarchy.segment import Segment

__all__ = ["L2", "Found", "TextStore"]


class Found(Protocol):
    """A segment that L2 found, with its text and the cosine."""

    @property
    def segment(self) -> Segment: ...

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...


class L2(Protocol):
    """See :class:`softhit.hierarchy.semantic.SemanticCache`."""

    def put(self, segment: Segment, text: str, dirty: bool = True) -> Segment:
        """Store a segment for good and return it as stored; raise ``HierarchyError`` if that fails."""
        ...

    def search(
        self, query: str, limit: int = 5, least: float = 0.0, exclude: Collection[str] = ()
    ) -> Sequence[Found]:
        """Return what is nearest to a query, best first."""
        ...

    def touch(self, ids: Iterable[str], times: int = 1) -> None:
        """Count accesses."""
        ...

    def get(self, ids: Collection[str]) -> Mapping[str, Found]:
        """Return what there is of ``ids``."""
        ...


class TextStore(Protocol):
    """See :class:`softhit.hierarchy.texts.Texts`."""

    def put(self, text: str) -> str:
        """Store a text for good and return its digest."""
        ...

    def put_many(self, texts: Iterable[str]) -> list[str]:
        """Store several at once."""
        ...

    def get(self, digest: str) -> str:
        """Return the text of a digest."""
        ...
