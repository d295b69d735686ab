"""What the hierarchy needs of its backing store L3: records with versions, and compare-and-set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from softhit.hierarchy.segment import digest_of

__all__ = ["DocumentStore", "Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """One version of one document.

    Attributes
    ----------
    key : str
        The segment's id.
    version : int
        From 1; older versions are kept.
    text : str
    metadata : mapping
        Plain data: source, url, fields, ...
    """

    key: str
    version: int
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return digest_of(self.text)


@runtime_checkable
class DocumentStore(Protocol):
    """The authoritative store. Once a write returned, a killed process loses nothing of it.

    Every method raises :class:`softhit.errors.Unavailable` when the store cannot be reached.
    """

    @property
    def name(self) -> str:
        """What it is and where, for messages and logs."""
        ...

    def get(self, key: str, version: int | None = None) -> Record | None:
        """Return the latest (or the given) version of a record, or None."""
        ...

    def version(self, key: str) -> int:
        """Return the latest version of a record; 0 = there is none."""
        ...

    def upsert(
        self, key: str, text: str, metadata: Mapping[str, Any], expected: int, *, version: int | None = None
    ) -> Record:
        """Store a version iff the latest one is ``expected``, atomically, and return it.

        ``version`` is the new one, ``expected + 1`` unless given: versions grow, and may have gaps. If the
        latest is that version with the same text, somebody repeats a write that was interrupted: that record
        is returned. Otherwise raises :class:`softhit.errors.VersionConflict`.
        """
        ...

    def search(self, words: str, limit: int = 5) -> list[Record]:
        """Return the latest versions that share most words with ``words``, best first, then by key."""
        ...

    def keys(self) -> Iterator[str]:
        """Yield all keys, sorted."""
        ...

    def delete(self, key: str) -> bool:
        """Remove a record with all versions; say whether there was one."""
        ...

    def close(self) -> None:
        """Release it; a second call does nothing."""
        ...
