"""The pre-seeding job: fill an empty L2 from L3, so that a first run does not start cold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import check_choice, check_int, fail
from softhit.hierarchy.documents.protocol import DocumentStore, Record
from softhit.hierarchy.segment import check_id, encodes
from softhit.hierarchy.semantic import SemanticCache, segment_from
from softhit.hierarchy.tokens import TokenCounter, make_counter

__all__ = ["Seeded", "representatives", "seed"]

_logger = logging.getLogger("softhit.hierarchy")


@dataclass(frozen=True, slots=True)
class Seeded:
    """What a seeding job did.

    Attributes
    ----------
    loaded : int
        Records written to L2 now.
    present : int
        Records that L2 had already, in this or a newer version, or with a text that L3 lacks; of those that
        were not chosen, in any version.
    no_room : int
        Records that are not in L2 because it is too small: those that found it full, and those that were not
        chosen, as more were asked for than its capacity.
    """

    loaded: int
    present: int
    no_room: int


def representatives(vectors: NDArray[np.float32], count: int) -> list[int]:
    """Return ``count`` rows such that every row is near one of them.

    Farthest-first traversal: the row nearest to the mean, then again and again the row that is farthest from
    all chosen ones. The largest distance from a row to the chosen ones is at most twice the least possible
    for their number (T. F. Gonzalez, 1985). Equal distances: the first row. The chosen rows of a smaller
    count are the first ones of a larger count.

    Examples
    --------
    >>> line = np.array([[1, 0], [0.99, 0.14], [0.71, 0.71], [0, 1]], np.float32)
    >>> representatives(line, 3)
    [2, 0, 3]
    """
    check_int("count", count, low=0)
    rows = np.asarray(vectors, dtype=np.float64)
    chosen: list[int] = []
    if count == 0 or not len(rows):
        return chosen
    nearest = np.full(len(rows), np.inf)
    squares = np.einsum("ij,ij->i", rows, rows)
    mean = rows.mean(axis=0)
    best = int(np.argmin(squares - 2 * rows @ mean))
    while len(chosen) < min(count, len(rows)):
        chosen.append(best)
        nearest = np.minimum(nearest, squares - 2 * rows @ rows[best] + squares[best])
        nearest[best] = -np.inf
        best = int(np.argmax(nearest))
    return chosen


def seed(
    cache: SemanticCache,
    documents: DocumentStore,
    *,
    limit: int | None = None,
    choose: str | Iterable[str] = "representative",
    counter: str | TokenCounter = "o200k_base",
    progress: Callable[[int, int], None] | None = None,
    batch: int = 256,
) -> Seeded:
    """Load records of L3 into L2 as clean rows; nothing that L2 has is evicted for them.

    Interrupted at any point, it can be run again: what is there is not written again, and the same records
    are chosen as long as L3 is the same. Records whose key no checkpoint could hold, such as files with names
    that are no UTF-8, are left out with a warning.

    Parameters
    ----------
    limit : int, optional
        At most so many records; default: all. No more are loaded than the cache's capacity.
    choose : str or iterable of str
        ``"representative"``: where L3 has more than can be loaded, those of :func:`representatives` by the
        cache's embedder (all records are embedded for it); ``"first"``: the first ones by key; or the keys
        themselves, in order of importance.
    counter : str or TokenCounter
        Counts the tokens of each segment.
    progress : function, optional
        Called with (records looked at, records chosen) after each one.
    batch : int
        Records that are embedded at once while choosing.

    Raises
    ------
    Unavailable
        L2 or L3 cannot be reached.
    InvalidInput
        ``choose`` is neither of the two words nor keys; nothing was loaded.

    Examples
    --------
    >>> from softhit.hierarchy.documents import SqliteDocuments
    >>> from softhit.hierarchy.vectors import make_vectors
    >>> from softhit.io import make_embedder
    >>> documents = SqliteDocuments(":memory:")
    >>> for key, text in [("refunds", "Refunds take five days."), ("fees", "A dispute costs 15 euros.")]:
    ...     record = documents.upsert(key, text, {}, expected=0)
    >>> cache = SemanticCache(make_vectors(":memory:", 64), make_embedder("hashed_tfidf(64)"), 10)
    >>> seed(cache, documents)
    Seeded(loaded=2, present=0, no_room=0)
    >>> seed(cache, documents)
    Seeded(loaded=0, present=2, no_room=0)
    >>> cache.close(); documents.close()
    """
    if limit is not None:
        check_int("limit", limit, low=0)
    check_int("batch", batch, low=1)
    keys, left = _chosen(cache, documents, limit, choose, batch)
    counting = make_counter(counter)
    loaded = present = no_room = 0
    for number, key in enumerate(keys, 1):
        record = documents.get(key)
        row = cache.vectors.fetch([key]).get(key)
        if record is None:
            pass  # deleted since it was chosen
        elif row is not None and (row.dirty or row.version >= record.version):
            present += 1
        elif row is None and cache.count() >= cache.capacity:
            no_room += 1
        else:
            cache.put(segment_from(record, counting.count(record.text)), record.text, dirty=False)
            loaded += 1
        if progress is not None:
            progress(number, len(keys))
    for start in range(0, len(left), batch):
        some = left[start : start + batch]
        there = len(cache.vectors.fetch(some))
        present += there
        no_room += len(some) - there
    return Seeded(loaded, present, no_room)


def _chosen(
    cache: SemanticCache,
    documents: DocumentStore,
    limit: int | None,
    choose: str | Iterable[str],
    batch: int,
) -> tuple[list[str], list[str]]:
    """Return the keys of what is to be loaded, and of what was asked for too but is more than L2 can hold."""
    most = cache.capacity if limit is None else min(cache.capacity, limit)
    if not isinstance(choose, str):
        keys = _named(choose)[:limit]
        return keys[:most], [key for key in keys[most:] if documents.version(key)]
    check_choice("choose", choose, ("representative", "first"))
    keys = _possible(documents)
    if choose == "first" or len(keys) <= most:
        return keys[:most], keys[most:limit]
    blocks, found = [], []
    for start in range(0, len(keys), batch):
        records: list[Record] = [r for r in map(documents.get, keys[start : start + batch]) if r is not None]
        if records:
            blocks.append(cache.embedder.embed([record.text for record in records]))
            found += [record.key for record in records]
    if not blocks:
        return [], []
    # the first ones of more are those of less
    order = representatives(np.concatenate(blocks), most if limit is None else limit)
    rest = set(range(len(found))) - set(order) if limit is None else order[most:]
    return [found[n] for n in order[:most]], [found[n] for n in sorted(rest)]


def _named(choose: Any) -> list[str]:
    if not isinstance(choose, Iterable):
        fail("choose", choose, "'representative', 'first' or keys of L3")
    return list(dict.fromkeys(check_id("a key in choose", key) for key in choose))


def _possible(documents: DocumentStore) -> list[str]:
    keys = list(documents.keys())
    wrong = [key for key in keys if not encodes(key)]
    if wrong:
        _logger.warning(
            "%d of %d records left out: no UTF-8 in keys such as %r", len(wrong), len(keys), wrong[0]
        )
        keys = [key for key in keys if encodes(key)]
    return keys
