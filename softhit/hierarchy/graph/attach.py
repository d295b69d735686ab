"""Put an allocator into an existing LangGraph graph, by one call before it is compiled."""

from __future__ import annotations

import logging
import uuid
import warnings
from asyncio import InvalidStateError
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from softhit.check import fail, nearest, unknown
from softhit.errors import InvalidInput, Unavailable
from softhit.hierarchy.graph.channels import (
    CONTEXT,
    GATES,
    NAMES,
    REPORTS,
    STARTING,
    channel_names,
    declare,
    require,
)
from softhit.hierarchy.graph.digests import digests_of, values_of
from softhit.hierarchy.graph.gates import BOUNDARY, LAST, gate_of, make_gate, redirect, redirect_command
from softhit.hierarchy.graph.hints import Hint, hint_of, root_of
from softhit.hierarchy.graph.successors import END, START, Successors, chances_ahead, successors_of
from softhit.hierarchy.graph.wrap import wrap_branch, wrap_node
from softhit.hierarchy.nodes import Ahead, Running, Start
from softhit.hierarchy.reports import merge_reports

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.graph import StateGraph

    from softhit.hierarchy.branches import Branches

__all__ = ["Allocator", "acontext_of", "attach", "context_of", "recursion_limit", "share"]

_logger = logging.getLogger("softhit.hierarchy")
GraphT = TypeVar("GraphT", bound="StateGraph[Any, Any, Any, Any]")


class Allocator(Protocol):
    """What a graph needs of an allocator; see :class:`softhit.hierarchy.allocator.ContextAllocator`."""

    def empty(self) -> dict[str, Any]:
        """Return the state before the first boundary."""
        ...

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
        """Return the state after a boundary, and the new value of the reports."""
        ...

    def watched(
        self, context: Mapping[str, Any] | None, reports: Mapping[str, Any] | None = None
    ) -> set[str]:
        """Return the state fields whose digests a boundary needs."""
        ...


def recursion_limit(steps: int) -> int:
    """Return the ``recursion_limit`` with which an attached graph does as many steps as a plain one would.

    A plain graph with limit ``steps`` runs nodes in ``steps`` supersteps at most. Attached, each of them has
    two more, the gates and the boundary, and so has the start. LangGraph's default is 10,007.

    >>> recursion_limit(25)
    77
    """
    return 3 * steps + 2


def attach(
    builder: GraphT, allocator: Allocator, *, branches: Branches | None = None, graph_name: str = "graph"
) -> GraphT:
    """Let an allocator manage the context of a graph.

    Every edge, branch, ``Command`` and ``Send`` to a node leads through a gate and the node ``context``,
    which runs the allocator once for all nodes that start together, then they start. Once more it runs after
    the last step, to write back what is new. The nodes' results, their order and what they stream stay as
    they are. A node sees its context by ``allocator.view(state)``; what it does with it is reported by itself
    when it ends.

    Parameters
    ----------
    builder : StateGraph
        With all its nodes and edges, not compiled yet. It is changed.
    allocator : ContextAllocator
    branches : Branches, optional
        Where the branches taken are counted, as weights for the prefetch of later runs.
    graph_name : str
        Under which name they are counted.

    Returns
    -------
    StateGraph
        The same builder. Add nothing to it any more, compile it.

    Raises
    ------
    MissingExtra
        LangGraph is not installed.
    InvalidInput
        The builder is compiled or attached already, its state is not made of fields, or a name the allocator
        needs is taken. When the graph runs: a node writes a channel of the allocator.
    UnknownName
        The ``fields`` of a hint name one that the state does not have. A placeholder may also stand for what
        the payload of a ``Send`` has: one without a value is a ``miss`` in the log.

    Notes
    -----
    Compiled subgraphs as nodes are not entered: nodes inside see the context as it was when the subgraph
    started. Call :func:`share` on their builder, so that what they report is part of their own checkpoints.

    ``update_state`` at an interrupt before a node counts as an update by the node ``context``, the last that
    ran: the same nodes start as before. Give ``as_node`` to have the branches of a node decided again;
    the graph then passes the boundary once more, and stops once more where it shall stop.
    ``RemainingSteps`` and ``IsLastStep`` count the two supersteps that are added to each.

    A node with ``defer=True`` also waits for workers that a ``Send`` started. LangGraph itself lets it start
    beside them when no edge starts anything.
    """
    require()
    _check(builder)
    wiring = _Wiring(builder, allocator, branches, graph_name)
    private = [name for name in NAMES if name not in builder.channels]
    wiring.insert(declare(builder))
    _finish(builder, {BOUNDARY, *map(gate_of, wiring.targets), LAST}, private)
    return builder


