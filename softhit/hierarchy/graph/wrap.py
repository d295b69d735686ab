"""What is put around a node: it sees its context, and what it does with it is reported."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from softhit.errors import InvalidInput
from softhit.hierarchy.graph.channels import CONTEXT, GATES, NAMES, REPORTS, STARTING
from softhit.hierarchy.nodes import Running, running
from softhit.hierarchy.reports import merge_reports, reports_value
from softhit.hierarchy.view import references

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig

__all__ = ["fresh_parts", "task_of", "wrap_branch", "wrap_node"]

Digests = Callable[[Any, Collection[str]], dict[str, str]]

# above every number a view gives to a report of its own
_REFERENCES = 1_000_000


def task_of(config: Mapping[str, Any], nested: bool = False) -> tuple[str, str]:
    """Return a node's place (with the graphs around it when nested) and which run of it this is.

    Tasks that start together sort as their branches do: nodes that an edge started before the workers that a
    ``Send`` started, those in the order in which they were sent.
    """
    facts = config.get("metadata", {})
    path = facts.get("langgraph_path", ())
    sent = f"{int(path[1]):06d}" if len(path) > 1 and isinstance(path[1], int) else "-"
    node = str(facts.get("langgraph_node", ""))
    if not nested:
        return node, sent
    place = str(facts.get("langgraph_checkpoint_ns", node))
    names = "|".join(part.partition(":")[0] for part in place.split("|") if not part.isdigit())
    step = int(facts.get("langgraph_step", 0))
    return names, f"{step:06d}.{sent}.{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def fresh_parts(result: Any, given: Any) -> Any:
    """Return what of a node's output is its own: what it only hands on is left out.

    >>> fresh_parts({"a": [1, 2, 3], "b": 4}, {"a": [1, 2], "b": 4})
    {'a': [3]}
    """
    if not isinstance(result, Mapping) or not isinstance(given, Mapping):
        return result
    fresh = {}
    for key, value in result.items():
        if key in NAMES:
            continue
        if key in given:
            before = given[key]
            with suppress(Exception):  # a user's own __eq__
                if value is before or value == before:
                    continue
                if isinstance(value, list) and isinstance(before, list) and value[: len(before)] == before:
                    value = value[len(before) :]
        fresh[key] = value
    return fresh


def _outputs(result: Any) -> list[Any]:
    """Return what a node's result writes to the state."""
    from langgraph.types import Command

    if isinstance(result, Command):
        update = result.update
        return [dict(update)] if isinstance(update, list | tuple) and _pairs(update) else [update]
    if isinstance(result, list | tuple) and any(isinstance(one, Command) for one in result):
        return [output for one in result for output in _outputs(one)]
    if result is None or isinstance(result, Mapping | str | list | tuple):
        return [result]
    return [getattr(result, "__dict__", result)]


def _check_writes(result: Any, now: Running, nested: bool, certain: bool) -> None:
    """Refuse what a node writes to the allocator's channels; the context it was given may be handed on."""
    from langgraph.types import Command

    if isinstance(result, list | tuple):
        for one in result:
            _check_writes(one, now, nested, certain)
        return
    # in the graph around, these names may be its own
    if not isinstance(result, Command | Mapping) or (isinstance(result, Command) and result.graph):
        return
    # of a shared graph's other names none is the allocator's
    names = (CONTEXT,) if nested else (CONTEXT, STARTING, GATES)
    for output in _outputs(result):
        for name in names if isinstance(output, Mapping) else ():
            if name not in output or (name == CONTEXT and output[name] == now.context):
                continue
            message = (
                f"node {now.node!r} must not write {name!r}: it is the allocator's own; report by a view "
                "(derive, pin, ...), or give your field another name"
            )
            if certain:
                raise InvalidInput(message)
            warnings.warn(message, stacklevel=2)


def _pairs(update: Any) -> bool:
    return all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in update)


class _Around:
    """One run of a node: entered before it, left after it."""

    def __init__(
        self, given: Any, config: RunnableConfig, nested: bool, fields: frozenset[str] | None
    ) -> None:
        from langgraph.pregel._read import ChannelRead

        channels = ChannelRead.do_read(config, select=[CONTEXT, REPORTS], fresh=False)
        context, reports = channels.get(CONTEXT, {}), channels.get(REPORTS, {})
        node, task = task_of(config, nested)
        self.config = config
        thread = str(config.get("configurable", {}).get("thread_id") or "")
        self.now = Running(node, task, context, reports, fields=fields, thread=thread)
        self.given = given
        if isinstance(given, dict):
            # they go before those of an earlier turn, which a payload made of the state holds
            self.given = {**given, CONTEXT: context, REPORTS: reports}

    def leave(self, result: Any, seen: Digests) -> dict[str, Any]:
        """Write and return what the node reports: what its views did, and what its output refers to."""
        from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry

        value: dict[str, Any] = {}
        for view in self.now.views:
            value = merge_reports(value, view.update().get(REPORTS))
        found: dict[str, None] = {}
        for output in _outputs(result):
            found.update(dict.fromkeys(references(fresh_parts(output, self.given))))
        about = {"turn": int(self.now.context.get("turn", 0)), "node": self.now.node, "task": self.now.task}
        made = [
            {**about, "seq": _REFERENCES + n, "kind": "reference", "id": id} for n, id in enumerate(found)
        ]
        value = merge_reports(value, reports_value(made))
        value = self._with_seen(value, seen)
        if value["reports"]:
            ChannelWrite.do_write(self.config, [ChannelWriteEntry(REPORTS, value)])
        return value

    def handed_on(self, result: Any, seen: Digests) -> Any:
        """Return a node's result; what a subgraph in it reports says how this graph's fields were, too."""
        if not isinstance(result, Mapping) or not isinstance(result.get(REPORTS), Mapping):
            return result
        return {**result, REPORTS: self._with_seen(result[REPORTS], seen)}

    def _with_seen(self, value: Mapping[str, Any], seen: Digests) -> dict[str, Any]:
        """Return reports with digests of the fields they depend on, unless they have them."""
        reports = {}
        for key, report in value.get("reports", {}).items():
            if report["kind"] in ("derive", "want") and key not in self.now.reports.get("reports", {}):
                rows = [report["segment"]] if report["kind"] == "derive" else report["segments"]
                fields = {*report.get("fields", ()), *(name for s in rows for name in s["fields"])}
                known = report.get("seen", {})
                if not fields <= known.keys():
                    report = {**report, "seen": {**seen(self.config, fields - known.keys()), **known}}
            reports[key] = report
        return {**value, "reports": reports}


