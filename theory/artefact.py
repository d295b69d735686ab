"""Stored results of long computations: a table with the command, the seed and the versions that made it."""

from __future__ import annotations

import csv
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import softhit
from softhit.errors import InvalidInput
from softhit.io import replacing

__all__ = ["FOLDER", "read", "write"]

FOLDER = Path(__file__).parent / "results"


def write(path: Path, rows: Sequence[Mapping[str, Any]], command: str, seed: int, **facts: object) -> None:
    """Write the rows as csv below ``# key: value`` lines; all rows have the same columns.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder) / "x.csv", [{"k": 2, "ratio": 1.5}], "python -m theory.c1", seed=0)
    ...     read(Path(folder) / "x.csv")
    [{'k': 2, 'ratio': 1.5}]
    """
    if not rows:
        raise InvalidInput("rows: at least one, got none")
    used = ", ".join([f"softhit {softhit.__version__}", *(f"{n} {version(n)}" for n in ("numpy", "numba"))])
    head = {"command": command, "seed": seed, "versions": used, "machine": platform.machine(), **facts}
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {key}: {value}\n" for key, value in head.items())
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read(path: Path) -> list[dict[str, Any]]:
    """Read the rows; whole numbers, decimals and text are told apart by their form."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in file if not line.startswith("#")]
    return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(lines)]
