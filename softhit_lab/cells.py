"""The columns of a result: exact integers per cell, the ratios derived from them, and their files.

A cell is one policy on one instance. Costs are integers over ``scale``. ``opt_units`` is the cost of the
best schedule at hand (an upper bound of OPT), ``opt_lower_units`` a proved lower bound. ``opt_kind`` is
``exact`` (proved), ``exact (solver)`` (equal to ``opt_units`` if a solver's branch and bound is believed) or
``band``. A ratio comes as a pair: ``..._low`` against the upper bound, ``..._high`` against the lower one;
with the exact kinds both are against ``opt_units``. Where the denominator is 0, or unknown, the ratio is
empty, and ``opt_is_zero`` says which.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from softhit.errors import InvalidInput
from softhit.io import replacing

__all__ = [
    "COLUMNS",
    "FORMAT",
    "bracket",
    "derive",
    "is_exact",
    "quotient",
    "read_cells",
    "write_cells",
    "write_csv",
    "write_text",
]

FORMAT = 1

_TEXT = (
    *("family", "parameters", "file", "switch_cost", "policy"),
    *("order", "availability", "fill", "aggregator"),
    *("trace_hash", "opt_kind", "opt_method", "half_opt_kind"),
)
_BOOL = ("clairvoyant", "requests", "opt_is_zero")
_REAL = (
    "ratio_low",
    "ratio_high",
    "slope_low",
    "slope_high",
    "floor_ratio_low",
    "floor_ratio_high",
    "switching_share",
    "hit_ratio",
)
COLUMNS = (
    # configuration
    "family",
    "parameters",
    "file",
    "capacity",
    "n_steps",
    "switch_cost",
    "policy",
    "seed",
    "order",
    "availability",
    "fill",
    "aggregator",
    "top_k",
    # facts
    "clairvoyant",
    "trace_hash",
    "requests",
    "n_items",
    "n_queries",
    "hits",
    # exact costs, in units of 1/scale
    "scale",
    "cost_units",
    "miss_units",
    "switch_units",
    "insertions",
    "paid",
    "opt_units",
    "opt_lower_units",
    "opt_kind",
    "opt_method",
    "floor_units",
    # the same for the first half of the steps
    "half_steps",
    "half_cost_units",
    "half_opt_units",
    "half_opt_lower_units",
    "half_opt_kind",
    "half_floor_units",
    # derived
    "opt_is_zero",
    *_REAL,
)


def quotient(above: int | Fraction | None, below: int | Fraction | None) -> float | None:
    """Return above / below as a float; None where either is unknown or ``below`` is not positive.

    >>> quotient(3, 2), quotient(3, 0), quotient(3, None)
    (1.5, None, None)
    """
    if above is None or below is None or below <= 0:
        return None
    return float(Fraction(above) / Fraction(below))


def _less(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a - b


def is_exact(kind: str | None) -> bool:
    """Whether OPT of this kind is one number; True for an instance that has no half."""
    return kind is None or kind.startswith("exact")


def bracket(cell: Mapping[str, Any], half: bool = False) -> tuple[int | None, int | None]:
    """Return the upper and the lower end of what OPT of a cell may be, in units."""
    prefix = "half_" if half else ""
    upper, lower = cell[f"{prefix}opt_units"], cell[f"{prefix}opt_lower_units"]
    return upper, (upper if is_exact(cell[f"{prefix}opt_kind"]) else lower)


def derive(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cell with its derived columns, in the order of :data:`COLUMNS`."""
    cost, floor, half = cell["cost_units"], cell["floor_units"], cell["half_cost_units"]
    opt, lower = bracket(cell)
    half_opt, half_lower = bracket(cell, half=True)
    more = {
        "opt_is_zero": opt == 0,
        "ratio_low": quotient(cost, opt),
        "ratio_high": quotient(cost, lower),
        "slope_low": quotient(_less(cost, half), _less(opt, half_lower)),
        "slope_high": quotient(_less(cost, half), _less(lower, half_opt)),
        "floor_ratio_low": quotient(_less(cost, floor), _less(opt, floor)),
        "floor_ratio_high": quotient(_less(cost, floor), _less(lower, floor)),
        "switching_share": quotient(cell["switch_units"], cost),
        "hit_ratio": quotient(cell["hits"], cell["n_queries"]),
    }
    full = {**cell, **more}
    return {name: full[name] for name in COLUMNS}


def _integers(values: Sequence[int | None]) -> pa.Array:
    known = [v for v in values if v is not None]
    if not known or (min(known) >= -(2**63) and max(known) < 2**63):
        return pa.array(values, pa.int64())
    # costs of huge weights or odd fractions stay exact
    return pa.array(values, pa.decimal256(76, 0))


def _column(name: str, values: list[Any]) -> pa.Array:
    if name in _TEXT:
        return pa.array(values, pa.string())
    if name in _BOOL:
        return pa.array(values, pa.bool_())
    if name in _REAL:
        return pa.array(values, pa.float64())
    return _integers(values)


def write_cells(cells: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write derived cells as Parquet with the format version in its schema; equal cells make equal bytes."""
    arrays = [_column(name, [cell[name] for cell in cells]) for name in COLUMNS]
    table = pa.Table.from_arrays(arrays, names=list(COLUMNS))
    table = table.replace_schema_metadata({"softhit_cells": str(FORMAT)})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_cells(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read ``cells.parquet`` back, as one dictionary per cell.

    Raises
    ------
    InvalidInput
        The file is missing, is no Parquet file of cells, or has another format version.
    """
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise InvalidInput(
            f"{os.fspath(path)!r} does not exist; run a sweep into that folder first"
        ) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(f"{os.fspath(path)!r} is no readable Parquet file: {error}") from None
    version = (table.schema.metadata or {}).get(b"softhit_cells")
    if version is None:
        raise InvalidInput(f"{os.fspath(path)!r} is not a file of cells")
    if version != str(FORMAT).encode():
        raise InvalidInput(
            f"{os.fspath(path)!r} has cells of format {version.decode()}; this softhit reads format {FORMAT}"
        )
    rows: list[dict[str, Any]] = table.to_pylist()
    whole = [f.name for f in table.schema if pa.types.is_decimal(f.type)]
    for row in rows:
        row.update({name: int(row[name]) for name in whole if row[name] is not None})
    return rows


def write_csv(rows: Iterable[Mapping[str, Any]], path: Path, columns: Sequence[str]) -> None:
    """Write rows as CSV; what is unknown is an empty field, floats keep every digit."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(["" if row[name] is None else row[name] for name in columns] for row in rows)


def write_text(text: str, path: Path) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
