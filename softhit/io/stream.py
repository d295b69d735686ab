"""Plain requests a chunk at a time: logs of any length, in memory that grows with the items only.

A trace in memory takes 24 bytes a step, and several times that while it is made. Where only a format is to
be changed, or requests come from a program, nothing of that is needed.

Examples
--------
>>> import tempfile
>>> from softhit.io import read_trace
>>> with tempfile.TemporaryDirectory() as folder:
...     with RequestWriter(Path(folder) / "t.oracleGeneral") as out:
...         for start in range(0, 6, 2):
...             out.write([start % 3, (start + 1) % 3])
...     [chunk.tolist() for chunk in request_chunks(Path(folder) / "t.oracleGeneral", chunk_steps=4)]
...     read_trace(Path(folder) / "t.oracleGeneral").requests.tolist()
[[0, 1, 2, 0], [1, 2]]
[0, 1, 2, 0, 1, 2]
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from softhit.check import as_array, check_choice, check_int, fail
from softhit.errors import InvalidInput
from softhit.io.csv import COLUMNS, csv_batches, csv_lines
from softhit.io.files import existing, replacing
from softhit.io.ids import id_lines, words
from softhit.io.jsonl import jsonl_header
from softhit.io.oracle_general import RECORD, count_records, records
from softhit.io.parquet import plain_requests, plain_schema, plain_table
from softhit.io.requests import check_limit, next_access
from softhit.trace import DEFAULT_SCALE

__all__ = ["READABLE", "WRITABLE", "RequestWriter", "Streamed", "convert_requests", "request_chunks"]

READABLE = ("csv", "ids", "oracleGeneral", "parquet")
"""Formats that :func:`request_chunks` reads."""

WRITABLE = ("csv", "ids", "jsonl", "oracleGeneral", "parquet")
"""Formats that :class:`RequestWriter` writes."""

_CHUNK = 1 << 18


@dataclass(frozen=True)
class Streamed:
    """What was written; ``hash`` is that of the trace which reading the whole file would give."""

    n_steps: int
    n_items: int
    hash: str


class RequestWriter:
    """Write plain requests (e_t = q_t, quality 1, weight 1) chunk by chunk; whole, or not at all.

    The requests wait in a file beside ``path``, 4 bytes each, until the last one is known: the next access of
    oracleGeneral and the hash of a trace file need it. On an error nothing is left.

    Parameters
    ----------
    path : path
    format : str, optional
        A name of :data:`WRITABLE`; default: by extension.
    n_items : int, optional
        Default: the largest item + 1.
    sizes : int64[N], optional
        Sizes of items; default: all 1.
    metadata : dict, optional
        For the formats that hold it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        n_items: int | None = None,
        sizes: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._format = check_choice("format", format or _guess(path), WRITABLE)
        self._path = path
        self._n_items = None if n_items is None else check_int("n_items", n_items, low=0, high=2**31 - 1)
        self._sizes = sizes
        self._metadata = dict(metadata or {})
        self._count, self._top = 0, -1
        self.written: Streamed | None = None

    def __enter__(self) -> RequestWriter:
        self._stack = ExitStack()
        self._target = self._stack.enter_context(replacing(self._path))
        waiting = self._target.with_suffix(".requests.part")
        self._stack.callback(waiting.unlink, missing_ok=True)
        self._file: IO[bytes] = self._stack.enter_context(waiting.open("w+b"))
        return self

    def write(self, ids: Any) -> None:
        """Add requests: item ids."""
        array = as_array("ids", ids, "a one-dimensional array of item ids")
        if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
            fail("ids", ids, "a one-dimensional array of item ids")
        if not len(array):
            return
        if array.min() < 0 or array.max() >= 2**31 - 1:
            fail("ids", ids, "item ids in 0..2**31 - 2")
        self._top = max(self._top, int(array.max()))
        self._count += len(array)
        self._file.write(array.astype("<i4").tobytes())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._file.flush()
            self.written = self._finish()

    def _chunks(self, backwards: bool = False) -> Iterator[tuple[int, NDArray[np.int32]]]:
        starts = range(0, self._count, _CHUNK)
        for a in reversed(starts) if backwards else starts:
            self._file.seek(4 * a)
            yield a, np.frombuffer(self._file.read(4 * _CHUNK), "<i4").astype(np.int32)

    def _finish(self) -> Streamed:
        if self._count == 0:
            raise InvalidInput(f"cannot write {str(self._path)!r}: there must be at least one request")
        n_items = self._top + 1 if self._n_items is None else self._n_items
        if n_items <= self._top:
            raise InvalidInput(f"n_items must be above every item, got {n_items} and item {self._top}")
        sizes = np.ones(n_items, np.int64) if self._sizes is None else np.asarray(self._sizes, np.int64)
        if sizes.shape != (n_items,) or sizes.min() < 1 or sizes.max() > 2**40:
            fail("sizes", self._sizes, f"{n_items} integers in 1..2**40")
        self._all_sizes = sizes
        done = Streamed(self._count, n_items, self._hash(n_items))
        getattr(self, f"_write_{self._format}")(done)
        return done

    def _hash(self, n_items: int) -> str:
        """The hash of the trace, from its definition, a chunk at a time."""
        digest = hashlib.sha256(b"softhit-trace-1\n")
        digest.update(np.array([n_items, self._count, self._count, DEFAULT_SCALE, 0], "<i8").tobytes())
        for a in range(0, self._count + 1, _CHUNK):
            digest.update(np.arange(a, min(a + _CHUNK, self._count + 1), dtype="<i8").tobytes())
        for constant in (None, DEFAULT_SCALE, None, 1):
            # items, quality, arrivals, weight
            for _, ids in self._chunks():
                part = ids if constant is None else np.full(len(ids), constant)
                digest.update(part.astype("<i4").tobytes())
        digest.update(self._all_sizes.astype("<i8").tobytes())
        return digest.hexdigest()

    def _write_csv(self, done: Streamed) -> None:
        with self._target.open("w", encoding="ascii", newline="\n") as out:
            out.write(",".join(COLUMNS) + "\n")
            for a, ids in self._chunks():
                out.write(csv_lines(ids, self._all_sizes, a))

    def _write_ids(self, done: Streamed) -> None:
        self._only_unit_sizes()
        with self._target.open("w", encoding="ascii", newline="\n") as out:
            for _, ids in self._chunks():
                out.write(id_lines(ids))

    def _write_oracleGeneral(self, done: Streamed) -> None:
        if self._all_sizes.max() >= 2**32:
            raise InvalidInput(f"oracleGeneral holds sizes below 2**32, got {int(self._all_sizes.max())}")
        # from the end: by then each item's next request is known
        upcoming = np.full(done.n_items, -1, np.int64)
        with self._target.open("r+b") as out:
            out.truncate(RECORD.itemsize * self._count)
            for a, ids in self._chunks(backwards=True):
                within = next_access(ids)
                following = np.where(within > 0, within + a, upcoming[ids])
                # written back to front, so that the first request has the last word
                upcoming[ids[::-1]] = np.arange(a + len(ids), a, -1)
                out.seek(RECORD.itemsize * a)
                out.write(records(ids, self._all_sizes, following, a))

    def _write_jsonl(self, done: Streamed) -> None:
        head = jsonl_header(
            done.n_items, done.n_steps, DEFAULT_SCALE, False, done.hash, self._all_sizes, self._metadata
        )
        with self._target.open("w", encoding="ascii", newline="\n") as out:
            out.write(head + "\n")
            for _, ids in self._chunks():
                out.write(
                    "".join(
                        f'{{"items": [{i}], "quality": [{DEFAULT_SCALE}], "arrival": {i}, "weight": 1}}\n'
                        for i in ids.tolist()
                    )
                )

    def _write_parquet(self, done: Streamed) -> None:
        schema, options = plain_schema(done.n_items, done.n_steps, done.hash, self._all_sizes, self._metadata)
        with pq.ParquetWriter(self._target, schema, **options) as writer:
            for _, ids in self._chunks():
                writer.write_table(plain_table(ids, schema))

    def _only_unit_sizes(self) -> None:
        if np.any(self._all_sizes != 1):
            raise InvalidInput(
                f"format {self._format!r} holds plain requests only: every size must be 1; use csv or parquet"
            )


