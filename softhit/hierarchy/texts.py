"""The texts behind the context window: each stored once, under the digest of its content."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from softhit.check import fail
from softhit.errors import InvalidInput
from softhit.hierarchy.database import Database, decode, encode
from softhit.hierarchy.segment import digest_of

__all__ = ["Texts"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
"""


class Texts:
    """A content-addressed store: what a checkpoint refers to by digest can be read for ever.

    Parameters
    ----------
    path : path or ":memory:"
        A SQLite file, created when absent. Threads may share the object, processes the file.

    Raises
    ------
    Unavailable
        By every method, when the file cannot be opened, read or written (disk full, locked too long).

    Examples
    --------
    >>> texts = Texts(":memory:")
    >>> digest = texts.put("a finding")
    >>> texts.get(digest), digest in texts
    ('a finding', True)
    """

    def __init__(self, path: Path | str = ":memory:", timeout: float = 5.0) -> None:
        self._database = Database(path, _SCHEMA, "texts", timeout)

    @property
    def name(self) -> str:
        """What it is and where."""
        return self._database.name

    def put(self, text: str) -> str:
        """Store a text and return its digest. Once returned, neither a kill nor a power cut loses it."""
        return self.put_many([text])[0]

    def put_many(self, texts: Iterable[str]) -> list[str]:
        """Store several texts in one durable step and return their digests."""
        wanted: dict[str, str] = {}
        digests = []
        for text in texts:
            if not isinstance(text, str):
                fail("text", text, "a string")
            digests.append(digest_of(text))
            wanted[digests[-1]] = text
        new = [digest for digest in wanted if digest not in self]
        if new:
            with self._database.write() as connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO texts VALUES (?, ?)", [(d, encode(wanted[d])) for d in new]
                )
        return digests

    def get(self, digest: str) -> str:
        """Return the text of a digest.

        Raises
        ------
        InvalidInput
            No text with that digest is stored.
        """
        data = self._find(digest)
        if data is None:
            raise InvalidInput(f"digest must be one of {self.name}; there is no text {digest!r}")
        return decode(data)

    def _find(self, digest: str) -> bytes | None:
        if not isinstance(digest, str):
            fail("digest", digest, "a string of hexadecimal digits")
        with self._database.read() as connection:
            row = connection.execute("SELECT text FROM texts WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else bytes(row[0])

    def __contains__(self, digest: object) -> bool:
        return isinstance(digest, str) and self._find(digest) is not None

    def __len__(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM texts").fetchone()[0])

    def collect(self, keep: Collection[str]) -> int:
        """Delete every text that is not in ``keep`` and return how many went.

        ``keep`` must hold the digests of all checkpoints that shall still be readable. Call it when no run
        is under way: a text that a run has just put, before a checkpoint names it, would go too.
        """
        if isinstance(keep, str):
            fail("keep", keep, "a collection of digests")
        with self._database.write() as connection:
            connection.execute("CREATE TEMP TABLE kept (digest TEXT PRIMARY KEY)")
            connection.executemany("INSERT OR IGNORE INTO kept VALUES (?)", [(digest,) for digest in keep])
            gone = connection.execute("DELETE FROM texts WHERE digest NOT IN (SELECT digest FROM kept)")
            connection.execute("DROP TABLE kept")
        return gone.rowcount

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._database.close()

    def __enter__(self) -> Texts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