def _own_command(error: Any, config: RunnableConfig) -> Any:
    """Return the command of a subgraph that is for this graph, or None."""
    from dataclasses import replace

    command = error.args[0]
    place = str(config.get("configurable", {}).get("checkpoint_ns", ""))
    names = "|".join(part.partition(":")[0] for part in place.split("|") if not part.isdigit())
    node = config.get("metadata", {}).get("langgraph_node")
    return replace(command, graph=None) if command.graph in (place, names, node) else None


def wrap_node(
    inner: Runnable[Any, Any],
    name: str,
    change: Callable[[Any], Any],
    leaving: Callable[[Running, dict[str, Any]], None],
    seen: Digests,
    nested: bool = False,
    fields: frozenset[str] | None = None,
) -> Runnable[Any, Any]:
    """Return a node around a node.

    Parameters
    ----------
    inner : Runnable
    name : str
    change : callable
        What becomes of its result.
    leaving : callable
        Called with its reports when the node ends this graph by a command for the graph around it.
    seen : callable
        Gives digests of state fields as they are while the node runs.
    nested : bool
        Whether the graph takes part in the context of a graph around it.
    fields : frozenset of str, optional
        The state's fields, of which texts may depend.
    """
    from langchain_core.runnables.config import run_in_executor
    from langgraph._internal._runnable import RunnableCallable
    from langgraph.errors import ParentCommand
    from langgraph.pregel.protocol import PregelProtocol

    # a subgraph with a memory of its own may return the context of an earlier run, which nobody has written
    certain = not isinstance(inner, PregelProtocol)

    def finish(around: _Around, result: Any, certain: bool) -> Any:
        from langgraph.types import Command

        _check_writes(result, around.now, nested, certain)
        value = around.leave(result, seen)
        results = result if isinstance(result, list | tuple) else [result]
        if any(isinstance(one, Command) and one.graph == Command.PARENT for one in results):
            leaving(around.now, value)
        return change(around.handed_on(result, seen))

    def failed(around: _Around, error: ParentCommand) -> Any:
        command = _own_command(error, around.config)
        if command is None:
            leaving(around.now, around.leave(None, seen))
            raise error
        return finish(around, command, certain=True)

    def call(given: Any, config: RunnableConfig) -> Any:
        around = _Around(given, config, nested, fields)
        token = running.set(around.now)
        try:
            result = inner.invoke(around.given, config)
        except ParentCommand as error:
            return failed(around, error)
        finally:
            running.reset(token)
        return finish(around, result, certain)

    async def acall(given: Any, config: RunnableConfig) -> Any:
        around = _Around(given, config, nested, fields)
        token = running.set(around.now)
        try:
            result = await inner.ainvoke(around.given, config)
        except ParentCommand as error:
            return failed(around, error)
        finally:
            running.reset(token)
        return finish(around, result, certain)

    wrapped = getattr(inner, "afunc", None)
    if isinstance(wrapped, partial) and wrapped.func is run_in_executor:
        # as the graph makes a node of a plain function: it then knows that no timeout can stop it
        threaded: Any = partial(run_in_executor, None, call)  # type: ignore[call-arg]
        return RunnableCallable(call, threaded, name=name, trace=False)
    return RunnableCallable(call, acall, name=name, trace=False)


def wrap_branch(inner: Runnable[Any, Any], name: str, change: Callable[[Any], Any]) -> Runnable[Any, Any]:
    """Return a branch's path around its path, with its targets changed."""
    from langgraph._internal._runnable import RunnableCallable

    def call(given: Any, config: RunnableConfig) -> Any:
        return _each(inner.invoke(given, config), change)

    async def acall(given: Any, config: RunnableConfig) -> Any:
        return _each(await inner.ainvoke(given, config), change)

    return RunnableCallable(call, acall, name=name, trace=False)


def _each(result: Any, change: Callable[[Any], Any]) -> Any:
    return [change(one) for one in result] if isinstance(result, list | tuple) else change(result)
