"""Aggregation over seeds and the columns of a cell."""

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from softhit.errors import InvalidInput
from softhit_lab.cells import COLUMNS, derive, read_cells, write_cells
from softhit_lab.summary import classical, ratio_interval, summarise
from softhit_lab.tables import Sheet, sheets, show_measure


def cell(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "family": "cycling",
        "parameters": "{}",
        "file": "",
        "capacity": 2,
        "n_steps": 10,
        "switch_cost": "1",
        "policy": "lru",
        "seed": 0,
        "order": "serve_then_update",
        "availability": "stream",
        "fill": "free",
        "aggregator": "best",
        "top_k": 1,
        "clairvoyant": False,
        "trace_hash": "x",
        "requests": True,
        "n_items": 3,
        "n_queries": 10,
        "hits": 4,
        "scale": 10,
        "cost_units": 90,
        "miss_units": 60,
        "switch_units": 30,
        "insertions": 5,
        "paid": 3,
        "opt_units": 30,
        "opt_lower_units": 30,
        "opt_kind": "exact",
        "opt_method": "flow",
        "floor_units": 10,
        "half_steps": 5,
        "half_cost_units": 40,
        "half_opt_units": 20,
        "half_opt_lower_units": 20,
        "half_opt_kind": "exact",
        "half_floor_units": 10,
    }
    return derive({**base, **changes})


def test_the_measures_of_an_exact_cell_are_the_quotients_of_the_model() -> None:
    c = cell()
    assert (c["ratio_low"], c["ratio_high"]) == (3, 3)
    assert (c["slope_low"], c["slope_high"]) == (5, 5)
    assert (c["floor_ratio_low"], c["floor_ratio_high"]) == (4, 4)
    assert c["switching_share"] == pytest.approx(1 / 3)
    assert c["hit_ratio"] == pytest.approx(0.4)


def test_bounds_on_opt_make_a_pair_that_holds_every_ratio_they_allow() -> None:
    c = cell(opt_kind="band", opt_lower_units=25, half_opt_kind="band", half_opt_lower_units=15)
    for opt in range(25, 31):
        assert c["ratio_low"] <= 90 / opt <= c["ratio_high"]
        assert c["floor_ratio_low"] <= 80 / (opt - 10) <= c["floor_ratio_high"]
        for half in range(15, 21):
            assert c["slope_low"] <= 50 / (opt - half) <= c["slope_high"]
    assert c["ratio_low"] == 3
    assert c["ratio_high"] == pytest.approx(3.6)


def test_a_solver_that_is_believed_gives_one_ratio_and_keeps_its_proved_bound() -> None:
    c = cell(opt_kind="exact (solver)", opt_lower_units=25)
    assert (c["ratio_low"], c["ratio_high"], c["opt_lower_units"]) == (3, 3, 25)


def test_opt_zero_is_reported_and_makes_no_number() -> None:
    c = cell(opt_units=0, opt_lower_units=0, half_opt_units=0, half_opt_lower_units=0, floor_units=0)
    assert c["opt_is_zero"]
    assert c["ratio_low"] is c["ratio_high"] is c["slope_high"] is c["floor_ratio_high"] is None
    row = summarise([c])[0]
    assert row["zero_opt"] == 1
    assert show_measure(row, "ratio") == "OPT = 0"


def test_a_lower_bound_of_zero_leaves_the_upper_end_open() -> None:
    c = cell(opt_kind="band", opt_lower_units=0)
    assert (c["ratio_low"], c["ratio_high"], c["opt_is_zero"]) == (3, None, False)
    assert show_measure(summarise([c])[0], "ratio") == ">= 3.000"


def test_seeds_with_opt_zero_stay_in_the_sums() -> None:
    row = summarise([cell(), cell(seed=1, opt_units=0, opt_lower_units=0)])[0]
    assert row["ratio_high"] == pytest.approx(180 / 30)
    assert (row["n_seeds"], row["zero_opt"]) == (2, 1)


