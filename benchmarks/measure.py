"""Time rivals in turn within one run, and run heavy ones in a subprocess under a limit."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any

__all__ = ["Report", "Row", "isolated", "more_than", "paired", "rate", "ratio"]

_LIBRARIES = [
    "softhit",
    "numpy",
    "numba",
    "scipy",
    "libcachesim",
    "ortools",
    "networkx",
    "cvxpy",
    "highspy",
    "langgraph",
    "qdrant-client",
    "qdrant-edge-py",
    "wordllama",
]


@dataclass
class Row:
    """One line of a table: what was measured, how much, in which unit, and what it means."""

    what: str
    value: str
    note: str = ""


@dataclass
class Report:
    """All that one run of the benchmarks measured."""

    tables: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, table: str, what: str, value: str, note: str = "") -> None:
        """Add a line and print it at once."""
        if table not in self.tables:
            print(f"\n{table}", flush=True)
            self.tables[table] = []
        self.tables[table].append(Row(what, value, note))
        print(f"  {what:<58} {value:>22}  {note}", flush=True)

    def as_json(self, command: str) -> str:
        """Return everything as JSON, with versions and the machine's architecture."""
        versions = {}
        for name in _LIBRARIES:
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                versions[name] = "not installed"
        facts = {
            "command": command,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "versions": versions,
            "tables": {k: [asdict(r) for r in rows] for k, rows in self.tables.items()},
        }
        return json.dumps(facts, indent=1) + "\n"


def paired(rivals: dict[str, Callable[[], Any]], rounds: int = 5) -> dict[str, list[float]]:
    """Time each rival once per round, in turn (A B A B ...), after one call of each that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds + 1):
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return times


def ratio(times: dict[str, list[float]], ours: str, theirs: str) -> str:
    """Return how many times faster ``ours`` is, as median with minimum and maximum over the pairs."""
    pairs = [b / a for a, b in zip(times[ours], times[theirs], strict=True)]
    return f"{statistics.median(pairs):.1f}x ({min(pairs):.1f}-{max(pairs):.1f})"


def rate(seconds: list[float], count: int) -> str:
    """Return millions per second from the median time."""
    return f"{count / statistics.median(seconds) / 1e6:.2f} M/s"


def more_than(memory: float) -> str:
    """Return the entry of a rival whose limit of memory was too low."""
    return f"needs more than {memory:g} GB"


def isolated(code: str, limit: float, memory: float | None = None) -> dict[str, Any]:
    """Run Python code that prints one JSON object in a fresh process; a limit or a crash is an answer too.

    The code may use ``peak()``: the resident size now at its maximum, in MB. ``limit`` is in seconds,
    ``memory`` in GB of address space, and both count from the start of the process.
    """
    prelude = (
        "import json, resource, sys, time\n"
        "def peak():\n"
        "    try:  # a process inherits the other figure from the one that started it\n"
        "        with open('/proc/self/status') as status:\n"
        "            return next(int(x.split()[1]) for x in status if x.startswith('VmHWM')) / 1024\n"
        "    except (OSError, StopIteration):\n"
        "        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
    )
    if memory is not None:
        prelude += f"resource.setrlimit(resource.RLIMIT_AS, ({int(memory * 1e9)},) * 2)\n"
    try:
        done = subprocess.run(
            [sys.executable, "-c", prelude + code], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished in {limit:g} s"}
    if done.returncode:
        if memory is not None and ("MemoryError" in done.stderr or "bad_alloc" in done.stderr):
            return {"failed": more_than(memory)}
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        lines = done.stderr.strip().splitlines() or ["nothing on standard error"]
        return {"failed": f"crashed: {how}, {lines[-1][:80]}"}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer
