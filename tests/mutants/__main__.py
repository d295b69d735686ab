"""Show that the tests notice faults: ``python -m tests.mutants``, exit code 1 if one is not noticed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.faults import Fault, read_faults
from tests.mutants.trial import Verdict, copy_sources, run_untouched, try_fault


class Broken(Exception):
    """The tests fail without any fault, so they cannot judge one."""


def try_all(faults: list[Fault], jobs: int = 1) -> Iterator[Verdict]:
    """Check that the sources pass as they are, then try every fault; ``jobs`` processes at a time.

    Raises
    ------
    Broken
    """
    with tempfile.TemporaryDirectory(prefix="softhit-mutants-") as folder:
        untouched = copy_sources(Path(folder) / "untouched")
        tests = list(dict.fromkeys(fault.by for fault in faults))
        if (output := run_untouched(untouched, tests)) is not None:
            raise Broken(output)
        with ThreadPoolExecutor(jobs) as pool:
            places = [Path(folder) / fault.id for fault in faults]
            yield from pool.map(try_fault, faults, [untouched] * len(faults), places)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes at a time (default 1)")
    parser.add_argument("-k", "--only", default="", help="only faults whose id or file contains this")
    parser.add_argument("-l", "--list", action="store_true", help="list the faults and run nothing")
    options = parser.parse_args(arguments)
    faults = [f for f in read_faults() if options.only in f.id or options.only in f.file]
    if not faults:
        parser.error(f"no fault contains {options.only!r}")
    width = max(len(fault.id) for fault in faults)
    if options.list:
        for fault in faults:
            print(f"{fault.id:{width}}  {fault.file}: {fault.breaks}")
        return 0
    missed = 0
    try:
        for verdict in try_all(faults, max(1, options.jobs)):
            missed += not verdict.caught
            mark = "caught" if verdict.caught else "MISSED"
            print(f"{mark}  {verdict.fault.id:{width}}  {verdict.seconds:5.1f} s  {verdict.how}", flush=True)
    except Broken as why:
        print(f"the tests fail without any fault:\n{why}", file=sys.stderr)
        return 1
    print(f"{len(faults) - missed} of {len(faults)} faults caught by an assertion")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
