"""``softhit opt --explain``: which method and why, what is guaranteed and what is not."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from offline_opt import METHODS, instances
from offline_opt.certificate import read_certificate
from softhit import Trace, from_arrays, from_requests
from softhit.io import write_trace
from softhit_lab.cli import app

FACTS = (
    *("chosen", "it applies to", "it promises", "guaranteed", "not guaranteed", "stop reason", "incumbent"),
    *("certified", "certificate"),
)


def soft(**rest: object) -> Trace:
    rng = np.random.default_rng(0)
    quality = rng.integers(1, 1001, (40, 25)) / 1000 * (rng.random((40, 25)) < 0.3)
    return from_arrays(quality, rng.integers(0, 25, 40), **rest)  # type: ignore[arg-type]


def explained(trace: Trace, folder: Path, *words: str, capacity: int = 2) -> dict[str, str]:
    """The lines by their first words; the other methods under their names."""
    write_trace(trace, folder / "t.parquet")
    command = ["opt", str(folder / "t.parquet"), "-K", str(capacity), "--explain", *words]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    lines = {}
    for line in done.output.partition("\n\n")[2].splitlines():
        for name in (*FACTS, *(f"  {method}" for method in METHODS)):
            if line.startswith(f"{name} "):
                lines[name.strip()] = line[len(name) :].strip()
    return lines


def test_a_proved_optimum_leaves_nothing_open(tmp_path: Path) -> None:
    said = explained(from_requests([0, 1, 2, 0, 1, 2]), tmp_path)
    assert said["chosen"].startswith("flow (auto): every step is served by at most one item")
    assert "the optimum" in said["guaranteed"]
    assert said["not guaranteed"] == "nothing"
    assert said["stop reason"] == "optimal: the bounds meet"
    assert said["incumbent"].startswith("yes")
    assert said["certified"].startswith("yes")
    assert said["certificate"] == "with -o, of the optimum: LB = UB"
    assert set(METHODS) - set(said) == {"flow"}
    assert said["hold_all"] == "does not apply: the items that can serve do not all fit"
    assert said["dp"] == METHODS["dp"].guarantee


def test_an_optimum_on_a_solvers_word_is_not_called_certified(tmp_path: Path) -> None:
    said = explained(instances.get("lp_gap").trace, tmp_path, "--method", "milp", "--availability", "pool")
    assert said["chosen"].startswith("milp (by name)")
    assert "rests on the solver's word" in said["not guaranteed"]
    assert "the optimum" not in said["guaranteed"]
    assert (said["stop reason"], said["certified"]) == ("optimal: so the solver says", "no")
    assert said["flow"].startswith("does not apply: some step can be served by several items")
    assert said["certificate"].startswith("no certificate says that this is the optimum: branch and bound")


@pytest.mark.parametrize(
    ("words", "stop"),
    [
        (("--method", "relaxation"), "gap: it narrows no further"),
        (("--method", "lagrangian", "--time-limit", "0"), "time: the time limit was reached"),
        (("--method", "floor"), "gap: it narrows no further"),
    ],
)
def test_a_band_guarantees_both_numbers_and_not_that_the_schedule_is_optimal(
    tmp_path: Path, words: tuple[str, ...], stop: str
) -> None:
    said = explained(soft(), tmp_path, *words)
    assert "the lower bound, proved" in said["guaranteed"]
    assert "that this schedule is optimal" in said["not guaranteed"]
    assert ("another machine" in said["not guaranteed"]) == stop.startswith("time")
    assert said["stop reason"] == stop
    assert said["certificate"] == "with -o, of the bracket LB <= OPT <= UB"
    assert said["certified"].startswith("yes")


def test_an_optimum_by_exhaustion_has_a_certificate_of_a_bracket_only(tmp_path: Path) -> None:
    said = explained(instances.get("lp_gap").trace, tmp_path, "--availability", "pool")
    assert said["chosen"].startswith("dp (auto)")
    assert said["certificate"].startswith("no certificate says that this is the optimum: it was found by exh")
    place = tmp_path / "x.cert"
    explained(instances.get("lp_gap").trace, tmp_path, "--availability", "pool", "-o", str(place))
    written = read_certificate(place)
    assert written.lower_bound < written.upper_bound


def test_a_relaxation_of_coverage_says_that_its_gap_may_not_close(tmp_path: Path) -> None:
    said = explained(soft(), tmp_path, "--aggregator", "coverage", "--top-k", "2")
    assert "the gap may not close" in said["not guaranteed"]
    assert "relaxation" not in explained(soft(), tmp_path, "--method", "floor")["not guaranteed"]


def test_without_the_option_the_short_text_stays(tmp_path: Path) -> None:
    write_trace(from_requests([0, 1, 0]), tmp_path / "t.parquet")
    printed = CliRunner().invoke(app, ["opt", str(tmp_path / "t.parquet"), "-K", "1"]).output
    assert "stopped: optimal; a schedule; certified" in printed
    assert "not guaranteed" not in printed
