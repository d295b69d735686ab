"""``softhit opt`` on soft traces: progress, what ends a run, Ctrl-C, and going on from where it ended."""

import io
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from offline_opt.certificate import Certificate
from offline_opt.facade import Problem, solve
from offline_opt.soft import lagrangian
from offline_opt.soft.lagrangian import State, bracket
from softhit import Variant, from_arrays, from_requests
from softhit.io import read_trace, write_trace
from softhit_lab import single
from softhit_lab.cli import app
from softhit_lab.telling import PAUSE, Telling

ROOT = Path(__file__).resolve().parents[2]
OPT = ("opt", "t.parquet", "-K", "4", "-l", "1/2", "--availability", "pool", "--method", "lagrangian")
POOL = Variant(availability="pool")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    put("t.parquet")


def put(name: str, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    quality = rng.integers(1, 1001, (40, 25)) / 1000 * (rng.random((40, 25)) < 0.3)
    write_trace(from_arrays(quality, rng.integers(0, 25, 40)), Path(name))


def call(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, done.output
    return done


def pressed_at(monkeypatch: pytest.MonkeyPatch, iteration: int) -> None:
    """Ctrl-C, as Python hears it, at the first report from this iteration on."""

    def interrupt(self: Telling, line: str) -> None:
        if int(line.split("iteration ")[1].split(",")[0]) >= iteration:
            raise KeyboardInterrupt

    monkeypatch.setattr(Telling, "__call__", interrupt)


def bounds(name: str) -> tuple[Fraction, Fraction]:
    found = Certificate.from_bytes(Path(name).read_bytes())
    return found.lower_bound, found.upper_bound


def test_ctrl_c_prints_and_writes_the_bracket_so_far_and_exits_with_130(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pressed_at(monkeypatch, 30)
    done = call(*OPT, "-o", "x.cert", "--iterations", "320", "--explain", code=130)
    assert "stopped: interrupted; a schedule; certified" in done.stdout
    assert "the same numbers on another machine: it was interrupted" in done.stdout
    assert done.stderr.splitlines()[-1] == "interrupted"
    assert State.load("x.cert.state").iterations == 40
    assert call("verify", "x.cert", "t.parquet").stdout.startswith("valid: ")
    low, high = bounds("x.cert")
    assert f"{single.show_number(low)} <= OPT <= {single.show_number(high)}" in done.stdout


def test_the_signal_itself_does_so_too() -> None:
    text = (
        "import os, signal, sys\n"
        "from softhit_lab.telling import Telling\n"
        "Telling.__call__ = lambda self, line: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.argv = ['softhit', *{[*OPT, '-o', 'x.cert']!r}]\n"
        "from softhit_lab.start import main\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 130, done.stderr
    assert "stopped: interrupted" in done.stdout
    assert "Traceback" not in done.stderr
    assert call("verify", "x.cert", "t.parquet").stdout.startswith("valid: ")


def test_the_same_command_goes_on_where_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        pressed_at(patch, 30)
        call(*OPT, "-o", "x.cert", "--iterations", "320", code=130)
    before = bounds("x.cert")
    again = call(*OPT, "-o", "x.cert", "--iterations", "320")
    assert "goes on from x.cert.state, 40 iterations so far" in again.stderr
    assert "360 iterations" in again.stdout
    after = bounds("x.cert")
    assert before[0] < after[0] <= after[1] <= before[1]
    # what the command does is what the library does
    short = bracket(read_trace("t.parquet"), 4, "1/2", POOL, iterations=320, progress=stop_at(40))
    longer = bracket(read_trace("t.parquet"), 4, "1/2", POOL, iterations=320, state=short.state)
    assert after == (longer.lower_bound, longer.cost.fraction)


def stop_at(iteration: int) -> lagrangian.Progress:
    def tell(low: float, high: float, gap: float, now: int, seconds: float) -> None:
        if now >= iteration:
            raise KeyboardInterrupt

    return tell


def test_a_run_that_reaches_its_gap_leaves_no_state_and_one_that_does_not_does() -> None:
    first = call(*OPT, "-o", "x.cert", "--iterations", "0", "--gap", "0.0001")
    assert "state x.cert.state: the same command goes on from here" in first.stdout
    assert Path("x.cert.state").is_file()
    second = call(*OPT, "-o", "x.cert", "--gap", "30%")
    assert "stopped: target" in second.stdout
    assert "state" not in second.stdout
    assert not Path("x.cert.state").exists()
    low, high = bounds("x.cert")
    assert high - low <= Fraction(3, 10) * high


def test_a_wider_gap_ends_the_run_sooner() -> None:
    trace = read_trace("t.parquet")
    wide, narrow = (solve(trace, 4, "1/2", POOL, "lagrangian", gap=gap, iterations=320) for gap in (0.2, 0.0))
    assert (wide.status.stop, narrow.status.stop == "target") == ("target", False)
    assert wide.state is not None
    assert narrow.state is not None
    assert wide.state.iterations < narrow.state.iterations == 320
    assert wide.cost is not None
    assert wide.gap is not None
    assert 0 < wide.gap <= Fraction(1, 5) * wide.cost.fraction


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("opt", "t.parquet", "-K", "5", "-l", "1/2", "--availability", "pool"), "capacity 4, not 5"),
        (("opt", "t.parquet", "-K", "4", "-l", "1/3", "--availability", "pool"), "switch_cost 1/2, not 1/3"),
        (("opt", "t.parquet", "-K", "4", "-l", "1/2"), "serve_then_update/pool/free/best, not serve_then"),
        (("opt", "other.parquet", "-K", "4", "-l", "1/2", "--availability", "pool"), "trace "),
        (("opt", "hard.parquet", "-K", "4", "-l", "1/2", "--availability", "pool"), "trace "),
    ],
)
def test_the_state_of_another_instance_is_refused_and_kept(
    words: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("other.parquet", seed=1)
    write_trace(from_requests([0, 1, 0]), Path("hard.parquet"))
    call(*OPT, "-o", "x.cert", "--iterations", "10", "--gap", "0")
    before = Path("x.cert.state").read_bytes(), Path("x.cert").read_bytes()
    monkeypatch.setattr("softhit_lab.single.offline_opt.solve", None)
    done = call(*words, "-o", "x.cert", code=2)
    assert done.stderr.startswith("error: 'x.cert.state' is the state of a run about another instance")
    assert says in done.stderr
    assert "remove it, or give another -o" in done.stderr
    assert (Path("x.cert.state").read_bytes(), Path("x.cert").read_bytes()) == before


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 half a file"])
def test_a_file_that_is_no_state_is_refused_by_name(content: bytes) -> None:
    Path("x.cert.state").write_bytes(content)
    done = call(*OPT, "-o", "x.cert", code=2)
    assert "'x.cert.state' is not a saved state" in done.stderr
    assert Path("x.cert.state").read_bytes() == content


def test_the_library_refuses_the_state_of_another_instance_whatever_the_method() -> None:
    trace = read_trace("t.parquet")
    state = bracket(trace, 4, "1/2", POOL, iterations=5, rounds=0).state
    assert state.instance == Problem(trace, 4, Fraction(1, 2), POOL).instance
    for method in ("lagrangian", "floor"):
        with pytest.raises(ValueError, match="the state is of another instance"):
            solve(trace, 5, "1/2", POOL, method, state=state)


def test_a_finished_state_of_the_same_instance_is_removed_by_an_exact_method() -> None:
    call(*OPT, "-o", "x.cert", "--iterations", "10", "--gap", "0")
    done = call(*OPT[:-1], "milp", "-o", "x.cert")
    assert "stopped: optimal" in done.stdout
    assert not Path("x.cert.state").exists()


def test_without_an_output_nothing_is_left_behind() -> None:
    call(*OPT, "--iterations", "10")
    assert sorted(path.name for path in Path().iterdir()) == ["t.parquet"]


@pytest.mark.parametrize(
    ("words", "plan", "asked"),
    [
        ((), "stops at a gap of 0.1 %, after 120 s, when", (0.001, None, 120.0)),
        (("--gap", "1%"), "stops at a gap of 1 %, after 4000 iterations", (0.01, None, None)),
        (("--iterations", "7"), "stops after 7 iterations", (0.0, 7, None)),
        (("--time-limit", "0"), "stops after 0 s, when", (0.0, None, 0.0)),
    ],
)
def test_the_plan_is_said_beforehand_and_is_what_is_run(
    words: tuple[str, ...],
    plan: str,
    asked: tuple[float, int | None, float | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def spy(*given: object, **named: object) -> object:
        seen.append((named["gap"], named["iterations"], named["time_limit"]))
        return solve(*given, **{**named, "iterations": 1, "gap": 1.0})  # type: ignore[arg-type]

    monkeypatch.setattr("softhit_lab.single.offline_opt.solve", spy)
    assert plan in call(*OPT, *words).stderr.splitlines()[0]
    assert seen == [asked]


def test_methods_that_end_by_themselves_get_no_usual_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def spy(*given: object, **named: object) -> object:
        assert (named["gap"], named["iterations"], named["time_limit"]) == (0.0, None, None)
        return solve(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("softhit_lab.single.offline_opt.solve", spy)
    assert call(*OPT[:-1], "relaxation").stderr == ""


def test_quiet_is_quiet() -> None:
    assert call(*OPT, "--iterations", "10", "--quiet").stderr == ""


@pytest.mark.parametrize(
    "words", [("--gap", "-1"), ("--gap", "narrow"), ("--iterations", "-1"), ("--iterations", "1.5")]
)
def test_limits_that_make_no_sense_are_refused_by_name(words: tuple[str, str]) -> None:
    assert call(*OPT, *words, code=2).stderr.startswith(f"error: {words[0][2:]} must be ")


class TestTelling:
    def lines(self, quiet: bool = False) -> list[str]:
        now = [0.0]
        out = io.StringIO()
        tell = Telling(Console(file=out, width=200), quiet, clock=lambda: now[0])
        with tell:
            tell.announce("plan")
            for second in range(8):
                now[0] = second * PAUSE / 3
                tell(f"line {second}")
        return out.getvalue().splitlines()

    def test_plain_lines_keep_their_distance(self) -> None:
        assert self.lines() == ["plan", "line 3", "line 6"]

    def test_none_when_quiet(self) -> None:
        assert self.lines(quiet=True) == []

    def test_a_terminal_shows_the_last_line_and_keeps_the_plan_only(self) -> None:
        out = io.StringIO()
        tell = Telling(Console(file=out, force_terminal=True, highlight=False, width=200))
        with tell:
            tell.announce("plan [bold]")
            tell("12 <= OPT <= 13, gap 7 %")
            assert tell._live is not None
            tell._live.refresh()
        assert "12 <= OPT <= 13, gap 7 %" in out.getvalue()
        assert "plan [bold]" in out.getvalue()
        quiet = io.StringIO()
        with Telling(Console(file=quiet, force_terminal=True), quiet=True) as silent:
            silent("line")
        assert quiet.getvalue() == ""


class TestBranchAndBound:
    """Ctrl-C while a solver is at work."""

    trace = property(lambda self: read_trace("t.parquet"))

    @pytest.mark.parametrize("where", ["branch_and_bound", "improve"])
    def test_interrupted_it_returns_the_bracket_so_far(
        self, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        whole = solve(self.trace, 4, "1/2", POOL, "milp")
        assert whole.cost is not None
        place = "offline_opt.soft.milp." if where == "branch_and_bound" else "offline_opt.facade."
        monkeypatch.setattr(place + where, interrupt)
        found = solve(self.trace, 4, "1/2", POOL, "milp")
        assert found.status.stop == "interrupted"
        assert (found.kind, found.status.certified) == ("band", True)
        assert found.cost is not None
        assert 0 < found.lower_bound <= whole.cost.fraction <= found.cost.fraction
        done = call(*OPT[:-1], "milp", "-o", "x.cert", code=130)
        assert "stopped: interrupted" in done.stdout
        assert bounds("x.cert") == (found.lower_bound, found.cost.fraction)

    def test_is_not_begun_where_the_gap_is_narrow_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("offline_opt.soft.milp.branch_and_bound", None)
        found = solve(self.trace, 4, "1/2", POOL, "milp", gap=0.5)
        assert (found.status.stop, found.kind) == ("target", "band")
        assert any("no branch and bound was needed" in note for note in found.notes)
