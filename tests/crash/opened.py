"""A whole hierarchy opened from the files of one folder, with stores that fail when they are told to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from langgraph.checkpoint.sqlite import SqliteSaver
from numpy.typing import NDArray

from softhit.errors import Unavailable
from softhit.hierarchy.allocator import ContextAllocator
from softhit.hierarchy.documents import make_documents
from softhit.hierarchy.semantic import SemanticCache
from softhit.hierarchy.texts import Texts
from softhit.hierarchy.vectors import make_vectors
from softhit.hierarchy.writeback import WriteBack

__all__ = ["Failing", "Opened", "Setup", "opened"]

DIMENSION = 48


@dataclass(frozen=True)
class Setup:
    """What a scenario runs on.

    Attributes
    ----------
    engine, documents : str
        "qdrant" or "edge"; "sqlite" or "folder".
    l2_fails, l3_fails : str
        What befalls the writes to the store, over and over: "." nothing, "f" it fails, "a" it is done, but
        the answer gets lost. They work again once the run is over.
    budget, capacity : int
        Words of L1, rows of L2.
    durability : str
        Of LangGraph's checkpoints: "sync", or "async" beside the nodes.
    thread : bool
        Write-back to L3 by its thread, or at points of the nodes.
    """

    engine: str = "qdrant"
    documents: str = "sqlite"
    l2_fails: str = "."
    l3_fails: str = "."
    budget: int = 100
    capacity: int = 6
    durability: str = "sync"
    thread: bool = False


class Failing:
    """A store whose writes fail by a pattern; everything else passes through."""

    def __init__(self, store: Any, writes: tuple[str, ...], pattern: str) -> None:
        self._store = store
        self._writes = writes
        self._pattern = cycle(pattern)
        self.works = False
        self.between: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._store, name)
        if name not in self._writes:
            return inner

        def write(*arguments: Any, **named: Any) -> Any:
            fate = "." if self.works else next(self._pattern)
            if fate == "f":
                raise Unavailable(f"{name}: made to fail before")
            result = inner(*arguments, **named)
            if fate == "a":
                raise Unavailable(f"{name}: made to fail after")
            return result

        return write


class Words:
    """An embedder that costs next to nothing: each word counts in one coordinate."""

    name = "words"
    dimension = DIMENSION

    def fit(self, texts: Sequence[str]) -> Words:
        return self

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = np.full((len(texts), DIMENSION), 0.01, np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().split():
                row[crc32(word.encode()) % DIMENSION] += 1
        return found / np.linalg.norm(found, axis=1, keepdims=True)


@dataclass
class Opened:
    """The open parts of a hierarchy."""

    texts: Texts
    vectors: Failing
    documents: Failing
    cache: SemanticCache
    writer: WriteBack
    allocator: ContextAllocator
    saver: SqliteSaver

    def mend(self) -> None:
        """From now on no store fails."""
        self.vectors.works = self.documents.works = True

    def close(self) -> None:
        """Close everything, as a process does that ends by itself."""
        self.writer.stop()
        self.saver.conn.close()
        self.cache.close()
        self.documents.close()
        self.texts.close()


def _hours() -> Iterator[float]:
    """Seconds of a clock that is an hour later whenever somebody looks: every retry is due."""
    return count(0.0, 3600.0)


def opened(folder: Path, setup: Setup) -> Opened:
    """Open, or create, what lies below the folder."""
    texts = Texts(folder / "texts.sqlite")
    l3 = make_documents(folder / ("l3.sqlite" if setup.documents == "sqlite" else "l3"))
    documents = Failing(l3, ("upsert",), setup.l3_fails)
    l2 = make_vectors(folder / "l2", DIMENSION, engine=setup.engine)
    vectors = Failing(l2, ("upsert", "patch", "delete"), setup.l2_fails)
    cache = SemanticCache(vectors, Words(), setup.capacity, documents=documents)
    hours = _hours()
    settings: Mapping[str, Any] = (
        {"base_delay": 0.001, "max_delay": 0.01}
        if setup.thread
        else {"clock": lambda: next(hours), "sleep": lambda seconds: None}
    )
    writer = WriteBack(cache, documents, **settings)
    cache.writer = writer
    allocator = ContextAllocator(
        cache, texts, budget=setup.budget, top_k=2, least_score=0.2, counter=lambda text: len(text.split())
    )
    connection = sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)
    return Opened(texts, vectors, documents, cache, writer, allocator, SqliteSaver(connection))
