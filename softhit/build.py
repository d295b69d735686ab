"""Build traces from requests, arrays, clusters or embeddings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from softhit.check import as_array, check_choice, check_int, check_real, fail, unknown
from softhit.errors import InvalidInput
from softhit.trace import DEFAULT_SCALE, MAX_SCALE, Trace

__all__ = [
    "CosineClipped",
    "QualityRule",
    "Rescaled",
    "Threshold",
    "from_arrays",
    "from_clusters",
    "from_embeddings",
    "from_requests",
    "quality_rule",
]

Floats = NDArray[np.float64]

COSINE_GRID = 2.0**22
"""Cosines are rounded to multiples of 1/COSINE_GRID, 2.4e-7, so that equal vectors have equal cosines."""

# the sparse stubs know many classes and no common ground
sp: Any = scipy.sparse


class QualityRule(Protocol):
    """A named, typed rule that turns cosine similarity into quality in [0, 1]."""

    @property
    def name(self) -> str:
        """The rule with its parameters, as it appears in metadata."""
        ...

    def __call__(self, cosine: NDArray[Any]) -> NDArray[Any]:
        """Map similarities in [-1, 1] to qualities in [0, 1], elementwise."""
        ...


@dataclass(frozen=True)
class CosineClipped:
    """Quality = max(0, cosine), and 0 below ``floor``.

    >>> CosineClipped(0.5)(np.array([-0.2, 0.4, 0.9])).tolist()
    [0.0, 0.0, 0.9]
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "floor", check_real("floor", self.floor, low=0, high=1))

    @property
    def name(self) -> str:
        """``cosine_clipped(floor)``."""
        return f"cosine_clipped({self.floor:g})"

    def __call__(self, cosine: NDArray[Any]) -> NDArray[Any]:
        """Apply the rule."""
        value = np.clip(cosine, 0.0, 1.0)
        return np.where(cosine >= self.floor, value, 0.0)


@dataclass(frozen=True)
class Threshold:
    """Quality = 1 where cosine >= ``threshold``, else 0.

    >>> Threshold(0)(np.array([-0.2, 0.0, 0.9])).tolist()
    [0.0, 1.0, 1.0]
    """

    threshold: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", check_real("threshold", self.threshold, low=-1, high=1))

    @property
    def name(self) -> str:
        """``threshold(x)``."""
        return f"threshold({self.threshold:g})"

    def __call__(self, cosine: NDArray[Any]) -> NDArray[Any]:
        """Apply the rule."""
        return np.where(cosine >= self.threshold, 1.0, 0.0)


@dataclass(frozen=True)
class Rescaled:
    """Quality rises linearly from 0 at cosine ``low`` to 1 at cosine ``high``.

    >>> Rescaled(0.25, 0.75)(np.array([0.1, 0.5, 0.9])).tolist()
    [0.0, 0.5, 1.0]
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", check_real("low", self.low, low=-1, high=1))
        object.__setattr__(self, "high", check_real("high", self.high, low=-1, high=1))
        if self.low >= self.high:
            fail("high", self.high, f"above low = {self.low:g}")

    @property
    def name(self) -> str:
        """``rescaled(low,high)``."""
        return f"rescaled({self.low:g},{self.high:g})"

    def __call__(self, cosine: NDArray[Any]) -> NDArray[Any]:
        """Apply the rule."""
        return np.clip((cosine - self.low) / (self.high - self.low), 0.0, 1.0)


_RULES: dict[str, Any] = {"cosine_clipped": CosineClipped, "threshold": Threshold, "rescaled": Rescaled}


def quality_rule(text: str) -> QualityRule:
    """Parse a rule as it is written on a command line.

    >>> quality_rule("rescaled(0.2,0.8)")
    Rescaled(low=0.2, high=0.8)
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    if not match or match[1] not in _RULES:
        unknown("quality rule", text, sorted(_RULES))
    arguments = [a.strip() for a in (match[2] or "").split(",") if a.strip()]
    try:
        rule: QualityRule = _RULES[match[1]](*[float(a) for a in arguments])
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"quality rule {text!r}: {error}") from None
    return rule


