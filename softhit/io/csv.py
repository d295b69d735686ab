"""Request csv with the columns version, time, op, size, lbn, which libCacheSim and Caffeine both read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.io.requests import check_limit, dense_ids, request_trace, requests_to_write
from softhit.trace import Trace

__all__ = ["COLUMNS", "csv_batches", "csv_lines", "read_csv", "write_csv"]

COLUMNS = ("version", "time", "op", "size", "lbn")
_CHUNK = 1 << 20


def _header(name: str) -> bool:
    """Whether the first line is a header; raises if it is neither that nor a request."""
    with open(name, "rb") as file:
        first = file.readline(10_000).decode("utf-8", "replace").strip()
    cells = [cell.strip().lower() for cell in first.split(",")]
    if not first:
        raise InvalidInput(f"{name!r} is empty: it holds no request")
    if tuple(cells) == COLUMNS:
        return True
    if len(cells) != len(COLUMNS) or not re.fullmatch(r"\d+", cells[-1]):
        raise InvalidInput(
            f"{name!r} must have the columns {','.join(COLUMNS)} (a header line is optional); "
            f"its first line is {first[:60]!r}"
        )
    return False


def csv_batches(path: str | os.PathLike[str]) -> Iterator[pa.RecordBatch]:
    """Read the columns time, size and lbn, a block at a time.

    Raises
    ------
    InvalidInput
        Other columns, a value that is missing or no number, or time that runs backwards; names the line.
    """
    name = str(existing(path, "csv file"))
    header = _header(name)
    kinds = {
        "version": pa.string(),
        "time": pa.float64(),
        "op": pa.string(),
        "size": pa.int64(),
        "lbn": pa.int64(),
    }
    line = 2 if header else 1
    before = -np.inf
    try:
        reader = pc_csv.open_csv(
            name,
            pc_csv.ReadOptions(column_names=list(COLUMNS), skip_rows=int(header), use_threads=False),
            pc_csv.ParseOptions(ignore_empty_lines=False),
            pc_csv.ConvertOptions(column_types=kinds, include_columns=["time", "size", "lbn"]),
        )
        for batch in reader:
            before = _check(name, batch, line, before)
            line += batch.num_rows
            yield batch
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"{name!r} has a line that is no request: {reason}") from None


def _check(name: str, batch: pa.RecordBatch, line: int, before: float) -> float:
    """Check the requests from ``line`` on; return the time of the last one."""
    for column in ("time", "size", "lbn"):
        cells = batch.column(column)
        if cells.null_count:
            at = int(np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))[0])
            raise InvalidInput(f"{name!r}, line {at + line}: {column} is missing")
    time: NDArray[np.float64] = batch.column("time").to_numpy()
    wild = np.flatnonzero(~np.isfinite(time))
    if len(wild):
        at = int(wild[0])
        raise InvalidInput(f"{name!r}, line {at + line}: time must be a finite number, got {time[at]}")
    back = np.flatnonzero(np.diff(time, prepend=before) < 0)
    if len(back):
        at = int(back[0])
        earlier = time[at - 1] if at else before
        raise InvalidInput(
            f"{name!r}, line {at + line}: time must not run backwards, it goes from "
            f"{earlier:.15g} to {time[at]:.15g}"
        )
    return float(time[-1]) if len(time) else before


def csv_lines(ids: NDArray[np.int32], sizes: NDArray[np.int64], start: int) -> str:
    """Return the lines of the requests from step ``start`` on; ``sizes`` are per item."""
    rows = zip(ids.tolist(), sizes[ids].tolist(), strict=True)
    return "".join(f"1,{t},2a,{size},{i + 1}\n" for t, (i, size) in enumerate(rows, start))


def read_csv(path: str | os.PathLike[str], use_sizes: bool = False, limit: int | None = None) -> Trace:
    """Read requests as a hard trace with e_t = q_t; the item of a request is its ``lbn``.

    Ids become 0, 1, 2, ... in order of first appearance. The other columns are not kept, but time must
    not run backwards.

    Parameters
    ----------
    use_sizes : bool
        Keep sizes (that of the item's first request); default: unit sizes.
    limit : int, optional
        Read only the first ``limit`` requests.

    Raises
    ------
    InvalidInput
        Other columns, a value that is missing or no number, or time that runs backwards; names the line.
    """
    limit = check_limit(limit)
    name = str(existing(path, "csv file"))
    parts: list[pa.RecordBatch] = []
    count = 0
    for batch in csv_batches(name):
        parts.append(batch)
        count += batch.num_rows
        if limit is not None and count >= limit:
            break
    if count == 0:
        raise InvalidInput(f"{name!r} holds no request, only a header")
    table = pa.Table.from_batches(parts).slice(0, limit)
    ids, n_items = dense_ids(table.column("lbn"))
    sizes = None
    if use_sizes:
        sizes = table.column("size").to_numpy()
        if sizes.min() < 1:
            at = int(np.flatnonzero(sizes < 1)[0])
            raise InvalidInput(
                f"{name!r}, line {at + 1 + _header(name)}: size must be >= 1 to be used, got {sizes[at]}"
            )
    return request_trace(ids, n_items, sizes, {"source": Path(name).name, "format": "csv"})


def write_csv(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace of plain requests with a header line; lbn is item + 1, time is the step.

    Raises
    ------
    InvalidInput
        The trace is more than plain requests; the message says what.
    """
    ids = requests_to_write(trace, "csv")
    sizes = trace.sizes
    with replacing(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as out:
        out.write(",".join(COLUMNS) + "\n")
        for a in range(0, len(ids), _CHUNK):
            out.write(csv_lines(ids[a : a + _CHUNK], sizes, a))
