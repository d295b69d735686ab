"""What a node boundary costs at 40,000 tokens in 200 segments, without the time of L2."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Report
from softhit.hierarchy.allocator import Ahead, ContextAllocator, Start
from softhit.hierarchy.log import DecisionLog
from softhit.hierarchy.reports import merge_reports
from softhit.hierarchy.segment import Segment, digest_of
from softhit.hierarchy.texts import Texts

__all__ = ["run"]

_BUDGET, _TOKENS = 40_000, 200
# as full as the benchmark says: what is loaded makes up for what a batch of ten segments evicts
_HIGH, _LOW = "1", "0.95"
_LIBRARY = 1_000


@dataclass(frozen=True)
class _Hit:
    segment: Segment
    text: str
    score: float = 0.9


class _Instant:
    """L2 without work: hint ``n`` is answered by segments n, n + 1, ..."""

    def __init__(self) -> None:
        texts = [f"document {i} " + "word " * (_TOKENS - 2) for i in range(_LIBRARY)]
        self.rows = [_Hit(Segment(f"d{i}", digest_of(t), _TOKENS), t) for i, t in enumerate(texts)]

    def search(
        self, query: str, limit: int = 5, least: float = 0.0, exclude: Collection[str] = ()
    ) -> list[_Hit]:
        return [self.rows[(int(query) + i) % _LIBRARY] for i in range(limit)]

    def put(self, segment: Segment, text: str, dirty: bool = True) -> Segment:
        return segment

    def touch(self, ids: Iterable[str], times: int = 1) -> None:
        pass

    def get(self, ids: Collection[str]) -> dict[str, _Hit]:
        return {}


def run(report: Report, fast: bool = False) -> None:
    """A run in which each boundary loads 5 segments, stages 5, and takes 6 reports; texts and log on disk."""
    table = f"A node boundary at {_BUDGET:,} tokens in 200 segments; L2 answers at once"
    for policy in ("priority_lru", "lru", "fifo", "lfu", "solar"):
        seconds, cpu, batch, state = _boundaries(policy, 30 if fast else 300)
        report.add(
            table,
            policy,
            f"{statistics.median(seconds) * 1e3:.2f} ms",
            f"of which CPU {statistics.median(cpu) * 1e3:.2f} ms, 99%: "
            f"{np.quantile(seconds, 0.99) * 1e3:.2f} ms, with a batch: "
            f"{statistics.median(batch) * 1e3:.2f} ms (median of {len(batch)}), state {state / 1e3:.0f} kB",
        )


def _boundaries(policy: str, count: int) -> tuple[list[float], list[float], list[float], int]:
    """Return seconds of boundaries, their CPU time, those with a batch, and the state's bytes as JSON."""
    rng = np.random.default_rng(0)
    seconds, cpu, batch = [], [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        DecisionLog(Path(folder) / "run.jsonl", "benchmark") as log,
        Texts(Path(folder) / "texts.sqlite") as texts,
    ):
        allocator = ContextAllocator(
            _Instant(),
            texts,
            budget=_BUDGET,
            high=_HIGH,
            low=_LOW,
            policy=policy,
            counter=lambda text: _TOKENS,
            log=log,
        )
        context: dict[str, Any] = allocator.empty()
        reports: dict[str, Any] = {}
        warm = 3 * _BUDGET // (5 * _TOKENS)
        for n in range(warm + count):
            view = allocator.view({"context": context}, "node") if context["turn"] else None
            if view is not None:
                for id in rng.choice(sorted(context["l1"]), min(5, len(context["l1"])), replace=False):
                    view.touch(str(id))
                view.derive(f"note {n % 20}", f"finding {n}")
                reports = merge_reports(reports, view.update()["context_reports"])
            before = context["batches"]
            start, work = time.perf_counter(), time.process_time()
            context, reports = allocator.boundary(
                context, reports, [Start("node", str(5 * n))], [Ahead("next", str(5 * n + 5), 1)]
            )
            if n >= warm:
                seconds.append(time.perf_counter() - start)
                cpu.append(time.process_time() - work)
                if context["batches"] > before:
                    batch.append(seconds[-1])
        assert 185 <= len(context["l1"]) <= 200
    return seconds, cpu, batch, len(json.dumps(context))
