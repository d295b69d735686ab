"""The hierarchy in a LangGraph graph: one call attaches an allocator, a decorator says what nodes need."""

from softhit.hierarchy.graph.attach import attach, context_of, recursion_limit, share
from softhit.hierarchy.graph.hints import context_hint

__all__ = ["attach", "context_hint", "context_of", "recursion_limit", "share"]
