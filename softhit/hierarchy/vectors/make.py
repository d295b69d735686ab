"""Open a vector store by where it is and by its engine."""

from __future__ import annotations

from pathlib import Path

from softhit.check import check_choice
from softhit.hierarchy.vectors.edge import EdgeVectors
from softhit.hierarchy.vectors.protocol import Vectors
from softhit.hierarchy.vectors.qdrant import QdrantVectors

__all__ = ["ENGINES", "make_vectors"]

ENGINES = ("qdrant", "edge")


def make_vectors(
    where: Path | str,
    dimension: int,
    *,
    collection: str = "segments",
    engine: str = "qdrant",
    api_key: str | None = None,
    exact: bool = True,
) -> Vectors:
    """Return the store at a folder, in memory (``":memory:"``), or at the URL of a server or cluster.

    Parameters
    ----------
    where : str or path
        Engine ``edge`` takes a folder only.
    dimension : int
        Length of the vectors, e.g. ``embedder.dimension``.
    engine : {"qdrant", "edge"}
    api_key : str, optional
        For a server.
    exact : bool
        False: an engine with a graph may use it; the nearest rows may then miss some.

    Raises
    ------
    PathInUse, Unavailable, InvalidInput, MissingExtra
        See :class:`softhit.hierarchy.vectors.qdrant.QdrantVectors`.

    Examples
    --------
    >>> import numpy as np
    >>> vectors = make_vectors(":memory:", 2)
    >>> row = {"id": "a", "text": "x", "version": 1, "dirty": 0, "accesses": 0, "last_access": 0}
    >>> vectors.upsert("a", np.array([1, 0], np.float32), row, expected=None)
    True
    >>> vectors.upsert("a", np.array([1, 0], np.float32), row, expected=None)  # there is one
    False
    >>> [(found.id, score) for found, score in vectors.nearest(np.array([1, 1], np.float32), 3, 0.5)]
    [('a', 0.70...)]
    >>> vectors.close()
    """
    if check_choice("engine", engine, ENGINES) == "edge":
        return EdgeVectors(where, dimension, collection=collection, exact=exact)
    return QdrantVectors(where, dimension, collection=collection, api_key=api_key, exact=exact)
