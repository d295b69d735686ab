"""The stored grid of D1: made in pieces, interrupted without loss, and the same when made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from theory import d1_thompson_regret as d1
from theory.artefact import read


def test_a_grid_made_in_pieces_is_the_grid_made_at_once(tmp_path: Path) -> None:
    pieces, whole = tmp_path / "grid.csv", tmp_path / "whole" / "grid.csv"
    whole.parent.mkdir()
    assert d1.make_grid(pieces, runs=3, limit=1) == 1
    first = read(pieces)
    assert d1.make_grid(pieces, runs=3, limit=4) == 4
    assert all(row in read(pieces) for row in first)
    d1.make_grid(whole, runs=3, limit=4)
    assert pieces.read_bytes() == whole.read_bytes()


def test_what_is_there_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grid.csv"
    d1.make_grid(path, runs=2, limit=2)
    monkeypatch.setattr(d1, "run_cell", lambda *_: pytest.fail("a finished cell was played again"))
    assert d1.make_grid(path, runs=2, limit=2) == 2


def test_ctrl_c_keeps_the_cells_that_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls, play = tmp_path / "grid.csv", [], d1.run_cell

    def third_is_interrupted(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return play(*arguments)

    monkeypatch.setattr(d1, "run_cell", third_is_interrupted)
    arguments = ["--grid", "full", "--runs", "2", "--cells", "4", "-o", str(path)]
    assert d1.main(arguments) == 130
    assert len(read(path)) == 2
    assert d1.main(arguments) == 0
    assert len(read(path)) == 4


def test_other_runs_or_seeds_are_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    d1.make_grid(path, runs=2, limit=1)
    assert d1.make_grid(path, runs=2, seed=1, limit=1) == 2
    assert {row["seed"] for row in read(path)} == {0, 1}
