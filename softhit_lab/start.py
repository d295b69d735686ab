"""The door of the command ``softhit``: Ctrl-C ends it quietly, also while Python still reads the packages."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

__all__ = ["main"]

_PATIENCE = 2.0
"""Seconds after a Ctrl-C in which another one changes nothing, so that whatever cleans up can finish."""


class _Once:
    """A handler that turns Ctrl-C into KeyboardInterrupt, but not again while the first one is dealt with."""

    def __init__(self) -> None:
        self.heard = -_PATIENCE

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.heard >= _PATIENCE:
            self.heard = now
            raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    # nothing has begun, so there is nothing to clean up
    os._exit(130)


def main() -> None:
    """Import the command line and run it."""
    # whoever started this may want Ctrl-C ignored, as nohup does for other signals
    wanted = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if wanted:
        signal.signal(signal.SIGINT, _leave)
    from softhit_lab.cli import main as run

    if wanted:
        signal.signal(signal.SIGINT, _Once())
    run()
