"""The memory hierarchy: a context window as L1, a vector store as L2, documents as L3."""

from softhit.hierarchy.segment import Segment, digest_of

__all__ = ["Segment", "digest_of"]
