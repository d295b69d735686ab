"""Requests are written and converted in memory that does not grow with the steps."""

import subprocess
import sys
from pathlib import Path

import pytest

from softhit.io import read_trace

MEASURE = """
import resource, sys
from pathlib import Path
import numpy as np
from softhit.io import RequestWriter, convert_requests
folder, n = Path(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
with RequestWriter(folder / "a.bin") as out:
    for _ in range(0, n, 100_000):
        out.write(rng.integers(0, 1000, 100_000))
for source, target in (("a.bin", "a.csv"), ("a.csv", "a.parquet"), ("a.parquet", "a.ids"), ("a.ids", "b.bin"),
                       ("b.bin", "b.jsonl")):
    convert_requests(folder / source, folder / target)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak(folder: Path, n_steps: int) -> int:
    """MiB at most in use while requests are written and converted through every format."""
    folder.mkdir()
    words = [sys.executable, "-c", MEASURE, str(folder), str(n_steps)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
def test_ten_times_the_steps_take_no_more_memory(tmp_path):
    short, long = peak(tmp_path / "short", 1_000_000), peak(tmp_path / "long", 10_000_000)
    # a trace of 10^7 steps takes 240 MB alone
    assert long < short + 60, (short, long)


def test_the_memory_is_measured_on_something(tmp_path):
    assert 50 < peak(tmp_path / "x", 100_000) < 2000
    assert read_trace(tmp_path / "x" / "b.bin").n_steps == 100_000
