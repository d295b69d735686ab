"""The canonical trace file: exactly the bytes that a trace's hash is defined on.

``sha256sum t.sht`` prints the hash of the trace, so whoever has the file needs nothing of softhit to know
which instance a certificate speaks about. The file holds what defines the instance, and no vectors and no
metadata; :attr:`softhit.Trace.hash` lists the arrays in order. All offsets are multiples of 8 up to
``items``, all integers are little-endian.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from softhit.errors import InvalidInput
from softhit.io.files import existing, replacing
from softhit.trace import Trace

__all__ = ["MAGIC", "canonical_bytes", "read_trace_canonical", "write_trace_canonical"]

MAGIC = b"softhit-trace-1\n"


def canonical_bytes(trace: Trace) -> bytes:
    """Return the canonical form of a trace; its SHA-256 is ``trace.hash``.

    >>> import hashlib
    >>> from softhit import from_requests
    >>> trace = from_requests([0, 1, 2, 0])
    >>> hashlib.sha256(canonical_bytes(trace)).hexdigest() == trace.hash
    True
    """
    head = [trace.n_items, trace.n_steps, len(trace.items), trace.quality_scale, int(trace.ranks is not None)]
    arrays: list[tuple[Any, str]] = [(head, "<i8"), (trace.indptr, "<i8"), (trace.items, "<i4")]
    arrays.append((trace.quality, "<i4"))
    if trace.ranks is not None:
        arrays.append((trace.ranks, "<i4"))
    arrays += [(trace.arrivals, "<i4"), (trace.weight, "<i4"), (trace.sizes, "<i8")]
    return MAGIC + b"".join(np.ascontiguousarray(array, kind).tobytes() for array, kind in arrays)


def write_trace_canonical(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace in canonical form; its vectors and metadata, which no certificate needs, stay behind.

    Raises
    ------
    InvalidInput
        The place cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(canonical_bytes(trace))


def read_trace_canonical(path: str | os.PathLike[str]) -> Trace:
    """Read a trace in canonical form.

    Raises
    ------
    InvalidInput
        Not such a file, cut off, too long, or not a valid trace; names the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from softhit import from_requests
    >>> trace = from_requests([0, 1, 2, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trace_canonical(trace, Path(folder) / "t.sht")
    ...     read_trace_canonical(Path(folder) / "t.sht") == trace
    True
    """
    name = existing(path, "trace file")
    data = name.read_bytes()
    if not data.startswith(MAGIC):
        raise InvalidInput(f"{str(name)!r} does not begin with {MAGIC.decode().strip()!r}")
    if len(data) < len(MAGIC) + 40:
        raise InvalidInput(f"{str(name)!r} is cut off")
    at = len(MAGIC) + 40
    n_items, n_steps, entries, scale, ranked = np.frombuffer(data, "<i8", 5, len(MAGIC)).tolist()
    if min(n_items, n_steps, entries) < 0 or ranked not in (0, 1):
        raise InvalidInput(f"{str(name)!r} states impossible counts")
    lengths = {"indptr": (n_steps + 1, 8), "items": (entries, 4), "quality": (entries, 4)}
    if ranked:
        lengths["ranks"] = (entries, 4)
    lengths |= {"arrivals": (n_steps, 4), "weight": (n_steps, 4), "sizes": (n_items, 8)}
    expected = at + sum(count * width for count, width in lengths.values())
    if len(data) != expected:
        raise InvalidInput(f"{str(name)!r} has {len(data)} bytes, its counts ask for {expected}")
    arrays: dict[str, Any] = {}
    for part, (count, width) in lengths.items():
        arrays[part] = np.frombuffer(data, f"<i{width}", count, at)
        at += count * width
    try:
        return Trace(n_items=n_items, quality_scale=scale, metadata={"source": name.name}, **arrays)
    except InvalidInput as error:
        raise InvalidInput(f"{str(name)!r} is not a valid trace: {error}") from None
