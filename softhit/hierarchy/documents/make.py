"""A document store by where it is."""

from __future__ import annotations

import os
from pathlib import Path

from softhit.check import fail
from softhit.hierarchy.documents.folder import FolderDocuments
from softhit.hierarchy.documents.protocol import DocumentStore
from softhit.hierarchy.documents.sqlite import SqliteDocuments

__all__ = ["make_documents"]

_FILES = (".sqlite", ".sqlite3", ".db")


def make_documents(where: str | Path | DocumentStore) -> DocumentStore:
    """Return the store at ``where``, created when absent.

    Parameters
    ----------
    where : str, path or DocumentStore
        ``":memory:"``, a SQLite file (it exists, or its name ends with ``.sqlite``, ``.sqlite3`` or ``.db``),
        or else a folder; a store is returned as it is.

    Examples
    --------
    >>> make_documents(":memory:").name
    'documents :memory:'
    """
    if isinstance(where, str | Path) and str(where):
        path = Path(where)
        if str(where) == ":memory:":
            return SqliteDocuments(":memory:")
        # of os.path: a name too long for a file is no file, rather than an error
        if os.path.isfile(path) or (path.suffix in _FILES and not os.path.isdir(path)):
            return SqliteDocuments(path)
        return FolderDocuments(path)
    if isinstance(where, DocumentStore):
        return where
    fail("where", where, '":memory:", a SQLite file, a folder or a DocumentStore')