def _to_grid(name: str, values: Any, scale: int) -> NDArray[np.int32]:
    array = as_array(name, values, "numbers in [0, 1]")
    if array.dtype.kind not in "iufb":
        fail(name, values, "numbers in [0, 1]")
    array = array.astype(np.float64)
    if len(array) and not (np.all(np.isfinite(array)) and array.min() >= 0 and array.max() <= 1):
        bad = int(np.flatnonzero(~(np.isfinite(array) & (array >= 0) & (array <= 1)))[0])
        fail(f"{name}[{bad}]", float(array[bad]), "a number in [0, 1]")
    units: NDArray[np.int32] = np.rint(array * scale).astype(np.int32)
    return units


def _row_ranks(step: NDArray[Any], score: Floats) -> NDArray[np.int32]:
    """Dense ranks per row: 0 for the highest score; equal scores share a rank."""
    order = np.lexsort((-score, step))
    new_row = np.r_[True, step[order][1:] != step[order][:-1]] if len(order) else np.zeros(0, bool)
    new_score = np.r_[True, score[order][1:] != score[order][:-1]] if len(order) else new_row
    group = np.cumsum(new_row | new_score) - 1
    first = np.maximum.accumulate(np.where(new_row, group, 0)) if len(order) else group
    ranks = np.empty(len(order), np.int32)
    ranks[order] = group - first
    return ranks


def _assemble(
    n_steps: int,
    n_items: int,
    step: NDArray[Any],
    item: NDArray[Any],
    units: NDArray[np.int32],
    score: Floats | None,
    scale: int,
    **rest: Any,
) -> Trace:
    if score is not None and len(score) and not np.all(np.isfinite(score)):
        bad = int(np.flatnonzero(~np.isfinite(score))[0])
        fail(f"score[{bad}]", float(score[bad]), "a finite number")
    if score is None:
        keep = units > 0
        step, item, units = step[keep], item[keep], units[keep]
    order = np.lexsort((item, step))
    step, item, units = step[order], item[order], units[order]
    indptr = np.zeros(n_steps + 1, np.int64)
    np.cumsum(np.bincount(step, minlength=n_steps), out=indptr[1:])
    ranks = None if score is None else _row_ranks(step, score[order])
    return Trace(
        n_items=n_items,
        indptr=indptr,
        items=item.astype(np.int32),
        quality=units,
        ranks=ranks,
        quality_scale=scale,
        **rest,
    )


def from_requests(
    requests: Any,
    n_items: int | None = None,
    quality: Any = 1.0,
    weight: Any = None,
    arrivals: Any = "request",
    quality_scale: int = DEFAULT_SCALE,
    metadata: Mapping[str, Any] | None = None,
) -> Trace:
    """Build a hard trace: step t asks for one item, which alone serves it.

    Parameters
    ----------
    requests : int[T]
        Item ids >= 0; -1 is a step that nothing serves.
    n_items : int, optional
        N; default: the largest id + 1.
    quality : float or float[T]
        Quality of the requested item, in [0, 1]; default 1 (a hit costs nothing).
    weight : int[T], optional
        w_t >= 0; default 1.
    arrivals : "request" or int[T]
        ``"request"`` (default): e_t = q_t, classical paging. Else the arrival of each step, -1 for none.

    Examples
    --------
    >>> from_requests([3, 1, 3]).n_items
    4
    >>> from_requests([]).n_steps
    0
    """
    ids = as_array("requests", requests, "a one-dimensional array of item ids")
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
        fail("requests", requests, "a one-dimensional array of item ids")
    ids = ids.astype(np.int64)
    if len(ids) and ids.min() < -1:
        fail("requests", int(ids.min()), "item ids >= 0, or -1 for none")
    count = int(ids.max()) + 1 if len(ids) else 0
    scale = check_int("quality_scale", quality_scale, low=1, high=MAX_SCALE)
    if isinstance(arrivals, str):
        check_choice("arrivals", arrivals, ["request"])
        coming = ids
    else:
        coming = as_array("arrivals", arrivals, "'request' or an array of item ids")
        if coming.ndim != 1 or (len(coming) and coming.dtype.kind not in "iu"):
            fail("arrivals", arrivals, "'request' or an array of item ids")
    if n_items is None:
        n = max(count, int(coming.max(initial=-1)) + 1)
    else:
        n = check_int("n_items", n_items, low=count)
    worth = as_array("quality", quality, "numbers in [0, 1]")
    units = _to_grid("quality", np.broadcast_to(worth, ids.shape) if worth.ndim == 0 else worth, scale)
    if len(units) != len(ids):
        raise InvalidInput(f"quality must have length {len(ids)}, got {len(units)}")
    keep = (ids >= 0) & (units > 0)
    indptr = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(keep, out=indptr[1:])
    return Trace(
        n_items=n,
        indptr=indptr,
        items=ids[keep],
        quality=units[keep],
        arrivals=coming,
        weight=weight,
        quality_scale=scale,
        metadata=metadata or {"generator": "requests"},
    )


