"""Figures: what is drawn is what is measured, each with its numbers and its command, the same every time."""

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from matplotlib.collections import PolyCollection

from softhit_lab.cells import derive
from softhit_lab.experiment import Sweep
from softhit_lab.figures import draw, save, styles
from softhit_lab.sources import FamilySource
from softhit_lab.summary import summarise
from softhit_lab.sweep import run_sweep
from softhit_lab.tables import sheets


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    sweep = Sweep(
        source=FamilySource.of("piecewise", {"w": "1.5K"}),
        policies=("fifo", "lru", "marking"),
        capacities=(2, 4),
        steps=(60, 120),
        switch_costs=(Fraction(1), Fraction(0)),
        seeds=(0, 1, 2),
    )
    return run_sweep(sweep, tmp_path_factory.mktemp("figures"), jobs=1)


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_every_picture_has_its_numbers_and_its_command_beside_it(
    cells: list[dict[str, Any]], tmp_path: Path
) -> None:
    drawings = draw(summarise(cells))
    assert len({d.name for d in drawings}) == len(drawings) == 7
    for drawing in drawings:
        written = save(drawing, tmp_path, "softhit ratio ...")
        assert {p.suffix for p in written} == {".png", ".svg", ".csv", ".txt"}
        assert (tmp_path / f"{drawing.name}.txt").read_text() == "softhit ratio ...\n"
        assert (tmp_path / f"{drawing.name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_numbers_beside_a_picture_are_the_sums_over_the_cells(
    cells: list[dict[str, Any]], tmp_path: Path
) -> None:
    for drawing in draw(summarise(cells)):
        save(drawing, tmp_path, "", formats=())
    shown = read(tmp_path / "piecewise-w-1.5K-slope-vs-K.csv")
    assert len(shown) == 3 * 2 * 2
    for row in shown:
        where = ("policy", "capacity", "n_steps", "switch_cost")
        mine = [c for c in cells if all(str(c[name]) == row[name] for name in where)]
        assert len(mine) == int(row["n_seeds"]) == 3
        above = sum(c["cost_units"] - c["half_cost_units"] for c in mine)
        below = sum(c["opt_units"] - c["half_opt_units"] for c in mine)
        assert float(row["slope_low"]) == float(row["slope_high"]) == above / below
        assert float(row["slope_t_low"]) <= above / below <= float(row["slope_t_high"])
    for row in read(tmp_path / "piecewise-w-1.5K-floor-lambda-0.csv"):
        mine = [c for c in cells if all(str(c[name]) == row[name] for name in where)]
        floor = sum(c["floor_units"] for c in mine)
        above = sum(c["cost_units"] for c in mine) - floor
        assert float(row["floor_ratio_high"]) == above / (sum(c["opt_units"] for c in mine) - floor)


def test_a_line_goes_through_the_numbers_of_its_policy(cells: list[dict[str, Any]]) -> None:
    rows = summarise(cells)
    drawing = next(d for d in draw(rows) if d.name.endswith("ratio-vs-K"))
    for axes, lam in zip(drawing.figure.axes, ("0", "1"), strict=True):
        lines = {line.get_label(): line for line in axes.get_lines()}
        for policy in ("fifo", "lru", "marking"):
            mine = [r for r in rows if (r["policy"], r["switch_cost"], r["n_steps"]) == (policy, lam, 120)]
            assert list(lines[policy].get_xdata()) == [r["capacity"] for r in mine]
            assert list(lines[policy].get_ydata()) == [r["ratio_high"] for r in mine]


