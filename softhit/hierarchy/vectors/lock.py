"""One owner for a local folder: a lock file that the operating system releases when its process ends."""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from pathlib import Path

from softhit.errors import PathInUse

__all__ = ["FolderLock"]

FILE = "softhit.lock"

_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


class FolderLock:
    """Exclusive use of a folder, also against a second owner in the same process.

    The lock lives in the kernel (``flock``), not in the file's existence: a killed process leaves a file
    that the next one may lock. A forked child does not share it. On network file systems it is as good as
    their ``flock``.

    Parameters
    ----------
    folder : path
        Created if it does not exist.

    Raises
    ------
    PathInUse
        Somebody holds it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> lock = FolderLock(folder.name)
    >>> try:
    ...     FolderLock(folder.name)
    ... except PathInUse:
    ...     print("in use")
    in use
    >>> lock.release(); FolderLock(folder.name).release(); folder.cleanup()
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._guard = threading.Lock()
        # the descriptor is closed on exec; see _forget for a fork
        self._file: int | None = os.open(self.folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            self._close()
            raise in_use(self.folder, owner) from error
        except OSError:
            self._close()
            raise
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Give the folder free; a second call does nothing."""
        with self._guard:
            _held.discard(self)
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def in_use(folder: Path | str, owner: str = "") -> PathInUse:
    """Return the error of a folder that another store has open, and what to do about it."""
    if owner == str(os.getpid()):
        who, close = "this process itself", "close the other store first"
    else:
        who = f"another process (number {owner})" if owner.isdigit() else "another process"
        close = "end it, or close its store"
    return PathInUse(
        f"{folder} is in use by {who}: {close}, use another path, or share a Qdrant server by its URL"
    )


def _forget() -> None:
    """Close a forked child's copies: they would keep the lock when its parent has ended."""
    for lock in list(_held):
        lock._close()
    _held.clear()


os.register_at_fork(after_in_child=_forget)
