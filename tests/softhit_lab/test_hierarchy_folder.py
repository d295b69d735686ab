"""The folder of a demo: taken, gone on with, refused, and damaged files named."""

import errno
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from softhit.errors import InvalidInput, Unavailable
from softhit_lab.hierarchy.folder import claim, confirm, named, numbers_of, write_numbers

ONE: dict[str, Any] = {"budget": 100, "url": None}
OTHER = {**ONE, "budget": 200}


class TestAFolder:
    def test_goes_on_with_the_same_settings_only(self, tmp_path: Path) -> None:
        claim(tmp_path / "d", ONE)
        confirm(tmp_path / "d", ONE)
        claim(tmp_path / "d", ONE)
        with pytest.raises(InvalidInput, match="budget 100 and not 200; give another -o"):
            claim(tmp_path / "d", OTHER)
        assert json.loads((tmp_path / "d" / "demo.json").read_text()) == ONE

    def test_takes_other_settings_until_its_stores_were_opened(self, tmp_path: Path) -> None:
        claim(tmp_path, ONE)
        claim(tmp_path, OTHER)
        confirm(tmp_path, OTHER)
        with pytest.raises(InvalidInput, match="budget 200 and not 100"):
            claim(tmp_path, ONE)

    @pytest.mark.parametrize("text", [b"", b"[]", b"7", b"\xff\x00", b'{"budget": ', b"[" * 100_000])
    def test_with_damaged_settings_is_refused_by_name(self, text: bytes, tmp_path: Path) -> None:
        note = tmp_path / "demo.json"
        note.write_bytes(text)
        with pytest.raises(InvalidInput, match=r"demo\.json' is damaged"):
            claim(tmp_path, ONE)
        assert note.read_bytes() == text


class TestNumbers:
    def test_are_those_that_were_written(self, tmp_path: Path) -> None:
        assert numbers_of(tmp_path, "first", ["turns"]) is None
        write_numbers(tmp_path, "first", {"turns": 0})
        assert numbers_of(tmp_path, "first", ["turns"]) == {"turns": 0}

    @pytest.mark.parametrize(
        "text", ["", "[]", '{"turns": "3"}', '{"turns": true}', '{"turns": null}', '{"other": 3}']
    )
    def test_that_are_damaged_are_not_shown(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "first.json").write_text(text)
        with pytest.raises(InvalidInput, match=r"first\.json' is damaged"):
            numbers_of(tmp_path, "first", ["turns"])


class TestFailures:
    def test_of_the_checkpoints_name_their_file(self, tmp_path: Path) -> None:
        with (
            pytest.raises(Unavailable, match=r"checkpoints\.sqlite': file is not a database; once"),
            named(tmp_path),
        ):
            raise sqlite3.DatabaseError("file is not a database")

    def test_of_the_disk_name_the_file_or_the_folder(self, tmp_path: Path) -> None:
        full = OSError(errno.ENOSPC, "No space left on device")
        with pytest.raises(Unavailable, match=f"{tmp_path.name}': No space left on device"), named(tmp_path):
            raise full
        full.filename = "some/file"
        with pytest.raises(Unavailable, match="'some/file': No space left"), named(tmp_path):
            raise full

    def test_of_whoever_reads_what_is_printed_are_not_of_the_disk(self, tmp_path: Path) -> None:
        with pytest.raises(BrokenPipeError), named(tmp_path):
            raise BrokenPipeError