def from_arrays(
    quality: Any,
    arrivals: Any = None,
    score: Any = None,
    weight: Any = None,
    sizes: Any = None,
    quality_scale: int = DEFAULT_SCALE,
    query_vectors: Any = None,
    item_vectors: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Trace:
    """Build a trace from a quality matrix.

    Parameters
    ----------
    quality : array (T, N) or scipy sparse matrix (T, N)
        s_t(i) in [0, 1], rounded once to the grid ``1/quality_scale``.
    arrivals : int[T], optional
        e_t, -1 for none (default: none anywhere).
    score : array or sparse matrix (T, N), optional
        r_t(i): what the retriever ranks by. With a dense score every finite entry is retrievable (use
        ``-inf`` for "cannot be retrieved"); with a sparse one every stored entry is, also where its
        quality is 0. Default: rank by quality.
    weight : int[T], sizes : int[N], optional

    Examples
    --------
    >>> t = from_arrays([[1.0, 0.4], [0.0, 0.7]], arrivals=[0, 1])
    >>> t.row(0)[1].tolist(), t.row(1)[0].tolist()
    ([10000, 4000], [1])
    """
    scale = check_int("quality_scale", quality_scale, low=1, high=MAX_SCALE)
    if sp.issparse(quality):
        matrix = sp.coo_array(quality)
        if matrix.ndim != 2:
            fail("quality", matrix.shape, "a matrix of shape (T, N)")
        n_steps, n_items = matrix.shape
        step, item = matrix.coords
        values = matrix.data
        if len(np.unique(step.astype(np.int64) * max(1, n_items) + item)) != len(step):
            raise InvalidInput("quality has duplicate entries; sum or drop them first")
    else:
        dense = as_array("quality", quality, "a matrix of numbers of shape (T, N)", np.float64)
        if dense.ndim != 2:
            fail("quality", dense.shape, "a matrix of shape (T, N)")
        n_steps, n_items = dense.shape
        bad = np.argwhere(~((dense >= 0) & (dense <= 1)))
        if len(bad):
            t, i = (int(x) for x in bad[0])
            fail(f"quality[{t}, {i}]", float(dense[t, i]), "a number in [0, 1]")
        step, item = np.nonzero(dense)
        values = dense[step, item]
    units = _to_grid("quality", values, scale)
    rest: dict[str, Any] = {
        "arrivals": arrivals,
        "weight": weight,
        "sizes": sizes,
        "query_vectors": query_vectors,
        "item_vectors": item_vectors,
        "metadata": metadata or {"generator": "arrays"},
    }
    if score is None:
        return _assemble(n_steps, n_items, step, item, units, None, scale, **rest)
    if not sp.issparse(score):
        score = as_array("score", score, f"a matrix of numbers of shape ({n_steps}, {n_items})", np.float64)
    if score.shape != (n_steps, n_items):
        fail("score", score.shape, f"a matrix of shape ({n_steps}, {n_items})")
    if sp.issparse(score):
        ranked = sp.coo_array(score)
        at, what = ranked.coords
        points = np.asarray(ranked.data, dtype=np.float64)
    else:
        grid = score
        if np.any(np.isnan(grid)) or np.any(np.isposinf(grid)):
            fail("score", "NaN or +inf", "finite numbers, or -inf for entries that cannot be retrieved")
        at, what = np.nonzero(grid > -np.inf)
        points = grid[at, what]
    key = at.astype(np.int64) * max(1, n_items) + what
    known = step.astype(np.int64) * max(1, n_items) + item
    missing = ~np.isin(known, key) & (units > 0)
    if np.any(missing):
        j = int(np.flatnonzero(missing)[0])
        raise InvalidInput(f"score must be given where quality is > 0; missing at ({step[j]}, {item[j]})")
    worth = np.zeros(len(key), np.int32)
    order = np.argsort(key, kind="stable")
    inside = units > 0
    worth[order[np.searchsorted(key[order], known[inside])]] = units[inside]
    return _assemble(n_steps, n_items, at, what, worth, points, scale, **rest)


def from_clusters(
    query_clusters: Any,
    item_clusters: Any,
    arrivals: Any = None,
    quality: float = 1.0,
    weight: Any = None,
    quality_scale: int = DEFAULT_SCALE,
    metadata: Mapping[str, Any] | None = None,
) -> Trace:
    """Build a trace in which similarity is an equivalence: items serve the queries of their cluster.

    Parameters
    ----------
    query_clusters : int[T]
        Cluster of each query; -1: no item serves it.
    item_clusters : int[N]
        Cluster of each item, >= 0.
    arrivals : int[T], optional
        e_t (an item id), -1 for none.
    quality : float
        Quality within a cluster, in [0, 1].

    Examples
    --------
    >>> from_clusters([0, 1], [0, 0, 1], arrivals=[1, 2]).row(0)[0].tolist()
    [0, 1]
    """
    allowed = "a one-dimensional array of integers"
    asks = as_array("query_clusters", query_clusters, allowed)
    owns = as_array("item_clusters", item_clusters, allowed)
    for name, array, least in (("query_clusters", asks, -1), ("item_clusters", owns, 0)):
        if array.ndim != 1 or (len(array) and (array.dtype.kind not in "iu" or array.min() < least)):
            fail(name, array, f"a one-dimensional array of integers >= {least}")
    scale = check_int("quality_scale", quality_scale, low=1, high=MAX_SCALE)
    units = _to_grid("quality", np.array([check_real("quality", quality, 0, 1)]), scale)[0]
    order = np.argsort(owns, kind="stable")
    low = np.searchsorted(owns[order], asks, side="left")
    high = np.searchsorted(owns[order], asks, side="right")
    counts = (high - low) if units > 0 else np.zeros(len(asks), np.int64)
    indptr = np.zeros(len(asks) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    offset = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
    items = order[np.repeat(low, counts) + offset]
    return Trace(
        n_items=len(owns),
        indptr=indptr,
        items=items.astype(np.int32),
        quality=np.full(len(items), units, np.int32),
        arrivals=arrivals,
        weight=weight,
        quality_scale=scale,
        metadata=metadata or {"generator": "clusters"},
    )


def from_embeddings(
    query_vectors: Any,
    item_vectors: Any,
    arrivals: Any = None,
    rule: QualityRule | str = "cosine_clipped",
    top_m: int | None = None,
    candidates: str = "all",
    relevance: Any = None,
    weight: Any = None,
    sizes: Any = None,
    quality_scale: int = DEFAULT_SCALE,
    keep_vectors: bool = False,
    block_bytes: int = 1 << 26,
    metadata: Mapping[str, Any] | None = None,
) -> Trace:
    """Build a trace from unit vectors, in blocks, without ever holding the whole similarity matrix.

    Cosines are computed in double precision and rounded to 22 binary digits. So equal vectors tie, a vector's
    cosine with itself is 1, and blocks and libraries, which differ in the last bits, give one trace.

    Parameters
    ----------
    query_vectors : float32 (T, d), item_vectors : float32 (N, d)
        Rows of norm 1 (within 1e-3). Rows of steps with weight 0 are not looked at.
    arrivals : int[T], optional
        e_t, -1 for none.
    rule : QualityRule or str
        Named rule from cosine to quality: ``cosine_clipped(floor)``, ``threshold(x)``, ``rescaled(a,b)``.
    top_m : int, optional
        Keep only the m most similar candidates of each query (ties to the smaller item id); default all.
    candidates : {"all", "arrived"}
        ``arrived``: only items that arrived at this step or before can be candidates of a query; right for
        the ``stream`` variant, where nothing else can be held.
    relevance : scipy sparse matrix (T, N), optional
        True quality in [0, 1]. Then similarity is only the *score* that the retriever ranks by: entries
        are the candidates with quality from ``relevance`` (0 where it has none) plus all relevant items.
    block_bytes : int
        Approximate working memory for one block of similarities.

    Examples
    --------
    >>> v = np.eye(3, dtype=np.float32)
    >>> from_embeddings(v[[0, 2]], v, rule="threshold(0.9)").items.tolist()
    [0, 2]
    """
    allowed = "a matrix of numbers"
    queries = np.ascontiguousarray(as_array("query_vectors", query_vectors, allowed, np.float32))
    things = np.ascontiguousarray(as_array("item_vectors", item_vectors, allowed, np.float32))
    if queries.ndim != 2 or things.ndim != 2 or queries.shape[1] != things.shape[1]:
        raise InvalidInput(
            "query_vectors and item_vectors must be matrices of equal width, "
            f"got {queries.shape} and {things.shape}"
        )
    scale = check_int("quality_scale", quality_scale, low=1, high=MAX_SCALE)
    check_choice("candidates", candidates, ["all", "arrived"])
    how = quality_rule(rule) if isinstance(rule, str) else rule
    n_steps, n_items = len(queries), len(things)
    mass = np.ones(n_steps, np.int32) if weight is None else np.asarray(weight)
    if mass.shape != (n_steps,):
        raise InvalidInput(f"weight must have length {n_steps}, got shape {mass.shape}")
    asked = np.flatnonzero(mass > 0)
    for name, array, rows in (
        ("query_vectors", queries, asked),
        ("item_vectors", things, np.arange(n_items)),
    ):
        norms = np.sqrt(np.einsum("ij,ij->i", array, array))[rows]
        wrong = np.flatnonzero(~(np.abs(norms - 1) < 1e-3))
        if len(wrong):
            row = int(wrong[0])
            raise InvalidInput(f"{name} must have rows of norm 1; row {rows[row]} has norm {norms[row]:.6g}")
    limit = n_items if top_m is None else min(n_items, check_int("top_m", top_m, low=1))
    first = np.full(n_items, n_steps, np.int64)
    if candidates == "arrived":
        if arrivals is None:
            raise InvalidInput("candidates='arrived' needs arrivals")
        coming = np.asarray(arrivals)
        if coming.shape != (n_steps,) or coming.dtype.kind not in "iu" or coming.max(initial=-1) >= n_items:
            fail("arrivals", arrivals, f"{n_steps} item ids below {n_items}, -1 for none")
        seen = np.flatnonzero(coming >= 0)[::-1]
        first[coming[seen]] = seen
    truth = None if relevance is None else sp.csr_array(relevance)
    if truth is not None and truth.shape != (n_steps, n_items):
        fail("relevance", truth.shape, f"a matrix of shape ({n_steps}, {n_items})")
    height = max(1, int(block_bytes // max(1, 8 * n_items)))
    columns = things.T.astype(np.float64)
    steps, whats, worths, scores = [], [], [], []
    for low in range(0, len(asked), height):
        at = asked[low : low + height]
        # in double precision and on a grid: a product's last bits depend on its place in the block and on the
        # library, and would break ties between equal vectors at random
        cosine = np.rint((queries[at].astype(np.float64) @ columns) * COSINE_GRID) / COSINE_GRID
        if candidates == "arrived":
            cosine[first[None, :] > at[:, None]] = -np.inf
        if limit < n_items:
            # ties at the boundary must not depend on the partition: keep strictly better, then smallest ids
            edge = -np.partition(-cosine, limit - 1, axis=1)[:, limit - 1]
            keep = cosine > edge[:, None]
            tied = (cosine == edge[:, None]) & np.isfinite(cosine)
            keep |= tied & (np.cumsum(tied, axis=1) <= limit - keep.sum(axis=1)[:, None])
        else:
            keep = np.isfinite(cosine)
        if truth is not None:
            given = truth[at].toarray()
            keep |= given > 0
            local, what = np.nonzero(keep)
            worth = _to_grid("relevance", given[local, what], scale)
            clean = np.where(np.isfinite(cosine[local, what]), cosine[local, what], -2.0)
            scores.append(clean)
        else:
            local, what = np.nonzero(keep)
            worth = _to_grid("quality", how(cosine[local, what]), scale)
            positive = worth > 0
            local, what, worth = local[positive], what[positive], worth[positive]
        steps.append(at[local])
        whats.append(what.astype(np.int32))
        worths.append(worth)
    step = np.concatenate(steps) if steps else np.zeros(0, np.int64)
    item = np.concatenate(whats) if whats else np.zeros(0, np.int32)
    units = np.concatenate(worths) if worths else np.zeros(0, np.int32)
    score = (np.concatenate(scores) if scores else np.zeros(0)) if truth is not None else None
    facts = {"generator": "embeddings", "rule": how.name, "top_m": top_m, "candidates": candidates}
    return _assemble(
        n_steps,
        n_items,
        step,
        item,
        units,
        score,
        scale,
        arrivals=arrivals,
        weight=weight,
        sizes=sizes,
        query_vectors=queries if keep_vectors else None,
        item_vectors=things if keep_vectors else None,
        metadata={**facts, **(metadata or {})},
    )
