"""One SQLite file that threads and processes share, with durable writes and named errors."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from softhit.check import check_real, fail
from softhit.errors import InvalidInput, Unavailable

__all__ = ["Database", "check_path", "decode", "encode"]


def encode(text: str) -> bytes:
    """Return the bytes that stand for a text in a file; lone surrogates survive, order is kept.

    >>> decode(encode("\\ud83d")) == "\\ud83d"
    True
    """
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """Return the text of :func:`encode`."""
    return data.decode("utf-8", "surrogatepass")


def check_path(path: object) -> str:
    """Return a path as a string."""
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        fail("path", path, "a path that is not empty")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        fail("path", path, "a path that a file system can hold")
    return str(path)


class Database:
    """A SQLite database with one connection that reads and one that writes.

    Parameters
    ----------
    path : path or ":memory:"
        Created with its folder when absent. Open it after a fork, not before.
    schema : str
        ``CREATE ... IF NOT EXISTS`` statements, between semicolons.
    name : str
        What it is, for messages.
    timeout : float
        Seconds that a write waits for another process before it raises.

    Raises
    ------
    InvalidInput
        The path holds something else than a SQLite database.
    Unavailable
        It cannot be opened, read or written; each method raises it.

    Notes
    -----
    Write-ahead logging, because readers must not wait: while one process (or the thread that writes back)
    commits, or waits to, others read the last commit. That is also why reads have a connection of their own.
    ``synchronous=FULL``: a write that returned survives the end of the process and of the machine. Where the
    file system has no shared memory (network drives), SQLite falls back to a rollback journal by itself:
    slower, readers wait, nothing else changes.
    """

    def __init__(self, path: Path | str, schema: str, name: str, timeout: float = 5.0) -> None:
        self.path = check_path(path)
        self.name = f"{name} {self.path}"
        self._timeout = check_real("timeout", timeout, low=0)
        self._closed = False
        self._write_lock = threading.RLock()
        memory = self.path == ":memory:"
        try:
            if not memory:
                Path(self.path).absolute().parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._open(schema)
            self._writer.execute("PRAGMA busy_timeout = 0")
        except OSError as error:
            raise Unavailable(f"{self.name}: {error}") from error
        # a second connection to ":memory:" would be a second database
        self._reader = self._writer if memory else self._connect()
        self._read_lock = self._write_lock if memory else threading.RLock()

    def _connect(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(
                self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise Unavailable(f"{self.name}: {error}") from error

    def _open(self, schema: str) -> sqlite3.Connection:
        """Return the connection that writes, with the schema in place."""
        connection = self._connect()
        deadline = time.monotonic() + self._timeout
        try:
            while True:
                try:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute("PRAGMA synchronous=FULL")
                    for statement in schema.split(";"):
                        connection.execute(statement)
                    return connection
                except sqlite3.OperationalError as error:
                    # several processes that create the file at once are refused without any waiting
                    if "locked" not in str(error) or time.monotonic() >= deadline:
                        raise
                    time.sleep(0.005)
        except sqlite3.Error as error:
            connection.close()
            if getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB":
                raise InvalidInput(f"path must be a SQLite database, got {self.path!r}: {error}") from error
            raise Unavailable(f"{self.name}: {error}") from error

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Give the connection that reads; other threads wait, writers do not."""
        with self._read_lock:
            self._check_open()
            try:
                yield self._reader
            except sqlite3.Error as error:
                raise Unavailable(f"{self.name}: {error}") from error

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Give the connection that writes, inside one transaction: all of it is durable, or none."""
        with self._write_lock:
            self._check_open()
            try:
                self._begin()
                try:
                    yield self._writer
                    self._writer.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        if self._writer.in_transaction:
                            self._writer.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise Unavailable(f"{self.name}: {error}") from error

    def _begin(self) -> None:
        """Take the lock that one writer of all processes has at a time."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                # SQLite's own waiting grows to 0.1 s a try, and starves beside writers that never pause
                time.sleep(random.uniform(0.0005, 0.003))

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self.name} is closed, as is all of a workspace after its 'with' block")

    def close(self) -> None:
        """Close both connections; a second call does nothing."""
        with self._write_lock, self._read_lock:
            self._closed = True
            for connection in (self._reader, self._writer):
                with suppress(sqlite3.Error):
                    connection.close()
