"""vCache-style Parquet: one request a row, with its prompt, an embedding, and the set of equal answers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from softhit.build import QualityRule, from_embeddings, quality_rule
from softhit.check import check_choice, check_int
from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.io.requests import check_limit, dense_ids, request_trace, requests_to_write
from softhit.trace import Trace

__all__ = ["read_vcache", "write_vcache"]

QUALITIES = ("answers", "similarity", "answers_by_similarity")
_MOST_PAIRS = 50_000_000
_CHUNK = 1 << 16


def _vector_column(name: str, schema: pa.Schema, wanted: str | None) -> str:
    lists: list[str] = [
        field.name
        for field in schema
        if (pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type))
        and pa.types.is_floating(field.type.value_type)
    ]
    if wanted is not None:
        if wanted not in lists:
            raise InvalidInput(
                f"{name!r} has no column {wanted!r} of float lists; it has {', '.join(lists) or 'none'}"
            )
        return wanted
    if len(lists) != 1:
        raise InvalidInput(
            f"{name!r}: embedding= must name one of the float list columns: {', '.join(lists) or 'none'}"
        )
    return lists[0]


def _vectors(name: str, column: str, array: pa.ChunkedArray) -> NDArray[np.float32]:
    lengths = pc.list_value_length(array)
    if array.null_count or lengths.null_count or pc.count_distinct(lengths).as_py() > 1:
        raise InvalidInput(f"{name!r}: column {column!r} must hold one vector of equal length in each row")
    flat = pc.list_flatten(array).to_numpy().astype(np.float64)
    if not np.all(np.isfinite(flat)):
        raise InvalidInput(f"{name!r}: column {column!r} holds a value that is no finite number")
    rows = flat.reshape(len(array), -1)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    if not np.all(norms > 0):
        bad = int(np.flatnonzero(~(norms > 0))[0])
        raise InvalidInput(f"{name!r}: row {bad} of column {column!r} is the zero vector")
    return np.asarray(rows / norms[:, None], dtype=np.float32)


def read_vcache(
    path: str | os.PathLike[str],
    quality: str = "answers",
    embedding: str | None = None,
    rule: str | QualityRule = "cosine_clipped",
    top_m: int | None = 64,
    limit: int | None = None,
) -> Trace:
    """Read requests whose answers are grouped into sets (column ``id_set``, in any case).

    Parameters
    ----------
    quality : {"answers", "similarity", "answers_by_similarity"}
        ``answers``: requests of one set share one answer, so a set is an item and the trace is a hard one
        with e_t = q_t; embeddings are not read. For the other two each row is an item of its own, which
        arrives at its step: ``similarity`` applies ``rule`` to the cosine; ``answers_by_similarity`` gives
        quality 1 to the rows of the same set, but the retriever ranks by cosine.
    embedding : str, optional
        Column of float lists; may be left out if there is only one.
    rule, top_m
        See :func:`softhit.from_embeddings`.
    limit : int, optional
        Read only the first ``limit`` rows.

    Raises
    ------
    InvalidInput
        Not Parquet, a missing column, a null, a vector that is zero or not finite, or so few sets that the
        pairs of equal answers would not fit (give ``limit`` then).
    """
    check_choice("quality", quality, QUALITIES)
    limit = check_limit(limit)
    name = str(existing(path, "vCache file"))
    try:
        with pq.ParquetFile(name, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            sets = [column for column in schema.names if column.lower() == "id_set"]
            if len(sets) != 1:
                raise InvalidInput(f"{name!r} has no column 'id_set' (columns: {', '.join(schema.names)})")
            vectors = None if quality == "answers" else _vector_column(name, schema, embedding)
            table = file.read(columns=[*sets, *([vectors] if vectors else [])])
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(
            f"{name!r} is not a Parquet file, or it is damaged: {str(error).splitlines()[0]}"
        ) from None
    table = table.slice(0, limit)
    if table.num_rows == 0:
        raise InvalidInput(f"{name!r} is empty: it holds no request")
    if table.column(sets[0]).null_count:
        raise InvalidInput(f"{name!r} has null values in column {sets[0]!r}")
    ids, n_sets = dense_ids(table.column(sets[0]))
    metadata: dict[str, Any] = {
        "source": Path(name).name,
        "format": "vcache",
        "quality": quality,
        "answer_sets": n_sets,
    }
    if vectors is None:
        return request_trace(ids, n_sets, None, metadata)
    points = _vectors(name, vectors, table.column(vectors))
    steps = np.arange(len(ids), dtype=np.int32)
    relevance = None
    if quality == "answers_by_similarity":
        pairs = int((np.bincount(ids).astype(np.int64) ** 2).sum())
        if pairs > _MOST_PAIRS:
            raise InvalidInput(
                f"{name!r} has {pairs} pairs of equal answers, more than {_MOST_PAIRS}; give limit="
            )
        member = sp.csr_array((np.ones(len(ids)), (steps, ids)), shape=(len(ids), n_sets))
        # what arrives later cannot be held: keep the pairs with an earlier or the own row
        relevance = sp.tril(member @ member.T, format="csr")
    return from_embeddings(
        points,
        points,
        arrivals=steps,
        rule=quality_rule(rule) if isinstance(rule, str) else rule,
        top_m=None if top_m is None else check_int("top_m", top_m, low=1),
        candidates="arrived",
        relevance=relevance,
        metadata={"generator": "vcache", **metadata, "embedding": vectors},
    )


def write_vcache(trace: Trace, path: str | os.PathLike[str], dimension: int = 64, seed: int = 0) -> None:
    """Write plain requests for tools that expect prompts and embeddings.

    The prompt of item i is ``"item i"``, its id_set is i, and its embedding the trace's item vector, or, if
    it has none, one fixed random unit vector of ``dimension`` per item: nearly orthogonal to all others, so
    that a similarity threshold separates the items. Sizes are lost.

    Raises
    ------
    InvalidInput
        The trace is more than plain requests of unit size.
    """
    ids = requests_to_write(trace, "vcache")
    if np.any(trace.sizes != 1):
        raise InvalidInput("format 'vcache' holds plain requests only: every size must be 1; use parquet")
    points = trace.item_vectors
    if points is None:
        drawn = np.random.default_rng(seed).normal(
            size=(trace.n_items, check_int("dimension", dimension, low=1))
        )
        points = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    schema = pa.schema(
        [
            ("prompt", pa.string()),
            ("embedding", pa.list_(pa.float32())),
            ("id_set", pa.int64()),
        ]
    )
    width = points.shape[1]
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, write_page_checksum=True) as writer,
    ):
        for a in range(0, len(ids), _CHUNK):
            part = ids[a : a + _CHUNK]
            offsets = np.arange(len(part) + 1, dtype=np.int32) * width
            columns = [
                pa.array([f"item {i}" for i in part.tolist()]),
                pa.ListArray.from_arrays(pa.array(offsets), pa.array(points[part].ravel())),
                pa.array(part.astype(np.int64)),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
