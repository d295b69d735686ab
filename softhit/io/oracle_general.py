"""libCacheSim's oracleGeneral: 24-byte little-endian records of time, id, size and next access."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.io.requests import check_limit, dense_ids, next_access, request_trace, requests_to_write
from softhit.trace import Trace

__all__ = ["RECORD", "count_records", "read_oracle_general", "records", "write_oracle_general"]

RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
_CHUNK = 1 << 20


def count_records(path: str | os.PathLike[str]) -> int:
    """Return the number of requests in a file.

    Raises
    ------
    InvalidInput
        The file is empty, or ends within a record.
    """
    name = existing(path, "oracleGeneral file")
    length = name.stat().st_size
    if length % RECORD.itemsize:
        raise InvalidInput(
            f"{str(name)!r} is not oracleGeneral, or it is cut off: {length} bytes are no whole number of "
            f"{RECORD.itemsize}-byte records"
        )
    if length == 0:
        raise InvalidInput(f"{str(name)!r} is empty: it holds no request")
    return length // RECORD.itemsize


def records(
    ids: NDArray[np.int32], sizes: NDArray[np.int64], following: NDArray[np.int64], start: int
) -> bytes:
    """Return the records of the requests from step ``start`` on; ``sizes`` are per item."""
    made = np.empty(len(ids), RECORD)
    made["time"] = np.arange(start, start + len(ids))
    made["id"] = ids.astype(np.uint64) + np.uint64(1)
    made["size"] = sizes[ids]
    made["next"] = following
    return made.tobytes()


def read_oracle_general(
    path: str | os.PathLike[str], use_sizes: bool = False, limit: int | None = None
) -> Trace:
    """Read requests as a hard trace with e_t = q_t.

    Ids become 0, 1, 2, ... in order of first appearance; time and next access are not kept.

    Parameters
    ----------
    use_sizes : bool
        Keep object sizes (that of the first request); default: unit sizes.
    limit : int, optional
        Read only the first ``limit`` requests.

    Raises
    ------
    InvalidInput
        The file is empty, or ends within a record; a size of 0 with ``use_sizes``.
    """
    limit = check_limit(limit)
    name = existing(path, "oracleGeneral file")
    count_records(name)
    found = np.memmap(name, RECORD, mode="r")[:limit]
    ids, n_items = dense_ids(np.ascontiguousarray(found["id"]))
    sizes = None
    if use_sizes:
        sizes = found["size"].astype(np.int64)
        if sizes.min(initial=1) < 1:
            bad = int(np.flatnonzero(sizes < 1)[0])
            raise InvalidInput(f"{str(name)!r}: record {bad + 1} has size 0; sizes must be >= 1 to be used")
    return request_trace(ids, n_items, sizes, {"source": Path(name).name, "format": "oracleGeneral"})


def write_oracle_general(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace of plain requests; ids are item + 1, time is the step.

    Raises
    ------
    InvalidInput
        The trace is more than plain requests (then the message says what), or an item exceeds 2**32 - 1.
    """
    ids = requests_to_write(trace, "oracleGeneral")
    if trace.sizes.max() >= 2**32:
        raise InvalidInput(f"oracleGeneral holds sizes below 2**32, got {int(trace.sizes.max())}")
    following = next_access(ids)
    with replacing(path) as temporary, temporary.open("wb") as out:
        for a in range(0, len(ids), _CHUNK):
            b = a + _CHUNK
            out.write(records(ids[a:b], trace.sizes, following[a:b], a))
