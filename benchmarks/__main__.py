"""Run the benchmarks and print one table each: ``python -m benchmarks [--only NAME] [--fast] [-o FILE]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import bandit, certificates, hierarchy, optimum, replay, simulation, soft_opt, solar_speed
from benchmarks.measure import Report


def main() -> int:
    """Parse the command line, run, print, and write the JSON if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        choices=["simulation", "solar", "optimum", "certificates", "soft", "bandit", "replay", "hierarchy"],
        help="run one part",
    )
    parser.add_argument("--fast", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    chosen = parser.parse_args()
    report = Report()
    if chosen.only in (None, "simulation"):
        simulation.run(report, 100_000 if chosen.fast else 1_000_000)
    if chosen.only in (None, "solar"):
        solar_speed.run(report, 50_000 if chosen.fast else 500_000)
    if chosen.only in (None, "optimum"):
        optimum.run(report, limit=30 if chosen.fast else 120, fast=chosen.fast)
    if chosen.only in (None, "certificates"):
        certificates.run(report, fast=chosen.fast)
    if chosen.only in (None, "soft"):
        soft_opt.run(report, limit=20 if chosen.fast else 120, fast=chosen.fast)
    if chosen.only in (None, "bandit"):
        bandit.run(report, 20_000 if chosen.fast else 200_000)
    if chosen.only in (None, "replay"):
        replay.run(report, 20_000 if chosen.fast else 200_000)
    if chosen.only in (None, "hierarchy"):
        hierarchy.run(report, fast=chosen.fast)
    if chosen.output:
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        partial = chosen.output.with_suffix(".part")
        partial.write_text(report.as_json(" ".join(["python -m benchmarks", *sys.argv[1:]])))
        partial.replace(chosen.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
