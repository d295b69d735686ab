"""Plain request lists: one id per line, numbers or any other words."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.io.requests import check_limit, dense_ids, request_trace, requests_to_write
from softhit.trace import Trace

__all__ = ["read_ids", "write_ids"]

_CHUNK = 1 << 20


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
    try:
        table = pc_csv.read_csv(
            name,
            pc_csv.ReadOptions(column_names=["id"], use_threads=False),
            # a separator that no text file contains: a line is one cell, commas and quotes included
            pc_csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False),
            pc_csv.ConvertOptions(column_types={"id": pa.string()}, strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        if Path(name).stat().st_size == 0:
            raise InvalidInput(f"{name!r} is empty: it holds no request") from None
        raise InvalidInput(f"{name!r} is no list of ids: {str(error).splitlines()[0]}") from None
    column = pc.utf8_trim_whitespace(table.column("id").slice(0, limit))
    blank = np.flatnonzero(pc.equal(pc.utf8_length(column), 0).to_numpy())
    if len(blank):
        raise InvalidInput(f"{name!r}, line {int(blank[0]) + 1}: the line is blank, it must hold an id")
    ids, n_items = dense_ids(column)
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
            out.write("\n".join(map(str, ids[a : a + _CHUNK].tolist())) + "\n")
