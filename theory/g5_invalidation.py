"""G5: invalidating a state field removes what depends on it from L1 and staging, under parallel branches too.

Statement
---------
1. What a boundary reports or sees as changed fields F leaves L1, staging and what was about to enter: no copy
   that depended on a field of F is left. Dirty texts are handed to L2 first. (A search of the same boundary,
   asked with the new values, may bring a segment in again: L2 is not invalidated.)
2. Parallel branches report to one channel. Its reducer is commutative, associative and idempotent: a join
   semilattice. So the state after a superstep does not depend on the order in which branches end, on how
   LangGraph groups their updates, or on how often one is delivered; and no branch's invalidation is lost.
   The same holds for the channel of L1's state.

*As written* the post serialises invalidation "through the parent graph's turn counter" and leaves the merge
open. A reducer that keeps the last writer loses every invalidation but one; a list that is appended to
applies some twice.

Proof
-----
In ``proofs/G5.md``: reports are maps of keys to values of a total order; union with the greater value per key
is a join; dropping what is at or below the greatest ``applied`` turn commutes with it.

Examples
--------
>>> from softhit.hierarchy.reports import merge_reports
>>> one = {"applied": -1, "reports": {"2/a//0": {"turn": 2, "kind": "invalidate", "field": "user"}}}
>>> two = {"applied": -1, "reports": {"2/b//0": {"turn": 2, "kind": "invalidate", "field": "case"}}}
>>> merge_reports(one, two) == merge_reports(two, one) == merge_reports(merge_reports(two, one), one)
True

References
----------
The context-cache post, "Invalidation on State Mutation" and "Cache invalidation in parallel subgraphs".
Shapiro et al., "Conflict-free replicated data types", 2011: why a join semilattice suffices.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any, TypedDict

from softhit.hierarchy.allocator import Ahead, ContextAllocator
from softhit.hierarchy.reports import merge_reports
from softhit.hierarchy.segment import Segment, digest_of
from softhit.hierarchy.state import merge_context
from theory.claim import Check, Claim, Mutant, equal, hold
from theory.l1_machine import FIELDS, NODES, Boundaries, run

__all__ = ["CLAIM"]

Merge = Callable[[Any, Any], Any]


def _reports() -> list[dict[str, Any]]:
    """Every value of the channel over three keys, one of which two histories fill differently."""
    rows: dict[str, Any] = {
        "1/a//0": [{"turn": 1, "x": 0}],
        "2/a//0": [{"turn": 2, "x": 0}, {"turn": 2, "x": 1}],
    }
    rows["2/b//0"] = [{"turn": 2, "x": 0}]
    values: list[dict[str, Any]] = []
    for applied, *chosen in product((-1, 1, 2), *([None, *options] for options in rows.values())):
        reports = {key: row for key, row in zip(rows, chosen, strict=True) if row is not None}
        # a value that a run makes has dropped what is applied
        kept = {key: row for key, row in reports.items() if row["turn"] > applied}
        value = {"applied": applied, "reports": kept}
        values += [value] if value not in values else []
    return values


def _contexts() -> list[dict[str, Any]]:
    return [{}, *({"revision": r, "l1": {"a": n}} for r in range(3) for n in range(3))]


def laws(reports: Merge = merge_reports, context: Merge = merge_context) -> None:
    """Both reducers are commutative, associative and idempotent, on every triple of small values."""
    for name, merge, values in (("reports", reports, _reports()), ("context", context, _contexts())):
        for a in values:
            equal(merge(a, a), a, f"{name}: a value merged with itself")
        for a, b in product(values, repeat=2):
            both = merge(a, b)
            equal(merge(b, a), both, f"{name}: {a} and {b} the other way round")
            equal(merge(both, b), both, f"{name}: {b} merged twice")
        for a, b, c in product(values, repeat=3):
            equal(merge(merge(a, b), c), merge(a, merge(b, c)), f"{name}: {a}, {b}, {c} grouped otherwise")


def nothing_lost(reports: Merge = merge_reports) -> None:
    """Invalidations of four branches are all there, in whichever of the 24 orders the branches end."""
    fields = ("user", "case", "date", "limit")
    values = [
        {"applied": -1, "reports": {f"3/n//{f}": {"turn": 3, "kind": "invalidate", "field": f}}}
        for f in fields
    ]
    for order in permutations(values):
        merged: Any = {"applied": 2, "reports": {}}
        for value in order:
            merged = reports(merged, value)
        equal({r["field"] for r in merged["reports"].values()}, set(fields), "fields that are reported")


def machine(make: Callable[..., ContextAllocator] = ContextAllocator, examples: int = 40) -> None:
    """On the real allocator: no copy that depends on what changed or was reported is left, anywhere."""
    run("G5", make, examples)


def to_and_fro(make: Callable[..., ContextAllocator] = ContextAllocator) -> None:
    """A field goes from 0 to 1 and back; what was derived at 1 is stale, though the boundaries saw only 0."""
    for outside in (False, True):
        played = Boundaries(make, "lru", None, "G5")
        field = FIELDS[0]

        def derive(id: str, played: Boundaries = played, field: str = field) -> None:
            view = played.view(NODES[0])
            view.derive(id, f"5 of {id}", fields=[field])
            played.report(view.update())

        try:
            derive("w0")
            played.cross([], [], False)
            if not outside:
                # nothing depends on the field any more, so boundaries do not look at it
                view = played.view(NODES[0])
                view.invalidate(field)
                played.report(view.update())
                played.cross([], [], False)
            played.write(field, 1)
            if not outside:
                played.cross([], [], False)
            derive("w1")
            played.write(field, 0, started=False)
            played.cross([], [], False)
            hold("w1" not in played.context["l1"], f"what was derived at 1 is left, {outside=}")
        finally:
            played.close()


def staged(make: Callable[..., ContextAllocator] = ContextAllocator) -> None:
    """What was staged for a node ahead leaves when a field of that node's hint changes."""
    played = Boundaries(make, "lru", None, "G5")
    text = "5 topic0 of the old value"
    try:
        played.cache.put(Segment("doc", digest_of(text), 5), text, dirty=False)
        ahead = [Ahead(NODES[0], "topic0", Fraction(1), (FIELDS[0],))]
        played.cross([], ahead, False)
        hold("doc" in played.context["staged"], "nothing was staged")
        played.write(FIELDS[0], 1, started=False)
        played.vectors.down = True  # it cannot come back at once
        played.cross([], ahead, False)
        hold("doc" not in played.context["staged"], "what was staged for the old value is left")
    finally:
        played.close()


