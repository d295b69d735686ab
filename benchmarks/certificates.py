"""How large certificates are and how long it takes to check one, in Python and in C."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.measure import Report
from benchmarks.workloads import zipf
from offline_opt.certificate import Certificate, checker, make_certificate
from offline_opt.flow.ssp import solve_ssp
from offline_opt.result import Prices
from softhit import Trace, from_requests, make_policy, simulate
from softhit.io.canonical import canonical_bytes

__all__ = ["run"]

SOURCE = Path(__file__).resolve().parent.parent / "examples" / "verify_certificate.c"


def _hard(steps: int, capacity: int) -> tuple[Trace, Certificate]:
    trace = from_requests(zipf(steps))
    best = solve_ssp(trace, capacity, "1/2")
    return trace, make_certificate(trace, capacity, "1/2", None, best.schedule, best.prices)


def _soft(steps: int, n_items: int, per_step: int, capacity: int) -> tuple[Trace, Certificate]:
    """Random prices on a fine unit: as many different digits as a file can have."""
    rng = np.random.default_rng(1)
    chances = 1 / np.arange(1, n_items + 1) ** 0.7
    drawn = np.sort(rng.choice(n_items, (steps, per_step), p=chances / chances.sum()), axis=1)
    fresh = np.ones(drawn.shape, bool)
    fresh[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    indptr = np.r_[0, np.cumsum(fresh.sum(axis=1))]
    items = drawn[fresh].astype(np.int32)
    trace = Trace(
        n_items=n_items,
        indptr=indptr,
        items=items,
        quality=rng.integers(1, 10_001, len(items)),
        arrivals=items[indptr[:-1]],
    )
    unit = 10_000 << 20
    prices = Prices(
        slot=(rng.random(steps) * 0.001 * unit).astype(np.int64),
        serve=(rng.random(steps) * 0.8 * unit).astype(np.int64),
        entry=unit,
        unit=Fraction(1, unit),
    )
    schedule = simulate(make_policy("lru"), trace, capacity, 1)
    return trace, make_certificate(trace, capacity, 1, None, schedule, prices)


def _built(folder: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    program = folder / "verify"
    command = [str(compiler), "-std=gnu11", "-O2", "-o", str(program), str(SOURCE), "-lz"]
    if compiler is None or subprocess.run(command, capture_output=True).returncode:
        return None
    return program


def run(report: Report, fast: bool = False) -> None:
    """Measure hard certificates up to T = 10^6, and soft ones with many entries a step or many steps."""
    steps = 100_000 if fast else 1_000_000
    cases = [(f"hard, zipf, T = {steps:,}, K = {k}", _hard(steps, k)) for k in ((10,) if fast else (10, 100))]
    soft = _soft(steps // 10, 5000, 18, 500)
    cases.append((f"soft, {len(soft[0].items):,} entries, T = {steps // 10:,}, K = 500", soft))
    if not fast:
        soft = _soft(steps, 5000, 5, 500)
        cases.append((f"soft, {len(soft[0].items):,} entries, T = {steps:,}, K = 500", soft))
    table = "Certificates: size, and seconds to check from the bytes of both files"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = _built(folder)
        for what, (trace, certificate) in cases:
            data, instance = certificate.to_bytes(), canonical_bytes(trace)
            began = time.perf_counter()
            verdict = checker.check(data, instance)
            seconds = time.perf_counter() - began
            assert verdict.proved, verdict.reason
            sizes = f"{len(data) / 1e6:.2f} MB, trace {len(instance) / 1e6:.1f} MB"
            note = f"{sizes}, gap {float(certificate.gap):g}"
            report.add(table, f"{what}, Python", f"{seconds:.2f} s", note)
            if program is None:
                continue
            (folder / "a.cert").write_bytes(data)
            (folder / "t.sht").write_bytes(instance)
            began = time.perf_counter()
            subprocess.run([str(program), "a.cert", "t.sht"], cwd=folder, check=True, capture_output=True)
            report.add(table, f"{what}, C", f"{time.perf_counter() - began:.2f} s")
