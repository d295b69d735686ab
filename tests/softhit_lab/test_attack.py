"""The verbs attack and shrink: what they print and write, how they are interrupted, resumed and repeated."""

from __future__ import annotations

import json
import re
import shlex
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adversaries.search import Lasso, lasso_of
from offline_opt import solve
from softhit import cost, from_requests, simulate
from softhit.io import read_trace, write_trace
from softhit_lab.attack import read_budget
from softhit_lab.cli import app


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def line(printed: str, name: str) -> str:
    return next(x for x in printed.splitlines() if x.startswith(f"{name} ")).removeprefix(name).strip()


def slope(path: str, policy: str, k: int, lam: str) -> Fraction:
    """The ratio of the second half, by nothing but simulate, cost and solve."""
    trace = read_trace(path)
    parts = trace.prefix(trace.n_steps // 2), trace
    schedules = [simulate(policy, part, k, lam) for part in parts]
    paid = [cost(s, part, k, lam).fraction for s, part in zip(schedules, parts, strict=True)]
    best = [Fraction(solve(part, k, lam).lower_bound) for part in parts]
    return (paid[1] - paid[0]) / (best[1] - best[0])


def test_attack_writes_a_trace_whose_ratio_is_the_one_printed_and_shrink_makes_it_readable() -> None:
    printed = call("attack", "-p", "fifo", "-K", "2", "--budget", "1500", "-T", "300", "-o", "worst.parquet")
    assert line(printed, "ratio").startswith("6: ")
    assert slope("worst.parquet", "fifo", 2, "1") == 6
    facts = read_trace("worst.parquet").metadata
    assert (facts["policy"], facts["ratio"], facts["seed"], facts["evaluations"]) == ("fifo", "6", 0, 1500)
    assert not Path("worst.parquet.state").exists()
    small = call(*shlex.split(line(printed, "shrink"))[1:])
    assert line(small, "requests") == "(0 1 2)*"
    assert lasso_of(read_trace("small.parquet")) == Lasso((), (0, 1, 2))
    assert slope("small.parquet", "fifo", 2, "1") == 6


def test_the_printed_commands_replay_and_repeat() -> None:
    first = call(
        "attack", "-p", "gated_lru(theta=2)", "-K", "2", "-l", "1/2", "--budget", "400", "-o", "a.parquet"
    )
    replayed = call(*shlex.split(line(first, "replay"))[1:], "--no-figures")
    ratio = Fraction(read_trace("a.parquet").metadata["ratio"])
    assert f"{float(ratio):.3f}" in replayed
    again = call(*shlex.split(line(first, "the same"))[1:], "-o", "b.parquet")
    assert line(again, "requests") == line(first, "requests")
    assert read_trace("b.parquet").hash == read_trace("a.parquet").hash
    assert read_trace("a.parquet").metadata["command"] == line(first, "the same")


def test_the_variant_counts() -> None:
    words = ("attack", "-p", "lru", "-K", "2", "--budget", "800")
    assert line(call(*words, "--order", "update_then_serve"), "ratio").startswith("3: ")
    assert "--order update_then_serve" in line(call(*words, "--order", "update_then_serve"), "the same")


PRESSES = """
import os, signal
from pathlib import Path

class P:
    name = "presses"
    starts = 0

    def start(self, context):
        P.starts += 1
        if P.starts == 150 and not Path("pressed").exists():
            Path("pressed").touch()
            os.kill(os.getpid(), signal.SIGINT)
        self.queue = []

    def decide(self, seen):
        from softhit import Decision
        if seen.arrival_held:
            return Decision()
        self.queue.append(seen.arrival)
        return Decision(() if seen.free else (self.queue.pop(0),), (seen.arrival,))
"""


def test_ctrl_c_keeps_the_best_and_the_same_command_ends_as_if_there_had_been_none() -> None:
    Path("presses.py").write_text(PRESSES)
    words = ("attack", "-p", "presses:P", "-K", "2", "--budget", "300", "-T", "60")
    cut = call(*words, "-o", "cut.parquet", code=130)
    done = json.loads(json.loads(Path("cut.parquet.state").read_text())["state"])["evaluations"]
    assert 100 < done < 150
    assert f"{done} evaluations" in line(cut, "search")
    assert slope("cut.parquet", "fifo", 2, "1") >= 1
    resumed = call(*words, "-o", "cut.parquet")
    assert f"goes on from cut.parquet.state: {done} evaluations" in resumed
    assert not Path("cut.parquet.state").exists()
    whole = call(*words, "-o", "whole.parquet")
    assert line(resumed, "requests") == line(whole, "requests")
    assert read_trace("cut.parquet").hash == read_trace("whole.parquet").hash


def test_the_state_of_another_search_is_refused() -> None:
    Path("other.py").write_text(PRESSES)
    call("attack", "-p", "other:P", "-K", "2", "--budget", "300", "-o", "x.parquet", code=130)
    printed = call("attack", "-p", "lru", "-K", "2", "--budget", "300", "-o", "x.parquet", code=2)
    assert "is the state of another search" in printed
    Path("x.parquet.state").write_text("{}")
    printed = call("attack", "-p", "lru", "-K", "2", "--budget", "300", "-o", "x.parquet", code=2)
    assert "is not a saved search" in printed


CLIENT = """
import json, sys
queue = []
for line in sys.stdin:
    said = json.loads(line)
    if "v" in said:
        capacity, queue = said["capacity"], []
        print(json.dumps({"v": 1, "name": "queue", "restart": True}), flush=True)
    elif "t" in said:
        reply = {"t": said["t"]}
        if said["arrival"] not in queue:
            reply["evict"] = [queue.pop(0)] if len(queue) == capacity else []
            reply["admit"] = [said["arrival"]]
            queue.append(said["arrival"])
        print(json.dumps(reply), flush=True)
    else:
        break
"""


def test_a_program_is_attacked_like_a_policy() -> None:
    pytest.importorskip("adversaries.replay.line")
    Path("client.py").write_text(CLIENT)
    program = shlex.join([sys.executable, "client.py"])
    words = ("-K", "2", "--seed", "1")
    by_line = call("attack", "--exec", program, *words, "--budget", "60", "-T", "40", "-o", "p.parquet")
    own = call("attack", "-p", "fifo", *words, "--budget", "60", "-T", "40")
    assert line(by_line, "requests") == line(own, "requests")
    assert line(by_line, "ratio") == line(own, "ratio")
    small = call("shrink", "p.parquet", "--exec", program, "-K", "2", "-T", "40")
    assert line(small, "requests") == line(call("shrink", "p.parquet", "-p", "fifo", "-K", "2"), "requests")


def test_a_policy_that_draws_is_measured_on_fresh_seeds_with_a_limit() -> None:
    printed = call("attack", "-p", "random", "-K", "2", "--budget", "100", "-T", "200")
    assert "mean over seeds 200000..200999" in printed
    found = re.search(r"at least ([\d.]+) \(one-sided, error 1e-06", printed)
    assert found is not None
    ratio = float(line(printed, "ratio").split(":")[0])
    assert 0.8 * ratio < float(found[1]) < ratio


def test_an_infinite_ratio_is_said_to_be_so() -> None:
    printed = call("attack", "-p", "never", "-K", "2", "--budget", "500", "-o", "w.parquet")
    assert line(printed, "ratio").startswith("infinite: ")
    assert read_trace("w.parquet").metadata["ratio"] == "inf"
    small = call(*shlex.split(line(printed, "shrink"))[1:])
    assert line(small, "ratio").startswith("infinite: ")
    assert "keeps an infinite ratio" in small


def test_soft_hits_are_searched_written_and_shrunk() -> None:
    words = ("--policy", "fifo", "-K", "2", "--items", "5", "--near", "1/2", "--budget", "400", "-T", "240")
    printed = call("attack", *words, "-o", "soft.parquet")
    trace = read_trace("soft.parquet")
    assert not trace.structure.hard
    half = trace.prefix(trace.n_steps // 2)
    paid = [cost(simulate("fifo", part, 2, 1), part, 2, 1).fraction for part in (half, trace)]
    best = [solve(part, 2, 1, method="dp") for part in (half, trace)]
    assert [answer.kind for answer in best] == ["exact", "exact"]
    ratio = (paid[1] - paid[0]) / Fraction(best[1].lower_bound - best[0].lower_bound)
    assert Fraction(trace.metadata["ratio"]) == ratio > 6
    small = call(*shlex.split(line(printed, "shrink"))[1:], "-T", "240")
    left = read_trace("small.parquet")
    assert not left.structure.hard
    assert Fraction(left.metadata["ratio"]) >= ratio
    assert len(line(small, "requests")) <= len(line(printed, "requests"))


def test_under_soft_hits_lru_keeps_what_serves_half_for_ever() -> None:
    printed = call(
        "attack",
        "-p",
        "lru",
        "-K",
        "2",
        "--items",
        "5",
        "--near",
        "1/2",
        "--budget",
        "2000",
        "-o",
        "w.parquet",
    )
    assert line(printed, "ratio").startswith("infinite: ")
    small = call(*shlex.split(line(printed, "shrink"))[1:])
    # item 0 serves both 1 and 4 by half, and so is never the least recently used
    assert line(small, "ratio").startswith("infinite: ")
    assert line(small, "shrunk").split(";")[0].split("to ")[2].startswith("1 + 2 requests")


def test_any_trace_of_requests_can_be_shrunk() -> None:
    write_trace(from_requests([3, 3, *([0, 1, 2] * 9), 3, 1]), "log.parquet")
    printed = call("shrink", "log.parquet", "-p", "lru", "-K", "2", "--at-least", "9/2")
    assert line(printed, "shrunk").startswith("from 0 + 31 requests to 4 items")
    assert Fraction(line(printed, "ratio").split(":")[0].split(" =")[0]) >= Fraction(9, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("attack", "-K", "2"), "policy must be given as --policy NAME or as --exec COMMAND"),
        (("attack", "-p", "lru", "--exec", "x", "-K", "2"), "one of them"),
        (("attack", "-p", "belady", "-K", "2", "--budget", "9"), "online"),
        (("attack", "-p", "lru", "-K", "2", "--items", "2"), "items must be an integer >= 3"),
        (("attack", "-p", "lru", "-K", "2", "--budget", "soon"), "budget must be"),
        (("attack", "-p", "lru", "-K", "2", "--budget", "0s"), "budget ended before"),
        (
            ("attack", "-p", "lru", "-K", "2", "--aggregator", "coverage", "--top-k", "2"),
            "aggregator must be",
        ),
        (("shrink", "log.parquet", "-p", "lru", "-K", "2", "--at-least", "50"), "at_least must be at most"),
    ],
)
def test_what_makes_no_sense_is_one_line(words: tuple[str, ...], message: str) -> None:
    write_trace(from_requests([0, 1, 2, 3]), "log.parquet")
    printed = call(*words, code=2)
    assert printed.startswith("error: ")
    assert message in printed
    assert printed.count("\n") == 1


def test_budgets_are_read() -> None:
    assert (read_budget("1e3").evaluations, read_budget("2m").seconds, read_budget("1/2s").seconds) == (
        1000,
        120,
        0.5,
    )
