"""An adapter to LangChain's cache interface: its own in-memory cache, or any BaseCache that a user names."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from adversaries.replay.adapter import AdapterInfo, Ask, Setup, Unsupported
from softhit.errors import InvalidInput, MissingExtra

__all__ = ["ADAPTERS", "LangChain", "prompt_of", "vector_of"]

_LLM = "softhit"


def prompt_of(vector: Sequence[float]) -> str:
    """Return the prompt that carries a vector through an interface that takes text only.

    >>> vector_of(prompt_of([0.5, -1.0]))
    [0.5, -1.0]
    """
    return "vector " + base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def vector_of(prompt: str) -> list[float]:
    """Return the vector that a prompt of :func:`prompt_of` carries; the embedder of a user's cache calls it.

    Raises
    ------
    InvalidInput
        The prompt carries none.
    """
    kind, _, text = prompt.partition(" ")
    try:
        if kind != "vector":
            raise ValueError("it does not begin with the word vector")
        return [float(x) for x in np.frombuffer(base64.b64decode(text, validate=True), "<f4")]
    except ValueError as error:
        raise InvalidInput(f"prompt {prompt[:40]!r} carries no vector: {error}") from None


def _load(spec: str, what: str) -> Any:
    module, _, attribute = spec.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"{what} must be module:object, got {spec!r} ({error})") from error


class LangChain:
    """A ``BaseCache``: ``lookup``, and ``update`` after a miss, with the item's number as the generated text.

    Parameters
    ----------
    cache : str
        ``module:object``. A ``BaseCache``, which is cleared first, or a function of the capacity that returns
        one. Default: ``InMemoryCache(maxsize=capacity)`` of langchain_core.
    held : str, optional
        ``module:function`` that returns the generations (or texts) which a cache holds, read from its store.
        Default: the values of its attribute ``_cache``, as langchain_core's has it.
    vectors : bool
        Prompts carry the trace's vectors, and the cache's embedder reads them with :func:`vector_of`; for
        semantic caches. Default: a prompt is the item's number.

    Raises
    ------
    MissingExtra
        langchain-core is not installed.
    InvalidInput
        The object cannot be loaded, or is no ``BaseCache``.
    """

    def __init__(self, cache: str = "", held: str = "", vectors: bool = False) -> None:
        try:
            from langchain_core.caches import BaseCache
        except ImportError as error:
            raise MissingExtra("langchain-core", "replay") from error
        self._base: Any = BaseCache
        self._made: Any = _load(cache, "cache") if cache else _in_memory
        self._read: Callable[[Any], Iterable[Any]] = _load(held, "held") if held else _own_values
        self._vectors = bool(vectors)
        self.name = f"LangChain {cache or 'InMemoryCache'}"
        self.version = f"langchain-core {version('langchain-core')}"

    def open(self, setup: Setup) -> None:
        """Make the cache, or clear the one there is."""
        if setup.sizes is not None:
            raise Unsupported("LangChain's cache interface has no sizes")
        if self._vectors and not setup.dimension:
            raise Unsupported("vectors=true needs a trace with vectors")
        made = self._made
        self._cache: Any = made if isinstance(made, self._base) else made(setup.capacity)
        if not isinstance(self._cache, self._base):
            raise InvalidInput(f"{self.name} is no langchain_core BaseCache: {type(self._cache).__name__}")
        self._cache.clear()

    def _prompt(self, vector: Any, item: int, step: int) -> str:
        if self._vectors:
            if vector is None:
                raise Unsupported(f"step {step} has no vector")
            return prompt_of(vector)
        if item < 0:
            raise Unsupported(f"prompts are item numbers: the query of step {step} has not one item")
        return f"item {item}"

    def step(self, ask: Ask) -> int:
        """Look up; after a miss, update with the arrival."""
        from langchain_core.outputs import Generation

        if ask.weight > 0:
            found = self._cache.lookup(self._prompt(ask.vector, ask.query, ask.step), _LLM)
            if found:
                return int(found[0].text)
        if ask.arrival >= 0:
            prompt = self._prompt(ask.arrival_vector, ask.arrival, ask.step)
            # without a query nothing was looked up; nobody updates what is there
            if ask.weight > 0 or not self._cache.lookup(prompt, _LLM):
                self._cache.update(prompt, _LLM, [Generation(text=str(ask.arrival))])
        return -1

    def held(self) -> Iterable[int]:
        """Return the items whose generations the cache's own store holds."""
        return {int(getattr(one, "text", one)) for one in self._read(self._cache)}

    def close(self) -> None:
        """Clear the cache."""
        self._cache.clear()


def _in_memory(capacity: int) -> Any:
    from langchain_core.caches import InMemoryCache

    return InMemoryCache(maxsize=capacity)


def _own_values(cache: Any) -> Iterable[Any]:
    store = getattr(cache, "_cache", None)
    if not isinstance(store, dict):
        raise Unsupported(
            f"what a {type(cache).__name__} holds cannot be read: it has no dict _cache; "
            "held=module:function can say how"
        )
    return [generation for values in store.values() for generation in values]


ADAPTERS = (
    AdapterInfo(
        "langchain",
        "any BaseCache of LangChain, default InMemoryCache; contents: its dict, or held=module:function",
        "langchain-core",
        "replay",
        LangChain,
    ),
)
