"""Compare five caches that exist on a request log of your own, each with the best that was possible.

    python examples/compare_caches.py                          # a log made up here
    python examples/compare_caches.py my.csv 100 1/2           # your log, capacity, switching cost

Any format that softhit reads will do: one id per line (.txt), csv, oracleGeneral, Parquet, JSON lines. Each
cache runs in a process of its own; what it holds is read from it after every request, and softhit verifies
and prices that.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import offline_opt
from adversaries.replay.adapter import Unsupported
from adversaries.replay.isolate import AdapterPolicy
from adversaries.replay.record import replay
from softhit.errors import ReplayError
from softhit.io import read_trace

CACHES = ("cachetools_lru", "cachetools_lfu", "libcachesim_sieve", "libcachesim_s3fifo", "langchain")


def made_up_log(folder):
    """A log as an application might write it, one prompt a line: what is popular changes slowly."""
    rng = np.random.default_rng(0)
    weight = 1 / np.arange(1, 301) ** 0.9
    asked = rng.choice(300, 4000, p=weight / weight.sum()) + np.arange(4000) // 20
    file = Path(folder) / "log.txt"
    file.write_text("".join(f"how do I reset password {i}\n" for i in asked))
    return file


def compare(file, capacity, switch_cost):
    """Print one line per cache: hits, cost, cost over OPT."""
    trace = read_trace(file)
    best = offline_opt.solve(trace, capacity, switch_cost)
    low = best.lower_bound
    print(
        f"{trace.n_steps} requests, {trace.n_items} items, capacity {capacity}, switching cost {switch_cost}"
    )
    sign = "" if best.kind.startswith("exact") else ">= "
    print(f"{'OPT':>20}  cost {sign + format(float(low), '.1f'):>12}  ({best.kind})")
    for name in CACHES:
        try:
            done = replay(AdapterPolicy(name), trace, capacity, switch_cost)
        except (Unsupported, ReplayError) as why:
            # not installed, or it broke: said, not hidden
            print(f"{name:>20}  {why}")
            continue
        ratio = float(done.cost.fraction / low)
        share = 100 * done.hits / trace.n_queries
        print(f"{name:>20}  cost {float(done.cost):12.1f}  ratio {ratio:.3f}  hits {share:.1f} %")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file = sys.argv[1] if len(sys.argv) > 1 else made_up_log(folder)
        capacity = int(sys.argv[2]) if len(sys.argv) > 2 else 50
        compare(file, capacity, sys.argv[3] if len(sys.argv) > 3 else "1/2")