def long_machine() -> None:
    """The same, longer."""
    run("G5", examples=400, steps=60)


class GraphState(TypedDict, total=False):
    """State of the graph below: two fields that its workers change."""

    user: str
    case: str


def graph(reducer: Merge = merge_reports) -> None:
    """A real graph, SQLite checkpoints: parallel branches invalidate two fields, by a report or a write."""
    from langgraph.channels import BinaryOperatorAggregate
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, StateGraph
    from langgraph.types import Send

    from softhit.hierarchy.graph import attach, context_hint, context_of
    from softhit.hierarchy.semantic import SemanticCache
    from softhit.hierarchy.texts import Texts
    from softhit.hierarchy.vectors import make_vectors
    from softhit.io import make_embedder

    depends = {"by-user": ("user",), "by-case": ("case",), "by-both": ("user", "case"), "by-none": ()}
    for number, order in enumerate((("user", "case"), ("case", "user"))):
        folder = Path(tempfile.mkdtemp(prefix="softhit-"))
        embedder = make_embedder("hashed_tfidf(64)")
        cache = SemanticCache(make_vectors(folder / "l2", 64), embedder, 50)
        log = _Log()
        allocator = ContextAllocator(cache, Texts(folder / "texts.sqlite"), counter=_words, log=log)  # type: ignore[arg-type]
        builder: Any = StateGraph(GraphState)
        seen: list[set[str]] = []

        def load(state: GraphState, allocator: ContextAllocator = allocator) -> dict[str, Any]:
            view = allocator.view(state)
            for id, fields in depends.items():
                view.derive(id, f"text of {id}", fields=fields)
            return {}

        def worker(payload: Mapping[str, Any], allocator: ContextAllocator = allocator) -> dict[str, Any]:
            view = allocator.view(payload)
            if payload["how"] == "report":
                view.invalidate(payload["field"])
                return {}
            return {payload["field"]: "changed"}

        @context_hint("unrelated words", fields=["user"])
        def join(
            state: GraphState, allocator: ContextAllocator = allocator, seen: list[set[str]] = seen
        ) -> dict[str, Any]:
            seen.append({segment.id for segment in allocator.view(state).segments()})
            return {}

        def fan(state: GraphState, order: tuple[str, str] = order, number: int = number) -> Any:
            del state
            how = ("report", "report") if number == 0 else ("report", "write")
            return [Send("worker", {"field": f, "how": h}) for f, h in zip(order, how, strict=True)]

        builder.add_node("load", load)
        builder.add_node("worker", worker)
        builder.add_node("join", join)
        builder.add_edge(START, "load")
        builder.add_conditional_edges("load", fan, ["worker"])
        builder.add_edge("worker", "join")
        attach(builder, allocator)
        if reducer is not merge_reports:
            channel = BinaryOperatorAggregate(dict, reducer)
            channel.key = "context_reports"
            builder.channels["context_reports"] = channel
        try:
            with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
                app: Any = builder.compile(checkpointer=saver)
                config: Any = {"configurable": {"thread_id": "run"}}
                app.invoke({"user": "u", "case": "c"}, config)
                left = set(context_of(app, config)["l1"])
            where = f"{order}, {'both reported' if number == 0 else 'one reported, one written'}"
            equal(seen[-1], {"by-none"}, f"what the node after the branches sees, {where}")
            equal(left, {"by-none"}, f"L1 at the end, {where}")
            gone = {e["segment"] for e in log.events if e["kind"] == "invalidate"}
            equal(gone, {"by-user", "by-case", "by-both"}, f"what was invalidated, {where}")
            hold(set(cache.get(depends)) == set(depends), "a dirty text that was invalidated is not in L2")
        finally:
            cache.close()
            shutil.rmtree(folder, ignore_errors=True)


