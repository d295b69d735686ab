"""What a step of an attached graph costs beside a plain one, where its time goes, and what seeding takes."""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Report, isolated

if TYPE_CHECKING:
    from softhit.hierarchy import Workspace

__all__ = ["Clock", "run"]

_ENGINES = ("qdrant", "edge")
_STEPS, _DOCUMENT, _QUERY = 40, 60, 8
_WORDS = [f"w{n}" for n in range(3000)]
_KINDS = {
    "ahead": "lookahead 2",
    "now": "no lookahead",
    "used": "lookahead 2, what it sees is used",
}
_TABLE = "A step of a graph: one node in a loop, its hint changing at each step"
_SPLIT = "Where a step's time goes (medians; lookahead 2, what the node sees is used)"
_PARTS = {
    "embed": "embedding the query",
    "search": "the L2 search",
    "check": "comparing what was found with L3",
    "touch": "writes to L2 (access counts)",
    "texts": "texts on disk",
    "branches": "branch counts on disk",
    "log": "the decision log",
    "boundary": "the boundary itself",
    "node": "the node: its view, rendered",
    "rest": "LangGraph: gates, supersteps, checkpoints",
}


def run(report: Report, fast: bool = False) -> None:
    """Measure steps at three sizes of L2 with both engines, each in a process of its own, and seeding."""
    answers = {}
    for engine in _ENGINES:
        for points in (300,) if fast else (300, 3_000, 10_000):
            call = f"_measure({engine!r}, {points}, {3 if fast else 7})"
            code = f"from benchmarks.graph_step import _measure; {call}"
            answers[engine, points] = isolated(code, 900)
    for (engine, points), answer in answers.items():
        label = f"{engine}, {points:,} points"
        if "failed" in answer:
            report.add(_TABLE, label, answer["failed"])
            continue
        plain = answer["plain"]
        report.add(_TABLE, f"{label}: plain LangGraph", f"{statistics.median(plain) * 1e3:.1f} ms")
        for kind, what in _KINDS.items():
            times = answer[kind]
            ratios = [a / b for a, b in zip(times, plain, strict=True)]
            report.add(
                _TABLE,
                f"{label}: {what}",
                f"{statistics.median(times) * 1e3:.1f} ms",
                f"{statistics.median(ratios):.1f}x plain ({min(ratios):.1f}-{max(ratios):.1f})",
            )
    for (engine, points), answer in answers.items():
        if "failed" in answer:
            continue
        whole = sum(answer["split"].values())
        for part, what in _PARTS.items():
            seconds = answer["split"][part]
            report.add(
                _SPLIT, f"{engine}, {points:,}: {what}", f"{seconds * 1e3:.2f} ms", f"{seconds / whole:.0%}"
            )
    for (engine, points), answer in answers.items():
        if "failed" not in answer:
            report.add(
                f"Seeding L2 from L3, documents of {_DOCUMENT} words",
                f"{engine}, {points:,} documents",
                f"{answer['seed'] * 1e3:.2f} ms each",
                f"of which embedding {answer['seed_embed'] * 1e3:.2f}",
            )


class Clock:
    """Seconds spent in wrapped calls by part, without those spent in wrapped calls inside them.

    Examples
    --------
    >>> clock = Clock()
    >>> with clock.part("outer"):
    ...     with clock.part("inner"):
    ...         pass
    >>> sorted(clock.seconds)
    ['inner', 'outer']
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: Counter[str] = Counter()
        self._now = now
        self._inside = threading.local()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside for a part."""
        outer = getattr(self._inside, "seconds", 0.0)
        self._inside.seconds = 0.0
        start = self._now()
        try:
            yield
        finally:
            whole = self._now() - start
            self.seconds[name] += whole - self._inside.seconds
            self._inside.seconds = outer + whole

    def wrap(self, owner: Any, method: str, name: str) -> None:
        """Count the calls of an object's method for a part, from now on."""
        call = getattr(owner, method)

        def timed(*args: Any, **options: Any) -> Any:
            with self.part(name):
                return call(*args, **options)

        setattr(owner, method, timed)


