"""The record of finished work under torn writes, damage and a second writer."""

from pathlib import Path

import pytest

from softhit.errors import InvalidInput
from softhit_lab.journal import Journal, read_journal


def fill(path: Path, keys: str) -> None:
    with Journal(path) as journal:
        for key in keys:
            journal.add({key: {"value": key}})


def test_what_was_added_is_there_after_reopening(tmp_path: Path) -> None:
    fill(tmp_path / "j", "ab")
    fill(tmp_path / "j", "c")
    assert list(read_journal(tmp_path / "j")) == ["a", "b", "c"]
    assert read_journal(tmp_path / "absent") == {}


def test_a_cut_at_every_byte_loses_only_the_line_it_falls_in(tmp_path: Path) -> None:
    path = tmp_path / "j"
    fill(path, "abc")
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        fill(path, "z")
        assert list(read_journal(path)) == [*"abc"[:kept], "z"]


def test_a_damaged_line_in_the_middle_costs_that_line_only(tmp_path: Path) -> None:
    path = tmp_path / "j"
    fill(path, "abc")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"key": 3\n' + lines[2])
    assert list(read_journal(path)) == ["a", "c"]


def test_a_second_writer_is_refused_while_the_first_is_at_work(tmp_path: Path) -> None:
    with Journal(tmp_path / "j"), pytest.raises(InvalidInput, match="another sweep"), Journal(tmp_path / "j"):
        pass
    fill(tmp_path / "j", "a")
