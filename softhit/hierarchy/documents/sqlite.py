"""The backing store L3 in one SQLite file, shared by threads and processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from softhit.check import check_int
from softhit.errors import VersionConflict
from softhit.hierarchy.database import Database, decode, encode
from softhit.hierarchy.documents.protocol import Record
from softhit.hierarchy.documents.words import HIGHEST, check_key, check_new, check_query, words_of

__all__ = ["SqliteDocuments"]

# Keys and texts are blobs: UTF-8 that may hold NUL and lone surrogates; bytes sort as characters do.
# `words` holds those of the latest version only.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    key BLOB NOT NULL, version INTEGER NOT NULL, text BLOB NOT NULL, metadata TEXT NOT NULL,
    PRIMARY KEY (key, version)
);
CREATE TABLE IF NOT EXISTS words (word BLOB NOT NULL, key BLOB NOT NULL, PRIMARY KEY (word, key))
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS words_by_key ON words (key)
"""

_PAGE = 500


class SqliteDocuments:
    """Documents with all their versions; a write is one transaction that first compares.

    Parameters
    ----------
    path : path or ":memory:"
        Created when absent. Several processes may have it open: readers never wait, writers take turns.
    timeout : float
        Seconds that a write waits for another process before it raises ``Unavailable``.

    Examples
    --------
    >>> documents = SqliteDocuments(":memory:")
    >>> documents.upsert("limits", "0.25", {"source": "document"}, expected=0).version
    1
    >>> documents.upsert("limits", "0.40", {}, expected=0)
    Traceback (most recent call last):
    ...
    softhit.errors.VersionConflict: record 'limits' has version 1, not 0
    >>> documents.upsert("limits", "0.40", {}, expected=1).version, documents.get("limits", 1).text
    (2, '0.25')
    """

    def __init__(self, path: Path | str = ":memory:", timeout: float = 5.0) -> None:
        self._database = Database(path, _SCHEMA, "documents", timeout)

    @property
    def name(self) -> str:
        """What it is and where."""
        return self._database.name

    def get(self, key: str, version: int | None = None) -> Record | None:
        """Return the latest (or the given) version of a record, or None."""
        check_key(key)
        query = "SELECT version, text, metadata FROM documents WHERE key = ?"
        values: tuple[object, ...] = (encode(key),)
        if version is not None:
            query += " AND version = ?"
            values += (check_int("version", version, low=0, high=HIGHEST),)
        with self._database.read() as connection:
            row = connection.execute(query + " ORDER BY version DESC LIMIT 1", values).fetchone()
        return None if row is None else _record(key, row)

    def version(self, key: str) -> int:
        """Return the latest version of a record; 0 = there is none."""
        check_key(key)
        query = "SELECT max(version) FROM documents WHERE key = ?"
        with self._database.read() as connection:
            return connection.execute(query, (encode(key),)).fetchone()[0] or 0

    def upsert(
        self, key: str, text: str, metadata: Mapping[str, Any], expected: int, *, version: int | None = None
    ) -> Record:
        """Store a version iff the latest one is ``expected``; see the protocol."""
        key, text, data, expected, new = check_new(key, text, metadata, expected, version)
        name = encode(key)
        latest = "SELECT version, text, metadata FROM documents WHERE key = ? ORDER BY version DESC LIMIT 1"
        words = words_of(text)
        with self._database.write() as connection:
            row = connection.execute(latest, (name,)).fetchone()
            found = 0 if row is None else int(row[0])
            if found == new and bytes(row[1]) == encode(text):
                return _record(key, row)
            if found != expected:
                raise VersionConflict(key, expected, found)
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?)",
                (name, new, encode(text), json.dumps(data, sort_keys=True)),
            )
            connection.execute("DELETE FROM words WHERE key = ?", (name,))
            connection.executemany(
                "INSERT INTO words VALUES (?, ?)", [(encode(word), name) for word in sorted(words)]
            )
        return Record(key, new, text, data)

    def search(self, words: str, limit: int = 5) -> list[Record]:
        """Return the latest versions that share most words with ``words``, best first, then by key."""
        wanted, limit = check_query(words, limit)
        shared: dict[bytes, int] = {}
        found = []
        with self._database.read() as connection:
            # one snapshot: which words a record has and its text belong together
            connection.execute("BEGIN")
            try:
                for page in _pages(sorted(wanted)):
                    marks = ", ".join("?" * len(page))
                    query = f"SELECT key, count(*) FROM words WHERE word IN ({marks}) GROUP BY key"
                    for name, count in connection.execute(query, [encode(word) for word in page]):
                        shared[name] = shared.get(name, 0) + count
                for name in sorted(shared, key=lambda name: (-shared[name], name))[:limit]:
                    latest = "SELECT version, text, metadata FROM documents WHERE key = ?"
                    row = connection.execute(latest + " ORDER BY version DESC LIMIT 1", (name,)).fetchone()
                    found.append(_record(decode(name), row))
            finally:
                connection.execute("ROLLBACK")
        return found

    def keys(self) -> Iterator[str]:
        """Yield all keys, sorted; those written meanwhile may or may not be among them."""
        after, more = b"", True
        while more:
            query = "SELECT DISTINCT key FROM documents WHERE key > ? ORDER BY key LIMIT ?"
            with self._database.read() as connection:
                page = [bytes(row[0]) for row in connection.execute(query, (after, _PAGE))]
            yield from (decode(name) for name in page)
            more = len(page) == _PAGE
            after = page[-1] if page else after

    def delete(self, key: str) -> bool:
        """Remove a record with all versions; say whether there was one."""
        name = encode(check_key(key))
        with self._database.write() as connection:
            gone = connection.execute("DELETE FROM documents WHERE key = ?", (name,)).rowcount
            connection.execute("DELETE FROM words WHERE key = ?", (name,))
        return gone > 0

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._database.close()


def _record(key: str, row: tuple[int, bytes, str]) -> Record:
    return Record(key, int(row[0]), decode(bytes(row[1])), json.loads(row[2]))


def _pages(words: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(words), _PAGE):
        yield words[start : start + _PAGE]
