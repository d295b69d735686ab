"""Build the library that kills its own process at a numbered write, and reach it from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

__all__ = ["MODES", "Shim", "build"]

MODES = {"count": 0, "before": 1, "after": 2, "torn": 3}


def build(folder: Path) -> Path:
    """Compile ``shim.c`` into the folder; raise FileNotFoundError when there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise FileNotFoundError("a C compiler (cc or gcc) is needed to interpose the calls of libc")
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", library, source], check=True)
    return library


class Shim:
    """The library that was preloaded into this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.crash_calls.restype = ctypes.c_long
        self._library.crash_data.restype = ctypes.c_long

    def arm(self, folder: Path, mode: str = "count", n: int = 0, report: int = -1) -> None:
        """From now on count the calls below the folder, and die at number ``n`` of them (from 1).

        ``report`` is a file descriptor that gets a line "number call file" for each call (``count``) or for
        the one of the kill. ``torn`` numbers only the writes of at least two bytes, and writes half of one.
        """
        self._library.crash_arm(ctypes.c_long(n), MODES[mode], str(folder).encode(), report)

    def disarm(self) -> None:
        """Count no longer."""
        self._library.crash_disarm()

    @property
    def calls(self) -> int:
        """How many calls there were since :meth:`arm`."""
        return int(self._library.crash_calls())

    @property
    def data(self) -> int:
        """How many of them wrote at least two bytes."""
        return int(self._library.crash_data())
