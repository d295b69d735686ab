"""The backing store L3 as a folder of files that people can read, safe to share between processes."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from softhit.check import check_int
from softhit.errors import InvalidInput, Unavailable, VersionConflict
from softhit.hierarchy.database import check_path, decode, encode
from softhit.hierarchy.documents.protocol import Record
from softhit.hierarchy.documents.words import HIGHEST, best, check_key, check_new, check_query, words_of
from softhit.hierarchy.segment import digest_of

__all__ = ["FolderDocuments"]

_SUFFIX = ".versions"
_SCRATCH = ".softhit"
_PLAIN = (".md", ".txt")
_SLOT = re.compile(r"([1-9][0-9]{0,18})\.md")
_HEAD, _TAIL = b"---\nsofthit: ", b"\n---\n"
# A name of a file may have 255 bytes on all usual systems.
_LONGEST = 200
# Seconds after which what a killed process left behind is removed.
_STALE = 3600.0
# Each further one needs another process to have changed the record in between.
_ATTEMPTS = 100


class FolderDocuments:
    """Documents with all their versions as files: one folder a key, one file a version.

    Parameters
    ----------
    path : path
        The folder, created when absent. It may already hold ``.md`` and ``.txt`` files, in subfolders too:
        each is version 1 of the record whose key is its relative path (``notes/limits.md``). They are never
        written to: later versions go beside them. Hidden files and links are not looked at.

    Notes
    -----
    Version 3 of key ``limits`` (after version 2) is the file ``limits.versions/3.md``. It begins with one
    line of key and metadata between ``---`` lines (YAML front matter whose value is JSON), and the rest is
    the text, byte for byte: no second file, since two files cannot appear at once. In names of folders
    everything but lower-case letters, digits, ``_``, ``-`` and inner ``.`` is ``%xx``, so that no key leaves
    the folder and no two keys meet where case does not count; long names are cut, and end with a digest.

    A version is written to a temporary file, brought to disk and then *linked* to its name. Linking fails if
    the name exists, so of several processes that write on top of the same version exactly one wins, and a
    killed one leaves a whole version or none. For that the name is the number after the version before; where
    numbers have gaps the first line says which version it is. The file system must allow hard links.

    A file of the user's that changes is still version 1 to those who read it before.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     documents = FolderDocuments(folder)
    ...     _ = documents.upsert("limits", "0.25", {"source": "document"}, expected=0)
    ...     _ = documents.upsert("limits", "0.40", {}, expected=1)
    ...     documents.get("limits").text, documents.get("limits", 1).text, documents.version("limits")
    ('0.40', '0.25', 2)
    """

    def __init__(self, path: Path | str) -> None:
        self._root = Path(check_path(path)).absolute()
        self._closed = False
        if os.path.exists(self._root) and not os.path.isdir(self._root):
            raise InvalidInput(f"path must be a folder, got {str(path)!r}, which is a file")
        with self._reached():
            self._root.mkdir(parents=True, exist_ok=True)
            self._sweep()

    @property
    def name(self) -> str:
        """What it is and where."""
        return f"documents {self._root}"

    def get(self, key: str, version: int | None = None) -> Record | None:
        """Return the latest (or the given) version of a record, or None."""
        check_key(key)
        if version is not None:
            check_int("version", version, low=0, high=HIGHEST)
        with self._reached():
            return self._find(key, HIGHEST if version is None else version, exactly=version is not None)

    def version(self, key: str) -> int:
        """Return the latest version of a record; 0 = there is none."""
        latest = self.get(key)
        return 0 if latest is None else latest.version

    def upsert(
        self, key: str, text: str, metadata: Mapping[str, Any], expected: int, *, version: int | None = None
    ) -> Record:
        """Store a version iff the latest one is ``expected``; see the protocol."""
        key, text, data, expected, new = check_new(key, text, metadata, expected, version)
        with self._reached():
            for _ in range(_ATTEMPTS):
                present = self._find(key, HIGHEST)
                found = 0 if present is None else present.version
                if present is not None and found == new and present.text == text:
                    # who wrote it may have been killed before its name was on disk
                    self._sync(self._folder(key))
                    return present
                if found != expected:
                    raise VersionConflict(key, expected, found)
                record = Record(key, new, text, data)
                if self._write(record, expected):
                    return record
        raise Unavailable(f"{self.name}: {key!r} is written and deleted all the time")

    def search(self, words: str, limit: int = 5) -> list[Record]:
        """Return the latest versions that share most words with ``words``, best first, then by key.

        Reads every record: meant for thousands of files, not for millions.
        """
        wanted, limit = check_query(words, limit)
        if not wanted or not limit:
            return []
        found: list[tuple[int, Record]] = []
        for key in self.keys():
            record = self.get(key)
            if record is not None:
                found.append((len(wanted & words_of(record.text)), record))
        return best(found, limit)

    def keys(self) -> Iterator[str]:
        """Yield all keys, sorted; those written meanwhile may or may not be among them."""
        with self._reached():
            keys = set(self._plain_keys())
            for name in os.listdir(self._root):
                if name.endswith(_SUFFIX):
                    key = self._key(name)
                    if key is not None:
                        keys.add(key)
        yield from sorted(keys)

    def delete(self, key: str) -> bool:
        """Remove a record with all versions, a file of the user's too; say whether there was one."""
        check_key(key)
        with self._reached():
            there = False
            # The latest version goes last, so that nobody sees an older one as the latest.
            plain = self._plain_path(key)
            if plain is not None:
                plain.unlink(missing_ok=True)
                self._sync(plain.parent)
                there = True
            scratch = self._scratch() / f"deleted-{secrets.token_hex(8)}"
            try:
                os.rename(self._folder(key), scratch)
            except FileNotFoundError:
                return there
            self._sync(self._root)
            there |= bool(_slots(os.listdir(scratch)))
            # what is left, if any, is swept later
            shutil.rmtree(scratch, ignore_errors=True)
            return there

    def close(self) -> None:
        """Refuse further use; a second call does nothing."""
        self._closed = True

    # -- names

    def _folder(self, key: str) -> Path:
        return self._root / (quoted(key) + _SUFFIX)

    def _key(self, name: str) -> str | None:
        """Return the key of a folder's name, None if it holds no version."""
        try:
            slots = _slots(os.listdir(self._root / name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not slots:
            return None
        stem = name.removesuffix(_SUFFIX)
        if "~" in stem:
            for slot in slots:
                with suppress(FileNotFoundError):
                    data = (self._root / name / f"{slot}.md").read_bytes()
                    return self._parse(data, f"{name}/{slot}.md").key
            return None
        try:
            key = decode(unquote_to_bytes(stem))
        except UnicodeDecodeError:
            return None
        return key if key and quoted(key) == stem else None

    def _plain_path(self, key: str) -> Path | None:
        """Return the user's own file of that key, if there is one."""
        parts = key.split("/")
        if not key.endswith(_PLAIN) or "\0" in key or any(part[:1] in ("", ".") for part in parts):
            return None
        if any(part.endswith(_SUFFIX) for part in parts[:-1]):
            return None
        path, mode = self._root, 0
        for part in parts:
            path = path / part
            try:
                mode = os.lstat(path).st_mode
            except (FileNotFoundError, NotADirectoryError, UnicodeEncodeError):
                return None
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    return None
                raise
            if stat.S_ISLNK(mode):
                return None
        return path if stat.S_ISREG(mode) else None

    def _plain_keys(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root):
            folders[:] = [f for f in folders if not f.startswith(".") and not f.endswith(_SUFFIX)]
            for file in files:
                if file.endswith(_PLAIN):
                    key = (Path(folder) / file).relative_to(self._root).as_posix()
                    if self._plain_path(key) is not None:
                        yield key

    # -- versions

    def _find(self, key: str, highest: int, exactly: bool = False) -> Record | None:
        """Return the last version that is at most ``highest`` (or only that very one)."""
        for _ in range(_ATTEMPTS):
            try:
                slots = _slots(os.listdir(self._folder(key)))
            except FileNotFoundError:
                slots = []
            slot = next((slot for slot in slots if slot <= highest), None)
            if slot is None:
                plain = self._plain(key) if highest >= 1 else None
                return plain if plain is None or not exactly or highest == 1 else None
            path = self._folder(key) / f"{slot}.md"
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue  # deleted in between: look again
            record = self._parse(data, f"{path.parent.name}/{path.name}", key)
            return record if not exactly or record.version == highest else None
        raise Unavailable(f"{self.name}: {key!r} is listed but cannot be read")

    def _plain(self, key: str) -> Record | None:
        path = self._plain_path(key)
        if path is not None:
            with suppress(FileNotFoundError):
                text = path.read_bytes().decode("utf-8-sig", "replace")
                return Record(key, 1, text, {"source": "document", "url": key})
        return None

    def _parse(self, data: bytes, name: str, key: str | None = None) -> Record:
        line, tail, text = data.removeprefix(_HEAD).partition(_TAIL)
        try:
            if not data.startswith(_HEAD) or not tail:
                raise ValueError("no header")
            head = json.loads(line)
            record = Record(head["key"], head["version"], decode(text), head["metadata"])
            if head["digest"] != record.digest:
                raise ValueError("the text is not the one that was written")
            if key is not None and key != record.key:
                raise ValueError(f"it belongs to {record.key!r}")
        except (ValueError, TypeError, LookupError) as error:
            raise Unavailable(f"{self.name}: {name} is damaged: {error}") from error
        return record

    def _write(self, record: Record, expected: int) -> bool:
        """Put a version after ``expected``, and say whether it is there; if not, the record has changed."""
        head = {
            "key": record.key,
            "version": record.version,
            "digest": record.digest,
            "metadata": record.metadata,
        }
        data = _HEAD + json.dumps(head, sort_keys=True).encode() + _TAIL + encode(record.text)
        folder = self._folder(record.key)
        with suppress(FileExistsError):
            folder.mkdir()
            self._sync(self._root)
        try:
            # The folder as it is now: if it is deleted meanwhile, this is the deleted one, not its successor.
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        temporary = self._scratch() / f"new-{secrets.token_hex(8)}"
        try:
            if self._top(place, record.key) != expected:
                return False
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, f"{expected + 1}.md", dst_dir_fd=place)
            except FileExistsError:
                return False
            os.fsync(place)
            return True
        except FileNotFoundError:
            return False  # deleted meanwhile
        finally:
            os.close(place)
            with suppress(OSError):
                temporary.unlink()

    def _top(self, place: int, key: str) -> int:
        """Return the latest version in an open folder."""
        slots = _slots(os.listdir(place))
        if not slots:
            return int(self._plain_path(key) is not None)
        file = os.open(f"{slots[0]}.md", os.O_RDONLY, dir_fd=place)
        with open(file, "rb") as opened:
            return self._parse(opened.read(), f"{quoted(key)}{_SUFFIX}/{slots[0]}.md").version

    # -- the folder itself

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn what the operating system refuses into one error."""
        if self._closed:
            raise Unavailable(f"{self.name} is closed")
        try:
            yield
        except OSError as error:
            raise Unavailable(f"{self.name}: {error}") from error

    def _scratch(self) -> Path:
        scratch = self._root / _SCRATCH
        scratch.mkdir(exist_ok=True)
        return scratch

    def _sync(self, folder: Path) -> None:
        """Bring the names of a folder to disk."""
        try:
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return
        try:
            os.fsync(place)
        finally:
            os.close(place)

    def _sweep(self) -> None:
        """Remove what processes that were killed an hour ago or earlier left behind."""
        with suppress(FileNotFoundError):
            for entry in list(os.scandir(self._root / _SCRATCH)):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE:
                        if entry.is_dir(follow_symlinks=False):
                            shutil.rmtree(entry.path, ignore_errors=True)
                        else:
                            os.unlink(entry.path)


def quoted(key: str) -> str:
    """Return the name under which a key lies in the folder, without its suffix.

    >>> quoted("notes/Limits.md"), quoted("..")
    ('notes%2f%4cimits.md', '%2e%2e')
    """
    inner = re.sub(rb"[^a-z0-9_.-]", lambda m: b"%%%02x" % m[0][0], encode(key)).decode()
    if inner.strip(".") != inner:
        inner = re.sub(r"^\.+|\.+$", lambda m: "%2e" * len(m[0]), inner)
    if len(inner) > _LONGEST:
        inner = inner[:100] + "~" + digest_of(key)
    return inner


def _slots(names: list[str]) -> list[int]:
    """Return the numbers of the files that hold versions, latest first."""
    return sorted((int(m[1]) for m in map(_SLOT.fullmatch, names) if m), reverse=True)
