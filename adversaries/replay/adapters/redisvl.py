"""An adapter to RedisVL's SemanticCache, where a Redis with vector search is reachable by its address."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from adversaries.replay.adapter import AdapterInfo, Ask, Setup, Unsupported
from softhit.check import check_int, check_real
from softhit.errors import MissingExtra

__all__ = ["ADAPTERS", "RedisVl"]


class RedisVl:
    """``check``, and ``store`` after a miss, with the trace's vectors; contents are the keys in Redis.

    A SemanticCache has no capacity: it forgets by age only (``ttl``), or when Redis runs out of memory. So a
    replay breaks the capacity at the first step at which it holds more, unless one is as large as needed.

    Parameters
    ----------
    url : str
    threshold : float
        Cosine from which an entry answers; SemanticCache is given the distance ``1 - threshold``.
    ttl : int, optional
        Seconds.

    Raises
    ------
    MissingExtra
        redisvl is not installed.
    """

    def __init__(
        self, url: str = "redis://localhost:6379", threshold: float = 0.8, ttl: int | None = None
    ) -> None:
        try:
            import redisvl  # noqa: F401
        except ImportError as error:
            raise MissingExtra("redisvl", "replay") from error
        self._url = url
        self._threshold = check_real("threshold", threshold, low=-1.0, high=1.0)
        self._ttl = None if ttl is None else check_int("ttl", ttl, low=1)
        self._cache: Any = None
        self.name = "RedisVL SemanticCache"
        self.version = version("redisvl")

    def open(self, setup: Setup) -> None:
        """Make an index of its own name; :class:`Unsupported` if Redis or its search cannot be reached."""
        import redis
        from redisvl.extensions.cache.llm import SemanticCache
        from redisvl.utils.vectorize import CustomVectorizer

        if setup.sizes is not None or not setup.dimension:
            raise Unsupported("RedisVL needs a trace with vectors and without sizes")
        client: Any = None
        try:
            client = redis.Redis.from_url(self._url, socket_connect_timeout=3)
            client.ping()
            client.execute_command("FT._LIST")
        except (redis.RedisError, ValueError) as error:
            what = "has no vector search" if isinstance(error, redis.ResponseError) else "is not reachable"
            raise Unsupported(f"Redis at {self._url!r} {what}: {str(error).splitlines()[0]}") from None
        finally:
            if client is not None:
                client.close()
        zeros = [0.0] * setup.dimension
        self._prefix = f"softhit-{uuid.uuid4().hex[:12]}"
        self._cache = SemanticCache(
            name=self._prefix,
            distance_threshold=1 - self._threshold,
            ttl=self._ttl,
            vectorizer=CustomVectorizer(embed=lambda text, **_: zeros),
            redis_url=self._url,
        )

    def step(self, ask: Ask) -> int:
        """Check; after a miss, store the arrival."""
        if ask.weight > 0:
            if ask.vector is None:
                raise Unsupported(f"step {ask.step} has no vector")
            found = self._cache.check(vector=[float(x) for x in ask.vector])
            if found:
                return int(found[0]["response"])
        if ask.arrival >= 0:
            if ask.arrival_vector is None:
                raise Unsupported(f"step {ask.step} has no vector for its arrival")
            vector = [float(x) for x in ask.arrival_vector]
            self._cache.store(f"item {ask.arrival}", str(ask.arrival), vector=vector)
        return -1

    def held(self) -> Iterable[int]:
        """Return the responses of all keys below the prefix of the index, read from Redis itself."""
        client = self._cache.index.client
        keys = client.scan_iter(match=f"{self._prefix}:*", count=1000)
        responses = [client.hget(key, "response") for key in keys]
        # None: it expired between the two calls
        return {int(response) for response in responses if response is not None}

    def close(self) -> None:
        """Delete the index with its keys."""
        if self._cache is not None:
            with contextlib.suppress(Exception):
                self._cache.delete()
            self._cache = None


ADAPTERS = (
    AdapterInfo(
        "redisvl",
        "RedisVL's SemanticCache at url=...; contents: the keys in Redis",
        "redisvl",
        "replay",
        RedisVl,
    ),
)
