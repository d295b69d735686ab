"""L2, the semantic cache: texts by meaning, bounded in size, coherent with L3, never losing what is dirty."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_int, check_real
from softhit.errors import CacheFull, InvalidInput, NotInL3Yet, Unavailable
from softhit.hierarchy.documents.protocol import DocumentStore, Record
from softhit.hierarchy.segment import SOURCES, Segment, check_id, digest_of, encodes
from softhit.hierarchy.tokens import TokenCounter, make_counter
from softhit.hierarchy.vectors.protocol import Row, Vectors
from softhit.io.text import Embedder

__all__ = ["Found", "Reconciled", "SemanticCache", "Writer", "metadata_of", "segment_from", "segment_of"]

_logger = logging.getLogger(__name__)


class Writer(Protocol):
    """What brings dirty rows to L3: the write-back."""

    def step(self, force: bool = False) -> int:
        """Try the dirty rows that are due (forced: all of them); return how many are clean now.

        Forced and with nothing left to do itself, it waits a moment for what another thread is writing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A segment of L2 with its text.

    Attributes
    ----------
    segment : Segment
        As L1 takes it: not dirty, no accesses yet.
    text : str
    score : float
        Its cosine with the query; 1.0 where it was asked for by id.
    """

    segment: Segment
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What :meth:`SemanticCache.reconcile` did: ids of rows that were deleted, and made new."""

    dropped: tuple[str, ...]
    refreshed: tuple[str, ...]


def segment_of(row: Row) -> Segment:
    """Return the segment of a row, as L1 takes it."""
    stored = row.payload
    return Segment(
        id=row.id,
        digest=stored["digest"],
        tokens=stored["token_count"],
        source=stored["source_type"],
        query=stored["query"],
        url=stored["source_url"],
        version=row.version,
        fields=tuple(stored["dependency_fields"]),
        group=stored["group"],
    )


def metadata_of(row: Row) -> dict[str, Any]:
    """Return what L3 keeps of a row beside its text; :func:`segment_from` reads it."""
    stored = row.payload
    return {
        "source": stored["source_type"],
        "url": stored["source_url"],
        "query": stored["query"],
        "fields": list(stored["dependency_fields"]),
        "group": stored["group"],
        "agent_version": stored["agent_version"],
    }


def segment_from(record: Record, tokens: int) -> Segment:
    """Return the segment of a record of L3; what its metadata do not say, or say wrongly, is left empty."""

    def text(name: str) -> str:
        value = record.metadata.get(name)
        return value if isinstance(value, str) else ""

    source = record.metadata.get("source")
    fields = record.metadata.get("fields")
    names = map(str, fields) if isinstance(fields, list | tuple) else ()
    return Segment(
        id=record.key,
        digest=record.digest,
        tokens=tokens,
        source=source if source in SOURCES else "document",
        query=text("query"),
        url=text("url"),
        version=record.version,
        fields=tuple(name for name in names if encodes(name)),
        group=text("group") or None,
    )


def _microseconds() -> int:
    return time.time_ns() // 1000


