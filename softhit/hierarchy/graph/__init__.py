"""The hierarchy in a LangGraph graph: one call attaches an allocator, a decorator says what nodes need."""

from softhit.hierarchy.graph.attach import acontext_of, attach, context_of, recursion_limit, share
from softhit.hierarchy.graph.hints import context_hint

__all__ = ["acontext_of", "attach", "context_hint", "context_of", "recursion_limit", "share"]
