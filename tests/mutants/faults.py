"""The list of faults made by hand: read it, and put one fault into a tree of sources."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("faults.toml")


class NotFound(Exception):
    """The text to be replaced is not there exactly once, so the list has fallen behind the code."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    id : str
    file : str
        Path below the root of the repository.
    breaks : str
        What is wrong, in words.
    old, new : str
        The text that is replaced, which occurs in the file exactly once, and what replaces it.
    by : str
        The test that must notice: a file of tests, or ``file::name`` as pytest takes it.
    """

    id: str
    file: str
    breaks: str
    old: str
    new: str
    by: str

    def apply(self, root: Path) -> None:
        """Put the fault into the tree at ``root``; the compiled form of the module goes.

        Raises
        ------
        NotFound
        """
        path = root / self.file
        text = path.read_text() if path.is_file() else ""
        if (times := text.count(self.old)) != 1:
            raise NotFound(f"its text occurs {times} times in {self.file}, not once")
        # a file of its own: the tree may consist of links
        path.unlink()
        path.write_text(text.replace(self.old, self.new))
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            stale.unlink()


def read_faults(path: Path = LIST) -> list[Fault]:
    """Return all faults, in the order of the file.

    Raises
    ------
    ValueError
        An id is used twice, or a fault changes nothing.
    """
    faults = [Fault(**entry) for entry in tomllib.loads(path.read_text())["fault"]]
    ids = [fault.id for fault in faults]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ValueError(f"the list has several faults named {', '.join(twice)}")
    if idle := [fault.id for fault in faults if fault.old == fault.new]:
        raise ValueError(f"these faults change nothing: {', '.join(idle)}")
    return faults
