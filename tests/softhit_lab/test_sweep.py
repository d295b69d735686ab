"""A sweep gives the same cells however it ran, survives being stopped, and does nothing twice."""

import contextlib
import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import offline_opt
from softhit import (
    Trace,
    cost,
    floor_units,
    from_arrays,
    from_requests,
    make_policy,
    policy_names,
    simulate,
)
from softhit.errors import InvalidInput
from softhit.io import write_trace
from softhit.policies import policy_info
from softhit_lab import experiment, work
from softhit_lab import sweep as sweeping
from softhit_lab.cells import read_cells
from softhit_lab.crew import end_workers
from softhit_lab.experiment import Sweep
from softhit_lab.sources import FamilySource, FileSource
from softhit_lab.sweep import Interrupted, run_sweep

ROOT = Path(__file__).resolve().parents[2]


def sweep(**changes: Any) -> Sweep:
    base: dict[str, Any] = {
        "source": FamilySource.of("piecewise", {"w": "1.5K"}),
        "policies": ("fifo", "marking"),
        "capacities": (2, 3),
        "steps": (60, 120),
        "switch_costs": (Fraction(1), Fraction(1, 3)),
        "seeds": (0, 1),
    }
    return Sweep(**{**base, **changes})


def cycle(**changes: Any) -> Sweep:
    return sweep(source=FamilySource.of("cycling", {}), **changes)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the optima that are solved, by their number of steps."""
    calls: list[int] = []
    real = offline_opt.solve

    def solve(trace: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(trace.n_steps)
        return real(trace, *args, **kwargs)

    monkeypatch.setattr(offline_opt, "solve", solve)
    return calls


def files(folder: Path) -> dict[str, bytes]:
    names = ("cells.parquet", "cells.csv", "summary.csv")
    return {name: (folder / name).read_bytes() for name in names}


def test_a_cell_holds_what_the_core_functions_say(tmp_path: Path) -> None:
    case = sweep()
    rows = run_sweep(case, tmp_path / "r", jobs=1)
    assert len(rows) == 2 * 2 * 2 * 2 * 2
    for row in rows:
        lam = Fraction(row["switch_cost"])
        trace = case.source.trace(row["capacity"], row["n_steps"], lam, row["seed"])
        schedule = simulate(row["policy"], trace, row["capacity"], lam, row["seed"])
        paid = cost(schedule, trace, row["capacity"], lam)
        best = offline_opt.solve(trace, row["capacity"], lam)
        assert best.cost is not None
        assert (row["cost_units"], row["scale"]) == (paid.units, paid.scale)
        assert (row["miss_units"], row["switch_units"]) == (paid.miss_units, paid.switch_units)
        assert (row["insertions"], row["paid"]) == (paid.insertions, paid.paid)
        assert row["opt_units"] == row["opt_lower_units"] == best.cost.units
        assert row["opt_kind"] == "exact"
        assert row["floor_units"] * 10_000 == floor_units(trace) * row["scale"]
        assert row["trace_hash"] == trace.hash
        assert row["hits"] * row["scale"] == trace.n_steps * row["scale"] - row["miss_units"]
        assert row["ratio_low"] == paid.units / best.cost.units


@pytest.mark.parametrize(
    ("trace", "plain"),
    [
        (from_requests([0, 1, 2, 0]), True),
        (from_requests([0, 1, 2, 0], quality=0.5), False),
        (from_requests([0, 1, 2, 0], weight=[1, 1, 2, 1]), False),
        (from_requests([0, 1, 2, 0], arrivals=[0, 1, 2, 1]), False),
        (from_arrays(np.eye(3), arrivals=[0, 1, 2], sizes=[1, 2, 1]), False),
    ],
)
def test_requests_are_those_that_classical_bounds_speak_about(
    tmp_path: Path, trace: Trace, plain: bool
) -> None:
    write_trace(trace, tmp_path / "t.parquet")
    source = FileSource.of(tmp_path / "t.parquet")
    case = Sweep(source, ("lru",), (2,), (trace.n_steps,), (Fraction(1),))
    assert [row["requests"] for row in run_sweep(case, tmp_path / "r", jobs=1)] == [plain]


def test_the_half_of_a_run_is_the_run_of_half_the_length(tmp_path: Path) -> None:
    rows = run_sweep(cycle(policies=("lru", "marking", "belady")), tmp_path, jobs=1)
    at = {(r["policy"], r["capacity"], r["switch_cost"], r["seed"], r["n_steps"]): r for r in rows}
    for (*where, steps), row in at.items():
        if steps == 120:
            half = at[(*where, 60)]
            assert row["half_cost_units"] == half["cost_units"]
            assert row["half_opt_units"] == half["opt_units"]
            assert row["half_floor_units"] == half["floor_units"]


def test_the_cells_do_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    for jobs in (1, 2):
        run_sweep(sweep(), tmp_path / str(jobs), jobs=jobs)
    assert files(tmp_path / "1") == files(tmp_path / "2")


def test_one_optimum_serves_all_policies_and_all_seeds_of_one_trace(
    tmp_path: Path, counted: list[int]
) -> None:
    run_sweep(cycle(capacities=(2,), switch_costs=(Fraction(1),)), tmp_path / "a", jobs=1)
    assert sorted(counted) == [30, 60, 60, 120]
    counted.clear()
    run_sweep(sweep(capacities=(2,), switch_costs=(Fraction(1),)), tmp_path / "b", jobs=1)
    assert sorted(counted) == sorted([30, 60, 60, 120] * 2)


def test_a_finished_sweep_runs_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_sweep(sweep(), tmp_path, jobs=1)
    first = files(tmp_path)
    monkeypatch.setattr("softhit_lab.sweep.run_task", None)
    run_sweep(sweep(), tmp_path, jobs=1)
    assert files(tmp_path) == first


def test_another_policy_joins_without_a_new_optimum(tmp_path: Path, counted: list[int]) -> None:
    run_sweep(sweep(), tmp_path, jobs=1)
    counted.clear()
    rows = run_sweep(sweep(policies=("fifo", "lru", "marking")), tmp_path, jobs=1)
    assert counted == []
    run_sweep(sweep(policies=("fifo", "lru", "marking")), tmp_path / "fresh", jobs=1)
    assert rows == read_cells(tmp_path / "fresh" / "cells.parquet")


def test_other_code_makes_other_keys(
    tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sweep(sweep(), tmp_path, jobs=1)
    before = len(counted)
    monkeypatch.setattr(experiment, "code_version", lambda: "another")
    run_sweep(sweep(), tmp_path, jobs=1)
    assert len(counted) == 2 * before


def test_a_users_policy_that_changed_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "from softhit import Decision\nclass P:\n    def start(self, c): pass\n    def decide(self, s): "
    keys = []
    for body in ("return Decision()", "return None"):
        (tmp_path / "changing_policy.py").write_text(text + body + "\n")
        sys.modules.pop("changing_policy", None)
        experiment._policy_source.cache_clear()
        keys.append(sweep(policies=("changing_policy:P",)).cells()[0].key)
    assert keys[0] != keys[1]


def test_a_journal_cut_anywhere_gives_the_same_cells_in_the_end(tmp_path: Path) -> None:
    case = sweep(capacities=(2,), steps=(60,))
    run_sweep(case, tmp_path, jobs=1)
    whole, journal = files(tmp_path), (tmp_path / "journal.jsonl").read_bytes()
    for cut in range(0, len(journal), len(journal) // 7):
        (tmp_path / "journal.jsonl").write_bytes(journal[:cut])
        run_sweep(case, tmp_path, jobs=1)
        assert files(tmp_path) == whole


STOPPER = """
import os, signal, threading

