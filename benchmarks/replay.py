"""Steps per second over the line protocol: one by one and with steps sent ahead, for the example clients."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from adversaries.replay.line import LinePolicy, run_line
from benchmarks.measure import Report, paired
from benchmarks.workloads import zipf
from softhit import Trace, from_requests, simulate

__all__ = ["run"]

_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(report: Report, n_steps: int = 200_000) -> None:
    """Drive the clients with Zipf requests at K = 100; each schedule is compared with the built-in's."""
    table = f"Line protocol, T = {n_steps:,} Zipf requests over 10,000 items, K = 100 (one by one: a tenth)"
    trace = from_requests(zipf(n_steps), n_items=10_000)
    few = trace.prefix(n_steps // 10)
    clients = {"Python client": ([sys.executable, str(_EXAMPLES / "line_client.py")], "lru")}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "line_client"
        if shutil.which("gcc"):
            source = str(_EXAMPLES / "line_client.c")
            subprocess.run(["gcc", "-O2", "-o", str(program), source], check=True)
            clients |= {f"C client, {rule}": ([str(program), rule], rule) for rule in ("fifo", "lru")}
        for name, (command, rule) in clients.items():
            with LinePolicy(command) as policy:

                def ahead(policy: LinePolicy = policy, rule: str = rule) -> None:
                    _same(run_line(policy, trace, 100) == simulate(rule, trace, 100))

                def single(policy: LinePolicy = policy, few: Trace = few, rule: str = rule) -> None:
                    _same(simulate(policy, few, 100) == simulate(rule, few, 100))

                times = paired({"ahead": ahead, "single": single}, rounds=5)
            for what, key, count in (
                ("one by one", "single", few.n_steps),
                ("256 ahead", "ahead", n_steps),
            ):
                rates = sorted(count / seconds for seconds in times[key])
                middle, spread = rates[len(rates) // 2], f"{rates[0]:,.0f}-{rates[-1]:,.0f}"
                report.add(table, f"{name}, {what}", f"{middle:,.0f} steps/s", spread)


def _same(equal: bool) -> None:
    if not equal:
        raise AssertionError("the client's schedule is not that of the built-in policy")
