"""What a node sees of the context window, and what it reports to the next boundary."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from softhit.check import check_choice, check_int, fail, unknown
from softhit.errors import SegmentTooLarge, Unavailable, UnknownName
from softhit.hierarchy.levels import L2, Found, TextStore
from softhit.hierarchy.nodes import running
from softhit.hierarchy.reports import merge_reports, pending, reports_value, standing
from softhit.hierarchy.segment import SOURCES, Segment, Source, check_id, digest_of
from softhit.hierarchy.work import Rules

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["View", "references", "tag"]

_TAG = re.compile(r"\[ctx:([^\]\s]+)\]")
# what an id may hold in a tag as it is; everything else is percent-encoded
_PLAIN = "/:@#+=,;!$&'()*~"


def tag(id: str) -> str:
    """Return the reference tag of a segment: what an output names it by.

    >>> tag("notes/alice"), tag("two words]")
    ('[ctx:notes/alice]', '[ctx:two%20words%5D]')
    """
    return f"[ctx:{quote(id, safe=_PLAIN, errors='surrogatepass')}]"


def references(value: Any) -> list[str]:
    """Return the ids in reference tags in any string inside a value, each once, in order.

    Mappings, lists, tuples, sets and the content of messages are looked into.

    >>> references({"answer": ["see [ctx:a] and [ctx:b%20c]", ("[ctx:a]",)]})
    ['a', 'b c']
    """
    found: dict[str, None] = {}
    for text in _strings(value):
        for match in _TAG.finditer(text):
            found[unquote(match[1], errors="surrogatepass")] = None
    return list(found)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inside in value.values():
            yield from _strings(inside)
    elif isinstance(value, list | tuple | set | frozenset):
        for inside in value:
            yield from _strings(inside)
    elif hasattr(value, "content"):
        yield from _strings(value.content)


class View:
    """The context window as one run of a node sees it; made by :meth:`ContextAllocator.view`.

    What is in it does not change while the node runs, but for what the node itself derives. What the node
    does is reported by :meth:`update` and takes effect at the next boundary.
    """

    def __init__(
        self,
        rules: Rules,
        cache: L2,
        texts: TextStore,
        context: Mapping[str, Any],
        reports: Mapping[str, Any] | None = None,
        node: str = "",
        task: str = "",
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.node = node
        self.task = task
        self.turn = int(context["turn"])
        self._rules, self._cache, self._texts = rules, cache, texts
        self._hidden = {**context.get("staged", {}), **context.get("unsaved", {})}
        self._conversation = tuple(context.get("messages", ()))
        self._seen: dict[str, Segment] = {}
        for data in sorted(context["l1"].values(), key=lambda s: (s["loaded_turn"], s["id"])):
            self._seen[data["id"]] = Segment.from_json(data)
        # what nodes of the same subgraph derived since the boundary; of parallel ones the first has the id
        earlier = pending(merge_reports(reports, {"applied": self.turn - 1, "reports": {}}))
        self._step = max((r.get("step", 0) + 1 for r in earlier), default=0)
        self._fresh: dict[str, dict[str, Any]] = {}
        for report in reversed(standing(earlier)):
            made = Segment.from_json(report["segment"])
            self._seen[made.id] = made
            mine = (report["node"], report["task"]) == (node, task)
            self._fresh[made.id] = {} if mine else {"over": [report["node"], report["task"]]}
        self._numbers = count() if numbers is None else numbers
        self._reports: list[dict[str, Any]] = []
        self._used: set[str] = set()

    # --- reading -------------------------------------------------------------------------------------------

    def __contains__(self, id: object) -> bool:
        return id in self._seen

    def segments(self) -> list[Segment]:
        """Return what is in the context window, in the order in which it came."""
        return list(self._seen.values())

    def peek(self, id: str) -> str:
        """Return the text of a segment without counting it as used."""
        return self._texts.get(self._segment(id).digest)

    def text(self, id: str) -> str:
        """Return the text of a segment and count it as used, once for a run of a node.

        Raises
        ------
        UnknownName
            It is not in the context window; :meth:`search` or :meth:`load` look in L2.
        """
        self.touch(id)
        return self.peek(id)

    def render(self, ids: Iterable[str] | None = None) -> str:
        """Return texts for a prompt, each after its reference tag.

        Segments that are asked for by id count as used; when all are rendered none does, or every access
        count would be the same: then what the output refers to by its tag counts.
        """
        if ids is None:
            return "\n\n".join(f"{tag(id)}\n{self.peek(id)}" for id in self._seen)
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            fail("ids", ids, "ids of segments, such as ['notes/limits']")
        return "\n\n".join(f"{tag(self._segment(id).id)}\n{self.text(id)}" for id in ids)

    def search(
        self, query: str, limit: int | None = None, least: float | None = None, fields: Iterable[str] = ()
    ) -> list[Found]:
        """Search L2 at once; what is found comes into L1 at the next boundary, if there is room.

        Parameters
        ----------
        query : str
        limit : int, optional
            Default: the allocator's ``top_k``.
        least : float, optional
            The least cosine; default: the allocator's ``least_score``.
        fields : iterable of str
            State fields that the query was made from.

        Raises
        ------
        Unavailable
            L2 cannot be reached.
        UnknownName
            As by :meth:`derive`.
        """
        _check_text("query", query)
        fields = _names(fields)
        number = self._rules.top_k if limit is None else check_int("limit", limit, low=0)
        if number == 0:
            return []
        found = list(self._cache.search(query, number, self._rules.least_score if least is None else least))
        self._want(query, found, fields)
        return found

    def load(self, id: str, fields: Iterable[str] = ()) -> Found:
        """Fetch one segment from L2 by its id; it comes into L1 at the next boundary, if there is room.

        Raises
        ------
        UnknownName
            L2 does not have it, or as by :meth:`derive`.
        SegmentTooLarge
            It alone has more tokens than the budget; it stays in L2.
        """
        _check_text("id", id)
        fields = _names(fields)
        found = self._cache.get([id])
        if id not in found:
            raise UnknownName(f"unknown segment {id!r}: L2 does not have it")
        tokens = self._rules.counter.count(found[id].text)
        if tokens > self._rules.budget:
            raise SegmentTooLarge(id, tokens, self._rules.budget)
        self._want("", [found[id]], fields)
        return found[id]

    # --- writing -------------------------------------------------------------------------------------------

    def derive(
        self,
        id: str,
        text: str,
        *,
        fields: Iterable[str] = (),
        source: Source = "agent_derived",
        query: str = "",
        url: str = "",
        pinned: bool = False,
        group: str | None = None,
    ) -> Segment:
        """Put a text of the node's own into the context window: new, or a new version of what is there.

        This node sees it at once, others after the boundary. It is dirty: L2 takes it when it leaves L1 or
        when the run ends, and L3 after that.

        Parameters
        ----------
        id : str
        text : str
        fields : iterable of str
            State fields it depends on; it leaves L1 (for L2) when one of them changes. Without an attached
            graph any names, which :meth:`invalidate` makes stale.
        source : {"document", "tool_output", "agent_derived"}
        query, url : str
            What it answers, and where it can be found.
        pinned : bool
            Never to be evicted.
        group : str, optional
            Segments of one group leave together.

        Raises
        ------
        SegmentTooLarge
            It is pinned, by this or an earlier version, and alone has more tokens than the budget.
        UnknownName
            The graph's state has no such field, so that it would never change.
        """
        check_id("id", id)
        _check_text("text", text)
        _check_text("query", query, empty=True)
        _check_text("url", url, empty=True)
        if group is not None:
            _check_text("group", group)
        names = _names(fields)
        kind = cast(Source, check_choice("source", source, SOURCES))
        known = self._known(id)
        here = self._seen.get(id)
        if (
            here is not None
            and known is not None
            and known.digest == here.digest == digest_of(text)
            and known.dirty
            and here.pinned >= bool(pinned)
            and set(names) <= set(here.fields)
        ):
            self.touch(id)
            return here
        if here is not None and id in self._fresh:
            # a new version of what is pinned is, too, and the same text depends on what it did; where L1 has
            # the one before, the boundary sees to it
            pinned = pinned or here.pinned
            names = _names({*names, *here.fields}) if here.digest == digest_of(text) else names
        # L2 had this very text; the boundary sees whether it still has
        same = known is not None and known.digest == digest_of(text)
        tokens = self._rules.counter.count(text)
        if (pinned or (known is not None and known.pinned)) and tokens > self._rules.budget:
            raise SegmentTooLarge(id, tokens, self._rules.budget)
        made = Segment(
            id=id,
            digest=self._texts.put(text),
            tokens=tokens,
            source=kind,
            query=query,
            url=url,
            version=1 if known is None else known.version + int(not same),
            dirty=not same,
            loaded_turn=self.turn,
            fields=names,
            pinned=bool(pinned),
            group=group,
        )
        self._derived(made)
        return made

    def touch(self, id: str) -> None:
        """Count a segment as used by this run of the node."""
        self._segment(id)
        if id not in self._used:
            self._used.add(id)
            self._report("touch", id=id)

    def pin(self, id: str) -> None:
        """Keep a segment in L1 until it is unpinned.

        Raises
        ------
        SegmentTooLarge
            It was derived just now and alone has more tokens than the budget.
        """
        tokens = self._segment(id).tokens
        if tokens > self._rules.budget:
            raise SegmentTooLarge(id, tokens, self._rules.budget)
        self._set_pin(id, True)

    def unpin(self, id: str) -> None:
        """Let a segment leave L1 again."""
        self._set_pin(id, False)

    def invalidate(self, field: str) -> None:
        """Say that everything that depends on a state field is stale, whether it changes or not."""
        _check_text("field", field)
        self._report("invalidate", field=field)

    def refer(self, output: Any) -> list[str]:
        """Report the segments that an output names by their tags, and return their ids; they stay in L1."""
        ids = [id for id in references(output) if id in self._seen]
        for id in ids:
            self._report("reference", id=id)
        return ids

    def messages(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what of a conversation is in the context window, and account for what is new in it.

        See :mod:`softhit.hierarchy.messages`.
        """
        from softhit.hierarchy.messages import message_segments, selected

        made = message_segments(messages, self._rules.counter, self._texts.put, self._rules.budget)
        self._report("messages", segments=[s.to_json() for s in made])
        return selected(messages, made, self._seen, self._conversation)

    def update(self, output: Any = None) -> dict[str, Any]:
        """Return the reports as an update of the graph's state, to be part of what the node returns.

        With ``output``, a mapping that the node wants to return, the segments it names by tags are reported
        too, and the update is part of the result.

        Examples
        --------
        Inside a node: ``return view.update({"answer": answer})``, or ``{"answer": answer, **view.update()}``.
        """
        if output is not None:
            if not isinstance(output, Mapping):
                fail("output", output, "a mapping, what the node returns")
            self.refer(output)
        task = self.task
        if not task and self._reports:
            # runs of one node in one superstep are told apart by what they did
            text = json.dumps(self._reports, sort_keys=True)
            task = digest_of(text)[:16]
        value = reports_value({**report, "task": task} for report in self._reports)
        return {**(output or {}), "context_reports": value}

    # --- inside --------------------------------------------------------------------------------------------

    def _segment(self, id: str) -> Segment:
        _check_text("id", id)
        if id not in self._seen:
            if not self._seen:
                raise UnknownName(
                    f"unknown segment {id!r}: only what is in L1 can be read or pinned, and nothing is in it"
                )
            unknown("segment", id, sorted(self._seen))
        return self._seen[id]

    def _known(self, id: str) -> Segment | None:
        """The latest version that L1, staging or L2 has; L2 renumbers when it could not be asked."""
        rows = [self._seen[id]] if id in self._seen else []
        if id in self._hidden:
            rows.append(Segment.from_json(self._hidden[id]))
        if not rows:
            try:
                rows = [found.segment for found in self._cache.get([id]).values()]
            except Unavailable:
                return None
        return max(rows, key=lambda s: s.version) if rows else None

    def _want(self, query: str, found: Iterable[Found], names: Iterable[str]) -> None:
        found = list(found)
        self._texts.put_many(one.text for one in found)
        segments = []
        for one in found:
            id = one.segment.id
            if id not in self._used:
                self._used.add(id)
                self._report("touch", id=id)
            whole = replace(
                one.segment,
                tokens=self._rules.counter.count(one.text),
                fields=tuple(sorted({*one.segment.fields, *names})),
                dirty=False,
            )
            segments.append(whole.to_json())
        self._report("want", query=query, fields=list(names), segments=segments)

    def _derived(self, made: Segment) -> None:
        self._seen[made.id] = made
        self._report("derive", segment=made.to_json(), **self._fresh.setdefault(made.id, {}))

    def _set_pin(self, id: str, pinned: bool) -> None:
        made = self._seen[id] = replace(self._segment(id), pinned=pinned)
        self._report("pin" if pinned else "unpin", id=id)
        if id in self._fresh:
            # it is not in L1 yet, where the report above would meet it
            self._derived(made)

    def _report(self, kind: str, **facts: Any) -> None:
        self._reports.append(
            {
                "turn": self.turn,
                "node": self.node,
                "task": self.task,
                "step": self._step,
                "seq": next(self._numbers),
                "kind": kind,
                **facts,
            }
        )


def _names(fields: Iterable[str]) -> tuple[str, ...]:
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        fail("fields", fields, "names of state fields, such as ['user']")
    names: list[Any] = list(fields)
    if not all(isinstance(name, str) and name for name in names):
        fail("fields", names, "names of state fields, such as ['user']")
    for name in names:
        check_id("a name in fields", name)
    now = running.get()
    if now is not None and now.fields is not None:
        for name in names:
            if name not in now.fields:
                unknown("state field", name, sorted(now.fields))
    return tuple(sorted(set(names)))


def _check_text(name: str, value: object, empty: bool = False) -> None:
    if not isinstance(value, str) or not (value or empty):
        fail(name, value, "a text" if empty else "a text that is not empty")
