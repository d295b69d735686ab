"""An adapter to GPTCache with SQLite and FAISS; what is held are the live rows of its table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.replay.adapter import AdapterInfo, Ask, Setup, Unsupported
from softhit.check import check_int, check_real
from softhit.errors import MissingExtra

__all__ = ["ADAPTERS", "GptCache"]

_LIVE = (
    "SELECT a.answer FROM gptcache_answer a JOIN gptcache_question q ON q.id = a.question_id "
    "WHERE q.deleted = 0"
)


class GptCache:
    """GPTCache as its users build it: ``get``, and ``put`` after a miss; embeddings are precomputed.

    The store is SQLite in memory, the index FAISS. Where a trace has no vectors, each item has a fixed random
    unit vector of 64 numbers, so that different items are far below any useful threshold.

    Parameters
    ----------
    threshold : float
        Cosine from which a stored entry answers. GPTCache itself is given ``(1 + threshold) / 2``: with unit
        vectors and FAISS' squared distance, its ``similarity_threshold`` s means cosine >= 2 s - 1.
    policy : str
        ``LRU``, ``LFU``, ``FIFO`` or ``RR``.
    clean : int, optional
        Its ``clean_size``: how many entries it evicts at once; default: its own, a fifth of the capacity.
    top_k : int
        How many neighbours its index returns; its own default is 1.

    Raises
    ------
    MissingExtra
        gptcache, sqlalchemy or faiss-cpu is not installed; GPTCache would install them by itself.
    """

    name = "GPTCache"

    def __init__(
        self, threshold: float = 0.8, policy: str = "LRU", clean: int | None = None, top_k: int = 1
    ) -> None:
        self._threshold = check_real("threshold", threshold, low=-1.0, high=1.0)
        self._policy = policy
        self._clean = None if clean is None else check_int("clean", clean, low=0)
        self._top_k = check_int("top_k", top_k, low=1)
        self._path: str | None = None
        for project, module in (
            ("gptcache", "gptcache"),
            ("sqlalchemy", "sqlalchemy"),
            ("faiss-cpu", "faiss"),
        ):
            try:
                __import__(module)
            except ImportError as error:
                raise MissingExtra(project, "replay") from error
        self.version = (
            f"{version('gptcache')} (faiss-cpu {version('faiss-cpu')}, cachetools {version('cachetools')})"
        )
        self.name = f"GPTCache {policy}"

    def open(self, setup: Setup) -> None:
        """Make an empty cache; its eviction never returns if it is to evict none at a time (capacity < 5)."""
        if setup.sizes is not None:
            raise Unsupported("GPTCache counts entries; it has no sizes")
        self._no_pip()
        import faiss
        from gptcache import Cache, Config
        from gptcache.manager import CacheBase, VectorBase, get_data_manager
        from gptcache.processor.pre import get_prompt
        from gptcache.similarity_evaluation.distance import SearchDistanceEvaluation

        # one vector at a time: threads would only wait for each other
        faiss.omp_set_num_threads(1)
        self._setup = setup
        self._vector: NDArray[np.float32] = np.empty(0, np.float32)
        self._manager: Any = get_data_manager(
            CacheBase("sqlite", sql_url="sqlite://"),
            VectorBase("faiss", dimension=setup.dimension or 64, index_path=os.devnull, top_k=self._top_k),
            max_size=setup.capacity,
            clean_size=self._clean,
            eviction=self._policy,
        )
        self._cache: Any = Cache()
        self._cache.init(
            pre_embedding_func=get_prompt,
            embedding_func=lambda text, **_: self._vector,
            data_manager=self._manager,
            similarity_evaluation=SearchDistanceEvaluation(),
            config=Config(
                similarity_threshold=(1 + self._threshold) / 2, auto_flush=10**9, disable_report=True
            ),
        )

    def _no_pip(self) -> None:
        """Put a pip that fails first on the path: GPTCache runs ``pip install`` when it misses a library."""
        self._path = os.environ.get("PATH", os.defpath)
        os.environ["PATH"] = str(Path(__file__).with_name("no_pip")) + os.pathsep + self._path

    def _point(self, given: Any, item: int, step: int) -> NDArray[np.float32]:
        if given is not None:
            return np.asarray(given, np.float32)
        if item < 0 or self._setup.dimension:
            raise Unsupported(f"GPTCache needs a vector at step {step}: the trace has none there")
        drawn = np.random.default_rng([self._setup.seed, item]).standard_normal(64)
        return np.asarray(drawn / np.linalg.norm(drawn), np.float32)

    def step(self, ask: Ask) -> int:
        """Get; after a miss, put the arrival with its vector."""
        from gptcache.adapter.api import get, put

        if ask.weight > 0:
            self._vector = self._point(ask.vector, ask.query, ask.step)
            answer = get(f"step {ask.step}", cache_obj=self._cache)
            if answer is not None:
                return int(answer)
        if ask.arrival >= 0:
            self._vector = self._point(ask.arrival_vector, ask.arrival, ask.step)
            put(f"item {ask.arrival}", str(ask.arrival), cache_obj=self._cache)
        return -1

    def held(self) -> Iterable[int]:
        """Return the answers of the rows that are not marked deleted."""
        from sqlalchemy import text

        with self._manager.s.Session() as session:
            return {int(answer) for (answer,) in session.execute(text(_LIVE))}

    def close(self) -> None:
        """Restore the path and drop the store."""
        if self._path is not None:
            os.environ["PATH"] = self._path
        with contextlib.suppress(AttributeError):
            self._manager.s._engine.dispose()


ADAPTERS = (
    AdapterInfo(
        "gptcache",
        "GPTCache, SQLite and FAISS; contents: the rows of its table that are not marked deleted",
        "gptcache",
        "replay",
        GptCache,
    ),
)