class _Timed:
    """An embedder whose calls are counted (one that is frozen cannot be wrapped in its place)."""

    def __init__(self, inner: Any, clock: Clock) -> None:
        self.name, self.dimension, self.fit = inner.name, inner.dimension, inner.fit
        self.embed = inner.embed
        clock.wrap(self, "embed", "embed")


def _measure(engine: str, points: int, rounds: int) -> None:
    """Print as JSON the seconds of a step in each round, the split, and seconds of seeding a document."""
    import json

    from softhit.hierarchy import Workspace, seed
    from softhit.io import make_embedder

    rng = random.Random(1)
    clock = Clock()
    answer: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Workspace(
            Path(folder) / "place",
            engine=engine,
            least_score=0.02,
            embedder=_Timed(make_embedder("hashed_tfidf"), clock),
        ) as place,
    ):
        for n in range(points):
            place.documents.upsert(f"d{n}", " ".join(rng.choices(_WORDS, k=_DOCUMENT)), {}, expected=0)
        clock.seconds.clear()
        start = time.perf_counter()
        done = seed(place.cache, place.documents)
        answer["seed"] = (time.perf_counter() - start) / points
        answer["seed_embed"] = clock.seconds["embed"] / points
        assert done.loaded == points
        _watch(clock, place)
        rivals: dict[str, list[float]] = {kind: [] for kind in ("plain", *_KINDS)}
        parts: list[dict[str, float]] = []
        for turn in range(rounds + 1):
            for kind, times in rivals.items():
                clock.seconds.clear()
                seconds = _loop(place, clock, kind, f"{kind} {turn}", rng)
                if turn:
                    times.append(seconds)
                    if kind == "used":
                        parts.append({part: clock.seconds[part] / _STEPS for part in _PARTS})
    split = {part: statistics.median(one[part] for one in parts) for part in _PARTS}
    print(json.dumps({**answer, **rivals, "split": split}))


def _watch(clock: Clock, place: Workspace) -> None:
    clock.wrap(place.cache.vectors, "nearest", "search")
    clock.wrap(place.cache, "search", "check")
    clock.wrap(place.cache, "touch", "touch")
    clock.wrap(place.texts, "put_many", "texts")
    for method in ("record", "chance"):
        clock.wrap(place.branches, method, "branches")


def _loop(place: Workspace, clock: Clock, kind: str, name: str, rng: random.Random) -> float:
    """Run a graph of one node for some steps and return the seconds of one."""
    from typing import TypedDict

    from langgraph.graph import END, START, StateGraph

    from softhit.hierarchy import attach, context_hint

    class State(TypedDict, total=False):
        query: str
        number: int

    attached = kind != "plain"
    allocator = place.allocator(name, lookahead=0 if kind == "now" else 2)
    clock.wrap(allocator, "boundary", "boundary")
    clock.wrap(allocator.log, "write", "log")

    @context_hint("{query}")
    def step(state: State) -> State:
        if attached:
            with clock.part("node"):
                view = allocator.view(state)
                view.render()
                if kind == "used":
                    for segment in view.segments():
                        view.touch(segment.id)
        return {"number": state["number"] + 1, "query": " ".join(rng.choices(_WORDS, k=_QUERY))}

    builder = StateGraph(State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda s: "step" if s["number"] < _STEPS else END, ["step", END])
    if attached:
        attach(builder, allocator, branches=place.branches)
    graph: Any = builder.compile(checkpointer=place.checkpointer())
    config = {"configurable": {"thread_id": name}, "recursion_limit": 4 * _STEPS}
    query = " ".join(rng.choices(_WORDS, k=_QUERY))
    start = time.perf_counter()
    with clock.part("rest"):
        graph.invoke({"query": query, "number": 0}, config)
    return (time.perf_counter() - start) / _STEPS