def share(builder: GraphT) -> GraphT:
    """Let the nodes of a subgraph take part in the context of the graph around it.

    Call it on the subgraph's builder before it is compiled and added as a node. Its nodes see the context and
    report like nodes of the graph around it; there are no boundaries inside.

    Raises
    ------
    MissingExtra, InvalidInput
        As by :func:`attach`.
    """
    require()
    _check(builder)
    private = [name for name in NAMES if name not in builder.channels]
    own = frozenset(channel_names(builder))
    declared = declare(builder, shared_only=True)
    for side in ("input_schema", "output_schema"):
        # a schema of its own, so that classes that know no such fields are not given them
        schema = type("Shared", (), {})
        builder.schemas[schema] = {**builder.schemas[getattr(builder, side)], **declared}
        setattr(builder, side, schema)
    for name, spec in builder.nodes.items():
        spec.runnable = wrap_node(
            _runnable(spec),
            name,
            change=lambda result: result,
            leaving=lambda now, value: None,
            # of this graph's fields, where they have the name; the node around knows the others
            seen=lambda config, names: digests_of(config, own.intersection(names)),
            nested=True,
        )
    _finish(builder, set(), private)
    return builder


def context_of(graph: Any, config: RunnableConfig) -> dict[str, Any]:
    """Return the allocator's state in a checkpoint: the latest of a thread, or the one that config names.

    In an event loop, with an asynchronous checkpointer: :func:`acontext_of`.

    Parameters
    ----------
    graph : CompiledStateGraph
        Attached, compiled with a checkpointer.
    config : dict
        ``{"configurable": {"thread_id": ...}}``.

    Examples
    --------
    >>> from typing import TypedDict
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> from langgraph.graph import StateGraph
    >>> from softhit.hierarchy import Workspace
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> with Workspace(":memory:", counter=len) as memory:
    ...     allocator = memory.allocator("run")
    ...     builder = StateGraph(TypedDict("State", {"question": str}))
    ...     _ = builder.add_node("note", lambda s: allocator.view(s).derive("a", s["question"]) and None)
    ...     _ = builder.set_entry_point("note")
    ...     graph = attach(builder, allocator).compile(checkpointer=InMemorySaver())
    ...     _ = graph.invoke({"question": "Tea?"}, thread)
    ...     list(context_of(graph, thread)["l1"])
    ['a']
    """
    try:
        return _context_in(_saver_of(graph).get_tuple(config))
    except InvalidStateError as error:
        raise InvalidInput(
            "context_of cannot ask an asynchronous checkpointer in an event loop: "
            "await acontext_of(graph, config)"
        ) from error


async def acontext_of(graph: Any, config: RunnableConfig) -> dict[str, Any]:
    """Return what :func:`context_of` does, from a checkpointer that is asynchronous.

    Examples
    --------
    Inside ``async with memory.async_checkpointer() as saver:`` and with a graph compiled with ``saver``:
    ``list((await acontext_of(graph, config))["l1"])``.
    """
    return _context_in(await _saver_of(graph).aget_tuple(config))


def _saver_of(graph: Any) -> Any:
    saver = getattr(graph, "checkpointer", None)
    if not saver:
        fail("graph", graph, "a graph compiled with a checkpointer")
    return saver


def _context_in(found: Any) -> dict[str, Any]:
    return dict(found.checkpoint["channel_values"].get(CONTEXT, {})) if found else {}


def _runnable(spec: Any) -> Runnable[Any, Any]:
    made: Runnable[Any, Any] = spec.runnable
    return made


