"""Run points of the crash harness in fork servers, a few at a time."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.shim import build

__all__ = ["Harness", "Point", "Server", "Verdict"]

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Point:
    """A call at which a life of a scenario ends: ``mode`` is "before", "after" or "torn".

    With ``again`` the life that resumes is killed too, at call 1 + again modulo its number of calls.
    """

    scenario: str
    mode: str
    n: int
    again: int | None = None

    @property
    def command(self) -> str:
        """What repeats it."""
        second = "" if self.again is None else f" --again {self.again}"
        return f"python -m tests.crash --only '{self.scenario}' --mode {self.mode} --at {self.n}{second}"


@dataclass(frozen=True)
class Verdict:
    """What became of a point.

    Attributes
    ----------
    outcome : str
        "killed": the process died at the point. "ended": the work was done before. Anything else is wrong.
    call : str
        Number, call and file of the kill.
    again : str
        The same of the second kill; "" = none.
    accepted : int
        How many derived texts the files had promised to keep.
    wrong : tuple of str
        What is not as it has to be after the resumed life.
    """

    point: Point
    outcome: str
    call: str
    again: str
    accepted: int
    wrong: tuple[str, ...]
    seconds: float


class Server:
    """One fork server."""

    def __init__(self, library: Path, home: Path, timeout: float) -> None:
        home.mkdir(parents=True)
        self.log = home / "stderr"
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            # no library may start a thread: forking would lose it
            "JE_ARROW_MALLOC_CONF": "background_thread:false",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "LANGCHAIN_TRACING_V2": "false",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(REPOSITORY),
            "SOFTHIT_CRASH_TIMEOUT": str(timeout),
        }
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.server", str(home)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                cwd=REPOSITORY, env=environment, text=True,
            )  # fmt: skip

    def ask(self, **job: Any) -> dict[str, Any]:
        """Send a job and wait for its answer; RuntimeError with the server's last words when it died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the fork server died: {self.log.read_text()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("outcome") == "error":
            raise RuntimeError(f"{job}: {answer['wrong'][0]}")
        return answer

    def run(self, point: Point, known: Mapping[str, Any] | None = None) -> Verdict:
        """Run one point; ``known``: what :meth:`Harness.count` has found out of its scenario."""
        job: dict[str, Any] = {"scenario": point.scenario, "mode": point.mode, "n": point.n}
        if point.again is not None:
            job["again"] = point.again
        if known is not None:
            job.update(left=known["left"], imported=known["imported"])
        reply = self.ask(do="point", **job)
        return Verdict(
            point, reply["outcome"], reply.get("call", ""), reply.get("again", ""),
            reply.get("accepted", 0), tuple(reply["wrong"]), reply["seconds"],
        )  # fmt: skip

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Harness:
    """A few fork servers and the folder below which they work, in memory where the system offers that.

    ``with Harness(jobs=2) as harness: ...``
    """

    def __init__(self, jobs: int = 1, timeout: float = 60.0) -> None:
        self.known: dict[str, dict[str, Any]] = {}
        memory = Path("/dev/shm")
        place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="softhit-crash-", dir=place))
        try:
            library = build(self.folder)
            self.servers = [Server(library, self.folder / f"server-{n}", timeout) for n in range(jobs)]
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def count(self, scenario: str) -> dict[str, Any]:
        """Run it without a kill: {"calls", "data", "trace"}."""
        if scenario not in self.known:
            self.known[scenario] = self.servers[0].ask(do="count", scenario=scenario)
        return self.known[scenario]

    def run(self, points: Sequence[Point]) -> Iterator[Verdict]:
        """Run the points, as they come in; each server takes the next one that waits."""
        waiting: queue.SimpleQueue[Point] = queue.SimpleQueue()
        for point in points:
            waiting.put(point)
        done: queue.SimpleQueue[Verdict | BaseException] = queue.SimpleQueue()

        def work(server: Server) -> None:
            try:
                while True:
                    point = waiting.get_nowait()
                    done.put(server.run(point, self.known.get(point.scenario)))
            except queue.Empty:
                return
            except BaseException as error:
                done.put(error)

        threads = [threading.Thread(target=work, args=(server,), daemon=True) for server in self.servers]
        for thread in threads:
            thread.start()
        try:
            for _ in points:
                verdict = done.get()
                if isinstance(verdict, BaseException):
                    raise verdict
                yield verdict
        finally:
            # Whoever stops early leaves servers that still answer: the next run must not read that.
            with suppress(queue.Empty):
                while True:
                    waiting.get_nowait()
            for thread in threads:
                thread.join()
