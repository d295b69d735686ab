"""Gates: what stands before each node, so that all that start together pass one boundary together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from softhit.hierarchy.graph.channels import GATES

__all__ = ["BOUNDARY", "LAST", "gate_of", "make_gate", "redirect", "redirect_command"]

BOUNDARY = "context"
"""The name of the node that runs the allocator."""

_PREFIX = "gate__"
_PAYLOAD = "__softhit_send__"
_END = "__end__"


def gate_of(node: str) -> str:
    """Return the name of a node's gate.

    >>> gate_of("plan")
    'gate__plan'
    """
    return _PREFIX + node


LAST = gate_of(_END)
"""The gate that a node with no certain successor leads to: the boundary runs after the last step too."""


def make_gate(node: str) -> Callable[[Any], dict[str, Any]]:
    """Return the function of a gate: it notes that its node starts, and with which payload."""

    def gate(state: Any) -> dict[str, Any]:
        if node == _END:
            return {}
        if isinstance(state, Mapping) and _PAYLOAD in state:
            return {GATES: [{"node": node, "payload": state[_PAYLOAD]}]}
        return {GATES: [{"node": node}]}

    return gate


def redirect(target: Any, nodes: Collection[str]) -> Any:
    """Return the gate of a target (a name or a ``Send``); the end and what is no node stay as they are."""
    from langgraph.types import Send

    if isinstance(target, Send):
        return Send(gate_of(target.node), {_PAYLOAD: target.arg}) if target.node in nodes else target
    return gate_of(target) if isinstance(target, str) and target in nodes else target


def redirect_command(result: Any, nodes: Collection[str]) -> Any:
    """Return what a node returned, with the gates of the targets of its commands."""
    from langgraph.types import Command, Send

    if isinstance(result, Send):
        return redirect(result, nodes)
    if isinstance(result, Command):
        if result.graph == Command.PARENT or not result.goto:
            return result
        goto = result.goto
        if isinstance(goto, Send | str):
            return replace(result, goto=redirect(goto, nodes))
        return replace(result, goto=[redirect(target, nodes) for target in goto])
    if isinstance(result, list | tuple) and any(isinstance(one, Command) for one in result):
        changed: Sequence[Any] = [redirect_command(one, nodes) for one in result]
        return changed
    return result
