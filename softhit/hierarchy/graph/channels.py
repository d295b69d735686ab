"""The channels that an allocator has in a graph's state, and what may be declared under their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_origin

from softhit.errors import InvalidInput, MissingExtra
from softhit.hierarchy.reports import merge_reports
from softhit.hierarchy.state import ContextJson, merge_context

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

__all__ = ["CONTEXT", "GATES", "NAMES", "REPORTS", "STARTING", "channel_names", "declare", "require"]

CONTEXT, REPORTS = "context", "context_reports"
STARTING, GATES = "context_starting", "context_gates"
NAMES = (CONTEXT, REPORTS, STARTING, GATES)


def require() -> None:
    """Raise a clear error when LangGraph is not installed."""
    try:
        import langgraph.graph  # noqa: F401
    except ImportError as error:
        raise MissingExtra("langgraph", "hierarchy") from error


def _channels(shared_only: bool) -> dict[str, Any]:
    from langgraph.channels import BinaryOperatorAggregate, LastValue, Topic

    made: dict[str, Any] = {
        CONTEXT: BinaryOperatorAggregate(dict, merge_context),
        REPORTS: BinaryOperatorAggregate(dict, merge_reports),
    }
    if not shared_only:
        made[STARTING] = LastValue(dict)
        made[GATES] = Topic(dict)
    for name, channel in made.items():
        channel.key = name
    return made


def declare(builder: StateGraph[Any, Any, Any, Any], shared_only: bool = False) -> dict[str, Any]:
    """Put the channels into a builder and return them.

    They are part of no schema, so they are in the state and in every checkpoint, but neither in the graph's
    output nor accepted as its input, unless the user declares them: then it is up to the declaration.
    """
    made = _channels(shared_only)
    for name, channel in made.items():
        present = builder.channels.get(name)
        if present is not None and not _may_be(name, present):
            kind = getattr(present, "typ", type(present).__name__)
            raise InvalidInput(
                f"the state declares {name!r} as {kind}; the allocator needs this name for itself: rename "
                f"the field, or declare it as dict to see the allocator's state in it"
            )
        builder.channels[name] = channel
        for schema in builder.schemas.values():
            if name in schema:
                schema[name] = channel
    return made


def _may_be(name: str, channel: Any) -> bool:
    if name in (STARTING, GATES):
        return False
    kind = getattr(channel, "typ", None)
    return kind in (Any, ContextJson) or (get_origin(kind) or kind) in (dict, Mapping)


def channel_names(builder: StateGraph[Any, Any, Any, Any]) -> list[str]:
    """Return the user's channels."""
    return [name for name in builder.channels if name not in NAMES]