def _check(builder: Any) -> None:
    from langgraph.graph import StateGraph

    if not isinstance(builder, StateGraph):
        fail("builder", builder, "a StateGraph that is not compiled")
    if hasattr(builder, "_softhit"):
        raise InvalidInput("builder must be a graph without an allocator; it has one already: attach it once")
    if builder.compiled:
        raise InvalidInput("builder must be a graph that is not compiled yet: attach the allocator first")
    if "__root__" in builder.channels:
        fail("state_schema", builder.state_schema, "made of fields (TypedDict, dataclass or pydantic model)")
    for name, spec in builder.nodes.items():
        if name == BOUNDARY or name.startswith(gate_of("")):
            raise InvalidInput(
                f"node {name!r} must have another name: 'context' and 'gate__...' are the allocator's"
            )
        inner = getattr(getattr(spec.runnable, "builder", None), "_softhit", None)
        if inner == "attached":
            raise InvalidInput(
                f"node {name!r} is a subgraph with an allocator of its own, and two copies of one context "
                f"cannot be merged: call share() instead of attach() on the subgraph"
            )


def _shape(builder: Any) -> Any:
    return (
        set(builder.nodes),
        set(builder.edges),
        set(builder.waiting_edges),
        {(source, name) for source, branches in builder.branches.items() for name in branches},
        repr(getattr(builder, "_node_defaults", None)),
    )


def _finish(builder: Any, hidden: set[str], private: list[str]) -> None:
    """Mark the builder, and let its ``compile`` hide what the allocator added.

    There is no other place to tag the nodes of a graph as hidden: with the tag they are left out of streams
    and of ``interrupt_before="*"``, as the graph's own start is.
    """
    from langgraph.constants import TAG_HIDDEN

    made: Callable[..., Any] = builder.compile
    shape = _shape(builder)

    @wraps(made)
    def compile(*args: Any, **kwargs: Any) -> Any:
        if _shape(builder) != shape:
            raise InvalidInput(
                "builder must stay as it is after the allocator was attached: its nodes or edges have changed"
            )
        compiled = made(*args, **kwargs)
        for name in hidden:
            compiled.nodes[name].tags = [TAG_HIDDEN]
        # what streams and snapshots of the state show
        compiled.stream_channels = [name for name in compiled.stream_channels if name not in private]
        return compiled

    builder.compile = compile
    builder._softhit = "attached" if hidden else "shared"


