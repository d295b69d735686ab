"""LangGraph: an allocator at every node boundary of an existing graph."""
