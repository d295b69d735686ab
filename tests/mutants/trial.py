"""Run tests on a copy of the sources with one fault in it, and say whether an assertion noticed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.faults import Fault, NotFound

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("softhit", "offline_opt", "adversaries", "tests", "conftest.py", "pyproject.toml")
"""What the tests of solvers and checkers need; the work tree itself is never touched."""
TIME_LIMIT = 120.0
"""Seconds for one fault. Who needs longer hangs, which no assertion notices."""


@dataclass(frozen=True)
class Verdict:
    """What became of one fault.

    Attributes
    ----------
    fault : Fault
    caught : bool
        An assertion noticed.
    how : str
        Which one, or what happened instead.
    seconds : float
    """

    fault: Fault
    caught: bool
    how: str
    seconds: float


def copy_sources(target: Path, source: Path = ROOT) -> Path:
    """Copy the sources of ``source``, with what Python compiled of them if ``source`` is such a copy."""
    skipped = shutil.ignore_patterns("__pycache__") if source == ROOT else None
    target.mkdir(parents=True)
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=skipped)
        else:
            shutil.copy2(source / name, target / name)
    # beside the tree's own packages, so that pytest finds it by its plain name
    shutil.copy2(source / "tests" / "mutants" / "witness.py", target / "witness.py")
    return target


def _run(tree: Path, tests: Iterable[str], limit: float) -> tuple[int, dict[str, object] | None, str]:
    """Run tests in a tree without compilation; return pytest's exit code, the record and the output."""
    record = tree / "witness.json"
    settings = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYT")},
        "NUMBA_DISABLE_JIT": "1",
        "NUMBA_CACHE_DIR": str(tree / "numba"),
        "HYPOTHESIS_PROFILE": "mutants",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "SOFTHIT_WITNESS": str(record),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
    command += ["-p", "witness", "--override-ini", "addopts=--import-mode=importlib", *tests]
    with subprocess.Popen(
        command, cwd=tree, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return -1, None, f"no end after {limit:.0f} s"
    found = json.loads(record.read_text()) if record.is_file() else None
    if found is not None:
        if found["compiled"] or not Path(found["package"]).is_relative_to(tree.resolve()):
            raise RuntimeError(f"the tests did not run the copy, or compiled it: {found['package']}")
        record.unlink()
    return process.returncode, found, output


def run_untouched(tree: Path, tests: Iterable[str], limit: float = 10 * TIME_LIMIT) -> str | None:
    """Run tests on sources without a fault; return None if they pass, else what pytest wrote."""
    code, found, output = _run(tree, tests, limit)
    return None if code == 0 and found is not None and found["passed"] else output


def try_fault(fault: Fault, untouched: Path, place: Path, limit: float = TIME_LIMIT) -> Verdict:
    """Put a fault into a copy of ``untouched`` at ``place``, run its test, and remove the copy."""
    began = time.monotonic()

    def verdict(caught: bool, how: str) -> Verdict:
        return Verdict(fault, caught, how, time.monotonic() - began)

    tree = copy_sources(place, untouched)
    try:
        fault.apply(tree)
        code, found, output = _run(tree, [fault.by], limit)
    except NotFound as why:
        return verdict(False, f"NOT FOUND: {why}")
    finally:
        shutil.rmtree(tree)
    if code == -1:
        return verdict(False, f"HANGS: {output}")
    failures = [] if found is None else found["failures"]
    assert isinstance(failures, list)
    if code == 0:
        return verdict(False, f"SURVIVES {fault.by}")
    if not failures:
        return verdict(False, f"NO VERDICT: {' '.join(output.split()[-12:])}")
    first = failures[0]
    name = first["test"].rpartition("::")[2] or first["test"]
    if not first["assertion"]:
        return verdict(False, f"FALLS OVER in {name}: {first['error']}: {first['says']}")
    return verdict(True, f"{name} ({first['error']})")
