"""Plain request lists: one id per line, numbers or any other words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.io.requests import check_limit, dense_ids, request_trace, requests_to_write
from softhit.trace import Trace

__all__ = ["id_lines", "read_ids", "words", "write_ids"]

_CHUNK = 1 << 20


def id_lines(ids: NDArray[np.int32]) -> str:
    """Return the lines of some requests."""
    return "\n".join(map(str, ids.tolist())) + "\n"


def words(path: str | os.PathLike[str]) -> Iterator[pa.Array]:
    """Read the ids of a file as texts, a block at a time.

    Raises
    ------
    InvalidInput
        The file is empty or not UTF-8, or a line is blank (the message names it).
    """
    name = str(existing(path, "id file"))
    line = 0
    try:
        reader = pc_csv.open_csv(
            name,
            pc_csv.ReadOptions(column_names=["id"], use_threads=False),
            # a separator that no text file contains: a line is one cell, commas and quotes included
            pc_csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False),
            pc_csv.ConvertOptions(column_types={"id": pa.string()}, strings_can_be_null=False),
        )
        for batch in reader:
            column = pc.utf8_trim_whitespace(batch.column("id"))
            blank = np.flatnonzero(pc.equal(pc.utf8_length(column), 0).to_numpy(zero_copy_only=False))
            if len(blank):
                raise InvalidInput(
                    f"{name!r}, line {line + int(blank[0]) + 1}: the line is blank, it must hold an id"
                )
            line += len(column)
            yield column
    except pa.ArrowInvalid as error:
        if Path(name).stat().st_size == 0:
            raise InvalidInput(f"{name!r} is empty: it holds no request") from None
        raise InvalidInput(f"{name!r} is no list of ids: {str(error).splitlines()[0]}") from None


def read_ids(path: str | os.PathLike[str], limit: int | None = None) -> Trace:
    """Read one id per line as a hard trace with e_t = q_t.

    An id is the text of its line without surrounding white space; equal texts are one item (``7`` and
    ``07`` are two). Ids become 0, 1, 2, ... in order of first appearance.

    Raises
    ------
    InvalidInput
        The file is empty or not UTF-8, or a line is blank (the message names it).
    """
    limit = check_limit(limit)
    name = str(existing(path, "id file"))
    parts: list[pa.Array] = []
    count = 0
    for part in words(name):
        parts.append(part)
        count += len(part)
        if limit is not None and count >= limit:
            break
    ids, n_items = dense_ids(pa.chunked_array(parts, pa.string()).slice(0, limit))
    return request_trace(ids, n_items, None, {"source": Path(name).name, "format": "ids"})


def write_ids(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace of plain requests, one item id (0, 1, ...) per line; sizes are lost.

    Raises
    ------
    InvalidInput
        The trace is more than plain requests of unit size; the message says what.
    """
    ids = requests_to_write(trace, "ids")
    if np.any(trace.sizes != 1):
        raise InvalidInput("format 'ids' holds plain requests only: every size must be 1; use csv or parquet")
    with replacing(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as out:
        for a in range(0, len(ids), _CHUNK):
            out.write(id_lines(ids[a : a + _CHUNK]))
