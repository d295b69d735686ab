"""A process that imports everything once and forks a child for each point: ``python -m tests.crash.server``.

It is started with the shim preloaded, reads one job a line from standard input and answers each with a line.
A child runs the scenario's first life in a fresh folder and is killed at one write; the next child resumes
from the files, and may be killed too. What is true of the files is checked in children as well, so that the
process that forks never has a thread, an open database or a lock of its own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.scenario import Scenario, find, scenarios
from tests.crash.shim import Shim

__all__ = ["TIMEOUT", "main"]

TIMEOUT = float(os.environ.get("SOFTHIT_CRASH_TIMEOUT", "60"))
"""Seconds that one child may take; one that takes longer counts as a failure of the point."""


@dataclass
class End:
    """How a child ended: killed by SIGKILL, done with a value, failed with a text, or hung."""

    how: str
    value: Any = None
    lines: str = ""


def child(work: Callable[[], Any], shim: Shim, folder: Path, mode: str = "", n: int = 0) -> End:
    """Fork, run ``work`` with the shim armed below the folder, and wait for the end."""
    answer, answers = os.pipe()
    line, lines = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(answer)
            os.close(line)
            gc.disable()  # it does not live long
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            if mode:
                shim.arm(folder, mode, n, lines)
            known = set(sys.modules)
            value = work()
            calls = (shim.calls, shim.data)
            shim.disarm()
            said = {"value": value, "calls": calls, "imported": sorted(set(sys.modules) - known)}
            os.write(answers, json.dumps(said).encode())
            os._exit(0)
        except BaseException:
            shim.disarm()
            os.write(answers, json.dumps({"failed": traceback.format_exc(limit=-12)}).encode())
            os._exit(1)
    os.close(answers)
    os.close(lines)
    gone = os.pidfd_open(pid)
    collected = {answer: bytearray(), line: bytearray()}
    deadline = time.monotonic() + TIMEOUT
    open_ends = {answer, line}
    hung = False
    while open_ends:
        ready, _, _ = select.select([*open_ends, gone], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            hung = True
            os.kill(pid, signal.SIGKILL)
            break
        for end in ready:
            if end == gone:
                # What it wrote before it died is still in the pipes; nobody else holds their other ends.
                continue
            data = os.read(end, 1 << 16)
            collected[end] += data
            if not data:
                open_ends.discard(end)
    _, status = os.waitpid(pid, 0)
    for end in (answer, line, gone):
        os.close(end)
    told = collected[line].decode(errors="replace")
    if hung:
        return End("hung", lines=told)
    if os.WIFSIGNALED(status):
        signum = os.WTERMSIG(status)
        return End(
            "killed" if signum == signal.SIGKILL and mode not in ("", "count") else f"signal {signum}",
            lines=told,
        )
    said = json.loads(collected[answer] or b"{}")
    if os.WEXITSTATUS(status) or "failed" in said:
        return End("failed", said.get("failed", f"exit code {os.WEXITSTATUS(status)}"), told)
    return End("done", said, told)


def _finish(scenario: Scenario, folder: Path, earlier: dict[str, Any] | None, left: Any) -> dict[str, Any]:
    """What was promised at the kill, the life that resumes, and the judgement, by files read afresh."""
    accepted = scenario.accepted(folder)
    if earlier is not None:
        accepted = scenario.join(earlier, accepted)
    value = scenario.resume(folder)
    wrong = scenario.check(folder, accepted, value, left)["wrong"]
    return {"accepted": len(accepted["derived"]), "wrong": wrong}


class Server:
    """Runs jobs; keeps for each scenario the folder it starts from and what a run without a kill leaves."""

    def __init__(self, shim: Shim, root: Path) -> None:
        self.shim = shim
        self.root = root
        self.starts: dict[str, Path] = {}
        self.baselines: dict[str, Any] = {}
        self.imported: set[str] = set()

    def fresh(self, scenario: Scenario) -> Path:
        """Return a new folder as the scenario finds it."""
        start = self.starts.get(scenario.name)
        if start is None:
            start = Path(tempfile.mkdtemp(prefix="start-", dir=self.root))
            end = child(lambda: scenario.prepare(start), self.shim, start)
            if end.how != "done":
                raise RuntimeError(f"{scenario.name}: prepare {end.how}: {end.value}")
            self.starts[scenario.name] = start
        folder = Path(tempfile.mkdtemp(prefix="point-", dir=self.root))
        return shutil.copytree(start, folder, dirs_exist_ok=True, symlinks=True)

    def baseline(self, scenario: Scenario) -> Any:
        """Run it without a kill: {"calls", "data", "trace", "answer"}; its own end must satisfy the check."""
        if scenario.name not in self.baselines:
            folder = self.fresh(scenario)
            try:
                first = child(lambda: scenario.run(folder), self.shim, folder, "count")
                if first.how != "done":
                    raise RuntimeError(f"{scenario.name}: without a kill: {first.how}: {first.value}")
                accepted = child(lambda: scenario.accepted(folder), self.shim, folder)
                last = child(lambda: scenario.resume(folder), self.shim, folder, "count")
                if last.how != "done" or accepted.how != "done":
                    raise RuntimeError(f"{scenario.name}: without a kill: {accepted.value} {last.value}")
                answer = last.value["value"]
                seen = accepted.value["value"]
                wrong = child(lambda: scenario.check(folder, seen, answer, None), self.shim, folder)
                if wrong.how != "done" or wrong.value["value"]["wrong"]:
                    raise RuntimeError(f"{scenario.name}: without a kill: {wrong.value}")
                imported = sorted({*first.value["imported"], *last.value["imported"]})
                self.import_all(imported)
                calls, data = first.value["calls"]
                left = {"answer": answer, **wrong.value["value"]["left"]}
                self.baselines[scenario.name] = {
                    "calls": calls, "data": data, "trace": first.lines.splitlines(),
                    "left": left, "imported": imported,
                }  # fmt: skip
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return self.baselines[scenario.name]

    def import_all(self, names: list[str]) -> None:
        """Import what children imported by themselves, so that the next ones need not."""
        new = set(names) - sys.modules.keys() - self.imported
        if not new:
            return
        self.imported |= new
        for name in sorted(new):
            with suppress(ImportError):
                importlib.import_module(name)
        alone()
        gc.collect()
        gc.freeze()

    def point(
        self, scenario: Scenario, mode: str, n: int, again: int | None = None, left: Any = None
    ) -> dict[str, Any]:
        """Kill at call ``n``, resume (with ``again``: kill that life too, at a call drawn by it), check.

        ``left``: what a run without a kill leaves, where another server has found that out already.
        """
        if left is None:
            left = self.baseline(scenario)["left"]
        folder = self.fresh(scenario)
        try:
            first = child(lambda: scenario.run(folder), self.shim, folder, mode, n)
            if first.how == "done":
                return {"outcome": "ended", "wrong": []}  # with threads, numbers differ from run to run
            if first.how != "killed":
                return {"outcome": first.how, "wrong": [f"first life {first.how}: {first.value}"]}
            answer: dict[str, Any] = {"outcome": "killed", "call": first.lines.strip()}
            earlier: dict[str, Any] | None = None
            if again is not None:
                kept = child(lambda: scenario.accepted(folder), self.shim, folder)
                if kept.how != "done":
                    return {**answer, "wrong": [f"reading the files after the kill {kept.how}: {kept.value}"]}
                earlier = kept.value["value"]
                second = self.kill_again(scenario, folder, again)
                if second.how not in ("killed", "done"):
                    return {**answer, "wrong": [f"the second life {second.how}: {second.value}"]}
                answer["again"] = second.lines.strip() if second.how == "killed" else "done"
            last = child(lambda: _finish(scenario, folder, earlier, left), self.shim, folder)
            if last.how != "done":
                return {**answer, "wrong": [f"the resumed life {last.how}: {last.value}"]}
            return {**answer, **last.value["value"]}
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def kill_again(self, scenario: Scenario, folder: Path, drawn: int) -> End:
        """Let a copy resume to learn how many calls that takes, then kill the real one at one of them."""
        copy = Path(tempfile.mkdtemp(prefix="copy-", dir=self.root))
        try:
            shutil.copytree(folder, copy, dirs_exist_ok=True, symlinks=True)
            whole = child(lambda: scenario.resume(copy), self.shim, copy, "count")
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if whole.how != "done":
            return whole
        calls = max(1, whole.value["calls"][0])
        return child(lambda: scenario.resume(folder), self.shim, folder, "before", 1 + drawn % calls)


def alone() -> None:
    """Raise if this process has a second thread: a fork would lose it, and what it holds."""
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("an import started a thread")


def main() -> None:
    """Answer jobs until standard input ends."""
    shim = Shim()
    scenarios()
    alone()
    gc.collect()
    gc.freeze()
    home = Path(sys.argv[1])
    server = Server(shim, home)
    for line in sys.stdin:
        job = json.loads(line)
        started = time.monotonic()
        try:
            scenario = find(job["scenario"])
            if job["do"] == "count":
                known = server.baseline(scenario)
                reply: dict[str, Any] = dict(known)
            else:
                if imported := job.get("imported"):
                    server.import_all(imported)
                reply = server.point(scenario, job["mode"], job["n"], job.get("again"), job.get("left"))
        except Exception:
            reply = {"outcome": "error", "wrong": [traceback.format_exc()]}
        reply["seconds"] = round(time.monotonic() - started, 4)
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
