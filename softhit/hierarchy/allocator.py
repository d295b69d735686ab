"""The allocator of the context window: it decides at node boundaries what is in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

from softhit.check import check_int, check_real, fail
from softhit.errors import InvalidInput
from softhit.exact import as_fraction
from softhit.hierarchy.boundary import cross
from softhit.hierarchy.guide import make_guide
from softhit.hierarchy.levels import L2, TextStore
from softhit.hierarchy.log import DecisionLog
from softhit.hierarchy.nodes import Ahead, Start, running
from softhit.hierarchy.reports import pending
from softhit.hierarchy.state import empty_context, read_context
from softhit.hierarchy.tokens import TokenCounter, make_counter
from softhit.hierarchy.view import View
from softhit.hierarchy.work import Rules, Work

__all__ = ["Ahead", "ContextAllocator", "Start"]


class ContextAllocator:
    """Keeps a context window (L1) within its budget, fed from L2 and written back to it.

    It has no state of its own: all of it lies in the graph's state, so a run can be resumed, replayed and
    forked. L2 and the store of texts are written before the state refers to what was written.

    Parameters
    ----------
    cache : SemanticCache
        L2.
    texts : Texts
        Where the texts lie.
    budget : int
        Tokens of L1, >= 1.
    high, low : number or str
        Watermarks as parts of the budget, 0 <= low <= high <= 1, exact. What would pass the high mark starts
        an eviction batch, which goes down to the low mark.
    policy : str
        In which order segments leave, see :func:`softhit.hierarchy.guide.make_guide`.
    weights : pair of numbers
        Of accesses and of recency, for ``priority_lru``; >= 0, exact.
    pin_accesses : int or None
        Segments with as many accesses are pinned while the low mark leaves room for them; None: none are.
    top_k : int
        How many segments a hint fetches at most.
    least_score : float
        The least cosine in [-1, 1] of what a hint fetches.
    lookahead : int
        For how many nodes ahead segments are staged; 0: no prefetch. The graph reads it.
    min_probability : number or str
        Nodes ahead that are less likely are staged nothing.
    counter : str, TokenCounter or callable
        Which tokens are counted.
    log : DecisionLog, optional
    seed, switch_cost
        Handed to the policies of the registry.

    Raises
    ------
    InvalidInput
        A parameter is not of the allowed form; the message names it.
    """

    def __init__(
        self,
        cache: L2,
        texts: TextStore,
        *,
        budget: int = 40_000,
        high: Any = "0.85",
        low: Any = "0.65",
        policy: str = "priority_lru",
        weights: Sequence[Any] = ("0.6", "0.4"),
        pin_accesses: int | None = None,
        top_k: int = 5,
        least_score: float = 0.25,
        lookahead: int = 2,
        min_probability: Any = "0.1",
        counter: str | TokenCounter | Callable[[str], int] = "o200k_base",
        log: DecisionLog | None = None,
        seed: int = 0,
        switch_cost: Any = 1,
    ) -> None:
        self.cache = cache
        self.texts = texts
        self.budget = check_int("budget", budget, low=1)
        self.high = _part("high", high)
        self.low = _part("low", low)
        if self.low > self.high:
            fail("low", low, f"at most high = {self.high}")
        self.weights = _pair(weights)
        self.lookahead = check_int("lookahead", lookahead, low=0)
        self.log = DecisionLog(None) if log is None else log
        low_tokens = math.floor(self.low * self.budget)
        self.rules = Rules(
            budget=self.budget,
            high=math.floor(self.high * self.budget),
            low=low_tokens,
            guide=make_guide(
                policy,
                weights=self.weights,
                capacity=max(1, low_tokens),
                switch_cost=switch_cost,
                seed=seed,
            ),
            pin_accesses=None if pin_accesses is None else check_int("pin_accesses", pin_accesses, low=0),
            top_k=check_int("top_k", top_k, low=0),
            least_score=check_real("least_score", least_score, low=-1, high=1),
            min_probability=_part("min_probability", min_probability),
            counter=make_counter(counter),
        )

    @property
    def policy(self) -> str:
        """The policy, as given."""
        return self.rules.guide.policy

    def empty(self) -> dict[str, Any]:
        """Return the state before the first boundary."""
        return dict(empty_context(self.budget))

    def boundary(
        self,
        context: Mapping[str, Any] | None,
        reports: Mapping[str, Any] | None,
        starting: Sequence[Start],
        ahead: Sequence[Ahead] = (),
        fields: Mapping[str, str] | None = None,
        ending: bool = False,
        *,
        thread: str = "",
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the state after a boundary, and the new value of the reports.

        Parameters
        ----------
        context, reports : mapping
            The two channels as they are; empty before the first boundary.
        starting : sequence of Start
            The nodes that start after it.
        ahead : sequence of Ahead
            The nodes that may follow them.
        fields : mapping
            Digests of the state fields that segments depend on, those of :meth:`watched` and of the hints.
            A field whose digest was not known when a segment was loaded counts as changed once it is.
        ending : bool
            The run ends: everything dirty is written back.
        thread : str
            The checkpointer's thread, which the events in the log then name.

        Raises
        ------
        HierarchyError
            What is pinned has more tokens than the budget (``SegmentTooLarge``: one segment alone). The state
            is as it was.
        """
        work = Work(self.rules, self.cache, self.texts, read_context(context, self.budget))
        try:
            after, left = cross(work, reports or {}, starting, ahead, fields, ending)
        finally:
            self.log.write([{**event, "thread": thread} for event in work.events] if thread else work.events)
        return cast(dict[str, Any], after), left

    def view(self, state: Any, node: str = "", task: str = "") -> View:
        """Return what a node sees of the context window.

        Parameters
        ----------
        state : mapping
            The graph's state as the node got it. Where it has no ``context`` (the payload of a ``Send``, a
            state that is no mapping), the one the node was started with is used.
        node, task : str
            Who looks; known by itself inside a node of a graph with an allocator.

        Raises
        ------
        InvalidInput
            There is no context: the graph has no allocator, or no boundary has run.
        """
        now = running.get()
        channels = state if isinstance(state, Mapping) and state.get("context") else {}
        context, reports = channels.get("context"), channels.get("context_reports")
        if not context and now is not None:
            context, reports = now.context, now.reports
        if not context:
            raise InvalidInput(
                "state has no context: attach the allocator to the graph before it is compiled"
            )
        view = View(
            self.rules,
            self.cache,
            self.texts,
            read_context(context, self.budget),
            reports,
            node or (now.node if now else ""),
            task or (now.task if now else ""),
            now.numbers if now else None,
        )
        if now is not None:
            now.views.append(view)
        return view

    def watched(
        self, context: Mapping[str, Any] | None, reports: Mapping[str, Any] | None = None
    ) -> set[str]:
        """Return the state fields whose digests a boundary needs, beside those of the hints."""
        places = [(context or {}).get(place, {}).values() for place in ("l1", "staged")]
        names = {name for place in places for s in place for name in s["fields"]}
        for report in pending(reports):
            rows = [report["segment"]] if report["kind"] == "derive" else report.get("segments", ())
            names.update(name for s in rows for name in s["fields"])
        return names


def _part(name: str, value: Any) -> Fraction:
    part = as_fraction(name, value, low=0)
    if part > 1:
        fail(name, value, "a number in 0..1")
    return part


def _pair(weights: Any) -> tuple[Fraction, Fraction]:
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != 2:
        fail("weights", weights, "two numbers: of accesses and of recency")
    return as_fraction("weights[0]", weights[0], low=0), as_fraction("weights[1]", weights[1], low=0)
