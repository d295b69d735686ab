"""The project's own files: a trace (one row a step) and a schedule (one row an event) in Parquet."""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.schedule import Schedule
from softhit.trace import DEFAULT_SCALE, Trace

__all__ = [
    "FORMAT_VERSION",
    "plain_requests",
    "plain_schema",
    "plain_table",
    "read_schedule_parquet",
    "read_trace_parquet",
    "schedule_metadata",
    "write_schedule_parquet",
    "write_trace_parquet",
]

FORMAT_VERSION = 1
_ROWS = 1 << 20
_ENTRIES = 1 << 23
_OPTIONS: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}


# ---- writing --------------------------------------------------------------------------------------------


def _json(name: str, value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be JSON-able: {error}") from None


def _pack(array: NDArray[np.int64]) -> str:
    return base64.b64encode(zlib.compress(array.astype("<i8").tobytes(), 6)).decode()


def _lists(indptr: NDArray[np.int64], values: pa.Array, a: int, b: int) -> pa.ListArray:
    offsets = (indptr[a : b + 1] - indptr[a]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.slice(int(indptr[a]), int(offsets[-1])))


def _vector_array(vectors: NDArray[np.float32]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def write_trace_parquet(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as one Parquet file (see docs/formats.md), in row groups, through a temporary file.

    Raises
    ------
    InvalidInput
        The place cannot be written, the metadata is not JSON-able, or a trace without steps has vectors.
    """
    facts = {
        "softhit.kind": "trace",
        "softhit.format_version": str(FORMAT_VERSION),
        "softhit.n_items": str(trace.n_items),
        "softhit.n_steps": str(trace.n_steps),
        "softhit.quality_scale": str(trace.quality_scale),
        "softhit.hash": trace.hash,
        "softhit.metadata": _json("trace.metadata", trace.metadata),
    }
    if np.any(trace.sizes != 1):
        facts["softhit.sizes"] = _pack(trace.sizes)
    fields = [("items", pa.list_(pa.int32())), ("quality", pa.list_(pa.int32()))]
    columns = {"items": pa.array(trace.items), "quality": pa.array(trace.quality)}
    if trace.ranks is not None:
        fields.append(("ranks", pa.list_(pa.int32())))
        columns["ranks"] = pa.array(trace.ranks)
    fields += [("arrivals", pa.int32()), ("weight", pa.int32())]
    if trace.query_vectors is not None:
        fields.append(("query_vector", pa.list_(pa.float32(), trace.query_vectors.shape[1])))
    if trace.item_vectors is not None:
        if trace.n_steps == 0 and trace.n_items:
            raise InvalidInput("a trace without steps cannot be written with item vectors")
        fields.append(("item_vectors", pa.list_(pa.list_(pa.float32(), trace.item_vectors.shape[1]))))
    schema = pa.schema(fields, metadata=facts)
    # row t carries the vectors of items share[t]..share[t+1]-1: over all rows, those of 0..N-1
    share = np.arange(trace.n_steps + 1, dtype=np.int64) * trace.n_items // max(1, trace.n_steps)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, **_OPTIONS) as writer:
        a = 0
        while a < trace.n_steps:
            full = int(np.searchsorted(trace.indptr, trace.indptr[a] + _ENTRIES, side="right")) - 1
            b = max(a + 1, min(a + _ROWS, full, trace.n_steps))
            parts: list[Any] = [_lists(trace.indptr, values, a, b) for values in columns.values()]
            parts += [pa.array(trace.arrivals[a:b]), pa.array(trace.weight[a:b])]
            if trace.query_vectors is not None:
                parts.append(_vector_array(trace.query_vectors[a:b]))
            if trace.item_vectors is not None:
                vectors = _vector_array(trace.item_vectors[share[a] : share[b]])
                parts.append(
                    pa.ListArray.from_arrays((share[a : b + 1] - share[a]).astype(np.int32), vectors)
                )
            writer.write_table(pa.Table.from_arrays(parts, schema=schema))
            a = b


def plain_schema(
    n_items: int, n_steps: int, digest: str, sizes: NDArray[np.int64], metadata: Mapping[str, Any]
) -> tuple[pa.Schema, dict[str, Any]]:
    """Return the schema of a trace file of plain requests, and the options to write it with."""
    facts = {
        "softhit.kind": "trace",
        "softhit.format_version": str(FORMAT_VERSION),
        "softhit.n_items": str(n_items),
        "softhit.n_steps": str(n_steps),
        "softhit.quality_scale": str(DEFAULT_SCALE),
        "softhit.hash": digest,
        "softhit.metadata": _json("metadata", metadata),
    }
    if np.any(sizes != 1):
        facts["softhit.sizes"] = _pack(sizes)
    lists, numbers = pa.list_(pa.int32()), pa.int32()
    fields = [("items", lists), ("quality", lists), ("arrivals", numbers), ("weight", numbers)]
    return pa.schema(fields, metadata=facts), _OPTIONS


def plain_table(ids: NDArray[np.int32], schema: pa.Schema) -> pa.Table:
    """Return the rows of plain requests."""
    indptr = np.arange(len(ids) + 1, dtype=np.int64)
    values = (ids, np.full(len(ids), DEFAULT_SCALE, np.int32))
    parts: list[Any] = [_lists(indptr, pa.array(v), 0, len(ids)) for v in values]
    return pa.Table.from_arrays([*parts, pa.array(ids), pa.array(np.ones(len(ids), np.int32))], schema=schema)


def plain_requests(path: str | os.PathLike[str]) -> Iterator[NDArray[np.int32]]:
    """Read the requests of a trace file a row group at a time; the hash is not checked.

    Raises
    ------
    InvalidInput
        Not a trace file, damaged, or its trace is more than plain requests (the first such row is named).
    """
    name = str(existing(path, "trace file"))
    start = 0
    try:
        with pq.ParquetFile(name, page_checksum_verification=True) as file:
            facts = _facts(name, "trace", file)
            scale = _int_fact(name, facts, "quality_scale")
            if "ranks" in file.schema_arrow.names:
                raise InvalidInput(f"{name!r} is more than plain requests: its items are ranked by a score")
            for batch in file.iter_batches(
                batch_size=1 << 18, columns=["items", "quality", "arrivals", "weight"]
            ):
                yield _plain(name, pa.Table.from_batches([batch]), scale, start)
                start += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{name!r} is not a Parquet file, or it is damaged: {reason}") from None


def _plain(name: str, table: pa.Table, scale: int, start: int) -> NDArray[np.int32]:
    lengths, items = _flat(name, table, "items")
    own, quality = _flat(name, table, "quality")
    rest = [_numbers(name, c, _column(name, table, c, pa.int32())) for c in ("arrivals", "weight")]
    odd = np.flatnonzero((lengths != 1) | (own != 1) | (rest[1] != 1))
    if not len(odd):
        odd = np.flatnonzero((quality != scale) | (rest[0] != items))
    if len(odd):
        raise InvalidInput(
            f"{name!r} is more than plain requests: step {start + int(odd[0])} is not one item of quality 1 "
            "that also arrives, with weight 1"
        )
    return items


def write_schedule_parquet(
    schedule: Schedule, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a schedule as one Parquet file of events (see docs/formats.md).

    ``metadata`` may say where it comes from (trace hash, policy, capacity, ...); it must be JSON-able.
    """
    facts = {
        "softhit.kind": "schedule",
        "softhit.format_version": str(FORMAT_VERSION),
        "softhit.n_steps": str(schedule.n_steps),
        "softhit.metadata": _json("metadata", metadata or {}),
    }
    fields = [("step", pa.int32()), ("enters", pa.bool_()), ("item", pa.int32())]
    schema = pa.schema(fields, metadata=facts)
    steps = np.arange(schedule.n_steps, dtype=np.int32)
    step = np.r_[np.repeat(steps, np.diff(schedule.leave_ptr)), np.repeat(steps, np.diff(schedule.enter_ptr))]
    item = np.r_[schedule.leave_items, schedule.enter_items]
    enters = np.zeros(len(step), bool)
    enters[len(schedule.leave_items) :] = True
    order = np.argsort(2 * step.astype(np.int64) + enters, kind="stable")
    table = pa.Table.from_arrays(
        [pa.array(step[order]), pa.array(enters[order]), pa.array(item[order])], schema=schema
    )
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=_ROWS, **_OPTIONS)


# ---- reading --------------------------------------------------------------------------------------------


def _open(path: str | os.PathLike[str], kind: str) -> tuple[str, pa.Table, dict[str, str]]:
    """Read a whole file of the given kind and format version; return its name, table and facts."""
    name = str(existing(path, f"{kind} file"))
    try:
        with pq.ParquetFile(name, page_checksum_verification=True) as file:
            facts = _facts(name, kind, file)
            table = file.read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{name!r} is not a Parquet file, or it is damaged: {reason}") from None
    return name, table, facts


def _facts(name: str, kind: str, file: pq.ParquetFile) -> dict[str, str]:
    stored = file.metadata.metadata or {}
    facts = {
        key.decode().removeprefix("softhit."): value.decode()
        for key, value in stored.items()
        if key.startswith(b"softhit.")
    }
    if facts.get("kind") != kind:
        found = f"it holds a {facts['kind']}" if "kind" in facts else "it holds no softhit metadata"
        raise InvalidInput(f"{name!r} is a Parquet file but not a softhit {kind}: {found}")
    version = facts.get("format_version")
    if version != str(FORMAT_VERSION):
        raise InvalidInput(
            f"{name!r} is a {kind} of format version {version}; this softhit reads version {FORMAT_VERSION}"
        )
    return facts


def _int_fact(name: str, facts: Mapping[str, str], key: str) -> int:
    try:
        return int(facts[key])
    except (KeyError, ValueError):
        raise InvalidInput(f"{name!r} states no valid {key} (got {facts.get(key)!r})") from None


def _metadata(name: str, facts: Mapping[str, str]) -> dict[str, Any]:
    try:
        found = json.loads(facts.get("metadata", "{}"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name!r} has metadata that is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{name!r} has metadata that is not a JSON object")
    return found


def _column(name: str, table: pa.Table, column: str, kind: pa.DataType) -> pa.ChunkedArray:
    if column not in table.column_names:
        raise InvalidInput(f"{name!r} has no column {column!r} (columns: {', '.join(table.column_names)})")
    found = table.column(column)
    if found.null_count:
        raise InvalidInput(f"{name!r} has null values in column {column!r}")
    try:
        return found if found.type == kind else found.cast(kind)
    except pa.ArrowException as error:
        raise InvalidInput(
            f"{name!r}: column {column!r} must be {kind}, it is {found.type} ({error})"
        ) from None


def _numbers(name: str, column: str, array: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    if array.null_count:
        raise InvalidInput(f"{name!r} has null values in column {column!r}")
    result: NDArray[Any] = array.to_numpy()
    return result


def _flat(name: str, table: pa.Table, column: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the lengths and the concatenated values of a list column."""
    lists = _column(name, table, column, pa.list_(pa.int32()))
    lengths = _numbers(name, column, pc.list_value_length(lists)).astype(np.int64)
    values = _numbers(name, column, pc.list_flatten(lists))
    return lengths, values


def _vectors(name: str, table: pa.Table, column: str, rows: int) -> NDArray[np.float32]:
    flat = table.column(column)
    while pa.types.is_list(flat.type) or pa.types.is_fixed_size_list(flat.type):
        flat = pc.list_flatten(flat)
    values = _numbers(name, column, flat.cast(pa.float32()))
    if (rows == 0 and len(values)) or (rows and len(values) % rows):
        raise InvalidInput(f"{name!r}: column {column!r} does not hold {rows} vectors of equal length")
    return values.reshape(rows, len(values) // rows if rows else 0)


def _sizes(name: str, packed: str, n_items: int) -> NDArray[np.int64]:
    try:
        raw = zlib.decompress(base64.b64decode(packed, validate=True))
    except (binascii.Error, zlib.error) as error:
        raise InvalidInput(f"{name!r} has damaged sizes: {error}") from None
    if len(raw) != 8 * n_items:
        raise InvalidInput(f"{name!r} has {len(raw) / 8:g} sizes for {n_items} items")
    return np.frombuffer(raw, "<i8").astype(np.int64)


def read_trace_parquet(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file and check that its content has the hash that it states.

    Raises
    ------
    InvalidInput
        Not a Parquet file, damaged, of another kind or format version, or not what its hash says.
    """
    name, table, facts = _open(path, "trace")
    n_items, n_steps = _int_fact(name, facts, "n_items"), _int_fact(name, facts, "n_steps")
    if table.num_rows != n_steps:
        raise InvalidInput(f"{name!r} has {table.num_rows} rows but states {n_steps} steps")
    lengths, items = _flat(name, table, "items")
    indptr = np.zeros(n_steps + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    rest: dict[str, Any] = {}
    for column in ("quality", *(["ranks"] if "ranks" in table.column_names else [])):
        own, rest[column] = _flat(name, table, column)
        if not np.array_equal(own, lengths):
            raise InvalidInput(f"{name!r}: columns 'items' and {column!r} have rows of different lengths")
    for column in ("arrivals", "weight"):
        rest[column] = _numbers(name, column, _column(name, table, column, pa.int32()))
    if "query_vector" in table.column_names:
        rest["query_vectors"] = _vectors(name, table, "query_vector", n_steps)
    if "item_vectors" in table.column_names:
        rest["item_vectors"] = _vectors(name, table, "item_vectors", n_items)
    if "sizes" in facts:
        rest["sizes"] = _sizes(name, facts["sizes"], n_items)
    try:
        trace = Trace(
            n_items=n_items,
            indptr=indptr,
            items=items,
            quality_scale=_int_fact(name, facts, "quality_scale"),
            metadata=_metadata(name, facts),
            **rest,
        )
    except InvalidInput as error:
        raise InvalidInput(f"{name!r} is not a valid trace: {error}") from None
    if trace.hash != facts.get("hash"):
        raise InvalidInput(
            f"{name!r} does not have the content that its hash states: "
            f"{trace.hash[:12]}..., not {str(facts.get('hash'))[:12]}..."
        )
    return trace


def read_schedule_parquet(path: str | os.PathLike[str]) -> Schedule:
    """Read a schedule file; ``softhit.verify`` says whether it is valid for a trace.

    Raises
    ------
    InvalidInput
        Not a Parquet file, damaged, of another kind or format version, or events out of order.
    """
    name, table, facts = _open(path, "schedule")
    n_steps = _int_fact(name, facts, "n_steps")
    step = _numbers(name, "step", _column(name, table, "step", pa.int32())).astype(np.int64)
    enters = _numbers(name, "enters", _column(name, table, "enters", pa.bool_()))
    item = _numbers(name, "item", _column(name, table, "item", pa.int32()))
    if np.any(np.diff(2 * step + enters) < 0):
        raise InvalidInput(f"{name!r}: events must be sorted by step, leaves before enters within a step")
    try:
        return Schedule.from_events(n_steps, step[~enters], item[~enters], step[enters], item[enters])
    except InvalidInput as error:
        raise InvalidInput(f"{name!r} is not a valid schedule: {error}") from None


def schedule_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the metadata of a schedule file."""
    name, _, facts = _open(path, "schedule")
    return _metadata(name, facts)
