"""What verbs share when they print and write: the console, exact numbers, and outputs checked beforehand."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console

from softhit.errors import InvalidInput
from softhit_lab.cells import write_csv, write_text
from softhit_lab.tables import Sheet

__all__ = ["check_place", "console", "show_number", "write_json", "write_sheet"]


def console(error: bool = False) -> Console:
    """Return a console that does not fold tables when nobody watches."""
    made = Console(stderr=error, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = 160
    return made


def show_number(value: Fraction) -> str:
    """Show a cost exactly where that is short, else to ten digits."""
    text = f"{float(value):.10g}"
    return text if Fraction(text) == value or value.denominator > 10_000 else f"{text} = {value}"


def check_place(path: Path | None) -> None:
    """Refuse an output that cannot be written before any work is done."""
    if path is None:
        return
    folder = path.absolute().parent
    what = None
    if path.is_dir():
        what = "is a folder"
    elif not folder.is_dir():
        what = "lies in a folder that does not exist"
    elif not os.access(folder, os.W_OK):
        what = "lies in a folder that cannot be written into"
    if what is not None:
        raise InvalidInput(f"cannot write {str(path)!r}: it {what}")


def write_json(facts: Mapping[str, Any], path: Path | None) -> None:
    if path is not None:
        write_text(json.dumps(facts, indent=2) + "\n", path)


def write_sheet(sheet: Sheet, path: Path | None) -> None:
    if path is not None:
        write_csv([dict(zip(sheet.head, row, strict=True)) for row in sheet.rows], path, sheet.head)