class _Wiring:
    """The graph as the user made it, and what becomes of it."""

    def __init__(
        self,
        builder: StateGraph[Any, Any, Any, Any],
        allocator: Allocator,
        branches: Branches | None,
        graph_name: str,
    ) -> None:
        self.builder, self.allocator = builder, allocator
        self.branches, self.graph_name = branches, graph_name
        self.depth = int(getattr(allocator, "lookahead", 2))
        self.successors: dict[str, Successors] = successors_of(builder)
        self.targets = [name for name in builder.nodes if not _handles_errors(builder.nodes[name])]
        self.channels = frozenset(channel_names(builder))
        self.hints: dict[str, Hint] = {}
        self.warned: set[tuple[str, str]] = set()
        for name in self.targets:
            spec = builder.nodes[name]
            hint = hint_of(spec.runnable, spec.metadata)
            if hint is not None:
                self.hints[name] = hint
                for field in hint.declared:
                    if field not in self.channels:
                        unknown(f"field of the hint of node {name!r},", field, sorted(self.channels))

    # --- wiring --------------------------------------------------------------------------------------------

    def insert(self, declared: Mapping[str, Any]) -> None:
        """Redirect everything through the gates."""
        from langgraph.types import Send

        builder = self.builder
        self._apply_defaults()
        nodes = frozenset(self.targets)
        change = partial(redirect_command, nodes=nodes)
        for name, spec in builder.nodes.items():
            spec.runnable = wrap_node(
                _runnable(spec), name, change, self._leave, self._digests, fields=self.channels
            )
            if isinstance(spec.ends, dict):
                spec.ends = {redirect(end, nodes): label for end, label in spec.ends.items()}
            else:
                spec.ends = tuple(redirect(end, nodes) for end in spec.ends or ())
            if spec.cache_policy is not None:
                _warn_uncached(name)
                spec.cache_policy = None
        builder.edges = {(u, redirect(v, nodes)) for u, v in builder.edges if v != END}
        builder.waiting_edges = {(us, redirect(v, nodes)) for us, v in builder.waiting_edges if v != END}
        for source, branches in builder.branches.items():
            for name, branch in list(branches.items()):
                ends = branch.ends
                if ends is None:
                    path = wrap_branch(branch.path, name, lambda target: redirect(target, nodes))
                else:
                    # names are mapped by the ends, only packets are not
                    ends = {key: redirect(end, nodes) for key, end in ends.items()}
                    path = wrap_branch(
                        branch.path, name, lambda t: redirect(t, nodes) if isinstance(t, Send) else t
                    )
                builder.branches[source][name] = branch._replace(path=path, ends=ends)
        sources = [START, *builder.nodes]
        schema = type("ContextChannels", (), {})
        builder.schemas[schema] = dict(declared)
        for name in self.targets:
            builder.add_node(gate_of(name), _gate(make_gate(name)), input_schema=schema)
            builder.nodes[gate_of(name)].defer = builder.nodes[name].defer
            builder.nodes[name].defer = False
            builder.add_edge(gate_of(name), BOUNDARY)
        builder.add_node(LAST, _gate(make_gate(END)), input_schema=schema)
        builder.add_edge(LAST, BOUNDARY)
        # where an edge leads to a gate at once the boundary runs anyway, and a task alone needs no thread
        sure = {u for u, v in builder.edges if v in builder.nodes and not builder.nodes[v].defer}
        for source in sources:
            if source not in sure:
                builder.add_edge(source, LAST)
        boundary: Any = self._boundary
        builder.add_node(BOUNDARY, boundary, input_schema=schema)
        builder.add_conditional_edges(BOUNDARY, _started, {name: name for name in [*self.targets, END]})

    def _apply_defaults(self) -> None:
        """Give the defaults for nodes to the user's nodes now: gates and boundary must not get them."""
        builder = self.builder
        defaults = getattr(builder, "_node_defaults", None)
        if defaults is None:
            return
        handler = "__default_error_handler__"
        if defaults.error_handler is not None:
            builder.add_node(handler, defaults.error_handler)
            builder.nodes[handler].is_error_handler = True
            builder.nodes[handler].input_schema = builder.state_schema
        for spec in builder.nodes.values():
            regular = not _handles_errors(spec)
            if regular and defaults.error_handler is not None and spec.error_handler_node is None:
                spec.error_handler_node = handler
            if regular and defaults.cache_policy is not None and spec.cache_policy is None:
                spec.cache_policy = defaults.cache_policy
            if defaults.retry_policy is not None and spec.retry_policy is None:
                spec.retry_policy = defaults.retry_policy
            if defaults.timeout is not None and spec.timeout is None:
                spec.timeout = defaults.timeout
        builder._node_defaults = type(defaults)()

    # --- what the node `context` does ----------------------------------------------------------------------

    def _boundary(self, state: Mapping[str, Any], config: RunnableConfig) -> dict[str, Any]:
        context, reports = state.get(CONTEXT) or self.allocator.empty(), state.get(REPORTS) or {}
        before = state.get(STARTING) or {}
        notes: list[dict[str, Any]] = list(state.get(GATES) or ())
        names = sorted({note["node"] for note in notes if "payload" not in note})
        tasks = [{"node": name} for name in names] + [note for note in notes if "payload" in note]
        starting = sorted({task["node"] for task in tasks})
        thread = str(config.get("configurable", {}).get("thread_id") or "")
        run = before.get("run") or thread or uuid.uuid4().hex
        ran = sorted({task["node"] for task in before.get("tasks", ())}) or [START]
        turn = int(context.get("turn", 0))
        self._count(run, turn, ran, starting)
        chances = self._chances(run, starting)
        wanted = {name for node in {*starting, *chances} if node in self.hints for name in self._fields(node)}
        watched = self.allocator.watched(context, reports)
        values = values_of(config, self.channels & (wanted | watched))
        after, left = self.allocator.boundary(
            context,
            reports,
            self._starts(tasks, values),
            [Ahead(n, self.hints[n].fill(values), p, self._fields(n)) for n, p in chances.items()],
            self._digests(config, wanted | watched),
            not tasks,
            thread=thread,
        )
        self._tell_unfilled(tasks, values, {"turn": after["turn"], **({"thread": thread} if thread else {})})
        return {CONTEXT: after, REPORTS: left, STARTING: {"run": run, "tasks": tasks}}

    def _starts(self, tasks: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> list[Start]:
        starts: dict[Start, None] = {}
        for task in tasks:
            hint = self.hints.get(task["node"])
            if hint is None:
                starts[Start(task["node"])] = None
                continue
            starts[Start(task["node"], hint.fill(_known(task, values)), self._fields(task["node"]))] = None
        return list(starts)

    def _tell_unfilled(
        self, tasks: Sequence[Mapping[str, Any]], values: Mapping[str, Any], about: Mapping[str, Any]
    ) -> None:
        """Log what starting nodes' hints leave out; it may come later, so it is no error."""
        events: dict[tuple[str, str, str], dict[str, Any]] = {}
        for task in tasks:
            node, known = task["node"], _known(task, values)
            hint = self.hints.get(node)
            if hint is None:
                continue
            for name in hint.lacking(known):
                why, root = f"the hint's {{{name}}} has no value", root_of(name)
                if root not in self.channels and "payload" not in task:
                    why += f": {root!r} is no field of the state{nearest(root, sorted(self.channels))}"
                    if (node, name) not in self.warned:
                        self.warned.add((node, name))
                        _logger.warning("node %r: %s", node, why)
                query = hint.fill(known)
                events[node, name, query] = {
                    **about, "kind": "miss", "node": node, "why": why, "query": query,
                }  # fmt: skip
        log = getattr(self.allocator, "log", None)
        if log is not None and events:
            log.write(list(events.values()))

    def _fields(self, node: str) -> tuple[str, ...]:
        """Return the state fields a node's hint depends on; what only a payload has can change no more."""
        return tuple(name for name in self.hints[node].fields if name in self.channels)

    def _maybe(self, node: str) -> frozenset[str]:
        return self.successors[node].maybe if node in self.successors else frozenset()

    def _count(self, run: str, turn: int, ran: Sequence[str], starting: Sequence[str]) -> None:
        if self.branches is None:
            return
        moves = [(u, v) for u in ran for v in starting if v in self._maybe(u)]
        try:
            self.branches.record(self.graph_name, run, turn, ran, moves)
        except Unavailable as error:  # no reason to end a run
            _logger.warning("branches are not counted: %s", error)

    def _chances(self, run: str, starting: Sequence[str]) -> dict[str, Fraction]:
        from softhit.hierarchy.branches import uniform

        if self.branches is not None:
            learnt = self.branches.chances(self.graph_name, run)
            try:
                return chances_ahead(starting, self.successors, learnt, self.depth, self.hints)
            except Unavailable as error:
                _logger.warning("branches are taken as equally likely: %s", error)
        return chances_ahead(starting, self.successors, uniform, self.depth, self.hints)

    def _digests(self, config: RunnableConfig, names: Collection[str]) -> dict[str, str]:
        return digests_of(config, self.channels.intersection(names))

    def _leave(self, now: Running, value: Mapping[str, Any]) -> None:
        """Write back what is dirty where a node leaves this graph for the one around it.

        There is no boundary any more, and this graph's state is given up.
        """
        reports = merge_reports(now.reports, value)
        self.allocator.boundary(now.context, reports, (), ending=True, thread=now.thread)


def _known(task: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a starting node's hint is filled in from: the state, and a payload before it."""
    payload = task.get("payload")
    return {**values, **payload} if isinstance(payload, Mapping) else values


def _handles_errors(spec: Any) -> bool:
    return bool(getattr(spec, "is_error_handler", False))


def _gate(function: Callable[[Any], dict[str, Any]]) -> Any:
    """Return a gate as a node; it needs no thread of its own where the graph runs asynchronously."""
    from langgraph._internal._runnable import RunnableCallable

    async def asynchronous(state: Any) -> dict[str, Any]:
        return function(state)

    return RunnableCallable(function, asynchronous, trace=False)


def _started(state: Mapping[str, Any]) -> list[Any]:
    """Return all nodes that start: the branch after the boundary."""
    from langgraph.types import Send

    tasks = (state.get(STARTING) or {}).get("tasks", ())
    return [Send(task["node"], task["payload"]) if "payload" in task else task["node"] for task in tasks]


def _warn_uncached(name: str) -> None:
    """Say that a node is not cached: what LangGraph keeps of it includes its reports, of another turn.

    They would count as applied already, or would make those of later turns count so.
    """
    warnings.warn(
        f"node {name!r} will not be cached: what it does to the context must happen in every run; "
        "cache inside the node what is expensive",
        stacklevel=4,
    )
