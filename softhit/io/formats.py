"""Which format a file has, and the one door through which traces are read and written."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softhit.check import unknown
from softhit.errors import InvalidInput
from softhit.io.canonical import read_trace_canonical, write_trace_canonical
from softhit.io.csv import read_csv, write_csv
from softhit.io.files import existing
from softhit.io.ids import read_ids, write_ids
from softhit.io.jsonl import read_trace_jsonl, write_trace_jsonl
from softhit.io.locomo import locomo_trace
from softhit.io.oracle_general import read_oracle_general, write_oracle_general
from softhit.io.parquet import read_trace_parquet, write_trace_parquet
from softhit.io.vcache import read_vcache, write_vcache
from softhit.trace import Trace

__all__ = ["FORMATS", "Format", "guess_format", "read_trace", "write_trace"]


@dataclass(frozen=True)
class Format:
    """One row of the table of formats; ``write`` is None for formats that are only read."""

    name: str
    summary: str
    extensions: tuple[str, ...]
    read: Callable[..., Trace]
    write: Callable[..., None] | None


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("parquet", "everything, compact", (".parquet",), read_trace_parquet, write_trace_parquet),
        Format("jsonl", "all but vectors, any language", (".jsonl",), read_trace_jsonl, write_trace_jsonl),
        Format(
            "canonical",
            "the bytes that the hash is taken of",
            (".sht",),
            read_trace_canonical,
            write_trace_canonical,
        ),
        Format(
            "oracleGeneral",
            "plain requests, libCacheSim's binary",
            (".oraclegeneral", ".bin"),
            read_oracle_general,
            write_oracle_general,
        ),
        Format("csv", "plain requests: version,time,op,size,lbn", (".csv",), read_csv, write_csv),
        Format("ids", "plain requests, one id per line", (".ids", ".txt"), read_ids, write_ids),
        Format("vcache", "requests with embeddings and sets of equal answers", (), read_vcache, write_vcache),
        Format("locomo", "LoCoMo conversations (read only)", (".json",), locomo_trace, None),
    )
}


def guess_format(path: str | os.PathLike[str]) -> Format:
    """Return the format that the extension of a path stands for.

    >>> guess_format("a/b.parquet").name, guess_format("x.oracleGeneral").name
    ('parquet', 'oracleGeneral')
    """
    suffix = Path(path).suffix.lower()
    for format in FORMATS.values():
        if suffix in format.extensions:
            return format
    known = ", ".join(f.name + " ".join(["", *f.extensions]) for f in FORMATS.values())
    what = f"extension {suffix!r}" if suffix else "no extension"
    raise InvalidInput(
        f"cannot tell the format of {str(path)!r} from {what}. Known: {known}; "
        "--format, in Python format=, names one"
    )


def _by_name(name: str) -> Format:
    for format in FORMATS.values():
        if format.name.lower() == str(name).lower():
            return format
    unknown("format", name, list(FORMATS))


def read_trace(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Trace:
    """Read a trace in any known format.

    Parameters
    ----------
    path : path
    format : str, optional
        A name of :data:`FORMATS`; default: by content for Parquet, else by extension.
    **options
        What the format's reader takes, such as ``use_sizes=True`` or ``quality="similarity"``.

    Raises
    ------
    InvalidInput
        The file cannot be read, its format is not known, or its content is wrong; names the file.

    Examples
    --------
    >>> import tempfile
    >>> from softhit import from_requests
    >>> trace = from_requests([0, 1, 2, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trace(trace, Path(folder) / "t.parquet")
    ...     read_trace(Path(folder) / "t.parquet") == trace
    True
    """
    name = existing(path, "trace file")
    if format is not None:
        chosen = _by_name(format)
    else:
        with name.open("rb") as file:
            magic = file.read(4)
        chosen = FORMATS["parquet"] if magic == b"PAR1" else guess_format(path)
    try:
        return chosen.read(name, **options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise InvalidInput(f"format {chosen.name!r} does not take that option: {error}") from None
        raise


def write_trace(trace: Trace, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a trace in the format of the name or of the extension; whole, or not at all.

    Raises
    ------
    InvalidInput
        The format is not known or cannot hold this trace (the message says why), or the place cannot be
        written.
    """
    chosen = guess_format(path) if format is None else _by_name(format)
    if chosen.write is None:
        raise InvalidInput(f"format {chosen.name!r} can be read, not written")
    chosen.write(trace, path)
