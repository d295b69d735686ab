"""Kill a whole hierarchy at its numbered writes, and look what is lost: ``python -m tests.crash``."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.crash.plan import WHOLE, points
from tests.crash.runner import Harness, Point, Verdict
from tests.crash.scenario import scenarios

PLACE = ("-o", "--output")
VERSIONS = ("langgraph", "langgraph-checkpoint-sqlite", "qdrant-client", "qdrant-edge-py")


def table(counts: dict[str, Any], verdicts: dict[str, list[Verdict]]) -> list[dict[str, Any]]:
    """One row a scenario."""
    rows = []
    for name, seen in verdicts.items():
        killed = [v for v in seen if v.outcome == "killed"]
        modes = Counter(v.point.mode for v in killed)
        rows.append(
            {
                "scenario": name.replace(", ", " / "),
                "calls": counts[name]["calls"],
                "points": len(killed),
                "before": modes["before"],
                "torn": modes["torn"],
                "at_sync": sum(v.call.split(" ")[1].endswith("sync") for v in killed),
                "killed_twice": sum(bool(v.again) and v.again != "done" for v in killed),
                "accepted": sum(v.accepted for v in killed),
                "wrong": sum(bool(v.wrong) for v in seen),
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; exit code 1 if a point is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every call of some scenarios, many of the others")
    parser.add_argument("-n", "--number", type=int, default=12, help="about so many points of a scenario")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    parser.add_argument("--at", type=int, help="one point: the number of the call")
    parser.add_argument("--mode", default="before", choices=["before", "after", "torn"])
    parser.add_argument("--again", type=int, help="one point: kill the life that resumes too")
    parser.add_argument("-o", "--output", type=Path, help="write the table to this file (csv)")
    parser.add_argument("-l", "--list", action="store_true", help="list the scenarios and run nothing")
    options = parser.parse_args(arguments)
    names = [n for n in scenarios() if options.only in n and not n.startswith(("toy ", "FAULT "))]
    if options.only in scenarios():
        names = [options.only]
    # in an order in which a part is like the whole
    names.sort(key=lambda name: crc32(name.encode()))
    if not names:
        parser.error(f"no scenario contains {options.only!r}")
    if options.list:
        print("\n".join(names))
        return 0
    number = 52 if options.all else options.number
    started = time.monotonic()
    wrong: list[Verdict] = []
    broken: list[str] = []
    counts: dict[str, Any] = {}
    verdicts: dict[str, list[Verdict]] = {}
    with Harness(jobs=options.jobs) as harness:
        for name in names:
            try:
                counts[name] = harness.count(name)
            except RuntimeError as error:
                broken.append(name)
                print(f"{name}: {error}", flush=True)
                continue
            if options.at is not None:
                plan = [Point(name, options.mode, options.at, options.again)]
            else:
                plan = list(points(counts[name], name, number, WHOLE if options.all else ()))
            seen = verdicts[name] = list(harness.run(plan))
            bad = [v for v in seen if v.wrong]
            wrong += bad
            print(f"{name}: {counts[name]['calls']} calls, {len(seen)} points, {len(bad)} wrong", flush=True)
            for verdict in bad[:3]:
                print(f"  {verdict.call}; {verdict.point.command}")
                print("".join(f"    {line}\n" for text in verdict.wrong for line in text.splitlines()))
            if options.output is not None:
                # after each scenario: an interrupted run leaves what it has seen
                given = sys.argv[1:] if arguments is None else arguments
                write(options.output, table(counts, verdicts), given)
    rows = table(counts, verdicts)
    total = sum(row["points"] for row in rows)
    print(
        f"{total} points of {len(rows)} scenarios, {len(wrong)} wrong, {len(broken)} wrong without a kill, "
        f"seed 0 (nothing is drawn), {time.monotonic() - started:.0f} s, {libraries()}"
    )
    return 1 if wrong or broken else 0


def libraries() -> str:
    """What was tested, with versions."""
    return ", ".join([*(f"{name} {version(name)}" for name in VERSIONS), f"Python {sys.version.split()[0]}"])


def write(path: Path, rows: list[dict[str, Any]], arguments: list[str]) -> None:
    """Store the table; where it goes is no part of the command that it names."""
    from theory import artefact

    # of two words, the second is only the place
    kept = [word for word, before in zip(arguments, ["", *arguments], strict=False) if before not in PLACE]
    command = shlex.join(["python", "-m", "tests.crash", *(word for word in kept if word not in PLACE)])
    total = {key: sum(row[key] for row in rows) for key in ("points", "wrong")}
    artefact.write(path, rows, command, 0, libraries=libraries(), **total)


if __name__ == "__main__":
    raise SystemExit(main())
