"""Simulation speed of the classic policies against libcachesim's own compiled trace loop."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import Report, paired, rate, ratio
from benchmarks.workloads import zipf
from softhit import from_requests, simulate
from softhit.io import read_trace

__all__ = ["run"]

_RIVALS = {"fifo": "FIFO", "lru": "LRU", "lfu": "LFU", "arc": "ARC"}
_RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def run(report: Report, n_steps: int = 1_000_000) -> None:
    """Compare on Zipf requests (N = 10,000, exponent 0.9): dense ids, then reading and mapping included."""
    table = f"Simulation, T = {n_steps:,} Zipf requests over 10,000 items, against libcachesim process_trace"
    try:
        import libcachesim as lcs
    except ImportError:
        report.add(table, "libcachesim", "not installed", "pip install 'softhit[peers]'")
        return
    requests = zipf(n_steps)
    trace = from_requests(requests, n_items=10_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "zipf.oracleGeneral.bin"
        records = np.zeros(n_steps, _RECORD)
        records["time"], records["id"], records["size"], records["next"] = (
            np.arange(n_steps),
            requests + 1,
            1,
            -1,
        )
        records.tofile(path)
        reader = lcs.TraceReader(
            trace=str(path),
            trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE,
            reader_init_params=lcs.ReaderInitParam(ignore_obj_size=True),
        )

        for capacity in (100, 1000):
            for name, theirs in _RIVALS.items():
                make = getattr(lcs, theirs)

                def peer(make: type = make, capacity: int = capacity) -> object:
                    reader.reset()
                    return make(capacity).process_trace(reader)

                def ours(name: str = name, capacity: int = capacity) -> object:
                    return simulate(name, trace, capacity, 1)

                def mapped(name: str = name, capacity: int = capacity) -> object:
                    return simulate(name, read_trace(path), capacity, 1)

                times = paired({"ours": ours, "theirs": peer, "mapped": mapped}, rounds=5)
                report.add(
                    table,
                    f"{name}, K = {capacity}",
                    ratio(times, "ours", "theirs"),
                    f"ours {rate(times['ours'], n_steps)}, theirs {rate(times['theirs'], n_steps)}; "
                    f"with reading and id mapping {ratio(times, 'mapped', 'theirs')}",
                )
