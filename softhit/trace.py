"""The trace: which item serves which step how well, what arrives, what it weighs; immutable and hashed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.check import as_array, check_int, fail
from softhit.errors import InvalidInput
from softhit.jit import jit

__all__ = ["DEFAULT_SCALE", "MAX_SCALE", "Structure", "Trace"]

DEFAULT_SCALE = 10_000
MAX_SCALE = 1_000_000_000
_MAX_COUNT = 2**31 - 2

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Structure:
    """Facts about a trace that decide which solvers apply.

    Attributes
    ----------
    hard : bool
        At most one entry per row: a query is served by one item or by none.
    requests : bool
        ``hard``, and each step asks for the very item that arrives (e_t = q_t): classical paging.
    classes : int32[N] or None
        If rows are whole equivalence classes of items with one quality each, the class of each item
        (-1: serves nothing). Such a trace has the optimum of a hard one.
    unit_sizes : bool
        All sizes are 1.
    scored : bool
        The retriever ranks by something else than quality.
    nonzeros : int
        Stored entries.
    """

    hard: bool
    requests: bool
    classes: Ints | None
    unit_sizes: bool
    scored: bool
    nonzeros: int


def _frozen(name: str, value: Any, dtype: type[np.signedinteger[Any]], length: int | None) -> NDArray[Any]:
    array = as_array(name, value, "a one-dimensional array of integers")
    if array.ndim != 1:
        fail(name, value, "a one-dimensional array")
    if length is not None and len(array) != length:
        raise InvalidInput(f"{name} must have length {length}, got {len(array)}")
    whole = array.dtype.kind in "iub" or len(array) == 0
    if not whole and (array.dtype.kind != "f" or not np.all(np.isfinite(array) & (array == np.rint(array)))):
        fail(name, value, "an array of integers")
    info = np.iinfo(dtype)
    if len(array) and (array.min() < info.min or array.max() > info.max):
        fail(name, value, f"an array of integers in {info.min}..{info.max}")
    result = np.array(array, dtype=dtype, copy=True, order="C")
    result.setflags(write=False)
    return result


def _vectors(name: str, value: Any, rows: int) -> NDArray[np.float32] | None:
    if value is None:
        return None
    given = as_array(name, value, "a matrix of numbers", np.float32)
    array: NDArray[np.float32] = np.array(given, copy=True, order="C")
    if array.ndim != 2 or array.shape[0] != rows:
        raise InvalidInput(f"{name} must have shape ({rows}, d), got {array.shape}")
    norms = np.sqrt(np.einsum("ij,ij->i", array, array, dtype=np.float64))
    if not np.all(np.abs(norms - 1) < 1e-3):
        bad = int(np.flatnonzero(~(np.abs(norms - 1) < 1e-3))[0])
        raise InvalidInput(f"{name} must have rows of norm 1; row {bad} has norm {norms[bad]:.6g}")
    array.setflags(write=False)
    return array


@jit
def _rows(indptr: Any, items: Any, arrivals: Any) -> Any:
    """Return whether each row has at most one entry, and whether each is exactly the arrival."""
    requests = True
    for t in range(len(arrivals)):
        count = indptr[t + 1] - indptr[t]
        if count > 1:
            return False, False
        if count == 0 or items[indptr[t]] != arrivals[t]:
            requests = False
    return True, requests


@jit
def _whole_classes(indptr: Any, items: Any, quality: Any, classes: Any) -> Any:
    """Number the classes in order of appearance; False if some row is not a whole class of one quality."""
    sizes = np.empty(len(classes), np.int64)
    found = 0
    for t in range(len(indptr) - 1):
        a = indptr[t]
        b = indptr[t + 1]
        if a == b:
            continue
        c = classes[items[a]]
        if c < 0:
            sizes[found] = b - a
            for x in range(a, b):
                if classes[items[x]] >= 0:
                    return False
                classes[items[x]] = found
            found += 1
        elif sizes[c] != b - a:
            return False
        for x in range(a, b):
            if quality[x] != quality[a] or (c >= 0 and classes[items[x]] != c):
                return False
    return True


@dataclass(frozen=True, eq=False)
class Trace:
    """One instance of the problem without its capacity and switching cost.

    Rows are compressed (CSR): step ``t`` has the entries ``indptr[t]:indptr[t+1]`` of ``items``,
    ``quality`` and ``ranks``. An item that is absent from a row has quality 0 there and cannot be
    retrieved. Build traces with :func:`softhit.from_requests`, :func:`softhit.from_arrays`,
    :func:`softhit.from_clusters` or :func:`softhit.from_embeddings`; this constructor takes the stored
    integers and checks them all.

    Parameters
    ----------
    n_items : int
        N; items are 0..N-1.
    indptr : int64[T+1]
    items : int32[nnz]
        Ascending within a row.
    quality : int32[nnz]
        In units of ``1/quality_scale``, 0..quality_scale. Zero is stored only together with ``ranks``.
    arrivals : int32[T]
        Item e_t that may enter at step t in the ``stream`` variant; -1: none. Default: none.
    weight : int32[T]
        w_t >= 0; 0 = the step has no query. Default 1.
    sizes : int64[N]
        Size of each item, >= 1. Default 1.
    ranks : int32[nnz], optional
        What the retriever ranks by, per row: 0 first, equal scores share a rank, ties go to the smaller
        item id. Default: by quality.
    quality_scale : int
        Default 10000.
    query_vectors, item_vectors : float32[T, d], float32[N, d], optional
        Unit vectors; carried along, not part of the hash.
    metadata : mapping
        JSON-able facts (generator, parameters, seed, source); not part of the hash.

    Raises
    ------
    InvalidInput
        An array has the wrong shape, range or order; the message names it.

    Examples
    --------
    >>> from softhit import from_requests
    >>> trace = from_requests([0, 1, 2, 0])
    >>> trace.n_steps, trace.n_items, trace.structure.requests
    (4, 3, True)
    """

    n_items: int
    indptr: Longs
    items: Ints
    quality: Ints
    arrivals: Ints = None  # type: ignore[assignment]
    weight: Ints = None  # type: ignore[assignment]
    sizes: Longs = None  # type: ignore[assignment]
    ranks: Ints | None = None
    quality_scale: int = DEFAULT_SCALE
    query_vectors: NDArray[np.float32] | None = None
    item_vectors: NDArray[np.float32] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        given: dict[str, Any] = vars(self)
        if not isinstance(given["metadata"], Mapping):
            fail("metadata", given["metadata"], "a mapping of facts")
        n_items = check_int("n_items", self.n_items, low=0, high=_MAX_COUNT)
        scale = check_int("quality_scale", self.quality_scale, low=1, high=MAX_SCALE)
        put("n_items", n_items)
        put("quality_scale", scale)
        indptr = _frozen("indptr", self.indptr, np.int64, None)
        if len(indptr) < 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
            fail("indptr", self.indptr, "a non-decreasing array that starts at 0")
        n_steps, nnz = len(indptr) - 1, int(indptr[-1])
        if n_steps > _MAX_COUNT:
            fail("number of steps", n_steps, f"at most {_MAX_COUNT}")
        items = _frozen("items", self.items, np.int32, nnz)
        quality = _frozen("quality", self.quality, np.int32, nnz)
        if nnz:
            if items.min() < 0 or items.max() >= n_items:
                bad = int(np.flatnonzero((items < 0) | (items >= n_items))[0])
                fail(f"items[{bad}]", int(items[bad]), f"an item id in 0..{n_items - 1}")
            step = np.repeat(np.arange(n_steps, dtype=np.int32), np.diff(indptr))
            unsorted = (np.diff(items) <= 0) & (step[1:] == step[:-1])
            if np.any(unsorted):
                bad = int(step[np.flatnonzero(unsorted)[0]])
                raise InvalidInput(f"items must be ascending and unique within each row; row {bad} is not")
            if quality.min() < 0 or quality.max() > scale:
                bad = int(np.flatnonzero((quality < 0) | (quality > scale))[0])
                fail(f"quality[{bad}]", int(quality[bad]), f"an integer in 0..{scale}")
        ranks = None if self.ranks is None else _frozen("ranks", self.ranks, np.int32, nnz)
        if ranks is None and nnz and quality.min() == 0:
            raise InvalidInput("quality must be > 0 for stored entries when there is no score")
        if ranks is not None and nnz and ranks.min() < 0:
            fail("ranks", int(ranks.min()), "integers >= 0")
        if given["arrivals"] is None:
            arrivals = _frozen("arrivals", np.full(n_steps, -1), np.int32, n_steps)
        else:
            arrivals = _frozen("arrivals", self.arrivals, np.int32, n_steps)
            if n_steps and (arrivals.min() < -1 or arrivals.max() >= n_items):
                bad = int(np.flatnonzero((arrivals < -1) | (arrivals >= n_items))[0])
                fail(
                    f"arrivals[{bad}]", int(arrivals[bad]), f"an item id in 0..{n_items - 1}, or -1 for none"
                )
        ones = np.ones(n_steps, np.int32) if given["weight"] is None else self.weight
        weight = _frozen("weight", ones, np.int32, n_steps)
        if n_steps and weight.min() < 0:
            fail("weight", int(weight.min()), "integers >= 0")
        unit = np.ones(n_items, np.int64) if given["sizes"] is None else self.sizes
        sizes = _frozen("sizes", unit, np.int64, n_items)
        if n_items and (sizes.min() < 1 or sizes.max() > 2**40):
            fail("sizes", int(sizes.min()), "integers in 1..2**40")
        for name, value in (
            ("indptr", indptr),
            ("items", items),
            ("quality", quality),
            ("ranks", ranks),
            ("arrivals", arrivals),
            ("weight", weight),
            ("sizes", sizes),
            ("query_vectors", _vectors("query_vectors", self.query_vectors, n_steps)),
            ("item_vectors", _vectors("item_vectors", self.item_vectors, n_items)),
            # a copy to the bottom: what the caller does to his lists later is no business of this trace
            ("metadata", copy.deepcopy(dict(self.metadata))),
        ):
            put(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        # arrays come back from a pickle or a deep copy writable; what was derived from them stays behind
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def n_steps(self) -> int:
        """T, the number of steps, with or without a query."""
        return len(self.indptr) - 1

    @property
    def n_queries(self) -> int:
        """The number of steps with weight > 0."""
        return int(np.count_nonzero(self.weight))

    @property
    def total_weight(self) -> int:
        """The cost of serving nothing at all: the sum of weights."""
        return int(self.weight.sum(dtype=np.int64))

    def row(self, step: int) -> tuple[Ints, Ints]:
        """Return the items and qualities (units) stored for ``step``."""
        a, b = self.indptr[step], self.indptr[step + 1]
        return self.items[a:b], self.quality[a:b]

    @cached_property
    def hash(self) -> str:
        """SHA-256 (hex) of the canonical little-endian form; vectors and metadata do not enter.

        The form: the ASCII line ``softhit-trace-1\\n``; n_items, n_steps, nnz, quality_scale and
        has_ranks (0 or 1) as int64; then indptr (int64), items, quality, ranks if any (int32), arrivals,
        weight (int32) and sizes (int64).
        """
        digest = hashlib.sha256(b"softhit-trace-1\n")
        head = [self.n_items, self.n_steps, len(self.items), self.quality_scale, int(self.ranks is not None)]
        digest.update(np.array(head, "<i8").tobytes())
        parts = [(self.indptr, "<i8"), (self.items, "<i4"), (self.quality, "<i4")]
        if self.ranks is not None:
            parts.append((self.ranks, "<i4"))
        parts += [(self.arrivals, "<i4"), (self.weight, "<i4"), (self.sizes, "<i8")]
        for array, kind in parts:
            digest.update(np.ascontiguousarray(array, dtype=kind).data)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.hash == other.hash

    def __hash__(self) -> int:
        return int(self.hash[:15], 16)

    def __repr__(self) -> str:
        name = self.metadata.get("generator") or self.metadata.get("source") or "trace"
        return (
            f"<Trace {name}: {self.n_steps} steps ({self.n_queries} queries), {self.n_items} items, "
            f"{len(self.items)} entries, {self.hash[:12]}>"
        )

    @cached_property
    def structure(self) -> Structure:
        """Facts that decide which solvers apply (see :class:`Structure`)."""
        hard, requests = _rows(self.indptr, self.items, self.arrivals)
        return Structure(
            hard=bool(hard),
            requests=bool(requests),
            classes=self._classes() if self.ranks is None else None,
            unit_sizes=bool(np.all(self.sizes == 1)),
            scored=self.ranks is not None,
            nonzeros=len(self.items),
        )

    def _classes(self) -> Ints | None:
        classes = np.full(self.n_items, -1, np.int32)
        if not _whole_classes(self.indptr, self.items, self.quality, classes):
            return None
        classes.setflags(write=False)
        return classes

    @cached_property
    def requests(self) -> Ints:
        """The item that each step of a hard trace asks for, int32[T]; -1 where nothing serves the step.

        Raises
        ------
        InvalidInput
            The trace is not hard.
        """
        if not self.structure.hard:
            raise InvalidInput("requests are defined for hard traces only (at most one entry per row)")
        result = np.full(self.n_steps, -1, np.int32)
        result[np.flatnonzero(np.diff(self.indptr))] = self.items
        result.setflags(write=False)
        return result

    def prefix(self, n_steps: int) -> Trace:
        """Return the trace of the first ``n_steps`` steps over the same items.

        >>> from softhit import from_requests
        >>> from_requests([0, 1, 2, 0]).prefix(2).requests.tolist()
        [0, 1]
        """
        n = check_int("n_steps", n_steps, low=0, high=self.n_steps)
        end = int(self.indptr[n])
        return Trace(
            n_items=self.n_items,
            indptr=self.indptr[: n + 1],
            items=self.items[:end],
            quality=self.quality[:end],
            arrivals=self.arrivals[:n],
            weight=self.weight[:n],
            sizes=self.sizes,
            ranks=None if self.ranks is None else self.ranks[:end],
            quality_scale=self.quality_scale,
            query_vectors=None if self.query_vectors is None else self.query_vectors[:n],
            item_vectors=self.item_vectors,
            metadata={**self.metadata, "prefix": n},
        )
