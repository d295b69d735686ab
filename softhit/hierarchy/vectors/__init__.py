"""Vector stores behind one protocol: Qdrant by its client, and its engine in this process."""

from softhit.hierarchy.vectors.make import make_vectors
from softhit.hierarchy.vectors.protocol import Row, Vectors

__all__ = ["Row", "Vectors", "make_vectors"]
