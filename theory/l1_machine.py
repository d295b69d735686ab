"""A state machine over the real allocator: what nodes do, boundaries, fields that change, L2 cut off."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from softhit.errors import HierarchyError, SegmentTooLarge, Unavailable
from softhit.hierarchy import Segment, digest_of
from softhit.hierarchy.allocator import Ahead, ContextAllocator, Start
from softhit.hierarchy.reports import empty_reports, merge_reports
from softhit.hierarchy.semantic import SemanticCache
from softhit.hierarchy.state import used_tokens
from softhit.hierarchy.texts import Texts
from softhit.hierarchy.view import View, tag
from softhit.io import make_embedder
from theory.claim import Refuted, equal, hold
from theory.stores import DIMENSION, Interrupted, play

__all__ = ["BUDGET", "Boundaries", "run", "tokens_of"]

BUDGET = 100
HIGH, LOW = Fraction(85, 100), Fraction(65, 100)
GAP = (HIGH - LOW) * BUDGET
NODES = ("n0", "n1", "n2")
FIELDS = ("user", "case")
IDS = tuple(f"d{n}" for n in range(5))
CHECKS = ("G1", "G2", "G3", "G5")


def tokens_of(text: str) -> int:
    """Count a text of the machine: its first word says how many tokens it has."""
    return int(text.split()[0])


class _Events:
    """Takes the place of a decision log, and keeps the events of the last boundary."""

    def __init__(self) -> None:
        self.last: list[dict[str, Any]] = []

    def write(self, events: list[dict[str, Any]]) -> None:
        self.last = list(events)


class Boundaries:
    """One run: the state as a graph carries it, with the assertions of the claims around each boundary."""

    def __init__(
        self, make: Callable[..., ContextAllocator], policy: str, pin_accesses: int | None, watch: str
    ) -> None:
        from softhit.hierarchy.vectors import make_vectors

        self.watch = watch
        self.folder = Path(tempfile.mkdtemp(prefix="softhit-"))
        self.vectors = Interrupted(make_vectors(self.folder / "l2", DIMENSION))
        ticks = count(1)
        self.cache = SemanticCache(
            self.vectors,
            make_embedder(f"hashed_tfidf({DIMENSION})"),
            12,
            clock=lambda: next(ticks),
        )
        self.events = _Events()
        self.texts = Texts(self.folder / "texts.sqlite")
        self.allocator = make(
            self.cache,
            self.texts,
            budget=BUDGET,
            high=HIGH,
            low=LOW,
            policy=policy,
            pin_accesses=pin_accesses,
            top_k=2,
            least_score=0.2,
            counter=tokens_of,
            log=self.events,
        )
        self.context, self.reports = self.allocator.empty(), empty_reports()
        self.frozen = json.dumps(self.context)
        self.values = dict.fromkeys(FIELDS, 0)
        self.newest: dict[str, str] = {}
        self.derived: dict[str, str] = {}
        self.opened = self.crossed = self._digests()
        self.batch: int | None = None  # tokens loaded up to the last batch, if it reached the low mark
        self.all_reached, self.task = True, count()
        self.done: list[str] = []

    # what nodes do between two boundaries

    def view(self, node: str) -> View:
        """Return what a run of a node sees; it must be the same whoever did what since the boundary."""
        return self.allocator.view(
            {"context": self.context, "context_reports": self.reports}, node, f"t{next(self.task)}"
        )

    def report(self, update: dict[str, Any]) -> None:
        """Merge what a node returned, in either order; the state of L1 is not touched."""
        new = json.loads(json.dumps(update["context_reports"]))
        for report in new["reports"].values():
            if report["kind"] in ("derive", "want"):
                # nodes that run together see the fields as they were when they started
                rows = [report["segment"]] if report["kind"] == "derive" else report["segments"]
                depend = {*report.get("fields", ()), *(name for s in rows for name in s["fields"])}
                report["seen"] = {name: self.opened[name] for name in sorted(depend)}
        merged = merge_reports(self.reports, new)
        if self.watch == "G5":
            equal(merge_reports(new, self.reports), merged, "reports merged the other way round")
            equal(merge_reports(merged, new), merged, "reports merged once more")
        self.reports = merged

    def write(self, field: str, value: int, started: bool = True) -> None:
        """Change a state field: before the nodes start, who then see it, or by one that has started."""
        self.values[field] = value
        if started:
            self.opened = self._digests()

    # a boundary

    def cross(self, starting: list[Start], ahead: list[Ahead], ending: bool) -> None:
        """Cross a boundary, as a checkpoint would carry the state, and check what holds after it."""
        equal(json.dumps(self.context), self.frozen, "the state of L1 after the nodes ran")
        before = json.loads(self.frozen)
        reports = json.loads(json.dumps(self.reports))
        now, then = self._digests(), self.crossed
        self.opened = self.crossed = now
        # as a graph does: those that something depends on, and those of the hints
        asked = self.allocator.watched(before, reports).union(
            *(s.fields for s in starting), *(a.fields for a in ahead)
        )
        fields = {name: now[name] for name in sorted(asked)}
        try:
            after, left = self.allocator.boundary(before, reports, starting, ahead, fields, ending)
        except HierarchyError as error:
            equal(before, self.context, "the state before a boundary that was refused")
            self._refused(before, reports, error)
            # the run would end; here what the nodes reported is forgotten
            self.reports = empty_reports()
            self.newest.update({id: text for id, text in self.derived.items() if id not in self.newest})
            self.derived.clear()
            self.newest = {id: text for id, text in self.newest.items() if self._holds(id, text, before)}
            # and the run goes on from the state before
            self.crossed = then
            return
        equal(json.dumps(before), self.frozen, "the state that a boundary was given, after it")
        check: Callable[[Any, Any, Any], None] = partial(self._g5, then, now)
        if self.watch != "G5":
            check = {"G1": self._g1, "G2": self._g2, "G3": self._g3}[self.watch]
        self.newest.update(self.derived)
        self.derived.clear()
        check(before, after, reports)
        self.context, self.reports = after, merge_reports(self.reports, left)
        self.frozen = json.dumps(after)
        equal(self.reports["reports"], {}, "reports that a boundary left over")

    def _digests(self) -> dict[str, str]:
        return {name: digest_of(str(value)) for name, value in self.values.items()}

    def _refused(self, before: dict[str, Any], reports: dict[str, Any], error: HierarchyError) -> None:
        """A boundary may only be refused where what must stay has more tokens than the budget."""
        named = {r["id"] for r in reports["reports"].values() if r["kind"] in ("reference", "touch", "pin")}
        stays = {id: s["tokens"] for id, s in before["l1"].items() if s["pinned"] or id in named}
        made = [r["segment"] for r in reports["reports"].values() if r["kind"] == "derive"]
        most = sum(stays.values()) + sum(s["tokens"] for s in made)
        # what starting nodes need and L1 has counts as well
        most += sum(s["tokens"] for id, s in before["l1"].items() if id not in stays)
        hold(most > BUDGET, f"refused ({error}) though all together have {most} tokens")

    def _gone(self, kind: str) -> set[str]:
        return {e["segment"] for e in self.events.last if e["kind"] == kind and "segment" in e}

    def _g1(self, before: dict[str, Any], after: dict[str, Any], reports: dict[str, Any]) -> None:
        used = sum(s["tokens"] for s in after["l1"].values())
        hold(used <= BUDGET, f"L1 holds {used} tokens after a boundary, budget {BUDGET}")
        equal(used_tokens(after), used, "tokens in L1")
        pinned = {id for id, s in before["l1"].items() if s["pinned"]}
        referenced = set()
        # a run of a node that saw another's reports comes after it
        order = sorted(reports["reports"].values(), key=lambda r: (r["step"], r["node"], r["task"], r["seq"]))
        for report in order:
            if report["kind"] == "pin":
                pinned.add(report["id"])
            elif report["kind"] == "unpin":
                pinned.discard(report["id"])
            elif report["kind"] == "reference":
                referenced.add(report["id"])
        loaded = {e["segment"] for e in self.events.last if e["kind"] in ("load", "flush")}
        needed = {e["segment"] for e in self.events.last if e["kind"] == "hit"}
        stale = self._gone("invalidate")
        # a new version of what was only named asks for room like every new text
        referenced -= {r["segment"]["id"] for r in reports["reports"].values() if r["kind"] == "derive"}
        # the one case in which something in use leaves: it has no room beside what is pinned
        forced = {e["segment"] for e in self.events.last if "no room beside" in e.get("why", "")}
        if forced & (needed | referenced):
            held = [s for id, s in (before["l1"] | after["l1"]).items() if id in needed | referenced]
            held += [s for s in after["l1"].values() if s["pinned"]]
            most = sum(s["tokens"] for s in {s["id"]: s for s in held}.values())
            hold(most > BUDGET, f"{forced} left though what is pinned and in use has {most} tokens")
        for id in pinned & before["l1"].keys() - stale:
            hold(id in after["l1"], f"{id}, which is pinned, was evicted")
        for id in referenced & before["l1"].keys() - stale - forced:
            hold(id in after["l1"], f"{id}, named in an output, was evicted")
        for id in (needed - stale - forced) | loaded:
            hold(id in after["l1"], f"{id}, which a starting node needs, is not in L1")
        hold(not self._gone("evict") & loaded, "a boundary evicts what it loads")

    def _g2(self, before: dict[str, Any], after: dict[str, Any], reports: dict[str, Any]) -> None:
        batches = [e for e in self.events.last if e["kind"] == "batch"]
        counted = after["batches"] - before["batches"]
        hold(counted == len([e for e in batches if e["before"] > e["after"]]), "batches are counted wrongly")
        hold(counted <= 1, f"{counted} batches in one boundary")
        if counted:
            reached = sum(s["tokens"] for s in after["l1"].values()) <= LOW * BUDGET
            if reached and self.batch is not None:
                loaded = after["loaded"] - self.batch
                hold(loaded > GAP, f"two batches with {loaded} tokens loaded in between, not over {GAP}")
            self.batch = after["loaded"] if reached else None
            self.all_reached = self.all_reached and reached
        entered = sum(e["tokens"] for e in self.events.last if e["kind"] in ("load", "flush"))
        equal(after["loaded"] - before["loaded"], entered, "tokens that entered")
        if self.all_reached:
            most = after["loaded"] / GAP + 1
            hold(after["batches"] <= most, f"{after['batches']} batches, at most {float(most):.2f}")

    def _holds(self, id: str, text: str, context: dict[str, Any]) -> bool:
        digest = digest_of(text)
        places = [context["l1"].get(id), context["unsaved"].get(id)]
        if any(s is not None and s["digest"] == digest and s["dirty"] for s in places):
            return True
        row = self.vectors.inner.fetch([id]).get(id)
        return row is not None and row.payload["digest"] == digest

    def _g3(self, before: dict[str, Any], after: dict[str, Any], reports: dict[str, Any]) -> None:
        for id, text in self.newest.items():
            hold(self._holds(id, text, after), f"{text!r} of {id} is neither dirty in the state nor in L2")
            hold(self.texts.get(digest_of(text)) == text, f"the text of {id} is not in the store of texts")

    def _g5(
        self,
        then: dict[str, str],
        now: dict[str, str],
        before: dict[str, Any],
        after: dict[str, Any],
        reports: dict[str, Any],
    ) -> None:
        said = {r["field"] for r in reports["reports"].values() if r["kind"] == "invalidate"}
        # for what was there at the boundary before; what nodes report is as old as what they saw
        stale = said | {name for name in now if now[name] != then[name]}

        def depends(rows: Iterable[dict[str, Any]], fields: set[str] = stale) -> set[str]:
            return {s["id"] for s in rows if not fields.isdisjoint(s["fields"])}

        made: set[str] = set()
        fresh: set[str] = set()
        for r in reports["reports"].values():
            if r["kind"] in ("derive", "want"):
                rows = [r["segment"]] if r["kind"] == "derive" else r["segments"]
                old = depends(
                    rows, said | {name for name, digest in r["seen"].items() if now[name] != digest}
                )
                made |= old if r["kind"] == "derive" else set()
                fresh |= {s["id"] for s in rows} - old if r["kind"] == "want" else set()
        # no copy that depended on the field may be left; L2 may have been asked anew, with the new values
        came = {e["segment"]: e for e in self.events.last if e["kind"] in ("load", "flush")}
        for id in depends(after["l1"].values(), set(now)):
            event = came.get(id)
            if event is None:
                left = id in depends(before["l1"].values())
            elif event["kind"] == "flush":
                left = id in depends(before["staged"].values())
            elif event["why"] == "derived":
                left = id in made
            else:
                left = event["why"] == "wanted" and id not in fresh
            hold(not left, f"{id} in L1 depends on a field that changed: {then} then, {now} now, {said} said")
        old = depends(before["staged"].values()) & depends(after["staged"].values()) - self._gone("stage")
        hold(not old, f"{sorted(old)}, staged, depend on {sorted(stale)}, which changed")

    def close(self) -> None:
        """Close and delete everything."""
        self.cache.close()
        self.texts.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(
    watch: str,
    make: Callable[..., ContextAllocator] = ContextAllocator,
    examples: int = 40,
    steps: int = 40,
    policies: tuple[str, ...] = ("priority_lru", "lru", "fifo", "lfu"),
) -> None:
    """Play the machine and watch for one claim: ``"G1"``, ``"G2"``, ``"G3"`` (L1's part of it), ``"G5"``."""
    import hypothesis.strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

    sizes = st.one_of(st.integers(1, 30), st.sampled_from([45, 65, 66, 85, 86, 99, 100, 101]))
    topics = st.integers(0, 3)
    nodes = st.sampled_from(NODES)
    depends = st.lists(st.sampled_from(FIELDS), max_size=2, unique=True)

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.number = count()

        def _note(self, what: str) -> None:
            self.run.done.append(what)

        def _text(self, tokens: int, topic: int) -> str:
            return f"{tokens} topic{topic} item{next(self.number)}"

        @initialize(policy=st.sampled_from(policies), often=st.sampled_from([None, 2]))
        def open(self, policy: str, often: int | None) -> None:
            self.run = Boundaries(make, policy, often, watch)
            self._note(f"{policy}, pin_accesses={often}")
            for topic, tokens in enumerate((20, 30, 12, 40)):
                for part in range(2):
                    text = self._text(tokens + 5 * part, topic)
                    id = f"doc{topic}{part}"
                    segment = Segment(id, digest_of(text), tokens + 5 * part)
                    self.run.cache.put(segment, text, dirty=False)

        @rule(
            node=nodes,
            id=st.sampled_from(IDS),
            tokens=sizes,
            topic=topics,
            fields=depends,
            pin=st.integers(0, 6),
        )
        def derive(self, node: str, id: str, tokens: int, topic: int, fields: list[str], pin: int) -> None:
            self.derive_text(node, id, tokens, topic, fields, pin == 0 and tokens <= 20)

        def derive_text(
            self, node: str, id: str, tokens: int, topic: int, fields: list[str], pinned: bool
        ) -> None:
            # parallel branches with two texts for one id are a matter of their own
            if id in self.run.derived:
                return
            text = self._text(tokens, topic)
            view = self.run.view(node)
            try:
                view.derive(id, text, fields=fields, pinned=pinned)
            except SegmentTooLarge:
                held = {segment.id for segment in view.segments() if segment.pinned}
                hold(tokens > BUDGET and id in held, f"{id}, {tokens} tokens, is refused, pinned: {held}")
                self._note(f"{node} cannot derive {id}, {tokens} tokens")
                return
            self.run.derived[id] = text
            self._note(f"{node} derives {id}, {tokens} tokens, {fields}, pinned={pinned}")
            self.run.report(view.update())

        def _some(self, view: View, which: int) -> str | None:
            ids = [segment.id for segment in view.segments()]
            return ids[which % len(ids)] if ids else None

        @rule(
            node=nodes,
            which=st.integers(0, 20),
            how=st.sampled_from(["use", "name", "pin", "unpin", "unpin"]),
        )
        def touch(self, node: str, which: int, how: str) -> None:
            view = self.run.view(node)
            id = self._some(view, which)
            if id is None:
                return
            self._note(f"{node}: {how} {id}")
            if how == "use":
                hold(tokens_of(view.text(id)) >= 1, "no text")
            elif how == "pin":
                with suppress(SegmentTooLarge):  # derived just now
                    view.pin(id)
            elif how == "unpin":
                view.unpin(id)
            self.run.report(view.update({"answer": f"see {tag(id)}"} if how == "name" else None))
            if how == "name":
                # what it names is what the next batch would like to take
                self.derive_text(node, IDS[which % len(IDS)], 60, which % 4, [], False)

        @rule(node=nodes, topic=topics)
        def search(self, node: str, topic: int) -> None:
            view = self.run.view(node)
            self._note(f"{node} searches topic{topic}")
            with suppress(Unavailable):
                view.search(f"topic{topic}")
            self.run.report(view.update())

        @rule(node=nodes, field=st.sampled_from(FIELDS))
        def invalidate(self, node: str, field: str) -> None:
            view = self.run.view(node)
            view.invalidate(field)
            self._note(f"{node} invalidates {field}")
            self.run.report(view.update())

        @rule(field=st.sampled_from(FIELDS))
        def change(self, field: str) -> None:
            # to and fro: what was seen long ago may be the value again
            self.run.write(field, 1 - self.run.values[field], started=False)
            self._note(f"{field} changes")

        @rule(field=st.sampled_from(FIELDS))
        def outside(self, field: str) -> None:
            """Somebody updates the state while the run waits before a node."""
            if not self.run.reports["reports"]:
                self.run.write(field, 1 - self.run.values[field])
                self._note(f"{field} changes before the nodes run")

        @rule(down=st.booleans())
        def l2(self, down: bool) -> None:
            self.run.vectors.down = down
            self._note("L2 cut off" if down else "L2 reachable")

        starts = st.lists(st.tuples(nodes, topics, depends), max_size=2, unique_by=lambda t: t[0])
        aheads = st.lists(
            st.tuples(nodes, topics, st.sampled_from([Fraction(1), Fraction(1, 3)]), depends),
            max_size=2,
            unique_by=lambda t: t[0],
        )

        # several rules, so that a third of the steps are boundaries
        @rule(start=starts, ahead=aheads)
        def boundary(self, start: list[Any], ahead: list[Any]) -> None:
            self.cross(start, ahead, False)

        @rule(start=starts, ahead=aheads)
        def another(self, start: list[Any], ahead: list[Any]) -> None:
            self.cross(start, ahead, False)

        @rule(node=nodes, topic=topics, fields=depends)
        def one_node(self, node: str, topic: int, fields: list[str]) -> None:
            self.cross([(node, topic, fields)], [], False)

        @rule()
        def end(self) -> None:
            self.cross([], [], True)

        def cross(self, start: list[Any], ahead: list[Any], ending: bool) -> None:
            self._note(f"boundary to {start}, ahead {ahead}{', the end' if ending else ''}")
            try:
                self.run.cross(
                    [Start(node, f"topic{topic}", tuple(fields)) for node, topic, fields in start],
                    [Ahead(node, f"topic{topic}", p, tuple(fields)) for node, topic, p, fields in ahead],
                    ending,
                )
            except Refuted as error:
                raise Refuted(f"{error}; after: {'; '.join(self.run.done)}") from error

        def teardown(self) -> None:
            if hasattr(self, "run"):
                self.run.close()

    play(Machine, examples, steps)
