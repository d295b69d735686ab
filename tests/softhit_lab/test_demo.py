"""The demo: what it leaves behind is whole, and says by itself how to make each part again."""

import re
import shlex
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softhit import Variant
from softhit.errors import InvalidInput
from softhit.io import read_trace, write_trace
from softhit_lab import demo
from softhit_lab.cells import read_cells
from softhit_lab.cli import app
from softhit_lab.experiment import Sweep
from softhit_lab.sources import FamilySource
from softhit_lab.summary import summarise
from softhit_lab.sweep import run_sweep
from softhit_lab.text import text_traces


@pytest.mark.slow
def test_the_demo_writes_a_report_whose_pictures_and_commands_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--fast", "--jobs", "1", "-o", "d"])
    assert result.exit_code == 0, result.output
    report = Path("d/report.md").read_text()
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", report)
    assert len(pictures) > 10
    assert all((Path("d") / picture).exists() for picture in pictures)
    commands = re.findall(r"^softhit ratio .*$", report, re.M)
    assert len(commands) == 3
    # the last one again, into another folder: the same cells
    words = shlex.split(commands[-1])[1:]
    again = CliRunner().invoke(app, [*words[:-1], "again", "--jobs", "1", "--no-figures"])
    assert again.exit_code == 0, again.output
    assert read_cells("again/cells.parquet") == read_cells(Path(words[-1]) / "cells.parquet")


def test_the_bounds_of_paging_are_named_for_paging_only(tmp_path: Path) -> None:
    for order, named in (("serve_then_update", True), ("update_then_serve", False)):
        source = FamilySource.of("cycling", {"w": "K+1"})
        sweep = Sweep(source, ("fifo", "lru"), (2,), (50, 100), (Fraction(1),), (0,), Variant(order=order))
        rows = summarise(run_sweep(sweep, tmp_path / order, jobs=1))
        notes = " ".join(demo._look_at_cycle(rows) + demo._look_at_segments(rows))
        assert ("(K+1)(1+lambda)" in notes) is named
        assert ("H_K" in notes) is named


def test_a_trace_file_of_the_readers_own_becomes_the_text(tmp_path: Path) -> None:
    short = text_traces(None, fast=True)[0].trace
    write_trace(short, tmp_path / "own.jsonl")
    (text,) = text_traces(tmp_path / "own.jsonl", fast=False)
    assert text.trace == read_trace(tmp_path / "own.jsonl") == short
    assert text.capacities == (4, 16, short.n_items // 2)


def test_locomo_makes_one_trace_by_evidence_and_one_by_similarity(data_dir: Path) -> None:
    by_evidence, by_similarity = text_traces(data_dir / "locomo" / "locomo10.json", fast=False)
    assert by_evidence.trace.n_queries == by_similarity.trace.n_queries > 100
    assert set(by_evidence.trace.quality.tolist()) == {10_000}
    assert len(set(by_similarity.trace.quality.tolist())) > 100
    assert "CC BY-NC" in by_evidence.about


def test_an_optimum_of_zero_is_noted_with_the_costs() -> None:
    row = {"capacity": 8, "clairvoyant": False, "zero_opt": 1, "ratio_high": None, "opt": 0.0}
    notes = demo._look_at_text(
        [{**row, "policy": "lru", "cost": 7.0}, {**row, "policy": "fifo", "cost": 9.5}]
    )
    assert len(notes) == 1
    assert "K = 8: OPT = 0" in notes[0]
    assert "from 7 (lru) to 9.5 (fifo)" in notes[0]


def test_data_that_is_no_trace_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no.json").write_text("[1]")
    result = CliRunner().invoke(app, ["demo", "--data", str(tmp_path / "no.json"), "-o", str(tmp_path / "d")])
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert not (tmp_path / "d").exists()


def test_a_python_without_its_documentation_has_a_demo_without_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(data: object, fast: bool) -> None:
        raise InvalidInput("this Python comes without pydoc_data.topics")

    monkeypatch.setattr(demo, "text_traces", missing)
    monkeypatch.setattr(demo, "prepare_folder", lambda folder: sys.exit("far enough"))
    with pytest.raises(SystemExit, match="far enough"):
        demo.run_demo(tmp_path / "d", None, True, 0, demo.Variant(), 1)
    assert "no text in this demo" in capsys.readouterr().out