class SemanticCache:
    """L2 over a vector store; each text is embedded anew when it is written.

    A row is *dirty* while L3 does not have its version. Only clean rows are evicted, the coldest first:
    by (accesses, last access, id). All methods may be called from several threads.

    Parameters
    ----------
    vectors : Vectors
        See :func:`softhit.hierarchy.vectors.make_vectors`.
    embedder : Embedder
        Always the same for one store, and never refitted: vectors of two embedders cannot be compared.
    capacity : int
        Rows, >= 1. No ``put`` exceeds it. A store that holds more is shrunk to it on opening, as far as its
        rows are clean; until it fits, new rows are refused.
    documents : DocumentStore, optional
        L3. With it, clean rows are compared with their records before they are served: one whose record is
        gone is deleted, one whose record has another version gets that text. While L3 cannot be reached they
        are served unchecked.
    agent_version : str
        Stored with every row.
    clock : function
        Microseconds for ``last_access``; default: of the wall clock.
    writer : Writer, optional
        Asked to write dirty rows back when only dirty ones are left and room is needed. May be set later.
    counter : str or TokenCounter
        Counts texts that come from L3; loaded when first needed.
    on_event : function, optional
        Called with a dict for each thing that happened by itself: kinds ``rebase``, ``evict_l2``,
        ``refresh``, ``drop_l2``.

    Raises
    ------
    InvalidInput
        The store was filled by another embedder.

    Examples
    --------
    >>> from softhit.hierarchy.vectors import make_vectors
    >>> from softhit.io import make_embedder
    >>> embedder = make_embedder("hashed_tfidf(256)")
    >>> cache = SemanticCache(make_vectors(":memory:", 256), embedder, capacity=100)
    >>> text = "Refunds take five working days."
    >>> stored = cache.put(Segment("refunds", digest_of(text), tokens=6, source="agent_derived"), text)
    >>> [found.segment.id for found in cache.search("how many days does a refund take", least=0.1)]
    ['refunds']
    >>> cache.count(dirty=True)  # L3 does not have it yet
    1
    >>> cache.close()
    """

    def __init__(
        self,
        vectors: Vectors,
        embedder: Embedder,
        capacity: int,
        *,
        documents: DocumentStore | None = None,
        agent_version: str = "",
        clock: Callable[[], int] = _microseconds,
        writer: Writer | None = None,
        counter: str | TokenCounter = "o200k_base",
        on_event: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.vectors = vectors
        self.embedder = embedder
        self.capacity = check_int("capacity", capacity, low=1)
        self.documents = documents
        self.agent_version = agent_version
        self.on_event = on_event
        self._clock = clock
        self._writer = writer
        self._counter_spec = counter
        self._counter: TokenCounter | None = None
        # held over "is there room" and the insertion; never while the writer runs, which calls back
        self._lock = threading.RLock()
        self._check_embedder()
        self.evict()

    def _check_embedder(self) -> None:
        for row in self.vectors.coldest(1, dirty=None):
            used = row.payload.get("embedder")
            if used != self.embedder.name:
                raise InvalidInput(
                    f"{self.vectors.name} was filled by the embedder {used}, not {self.embedder.name}; use "
                    "that one, or another collection"
                )
            # the same name does not make it the same function: a refitted one has other vectors
            vector = self._embed(row.payload["text"])
            near = self.vectors.nearest(vector, 1, 0.99)
            if not near:
                raise InvalidInput(
                    f"the embedder {used} gives another vector for row {row.id!r} of {self.vectors.name} "
                    "than it has; was it refitted? L2 needs one whose vectors stay the same"
                )

    def _embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text; an embedder that fails is an outage, as a store that does is one."""
        try:
            vector = np.asarray(self.embedder.embed([text])[0], np.float32)
            shape = (self.embedder.dimension,)
            if vector.shape != shape or not np.isfinite(vector).all():
                raise InvalidInput(f"it gave {vector!r}, not {shape[0]} finite numbers")
        except Exception as error:
            raise Unavailable(f"the embedder {self.embedder.name} failed: {error!r}") from error
        return vector

    @property
    def writer(self) -> Writer | None:
        """What is asked to write back when only dirty rows are left."""
        return self._writer

    @writer.setter
    def writer(self, writer: Writer | None) -> None:
        self._writer = writer
        if writer is not None and self.count() > self.capacity:
            self.evict()

    # writing

    def put(self, segment: Segment, text: str, dirty: bool = True) -> Segment:
        """Store a segment's text under its id and return the segment as stored, clean in L1's sense.

        The same version of the same text changes nothing, so a repeated write is harmless; nor does the same
        text that is here under a higher version. Another text takes the version after the present one if its
        own is not higher already. A row that exists is replaced in its place, without any eviction, and
        keeps its accesses; a new one starts with those of the segment.

        Parameters
        ----------
        dirty : bool
            Whether L3 lacks this version. Content that comes from L3 (False) never replaces a dirty row.

        Raises
        ------
        CacheFull
            There is no room, and what could be evicted is not in L3.
        Unavailable
            The store cannot be reached, or the embedder fails.
        NotInL3Yet
            Another writer's text of this id is there that L3 does not have and does not take now; nothing is
            lost if the segment stays where it is.
        """
        check_id("id of the segment", segment.id)
        if digest_of(text) != segment.digest:
            raise InvalidInput(f"the text of segment {segment.id!r} is not the one of its digest")
        vector = None
        hopeless = False
        while True:
            present = self.vectors.fetch([segment.id]).get(segment.id)
            version = self._version_of(segment, present, dirty)
            if version is None:
                assert present is not None
                return segment_of(present)
            if dirty and present is not None and present.dirty and present.version >= segment.version:
                # whoever wrote that text did not know of this one, nor this one of that: L3 keeps both
                if self._writer is not None and not hopeless:
                    hopeless = self._writer.step(force=True) == 0
                    continue
                if self._writer is not None:
                    raise NotInL3Yet(
                        f"L2 holds another text of {segment.id!r} that is not in L3 yet; this one waits"
                    )
            if vector is None:
                vector = self._embed(text)
            written = replace(segment, version=version, dirty=False)
            payload = self._payload(written, text, dirty, present)
            expected = None if present is None else present.version
            seen = None if present is None else present.payload["digest"]
            with self._lock:
                if present is None and self.vectors.fetch([segment.id]):
                    continue  # another thread was faster; nothing must leave for a row that is there
                room = present is not None or self._make_room(1)
                if room and self.vectors.upsert(segment.id, vector, payload, expected, digest=seen):
                    if version != segment.version:
                        self._tell("rebase", segment.id, version=version, asked=segment.version)
                    return segment_of(Row(segment.id, payload))
            if not room:
                if self._writer is None or hopeless:
                    raise CacheFull(
                        f"L2 holds {self.count()} rows (capacity {self.capacity}), of which "
                        f"{self.count(dirty=True)} are not in L3 yet; {segment.id!r} was not stored"
                    )
                hopeless = self._writer.step(force=True) == 0

    def _version_of(self, segment: Segment, present: Row | None, dirty: bool) -> int | None:
        """Return the version to store, or None: what is there stays."""
        if present is None:
            return segment.version
        same = present.payload["digest"] == segment.digest
        if same and present.version >= segment.version:
            return None
        if dirty:
            return max(segment.version, present.version + 1)
        # from L3: an older version than ours is no news, and what L3 does not have yet is not overwritten
        if present.version >= segment.version or (present.dirty and not same):
            return None
        return segment.version

    def _payload(self, segment: Segment, text: str, dirty: bool, present: Row | None) -> dict[str, Any]:
        return {
            "id": segment.id,
            "text": text,
            "digest": segment.digest,
            "version": segment.version,
            "dirty": int(dirty),
            "accesses": segment.accesses if present is None else present.payload["accesses"],
            "last_access": self._clock(),
            "token_count": segment.tokens,
            "source_type": segment.source,
            "source_url": segment.url,
            "query": segment.query,
            "dependency_fields": list(segment.fields),
            "group": segment.group,
            "agent_version": self.agent_version,
            "embedder": self.embedder.name,
        }

    def touch(self, ids: Iterable[str], times: int = 1) -> None:
        """Count accesses of the rows that exist among ``ids``, and note the time."""
        check_int("times", times, low=0)
        with self._lock:
            for id, row in sorted(self.vectors.fetch(list(dict.fromkeys(ids))).items()):
                accesses = row.payload["accesses"] + times
                self.vectors.patch(id, {"accesses": accesses, "last_access": self._clock()})

    def mark_clean(self, id: str, version: int, digest: str | None = None) -> bool:
        """Note that L3 has this version, of this text if given; False: another one is here by now."""
        return self.vectors.patch(id, {"dirty": 0}, expected=version, digest=digest)

    def rebase(self, id: str, expected: int, version: int) -> bool:
        """Give a row a higher version number iff it still has the expected one; say whether."""
        # a number that a row had before would let an older text's `mark_clean` pass for this one's
        check_int("version", version, low=expected + 1)
        done = self.vectors.patch(id, {"version": version}, expected=expected)
        if done:
            self._tell("rebase", id, version=version, asked=expected)
        return done

    # reading

    def search(
        self, query: str, limit: int = 5, least: float = 0.0, exclude: Collection[str] = ()
    ) -> list[Found]:
        """Return segments by their cosine (>= ``least``) with the query, highest first, equal ones by id."""
        check_int("limit", limit, low=0)
        check_real("least", least, low=-1, high=1)
        vector = self._embed(query)
        checked: set[str] = set()
        while True:
            near = self.vectors.nearest(vector, limit, least, exclude)
            stale = False
            for row, _ in near:
                if row.id not in checked:
                    checked.add(row.id)
                    stale |= self._check(row) is not row
            if not stale:
                return [Found(segment_of(row), row.payload["text"], score) for row, score in near]

    def get(self, ids: Iterable[str]) -> dict[str, Found]:
        """Return the segments that exist among ``ids``."""
        found = {}
        for id, row in self.vectors.fetch(list(dict.fromkeys(ids))).items():
            kept = self._check(row)
            if kept is not None:
                found[id] = Found(segment_of(kept), kept.payload["text"], 1.0)
        return found

    def dirty_rows(self, limit: int = 64) -> list[Row]:
        """Return rows that L3 lacks, the coldest first."""
        return self.vectors.coldest(limit, dirty=True)

    def count(self, dirty: bool | None = None) -> int:
        """Return the number of rows."""
        return self.vectors.count(dirty)

    # coherence with L3

    def _check(self, row: Row) -> Row | None:
        """Compare a clean row with its record; return the row, what replaced it, or None: it is gone."""
        if self.documents is None or row.dirty:
            return row
        try:
            if self.documents.version(row.id) == row.version:
                return row
            record = self.documents.get(row.id)
        except Exception as error:  # a store of somebody else's: what it raises is its own
            _logger.warning("%s is served without a look into L3: %s", row.id, error)
            return row
        if record is None:
            if self.vectors.delete([row]):
                self._tell("drop_l2", row.id, version=row.version, why="its record in L3 is gone")
        elif record.version == row.version:
            return row
        else:
            self._refresh(row, record)
        return self.vectors.fetch([row.id]).get(row.id)

    def _refresh(self, row: Row, record: Record) -> None:
        if self._counter is None:
            self._counter = make_counter(self._counter_spec)
        segment = segment_from(record, self._counter.count(record.text))
        vector = self._embed(record.text)
        payload = self._payload(segment, record.text, False, row)
        payload["last_access"] = row.payload["last_access"]
        # an evicted row that was derived anew has the version again, but another text
        if self.vectors.upsert(row.id, vector, payload, row.version, digest=row.payload["digest"]):
            self._tell("refresh", row.id, version=record.version, why=f"L3 has it, not {row.version}")

    def reconcile(self) -> Reconciled:
        """Compare all clean rows with L3, which must be reachable; return what was deleted or made new."""
        dropped, refreshed = [], []
        if self.documents is not None:
            for row in self.vectors.coldest(self.count(), dirty=False):
                self.documents.version(row.id)  # an unreachable L3 is an error here
                kept = self._check(row)
                if kept is None:
                    dropped.append(row.id)
                elif kept is not row:
                    refreshed.append(row.id)
        return Reconciled(tuple(dropped), tuple(refreshed))

    # room

    def evict(self, target: int | None = None) -> list[str]:
        """Delete the coldest clean rows until ``target`` (default: the capacity) rows are left.

        Where clean rows do not suffice, the writer is asked to write back first. Returns the deleted ids;
        dirty rows stay, so more than ``target`` may be left.
        """
        target = self.capacity if target is None else check_int("target", target, low=0)
        gone: list[str] = []
        while self._writer is not None and self.count(dirty=True) > target:
            if self._writer.step(force=True) == 0:
                break
        with self._lock:
            self._shrink(target, gone)
        return gone

    def _make_room(self, rows: int) -> bool:
        return self._shrink(self.capacity - rows, [])

    def _shrink(self, target: int, gone: list[str]) -> bool:
        while (surplus := self.count() - target) > 0:
            coldest = self.vectors.coldest(min(surplus, 256), dirty=False)
            if not coldest:
                return False
            # a row that changed in between stays; the next round sees it as it is now
            if self.vectors.delete(coldest) < len(coldest):
                left = self.vectors.fetch([row.id for row in coldest])
                coldest = [row for row in coldest if row.id not in left]
            for row in coldest:
                gone.append(row.id)
                self._tell("evict_l2", row.id, version=row.version, accesses=row.payload["accesses"])
        return True

    def forget(self, id: str) -> bool:
        """Delete a row whatever its state, e.g. because its record was deleted; say whether there was one."""
        while True:
            row = self.vectors.fetch([id]).get(id)
            if row is None:
                return False
            if self.vectors.delete([row], clean_only=False):
                return True

    def close(self) -> None:
        """Close the vector store."""
        self.vectors.close()

    def _tell(self, kind: str, id: str, **facts: Any) -> None:
        _logger.info("%s %s %s", kind, id, facts)
        if self.on_event is not None:
            event: Mapping[str, Any] = {"kind": kind, "segment": id, **facts}
            self.on_event(dict(event))
