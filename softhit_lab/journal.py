"""The record of finished work that survives a kill: one line per result, appended as each is done."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from softhit.errors import InvalidInput

__all__ = ["Journal", "read_journal"]

Records = dict[str, dict[str, Any]]


def _parse(data: bytes) -> tuple[Records, int]:
    """Return the records by key, and the length up to the last whole line."""
    records: Records = {}
    end = data.rfind(b"\n") + 1
    for line in data[:end].splitlines():
        try:
            entry = json.loads(line)
            records[entry["key"]] = entry["value"]
        except (ValueError, KeyError, TypeError):
            continue
    return records, end


def read_journal(path: Path) -> Records:
    """Return what is recorded in a journal; a missing file has nothing, a torn line does not count."""
    try:
        return _parse(path.read_bytes())[0]
    except FileNotFoundError:
        return {}


class Journal:
    """An open journal: a context manager that reads what is there, cuts a torn end off, and appends.

    One process at a time: the file is locked while it is open.

    Attributes
    ----------
    records : dict
        Everything recorded so far by key, earlier runs included.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: Records = {}

    def __enter__(self) -> Journal:
        self._file = open(self.path, "a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InvalidInput(f"another sweep is writing into {str(self.path.parent)!r}") from None
        self._file.seek(0)
        self.records, end = _parse(self._file.read())
        self._file.truncate(end)
        return self

    def add(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Append records under their keys, and have them on disk before returning."""
        lines = [json.dumps({"key": key, "value": value}) + "\n" for key, value in records.items()]
        try:
            self._file.write("".join(lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InvalidInput(f"cannot write {str(self.path)!r}: {error.strerror}") from error
        self.records.update((key, dict(value)) for key, value in records.items())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # all of it is on disk already; after a failed write there is no use in failing again
        with contextlib.suppress(OSError):
            self._file.close()
