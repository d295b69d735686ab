"""A trace as JSON lines, one step a line, which any language can read and write."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.trace import Trace

__all__ = ["jsonl_header", "read_trace_jsonl", "write_trace_jsonl"]

FORMAT_VERSION = 1


def jsonl_header(
    n_items: int,
    n_steps: int,
    quality_scale: int,
    scored: bool,
    digest: str,
    sizes: NDArray[np.int64],
    metadata: Mapping[str, Any],
) -> str:
    """Return the first line of a trace as JSON lines."""
    header: dict[str, Any] = {
        "softhit": "trace",
        "format_version": FORMAT_VERSION,
        "n_items": n_items,
        "n_steps": n_steps,
        "quality_scale": quality_scale,
        "scored": scored,
        "hash": digest,
    }
    if np.any(sizes != 1):
        header["sizes"] = sizes.tolist()
    header["metadata"] = dict(metadata)
    try:
        return json.dumps(header, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"trace.metadata must be JSON-able: {error}") from None


def write_trace_jsonl(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a header line and one line per step (see docs/formats.md); vectors are left out."""
    first = jsonl_header(
        trace.n_items,
        trace.n_steps,
        trace.quality_scale,
        trace.ranks is not None,
        trace.hash,
        trace.sizes,
        trace.metadata,
    )
    chunk = 1 << 16
    with replacing(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as out:
        out.write(first + "\n")
        for a in range(0, trace.n_steps, chunk):
            b = min(trace.n_steps, a + chunk)
            low, high = int(trace.indptr[a]), int(trace.indptr[b])
            items, quality = trace.items[low:high].tolist(), trace.quality[low:high].tolist()
            ranks = None if trace.ranks is None else trace.ranks[low:high].tolist()
            bounds = (trace.indptr[a : b + 1] - low).tolist()
            arrivals, weight = trace.arrivals[a:b].tolist(), trace.weight[a:b].tolist()
            for t in range(b - a):
                i, j = bounds[t], bounds[t + 1]
                extra = "" if ranks is None else f', "ranks": {ranks[i:j]}'
                out.write(
                    f'{{"items": {items[i:j]}, "quality": {quality[i:j]}{extra}, '
                    f'"arrival": {arrivals[t]}, "weight": {weight[t]}}}\n'
                )


def read_trace_jsonl(path: str | os.PathLike[str]) -> Trace:
    """Read a trace from JSON lines and check its hash.

    Raises
    ------
    InvalidInput
        A line is not JSON or lacks a field (the message names it), the file ends early, is of another
        format version, or does not have the content that its hash states. The header may leave the hash
        out; then nothing is checked.
    """
    name = str(existing(path, "trace file"))
    items: list[int] = []
    quality: list[int] = []
    ranks: list[int] = []
    counts: list[int] = []
    arrivals: list[int] = []
    weight: list[int] = []
    header: dict[str, Any] = {}
    scored = False
    number = 0
    try:
        with open(name, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                row = json.loads(line)
                if number == 1:
                    header = _header(name, row)
                    scored = bool(header.get("scored", False))
                    continue
                own = row["items"]
                if len(row["quality"]) != len(own) or (scored and len(row["ranks"]) != len(own)):
                    raise InvalidInput(f"{name!r}, line {number}: items and quality differ in length")
                items += own
                quality += row["quality"]
                if scored:
                    ranks += row["ranks"]
                counts.append(len(own))
                arrivals.append(row.get("arrival", -1))
                weight.append(row.get("weight", 1))
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        where = "not a softhit trace" if number <= 1 else f"damaged at line {number}"
        raise InvalidInput(f"{name!r} is {where}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{name!r}, line {number}: a step must have items and quality ({error})") from None
    if number == 0:
        raise InvalidInput(f"{name!r} is empty; a trace has at least its header line")
    if len(counts) != header["n_steps"]:
        raise InvalidInput(f"{name!r} has {len(counts)} steps but states {header['n_steps']}: is it cut off?")
    sizes: Any = header.get("sizes")
    try:
        trace = Trace(
            n_items=header["n_items"],
            indptr=np.cumsum([0, *counts]),
            items=np.array(items or [], dtype=None if items else np.int32),
            quality=np.array(quality or [], dtype=None if items else np.int32),
            ranks=np.array(ranks or [], dtype=None if ranks else np.int32) if scored else None,
            arrivals=np.array(arrivals, dtype=None if arrivals else np.int32),
            weight=np.array(weight, dtype=None if weight else np.int32),
            sizes=sizes,
            quality_scale=header["quality_scale"],
            metadata=header.get("metadata", {}),
        )
    except (InvalidInput, ValueError, TypeError) as error:
        raise InvalidInput(f"{name!r} is not a valid trace: {error}") from None
    if header.get("hash") not in (None, trace.hash):
        raise InvalidInput(f"{name!r} does not have the content that its hash states")
    return trace


def _header(name: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict) or row.get("softhit") != "trace":
        raise InvalidInput(f"{name!r} is not a softhit trace: its first line is not the header of one")
    if row.get("format_version") != FORMAT_VERSION:
        raise InvalidInput(
            f"{name!r} is a trace of format version {row.get('format_version')}; "
            f"this softhit reads version {FORMAT_VERSION}"
        )
    for key in ("n_items", "n_steps", "quality_scale"):
        if type(row.get(key)) is not int or row[key] < 0:
            raise InvalidInput(f"{name!r}: {key} must be an integer >= 0, got {row.get(key)!r}")
    return row