class _Log:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, events: list[dict[str, Any]]) -> None:
        self.events += events


def _words(text: str) -> int:
    return len(text.split())


def _last_writer(a: Any, b: Any) -> Any:
    return b or a


def _keeps_applied(a: Any, b: Any) -> Any:
    """Drops what the right one has applied, but not what the left one has."""
    return {**b, "reports": {**a["reports"], **b["reports"]}}


class IgnoresReports(ContextAllocator):
    """Invalidations that nodes report are not applied."""

    def boundary(self, context: Any, reports: Any, *rest: Any, **named: Any) -> Any:
        kept = {key: r for key, r in reports["reports"].items() if r["kind"] != "invalidate"}
        return super().boundary(context, {**reports, "reports": kept}, *rest, **named)


class TrustsTheBoundary(ContextAllocator):
    """What a boundary once saw of a field counts, and not what the node saw that derived from it."""

    def boundary(self, context: Any, reports: Any, *rest: Any, **named: Any) -> Any:
        known = context["seen_fields"]
        rows = {}
        for key, r in reports["reports"].items():
            rows[key] = (
                dict(r, seen={n: d for n, d in r["seen"].items() if n not in known}) if "seen" in r else r
            )
        return super().boundary(context, {**reports, "reports": rows}, *rest, **named)


class KeepsStaging(ContextAllocator):
    """Only L1 is invalidated."""

    def boundary(self, context: Any, reports: Any, *rest: Any, **named: Any) -> Any:
        bare = {**context, "staged": {id: {**s, "fields": []} for id, s in context["staged"].items()}}
        after, left = super().boundary(bare, reports, *rest, **named)
        for id, s in after["staged"].items():
            s["fields"] = sorted({*s["fields"], *context["staged"].get(id, {}).get("fields", [])})
        return after, left


CLAIM = Claim(
    id="G5",
    title="invalidation by state field",
    statement=(
        "No copy that depends on a changed field is left in L1, in staging or on its way in; the merge of "
        "parallel branches is commutative, associative and idempotent, and loses no invalidation."
    ),
    variant="any fields, branches and order of branches; LangGraph channels with reducers",
    source="the context-cache post's invalidation, and the merge it leaves open; the reducers are ours",
    status="proved",
    scope=(
        "the laws: proofs/G5.md, and every triple of small values; the classes: Hypothesis state machines, "
        "and a graph with Send branches and SQLite checkpoints"
    ),
    breaks="L2 is not invalidated: a search with the new values may bring a segment back",
    checks=(
        Check("laws", laws),
        Check("nothing_lost", nothing_lost),
        Check("machine", machine, needs=("qdrant_client", "hypothesis")),
        Check("staged", staged, needs=("qdrant_client", "hypothesis")),
        Check("to_and_fro", to_and_fro, needs=("qdrant_client", "hypothesis")),
        Check("graph", graph, needs=("qdrant_client", "langgraph")),
        Check("long_machine", long_machine, slow=True, needs=("qdrant_client", "hypothesis")),
    ),
    mutants=(
        Mutant("last_writer", "nothing_lost", {"reports": _last_writer}, "one invalidation is left"),
        Mutant("last_writer_laws", "laws", {"context": _last_writer}, "not commutative"),
        Mutant("one_sided", "laws", {"reports": _keeps_applied}, "what is applied comes back"),
        Mutant("last_writer_graph", "graph", {"reducer": _last_writer}, "one branch's invalidation is lost"),
        Mutant("ignores_reports", "machine", {"make": IgnoresReports}, "stale segments stay"),
        Mutant(
            "trusts_the_boundary",
            "to_and_fro",
            {"make": TrustsTheBoundary},
            "derived before a field was reset",
        ),
        Mutant("keeps_staging", "staged", {"make": KeepsStaging}, "stale segments wait for their node"),
    ),
    proofs=("G5.md",),
)
