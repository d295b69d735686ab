"""Small programs that keep, or break, a promise: is the harness able to tell them apart?"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["TOYS", "Toy"]

TEXTS = [f"{n}: " + "text of a record that fills a page or more; " * 60 * n for n in range(1, 5)]


def _database(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "records.sqlite")
    database.execute("create table if not exists records (n integer primary key, text text)")
    return database


def _promise(folder: Path, n: int) -> None:
    with (folder / "promised").open("a") as file:
        file.write(f"{n}\n")


def commit_then_promise(folder: Path) -> None:
    """Right: a record is promised once it is committed."""
    with closing(_database(folder)) as database:
        for n, text in enumerate(TEXTS):
            with database:
                database.execute("insert or replace into records values (?, ?)", (n, text))
            _promise(folder, n)


def promise_then_commit(folder: Path) -> None:
    """Wrong: between the two the record is promised and nowhere."""
    with closing(_database(folder)) as database:
        for n, text in enumerate(TEXTS):
            _promise(folder, n)
            with database:
                database.execute("insert or replace into records values (?, ?)", (n, text))


def promise_in_the_middle(folder: Path) -> None:
    """Wrong: written, but not committed yet."""
    with closing(_database(folder)) as database:
        for n, text in enumerate(TEXTS):
            with database:
                database.execute("insert or replace into records values (?, ?)", (n, text))
                _promise(folder, n)


def files_in_place(folder: Path) -> None:
    """Wrong: a file that is overwritten in place is half written for a while."""
    for n, text in enumerate(TEXTS):
        (folder / f"record-{n}").write_text(text)
    for n, text in enumerate(TEXTS):
        _promise(folder, n)
        (folder / f"record-{n}").write_text(text)


def files_renamed(folder: Path) -> None:
    """Right: a file appears whole or not at all."""
    for n, text in enumerate(TEXTS):
        (folder / f"new-{n}").write_text(text)
        os.replace(folder / f"new-{n}", folder / f"record-{n}")
        _promise(folder, n)


def waits_for_ever(folder: Path) -> None:
    """Wrong: a lock file that a killed process leaves is waited for."""
    lock = folder / "lock"
    while True:
        try:
            lock.touch(exist_ok=False)
            break
        except FileExistsError:
            time.sleep(0.05)
    (folder / "record-0").write_text("")
    lock.unlink()


class Toy:
    """A program that promises records by number in a file ``promised``."""

    def __init__(self, work: Callable[[Path], None]) -> None:
        self.name = f"toy {work.__name__}"
        self.work = work

    def prepare(self, folder: Path) -> None:
        (folder / "promised").touch()

    def run(self, folder: Path) -> Any:
        self.work(folder)

    def resume(self, folder: Path) -> Any:
        """Nothing is done again: what was promised has to be there."""
        if self.work is waits_for_ever:
            self.work(folder)
        return None

    def accepted(self, folder: Path) -> dict[str, Any]:
        lines = (folder / "promised").read_text().splitlines(keepends=True)
        return {"derived": [int(line) for line in lines if line.endswith("\n")]}

    def join(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        return {"derived": first["derived"] + second["derived"]}

    def check(self, folder: Path, accepted: dict[str, Any], answer: Any, left: Any) -> dict[str, Any]:
        records: dict[int, str] = {}
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            for file in Path(copy).glob("record-*"):
                records[int(file.name[7:])] = file.read_text()
            if (Path(copy) / "records.sqlite").exists():
                with closing(_database(Path(copy))) as database:
                    records.update(database.execute("select n, text from records"))
        wrong = [f"record {n} is lost" for n in accepted["derived"] if records.get(n) != TEXTS[n]]
        return {"wrong": wrong, "left": {}}


TOYS = tuple(
    Toy(work)
    for work in (
        commit_then_promise,
        promise_then_commit,
        promise_in_the_middle,
        files_in_place,
        files_renamed,
        waits_for_ever,
    )
)