def _guess(path: str | os.PathLike[str]) -> str:
    from softhit.io.formats import guess_format

    return guess_format(path).name


class _Numbering:
    """Dense numbers for ids of any kind, in order of first appearance."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def __call__(self, values: pa.Array) -> NDArray[np.int32]:
        coded = values.dictionary_encode()
        known = self._known
        numbers = [known.setdefault(value, len(known)) for value in coded.dictionary.to_pylist()]
        dense: NDArray[np.int32] = np.array(numbers, np.int32)[coded.indices.to_numpy()]
        return dense


def request_chunks(
    path: str | os.PathLike[str],
    format: str | None = None,
    chunk_steps: int = _CHUNK,
    limit: int | None = None,
) -> Iterator[NDArray[np.int32]]:
    """Read plain requests chunk by chunk: item ids, 0, 1, 2, ... in order of first appearance.

    A trace file keeps its own ids instead. Sizes and times are not kept; the rest is checked as
    ``read_trace`` does it, but for the hash of a trace file.

    Parameters
    ----------
    path : path
    format : str, optional
        A name of :data:`READABLE`; default: by content for Parquet, else by extension.
    chunk_steps : int
        Length of the chunks, but for the last one.
    limit : int, optional
        Read only the first ``limit`` requests.

    Raises
    ------
    InvalidInput
        While reading: the file cannot be read or is not what it claims to be; names the file and the place.
    """
    size = check_int("chunk_steps", chunk_steps, low=1)
    left = check_limit(limit)
    name = existing(path, "trace file")
    if format is None:
        with name.open("rb") as file:
            format = "parquet" if file.read(4) == b"PAR1" else _guess(path)
    check_choice("format", format, READABLE)
    waiting: list[NDArray[np.int32]] = []
    count = 0
    for part in _parts(name, format):
        block = part if left is None else part[:left]
        if left is not None:
            left -= len(block)
        waiting.append(block)
        count += len(block)
        if count >= size:
            whole = np.concatenate(waiting)
            full = count - count % size
            yield from (whole[a : a + size] for a in range(0, full, size))
            waiting, count = [whole[full:]], count % size
        if left == 0:
            break
    if count:
        yield np.concatenate(waiting)


def _parts(name: Path, format: str) -> Iterator[NDArray[np.int32]]:
    number = _Numbering()
    if format == "csv":
        found = False
        for batch in csv_batches(name):
            found = True
            yield number(batch.column("lbn"))
        if not found:
            raise InvalidInput(f"{str(name)!r} holds no request, only a header")
    elif format == "ids":
        for column in words(name):
            yield number(column)
    elif format == "oracleGeneral":
        n_steps = count_records(name)
        with name.open("rb") as file:
            for _ in range(0, n_steps, _CHUNK):
                block = np.frombuffer(file.read(RECORD.itemsize * _CHUNK), RECORD)
                yield number(pa.array(np.ascontiguousarray(block["id"])))
    else:
        yield from plain_requests(name)


def convert_requests(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    from_format: str | None = None,
    to_format: str | None = None,
    limit: int | None = None,
) -> Streamed:
    """Write the requests of one file into another, in memory that grows with the items only.

    The same as ``write_trace(read_trace(source), target)`` for plain requests; sizes are not kept.
    """
    metadata = {"source": Path(source).name, "format": from_format or _guess(source)}
    with RequestWriter(target, to_format, metadata=metadata) as out:
        for chunk in request_chunks(source, from_format, limit=limit):
            out.write(chunk)
    assert out.written is not None
    return out.written