def test_the_same_cells_make_the_same_bytes(cells: list[dict[str, Any]], tmp_path: Path) -> None:
    for name in ("a", "b"):
        for drawing in draw(summarise(cells))[::3]:
            save(drawing, tmp_path / name, "x")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_a_band_is_filled_between_the_two_ratios(cells: list[dict[str, Any]]) -> None:
    wide = []
    for cell in cells:
        lower = {"opt_kind": "band", "opt_lower_units": cell["opt_units"] // 2, "half_opt_kind": "band"}
        wide.append(derive({**cell, **lower}))
    rows = summarise(wide)
    drawing = next(d for d in draw(rows) if d.name.endswith("ratio-vs-K"))
    axes = drawing.figure.axes[1]
    bands = [c for c in axes.collections if hasattr(c, "get_datalim")]
    assert len(bands) == 3
    fifo = [r for r in rows if (r["policy"], r["switch_cost"], r["n_steps"]) == ("fifo", "1", 120)]
    corners = {round(float(y), 9) for _, y in bands[0].get_paths()[0].vertices}
    assert corners == {round(r[f"ratio_{end}"], 9) for r in fifo for end in ("low", "high")}
    assert all(r["ratio_low"] < r["ratio_high"] for r in fifo)


@pytest.mark.parametrize("measure", ["ratio", "slope"])
def test_a_band_has_no_width_where_opt_is_exact(cells: list[dict[str, Any]], measure: str) -> None:
    # the half's OPT alone makes the slope a band
    halves = {"half_opt_kind": "band", "half_opt_lower_units": 0}
    if measure == "ratio":
        halves = {"opt_kind": "band", "opt_lower_units": 1}
    rows = summarise(derive({**c, **halves}) if c["capacity"] == 2 else c for c in cells)
    drawing = next(d for d in draw(rows) if d.name.endswith(f"{measure}-vs-K"))
    bands = [c for c in drawing.figure.axes[1].collections if isinstance(c, PolyCollection)]
    at: dict[float, set[float]] = {2.0: set(), 4.0: set()}
    for x, y in bands[0].get_paths()[0].vertices:
        at[float(x)].add(round(float(y), 9))
    assert len(at[2.0]) == 2
    assert len(at[4.0]) == 1


def test_opt_zero_is_said_in_the_table_and_under_the_picture(
    cells: list[dict[str, Any]], tmp_path: Path
) -> None:
    nothing = {"opt_units": 0, "opt_lower_units": 0, "half_opt_units": 0, "half_opt_lower_units": 0}
    some = [derive({**c, **nothing}) if c["capacity"] == 4 else c for c in cells]
    rows = summarise(some)
    assert any("OPT = 0" in cell for sheet in sheets(rows) for line in sheet.rows for cell in line)
    assert any("OPT = 0 in some cells at K = 4" in sheet.note for sheet in sheets(rows))
    drawing = next(d for d in draw(rows) if d.name.endswith("ratio-vs-K"))
    assert "not drawn, OPT = 0: K = 4, T = 120" in drawing.figure.get_supxlabel()
    save(drawing, tmp_path, "")
    shown = read(tmp_path / f"{drawing.name}.csv")
    assert {row["ratio_high"] for row in shown if row["capacity"] == "4"} == {""}
    assert {row["zero_opt"] for row in shown if row["capacity"] == "4"} == {"3"}


@pytest.mark.parametrize("change", [{"n_steps": 0}, {"opt_units": 0, "opt_lower_units": 0}])
def test_cells_that_show_nothing_still_make_pictures(
    cells: list[dict[str, Any]], change: dict[str, Any], tmp_path: Path
) -> None:
    nothing = {"half_opt_units": 0, "half_opt_lower_units": 0, "cost_units": 0, "switch_units": 0}
    rows = summarise(derive({**c, **nothing, **change}) for c in cells if c["n_steps"] == 60)
    assert [save(d, tmp_path, "")[0].exists() for d in draw(rows)]


def test_policies_that_coincide_share_a_line_that_names_them_all(cells: list[dict[str, Any]]) -> None:
    twin = [c for c in cells if c["policy"] != "marking"]
    twin += [{**c, "policy": "clone"} for c in cells if c["policy"] == "lru"]
    drawing = next(d for d in draw(summarise(twin)) if d.name.endswith("ratio-vs-K"))
    labels = {line.get_label() for line in drawing.figure.axes[0].get_lines()}
    assert "lru =\nclone" in labels
    assert "fifo" in labels


def test_up_to_eight_policies_differ_in_colour_or_marker() -> None:
    for names in (
        ["solar", "fifo", "lru"],
        ["a", "b", "c", "d", "e", "f", "g", "h"],
        ["lru", "x", "y", "arc"],
    ):
        looks = [(s["color"], s["marker"]) for s in styles(names).values()]
        assert len(set(looks)) == len(looks)
        assert len({colour for colour, _ in looks}) == len(looks)
