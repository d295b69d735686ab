"""The folder of a demo: whose it is, and what it holds of runs that are complete."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softhit.errors import InvalidInput, Unavailable
from softhit_lab.cells import write_text

__all__ = ["claim", "confirm", "log_of", "named", "numbers_of", "write_numbers"]


def log_of(folder: Path, run: str) -> Path:
    """Return where the log of a run is."""
    return folder / "runs" / f"{run}.jsonl"


def claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Take a folder for a demo, or go on with the one that began there with the same settings.

    Raises
    ------
    InvalidInput
        It holds something else, or a demo with other settings.
    """
    note = folder / "demo.json"
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        folder.mkdir(parents=True, exist_ok=True)
    elif not note.exists():
        raise InvalidInput(f"{str(folder)!r} is not empty and holds no demo; give another -o")
    else:
        known = _read(note)
        if known.get("opened") is not False:
            differs = [name for name in settings if known.get(name) != settings[name]]
            if differs:
                what = ", ".join(f"{name} {known.get(name)!r} and not {settings[name]!r}" for name in differs)
                raise InvalidInput(f"{str(folder)!r} holds a demo with {what}; give another -o")
            return
    # until its stores could be opened, other settings may be tried
    _write({**settings, "opened": False}, note)


def confirm(folder: Path, settings: Mapping[str, Any]) -> None:
    """Keep the settings: from now on the folder is of a demo with these."""
    _write(settings, folder / "demo.json")


def numbers_of(folder: Path, run: str, names: Collection[str]) -> dict[str, int] | None:
    """Return what was counted in a run, by name; None: it is not complete."""
    file = folder / f"{run}.json"
    if not file.exists():
        return None
    known = _read(file)
    if any(type(known.get(name)) is not int for name in names):
        raise _damaged(file)
    return known


def write_numbers(folder: Path, run: str, numbers: Mapping[str, int]) -> None:
    """Write what was counted in a run that is complete."""
    _write(numbers, folder / f"{run}.json")


@contextmanager
def named(folder: Path) -> Iterator[None]:
    """Say of a failing disk or a damaged file which one it is.

    Raises
    ------
    Unavailable
        In place of an error of the system, or of SQLite about the checkpoints; our own stores name theirs.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except sqlite3.Error as error:
        file = folder / "checkpoints.sqlite"
        raise Unavailable(f"{str(file)!r}: {error}; once that is mended the same command goes on") from error
    except OSError as error:
        where = str(error.filename or folder)
        raise Unavailable(
            f"{where!r}: {error.strerror or error}; once that is mended the same command goes on"
        ) from error


def _write(value: Mapping[str, Any], file: Path) -> None:
    write_text(json.dumps(value, indent=2) + "\n", file)


def _read(file: Path) -> dict[str, Any]:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(file) from None
    if not isinstance(known, dict):
        raise _damaged(file)
    return known


def _damaged(file: Path) -> InvalidInput:
    return InvalidInput(f"{str(file)!r} is damaged, it is not what a demo writes; give another -o")
