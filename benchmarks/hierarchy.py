"""The memory hierarchy: the time of a boundary, what L2 does per second, and the memory and disk it takes."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import graph_step, l1
from benchmarks.measure import Report, isolated
from softhit.errors import MissingExtra
from softhit.hierarchy.segment import Segment, digest_of
from softhit.hierarchy.semantic import SemanticCache
from softhit.hierarchy.vectors import make_vectors
from softhit.io import make_embedder

__all__ = ["run"]

_ENGINES = {"qdrant": "qdrant-client, local folder", "edge": "qdrant-edge, in process"}
# About 400 tokens of English.
_WORDS = 300


def run(report: Report, fast: bool = False) -> None:
    """Measure a boundary, steps of a graph, L2 at two sizes with both engines, and what embedding adds."""
    l1.run(report, fast)
    graph_step.run(report, fast)
    for rows in (200, 1000) if fast else (1000, 10_000):
        l2(report, rows, 50 if fast else 200)
    embedding(report, 50 if fast else 500)


def l2(report: Report, rows: int, repeats: int) -> None:
    """Medians of single calls on a cache that holds ``rows`` rows; each engine in a process of its own."""
    table = f"L2 with {rows:,} rows of {_WORDS} words, 256 dimensions, without embedding"
    names = {
        "put_new": "write, a new row",
        "put_again": "write, a new version",
        "put_full": "write, a new row where one must leave",
        "search": "search, the 5 nearest",
        "mark_clean": "mark clean (after L3 has it)",
        "touch": "count an access",
    }
    for engine, label in _ENGINES.items():
        code = f"from benchmarks.hierarchy import _measure; _measure({engine!r}, {rows}, {repeats})"
        answer = isolated(code, 600)
        if "failed" in answer:
            report.add(table, label, answer["failed"])
            continue
        for key, what in names.items():
            middle, worst = answer[key]
            report.add(
                table,
                f"{label}: {what}",
                f"{1 / middle:,.0f}/s",
                f"{middle * 1e3:.2f} ms, 99%: {worst * 1e3:.2f}",
            )
        report.add(table, f"{label}: open", f"{answer['open'] * 1e3:,.0f} ms")
        grown = answer["memory"]
        report.add(table, f"{label}: resident memory for the rows", f"{grown:,.0f} MB", "above an empty one")
        report.add(table, f"{label}: disk", f"{answer['disk']:,.0f} MB")


def embedding(report: Report, texts: int) -> None:
    """One text at a time, as a write or a query does it."""
    table = f"Embedding one text of {_WORDS} words"
    for name in ("hashed_tfidf", "wordllama"):
        try:
            embedder = make_embedder(name)
        except MissingExtra as error:
            report.add(table, name, "left out", str(error))
            continue
        seconds = _times(lambda n, e=embedder: e.embed([_text(n)]), range(texts))[0]
        report.add(table, embedder.name, f"{seconds * 1e3:.2f} ms")


class _Random:
    """Vectors without work: a text's digest seeds them."""

    name = "random(256)"
    dimension = 256

    def fit(self, texts: Sequence[str]) -> _Random:
        return self

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        seeds = [int(digest_of(text)[:8], 16) for text in texts]
        rows = np.array([np.random.default_rng(seed).standard_normal(256) for seed in seeds])
        unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float32)
        return unit


def _text(n: int, version: int = 1) -> str:
    return f"{n} {version} " + "context " * (_WORDS - 2)


def _segment(n: int, version: int = 1) -> tuple[Segment, str]:
    text = _text(n, version)
    return Segment(f"s{n}", digest_of(text), 400, version=version), text


def _times(call: Callable[[int], Any], numbers: range) -> tuple[float, float]:
    """Return the median and the 99th percentile of single calls, in seconds."""
    seconds = []
    for n in numbers:
        start = time.perf_counter()
        call(n)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), sorted(seconds)[int(0.99 * (len(seconds) - 1))]


def _resident() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def _measure(engine: str, rows: int, repeats: int) -> None:
    """Print the figures of one engine as JSON; runs in a process of its own."""
    import json

    answer: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:

        def opened() -> SemanticCache:
            return SemanticCache(make_vectors(folder, 256, engine=engine), _Random(), rows)

        cache = opened()
        empty = _resident()

        def put(n: int) -> None:
            cache.put(*_segment(n), dirty=False)

        for n in range(rows - repeats):
            put(n)
        answer["put_new"] = _times(put, range(rows - repeats, rows))
        answer["memory"] = _resident() - empty
        answer["search"] = _times(lambda n: cache.search(_text(n)), range(repeats))
        answer["touch"] = _times(lambda n: cache.touch([f"s{n}"]), range(repeats))
        answer["put_again"] = _times(lambda n: cache.put(*_segment(n, 2)), range(repeats))
        answer["mark_clean"] = _times(lambda n: cache.mark_clean(f"s{n}", 2), range(repeats))
        answer["put_full"] = _times(put, range(rows, rows + repeats))
        assert cache.count() == rows
        assert cache.count(dirty=True) == 0
        cache.close()
        answer["disk"] = sum(p.stat().st_blocks * 512 for p in Path(folder).rglob("*") if p.is_file()) / 1e6
        start = time.perf_counter()
        cache = opened()
        answer["open"] = time.perf_counter() - start
        cache.close()
    print(json.dumps(answer))