begun = 0

class Stop:
    '''Never admits; once enough cells are recorded, it interrupts the sweep and hangs.'''
    def start(self, context):
        global begun
        journal = os.environ.get("STOP_AT_JOURNAL")
        if not (journal and os.path.exists(journal)):
            return
        begun += 1
        recorded = lambda: open(journal).read().count("Stop")
        if os.environ["STOP_WHOM"] == "parent" and begun > 2:
            # two workers have finished three cells by now; the parent may still be writing them down
            while recorded() < 3:
                threading.Event().wait(0.01)
        if recorded() >= 3:
            target = os.getpid() if os.environ["STOP_WHOM"] == "self" else os.getppid()
            os.kill(target, signal.SIGINT)
            threading.Event().wait(60)
    def decide(self, seen):
        return None
"""


def command(folder: Path, *more: str, **environment: str) -> tuple[int, str, list[str]]:
    """Run the sweep of the interruption tests; return its code, its errors, and the workers that are left."""
    (folder / "stopper.py").write_text(STOPPER)
    words = [sys.executable, "-m", "softhit_lab.cli", "ratio", "-f", "piecewise", "-p", "stopper:Stop,fifo"]
    words += ["-K", "2,3", "-T", "40", "--seeds", "4", "--no-figures", "-o", "r", *more]
    process = subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    errors = process.communicate(timeout=120)[1]
    left = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            session = (entry / "stat").read_text().rpartition(")")[2].split()[3]
            line = (entry / "cmdline").read_text()
            left += [line] if int(session) == process.pid and "LokyProcess" in line else []
    return process.returncode, errors, left


def test_an_optimum_that_was_interrupted_ends_the_sweep_and_fills_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    write_trace(from_arrays(rng.random((30, 12)), rng.integers(0, 12, 30)), tmp_path / "t.parquet")
    chosen = sweep(
        source=FileSource.of(tmp_path / "t.parquet"),
        capacities=(3,),
        steps=(30,),
        switch_costs=(Fraction(1),),
        seeds=(0,),
        optimum=experiment.Optimum("relaxation"),
    )

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    # the facade turns Ctrl-C into the bracket so far
    monkeypatch.setattr("offline_opt.facade.improve", interrupt)
    with pytest.raises(Interrupted) as stopped:
        run_sweep(chosen, tmp_path / "r", jobs=1)
    assert stopped.value.args[:3] == ("interrupted", 0, 2)
    assert not (tmp_path / "r" / "cells.parquet").exists()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    code, errors, _ = command(folder, "--jobs", "1")
    assert code == 0, errors
    return files(folder / "r")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_what_is_finished_leaves_no_worker_and_resumes_to_the_same_bytes(
    tmp_path: Path, jobs: str, uninterrupted: dict[str, bytes]
) -> None:
    journal, whom = tmp_path / "r" / "journal.jsonl", "self" if jobs == "1" else "parent"
    code, errors, left = command(tmp_path, "--jobs", jobs, STOP_AT_JOURNAL=str(journal), STOP_WHOM=whom)
    assert (code, left) == (130, []), errors
    assert "the same command resumes" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "r" / "cells.parquet").exists()
    kept = journal.read_text()
    assert 3 <= kept.count('"policy": "stopper:Stop"') < 8
    code, errors, left = command(tmp_path, "--jobs", jobs)
    assert (code, left) == (0, []), errors
    assert "from an earlier run" in errors
    assert journal.read_text().startswith(kept)
    assert files(tmp_path / "r") == uninterrupted


def test_a_worker_that_dies_stops_the_sweep_as_resumable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying_policy.py").write_text(
        "import os, signal\nclass P:\n    def start(self, c):\n"
        "        if c.capacity == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    def decide(self, s): return None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    case = sweep(policies=("dying_policy:P",), capacities=(2, 3, 4), steps=(40,))
    with pytest.raises(Interrupted, match="ended unexpectedly"):
        run_sweep(case, tmp_path / "r", jobs=2)
    assert not (tmp_path / "r" / "cells.parquet").exists()
    end_workers()


def test_a_second_sweep_is_refused_until_the_files_of_the_first_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = sweeping.write_cells

    def meanwhile(*arguments: Any) -> None:
        with pytest.raises(InvalidInput, match="another sweep is writing"):
            run_sweep(sweep(capacities=(4,)), tmp_path / "r", jobs=1)
        write(*arguments)

    monkeypatch.setattr(sweeping, "write_cells", meanwhile)
    rows = run_sweep(sweep(capacities=(2,)), tmp_path / "r", jobs=1)
    assert read_cells(tmp_path / "r" / "cells.parquet") == rows
    assert json.loads((tmp_path / "r" / "manifest.json").read_text())["cells"] == len(rows)


def test_a_trace_file_and_its_prefixes_can_be_swept(tmp_path: Path) -> None:
    write_trace(from_requests([0, 1, 2, 3] * 10), tmp_path / "t.parquet")
    source = FileSource.of(tmp_path / "t.parquet")
    rows = run_sweep(sweep(source=source, steps=(20, 40), seeds=(0,)), tmp_path / "r", jobs=1)
    assert {(row["file"], row["n_steps"]) for row in rows} == {("t.parquet", 20), ("t.parquet", 40)}
    with pytest.raises(InvalidInput, match="at most 40"):
        run_sweep(sweep(source=source, steps=(41,)), tmp_path / "no", jobs=1)
    assert not (tmp_path / "no").exists()


def test_a_renamed_trace_file_is_the_same_trace_under_its_new_name(
    tmp_path: Path, counted: list[int]
) -> None:
    write_trace(from_requests([0, 1, 2, 3] * 10), tmp_path / "old.parquet")
    for name, capacities in (("old", (2,)), ("new", (2, 3))):
        source = FileSource.of(tmp_path / f"{name}.parquet")
        case = Sweep(source, ("lru",), capacities, (40,), (Fraction(1),))
        rows = run_sweep(case, tmp_path / "r", jobs=1)
        (tmp_path / f"{name}.parquet").rename(tmp_path / "new.parquet")
    assert {row["file"] for row in rows} == {"new.parquet"}
    # whole and half, at each capacity once
    assert len(counted) == 4


def test_bounds_of_a_soft_optimum_come_out_as_a_pair(tmp_path: Path) -> None:
    soft = FamilySource.of("piecewise", {"form": "soft", "w": "8"})
    case = sweep(source=soft, capacities=(2,), steps=(40,), optimum=experiment.Optimum("floor"), seeds=(0,))
    for row in run_sweep(case, tmp_path, jobs=1):
        assert row["opt_kind"] == "band"
        assert row["opt_lower_units"] < row["opt_units"] <= row["cost_units"]
        assert row["ratio_low"] < row["ratio_high"]


def test_an_error_before_the_first_cell_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(task: Any) -> Any:
        raise InvalidInput("no")

    monkeypatch.setattr("softhit_lab.sweep.run_task", fail)
    with pytest.raises(InvalidInput):
        run_sweep(sweep(), tmp_path / "r", jobs=1)
    assert not (tmp_path / "r").exists()


def test_a_method_or_policy_that_does_not_fit_the_trace_is_refused_first(tmp_path: Path) -> None:
    soft = FamilySource.of("piecewise", {"form": "soft"})
    with pytest.raises(InvalidInput, match="'flow' does not apply"):
        run_sweep(sweep(source=soft, optimum=experiment.Optimum("flow")), tmp_path / "r", jobs=1)
    write_trace(from_arrays(np.eye(3), arrivals=[0, 1, 2], sizes=[1, 2, 3]), tmp_path / "t.parquet")
    unit = next(name for name in policy_names() if not policy_info(name).sizes)
    case = sweep(source=FileSource.of(tmp_path / "t.parquet"), steps=(3,), policies=("fifo", unit))
    with pytest.raises(InvalidInput, match=f"unit sizes only: {unit}"):
        run_sweep(case, tmp_path / "r", jobs=1)
    assert not (tmp_path / "r").exists()


def test_time_stands_in_the_manifest_only_and_the_command_repeats_the_sweep(tmp_path: Path) -> None:
    run_sweep(sweep(), tmp_path / "r", jobs=1, command=sweep().command(Path("r")))
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert manifest["code"] == experiment.code_version()
    assert {"python", "numpy", "numba"} <= set(manifest["versions"])
    assert manifest["sweeps"][0]["seeds"] == [0, 1]
    words = manifest["command"].split()
    assert words[:2] == ["softhit", "ratio"]
    assert "--set" in words
    year = manifest["made"][:5]
    for path in (tmp_path / "r").iterdir():
        if path.name != "manifest.json":
            assert year.encode() not in path.read_bytes(), path.name


@pytest.mark.slow
@pytest.mark.parametrize("name", policy_names())
def test_a_policy_that_says_it_draws_nothing_may_share_one_run_among_seeds(name: str) -> None:
    trace = FamilySource.of("piecewise", {"w": "1.5K"}).trace(4, 400, Fraction(1), 0)
    schedules = [simulate(make_policy(name), trace, 4, 1, seed=seed) for seed in range(3)]
    alike = all(schedule == schedules[0] for schedule in schedules)
    assert alike == work._draws_nothing(name)
