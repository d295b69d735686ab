"""The verb replay: what it prints for a good client, and how it ends for a bad one."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from softhit import cost, from_arrays, from_requests, simulate
from softhit.io import read_schedule, schedule_metadata, write_trace
from softhit_lab.cells import read_cells
from softhit_lab.cli import app

ROOT = Path(__file__).resolve().parents[2]
CLIENT = shlex.join([sys.executable, str(ROOT / "examples" / "line_client.py")])
TRACE = from_requests([0, 1, 2, 0, 3, 0, 1, 2, 0] * 20)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_trace(TRACE, "t.parquet")


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def field(printed: str, name: str) -> str:
    found = re.search(rf"^ *{name}  (.*)$", printed, re.M)
    assert found, printed
    return found[1]


def test_a_good_client_is_priced_beside_the_optimum_and_its_schedule_verifies() -> None:
    printed = call("replay", "t.parquet", "--exec", CLIENT, "-K", "2", "-l", "1/2", "-o", "s.parquet")
    wanted = simulate("lru", TRACE, 2)
    paid = cost(wanted, TRACE, 2, "1/2")
    assert field(printed, "cost").startswith(f"{float(paid):g} = misses {paid.misses} + switching ")
    ratio, best = float(field(printed, "ratio")), float(field(printed, "OPT").split()[0])
    assert ratio == pytest.approx(float(paid) / best, rel=1e-5)
    assert "(exact, by " in field(printed, "OPT")
    hits = TRACE.n_queries - int(paid.misses)
    assert field(printed, "hits").startswith(f"{hits} of {TRACE.n_queries} queries")
    assert read_schedule("s.parquet") == wanted
    assert schedule_metadata("s.parquet")["client"] == "example LRU"
    assert "valid" in call("verify", "s.parquet", "t.parquet")


def test_a_bracket_of_the_optimum_gives_a_bracket_of_the_ratio() -> None:
    rng = np.random.default_rng(0)
    soft = from_arrays(rng.random((60, 12)).round(2), arrivals=rng.integers(0, 12, 60))
    write_trace(soft, "soft.parquet")
    words = (
        "soft.parquet",
        "--exec",
        CLIENT,
        "-K",
        "3",
        "--opt-method",
        "lagrangian",
        "--opt-time-limit",
        "0",
    )
    printed = call("replay", *words)
    low, high = (float(x) for x in field(printed, "ratio").split(" .. "))
    assert 1 <= low < high
    bounds = [float(x) for x in field(printed, "OPT").partition(" (")[0].split(" .. ")]
    paid = float(field(printed, "cost").split()[0])
    assert [high, low] == pytest.approx([paid / b for b in bounds], rel=1e-5)


def test_a_program_is_a_policy_of_run_and_of_ratio() -> None:
    printed = call("run", "t.parquet", "-p", f"lru,exec:{CLIENT}", "-K", "2")
    assert len(set(re.findall(r" (\d[\d.]*) +\d+ +\d+ +[\d.]+ %", printed))) == 1
    names = [
        "--trace",
        "t.parquet",
        "-p",
        f"lru,exec:{CLIENT}",
        "-K",
        "2",
        "-j",
        "1",
        "--no-figures",
        "-o",
        "r",
    ]
    call("ratio", *names)
    costs = {row["policy"]: row["cost_units"] for row in read_cells(Path("r/cells.parquet"))}
    assert len(costs) == 2
    assert len(set(costs.values())) == 1


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("sh -c 'echo hello; cat'", "before the first step: a reply must be one JSON object in a line"),
        ("sh -c 'exit 9'", "before the first step: it exited with code 9"),
        ("sh -c 'read x; echo {\\\"v\\\":1}; read x; exit 4'", "at step 0: it exited with code 4"),
        (
            'sh -c \'read x; echo {\\"v\\":1}; read x; echo {\\"t\\":0,\\"evict\\":[2]}; cat\'',
            "invalid schedule at step 0, item 2: the item leaves but is not held",
        ),
    ],
)
def test_a_bad_client_is_one_line_and_exit_code_1(program: str, says: str) -> None:
    printed = call("replay", "t.parquet", "--exec", program, "-K", "2", "-o", "s.parquet", code=1)
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert says in printed
    assert not Path("s.parquet").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give either --exec COMMAND or --adapter NAME"),
        (("--exec", "true", "--adapter", "x"), "give either --exec COMMAND or --adapter NAME"),
        (("--exec", "no-such-program"), "cannot run 'no-such-program'"),
        (("--exec", "true", "--timeout", "0"), "timeout must be a finite number"),
        (("--adapter", "no_such_adapter"), "unknown adapter 'no_such_adapter'"),
        (
            ("--adapter", "no_such_module:Class"),
            "unsupported: adapter 'no_such_module:Class' cannot be loaded",
        ),
    ],
)
def test_input_that_makes_no_sense_is_exit_code_2(words: tuple[str, ...], says: str) -> None:
    printed = call("replay", "t.parquet", "-K", "2", *words, code=2)
    assert says in printed
    assert printed.count("\n") == 1


def test_an_adapter_from_the_current_folder_is_found_and_its_answers_compared() -> None:
    Path("mine_for_replay.py").write_text(
        "class Mute:\n"
        "    name, version = 'mute', '3'\n"
        "    def open(self, setup): self.held_now = []\n"
        "    def step(self, ask): self.held_now = [ask.arrival]; return -1\n"
        "    def held(self): return self.held_now\n"
        "    def close(self): pass\n"
    )
    write_trace(from_requests([0, 0, 1, 1]), "twice.parquet")
    words = ["replay", "twice.parquet", "--adapter", "mine_for_replay:Mute", "-K", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "softhit_lab.cli", *words],
        env={"PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert field(done.stdout, "replayed") == "mute 3, 4 steps"
    assert field(done.stdout, "answers") == "it says itself that it answered 0"
    assert field(done.stdout, "silent").startswith("2 times it held an item")
    assert field(done.stdout, "silent").endswith("first at step 1")
