"""What the formats of plain requests share: dense ids, and traces in which e_t = q_t."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from softhit.check import check_int
from softhit.errors import InvalidInput
from softhit.trace import DEFAULT_SCALE, Trace

__all__ = ["check_limit", "dense_ids", "next_access", "request_trace", "requests_to_write"]


def check_limit(limit: int | None) -> int | None:
    """Return how many requests to read at most; None: all of them."""
    return None if limit is None else check_int("limit", limit, low=0, high=2**62)


def dense_ids(values: Any) -> tuple[NDArray[np.int32], int]:
    """Map integers or strings to 0, 1, 2, ... in order of first appearance; return ids and their number.

    >>> dense_ids([70, 30, 70, 9])[0].tolist(), dense_ids(["b", "a", "b"])
    ([0, 1, 0, 2], (array([0, 1, 0], dtype=int32), 2))
    """
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    coded = array.dictionary_encode()
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int32), len(coded.dictionary)


def request_trace(
    ids: NDArray[np.int32], n_items: int, sizes: NDArray[np.int64] | None, metadata: dict[str, Any]
) -> Trace:
    """Return the hard trace with e_t = q_t, quality 1 and weight 1; ``sizes`` are per request, if given.

    An item's size is that of its first request; how many later requests state another one is put into
    the metadata as ``size_changes``.
    """
    per_item = np.ones(n_items, np.int64)
    if sizes is not None:
        # written back to front, so that the first request has the last word
        per_item[ids[::-1]] = sizes[::-1]
        metadata = {**metadata, "size_changes": int(np.count_nonzero(per_item[ids] != sizes))}
    return Trace(
        n_items=n_items,
        indptr=np.arange(len(ids) + 1, dtype=np.int64),
        items=ids,
        quality=np.full(len(ids), DEFAULT_SCALE, np.int32),
        arrivals=ids,
        sizes=per_item,
        metadata=metadata,
    )


def requests_to_write(trace: Trace, format: str) -> NDArray[np.int32]:
    """Return the requests of a trace that a format of plain requests can express, or say what it cannot."""
    lost = None
    if not trace.structure.requests:
        lost = "each step must ask for one item, which also arrives (e_t = q_t)"
    elif trace.n_steps == 0:
        lost = "the trace must have at least one step"
    elif np.any(trace.quality != trace.quality_scale):
        lost = "every quality must be 1"
    elif np.any(trace.weight != 1):
        lost = "every weight must be 1"
    if lost:
        raise InvalidInput(f"format {format!r} holds plain requests only: {lost}; use parquet or jsonl")
    return trace.items


def next_access(ids: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each request the 1-based number of the next request of the same item, -1 if none.

    >>> next_access(np.array([5, 6, 5, 5], np.int32)).tolist()
    [3, -1, 4, -1]
    """
    order = np.argsort(ids, kind="stable")
    result = np.full(len(ids), -1, np.int64)
    same = ids[order[1:]] == ids[order[:-1]]
    result[order[:-1][same]] = order[1:][same] + 1
    return result
