"""Reading and writing files so that errors name the file and nothing is ever half written."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from softhit.errors import InvalidInput

__all__ = ["data_path", "existing", "replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it into place at the end, or remove it on any error.

    Raises
    ------
    InvalidInput
        The folder does not exist or cannot be written, the path is a folder, or the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    target = Path(path)
    parent = target.parent
    if target.is_dir():
        raise InvalidInput(f"cannot write {str(target)!r}: it is a folder")
    if not parent.is_dir():
        what = "is not a folder" if parent.exists() else "does not exist"
        raise InvalidInput(f"cannot write {str(target)!r}: {str(parent)!r} {what}")
    temporary = parent / f".{target.name[:100]}.{uuid.uuid4().hex[:12]}.part"
    try:
        # created here, so that a folder without permission is noticed before any work is done
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise InvalidInput(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    finally:
        # where it could not be made it cannot be removed either; the first error is the one to tell
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def existing(path: str | os.PathLike[str], what: str = "file") -> Path:
    """Return ``path`` if it is a readable file; else one clear error."""
    found = Path(path)
    try:
        if found.is_dir():
            raise InvalidInput(f"cannot read {what} {str(found)!r}: it is a folder")
        with found.open("rb"):
            pass
    except OSError as error:
        raise InvalidInput(f"cannot read {what} {str(found)!r}: {error.strerror or error}") from None
    return found


def data_path(*parts: str) -> Path:
    """Return a path below the folder of data sets: ``SOFTHIT_DATA``, by default ``../shared/data``.

    The default is relative to the repository that holds this package. Nothing is checked but the folder
    itself; data sets are optional, and whoever needs one skips or fails by its name.

    Raises
    ------
    InvalidInput
        There is no such folder.
    """
    given = os.environ.get("SOFTHIT_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        raise InvalidInput(f"data sets not found: {str(folder)!r} is not a folder (set SOFTHIT_DATA)")
    return folder.joinpath(*parts)