def test_the_ratio_over_seeds_is_a_ratio_of_sums_and_not_a_mean_of_ratios() -> None:
    row = summarise([cell(), cell(seed=1, cost_units=30, opt_units=30, opt_lower_units=30)])[0]
    assert row["ratio_high"] == 2
    assert (row["ratio_min"], row["ratio_max"]) == (1, 3)


def test_with_equal_optima_the_interval_is_the_t_interval_of_a_mean() -> None:
    costs = [Fraction(x) for x in (3, 5, 4, 8)]
    found = ratio_interval(costs, [Fraction(2)] * 4)
    values = [float(x / 2) for x in costs]
    expected = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert found == pytest.approx(expected)


def test_the_interval_covers_the_true_ratio_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        below = rng.uniform(1, 2, 20)
        above = 2 * below + rng.normal(0, 0.3, 20)
        found = ratio_interval([Fraction(float(x)) for x in above], [Fraction(float(x)) for x in below])
        assert found is not None
        covered += found[0] <= 2 <= found[1]
    assert 0.92 <= covered / 400 <= 0.98


def test_one_seed_has_no_interval_and_bounds_have_none() -> None:
    assert summarise([cell()])[0]["ratio_t_low"] is None
    banded = [cell(seed=s, opt_kind="band", opt_lower_units=25) for s in range(3)]
    assert summarise(banded)[0]["ratio_t_low"] is None


def test_cells_come_back_from_parquet_as_they_went(tmp_path: Path) -> None:
    cells = [cell(), cell(seed=1, half_steps=None, half_cost_units=None, half_opt_kind=None)]
    write_cells(cells, tmp_path / "c.parquet")
    assert read_cells(tmp_path / "c.parquet") == cells
    assert list(cells[0]) == list(COLUMNS)


def test_costs_beyond_64_bits_stay_exact(tmp_path: Path) -> None:
    huge = cell(cost_units=3 * 10**30 + 1, scale=10**25)
    write_cells([huge], tmp_path / "c.parquet")
    assert read_cells(tmp_path / "c.parquet")[0]["cost_units"] == 3 * 10**30 + 1


def test_equal_cells_make_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_cells([cell()], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"PAR1 not really"])
def test_a_file_that_holds_no_cells_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "c.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput):
        read_cells(path)


def test_cells_of_another_format_are_refused_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softhit_lab.cells.FORMAT", 7)
    write_cells([cell()], tmp_path / "c.parquet")
    monkeypatch.undo()
    with pytest.raises(InvalidInput, match="format 7"):
        read_cells(tmp_path / "c.parquet")


@pytest.mark.parametrize(("width", "shown"), [(120, True), (40, False)])
def test_a_narrow_terminal_loses_the_intervals_and_no_ratio(width: int, shown: bool) -> None:
    rows = summarise([cell(capacity=k, seed=s, cost_units=90 + s) for k in (2, 4, 8) for s in (0, 1, 2)])
    console = Console(file=io.StringIO(), width=width)
    for sheet in sheets(rows):
        sheet.show(console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count("3.033") == 3
    assert ("±" in printed) == shown
    assert "…" not in printed


def test_a_table_of_texts_loses_no_letter_on_a_narrow_terminal() -> None:
    screen = Console(file=io.StringIO(), width=24)
    Sheet("t", ("name", "parameters"), [("one", "horizon=1.0,evidence=True"), ("two", "")]).show(
        screen, left=True
    )
    printed = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in printed
    assert "horizon=1.0,evidence=True" in "".join(printed.replace("one", "").split())


@pytest.mark.parametrize(
    ("changes", "speaks"),
    [
        ({}, True),
        ({"aggregator": "coverage", "top_k": 3}, True),
        ({"aggregator": "mean_topk", "top_k": 1}, True),
        ({"aggregator": "mean_topk", "top_k": 2}, False),
        ({"requests": False}, False),
        ({"order": "update_then_serve"}, False),
        ({"availability": "pool"}, False),
        ({"fill": "charged"}, False),
    ],
)
def test_the_bounds_of_paging_speak_about_paging_only(changes: dict[str, Any], speaks: bool) -> None:
    assert classical(summarise([cell(**changes)])) is speaks
    assert classical(summarise([cell(), cell(policy="fifo", **changes)])) is speaks
