"""Live progress of a long run on standard error: a changing line on a terminal, plain ones elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["PAUSE", "Telling"]

PAUSE = 2.0
"""Seconds between plain lines, at least; what ends sooner prints none."""


class Telling:
    """Takes lines of text while it is open.

    Parameters
    ----------
    console : Console
        Of standard error. On a terminal the last line is shown with the time that has passed, and is gone at
        the end; elsewhere a line is printed when the last one is :data:`PAUSE` seconds old.
    quiet : bool
        Show nothing at all.
    clock : callable
        Seconds.
    """

    def __init__(
        self, console: Console, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._quiet, self._clock = console, quiet, clock
        self._told = clock()
        self._live: Progress | None = None
        if console.is_terminal and not quiet:
            text = TextColumn("{task.description}", markup=False)
            self._live = Progress(SpinnerColumn(), text, TimeElapsedColumn(), console=console, transient=True)
            self._task = self._live.add_task("reading and compiling", total=None)

    def __enter__(self) -> Telling:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def announce(self, line: str) -> None:
        """Print a line that stays."""
        if not self._quiet:
            self._console.print(line, markup=False, soft_wrap=True)

    def __call__(self, line: str) -> None:
        """Show how far the run is."""
        if self._live is not None:
            self._live.update(self._task, description=line)
        elif not self._quiet and self._clock() - self._told >= PAUSE:
            self._told = self._clock()
            self.announce(line)
